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
    *u = (struct unsure){0};
    map_init(&u->messages, UNSURE_MAX);
}

void unsure_deinit(struct unsure *u)
{
    map_deinit(&u->messages);
}

static uint64_t *place_of(struct unsure *u, uint64_t key)
{
    return &u->counted[key % UNSURE_COUNTED];
}

void unsure_add(struct unsure *u, const struct uuid *message_id)
{
    uint64_t key = key_of(message_id);
    if (*place_of(u, key) == key)
        return;
    if (u->messages.n >= UNSURE_MAX) {
        map_deinit(&u->messages);
        map_init(&u->messages, UNSURE_MAX);
    }
    map_put(&u->messages, key, 1);
}

void unsure_counted(struct unsure *u, const struct uuid *message_id)
{
    uint64_t key = key_of(message_id);
    *place_of(u, key) = key;
}

bool unsure_take(struct unsure *u, const struct uuid *message_id)
{
    return u->messages.n > 0 && map_remove(&u->messages, key_of(message_id));
}
