#include "app/hint_index.h"

#include "base/hash.h"
#include <string.h>

/* The item's slot, or the free one where it would stand; half of them are always free. */
static unsigned slot_of(const struct hint_index *x, struct item item)
{
    uint64_t h = hash_mix64((uint64_t)item.activity_id ^ hash_mix64((uint64_t)item.sku_id));
    unsigned at = (unsigned)h & (HINT_INDEX_SLOTS - 1);
    while (x->slots[at] && !item_eq(x->items[x->slots[at] - 1], item))
        at = (at + 1) & (HINT_INDEX_SLOTS - 1);
    return at;
}

int hint_index_find(const struct hint_index *x, struct item item)
{
    return x->slots[slot_of(x, item)] - 1;
}

int hint_index_add(struct hint_index *x, struct item item)
{
    if (x->n == HINT_ITEMS_MAX)
        return -1;
    x->items[x->n] = item;
    x->slots[slot_of(x, item)] = (int16_t)(x->n + 1);
    return x->n++;
}

void hint_index_clear(struct hint_index *x)
{
    x->n = 0;
    memset(x->slots, 0, sizeof(x->slots));
}
