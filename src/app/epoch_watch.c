#include "app/epoch_watch.h"

#include "app/worker.h"
#include "base/panic.h"
#include <stdlib.h>

enum { IDLE, READ, REPORTS, LOOK, RELIST, REBUILD, STATES };

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, epoch_watch.flow);
}

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct epoch_watch, timer)->flow);
}

static enum flow_result rest(struct worker *w)
{
    struct epoch_watch *e = &w->epoch_watch;
    if (e->flow.state != IDLE)
        flow_goto(&e->flow, IDLE);
    if (!e->stopped)
        sched_set_in(w->sched, &e->timer, EPOCH_WATCH_US);
    worker_changed(w);
    return FLOW_WAIT;
}

/* --- what PostgreSQL knows --- */

static void run_read(struct share_job *j, struct orders *o)
{
    struct epoch_watch *e = container_of(j, struct epoch_watch, job);
    e->n_read = e->max;
    j->rc = o->ops->watch(o, &e->ctx, e->read, &e->n_read);
}

static void on_read(struct share_job *j)
{
    flow_resume(&container_of(j, struct epoch_watch, job)->flow);
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct epoch_watch *e = &w->epoch_watch;
    if (e->stopped)
        return FLOW_WAIT;
    if (!health_usable(w))
        return rest(w);
    e->job = (struct share_job){
        .class = SHARE_BACK, .run = run_read, .on_done = on_read, .rc = ERR_OVERLOAD};
    ctx_init(&e->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    flow_goto(f, READ);
    share_submit(w, &e->job);
    return FLOW_WAIT;
}

static int compare(struct item a, struct item b)
{
    if (a.activity_id != b.activity_id)
        return a.activity_id < b.activity_id ? -1 : 1;
    return a.sku_id < b.sku_id ? -1 : a.sku_id > b.sku_id;
}

/* Both lists are by id: what this process saw of an item comes along. */
static void take_read(struct epoch_watch *e)
{
    struct epoch_watch_item *before = e->items;
    int old = 0;
    for (int i = 0; i < e->n_read; i++) {
        struct epoch_watch_item *it = &e->next[i];
        *it = (struct epoch_watch_item){.pg = e->read[i], .finding = EPOCH_UNKNOWN};
        while (old < e->n && compare(before[old].pg.item, it->pg.item) < 0)
            old++;
        if (old < e->n && item_eq(before[old].pg.item, it->pg.item))
            it->seen = before[old].seen;
    }
    e->items = e->next;
    e->next = before;
    e->n = e->n_read;
}

/* --- what was reported --- */

static void on_reports(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, epoch_watch.reports.op);
    if (rc < 0)
        w->epoch_watch.reports.n = 0;
    flow_resume(&w->epoch_watch.flow);
    worker_op_ended(w);
}

static enum flow_result step_read(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct epoch_watch *e = &w->epoch_watch;
    if (e->job.rc < 0 || w->canceled || e->stopped)
        return rest(w);
    take_read(e);
    if (e->n == 0)
        return rest(w);
    e->reports.op = (struct op){on_reports, worker_store_deadline(w)};
    flow_goto(f, REPORTS);
    worker_op_begun(w);
    w->stock->ops->reports(w->stock, &e->reports);
    return FLOW_WAIT;
}

static void note_reports(struct epoch_watch *e)
{
    for (int i = 0; i < e->reports.n; i++) {
        int low = 0, high = e->n;
        while (low < high) {
            int mid = (low + high) / 2;
            if (compare(e->items[mid].pg.item, e->reports.items[i]) < 0)
                low = mid + 1;
            else
                high = mid;
        }
        if (low < e->n && item_eq(e->items[low].pg.item, e->reports.items[i]))
            e->items[low].reported = true;
    }
}

/* --- what Redis has --- */

static void on_item(struct op *op, int rc);

static void ask(struct worker *w, struct epoch_watch_ask *a)
{
    struct epoch_watch *e = &w->epoch_watch;
    a->w = w;
    a->at = e->asked++;
    a->op = (struct stock_item_get){.op = {on_item, worker_store_deadline(w)},
                                    .item = e->items[a->at].pg.item};
    e->under_way++;
    worker_op_begun(w);
    w->stock->ops->item(w->stock, &a->op);
}

static void on_item(struct op *op, int rc)
{
    struct epoch_watch_ask *a = container_of(op, struct epoch_watch_ask, op.op);
    struct worker *w = a->w;
    struct epoch_watch *e = &w->epoch_watch;
    struct epoch_watch_item *it = &e->items[a->at];
    it->finding = epoch_judge(&it->pg, it->seen, it->reported, rc, &a->op.info);
    if (rc == 0 && a->op.info.version.epoch == it->pg.version.epoch &&
        item_version_cmp(a->op.info.version, it->seen) > 0)
        it->seen = a->op.info.version;
    e->under_way--;
    if (e->asked < e->n && !w->canceled)
        ask(w, a);
    if (e->under_way == 0)
        flow_resume(&e->flow);
    worker_op_ended(w);
}

static enum flow_result step_reports(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct epoch_watch *e = &w->epoch_watch;
    note_reports(e);
    if (w->canceled)
        return rest(w);
    e->asked = e->under_way = 0;
    flow_goto(f, LOOK);
    for (int i = 0; i < EPOCH_WATCH_UNDER_WAY && e->asked < e->n; i++)
        ask(w, &e->asks[i]);
    return FLOW_WAIT;
}

