#include "app/rebuild.h"

#include "app/rebuild_calls.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include <assert.h>

enum {
    ASK,
    TAKE,
    BEGIN,
    UNREPORT,
    DRAIN,
    BEAT,
    SURVEY,
    KEEP,
    COUNT,
    PAGE,
    RESTORE,
    RESETTLE,
    END,
    FINISH,
    OVER,
    STATES
};

#define SLACK_MS 1000

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, rebuild.flow);
}

/* --- a call: made, answered, made again --- */

static void on_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, rebuild.timer);
    w->rebuild.call(w);
}

/* To the state whose call this is, and makes it. */
static enum flow_result await(struct worker *w, int state, void (*call)(struct worker *))
{
    struct rebuild *r = &w->rebuild;
    flow_goto(&r->flow, state);
    r->call = call;
    r->tries = 0;
    call(w);
    return FLOW_WAIT;
}

static enum flow_result over(struct worker *w, enum rebuild_outcome outcome)
{
    struct rebuild *r = &w->rebuild;
    const char *const names[REBUILD_OUTCOMES] = {"done", "moved", "busy", "failed"};
    int64_t took_us = w->sched->now_us - r->asked_us;
    if (outcome == REBUILD_DONE && !r->finish_only)
        metric_observe_us(w->metrics.rebuild_duration, took_us);
    metric_add(w->metrics.rebuilds[outcome], 1);
    if (r->it.epoch)
        log_at(outcome == REBUILD_DONE ? LOG_INFO : LOG_WARN, "rebuild over",
               LOG_I("activity_id", r->item.activity_id), LOG_I("sku_id", r->item.sku_id),
               LOG_I("epoch", r->it.epoch), LOG_Z("outcome", names[outcome]),
               LOG_Z("reason", r->reason), LOG_I("orders", r->held.ordered),
               LOG_I("live", r->held.live), LOG_I("drained_ms", r->drained_us / 1000),
               LOG_I("counted_ms", r->counted_us / 1000), LOG_I("took_ms", took_us / 1000));
    r->outcome = outcome;
    flow_goto(&r->flow, OVER);
    return FLOW_NEXT;
}

/* Whether the call's answer ends the attempt, or the call is made again: then *result is what the
 * step returns. Refused is the end: somebody else has the item. */
static bool ends(struct worker *w, enum flow_result *result)
{
    struct rebuild *r = &w->rebuild;
    if (r->rc == 0 && !w->canceled)
        return false;
    if (r->rc > 0) {
        *result = over(w, REBUILD_MOVED);
    } else if (w->canceled || ++r->tries >= REBUILD_TRIES) {
        if (r->rc < 0)
            log_warn("rebuild step failed", LOG_I("activity_id", r->item.activity_id),
                     LOG_I("sku_id", r->item.sku_id), LOG_I("epoch", r->it.epoch),
                     LOG_Z("step", r->flow.kind->state[r->flow.state].name),
                     LOG_Z("error_kind", err_name(r->rc)), LOG_B("retryable", true));
        *result = over(w, REBUILD_FAILED);
    } else {
        sched_set_in(w->sched, &r->timer, REBUILD_AGAIN_US);
        *result = FLOW_WAIT;
    }
    return true;
}

/* --- take --- */

static enum flow_result step_ask(struct flow *f)
{
    struct worker *w = worker_of(f);
    return w->rebuild.finish_only ? await(w, FINISH, rebuild_call_finish)
                                  : await(w, TAKE, rebuild_call_take);
}

/* Its answer may be lost: the epoch has moved then, and the watch finds an attempt that did not
 * come to its end, of our own. */
static enum flow_result step_take(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    crashpoint("rebuild_after_take");
    if (r->rc != 0 || w->canceled) {
        r->it.epoch = 0;
        return over(w, r->rc == 1 ? REBUILD_MOVED : r->rc == 2 ? REBUILD_BUSY : REBUILD_FAILED);
    }
    log_warn("rebuild begins", LOG_I("activity_id", r->item.activity_id),
             LOG_I("sku_id", r->item.sku_id), LOG_I("epoch", r->it.epoch),
             LOG_Z("reason", r->reason));
    return await(w, BEGIN, rebuild_call_begin);
}

/* --- begin --- */

static enum flow_result step_begin(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    enum flow_result result;
    if (ends(w, &result))
        return result;
    crashpoint("rebuild_after_begin");
    r->was_there |= r->op.begin.was_there;
    r->begun_us = r->beat_us = w->sched->now_us;
    return await(w, UNREPORT, rebuild_call_unreport);
}

/* --- drain: what was reserved before becomes orders, so that it is counted as such --- */

/* Only now: what is reported from here on is of this epoch. What was reported of the one before
 * would else begin a rebuild of a sound item once its rest is over. */
static enum flow_result step_unreport(struct flow *f)
{
    struct worker *w = worker_of(f);
    enum flow_result result;
    return ends(w, &result) ? result : await(w, DRAIN, rebuild_call_lag);
}

