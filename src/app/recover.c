#include "app/recover.h"

#include "app/recover_plan.h"
#include "app/worker.h"
#include "base/panic.h"

enum { IDLE, ITEM, RETIRE, COMMANDS, LIST, ORPHANS, LOCATE, INBOX, SETTLE, ACT, NEXT, STATES };
enum { ACTING_MAX = 16 };

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, recover.flow);
}

static enum flow_result go(struct flow *f, int state)
{
    flow_goto(f, state);
    return FLOW_NEXT;
}

static enum flow_result rest(struct worker *w)
{
    struct recover *r = &w->recover;
    if (r->flow.state != IDLE)
        flow_goto(&r->flow, IDLE);
    if (!r->stopped)
        sched_set_in(w->sched, &r->timer, w->cfg.recover_interval_us);
    worker_changed(w);
    return FLOW_WAIT;
}

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct recover, timer)->flow);
}

/* A look that failed is not repeated at once: its turn comes again. */
static void failed(struct worker *w, const char *what, int rc)
{
    static struct log_limit limit;
    uint64_t more;
    metric_add(w->metrics.recover_failures, 1);
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn(what, LOG_I("activity_id", w->recover.item.activity_id),
                 LOG_I("sku_id", w->recover.item.sku_id), LOG_Z("error_kind", err_name(rc)),
                 LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
}

/* --- an item and a page of it --- */

static void on_item(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, recover.item_op.op);
    struct recover *r = &w->recover;
    if (rc == 0)
        r->skew_ms = r->item_op.info.now_ms - worker_wall_ms(w);
    r->ends_ms = rc == 0 ? r->item_op.info.ends_ms : 0;
    if (rc < 0)
        failed(w, "recovery cannot read an item", rc);
    if (rc == 1 && r->item_op.listed)
        flow_goto(&r->flow, RETIRE);
    else
        flow_goto(&r->flow, rc == 0 ? COMMANDS : LIST);
    flow_resume(&r->flow);
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->stopped)
        return FLOW_WAIT;
    r->pages = r->looks = 0;
    r->unknown_seen = r->unreadable = 0;
    if (!health_usable(w))
        catalog_forget_pending(w);
    if (!health_usable(w) || w->catalog.n == 0)
        return rest(w);
    return go(f, ITEM);
}

static enum flow_result step_item(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    r->item_at = r->item_at < w->catalog.n ? r->item_at : 0;
    r->item = w->catalog.items[r->item_at].item;
    r->item_op =
        (struct stock_item_get){.op = {on_item, worker_store_deadline(w)}, .item = r->item};
    r->looks++;
    w->stock->ops->item(w->stock, &r->item_op);
    return FLOW_WAIT;
}

static void on_retired(struct retire *r)
{
    flow_resume(&container_of(r, struct recover, retire)->flow);
}

static enum flow_result step_retire(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    r->list.n = 0;
    r->list.total = 0;
    r->good = r->waiting = r->settled_rows = 0;
    r->pages++;
    flow_goto(f, NEXT);
    retire_start(&r->retire, w, r->item, worker_wall_ms(w) + r->skew_ms, on_retired);
    return FLOW_WAIT;
}

static void on_remembered(struct remembered *m)
{
    struct recover *r = container_of(m, struct recover, remembered);
    if (m->all)
        catalog_saw_commands(m->w, r->item, m->page.before_ms - r->skew_ms);
    flow_resume(&r->flow);
}

static enum flow_result step_commands(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->stopped)
        return go(f, LIST);
    flow_goto(f, LIST);
    remembered_start(&r->remembered, w, r->item, recover_passed_before_ms(w, r->item),
                     on_remembered);
    return FLOW_WAIT;
}

static void on_list(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, recover.list.op);
    if (rc < 0) {
        w->recover.list.n = -1;
        failed(w, "recovery cannot list the pending reservations of an item", rc);
    }
    flow_resume(&w->recover.flow);
}

static enum flow_result step_list(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    r->list = (struct stock_pending){.op = {on_list, worker_store_deadline(w)},
                                     .item = r->item,
                                     .before_ms = worker_wall_ms(w) + r->skew_ms -
                                                  w->cfg.recover_after_us / 1000,
                                     .offset = r->offset,
                                     .max = RECOVER_ROWS};
    r->n_rows = r->good = r->waiting = r->settled_rows = r->unknown = 0;
    flow_goto(f, ORPHANS);
    w->stock->ops->pending(w->stock, &r->list);
    return FLOW_WAIT;
}

/* --- what of it is no record --- */

