/* Places of items: item → 0 … HINT_ITEMS_MAX − 1. Fixed size, no heap; internal to app/hint*. */
#pragma once

#include "core/item.h"
#include <stdint.h>

#define HINT_ITEMS_MAX 1024 /* as the catalogue's, STOCK_ITEMS_MAX */
#define HINT_INDEX_SLOTS (2 * HINT_ITEMS_MAX)

struct hint_index {
    int n;
    struct item items[HINT_ITEMS_MAX];
    int16_t slots[HINT_INDEX_SLOTS]; /* place + 1; 0: free */
};

/* The item's place; -1: it has none. */
int hint_index_find(const struct hint_index *x, struct item item);
/* A place for an item that has none: always x->n; -1 when all are taken. */
int hint_index_add(struct hint_index *x, struct item item);
/* Forgets all items. */
void hint_index_clear(struct hint_index *x);
