/* The walks of a round: page after page, SOURCE → HELD → LOOK → JUDGE → PUBLISH (reconcile.h). */
#include "app/reconcile_flow.h"
#include "app/reconcile_judge.h"

#include <string.h>

static void on_holders(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, reconcile.op.holders.op);
    struct reconcile *r = &w->reconcile;
    r->job.rc = rc;
    r->page_n = rc < 0 ? 0 : r->op.holders.n;
    r->page_at = 0;
    r->page_last = rc < 0 || strcmp(r->op.holders.cursor, "0") == 0;
    memcpy(r->cursor, r->op.holders.cursor, sizeof r->cursor);
    if (rc == 0 && r->op.holders.unreadable > 0)
        findings_note(w, r->item, FINDING_RECORD, NULL, r->op.holders.unreadable);
    flow_resume(&r->flow);
}

static void on_pending(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, reconcile.pending.op);
    struct reconcile *r = &w->reconcile;
    r->job.rc = rc;
    r->n = 0;
    for (int i = 0; rc == 0 && i < r->pending.n; i++) {
        if (r->pending.results[i] == STOCK_ROW_GOOD)
            r->held[r->n++] = (struct stock_held_row){.user_id = r->pending.rows[i].user_id,
                                                      .request_id = r->pending.rows[i].request_id};
    }
    r->offset += r->pending.n;
    r->last = r->pending.n < RECONCILE_ROWS;
    flow_resume(&r->flow);
}

static void renew_if_due(struct worker *w, struct orders *o)
{
    struct reconcile *r = &w->reconcile;
    struct orders_books books;
    if (r->renew)
        r->lost = reconcile_take_lease(w, o, &books) == 1;
}

static void run_orders(struct share_job *j, struct orders *o)
{
    struct worker *w = worker_of_job(j);
    struct reconcile *r = &w->reconcile;
    renew_if_due(w, o);
    r->n = RECONCILE_ROWS;
    j->rc = o->ops->reconcile_orders(o, &r->ctx, r->item, r->after_user, r->orders, &r->n);
}

static void set_renew(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    r->renew = w->sched->now_us - r->leased_us > RECONCILE_LEASE_MS * INT64_C(1000) / 3;
    if (r->renew)
        r->leased_us = w->sched->now_us;
}

static enum flow_result ask_buyers(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    r->n = 0;
    if (r->page_at < r->page_n) {
        while (r->n < RECONCILE_ROWS && r->page_at < r->page_n) {
            const struct stock_holder *h = &r->page[r->page_at++];
            r->held[r->n++] =
                (struct stock_held_row){.user_id = h->user_id, .request_id = h->request_id};
        }
        r->last = r->page_at == r->page_n && r->page_last;
        return go(&r->flow, HELD);
    }
    r->op.holders = (struct stock_holders){
        .op = {on_holders, worker_store_deadline(w)}, .item = r->item, .rows = r->page};
    memcpy(r->op.holders.cursor, r->cursor, sizeof r->cursor);
    r->last = false;
    w->stock->ops->holders(w->stock, &r->op.holders);
    return FLOW_WAIT; /* and here again, with the page */
}

enum flow_result reconcile_step_source(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    if (r->job.rc < 0)
        return reconcile_failed(w, "source", r->job.rc);
    if (r->stopped || r->lost || !health_usable(w))
        return reconcile_give_up(w);
    if (r->walk == WALK_BUYERS && r->page_last && r->page_at == r->page_n)
        r->last = true;
    if (r->last) {
        r->walk++;
        r->last = r->walk == WALKS;
    }
    switch (r->walk) {
    case WALK_BUYERS:
        return ask_buyers(w);
    case WALK_ORDERS:
        set_renew(w);
        flow_goto(f, HELD);
        reconcile_submit(w, run_orders);
        return FLOW_WAIT;
    case WALK_PENDING:
        r->pending = (struct stock_pending){.op = {on_pending, worker_store_deadline(w)},
                                            .item = r->item,
                                            .before_ms = r->info.now_ms,
                                            .offset = r->offset,
                                            .max = RECONCILE_ROWS};
        flow_goto(f, HELD);
        w->stock->ops->pending(w->stock, &r->pending);
        return FLOW_WAIT;
    default:
        return go(f, OVER);
    }
}