static void note_unreadable(struct worker *w, const struct reservation *row)
{
    struct recover *r = &w->recover;
    static struct log_limit limit;
    uint64_t more;
    r->unreadable++;
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_error("pending reservation cannot be read; it is passed over",
                  LOG_UUID("request_id", &row->request_id), LOG_I("user_id", row->user_id),
                  LOG_I("activity_id", r->item.activity_id), LOG_I("sku_id", r->item.sku_id),
                  LOG_I("suppressed", (int64_t)more));
}

static void on_orphans(struct orphans *o)
{
    struct recover *r = container_of(o, struct recover, orphans);
    r->settled_rows += o->taken;
    if (o->job.rc < 0)
        failed(o->w, "recovery cannot look up reservations without a record", o->job.rc);
    flow_resume(&r->flow);
}

static enum flow_result step_orphans(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    struct orphans *o = &r->orphans;
    o->n = 0;
    for (int i = 0; i < r->list.n; i++) {
        const struct reservation *row = &r->list.rows[i];
        r->good += r->list.results[i] == STOCK_ROW_GOOD;
        if (r->list.results[i] == STOCK_ROW_UNREADABLE)
            note_unreadable(w, row);
        if (r->list.results[i] == STOCK_ROW_GONE && o->n < ORPHANS_MAX)
            o->rows[o->n++] = (struct orphan){.user_id = row->user_id,
                                              .request_id = row->request_id,
                                              .created_at_ms = row->created_at_ms};
    }
    if (r->list.n > 0)
        r->skew_ms = r->list.now_ms - worker_wall_ms(w);
    if (o->n == 0 || r->stopped)
        return go(f, LOCATE);
    flow_goto(f, LOCATE);
    orphans_start(o, w, r->item, on_orphans);
    return FLOW_WAIT;
}

/* --- where the queue is with each --- */

static void on_located(struct op *op, int rc)
{
    struct queue_locate *l = container_of(op, struct queue_locate, op);
    struct recover_row *row = container_of(l, struct recover_row, locate);
    struct recover *r = &row->w->recover;
    row->position_known = rc >= 0;
    if (rc >= 0)
        row->position = (enum queue_position)rc;
    if (--r->under_way == 0)
        flow_resume(&r->flow);
}

static enum flow_result step_locate(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->good == 0 || r->stopped)
        return go(f, NEXT);
    flow_goto(f, INBOX);
    r->under_way = 1; /* until all are asked */
    for (int i = 0; i < r->list.n; i++) {
        if (r->list.results[i] != STOCK_ROW_GOOD)
            continue;
        struct recover_row *row = &r->rows[r->n_rows++];
        row->w = w;
        row->item = r->item;
        row->r = r->list.rows[i];
        row->plan = RECOVER_LEAVE;
        row->position_known = false;
        if (row->r.queue_id[0] == 0)
            continue;
        row->locate =
            (struct queue_locate){.op = {on_located, worker_store_deadline(w)}, .item = r->item};
        memcpy(row->locate.queue_id, row->r.queue_id, sizeof row->locate.queue_id);
        r->under_way++;
        w->queue->ops->locate(w->queue, &row->locate);
    }
    return --r->under_way == 0 ? FLOW_NEXT : FLOW_WAIT;
}

/* --- what PostgreSQL says of those that the queue has passed --- */

static void run_inbox(struct share_job *j, struct orders *o)
{
    struct recover *r = container_of(j, struct recover, job);
    j->rc = o->ops->inbox(o, &r->ctx, r->ids, r->inbox, r->n_rows);
}

static void on_inbox(struct share_job *j)
{
    flow_resume(&container_of(j, struct recover, job)->flow);
}

static enum flow_result step_inbox(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    int n = 0;
    for (int i = 0; i < r->n_rows; i++) {
        if (!recover_is_candidate(w, &r->rows[i]))
            continue;
        if (n != i)
            r->rows[n] = r->rows[i];
        r->ids[n] = r->rows[n].r.message_id;
        n++;
    }
    r->n_rows = n;
    if (n == 0 || r->stopped)
        return go(f, NEXT);
    r->job = (struct share_job){.class = SHARE_BACK, .run = run_inbox, .on_done = on_inbox};
    ctx_init(&r->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    flow_goto(f, SETTLE);
    share_submit(w, &r->job);
    return FLOW_WAIT;
}

/* --- those with an outcome --- */

static void on_settled(struct settling *s)
{
    flow_resume(&container_of(s, struct recover, settling)->flow);
}

static enum flow_result step_settle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->job.rc < 0)
        failed(w, "recovery cannot look into the inbox", r->job.rc);
    if (r->job.rc < 0 || r->stopped)
        return go(f, NEXT);
    settling_init(&r->settling, w, r->item, RECOVER_ROWS, on_settled);
    for (int i = 0; i < r->n_rows; i++) {
        const struct orders_inbox *inbox = &r->inbox[i];
        if (inbox->found && strcmp(inbox->status, ORDERS_UNREADABLE) == 0) {
            note_unreadable(w, &r->rows[i].r);
        } else if (inbox->found && strcmp(inbox->status, "QUARANTINED") != 0) {
            struct stock_settle_row row = recover_row_settle(&r->rows[i].r, inbox);
            settling_add(&r->settling, &row, 0);
        } else {
            recover_make_plan(w, &r->rows[i], inbox);
        }
    }
    r->act_at = 0;
    flow_goto(f, ACT);
    if (r->settling.n == 0) {
        settling_deinit(&r->settling);
        return FLOW_NEXT;
    }
    settling_send(&r->settling);
    return FLOW_WAIT;
}

