#include "app/retain.h"

#include "app/worker.h"
#include "base/crashpoint.h"

enum { IDLE, BATCH, STATES };

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, retain.flow);
}

static void run(struct job *j, struct orders *o)
{
    struct retain *r = container_of(j, struct retain, job);
    const struct worker *w = container_of(r, struct worker, retain);
    const struct orders_retention what = {.after_ms = w->cfg.retain_after_us / 1000,
                                          .strays_ms = w->cfg.retain_strays_us / 1000,
                                          .max = w->cfg.retain_batch,
                                          .results = w->results != NULL};
    r->rc = o->ops->retain(o, &r->ctx, &what, &r->taken);
    if (r->taken.rows[ORDERS_T_OUTBOX] > 0)
        crashpoint("after_retain");
}

static void on_job_done(struct job *j)
{
    flow_resume(&container_of(j, struct retain, job)->flow);
}

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct retain, timer)->flow);
}

static enum flow_result rest(struct worker *w, int64_t delay_us)
{
    if (!w->retain.stopped)
        sched_set_in(w->sched, &w->retain.timer, delay_us);
    return FLOW_WAIT;
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct retain *r = &w->retain;
    if (r->stopped)
        return FLOW_WAIT;
    r->job = (struct job){.run = run, .on_done = on_job_done};
    r->taken = (struct orders_retained){0};
    r->rc = ERR_OVERLOAD;
    ctx_init(&r->ctx, &w->root, w->sched->now_us + RETAIN_CALL_US);
    if (!health_usable(w) || w->upkeep->ops->submit(w->upkeep, &r->job) < 0)
        return rest(w, w->cfg.retain_interval_us);
    flow_goto(f, BATCH);
    return FLOW_WAIT;
}

static enum flow_result step_batch(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct retain *r = &w->retain;
    static struct log_limit limit;
    uint64_t more;
    for (int t = 0; t < ORDERS_TABLES; t++)
        metric_add(w->metrics.retained[t], (uint64_t)r->taken.rows[t]);
    if (r->rc < 0) {
        metric_add(w->metrics.retain_failures, 1);
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_warn("retention failed; its turn comes again", LOG_Z("error_kind", err_name(r->rc)),
                     LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
    }
    flow_goto(f, IDLE);
    worker_changed(w);
    return rest(w, r->rc >= 0 && r->taken.more ? w->cfg.retain_interval_us : w->cfg.retain_idle_us);
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(BATCH), step_idle},
    [BATCH] = {"BATCH", FLOW_TO(IDLE), step_batch},
};
static const struct flow_kind kind = {"retain", STATES, states};

void retain_start(struct worker *w)
{
    struct retain *r = &w->retain;
    if (!w->upkeep || w->cfg.retain_batch == 0)
        return;
    *r = (struct retain){.timer.on_fire = on_time};
    flow_start(&r->flow, &kind, IDLE);
}

void retain_stop(struct worker *w)
{
    w->retain.stopped = true;
    sched_clear(w->sched, &w->retain.timer);
}

bool retain_idle(const struct worker *w)
{
    return !w->retain.flow.kind || w->retain.flow.state == IDLE;
}
