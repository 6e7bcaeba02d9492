#include "app/reconcile.h"

#include "app/reconcile_flow.h"
#include "app/reconcile_judge.h"
#include "app/reconcile_report.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct reconcile, timer)->flow);
}

static void on_job(struct share_job *j)
{
    flow_resume(&worker_of_job(j)->reconcile.flow);
}

void reconcile_submit(struct worker *w, void (*run)(struct share_job *, struct orders *))
{
    struct reconcile *r = &w->reconcile;
    r->job =
        (struct share_job){.class = SHARE_BACK, .run = run, .on_done = on_job, .rc = ERR_OVERLOAD};
    ctx_init(&r->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &r->job);
}

static enum flow_result rest(struct worker *w, int64_t delay_us)
{
    struct reconcile *r = &w->reconcile;
    flow_goto(&r->flow, IDLE);
    if (!r->stopped)
        sched_set_in(w->sched, &r->timer, delay_us);
    worker_changed(w);
    return FLOW_WAIT;
}

/* The round ends here and says nothing. */
enum flow_result reconcile_give_up(struct worker *w)
{
    findings_round_over(w, w->reconcile.item, false);
    return rest(w, RECONCILE_ITEM_US);
}

enum flow_result reconcile_failed(struct worker *w, const char *what, int rc)
{
    static struct log_limit limit;
    uint64_t more;
    metric_add(w->metrics.reconcile_rounds[RECONCILE_FAILED], 1);
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn("reconciliation of an item broke off; its turn comes again", LOG_Z("part", what),
                 LOG_I("activity_id", w->reconcile.item.activity_id),
                 LOG_I("sku_id", w->reconcile.item.sku_id), LOG_Z("error_kind", err_name(rc)),
                 LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
    return reconcile_give_up(w);
}

/* --- whose turn it is --- */

int reconcile_take_lease(struct worker *w, struct orders *o, struct orders_books *books)
{
    return o->ops->reconcile_begin(o, &w->reconcile.ctx, w->reconcile.item, str_of(w->life),
                                   RECONCILE_LEASE_MS, books);
}

/* What an operator waits for comes first, listed or not. */
static void run_begin(struct share_job *j, struct orders *o)
{
    struct worker *w = worker_of_job(j);
    struct reconcile *r = &w->reconcile;
    struct item asked;
    j->rc = o->ops->reconcile_asked(o, &r->ctx, str_of(w->life), RECONCILE_LEASE_MS, &asked);
    if (j->rc < 0 || (j->rc == 1 && r->only_asked))
        return;
    if (j->rc == 0) {
        r->item = asked;
        r->only_asked = true; /* the rotation stays where it is */
    }
    j->rc = reconcile_take_lease(w, o, &r->books);
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    if (r->stopped)
        return FLOW_WAIT;
    if (!health_usable(w) || w->catalog.n == 0) {
        sched_set_in(w->sched, &r->timer, RECONCILE_TICK_US);
        return FLOW_WAIT;
    }
    r->only_asked = w->sched->now_us < r->next_cycle_us;
    if (!r->only_asked) {
        r->item_at = r->item_at < w->catalog.n ? r->item_at : 0;
        r->item = w->catalog.items[r->item_at].item;
    }
    r->leased_us = w->sched->now_us;
    r->lost = false;
    flow_goto(f, BEGIN);
    reconcile_submit(w, run_begin);
    return FLOW_WAIT;
}

/* The rotation's next item; after the last one it rests until the interval is over. */
static void rotate(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    if (++r->item_at < w->catalog.n)
        return;
    r->item_at = 0;
    r->next_cycle_us = w->sched->now_us + w->cfg.reconcile_interval_us;
}

static void on_inspected(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, reconcile.op.inspect.op);
    w->reconcile.job.rc = rc;
    flow_resume(&w->reconcile.flow);
}

static int64_t until_next(const struct worker *w)
{
    int64_t cycle_us = w->reconcile.next_cycle_us - w->sched->now_us;
    if (cycle_us < RECONCILE_ITEM_US)
        return RECONCILE_ITEM_US;
    return cycle_us < RECONCILE_TICK_US ? cycle_us : RECONCILE_TICK_US;
}

