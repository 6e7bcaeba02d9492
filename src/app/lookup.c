#include "app/lookup.h"

struct lookup {
    struct flow flow;
    struct lookup_pool *pool;
    void *viewer;
    bool watched; /* the viewer is there */
    int64_t user_id, order_id, deadline_us;
    struct timer timer; /* the end of the budget, in PG and ITEM */
    struct stock_lookup call;
    struct reads_waiter read;
    struct item_waiter view;
    int64_t record_us; /* when Redis answered for the record: an older view of its item proves
                          nothing */
    struct lookup_seen seen;
    struct lookup_answer answer;
};

static struct lookup *lookup_of(struct flow *f)
{
    return container_of(f, struct lookup, flow);
}

/* After a store has answered, or will not. */
static void go_on(struct lookup *l)
{
    enum lookup_state next = LOOKUP_ANSWER;
    switch (l->answer.kind) {
    case LOOKUP_OF_REQUEST:
        next = lookup_decide_request(&l->seen, &l->answer);
        break;
    case LOOKUP_OF_ORDER:
        lookup_decide_order(l->seen.pg_rc, &l->seen.pg.order, l->user_id, &l->answer);
        break;
    case LOOKUP_OF_ITEM:
        lookup_decide_item(&l->seen.item, l->pool->sched->now_us, &l->answer);
        break;
    }
    flow_goto(&l->flow, (int)(l->watched ? next : LOOKUP_ANSWER));
}

static void wait_until_deadline(struct lookup *l)
{
    if (!l->timer.slot)
        sched_set(l->pool->sched, &l->timer, l->deadline_us);
}

/* --- REDIS --- */

/* gone_back: the store's answer is older than one before. */
static bool worth_postgresql(const struct lookup *l, bool gone_back)
{
    const struct lookup_seen *s = &l->seen;
    if (s->redis_rc != 0 || s->left_behind || gone_back)
        return true;
    int64_t age_ms = l->call.now_ms - s->redis.created_at_ms;
    return !verdict_terminal(s->redis.verdict.state) && age_ms > l->pool->fallback_after_us / 1000;
}

static void on_redis(struct op *op, int rc)
{
    struct lookup *l = container_of(op, struct lookup, call.op);
    if (rc == 0 && reservation_outlived(&l->call.found, l->call.version))
        rc = 1;
    l->seen.redis_rc = rc;
    l->record_us = l->pool->sched->now_us;
    bool gone_back =
        rc >= 0 && past_behind(&l->pool->past, l->answer.item, l->call.version, l->record_us);
    l->seen.left_behind = rc == 0 && l->call.found.epoch < l->call.version.epoch;
    if (rc == 0)
        l->seen.redis = l->call.found;
    if (l->watched && worth_postgresql(l, gone_back))
        flow_goto(&l->flow, LOOKUP_PG);
    else
        go_on(l);
    flow_resume(&l->flow);
}

static enum flow_result step_redis(struct flow *f)
{
    struct lookup *l = lookup_of(f);
    struct lookup_pool *p = l->pool;
    int64_t until = p->sched->now_us + p->redis_us;
    l->call.op = (struct op){.on_done = on_redis,
                             .deadline_us = until < l->deadline_us ? until : l->deadline_us};
    p->stock->ops->lookup(p->stock, &l->call);
    return FLOW_WAIT;
}

/* --- PG --- */

static void on_read(struct reads_waiter *w, int rc, const struct reads_result *result)
{
    struct lookup *l = container_of(w, struct lookup, read);
    l->seen.pg_rc = rc;
    if (rc == 0)
        l->seen.pg = *result;
    go_on(l);
    flow_resume(&l->flow);
}

static int ask_pg(struct lookup *l)
{
    struct reads_key key = {.kind = READS_ORDER, .id = l->order_id};
    if (l->answer.kind == LOOKUP_OF_REQUEST)
        key = (struct reads_key){READS_REQUEST, l->answer.item, l->user_id, l->answer.request_id};
    l->seen.asked_pg = true;
    l->read.on_read = on_read;
    return reads_ask(&l->pool->reads, &key, &l->read);
}

static enum flow_result step_pg(struct flow *f)
{
    struct lookup *l = lookup_of(f);
    /* Whoever begins here has asked before it began. */
    int rc = l->seen.asked_pg ? 0 : ask_pg(l);
    if (rc < 0) {
        l->seen.pg_rc = rc;
        go_on(l);
        return FLOW_NEXT;
    }
    wait_until_deadline(l);
    return FLOW_WAIT;
}

/* --- EPOCH --- */

static void on_epoch(struct reads_waiter *w, int rc, const struct reads_result *result)
{
    struct lookup *l = container_of(w, struct lookup, read);
    l->seen.epoch_rc = rc;
    if (rc == 0)
        l->seen.inventory = result->inventory;
    go_on(l);
    flow_resume(&l->flow);
}