/* On a queue of all items: what was enqueued before is gone, as far as ages tell. */
static bool passed(struct worker *w, int64_t oldest_ms)
{
    int64_t since_ms =
        (w->sched->now_us - w->rebuild.begun_us - 2 * HEALTH_BEAT_US) / 1000 - SLACK_MS;
    int64_t fleet_ms = health_fleet_age_ms(w);
    return since_ms > 0 && oldest_ms < since_ms && fleet_ms >= 0 && fleet_ms < since_ms;
}

static bool drained(struct worker *w)
{
    struct rebuild *r = &w->rebuild;
    if (r->rc == ERR_NOTFOUND) /* the stream is gone, too */
        return true;
    if (r->rc < 0)
        return false;
    return r->op.lag.of_all_items ? passed(w, r->op.lag.oldest_age_ms)
                                  : r->op.lag.waiting == 0 && r->op.lag.in_hand == 0;
}

static enum flow_result step_drain(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    int64_t now = w->sched->now_us;
    if (w->canceled)
        return over(w, REBUILD_FAILED);
    if (drained(w) || now - r->begun_us >= w->cfg.rebuild_drain_us) {
        crashpoint("rebuild_after_drain");
        r->drained_us = now - r->asked_us;
        return r->was_there ? await(w, SURVEY, rebuild_call_pending)
                            : await(w, COUNT, rebuild_call_count);
    }
    if (now - r->beat_us >= REBUILD_BEAT_US)
        return await(w, BEAT, rebuild_call_beat);
    sched_set_in(w->sched, &r->timer, REBUILD_POLL_US);
    return FLOW_WAIT;
}

static enum flow_result step_beat(struct flow *f)
{
    struct worker *w = worker_of(f);
    enum flow_result result;
    if (ends(w, &result))
        return result;
    w->rebuild.beat_us = w->sched->now_us;
    return await(w, DRAIN, rebuild_call_lag);
}

/* --- survey: who waits --- */

static enum flow_result step_survey(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    const struct stock_pending *p = &r->op.pending;
    enum flow_result result;
    static_assert(STOCK_PENDING_MAX <= ORDERS_HOLDS_MAX, "a page fits");
    if (ends(w, &result))
        return result;
    if (p->n == 0)
        return await(w, COUNT, rebuild_call_count);
    r->offset += p->n;
    r->n_holds = 0;
    for (int i = 0; i < p->n; i++) {
        const struct reservation *x = &p->rows[i];
        /* Without a record nobody knows what to hold for whom. */
        if (p->results[i] != STOCK_ROW_GOOD || x->status == RESERVATION_ORDERED ||
            x->status == RESERVATION_RELEASED)
            continue;
        r->holds[r->n_holds++] = (struct orders_hold){.reservation_id = x->reservation_id,
                                                      .message_id = x->message_id,
                                                      .request_id = x->request_id,
                                                      .user_id = x->user_id,
                                                      .order_id = x->order_id,
                                                      .created_at_ms = x->created_at_ms,
                                                      .epoch = x->epoch};
    }
    return await(w, KEEP, rebuild_call_keep);
}

static enum flow_result step_keep(struct flow *f)
{
    struct worker *w = worker_of(f);
    enum flow_result result;
    if (ends(w, &result))
        return result;
    crashpoint("rebuild_after_keep");
    return await(w, SURVEY, rebuild_call_pending);
}

/* --- restore --- */

static enum flow_result step_count(struct flow *f)
{
    struct worker *w = worker_of(f);
    enum flow_result result;
    if (ends(w, &result))
        return result;
    crashpoint("rebuild_after_count");
    w->rebuild.counted_us = w->sched->now_us - w->rebuild.asked_us;
    return await(w, PAGE, rebuild_call_page);
}

static enum flow_result step_page(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    enum flow_result result;
    static_assert(ORDERS_HOLDS_MAX <= STOCK_RESTORE_MAX, "a page is a step");
    if (ends(w, &result))
        return result;
    if (r->n_holds == 0 && r->restored < rebuild_expected(r))
        return over(w, REBUILD_MOVED);
    for (int i = 0; i < r->n_holds; i++) {
        const struct orders_hold *h = &r->holds[i];
        r->rows[i] = (struct stock_hold){.reservation_id = h->reservation_id,
                                         .message_id = h->message_id,
                                         .request_id = h->request_id,
                                         .user_id = h->user_id,
                                         .order_id = h->order_id,
                                         .created_at_ms = h->created_at_ms,
                                         .ordered = h->ordered};
        r->after = h->reservation_id;
    }
    r->n_rows = r->n_holds;
    r->step++;
    return await(w, RESTORE, rebuild_call_restore);
}

/* --- the end --- */

