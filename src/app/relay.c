#include "app/relay.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

enum { IDLE, READ, PICK, SETTLE, STATES };
enum { SETTLE_MAX = 256 };

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, relay.flow);
}

static void run_read(struct share_job *j, struct orders *o)
{
    struct relay *r = container_of(j, struct relay, job);
    r->n = r->want;
    j->rc = o->ops->unsettled(o, &r->ctx, r->after_ms, r->rows, &r->n);
}

static void on_read(struct share_job *j)
{
    flow_resume(&container_of(j, struct relay, job)->flow);
}

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct relay, timer)->flow);
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct relay *r = &w->relay;
    if (r->stopped)
        return FLOW_WAIT;
    if (!health_usable(w)) {
        sched_set_in(w->sched, &r->timer, w->cfg.relay_interval_us);
        return FLOW_WAIT;
    }
    r->later = r->took = 0;
    r->job.rc = ERR_OVERLOAD;
    ctx_init(&r->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    flow_goto(f, READ);
    share_submit(w, &r->job);
    return FLOW_WAIT;
}

static enum flow_result rest(struct worker *w, int64_t delay_us)
{
    struct relay *r = &w->relay;
    flow_goto(&r->flow, IDLE);
    if (!r->stopped)
        sched_set_in(w->sched, &r->timer, delay_us);
    worker_changed(w);
    return FLOW_WAIT;
}

static enum flow_result step_read(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct relay *r = &w->relay;
    if (r->job.rc < 0 || r->n == 0 || w->canceled)
        return rest(w, w->cfg.relay_interval_us);
    crashpoint("relay_after_read");
    memset(r->done, 0, (size_t)r->n * sizeof r->done[0]);
    flow_goto(f, PICK);
    return FLOW_NEXT;
}

static void on_settled(struct settling *s)
{
    flow_resume(&container_of(s, struct relay, settling)->flow);
}

static enum flow_result step_pick(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct relay *r = &w->relay;
    int first = 0;
    while (first < r->n && r->done[first])
        first++;
    if (first == r->n || w->canceled) {
        bool all_read = r->n == r->want;
        /* Rows that have to wait are the oldest and come first in every read. */
        if (r->later > r->n / 2 && all_read && r->want < RELAY_READ_MAX)
            r->want = r->want * 2 > RELAY_READ_MAX ? RELAY_READ_MAX : r->want * 2;
        else if (r->later < w->cfg.relay_batch / 4)
            r->want = w->cfg.relay_batch;
        if (!all_read || r->took == 0)
            return rest(w, w->cfg.relay_interval_us);
        /* There is more: soon, when these are marked. */
        marks_flush(w);
        return rest(w, RELAY_AGAIN_US);
    }
    settling_init(&r->settling, w, r->rows[first].item, SETTLE_MAX, on_settled);
    for (int i = first; i < r->n && r->settling.n < SETTLE_MAX; i++) {
        const struct orders_unsettled *u = &r->rows[i];
        if (r->done[i] || !item_eq(u->item, r->rows[first].item))
            continue;
        r->done[i] = true;
        settling_add(&r->settling,
                     &(struct stock_settle_row){.user_id = u->user_id,
                                                .request_id = u->request_id,
                                                .reservation_id = u->reservation_id,
                                                .verdict = u->verdict,
                                                .give_back = u->give_back,
                                                .other_order_id = u->other_order_id,
                                                .other_reservation_id = u->other_reservation_id,
                                                .other_request_id = u->other_request_id},
                     u->outbox_id);
    }
    flow_goto(f, SETTLE);
    settling_send(&r->settling);
    return FLOW_WAIT;
}

static enum flow_result step_settle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct relay *r = &w->relay;
    crashpoint("relay_after_settle");
    for (int i = 0; i < r->settling.n; i++) {
        if (settling_took(&r->settling, i)) {
            marks_add(w, r->settling.ids[i], false);
            r->took++;
            metric_add(w->metrics.relayed, 1);
        } else if (r->settling.rc >= 0) {
            r->later++;
            metric_add(w->metrics.relay_later, 1);
        }
    }
    settling_deinit(&r->settling);
    flow_goto(f, PICK);
    return FLOW_NEXT;
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(READ), step_idle},
    [READ] = {"READ", FLOW_TO(PICK) | FLOW_TO(IDLE), step_read},
    [PICK] = {"PICK", FLOW_TO(SETTLE) | FLOW_TO(IDLE), step_pick},
    [SETTLE] = {"SETTLE", FLOW_TO(PICK), step_settle},
};
static const struct flow_kind kind = {"relay", STATES, states};

void relay_start(struct worker *w)
{
    struct relay *r = &w->relay;
    *r = (struct relay){
        .timer.on_fire = on_time,
        .job = {.class = SHARE_BACK, .run = run_read, .on_done = on_read},
        .after_ms = w->cfg.relay_after_us / 1000,
        .want = w->cfg.relay_batch,
    };
    r->rows = malloc(RELAY_READ_MAX * sizeof r->rows[0]);
    r->done = malloc(RELAY_READ_MAX * sizeof r->done[0]);
    if (!r->rows || !r->done)
        panic("no memory for the relay");
    flow_start(&r->flow, &kind, IDLE);
}

void relay_stop(struct worker *w)
{
    w->relay.stopped = true;
    sched_clear(w->sched, &w->relay.timer);
}

bool relay_idle(const struct worker *w)
{
    return !w->relay.flow.kind || w->relay.flow.state == IDLE;
}

void relay_deinit(struct worker *w)
{
    free(w->relay.rows);
    free(w->relay.done);
}
