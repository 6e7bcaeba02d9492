/* Brings an item that Redis lost, or rolled back, to what PostgreSQL says of it (rules 33–37;
 * docs/decisions/0021). Buyers hear 503 meanwhile.
 *
 *   TAKE → BEGIN → DRAIN ─┬→ SURVEY ⇄ KEEP ─┬→ COUNT → PAGE ⇄ RESTORE → RESETTLE → FINISH → over
 *                  ⇅      └─ nothing there ─┘                                 (END in between)
 *                 BEAT
 *
 *   TAKE      epoch + 1 in PostgreSQL, by compare-and-set: this attempt is that epoch
 *   BEGIN     Redis closes the item at this epoch: nobody reserves, settle answers "later".
 *             Then the reports of the item are taken away
 *   DRAIN     what the queue still holds of it becomes orders first, for a bounded time
 *   SURVEY    the reservations that wait in Redis are kept in PostgreSQL before anything is emptied
 *   COUNT     who holds a unit, at one instant: those without an outcome, and the active orders
 *   RESTORE   each of them gets record, buyers entry and place in pending, a page a step
 *   RESETTLE  where anything was left of the item: all its outbox rows are to be settled again
 *   END       open, with free = total − those who hold one; FINISH notes it
 *
 * Each step carries the epoch and is refused at another (rule 35), and a step in Redis is done once
 * however late it arrives. So whoever does this may die or stall anywhere: the next attempt is
 * another epoch, and takes along what this one had kept. A call that fails or whose answer is lost
 * is made three times; then this attempt is over, and the watch begins another.
 *
 * Invariant: between BEGIN and END nobody's unit changes hands in Redis. One at a time; loop
 * thread, jobs on the crew. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "base/sched.h"
#include "port/orders.h"
#include "port/queue.h"
#include "port/stock.h"

#define REBUILD_TRIES 3
#define REBUILD_AGAIN_US 100000
#define REBUILD_POLL_US 50000           /* between looks whether the queue is drained */
#define REBUILD_BEAT_US 1000000         /* a third of what others wait for a sign of life */
#define REBUILD_JOB_US INT64_C(9000000) /* one call to PostgreSQL: within its statement_timeout */

struct worker;

enum rebuild_outcome {
    REBUILD_DONE,
    REBUILD_MOVED, /* somebody else took the item over, or had done it already */
    REBUILD_BUSY,  /* somebody else is at it */
    REBUILD_FAILED,
    REBUILD_OUTCOMES
};

struct rebuild {
    struct flow flow;
    void (*on_end)(struct worker *w, enum rebuild_outcome outcome);
    struct item item;
    const char *reason; /* static */
    int64_t from_epoch;
    bool finish_only;
    enum rebuild_outcome outcome;
    int64_t asked_us, begun_us, beat_us;
    int64_t drained_us, counted_us; /* since asked, for the log */
    int64_t restored, step, resettle_from, resettle_to;
    struct uuid after; /* the last that was read */
    struct orders_rebuild it;
    struct orders_held held;

    /* the call under way */
    void (*call)(struct worker *w);
    int tries, rc;
    struct timer timer;
    struct share_job job;
    struct ctx ctx;
    union {
        struct stock_unreport unreport;
        struct stock_rebuild_begin begin;
        struct stock_rebuild_restore restore;
        struct stock_rebuild_end end;
        struct stock_pending pending;
        struct queue_lag lag;
    } op;
    bool was_there;
    int offset;                                 /* of the survey */
    struct orders_hold holds[ORDERS_HOLDS_MAX]; /* a page */
    int n_holds;
    struct stock_hold rows[STOCK_RESTORE_MAX]; /* the one before, for Redis */
    int n_rows;
    bool op_busy, ahead, page_read; /* a call to Redis; a page that is read ahead; it is there */
    int page_rc;
};

void rebuild_stop(struct worker *w); /* no timers any more */
/* The item of this epoch, as PostgreSQL said. on_end once, never inside. */
void rebuild_start(struct worker *w, struct item item, int64_t from_epoch, const char *reason,
                   void (*on_end)(struct worker *w, enum rebuild_outcome outcome));
/* An attempt that opened the item again and died before it noted that. */
void rebuild_note_finished(struct worker *w, struct item item, int64_t epoch,
                           void (*on_end)(struct worker *w, enum rebuild_outcome outcome));
