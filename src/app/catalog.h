/* The items: read again and again from the stock, told to the queue; and the backlog of each, for
 * recovery and (inside the adapter) for the metrics (rules 26, 31). What is not known is never
 * taken for zero. Loop thread. */
#pragma once

#include "base/sched.h"
#include "port/queue.h"
#include "port/stock.h"

#define CATALOG_LAG_TICK_US 1000000
#define CATALOG_LAG_UNDER_WAY 32
#define CATALOG_LAG_FRESH_US 5000000

struct worker;

struct catalog_item {
    struct item item;
    int64_t lag_at_us; /* when its backlog was known; 0: never */
    int64_t waiting, in_hand, oldest_age_ms;
    int64_t pending; /* unsettled reservations, as recovery last saw them; -1: not known */
};
struct catalog_ask {
    struct queue_lag op;
    struct worker *w;
    bool busy;
};
struct catalog {
    struct catalog_item items[STOCK_ITEMS_MAX];
    int n;
    struct timer items_timer, lag_timer;
    struct stock_items op;
    struct item read[STOCK_ITEMS_MAX];
    bool reading;
    struct catalog_ask asks[CATALOG_LAG_UNDER_WAY];
    int next; /* rotates */
};

void catalog_start(struct worker *w);
void catalog_stop(struct worker *w);
/* The backlog of an item if it is known and fresh; NULL if not. */
const struct catalog_item *catalog_backlog(struct worker *w, struct item item);
void catalog_saw_pending(struct worker *w, struct item item, int64_t pending);
