/* The order worker without its sockets and threads: what its flows share, and its life.
 *
 *   intake ─→ lanes ─→ place ─→ finish ─→ disposal (ack)
 *     │         ↑        │         └────→ tell ─→ marks
 *     │      suspects    ├─→ burial ────→ disposal (ack)
 *     ├─────────┘        └─→ disposal (retry later)
 *     └─→ returned ─→ lanes, burial or disposal: what the broker gave up
 *   relay, recover, sweep, reconcile, project, retain, catalog, health: beside it, by the clock
 *   epoch_watch ─→ rebuild: an item that Redis lost
 *
 * All of it belongs to one loop's thread; blocking work goes to the crew through share. Every wait
 * is bounded: a message in hand ends acked, given back, or dropped when its lease ends. */
#pragma once

#include "app/burial.h"
#include "app/catalog.h"
#include "app/epoch_watch.h"
#include "app/hand.h"
#include "app/health.h"
#include "app/intake.h"
#include "app/lanes.h"
#include "app/lease.h"
#include "app/marks.h"
#include "app/progress.h"
#include "app/project.h"
#include "app/rebuild.h"
#include "app/reconcile.h"
#include "app/recover.h"
#include "app/relay.h"
#include "app/retain.h"
#include "app/returned.h"
#include "app/share.h"
#include "app/suspects.h"
#include "app/sweep.h"
#include "app/tell.h"
#include "app/unsure.h"
#include "app/worker_metrics.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sched.h"
#include "core/batch_limit.h"
#include "port/jobs.h"
#include "port/queue.h"
#include "port/results.h"
#include "port/stock.h"

/* Durations in µs; the meaning of each is in daemon/settings.c. */
struct worker_config {
    int workers, queue, receive_max, batch_max, max_attempts;
    int64_t poll_us, backoff_min_us, backoff_max_us;
    int64_t batch_target_us, tx_budget_us, retry_base_us, retry_max_us;
    int tx_attempts, retry_percent, retry_floor;
    int ack_attempts;
    int64_t ack_base_us, ack_max_us, store_us;
    int64_t redeliver_base_us, redeliver_max_us;
    int64_t lease_margin_us;
    int breaker_threshold;
    int64_t breaker_cooldown_us, probe_us;
    int64_t relay_after_us, relay_interval_us;
    int relay_batch;
    int64_t recover_after_us, recover_interval_us, recover_unknown_age_us;
    int recover_rate, max_republish;
    int64_t max_hold_us, quarantine_hold_us;
    int64_t unpaid_us, parked_give_up_us;
    int64_t reconcile_interval_us;
    int reconcile_rate;
    bool reconcile_mend;
    int64_t results_interval_us;
    int results_batch;
    int64_t retain_after_us, retain_strays_us, retain_interval_us, retain_idle_us;
    int retain_batch;
    int64_t items_refresh_us, rebuild_drain_us;
    int max_items;
};

struct worker {
    struct worker_config cfg;
    struct sched *sched;
    int64_t (*wall_us)(struct worker *w);
    struct queue *queue;
    struct stock *stock;
    struct jobs *jobs;
    struct results *results; /* NULL: results are not published */
    struct jobs *upkeep;     /* a connection beside those of jobs, for what no order may wait for:
                                project, retain. NULL: there is neither */
    char life[33];           /* random: names this process in PostgreSQL (rule 23) */

    struct rng rng;
    struct ctx root; /* of every job */
    struct worker_metrics metrics;
    struct hand hand;
    struct share share;
    struct intake intake;
    struct lanes lanes;
    struct batch_limit batch_limit;
    struct suspects suspects;
    struct returned returned;
    struct burials burials;
    struct lease lease;
    struct unsure unsure;
    struct marks marks;
    struct tell tell;
    struct progress progress;
    struct health health;
    struct relay relay;
    struct recover recover;
    struct sweep sweep;
    struct reconcile reconcile;
    struct project project;
    struct retain retain;
    struct catalog catalog;
    struct epoch_watch epoch_watch;
    struct rebuild rebuild;

    bool stopping; /* nothing new is begun */
    bool canceled; /* nothing is finished either: what is in hand goes without an ack */
    int ops;       /* operations under way: the end waits for them */
    void (*on_idle)(struct worker *w); /* see worker_stop */
    struct timer changed;
};

/* Ports, sched, wall_us, cfg and life are set; the rest is zero. */
void worker_init(struct worker *w);
void worker_start(struct worker *w);
/* Stops receiving; what is in hand is finished. on_idle comes once, when nothing is under way any
 * more: then worker_deinit is allowed. */
void worker_stop(struct worker *w, void (*on_idle)(struct worker *w));
/* After worker_stop: gives up what is still in hand (unacked, so redelivered). */
void worker_cancel(struct worker *w);
void worker_deinit(struct worker *w);

/* --- for the flows --- */
/* Something ended or a slot is free: whoever waits looks again, soon, never inside this call. */
void worker_changed(struct worker *w);
/* Operations and jobs that outlive the message they were for. */
static inline void worker_op_begun(struct worker *w)
{
    w->ops++;
}
static inline void worker_op_ended(struct worker *w)
{
    w->ops--;
    worker_changed(w);
}
/* A new or returned message to where it waits; may be called from any flow. */
void worker_route(struct work *k);
/* What was in a transaction and is to be in another: as worker_route, but before all others. */
void worker_return(struct work *k);
/* Takes one out of where it waits. */
void worker_unroute(struct work *k);
/* Whether new work may start: PostgreSQL usable, not cancelled. */
bool worker_may_place(const struct worker *w);
void worker_outcome(struct work *k, enum work_outcome outcome);
int64_t worker_store_deadline(const struct worker *w);
static inline int64_t worker_wall_ms(struct worker *w)
{
    return w->wall_us(w) / 1000;
}
