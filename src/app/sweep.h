/* What nobody sends a message about, once a second: commands that waited for their order (rule 27),
 * and orders that nobody pays (rule 31).
 *
 *   IDLE → PARKED → EXPIRE → SETTLE (one item at a time) … → IDLE
 *
 *   PARKED   commands whose reservation has an outcome now, or that waited for parked_give_up
 *            without one: run as if they had just come, those of one item and kind together. One
 *            that fails by its own fault (rule 20) max_attempts times is quarantined
 *   EXPIRE   a few items' unpaid orders, in rotation: closed when the time to pay is over and
 *            every payment that was accepted in it has been run, as far as the queue's age and
 *            recovery's look at those that the queue may have lost (remembered.h) tell;
 *            where it is not known, max_hold later (a payment that comes after that is refunded)
 *   SETTLE   what ended: its units go back in Redis at once; what fails is the relay's
 *
 * It says nothing to the breaker: what waits behind the orders for a connection may run out of time
 * while PostgreSQL is well. Several workers share it: parked commands are claimed, orders in hand
 * are skipped. A call that fails is made again at the next tick. Bounded: a page of each per tick.
 * Loop thread; the calls run on the crew, one job at a time. */
#pragma once

#include "app/settling.h"
#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "base/sched.h"
#include "port/orders.h"

#define SWEEP_US 1000000
#define SWEEP_AGAIN_US 50000 /* a page was full: there may be more */
#define SWEEP_ITEMS 64       /* looked at for unpaid orders in one tick */
#define SWEEP_ENDS 256       /* orders that end in one tick */

struct worker;

struct sweep {
    struct flow flow;
    struct timer timer;
    bool stopped, full;
    struct share_job job;
    struct ctx ctx;

    struct orders_parked *parked; /* [ORDERS_PARKED_MAX] */
    struct sweep_command *commands;
    int n_commands;
    struct uuid *faulty; /* [ORDERS_PARKED_MAX]: that failed by their own fault */
    int n_faulty, quarantined;

    struct sweep_item {
        struct item item;
        int64_t created_before_ms;
    } items[SWEEP_ITEMS];
    int n_items, looked_at; /* of them, answered */
    int next_item;          /* rotates over the catalogue */

    struct orders_unsettled *ends; /* [SWEEP_ENDS] */
    bool *taken;                   /* [SWEEP_ENDS] */
    int n_ends;
    struct settling settling;
};

void sweep_start(struct worker *w);
void sweep_stop(struct worker *w);
bool sweep_idle(const struct worker *w);
void sweep_deinit(struct worker *w);
/* Orders of the item created before this may be closed, by PostgreSQL's clock. */
int64_t sweep_created_before_ms(struct worker *w, struct item item);