/* --- what Redis has of its rows --- */

static void on_held(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, reconcile.op.held.op);
    w->reconcile.job.rc = rc;
    flow_resume(&w->reconcile.flow);
}

static void take_orders(struct reconcile *r)
{
    for (int i = 0; i < r->n; i++)
        r->held[i] = (struct stock_held_row){.user_id = r->orders[i].user_id,
                                             .request_id = r->orders[i].request_id};
    if (r->n > 0)
        r->after_user = r->orders[r->n - 1].user_id;
    r->last = r->n < RECONCILE_ROWS;
}

enum flow_result reconcile_step_held(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    if (r->job.rc < 0)
        return reconcile_failed(w, "page", r->job.rc);
    if (r->walk == WALK_ORDERS)
        take_orders(r);
    if (r->n == 0)
        return go(f, SOURCE);
    r->op.held = (struct stock_held){
        .op = {on_held, worker_store_deadline(w)}, .item = r->item, .rows = r->held, .n = r->n};
    flow_goto(f, LOOK);
    w->stock->ops->held(w->stock, &r->op.held);
    return FLOW_WAIT;
}

/* --- what PostgreSQL knows of them --- */

static void run_look(struct share_job *j, struct orders *o)
{
    struct worker *w = worker_of_job(j);
    struct reconcile *r = &w->reconcile;
    renew_if_due(w, o);
    j->rc = o->ops->reconcile_look(o, &r->ctx, r->looks, r->n);
}

/* The rows of the walk come at this rate, whatever they cost. */
static enum flow_result pace(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    metric_add(w->metrics.reconcile_rows, (uint64_t)r->n);
    int64_t due_us = r->stopped ? 0 : r->n * INT64_C(1000000) / w->cfg.reconcile_rate;
    sched_set_in(w->sched, &r->timer, due_us);
    flow_goto(&r->flow, SOURCE);
    return FLOW_WAIT;
}

enum flow_result reconcile_step_look(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    if (r->job.rc < 0)
        return reconcile_failed(w, "held", r->job.rc);
    if (r->op.held.version.epoch != r->books.epoch)
        return reconcile_give_up(w); /* a rebuild has begun */
    if (r->walk == WALK_BUYERS) {
        for (int i = 0; i < r->n; i++)
            r->looks[i] = (struct orders_look){.message_id = r->held[i].record.message_id,
                                               .reservation_id = r->held[i].record.reservation_id};
        set_renew(w);
        flow_goto(f, JUDGE);
        reconcile_submit(w, run_look);
        return FLOW_WAIT;
    }
    for (int i = 0; i < r->n; i++) {
        if (r->walk == WALK_ORDERS)
            judge_order(w, &r->orders[i], &r->held[i]);
        else
            judge_waiting(w, &r->held[i]);
    }
    return pace(w);
}

enum flow_result reconcile_step_judge(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    if (r->job.rc < 0)
        return reconcile_failed(w, "look", r->job.rc);
    for (int i = 0; i < r->n; i++)
        r->is_lost[i] = judge_buyer(w, &r->held[i], &r->looks[i]);
    r->lost_at = 0;
    return go(f, PUBLISH);
}

/* One after the other; and the page's time is over after the last. What fails is found again. */
enum flow_result reconcile_step_publish(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    while (r->walking && r->lost_at < r->n && !r->stopped) {
        int i = r->lost_at++;
        if (!r->is_lost[i])
            continue;
        r->counts.republished++;
        mend_publish(&r->mend, w, r->item, &r->held[i].record);
        return FLOW_WAIT;
    }
    return pace(w);
}