static void show(struct worker *w)
{
    const struct epoch_watch *e = &w->epoch_watch;
    static struct log_limit limit;
    uint64_t more;
    int64_t bad = 0, ahead = 0, epoch = 0;
    for (int i = 0; i < e->n; i++) {
        const struct epoch_watch_item *it = &e->items[i];
        ahead += it->finding == EPOCH_AHEAD;
        bad += it->finding >= EPOCH_LOST && it->finding <= EPOCH_ROLLED_BACK;
        epoch = it->pg.version.epoch > epoch ? it->pg.version.epoch : epoch;
        if (it->finding == EPOCH_AHEAD && log_allowed(&limit, w->sched->now_us, &more))
            log_error("Redis is at a newer epoch than PostgreSQL: PostgreSQL lost something",
                      LOG_I("activity_id", it->pg.item.activity_id),
                      LOG_I("sku_id", it->pg.item.sku_id), LOG_I("epoch", it->pg.version.epoch),
                      LOG_I("suppressed", (int64_t)more));
    }
    metric_add(w->metrics.epoch_looks, 1);
    metric_set(w->metrics.items_lost, bad);
    metric_set(w->metrics.items_ahead, ahead);
    metric_set(w->metrics.epoch_highest, epoch);
}

/* --- the catalogue --- */

static void on_relisted(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, epoch_watch.relist.op);
    if (rc == 0)
        log_warn("catalogue of items restored", LOG_I("items", w->epoch_watch.relist.n));
    flow_resume(&w->epoch_watch.flow);
    worker_op_ended(w);
}

/* Before anything is rebuilt: an item that sells and is not listed stops at the APIs' next look. */
static enum flow_result step_look(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct epoch_watch *e = &w->epoch_watch;
    bool lost = w->catalog.unlisted > 0;
    show(w);
    if (w->canceled)
        return rest(w);
    for (int i = 0; i < e->n; i++) {
        lost |= e->items[i].finding == EPOCH_LOST;
        e->listed[i] = e->items[i].pg.item;
    }
    e->at = -1;
    flow_goto(f, RELIST);
    if (!lost)
        return FLOW_NEXT;
    e->relist = (struct stock_relist){
        .op = {on_relisted, worker_store_deadline(w)}, .items = e->listed, .n = e->n};
    worker_op_begun(w);
    w->stock->ops->relist(w->stock, &e->relist);
    return FLOW_WAIT;
}

/* --- the rebuilds --- */

static void on_rebuilt(struct worker *w, enum rebuild_outcome outcome)
{
    (void)outcome; /* counted and logged; the next look judges anew */
    flow_resume(&w->epoch_watch.flow);
}

static bool needs_something(enum epoch_finding f)
{
    return f >= EPOCH_LOST && f <= EPOCH_UNFINISHED;
}

static enum flow_result step_rebuild(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct epoch_watch *e = &w->epoch_watch;
    do
        e->at++;
    while (e->at < e->n && !needs_something(e->items[e->at].finding));
    if (e->at == e->n || w->stopping || !health_usable(w))
        return rest(w);
    const struct epoch_watch_item *it = &e->items[e->at];
    if (it->finding == EPOCH_UNFINISHED)
        rebuild_note_finished(w, it->pg.item, it->pg.version.epoch, on_rebuilt);
    else
        rebuild_start(w, it->pg.item, it->pg.version.epoch, epoch_finding_name(it->finding),
                      on_rebuilt);
    return FLOW_WAIT;
}

static enum flow_result step_relist(struct flow *f)
{
    flow_goto(f, REBUILD);
    return FLOW_NEXT;
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(READ), step_idle},
    [READ] = {"READ", FLOW_TO(REPORTS) | FLOW_TO(IDLE), step_read},
    [REPORTS] = {"REPORTS", FLOW_TO(LOOK) | FLOW_TO(IDLE), step_reports},
    [LOOK] = {"LOOK", FLOW_TO(RELIST) | FLOW_TO(IDLE), step_look},
    [RELIST] = {"RELIST", FLOW_TO(REBUILD), step_relist},
    [REBUILD] = {"REBUILD", FLOW_TO(IDLE), step_rebuild},
};
static const struct flow_kind kind = {"epoch watch", STATES, states};

void epoch_watch_start(struct worker *w)
{
    struct epoch_watch *e = &w->epoch_watch;
    *e = (struct epoch_watch){.timer.on_fire = on_time, .max = w->cfg.max_items};
    e->read = calloc((size_t)e->max, sizeof e->read[0]);
    e->items = calloc((size_t)e->max, sizeof e->items[0]);
    e->next = calloc((size_t)e->max, sizeof e->next[0]);
    e->listed = calloc((size_t)e->max, sizeof e->listed[0]);
    if (!e->read || !e->items || !e->next || !e->listed)
        panic("no memory to watch %d items", e->max);
    flow_start(&e->flow, &kind, IDLE);
}

void epoch_watch_stop(struct worker *w)
{
    w->epoch_watch.stopped = true;
    sched_clear(w->sched, &w->epoch_watch.timer);
}

bool epoch_watch_idle(const struct worker *w)
{
    return !w->epoch_watch.flow.kind || w->epoch_watch.flow.state == IDLE;
}

void epoch_watch_deinit(struct worker *w)
{
    struct epoch_watch *e = &w->epoch_watch;
    rebuild_stop(w);
    free(e->read);
    free(e->items);
    free(e->next);
    free(e->listed);
}
