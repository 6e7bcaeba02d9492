/* From the confirmed hold to the end, on a queue that is not the store's: PUBLISH, then MARK, or
 * RELEASE. Nobody can stop this part: stock and message have to agree. What goes wrong here costs
 * the buyer nothing but time: a reservation that is not known to be published is found by recovery,
 * which sends the same message again.
 *
 *   publish accepted ──────────────────────────► told 202, MQ_SENT
 *   unknown, or refused in `recover` ──────────► told 202, MQ_PENDING
 *   not over when the buyer's patience is ─────► told 202, then as above (`recover` only)
 *   refused in `strict` ─► released ───────────► told the refusal
 *                        ─► not RESERVED, or certainly not released: it stands ─► told 202
 *                        ─► unknown ───────────► told 504
 *
 * And PIN: who meets another request's unit in `strict` (the same key: a replay; another one: a
 * duplicate) makes it MQ_PENDING before it tells of it, so that the release finds it no longer
 * RESERVED. Unknown: told 504; left alone: it is settled, or, of a replay, gone: told 504. */
#include "app/reserve_flow.h"
#include "base/crashpoint.h"
#include "base/log.h"

void reserve_publish_metrics(struct reserve_pool *p)
{
    static const char name[] = "seckill_reservation_publish_total";
    static const char help[] = "publishes of held units' events, by what became of them";
    p->count.sent = metric_counter(name, help, "result=\"accepted\"");
    p->count.send_unknown = metric_counter(name, help, "result=\"unknown\"");
    p->count.send_refused = metric_counter(name, help, "result=\"refused\"");
    p->count.patience = metric_counter("seckill_reservation_answered_early_total",
                                       "buyers told 202 while the publish was under way", NULL);
    p->count.unmarked =
        metric_counter("seckill_reservation_mark_failures_total",
                       "marks of a publish's result that failed or are unknown", NULL);
    static const char released[] = "seckill_reservation_released_total";
    static const char released_help[] = "strict: units taken back after a refused publish";
    p->count.released = metric_counter(released, released_help, "result=\"released\"");
    p->count.stands = metric_counter(released, released_help, "result=\"stands\"");
    p->count.release_unknown = metric_counter(released, released_help, "result=\"unknown\"");
}

static void log_unsent(const struct reserve *r)
{
    static struct log_limit limit;
    uint64_t suppressed;
    if (log_allowed(&limit, r->pool->sched->now_us, &suppressed))
        log_warn(err_is_unknown(r->publish_rc) ? "outcome of a publish is unknown"
                                               : "a publish was refused",
                 RESERVE_LOG_FIELDS(r), LOG_Z("error_kind", err_name(r->publish_rc)),
                 LOG_B("retryable", true), LOG_I("suppressed", (int64_t)suppressed));
}

/* --- publish --- */

static void on_patience_over(struct timer *t)
{
    struct reserve *r = container_of(t, struct reserve, patience);
    if (!r->watched)
        return;
    metric_add(r->pool->count.patience, 1);
    reserve_tell(r);
}

/* Rule 14: refused is only what certainly was not done; what makes no sense is unknown. */
static bool was_refused(const struct reserve *r)
{
    return r->publish_rc < 0 && !err_is_unknown(r->publish_rc);
}

static void on_published(struct op *op, int rc)
{
    struct reserve *r = container_of(op, struct reserve, call.publish.op);
    struct reserve_pool *p = r->pool;
    crashpoint("after_publish");
    sched_clear(p->sched, &r->patience);
    r->publish_rc = rc > 0 ? ERR_INTERNAL : rc;
    bool refused = was_refused(r);
    metric_add(rc == 0   ? p->count.sent
               : refused ? p->count.send_refused
                         : p->count.send_unknown,
               1);
    if (rc != 0)
        log_unsent(r);
    flow_goto(&r->flow, refused && p->strict ? RESERVE_RELEASE : RESERVE_MARK);
    flow_resume(&r->flow);
}

