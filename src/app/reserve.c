#include "app/reserve_flow.h"

#include "base/crashpoint.h"
#include "base/log.h"

/* --- the states --- */

static void on_held(struct op *op, int rc);

static void on_patience_over(struct timer *t)
{
    struct reserve *r = container_of(t, struct reserve, patience);
    r->rc = ERR_UNCERTAIN;
    r->unknown = true;
    reserve_tell(r);
}

/* A try that nobody waits for any more takes no unit. But where the hold does not publish, its
 * answer is heard, too, when the buyer was told that it did not come: it may have been taken in
 * time, and its message would else be recovery's, seconds later. */
static enum flow_result try_hold(struct reserve *r)
{
    struct reserve_pool *p = r->pool;
    int64_t now = p->sched->now_us, until = now + p->try_us;
    r->hold.give_up_us = until < r->deadline_us ? until : r->deadline_us;
    r->hold.op = (struct op){on_held, p->queue ? now + p->send_us : r->hold.give_up_us};
    r->hold.past = past_of(p->past, r->hold.item, now);
    r->tries++;
    if (p->queue) {
        r->patience.on_fire = on_patience_over;
        sched_set(p->sched, &r->patience, r->deadline_us);
    }
    p->stock->ops->reserve(p->stock, &r->hold);
    return FLOW_WAIT;
}

static enum flow_result step_admit(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    int64_t wall_ms = r->hold.created_at_us / 1000;
    r->hold.reservation_id = uuid_v7(wall_ms, r->pool->rng);
    r->hold.message_id = uuid_v7(wall_ms, r->pool->rng);
    retry_budget_call(r->pool->budget, r->pool->sched->now_us);
    flow_goto(f, RESERVE_HOLD);
    return FLOW_NEXT;
}

static enum flow_result step_hold(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    crashpoint("before_hold");
    try_hold(r);
    r->first_give_up_us = r->hold.give_up_us;
    return FLOW_WAIT;
}

static enum flow_result step_hold_again(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    metric_add(r->pool->count.again, 1);
    return try_hold(r);
}

/* Rule 13: what is unknown is asked once more with the same ids. (What was too late by a wrong
 * estimate of the store's clock is repeated by the adapter, which has that clock: rule 15.) */
static bool worth_again(const struct reserve *r)
{
    int64_t now = r->pool->sched->now_us;
    return r->flow.state == RESERVE_HOLD && r->watched && err_is_unknown(r->rc) &&
           r->deadline_us - now >= RESERVE_LEAST_TRY_US &&
           retry_budget_take(r->pool->budget, now); /* rule 32 */
}

/* Rule 13; a replay of an earlier request publishes nothing, nor does what was settled meanwhile.
 */
static bool is_to_publish(const struct reserve *r)
{
    return r->pool->queue &&
           (r->rc == STOCK_CREATED || (r->rc == STOCK_REPLAY && reserve_is_own(r))) &&
           !verdict_terminal(r->hold.found.verdict.state);
}

/* `strict`: the unit that was met may be one that is still being published, and would be taken
 * back. Whoever is told to have it must find it there later. */
static bool is_to_pin(const struct reserve *r)
{
    return r->pool->queue && r->pool->strict && r->watched &&
           (r->rc == STOCK_DUPLICATE ||
            (r->rc == STOCK_REPLAY && r->hold.found.status == RESERVATION_RESERVED));
}

static void show_limit(struct reserve_pool *p)
{
    int limit = admission_limit(&p->admission);
    if (limit == p->limit_shown)
        return;
    metric_gauge_add(p->count.limit, limit - p->limit_shown); /* of all loops together */
    p->limit_shown = limit;
}

/* The hold is over, one way or the other. */
static int after_hold(struct reserve *r)
{
    struct reserve_pool *p = r->pool;
    int64_t now = p->sched->now_us;
    admission_leave(&p->admission, now, now - r->started_us, r->unknown || r->rc == STOCK_TOO_LATE);
    show_limit(p);
    if (r->decided && is_to_publish(r)) {
        metric_add(p->count.created, 1);
        metric_add(p->count.created_late, 1);
    }
    return is_to_publish(r) ? RESERVE_PUBLISH : is_to_pin(r) ? RESERVE_PIN : RESERVE_ANSWER;
}