/* --- those without --- */

static enum flow_result step_act(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->settling.rows) {
        for (int i = 0; i < r->settling.n; i++) {
            if (settling_took(&r->settling, i)) {
                r->settled_rows++;
                metric_add(w->metrics.resettled, 1);
            }
        }
        settling_deinit(&r->settling);
    }
    while (r->act_at < r->n_rows && r->acting < ACTING_MAX && !r->stopped) {
        struct recover_row *row = &r->rows[r->act_at++];
        if (!recover_may_act(w, row))
            continue;
        if (row->plan == RECOVER_PUBLISH)
            recover_remember(w, row);
        else
            r->settled_rows++;
        r->acting++;
        recover_row_start(row);
    }
    return r->acting > 0 ? FLOW_WAIT : go(f, NEXT);
}

void recover_row_ended(struct worker *w)
{
    w->recover.acting--;
    flow_resume(&w->recover.flow);
}

/* --- the next page, the next item, or rest --- */

static enum flow_result step_next(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    int n = r->list.n;
    r->pages += n != 0;
    /* A full page (whatever could be read of it): what stays pending is skipped by the next. When
     * all of it still waits in the queue, so does what is younger. */
    bool more = n == RECOVER_ROWS && (r->waiting < r->good || r->good == 0);
    if (more) {
        r->offset += n - r->settled_rows;
    } else {
        r->offset = 0;
        r->item_at++;
    }
    bool round_over = r->item_at >= w->catalog.n && !more;
    metric_set(w->metrics.age_unknown, r->unknown_seen);
    metric_set(w->metrics.unreadable, r->unreadable);
    catalog_saw_pending(w, r->item, n < 0 ? -1 : r->list.total);
    if (round_over)
        r->item_at = 0;
    if (round_over || r->pages >= RECOVER_PAGES || r->looks >= RECOVER_LOOKS || r->stopped ||
        !health_usable(w))
        return rest(w);
    return go(f, more ? LIST : ITEM);
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(ITEM), step_idle},
    [ITEM] = {"ITEM", FLOW_TO(COMMANDS) | FLOW_TO(LIST) | FLOW_TO(RETIRE), step_item},
    [COMMANDS] = {"COMMANDS", FLOW_TO(LIST), step_commands},
    [RETIRE] = {"RETIRE", FLOW_TO(NEXT), step_retire},
    [LIST] = {"LIST", FLOW_TO(ORPHANS), step_list},
    [ORPHANS] = {"ORPHANS", FLOW_TO(LOCATE), step_orphans},
    [LOCATE] = {"LOCATE", FLOW_TO(INBOX) | FLOW_TO(NEXT), step_locate},
    [INBOX] = {"INBOX", FLOW_TO(SETTLE) | FLOW_TO(NEXT), step_inbox},
    [SETTLE] = {"SETTLE", FLOW_TO(ACT) | FLOW_TO(NEXT), step_settle},
    [ACT] = {"ACT", FLOW_TO(NEXT), step_act},
    [NEXT] = {"NEXT", FLOW_TO(LIST) | FLOW_TO(ITEM) | FLOW_TO(IDLE), step_next},
};
static const struct flow_kind kind = {"recover", STATES, states};

void recover_start(struct worker *w)
{
    struct recover *r = &w->recover;
    *r = (struct recover){.timer.on_fire = on_time, .tokens_at_us = w->sched->now_us};
    map_init(&r->published, RECOVER_REMEMBERED);
    flow_start(&r->flow, &kind, IDLE);
}

void recover_stop(struct worker *w)
{
    w->recover.stopped = true;
    sched_clear(w->sched, &w->recover.timer);
}

bool recover_idle(const struct worker *w)
{
    return !w->recover.flow.kind || w->recover.flow.state == IDLE;
}

void recover_deinit(struct worker *w)
{
    map_deinit(&w->recover.published);
}