static enum flow_result step_epoch(struct flow *f)
{
    struct lookup *l = lookup_of(f);
    struct reads_key key = {.kind = READS_ITEM, .item = l->answer.item};
    l->seen.asked_epoch = true;
    l->read.on_read = on_epoch;
    int rc = reads_ask(&l->pool->reads, &key, &l->read);
    if (rc < 0) {
        l->seen.epoch_rc = rc;
        go_on(l);
        return FLOW_NEXT;
    }
    wait_until_deadline(l);
    return FLOW_WAIT;
}

/* --- ITEM --- */

static int ask_item(struct lookup *l);

static void on_view(struct item_waiter *w, const struct item_view *v)
{
    struct lookup *l = container_of(w, struct lookup, view);
    l->seen.item = *v;
    if (v->rc >= 0 && v->asked_us < l->record_us && ask_item(l) == ITEM_VIEW_LATER)
        return;
    go_on(l);
    flow_resume(&l->flow);
}

static int ask_item(struct lookup *l)
{
    const struct item_view *now;
    l->seen.asked_item = true;
    l->view.on_view = on_view;
    int rc = item_views_ask(&l->pool->items, l->answer.item, l->record_us, &l->view, &now);
    if (rc == ITEM_VIEW_NOW)
        l->seen.item = *now;
    else if (rc < 0)
        l->seen.item = (struct item_view){.rc = rc};
    return rc;
}

static enum flow_result step_item(struct flow *f)
{
    struct lookup *l = lookup_of(f);
    int rc = l->seen.asked_item ? ITEM_VIEW_LATER : ask_item(l);
    if (rc == ITEM_VIEW_LATER) {
        wait_until_deadline(l);
        return FLOW_WAIT;
    }
    go_on(l);
    return FLOW_NEXT;
}

/* --- ANSWER --- */

static enum flow_result step_answer(struct flow *f)
{
    struct lookup *l = lookup_of(f);
    struct lookup_pool *p = l->pool;
    sched_clear(p->sched, &l->timer);
    if (l->answer.suspect)
        reporter_report(p->reporter, l->answer.item, REPORT_NOWHERE);
    if (l->watched) {
        metric_add(p->count.source[l->answer.source], 1);
        p->on_answer(p, l->viewer, &l->answer);
    }
    return FLOW_DONE;
}

static void on_end(struct flow *f)
{
    struct lookup *l = lookup_of(f);
    struct lookup_pool *p = l->pool;
    flow_pool_put(&p->flows, l);
    if (lookup_pool_busy(p) == 0 && p->on_idle)
        p->on_idle(p);
}

/* Whoever waits does not any more: `rc` is what its store said. */
static void give_up(struct lookup *l, int rc)
{
    if (l->flow.state == LOOKUP_PG) {
        reads_leave(&l->read);
        l->seen.pg_rc = rc;
    } else if (l->flow.state == LOOKUP_EPOCH) {
        reads_leave(&l->read);
        l->seen.epoch_rc = rc;
    } else {
        item_views_leave(&l->view);
        l->seen.item = (struct item_view){.rc = rc};
    }
    go_on(l);
    flow_resume(&l->flow);
}

static void on_deadline(struct timer *t)
{
    struct lookup *l = container_of(t, struct lookup, timer);
    metric_add(l->pool->count.timeouts, 1);
    give_up(l, ERR_DEADLINE);
}

void lookup_gone(struct lookup *l)
{
    l->watched = false;
    l->viewer = NULL;
    if (l->flow.state == LOOKUP_REDIS)
        l->pool->stock->ops->cancel(l->pool->stock, &l->call.op); /* on_redis comes */
    else
        give_up(l, ERR_CANCELED);
}

static const struct flow_state states[LOOKUP_STATES] = {
    [LOOKUP_REDIS] = {"REDIS", FLOW_TO(LOOKUP_PG) | FLOW_TO(LOOKUP_ANSWER), step_redis},
    [LOOKUP_PG] = {"PG", FLOW_TO(LOOKUP_EPOCH) | FLOW_TO(LOOKUP_ITEM) | FLOW_TO(LOOKUP_ANSWER),
                   step_pg},
    [LOOKUP_EPOCH] = {"EPOCH", FLOW_TO(LOOKUP_ANSWER), step_epoch},
    [LOOKUP_ITEM] = {"ITEM", FLOW_TO(LOOKUP_ANSWER), step_item},
    [LOOKUP_ANSWER] = {"ANSWER", 0, step_answer},
};
struct flow_kind lookup_kind = {
    .name = "lookup", .states = LOOKUP_STATES, .state = states, .on_end = on_end};

/* --- the beginning --- */