static void on_held(struct op *op, int rc)
{
    struct reserve *r = container_of(op, struct reserve, hold.op);
    struct reserve_pool *p = r->pool;
    crashpoint("after_hold");
    sched_clear(p->sched, &r->patience);
    r->rc = rc;
    if (err_is_unknown(rc))
        r->unknown = true;
    if (rc >= 0)
        past_answered(p->past, &r->hold, rc, p->sched->now_us);
    if (rc == STOCK_BEHIND)
        reporter_report(p->reporter, r->hold.item, REPORT_BEHIND);
    else if (rc >= 0 && rc != STOCK_NO_ITEM)
        hints_saw(p->hints, r->hold.item, r->hold.version, rc == STOCK_SOLD_OUT, r->hold.sent_us,
                  p->sched->now_us);
    flow_goto(&r->flow, worth_again(r) ? RESERVE_HOLD_AGAIN : after_hold(r));
    flow_resume(&r->flow);
}

static void log_answer(const struct reserve *r, enum log_level level, const char *msg,
                       uint64_t suppressed)
{
    const struct answer_info *told = answer_info(r->answer.answer);
    int64_t received_us = r->deadline_us - r->pool->submit_us;
    int rc = r->rc < 0 ? r->rc : r->publish_rc;
    log_at(level, msg, RESERVE_LOG_FIELDS(r), LOG_Z("outcome", told->code),
           LOG_Z("error_kind", rc < 0 ? err_name(rc) : NULL), LOG_B("retryable", told->retryable),
           LOG_I("retry_attempt", r->tries - 1),
           LOG_I("duration_ms", (r->pool->sched->now_us - received_us) / 1000),
           LOG_I("suppressed", (int64_t)suppressed));
}

static void log_end(const struct reserve *r)
{
    static struct log_limit limit;
    uint64_t suppressed;
    if (!r->unknown || r->rc >= 0)
        log_answer(r, LOG_DEBUG, "order request answered", 0);
    else if (log_allowed(&limit, r->pool->sched->now_us, &suppressed))
        log_answer(r, LOG_WARN, "outcome of a hold is unknown", suppressed);
}

void reserve_tell(struct reserve *r)
{
    if (r->decided)
        return;
    r->decided = true;
    reserve_decide(r);
    if (r->answer.answer == ANSWER_ACCEPTED && !r->answer.replayed)
        past_confirmed(r->pool->past, &r->hold, r->pool->sched->now_us);
    if (!r->watched)
        return;
    log_end(r);
    r->watched = false;
    r->pool->on_answer(r->pool, r->viewer, &r->answer);
}

static enum flow_result step_answer(struct flow *f)
{
    reserve_tell(reserve_of(f));
    return FLOW_DONE;
}

static enum flow_result step_end(struct flow *f)
{
    (void)f;
    return FLOW_DONE;
}

static void on_end(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    struct reserve_pool *p = r->pool;
    flow_pool_put(&p->flows, r);
    if (reserve_pool_busy(p) == 0 && p->on_idle)
        p->on_idle(p);
}

static const struct flow_state states[RESERVE_STATES] = {
    [RESERVE_ADMIT] = {"ADMIT", FLOW_TO(RESERVE_HOLD), step_admit},
    [RESERVE_HOLD] = {"HOLD",
                      FLOW_TO(RESERVE_HOLD_AGAIN) | FLOW_TO(RESERVE_PUBLISH) |
                          FLOW_TO(RESERVE_PIN) | FLOW_TO(RESERVE_ANSWER),
                      step_hold},
    [RESERVE_HOLD_AGAIN] = {"HOLD_AGAIN",
                            FLOW_TO(RESERVE_PUBLISH) | FLOW_TO(RESERVE_PIN) |
                                FLOW_TO(RESERVE_ANSWER),
                            step_hold_again},
    [RESERVE_PUBLISH] = {"PUBLISH", FLOW_TO(RESERVE_MARK) | FLOW_TO(RESERVE_RELEASE),
                         reserve_step_publish},
    [RESERVE_MARK] = {"MARK", FLOW_TO(RESERVE_END), reserve_step_mark},
    [RESERVE_PIN] = {"PIN", FLOW_TO(RESERVE_ANSWER), reserve_step_pin},
    [RESERVE_RELEASE] = {"RELEASE", FLOW_TO(RESERVE_ANSWER), reserve_step_release},
    [RESERVE_ANSWER] = {"ANSWER", 0, step_answer},
    [RESERVE_END] = {"END", 0, step_end},
};
struct flow_kind reserve_kind = {
    .name = "reserve", .states = RESERVE_STATES, .state = states, .on_end = on_end};

