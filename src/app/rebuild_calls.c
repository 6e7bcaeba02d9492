#include "app/rebuild_calls.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include <assert.h>

#define FAR_MS INT64_C(9999999999999)

static void on_op(struct op *op, int rc)
{
    static_assert(offsetof(struct stock_pending, op) == 0 && offsetof(struct queue_lag, op) == 0 &&
                      offsetof(struct stock_unreport, op) == 0 &&
                      offsetof(struct stock_rebuild_begin, op) == 0 &&
                      offsetof(struct stock_rebuild_restore, op) == 0 &&
                      offsetof(struct stock_rebuild_end, op) == 0,
                  "an operation stands at the union's beginning");
    struct worker *w = container_of(op, struct worker, rebuild.op.begin.op);
    w->rebuild.rc = rc;
    w->rebuild.op_busy = false;
    if (!w->rebuild.ahead)
        flow_resume(&w->rebuild.flow);
    worker_op_ended(w);
}

static void on_job(struct share_job *j)
{
    struct worker *w = container_of(j, struct worker, rebuild.job);
    struct rebuild *r = &w->rebuild;
    if (r->ahead) {
        r->ahead = false;
        r->page_read = true;
        r->page_rc = j->rc;
    } else {
        r->rc = j->rc;
    }
    if (!r->op_busy)
        flow_resume(&r->flow);
}

static struct op begin_op(struct worker *w)
{
    worker_op_begun(w);
    w->rebuild.op_busy = true;
    return (struct op){on_op, worker_store_deadline(w)};
}

static void run_job(struct worker *w, void (*run)(struct share_job *, struct orders *))
{
    struct rebuild *r = &w->rebuild;
    r->job =
        (struct share_job){.class = SHARE_BACK, .run = run, .on_done = on_job, .rc = ERR_OVERLOAD};
    ctx_init(&r->ctx, &w->root, w->sched->now_us + REBUILD_JOB_US);
    share_submit(w, &r->job);
}

static struct rebuild *of_job(struct share_job *j)
{
    return container_of(j, struct rebuild, job);
}

static void run_take(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    struct worker *w = container_of(r, struct worker, rebuild);
    j->rc = o->ops->rebuild_take(o, &r->ctx, r->item, r->from_epoch, str_of(w->life),
                                 str_of(r->reason), w->cfg.max_hold_us / 1000, &r->it);
}

void rebuild_call_take(struct worker *w)
{
    run_job(w, run_take);
}

void rebuild_call_unreport(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    r->op.unreport = (struct stock_unreport){.op = begin_op(w), .item = r->item};
    w->stock->ops->unreport(w->stock, &r->op.unreport);
}

static enum stock_state state_after(const struct orders_rebuild *it)
{
    return strcmp(it->state, "OPEN") == 0     ? STOCK_STATE_OPEN
           : strcmp(it->state, "CLOSED") == 0 ? STOCK_STATE_CLOSED
                                              : STOCK_STATE_PAUSED;
}

void rebuild_call_begin(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    r->op.begin = (struct stock_rebuild_begin){.op = begin_op(w),
                                               .item = r->item,
                                               .epoch = r->it.epoch,
                                               .total = r->it.total,
                                               .starts_ms = r->it.starts_ms,
                                               .ends_ms = r->it.ends_ms,
                                               .expires_ms = r->it.expires_ms,
                                               .after = state_after(&r->it)};
    w->stock->ops->rebuild_begin(w->stock, &r->op.begin);
}

void rebuild_call_lag(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    r->op.lag = (struct queue_lag){.op = begin_op(w), .item = r->item};
    w->queue->ops->lag(w->queue, &r->op.lag);
}

static void run_beat(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    j->rc = o->ops->rebuild_keep(o, &r->ctx, r->item, r->it.epoch, r->holds, 0);
}

void rebuild_call_beat(struct worker *w)
{
    run_job(w, run_beat);
}

void rebuild_call_pending(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    struct stock_pending *p = &r->op.pending;
    p->op = begin_op(w);
    p->item = r->item;
    p->before_ms = FAR_MS;
    p->offset = r->offset;
    p->max = STOCK_PENDING_MAX;
    w->stock->ops->pending(w->stock, p);
}

static void run_keep(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    j->rc = o->ops->rebuild_keep(o, &r->ctx, r->item, r->it.epoch, r->holds, r->n_holds);
}

void rebuild_call_keep(struct worker *w)
{
    run_job(w, run_keep);
}

static void run_count(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    j->rc = o->ops->rebuild_count(o, &r->ctx, r->item, r->it.epoch, &r->held);
}

void rebuild_call_count(struct worker *w)
{
    run_job(w, run_count);
}

static void run_page(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    r->n_holds = ORDERS_HOLDS_MAX;
    j->rc =
        o->ops->rebuild_page(o, &r->ctx, r->item, r->it.epoch, &r->after, r->holds, &r->n_holds);
}

void rebuild_call_page(struct worker *w)
{
    run_job(w, run_page);
}

void rebuild_call_restore(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    r->op.restore = (struct stock_rebuild_restore){.op = begin_op(w),
                                                   .item = r->item,
                                                   .epoch = r->it.epoch,
                                                   .step = r->step,
                                                   .rows = r->rows,
                                                   .n = r->n_rows};
    w->stock->ops->rebuild_restore(w->stock, &r->op.restore);
    /* While Redis is at it PostgreSQL reads the next page; the answers are waited for together. */
    if (!r->page_read && r->restored + r->n_rows < rebuild_expected(r)) {
        r->ahead = true;
        rebuild_call_page(w);
    }
}

static void run_resettle(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    r->resettle_to = r->resettle_from;
    j->rc = o->ops->rebuild_resettle(o, &r->ctx, r->item, r->it.epoch, &r->resettle_to);
}

void rebuild_call_resettle(struct worker *w)
{
    run_job(w, run_resettle);
}

void rebuild_call_end(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    int64_t free = r->held.total - rebuild_expected(r);
    crashpoint("rebuild_before_end");
    /* More hold one than there are: some of them PostgreSQL will refuse, and those give none back
     * (rule 4). */
    r->op.end = (struct stock_rebuild_end){.op = begin_op(w),
                                           .item = r->item,
                                           .epoch = r->it.epoch,
                                           .step = r->step + 1,
                                           .total = r->held.total,
                                           .free = free < 0 ? 0 : free};
    w->stock->ops->rebuild_end(w->stock, &r->op.end);
}

static void run_finish(struct share_job *j, struct orders *o)
{
    struct rebuild *r = of_job(j);
    j->rc = o->ops->rebuild_finish(o, &r->ctx, r->item, r->it.epoch);
}

void rebuild_call_finish(struct worker *w)
{
    run_job(w, run_finish);
}