static int begin(struct lookup_pool *p, enum lookup_kind kind, int64_t received_us, void *viewer,
                 struct lookup **out)
{
    if (p->sched->now_us >= received_us + p->timeout_us) {
        metric_add(p->count.late, 1);
        return ERR_DEADLINE;
    }
    struct lookup *l = flow_pool_take(&p->flows);
    if (!l) {
        metric_add(p->count.overloaded, 1);
        return ERR_OVERLOAD;
    }
    l->pool = p;
    l->timer.on_fire = on_deadline;
    l->viewer = viewer;
    l->watched = true;
    l->deadline_us = received_us + p->timeout_us;
    l->seen.redis_rc = l->seen.pg_rc = l->seen.epoch_rc = 0;
    l->seen.asked_pg = l->seen.asked_epoch = l->seen.asked_item = false;
    l->seen.accepted_epoch = 0;
    l->seen.left_behind = false;
    l->record_us = 0;
    l->answer = (struct lookup_answer){.kind = kind};
    *out = l;
    return 0;
}

int lookup_request(struct lookup_pool *p, struct item item, int64_t user_id,
                   const struct uuid *request_id, int64_t accepted_epoch, int64_t received_us,
                   void *viewer, struct lookup **out)
{
    struct lookup *l;
    int rc = begin(p, LOOKUP_OF_REQUEST, received_us, viewer, &l);
    if (rc < 0)
        return rc;
    l->user_id = l->call.user_id = user_id;
    l->answer.item = l->call.item = item;
    l->answer.request_id = l->call.request_id = *request_id;
    l->seen.accepted_epoch = accepted_epoch;
    *out = l;
    flow_start(&l->flow, &lookup_kind, LOOKUP_REDIS);
    return LOOKUP_STARTED;
}

int lookup_order(struct lookup_pool *p, int64_t order_id, int64_t user_id, int64_t received_us,
                 void *viewer, struct lookup **out)
{
    struct lookup *l;
    int rc = begin(p, LOOKUP_OF_ORDER, received_us, viewer, &l);
    if (rc < 0)
        return rc;
    l->user_id = user_id;
    l->order_id = order_id;
    if (ask_pg(l) < 0) {
        flow_pool_put(&p->flows, l);
        return ERR_UNAVAIL;
    }
    *out = l;
    flow_start(&l->flow, &lookup_kind, LOOKUP_PG);
    return LOOKUP_STARTED;
}

int lookup_item(struct lookup_pool *p, struct item item, int64_t received_us, void *viewer,
                struct lookup **out, struct lookup_answer *now)
{
    struct lookup *l;
    int rc = begin(p, LOOKUP_OF_ITEM, received_us, viewer, &l);
    if (rc < 0)
        return rc;
    l->answer.item = item;
    if (ask_item(l) == ITEM_VIEW_LATER) {
        *out = l;
        flow_start(&l->flow, &lookup_kind, LOOKUP_ITEM);
        return LOOKUP_STARTED;
    }
    lookup_decide_item(&l->seen.item, p->sched->now_us, &l->answer);
    metric_add(p->count.source[l->answer.source], 1);
    *now = l->answer;
    flow_pool_put(&p->flows, l);
    return LOOKUP_AT_ONCE;
}

/* --- the pool --- */

int lookup_pool_init(struct lookup_pool *p, int n)
{
    static const char *const labels[LOOKUP_SOURCES] = {"source=\"none\"", "source=\"redis\"",
                                                       "source=\"postgresql\"", "source=\"token\""};
    p->reads = (struct reads){
        .jobs = p->jobs, .sched = p->sched, .timeout_us = p->pg_us, .max = p->pg_reads};
    p->items = (struct item_views){.stock = p->stock, .sched = p->sched, .call_us = p->redis_us};
    if (flow_pool_init(&p->flows, n, sizeof(struct lookup)) < 0)
        return ERR_OVERLOAD;
    past_init(&p->past);
    for (int i = 0; i < LOOKUP_SOURCES; i++)
        p->count.source[i] =
            metric_counter("seckill_query_lookups_total",
                           "look-ups answered, by where the answer came from", labels[i]);
    static const char rejected[] = "seckill_admission_rejected_total";
    static const char help[] = "requests refused before any work, by reason";
    p->count.overloaded = metric_counter(rejected, help, "reason=\"overloaded\"");
    p->count.late = metric_counter(rejected, help, "reason=\"deadline\"");
    p->count.timeouts = metric_counter("seckill_query_timeouts_total",
                                       "look-ups that did not end within query.timeout", NULL);
    int rc = reads_init(&p->reads);
    if (rc == 0 && item_views_init(&p->items) < 0) {
        reads_deinit(&p->reads);
        rc = ERR_OVERLOAD;
    }
    if (rc < 0)
        flow_pool_deinit(&p->flows);
    return rc;
}

void lookup_pool_deinit(struct lookup_pool *p)
{
    flow_pool_deinit(&p->flows);
    reads_deinit(&p->reads);
    item_views_deinit(&p->items);
}
