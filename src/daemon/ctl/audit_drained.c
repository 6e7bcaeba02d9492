/* Waiting until nothing is on its way, and I10: that it ends soon after the last fault, and that
 * everything is sold if buyers kept asking. A backlog that is not known is neither drained nor not:
 * the check is unknown then (rules 26, 31). */
#include "base/clock.h"
#include "base/map.h"
#include "daemon/ctl/audit.h"
#include "daemon/ctl/ctl_queue.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>

#define PAUSE_US (INT64_C(200) * 1000)
#define AWAY_US (INT64_C(1000) * 1000)

void audit_connect(struct audit *a)
{
    pg_audit_free(a->pg);
    a->pg = pg_audit_new(a->c->settings.pg.conninfo, a->c->settings.pg.connect_us, a->item);
}

/* 0; < 0: not known. With RocketMQ it is of all items. */
static int look_at_queue(struct audit *a)
{
    struct audit_drain *d = &a->drain;
    struct queue *queue = ctl_queue(a->c, EVENT_QUEUE_INSPECT);
    d->backlog = -1;
    if (!queue)
        return -1;
    struct queue_lag lag = {.item = a->item};
    ctl_op(a->c, &lag.op, CTL_CALL_US);
    queue->ops->lag(queue, &lag);
    if (ctl_await(a->c) != 0)
        return -1;
    d->backlog = lag.waiting + lag.in_hand;
    return 0;
}

/* 0; 1: the item is not in Redis; < 0: a store is away. */
static int look(struct audit *a)
{
    struct audit_drain *d = &a->drain;
    struct stock_item_info info;
    int64_t quarantined;
    int rc = item_in_redis(a->c, "audit", a->item, &info);
    if (rc != 0)
        return rc;
    if (audit_pg_waiting(a, &d->unsettled, &quarantined) != 0)
        return -1;
    d->pending = info.pending > quarantined ? info.pending - quarantined : 0;
    look_at_queue(a);
    return 0;
}

static bool is_quiet(const struct audit_drain *d)
{
    return d->pending == 0 && d->unsettled == 0 && d->backlog == 0;
}

int audit_wait_drained(struct audit *a, int64_t wait_us)
{
    struct audit_drain *d = &a->drain;
    int64_t give_up_us = clock_mono_us() + wait_us;
    d->waited = true;
    for (;;) {
        int rc = look(a);
        bool over = clock_mono_us() >= give_up_us;
        if (rc > 0)
            return 0; /* audit_read_redis tells it */
        d->quiet = rc == 0 && is_quiet(d);
        d->quiet_at_us = clock_wall_us();
        if (d->quiet)
            return 0;
        if (rc < 0 && over)
            return CTL_UNKNOWN;
        if (over)
            return 0;
        if (rc < 0)
            audit_connect(a);
        ctl_sleep(a->c, rc < 0 ? AWAY_US : PAUSE_US);
    }
}

/* --- I10 --- */

static void check_time(struct audit *a)
{
    const struct audit_drain *d = &a->drain;
    int64_t fault_us = a->observed.last_fault_us;
    if (!d->quiet && d->backlog >= 0)
        audit_broken(a, AUDIT_I10,
                     "not drained: %lld reservations unsettled, %lld rows Redis was not told, %lld "
                     "messages in the queue",
                     (long long)d->pending, (long long)d->unsettled, (long long)d->backlog);
    /* When the audit began later than that, it did not see the end. */
    else if (d->quiet && fault_us && d->began_us - fault_us <= a->drain_us &&
             d->quiet_at_us - fault_us > a->drain_us)
        audit_broken(a, AUDIT_I10, "drained %lld s after the last fault, at most %lld",
                     (long long)(d->quiet_at_us - fault_us) / 1000000,
                     (long long)(a->drain_us / 1000000));
}

/* False: no memory to tell. */
static bool count_buyers(struct audit *a)
{
    struct map seen;
    bool ok = true;
    map_init(&seen, AUDIT_REQUESTS_MAX);
    for (uint32_t i = 0; ok && i < a->model.n_requests; i++) {
        const struct audit_request *r = &a->model.requests[i];
        ok = !r->asked || map_put(&seen, (uint64_t)r->user, 1) == 0;
    }
    a->counts.buyers_asked = (int64_t)seen.n;
    map_deinit(&seen);
    return ok;
}

void audit_check_drained(struct audit *a)
{
    struct audit_check *k = &a->checks[AUDIT_I10];
    const struct audit_drain *d = &a->drain;
    const struct audit_counts *n = &a->counts;
    bool enough = count_buyers(a) && n->buyers_asked >= n->total;
    if (a->sold_out && enough && n->active < n->total)
        audit_broken(a, AUDIT_I10, "%lld of %lld are sold, though %lld buyers asked for one",
                     (long long)n->active, (long long)n->total, (long long)n->buyers_asked);
    if (d->waited)
        check_time(a);
    k->unknown = d->waited && !d->quiet && d->backlog < 0;
    k->skipped = !d->waited && !a->sold_out;
    snprintf(k->note, AUDIT_NAME, "%s; %lld of %lld sold%s",
             !d->waited   ? "needs --wait"
             : d->quiet   ? "drained"
             : k->unknown ? "the backlog of the queue is not known"
                          : "not drained",
             (long long)n->active, (long long)n->total,
             a->sold_out ? enough ? ", demand enough" : ", demand not enough to tell" : "");
}
