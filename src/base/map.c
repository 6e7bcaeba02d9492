/* Linear probing with backward shift: a removal closes its gap, so there are no tombstones to
 * sweep. At most three quarters full. */
#include "base/map.h"

#include "base/err.h"
#include "base/hash.h"
#include <stdlib.h>

void map_init(struct map *m, size_t max)
{
    *m = (struct map){.max = max};
}

void map_deinit(struct map *m)
{
    free(m->slots);
    *m = (struct map){0};
}

static size_t home(const struct map *m, uint64_t key)
{
    return (size_t)hash_mix64(key) & (m->cap - 1);
}

/* The key's slot, or the free one where it would go. */
static struct map_slot *find(const struct map *m, uint64_t key)
{
    size_t at = home(m, key);
    while (m->slots[at].used && m->slots[at].key != key)
        at = (at + 1) & (m->cap - 1);
    return &m->slots[at];
}

bool map_get(const struct map *m, uint64_t key, uint64_t *value)
{
    if (m->n == 0)
        return false;
    const struct map_slot *slot = find(m, key);
    if (slot->used)
        *value = slot->value;
    return slot->used;
}

static bool grow(struct map *m)
{
    struct map old = *m;
    size_t cap = old.cap ? old.cap * 2 : 16;
    struct map_slot *slots = calloc(cap, sizeof *slots);
    if (!slots)
        return false;
    m->slots = slots;
    m->cap = cap;
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i].used)
            *find(m, old.slots[i].key) = old.slots[i];
    }
    free(old.slots);
    return true;
}

int map_put(struct map *m, uint64_t key, uint64_t value)
{
    struct map_slot *slot = m->cap ? find(m, key) : NULL;
    if (slot && slot->used) {
        slot->value = value;
        return 0;
    }
    if (m->n >= m->max)
        return ERR_OVERLOAD;
    if (m->n + 1 > m->cap / 4 * 3) {
        if (!grow(m))
            return ERR_OVERLOAD;
        slot = find(m, key);
    }
    *slot = (struct map_slot){.key = key, .value = value, .used = true};
    m->n++;
    return 0;
}

bool map_remove(struct map *m, uint64_t key)
{
    struct map_slot *slot = m->n ? find(m, key) : NULL;
    if (!slot || !slot->used)
        return false;
    size_t mask = m->cap - 1, gap = (size_t)(slot - m->slots);
    for (size_t at = (gap + 1) & mask; m->slots[at].used; at = (at + 1) & mask) {
        /* An entry may fill the gap only if the gap lies on its way, between its home and where it
         * stands. */
        if (((at - home(m, m->slots[at].key)) & mask) >= ((at - gap) & mask)) {
            m->slots[gap] = m->slots[at];
            gap = at;
        }
    }
    m->slots[gap] = (struct map_slot){0};
    m->n--;
    return true;
}

bool map_next(const struct map *m, size_t *at, uint64_t *key, uint64_t *value)
{
    for (; *at < m->cap; ++*at) {
        const struct map_slot *slot = &m->slots[*at];
        if (slot->used) {
            *key = slot->key;
            *value = slot->value;
            ++*at;
            return true;
        }
    }
    return false;
}