enum flow_result reserve_step_publish(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    struct reserve_pool *p = r->pool;
    int64_t now = p->sched->now_us;
    crashpoint("before_publish");
    r->event = (struct event){.message_id = r->hold.message_id,
                              .request_id = r->hold.request_id,
                              .reservation_id = r->hold.reservation_id,
                              .item = r->hold.item,
                              .user_id = r->hold.user_id,
                              .order_id = r->hold.order_id,
                              .created_at_us = r->hold.created_at_us,
                              .schema_version = EVENT_SCHEMA_VERSION,
                              /* the record's own: a second try may be answered after others */
                              .version = {r->hold.found.epoch, r->hold.found.seq},
                              .traceparent = r->hold.traceparent,
                              .tracestate = r->hold.tracestate};
    r->call.publish = (struct queue_publish){
        .op = {on_published, now + (p->strict ? p->publish_us : p->send_us)}, .event = &r->event};
    if (!p->strict && r->watched) {
        int64_t until = now + p->publish_us;
        r->patience.on_fire = on_patience_over;
        sched_set(p->sched, &r->patience, until < r->deadline_us ? until : r->deadline_us);
    }
    p->queue->ops->publish(p->queue, &r->call.publish);
    return FLOW_WAIT;
}

/* --- mark --- */

static void on_marked(struct op *op, int rc)
{
    struct reserve *r = container_of(op, struct reserve, call.mark.op);
    crashpoint("after_mark");
    /* A mark only saves recovery a look: without it the reservation is found by its age. */
    if (rc < 0)
        metric_add(r->pool->count.unmarked, 1);
    flow_goto(&r->flow, RESERVE_END);
    flow_resume(&r->flow);
}

enum flow_result reserve_step_mark(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    struct reserve_pool *p = r->pool;
    reserve_tell(r); /* first: the mark is nothing to wait for */
    crashpoint("before_mark");
    r->call.mark = (struct stock_mark){
        .op = {on_marked, p->sched->now_us + p->store_us},
        .item = r->hold.item,
        .user_id = r->hold.user_id,
        .request_id = r->hold.request_id,
        .reservation_id = r->hold.reservation_id,
        .to = r->publish_rc == 0 ? RESERVATION_MQ_SENT : RESERVATION_MQ_PENDING,
    };
    p->stock->ops->mark(p->stock, &r->call.mark);
    return FLOW_WAIT;
}

/* --- pin --- */

static void on_pinned(struct op *op, int rc)
{
    struct reserve *r = container_of(op, struct reserve, call.mark.op);
    r->pin_rc = rc;
    if (rc < 0)
        metric_add(r->pool->count.unmarked, 1);
    flow_goto(&r->flow, RESERVE_ANSWER);
    flow_resume(&r->flow);
}

enum flow_result reserve_step_pin(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    struct reserve_pool *p = r->pool;
    const struct reservation *found = &r->hold.found;
    crashpoint("before_pin");
    r->call.mark = (struct stock_mark){.op = {on_pinned, p->sched->now_us + p->store_us},
                                       .item = r->hold.item,
                                       .user_id = r->hold.user_id,
                                       .request_id = r->rc == STOCK_DUPLICATE ? found->request_id
                                                                              : r->hold.request_id,
                                       .reservation_id = found->reservation_id,
                                       .to = RESERVATION_MQ_PENDING};
    p->stock->ops->mark(p->stock, &r->call.mark);
    return FLOW_WAIT;
}

/* --- release --- */

static void on_released(struct op *op, int rc)
{
    struct reserve *r = container_of(op, struct reserve, call.release.op);
    struct reserve_pool *p = r->pool;
    crashpoint("after_release");
    if (rc == 0) {
        r->release = RESERVE_RELEASED;
        metric_add(p->count.released, 1);
        /* There is a unit again: whoever is refused by the hint has to be let in (rule 7). */
        hints_heard(p->hints, r->hold.item, r->call.release.version);
    } else if (err_is_unknown(rc)) {
        r->release = RESERVE_RELEASE_UNKNOWN;
        metric_add(p->count.release_unknown, 1);
    } else {
        metric_add(p->count.stands, 1); /* recovery has it, or will find it */
    }
    flow_goto(&r->flow, RESERVE_ANSWER);
    flow_resume(&r->flow);
}

enum flow_result reserve_step_release(struct flow *f)
{
    struct reserve *r = reserve_of(f);
    struct reserve_pool *p = r->pool;
    crashpoint("before_release");
    r->call.release = (struct stock_release){.op = {on_released, p->sched->now_us + p->store_us},
                                             .item = r->hold.item,
                                             .user_id = r->hold.user_id,
                                             .request_id = r->hold.request_id,
                                             .reservation_id = r->hold.reservation_id};
    p->stock->ops->release(p->stock, &r->call.release);
    return FLOW_WAIT;
}
