#include "app/recover.h"

#include "app/worker.h"
#include "base/panic.h"

enum { IDLE, ITEM, LIST, LOCATE, INBOX, SETTLE, ACT, NEXT, STATES };
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

/* --- an item and a page of it --- */

static void on_item(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, recover.item_op.op);
    struct recover *r = &w->recover;
    r->ends_ms = rc == 0 ? r->item_op.info.ends_ms : 0;
    flow_resume(&r->flow);
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->stopped)
        return FLOW_WAIT;
    r->pages = 0;
    r->unknown_seen = 0;
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
    flow_goto(f, LIST);
    w->stock->ops->item(w->stock, &r->item_op);
    return FLOW_WAIT;
}

static void on_list(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, recover.list.op);
    if (rc < 0)
        w->recover.list.n = -1;
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
    r->n_rows = r->waiting = r->settled_rows = r->unknown = 0;
    flow_goto(f, LOCATE);
    w->stock->ops->pending(w->stock, &r->list);
    return FLOW_WAIT;
}

/* --- where the queue is with each --- */

static int64_t age_us(struct worker *w, const struct reservation *res)
{
    return (worker_wall_ms(w) + w->recover.skew_ms - res->created_at_ms) * 1000;
}

/* Where the transport does not say it (rule 30): the queue has passed what is older than the oldest
 * that waits. */