static enum flow_result step_begin(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    if (!r->only_asked)
        rotate(w);
    if (r->job.rc != 0 || r->stopped)
        return r->job.rc < 0 ? reconcile_failed(w, "begin", r->job.rc) : rest(w, until_next(w));
    r->started_ms = worker_wall_ms(w);
    r->counts = (struct reconcile_counts){0};
    r->walking = r->books.timeline != r->books.walked;
    r->walk = WALK_BUYERS;
    r->page_n = r->page_at = r->offset = 0;
    r->page_last = r->last = false;
    r->after_user = 0;
    str_copy(r->cursor, sizeof r->cursor, STR("0"));
    r->op.inspect =
        (struct stock_inspect){.op = {on_inspected, worker_store_deadline(w)}, .item = r->item};
    flow_goto(f, INSPECT);
    w->stock->ops->inspect(w->stock, &r->op.inspect);
    return FLOW_WAIT;
}

static enum flow_result note_broken(struct worker *w)
{
    static const char *const keys[] = {"meta", "stock", "buyers", "pending"};
    struct reconcile *r = &w->reconcile;
    struct finding *f = findings_note(w, r->item, FINDING_BROKEN, NULL, 1);
    r->info = (struct stock_item_info){0};
    if (!f)
        return go(&r->flow, OVER);
    for (int i = 0; i < 4; i++) {
        if (strcmp(r->op.inspect.broken, keys[i]) == 0)
            f->broken = keys[i];
    }
    f->rounds = FINDINGS_SURE; /* it was looked at and acted on in one step */
    if (r->op.inspect.paused)
        f->mended = "PAUSED";
    return go(&r->flow, OVER);
}

static enum flow_result step_inspect(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    int rc = r->job.rc;
    if (rc < 0)
        return reconcile_failed(w, "inspect", rc);
    if (rc == 2)
        return note_broken(w);
    if (rc == 1 || r->op.inspect.info.version.epoch != r->books.epoch ||
        r->op.inspect.info.rebuilding || r->stopped) {
        metric_add(w->metrics.reconcile_rounds[RECONCILE_SKIPPED], 1); /* the rebuild's */
        return reconcile_give_up(w);
    }
    r->info = r->op.inspect.info;
    judge_item(w, &r->info, &r->books);
    return go(f, SOURCE);
}

/* --- the end of a round --- */

static enum flow_result step_over(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    r->dropped = r->findings.dropped;
    findings_round_over(w, r->item, true);
    r->mend_at = r->mends = 0;
    return go(f, MEND);
}

static enum flow_result step_mend(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    bool may = w->cfg.reconcile_mend || r->books.asked;
    while (may && r->mend_at < r->findings.n && r->mends < RECONCILE_MENDS && !r->stopped) {
        const struct finding *x = &r->findings.rows[r->mend_at++];
        if (!item_eq(x->item, r->item) || !finding_sure(x))
            continue;
        flow_goto(f, MENDED);
        if (mend_start(&r->mend, w, x))
            return FLOW_WAIT;
        flow_goto(f, MEND);
    }
    return go(f, TELL);
}

void reconcile_mended(struct worker *w)
{
    flow_resume(&w->reconcile.flow);
}

static enum flow_result step_mended(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    struct finding *x = &r->findings.rows[r->mend_at - 1];
    r->mends++;
    crashpoint("reconcile_after_mend");
    if (r->mend.rc == 0) {
        x->told &= x->mended == r->mend.done;
        x->mended = r->mend.done;
        metric_add(w->metrics.mended[x->kind], 1);
    }
    return go(f, MEND);
}

static void run_end(struct share_job *j, struct orders *o)
{
    struct worker *w = worker_of_job(j);
    struct reconcile *r = &w->reconcile;
    j->rc = o->ops->reconcile_end(o, &r->ctx, str_of(w->life), &r->end);
}

