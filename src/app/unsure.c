#include "app/unsure.h"

#include <string.h>

/* Message ids are made of hashes and random bits: half of one is as good as all of it for a count.
 */
static uint64_t key_of(const struct uuid *id)
{
    uint64_t key;
    memcpy(&key, id->b + 8, sizeof key);
    return key;
}

void unsure_init(struct unsure *u)
{
    map_init(&u->messages, UNSURE_MAX);
}

void unsure_deinit(struct unsure *u)
{
    map_deinit(&u->messages);
}

void unsure_add(struct unsure *u, const struct uuid *message_id)
{
    if (u->messages.n >= UNSURE_MAX) {
        unsure_deinit(u);
        unsure_init(u);
    }
    map_put(&u->messages, key_of(message_id), 1);
}

bool unsure_take(struct unsure *u, const struct uuid *message_id)
{
    return u->messages.n > 0 && map_remove(&u->messages, key_of(message_id));
}
