/* Reconciliation (rule 40, I5): are the units of an item all where they must be? Compared by
 * reservation, while it sells.
 *
 *   IDLE → BEGIN → INSPECT → SOURCE → HELD → LOOK → JUDGE → PUBLISH → SOURCE … → MEND … → END
 *
 *   BEGIN    this worker's turn at the item (a lease in PostgreSQL), and PostgreSQL's books
 *   INSPECT  Redis's, in one moment: free + held = total there, whatever is in flight. An item with
 *            a broken key is paused, alone, in that step. One of another epoch is being rebuilt
 *   SOURCE   a page of three walks: the buyers (each holds a unit), PostgreSQL's active orders
 *            (each must), what is pending
 *   HELD     what Redis has of them, each in one moment: entry, record, pending or not
 *   LOOK     of buyers: what PostgreSQL knows of them. On its way is not wrong: what is unsettled
 *            in Redis, or in the outbox (reconcile_judge.h)
 *   PUBLISH  after a change of PostgreSQL's timeline: the page's orders that it does not have, with
 *            the same ids, until a whole walk finds all of them (failures.md 22)
 *   MEND     what two rounds found alike, in the safe direction (reconcile_mend.h)
 *   END      told: reconciliation_runs, log, seckill_inventory_discrepancy
 *
 * Bounded: one page at a time, cfg.reconcile_rate rows a second, an item's rounds at least
 * cfg.reconcile_interval apart. A call that fails ends the round, which then says nothing. Loop
 * thread. */
#pragma once

#include "app/reconcile_findings.h"
#include "app/reconcile_mend.h"
#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "base/sched.h"

#define RECONCILE_ROWS 64
#define RECONCILE_MENDS 64        /* in one round; the others' turn is the next */
#define RECONCILE_LEASE_MS 15000  /* renewed while a round goes on */
#define RECONCILE_TICK_US 1000000 /* between looks for what an operator asks */
#define RECONCILE_ITEM_US 20000   /* between items */

struct worker;

enum reconcile_walk { WALK_BUYERS, WALK_ORDERS, WALK_PENDING, WALKS };

struct reconcile_counts {
    int64_t active, in_flight, returning;
    /* Orders of Redis that PostgreSQL does not have: placed again just now; what became of them, or
     * will, has not reached the buyer's record. */
    int64_t republished, unanswered;
};

struct reconcile {
    struct flow flow;
    struct timer timer;
    bool stopped;
    int item_at;           /* rotates over the catalogue */
    int64_t next_cycle_us; /* when the rotation begins anew */
    bool only_asked;       /* the rotation rests */
    bool renew, lost;      /* the lease is to be renewed; it is another's */
    int64_t leased_us;

    struct item item;
    int64_t started_ms;
    struct orders_books books;
    struct stock_item_info info;
    bool walking; /* after a timeline change */
    struct reconcile_counts counts;

    enum reconcile_walk walk;
    struct stock_holder *page; /* [STOCK_HOLDERS_PAGE] */
    char cursor[24];
    int page_n, page_at;
    bool page_last;
    int64_t after_user;
    int offset;
    bool last; /* of this walk */

    struct stock_held_row *held; /* [RECONCILE_ROWS] and those beside it */
    struct orders_look *looks;
    struct orders_active *orders;
    int n;
    int lost_at; /* PUBLISH: the next row to look at */
    bool *is_lost;

    union {
        struct stock_inspect inspect;
        struct stock_holders holders;
        struct stock_held held;
    } op;
    struct stock_pending pending;
    struct share_job job;
    struct ctx ctx;
    struct strbuf detail;
    struct orders_reconciled end;
    int mend_at, mends, dropped;
    struct mend mend;
    struct findings findings;
};

void reconcile_start(struct worker *w);
void reconcile_stop(struct worker *w);
bool reconcile_idle(const struct worker *w);
void reconcile_deinit(struct worker *w);
/* The mend that was started ended (worker.reconcile.mend.rc). */
void reconcile_mended(struct worker *w);
