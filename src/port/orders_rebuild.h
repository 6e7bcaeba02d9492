/* What the orders port tells of items that Redis may have lost, and what a rebuild asks of it
 * (rules 33–37; sql/…_rebuild.sql). Part of port/orders.h. */
#pragma once

#include "core/item.h"
#include "core/uuid.h"
#include <stdbool.h>
#include <stdint.h>

/* A warmed item whose keys are not over, nor about to be. */
struct orders_watched {
    struct item item;
    struct item_version version; /* its epoch, and the highest seq among its orders */
    int64_t epoch_age_ms;        /* since the epoch last moved, or the item was made */
    bool opened;                 /* else it has nothing to lose (rule 33) */
    bool asked;                  /* an operator wants it rebuilt */
    bool unfinished;             /* the rebuild of this epoch has not come to its end */
};

/* An attempt that was taken: its epoch, and what the item is. */
struct orders_rebuild {
    int64_t epoch, total, starts_ms, ends_ms, expires_ms;
    char state[8]; /* OPEN, PAUSED, CLOSED: as decided by operators */
};

/* Who holds a unit. */
struct orders_hold {
    struct uuid reservation_id, message_id, request_id;
    int64_t user_id, order_id, created_at_ms;
    int64_t epoch; /* that its record had; only to keep it */
    bool ordered;  /* an active order; else a reservation without an outcome */
};
#define ORDERS_HOLDS_MAX 512 /* in one call */

struct orders_held {
    int64_t total, ordered, live;
};