static enum flow_result step_restore(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    enum flow_result result;
    if (ends(w, &result))
        return result;
    crashpoint("rebuild_after_restore");
    r->restored += r->n_rows;
    if (r->page_read) {
        flow_goto(f, PAGE);
        r->call = rebuild_call_page;
        r->rc = r->page_rc;
        r->tries = 0;
        r->page_read = false;
        return FLOW_NEXT;
    }
    if (r->restored < rebuild_expected(r))
        return await(w, PAGE, rebuild_call_page);
    return r->was_there ? await(w, RESETTLE, rebuild_call_resettle)
                        : await(w, END, rebuild_call_end);
}

static enum flow_result step_resettle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    enum flow_result result;
    if (ends(w, &result))
        return result;
    crashpoint("rebuild_after_resettle");
    r->resettle_from = r->resettle_to;
    return r->resettle_from ? await(w, RESETTLE, rebuild_call_resettle)
                            : await(w, END, rebuild_call_end);
}

static enum flow_result step_end(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct rebuild *r = &w->rebuild;
    enum flow_result result;
    /* Refused at a second try: the first, whose answer was lost, opened it, or another epoch came,
     * and then finish is refused. */
    if (!(r->rc == 1 && r->tries > 0) && ends(w, &result))
        return result;
    crashpoint("rebuild_after_end");
    return await(w, FINISH, rebuild_call_finish);
}

static enum flow_result step_finish(struct flow *f)
{
    struct worker *w = worker_of(f);
    enum flow_result result;
    crashpoint("rebuild_after_finish");
    return ends(w, &result) ? result : over(w, REBUILD_DONE);
}

static const struct flow_state states[STATES] = {
    [ASK] = {"ASK", FLOW_TO(TAKE) | FLOW_TO(FINISH), step_ask},
    [TAKE] = {"TAKE", FLOW_TO(BEGIN) | FLOW_TO(OVER), step_take},
    [BEGIN] = {"BEGIN", FLOW_TO(UNREPORT) | FLOW_TO(OVER), step_begin},
    [UNREPORT] = {"UNREPORT", FLOW_TO(DRAIN) | FLOW_TO(OVER), step_unreport},
    [DRAIN] = {"DRAIN", FLOW_TO(BEAT) | FLOW_TO(SURVEY) | FLOW_TO(COUNT) | FLOW_TO(OVER),
               step_drain},
    [BEAT] = {"BEAT", FLOW_TO(DRAIN) | FLOW_TO(OVER), step_beat},
    [SURVEY] = {"SURVEY", FLOW_TO(KEEP) | FLOW_TO(COUNT) | FLOW_TO(OVER), step_survey},
    [KEEP] = {"KEEP", FLOW_TO(SURVEY) | FLOW_TO(OVER), step_keep},
    [COUNT] = {"COUNT", FLOW_TO(PAGE) | FLOW_TO(OVER), step_count},
    [PAGE] = {"PAGE", FLOW_TO(RESTORE) | FLOW_TO(OVER), step_page},
    [RESTORE] = {"RESTORE", FLOW_TO(PAGE) | FLOW_TO(RESETTLE) | FLOW_TO(END) | FLOW_TO(OVER),
                 step_restore},
    [RESETTLE] = {"RESETTLE", FLOW_TO(RESETTLE) | FLOW_TO(END) | FLOW_TO(OVER), step_resettle},
    [END] = {"END", FLOW_TO(FINISH) | FLOW_TO(OVER), step_end},
    [FINISH] = {"FINISH", FLOW_TO(OVER), step_finish},
    [OVER] = {"OVER", 0, NULL},
};

static void on_over(struct flow *f)
{
    struct worker *w = worker_of(f);
    w->rebuild.on_end(w, w->rebuild.outcome);
}

static const struct flow_kind kind = {"rebuild", STATES, states, .on_end = on_over};

void rebuild_start(struct worker *w, struct item item, int64_t from_epoch, const char *reason,
                   void (*on_end)(struct worker *w, enum rebuild_outcome outcome))
{
    struct rebuild *r = &w->rebuild;
    *r = (struct rebuild){.on_end = on_end,
                          .item = item,
                          .reason = reason,
                          .from_epoch = from_epoch,
                          .asked_us = w->sched->now_us,
                          .timer.on_fire = on_time};
    flow_start(&r->flow, &kind, ASK);
}

void rebuild_note_finished(struct worker *w, struct item item, int64_t epoch,
                           void (*on_end)(struct worker *w, enum rebuild_outcome outcome))
{
    struct rebuild *r = &w->rebuild;
    *r = (struct rebuild){.on_end = on_end,
                          .item = item,
                          .reason = "unfinished",
                          .it.epoch = epoch,
                          .finish_only = true,
                          .asked_us = w->sched->now_us,
                          .timer.on_fire = on_time};
    flow_start(&r->flow, &kind, ASK);
}

void rebuild_stop(struct worker *w)
{
    sched_clear(w->sched, &w->rebuild.timer);
}
