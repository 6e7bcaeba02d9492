/* What one loop knows of items' past, so that a store that has gone back is noticed before it sells
 * (rule 34a): restarted from an older snapshot, failed over to a replica that lacks the last
 * writes.
 *
 * A store that loses something loses the end of its history, so two things are enough:
 *  - `seen`, the newest version that was heard in any answer or by PUBLISH. Every reserve carries
 * it and is refused (STOCK_BEHIND) where the store has less: no state of the connection is needed,
 *    and nothing can slip in between a check and a reserve.
 *  - the witness, the newest reservation that this loop confirmed, since others may have raised the
 *    version again. A reserve carries it over each new connection until it was found there: where
 *    the newest is, the older ones are. It counts while it was confirmed within PAST_WITNESS_US
 *    before the item was last heard of, which an outage does not shorten.
 * The item is refused until the store has caught up, or has a newer epoch: it was rebuilt. For a
 * witness that is missing, for PAST_MISSING_US at most: it may have been taken away by an operator.
 *
 * Bounded: PAST_ITEMS items; where all places of an item are taken by others heard of within
 * PAST_IDLE_US, it is sold without a past (seckill_past_untracked_total). Of one loop. */
#pragma once

#include "base/metric.h"
#include "port/stock.h"

#define PAST_ITEMS 1024
#define PAST_WITNESS_US INT64_C(10000000)
#define PAST_MISSING_US INT64_C(60000000)
#define PAST_IDLE_US INT64_C(60000000)

struct past_item {
    struct item item;
    struct stock_past past;
    int64_t heard_us;         /* the last answer; 0: a free place */
    int64_t confirmed_us;     /* the witness */
    int64_t missing_until_us; /* it was not found; 0: no such thing */
};

struct past {
    struct past_item items[PAST_ITEMS];
    struct metric *behind, *untracked;
};

void past_init(struct past *p);
/* What the next reserve of the item carries. */
struct stock_past past_of(struct past *p, struct item item, int64_t now_us);
/* The reserve was answered (rc >= 0). */
void past_answered(struct past *p, const struct stock_reserve *r, int rc, int64_t now_us);
/* Any other answer of the store: whether it is below what it said before. */
bool past_behind(struct past *p, struct item item, struct item_version v, int64_t now_us);
/* By PUBLISH. */
void past_heard(struct past *p, struct item item, struct item_version v);
/* Its buyer was told that it is held: from here on the store must know it. */
void past_confirmed(struct past *p, const struct stock_reserve *r, int64_t now_us);
