/* Messages that the broker gave up and moved to its dead letter queue (queue_message.dead). Its
 * count of deliveries is no judgement of ours: outages and dead processes made most of it. So they
 * are asked about, many at once, and decided on; none is placed because it is here (rule 22).
 *
 *   waiting → ASK → settled before                 to its lane: settled again, acked
 *                 → quarantined before             buried again: its dead letter is there, acked
 *                 → own failures ≥ max_attempts    buried
 *                 → anything else                  published again, then acked (retry_later): its
 *                                                  deliveries begin at 1, so rule 23 sees it again
 *                 → the asking failed              left to its lease, not acked
 *   waiting → dropped                              its lease was over (lease.h)
 *
 * Invariant: at most one ask is under way. Bounded by what is in hand. Loop thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/list.h"
#include "port/orders.h"

#define RETURNED_ASK_MAX 64

struct worker;
struct work;

struct returned {
    struct list waiting; /* struct work.link */
    int n_waiting;
    bool busy;
    struct share_job job;
    struct ctx ctx;
    int n;
    struct work *asked[RETURNED_ASK_MAX];
    struct uuid ids[RETURNED_ASK_MAX];
    struct orders_inbox inbox[RETURNED_ASK_MAX];
    int counts[RETURNED_ASK_MAX];
};

void returned_init(struct worker *w);
void returned_add(struct work *k);
/* Goes on if it can. */
void returned_poke(struct worker *w);
/* Whether a waiting work waits here; and takes it out. */
bool returned_has(const struct work *k);
void returned_remove(struct work *k);
