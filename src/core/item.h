/* What is sold: one SKU in one activity. All of an item's Redis keys share one hash tag and so one
 * cluster slot. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct item {
    int64_t activity_id, sku_id; /* both > 0 */
};

static inline bool item_eq(struct item a, struct item b)
{
    return a.activity_id == b.activity_id && a.sku_id == b.sku_id;
}

/* Where an item's Redis state stands: epoch changes with a rebuild, seq with every change of buyers
 * or rise of stock (rule 7). Ordered by epoch, then seq. */
struct item_version {
    int64_t epoch, seq;
};

static inline int item_version_cmp(struct item_version a, struct item_version b)
{
    if (a.epoch != b.epoch)
        return a.epoch < b.epoch ? -1 : 1;
    return a.seq < b.seq ? -1 : a.seq > b.seq;
}