/* --- the pool --- */

int reserve_pool_init(struct reserve_pool *p, int n)
{
    if (flow_pool_init(&p->flows, n, sizeof(struct reserve)) < 0)
        return ERR_OVERLOAD;
    admission_init(&p->admission, n, p->target_us);
    p->count.created = metric_counter("seckill_reservation_created_total",
                                      "units reserved by requests of this process", NULL);
    p->count.replayed = metric_counter("seckill_duplicate_request_total",
                                       "requests whose key was known already", NULL);
    p->count.duplicate = metric_counter("seckill_duplicate_user_total",
                                        "requests of buyers who hold a unit already", NULL);
    p->count.sold_out =
        metric_counter("seckill_sold_out_total", "requests refused because nothing is left", NULL);
    static const char rejected[] = "seckill_admission_rejected_total";
    static const char help[] = "requests refused before any work, by reason";
    p->count.overloaded = metric_counter(rejected, help, "reason=\"overloaded\"");
    p->count.late = metric_counter(rejected, help, "reason=\"deadline\"");
    p->count.limit =
        metric_gauge("seckill_admission_limit",
                     "holds that may be under way at once, learnt from their duration", NULL);
    p->limit_shown = 0;
    show_limit(p);
    reserve_publish_metrics(p);
    p->count.again = metric_counter("seckill_hold_retries_total",
                                    "second tries of a hold with the same ids", NULL);
    p->count.unknown = metric_counter("seckill_hold_unknown_total",
                                      "holds whose outcome stayed unknown: 504", NULL);
    p->count.created_late = metric_counter(
        "seckill_reservation_created_late_total",
        "units reserved whose buyers had been told 504: published all the same", NULL);
    return 0;
}

void reserve_pool_deinit(struct reserve_pool *p)
{
    flow_pool_deinit(&p->flows);
    metric_gauge_add(p->count.limit, -p->limit_shown);
}

int reserve_submit(struct reserve_pool *p, const struct reserve_request *q, void *viewer,
                   struct reserve **out)
{
    int64_t now = p->sched->now_us, order_id;
    if (hints_decide(p->hints, q->item, q->user_id, now) == HINT_REFUSE) {
        metric_add(p->count.sold_out, 1);
        return RESERVE_HINTED_SOLD_OUT;
    }
    if (now >= q->received_us + p->submit_us) {
        metric_add(p->count.late, 1);
        return ERR_DEADLINE;
    }
    int rc = order_id_next(p->ids, q->wall_us / 1000, now, &order_id);
    if (rc < 0)
        return rc;
    /* Flows that publish hold a place of the pool, but none among the holds. */
    if (!flow_pool_has_free(&p->flows) || !admission_enter(&p->admission)) {
        metric_add(p->count.overloaded, 1);
        return ERR_OVERLOAD;
    }

    struct reserve *r = flow_pool_take(&p->flows);
    r->pool = p;
    r->viewer = viewer;
    r->watched = true;
    r->unknown = r->decided = false;
    r->publish_rc = r->pin_rc = 0;
    r->release = RESERVE_STANDS;
    r->tries = 0;
    r->started_us = now;
    r->deadline_us = q->received_us + p->submit_us;
    r->answer = (struct reserve_answer){
        .item = q->item, .user_id = q->user_id, .request_id = q->request_id};
    r->hold.item = q->item;
    r->hold.user_id = q->user_id;
    r->hold.order_id = order_id;
    r->hold.request_id = q->request_id;
    r->hold.created_at_us = q->wall_us;
    r->hold.traceparent = str_keep(r->traceparent, sizeof(r->traceparent), q->traceparent);
    r->hold.tracestate = r->hold.traceparent.len
                             ? str_keep(r->tracestate, sizeof(r->tracestate), q->tracestate)
                             : STR("");
    if (out)
        *out = r;
    flow_start(&r->flow, &reserve_kind, RESERVE_ADMIT);
    return RESERVE_STARTED;
}

void reserve_gone(struct reserve *r)
{
    r->watched = false;
    r->viewer = NULL;
    /* In a hold, its call may still be stopped: on_held comes, with what became of it. From the
     * confirmed hold on the flow goes on as if somebody looked. */
    if (r->flow.state == RESERVE_HOLD || r->flow.state == RESERVE_HOLD_AGAIN)
        r->pool->stock->ops->cancel(r->pool->stock, &r->hold.op);
}