static void judge_by_age(struct worker *w, struct recover_row *row)
{
    const struct catalog_item *backlog = catalog_backlog(w, row->item);
    row->position_known = backlog != NULL;
    if (!backlog)
        return;
    bool empty = backlog->waiting + backlog->in_hand == 0;
    bool passed = empty || backlog->oldest_age_ms * 1000 < age_us(w, &row->r);
    row->position = passed ? QUEUE_PASSED : QUEUE_WAITING;
}

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
    if (r->list.n <= 0 || r->stopped)
        return go(f, NEXT);
    r->skew_ms = r->list.now_ms - worker_wall_ms(w);
    r->n_rows = r->list.n;
    flow_goto(f, INBOX);
    r->under_way = 1; /* until all are asked */
    for (int i = 0; i < r->n_rows; i++) {
        struct recover_row *row = &r->rows[i];
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

static bool is_candidate(struct worker *w, struct recover_row *row)
{
    struct recover *r = &w->recover;
    if (!row->position_known)
        judge_by_age(w, row);
    if (!row->position_known) {
        r->unknown++;
        r->unknown_seen++;
        return age_us(w, &row->r) >= w->cfg.recover_unknown_age_us; /* rule 31 */
    }
    if (row->position == QUEUE_WAITING)
        r->waiting++;
    return row->position == QUEUE_PASSED;
}

static enum flow_result step_inbox(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    int n = 0;
    for (int i = 0; i < r->n_rows; i++) {
        if (!is_candidate(w, &r->rows[i]))
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

static bool held_long_enough(struct worker *w, const struct recover_row *row)
{
    if (age_us(w, &row->r) < w->cfg.max_hold_us)
        return false;
    int64_t since = row->r.created_at_ms - w->recover.skew_ms;
    return health_usable_since_us(w, since) >= w->cfg.max_hold_us;
}

/* Rule 30. */
static bool may_void(struct worker *w, const struct recover_row *row)
{
    if (!row->position_known)
        return false;
    if (held_long_enough(w, row))
        return true;
    const struct catalog_item *backlog = catalog_backlog(w, row->item);
    return row->r.republished >= w->cfg.max_republish && backlog &&
           backlog->waiting + backlog->in_hand == 0;
}

static bool quarantine_over(struct worker *w, const struct recover_row *row)
{
    if (w->cfg.quarantine_hold_us > 0)
        return age_us(w, &row->r) >= w->cfg.quarantine_hold_us;
    return w->recover.ends_ms > 0 && worker_wall_ms(w) + w->recover.skew_ms >= w->recover.ends_ms;
}

static void make_plan(struct worker *w, struct recover_row *row, const struct orders_inbox *inbox)
{
    if (inbox->found) {
        /* Quarantined: held until it is replayed or its hold is over (rule 25). */
        if (quarantine_over(w, row)) {
            row->plan = RECOVER_VOID;
            row->reason = REASON_GIVEN_UP;
        }
        return;
    }
    if (may_void(w, row)) {
        row->plan = RECOVER_VOID;
        row->reason = REASON_VOID;
    } else if (row->r.republished < w->cfg.max_republish || !row->position_known) {
        row->plan = RECOVER_PUBLISH;
    }
}

static enum flow_result step_settle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct recover *r = &w->recover;
    if (r->job.rc < 0 || r->stopped)
        return go(f, NEXT);
    settling_init(&r->settling, w, r->item, RECOVER_ROWS, on_settled);
    for (int i = 0; i < r->n_rows; i++) {
        const struct orders_inbox *inbox = &r->inbox[i];
        if (inbox->found && strcmp(inbox->status, "QUARANTINED") != 0) {
            struct stock_settle_row row = recover_row_settle(&r->rows[i].r, inbox);
            settling_add(&r->settling, &row, 0);
        } else {
            make_plan(w, &r->rows[i], inbox);
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

bool recover_take_token(struct worker *w)
{
    struct recover *r = &w->recover;
    double rate = w->cfg.recover_rate;
    r->tokens += (double)(w->sched->now_us - r->tokens_at_us) * rate / 1e6;
    r->tokens_at_us = w->sched->now_us;
    r->tokens = r->tokens > rate ? rate : r->tokens;
    if (r->tokens < 1)
        return false;
    r->tokens -= 1;
    return true;
}

static uint64_t key_of(const struct reservation *res)
{
    uint64_t key;
    memcpy(&key, res->reservation_id.b + 8, sizeof key); /* the random half */
    return key;
}

/* What was published again has to be met by the queue first, the longer the more often; where the
 * answer of the publish was lost nothing else tells. */
static bool published_lately(struct worker *w, const struct recover_row *row)
{
    uint64_t at;
    if (!map_get(&w->recover.published, key_of(&row->r), &at))
        return false;
    int shift = row->r.republished < 6 ? row->r.republished : 6;
    return w->sched->now_us - (int64_t)at < w->cfg.recover_after_us << shift;
}

static bool may_act(struct worker *w, const struct recover_row *row)
{
    if (row->plan == RECOVER_LEAVE || !health_usable(w))
        return false;
    if (row->plan == RECOVER_VOID)
        return true;
    /* Rule 29: what waits in the queue comes first. */
    return w->intake.last_full_round_us >= w->health.breaker.closed_at_us &&
           w->intake.last_full_round_us >= 0 && !published_lately(w, row) && recover_take_token(w);
}

static void remember(struct worker *w, const struct recover_row *row)
{
    struct map *m = &w->recover.published;
    /* Full: forgetting costs an early repeat at worst, which the inbox answers. */
    if (m->n >= RECOVER_REMEMBERED) {
        map_deinit(m);
        map_init(m, RECOVER_REMEMBERED);
    }
    map_put(m, key_of(&row->r), (uint64_t)w->sched->now_us);
}

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
        if (!may_act(w, row))
            continue;
        if (row->plan == RECOVER_PUBLISH)
            remember(w, row);
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
    r->pages++;
    /* A full page: what stays pending is skipped by the next. When all of it still waits in the
     * queue, so does what is younger. */
    bool more = n == RECOVER_ROWS && r->waiting < n;
    if (more) {
        r->offset += n - r->settled_rows;
    } else {
        r->offset = 0;
        r->item_at++;
    }
    bool round_over = r->item_at >= w->catalog.n && !more;
    metric_set(w->metrics.age_unknown, r->unknown_seen);
    catalog_saw_pending(w, r->item, n < 0 ? -1 : r->list.total);
    if (round_over)
        r->item_at = 0;
    if (round_over || r->pages >= RECOVER_PAGES || r->stopped || !health_usable(w))
        return rest(w);
    return go(f, more ? LIST : ITEM);
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(ITEM), step_idle},
    [ITEM] = {"ITEM", FLOW_TO(LIST), step_item},
    [LIST] = {"LIST", FLOW_TO(LOCATE), step_list},
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