static enum flow_result step_tell(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    bool found_all = r->walk == WALKS && r->counts.republished == 0 && r->counts.unanswered == 0;
    findings_show(w);
    reconcile_report_log(w, r->item);
    strbuf_clear(&r->detail);
    reconcile_report_detail(w, r->item, &r->detail);
    r->end = (struct orders_reconciled){
        .item = r->item,
        .started_ms = r->started_ms,
        .outcome = findings_count(w, r->item, true) > 0 ? "DISCREPANCY" : "CLEAN",
        .detail = strbuf_str(&r->detail),
        .walked = found_all ? r->books.timeline : 0,
        .answered = findings_count(w, r->item, false) == 0,
    };
    flow_goto(f, END);
    reconcile_submit(w, run_end);
    return FLOW_WAIT;
}

static enum flow_result step_end(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct reconcile *r = &w->reconcile;
    bool clean = findings_count(w, r->item, true) == 0;
    if (r->job.rc < 0)
        return reconcile_failed(w, "end", r->job.rc);
    metric_add(w->metrics.reconcile_rounds[clean ? RECONCILE_CLEAN : RECONCILE_DISCREPANCY], 1);
    /* Who waits for an answer waits for the second sample, too. */
    return rest(w, RECONCILE_ITEM_US);
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(BEGIN), step_idle},
    [BEGIN] = {"BEGIN", FLOW_TO(INSPECT) | FLOW_TO(IDLE), step_begin},
    [INSPECT] = {"INSPECT", FLOW_TO(SOURCE) | FLOW_TO(OVER) | FLOW_TO(IDLE), step_inspect},
    [SOURCE] = {"SOURCE", FLOW_TO(HELD) | FLOW_TO(OVER) | FLOW_TO(IDLE), reconcile_step_source},
    [HELD] = {"HELD", FLOW_TO(LOOK) | FLOW_TO(SOURCE) | FLOW_TO(IDLE), reconcile_step_held},
    [LOOK] = {"LOOK", FLOW_TO(JUDGE) | FLOW_TO(SOURCE) | FLOW_TO(IDLE), reconcile_step_look},
    [JUDGE] = {"JUDGE", FLOW_TO(PUBLISH) | FLOW_TO(IDLE), reconcile_step_judge},
    [PUBLISH] = {"PUBLISH", FLOW_TO(SOURCE), reconcile_step_publish},
    [OVER] = {"OVER", FLOW_TO(MEND), step_over},
    [MEND] = {"MEND", FLOW_TO(MENDED) | FLOW_TO(TELL), step_mend},
    [MENDED] = {"MENDED", FLOW_TO(MEND), step_mended},
    [TELL] = {"TELL", FLOW_TO(END), step_tell},
    [END] = {"END", FLOW_TO(IDLE), step_end},
};
static const struct flow_kind kind = {"reconcile", STATES, states};

void reconcile_start(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    *r = (struct reconcile){.timer.on_fire = on_time,
                            .next_cycle_us = w->sched->now_us + w->cfg.reconcile_interval_us};
    r->page = malloc(STOCK_HOLDERS_PAGE * sizeof r->page[0]);
    r->held = calloc(RECONCILE_ROWS, sizeof r->held[0]);
    r->looks = calloc(RECONCILE_ROWS, sizeof r->looks[0]);
    r->orders = calloc(RECONCILE_ROWS, sizeof r->orders[0]);
    r->is_lost = calloc(RECONCILE_ROWS, sizeof r->is_lost[0]);
    if (!r->page || !r->held || !r->looks || !r->orders || !r->is_lost)
        panic("no memory for reconciliation");
    strbuf_init(&r->detail, 64 * 1024);
    findings_show(w);
    flow_start(&r->flow, &kind, IDLE);
}

void reconcile_stop(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    bool pacing = r->timer.slot != 0 && !reconcile_idle(w);
    r->stopped = true;
    sched_clear(w->sched, &r->timer);
    if (pacing) /* on to where it sees that it is over */
        sched_set(w->sched, &r->timer, w->sched->now_us);
}

bool reconcile_idle(const struct worker *w)
{
    return !w->reconcile.flow.kind || w->reconcile.flow.state == IDLE;
}

void reconcile_deinit(struct worker *w)
{
    struct reconcile *r = &w->reconcile;
    sched_clear(w->sched, &r->timer);
    free(r->page);
    free(r->held);
    free(r->looks);
    free(r->orders);
    free(r->is_lost);
    strbuf_deinit(&r->detail);
}
