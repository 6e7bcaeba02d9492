/* Holds one of the 1024 instance numbers for the order ids of this process (rule 38).
 *
 *   TAKE a random one ─ held ─► KEEP (a third of the lease) ─► RENEW ─ held ─► KEEP
 *     ▲   │ somebody's,          ▲                               │
 *     │   │ or no answer         └── PAUSE while still valid ◄───┤ no answer
 *     └ PAUSE ◄──────────── lost: no ids (503) ◄─────────────────┘ somebody else's, or run out
 *
 * The lease counts from before it was asked for, minus a tenth for clocks that run differently; the
 * highest time that ids may carry until it ends is written into it, so that the number's next owner
 * starts beyond. Invariant: ids are granted only while a lease is certainly ours. One thread. */
#pragma once

#include "base/flow.h"
#include "base/metric.h"
#include "base/rng.h"
#include "base/sched.h"
#include "core/order_id.h"
#include "port/stock.h"

enum slot_state { SLOT_TAKE, SLOT_PAUSE, SLOT_KEEP, SLOT_RENEW, SLOT_STOPPED, SLOT_STATES };

struct slot {
    /* set by the owner before slot_start */
    struct stock *stock;
    struct sched *sched;
    struct rng *rng;
    struct order_id_source *ids;
    int64_t lease_us, call_us;
    int64_t (*wall_ms)(struct slot *s);

    /* internal */
    struct flow flow;
    struct timer timer;
    struct stock_slot_lease call;
    char nonce[33];
    int number; /* -1: none is held */
    int64_t asked_us, valid_until_us;
    bool stopped;
    struct metric *held;
};

void slot_start(struct slot *s);
/* Revokes the ids; the state is SLOT_STOPPED at once or, when a call is under way, after its end.
 * The lease itself ends by its time. */
void slot_stop(struct slot *s);
bool slot_stopped(const struct slot *s);

/* An instance number that is ours by configuration: ids start where no earlier life of this process
 * can have given one out. */
void slot_fixed(struct order_id_source *ids, int instance, int64_t wall_ms);

extern struct flow_kind slot_kind;
