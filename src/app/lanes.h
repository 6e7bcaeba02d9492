/* One lane per item: its messages wait here, and at most one transaction per item is under way.
 * Batches form by themselves: whoever's turn it is takes all that waits, up to what is done in time
 * (core/batch_limit.h), and never waits for more. Redelivered messages do not travel with first
 * deliveries, so that one that fails again and again holds up few; nor commands with orders. Loop
 * thread. */
#pragma once

#include "base/list.h"
#include "core/item.h"

struct worker;
struct work;
struct batch;

struct lane {
    struct list link;   /* of the ready list, or to itself */
    struct list bucket; /* of its hash bucket, or of the free lanes */
    struct item item;
    struct list waiting; /* struct work.link */
    int n;
    bool busy;       /* a transaction of this item is under way */
    int64_t done_us; /* when the last one succeeded; 0: none yet */
};

struct lanes {
    struct lane *all; /* as many as slots: each lane in use has a message in hand */
    struct list *buckets, free, ready;
    unsigned mask;
    int busy, waiting;
};

void lanes_init(struct worker *w, int slots);
void lanes_deinit(struct worker *w);
void lanes_add(struct work *k);
/* Before all others: it was in a transaction already. */
void lanes_add_front(struct work *k);
/* Starts one transaction if a lane is ready and may; false if not. For share_pump. */
bool lanes_start_one(struct worker *w);
/* A transaction of the item begins or ends; begin: false when one is under way. */
bool lanes_begin(struct worker *w, struct item item);
void lanes_end(struct worker *w, struct item item);
/* It succeeded (between begin and end). */
void lanes_done(struct worker *w, struct item item);
/* Whether one succeeded of late: what waits in the lane has its turn coming. */
bool lanes_moves(const struct work *k);
/* A waiting message leaves without a transaction. */
void lanes_remove(struct work *k);
