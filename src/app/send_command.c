#include "app/send_command.h"

#include "base/crashpoint.h"
#include "base/log.h"
#include <stdio.h>

struct send_command {
    struct flow flow;
    struct send_pool *pool;
    void *viewer;
    bool watched; /* the viewer is there */
    enum event_command command;
    int64_t user_id, deadline_us, wall_us;
    struct item_version version;
    struct send_answer answer;
    struct event event;
    union { /* one after the other */
        struct stock_lookup lookup;
        struct stock_item_get item;
        struct queue_publish publish;
        struct stock_remember remember;
    } call;
    struct strbuf body; /* over room */
    char room[EVENT_MAX_BYTES];
    char payment_id[EVENT_PAYMENT_ID_MAX];
    char traceparent[SEND_TRACEPARENT_MAX];
    char tracestate[EVENT_TRACE_MAX];
};

static struct send_command *send_of(struct flow *f)
{
    return container_of(f, struct send_command, flow);
}

static int64_t store_deadline(const struct send_command *s)
{
    int64_t until = s->pool->sched->now_us + s->pool->store_us;
    return until < s->deadline_us ? until : s->deadline_us;
}

static int end_with(struct send_command *s, enum answer a)
{
    s->answer.answer = a;
    return SEND_ANSWER;
}

/* A read changes nothing, so a late answer and a refused one are the same. */
static int end_unread(struct send_command *s, int rc)
{
    return end_with(s, rc == ERR_INTERNAL ? ANSWER_INTERNAL_ERROR : ANSWER_DEPENDENCY_UNAVAILABLE);
}

/* --- LOOKUP --- */

static bool is_over(const struct reservation *r)
{
    return r->status == RESERVATION_RELEASED ||
           (verdict_terminal(r->verdict.state) && r->verdict.state != VERDICT_SUCCEEDED);
}

static int after_record(struct send_command *s)
{
    const struct reservation *r = &s->call.lookup.found;
    struct send_answer *a = &s->answer;
    if (s->command == EVENT_PAY && a->order_id != r->order_id)
        return end_with(s, ANSWER_NOT_FOUND);
    a->reservation_id = r->reservation_id;
    a->order_id = r->order_id;
    a->verdict = r->verdict;
    a->accepted_at_ms = s->call.lookup.now_ms;
    a->epoch = r->epoch;
    s->version = (struct item_version){r->epoch, r->seq};
    /* A late payment goes on: it is refunded where that is written down. */
    if (s->command == EVENT_CANCEL && is_over(r))
        return end_with(s, ANSWER_REQUEST_CLOSED);
    return SEND_PUBLISH;
}

static void on_record(struct op *op, int rc)
{
    struct send_command *s = container_of(op, struct send_command, call.lookup.op);
    flow_goto(&s->flow, rc < 0 ? end_unread(s, rc) : rc == 0 ? after_record(s) : SEND_ITEM);
    flow_resume(&s->flow);
}

static enum flow_result step_lookup(struct flow *f)
{
    struct send_command *s = send_of(f);
    s->call.lookup = (struct stock_lookup){.op = {on_record, store_deadline(s)},
                                           .item = s->answer.item,
                                           .user_id = s->user_id,
                                           .request_id = s->answer.request_id};
    s->pool->stock->ops->lookup(s->pool->stock, &s->call.lookup);
    return FLOW_WAIT;
}

/* --- ITEM --- */

static void on_item(struct op *op, int rc)
{
    struct send_command *s = container_of(op, struct send_command, call.item.op);
    int next;
    if (rc < 0) {
        next = end_unread(s, rc);
    } else if (rc == 0 && s->command == EVENT_PAY) {
        s->answer.accepted_at_ms = s->call.item.info.now_ms;
        s->version = s->call.item.info.version;
        next = SEND_PUBLISH;
    } else if (rc == 1 && s->call.item.listed) {
        next = end_unread(s, ERR_UNAVAIL); /* rule 34 */
    } else {
        next = end_with(s, ANSWER_NOT_FOUND);
    }
    flow_goto(&s->flow, next);
    flow_resume(&s->flow);
}

static enum flow_result step_item(struct flow *f)
{
    struct send_command *s = send_of(f);
    s->call.item =
        (struct stock_item_get){.op = {on_item, store_deadline(s)}, .item = s->answer.item};
    s->pool->stock->ops->item(s->pool->stock, &s->call.item);
    return FLOW_WAIT;
}

/* --- PUBLISH --- */

static void log_unsent(const struct send_command *s, int rc)
{
    static struct log_limit limit;
    uint64_t suppressed;
    if (log_allowed(&limit, s->pool->sched->now_us, &suppressed))
        log_warn(err_is_unknown(rc) ? "outcome of a command's publish is unknown"
                                    : "a command's publish was refused",
                 LOG_Z("command", event_command_name(s->command)),
                 LOG_UUID("request_id", &s->answer.request_id),
                 LOG_UUID("message_id", &s->event.message_id), LOG_I("user_id", s->user_id),
                 LOG_I("activity_id", s->answer.item.activity_id),
                 LOG_I("sku_id", s->answer.item.sku_id), LOG_Z("error_kind", err_name(rc)),
                 LOG_B("retryable", true), LOG_I("suppressed", (int64_t)suppressed));
}

static void on_published(struct op *op, int rc)
{
    struct send_command *s = container_of(op, struct send_command, call.publish.op);
    struct send_pool *p = s->pool;
    crashpoint("after_command_publish");
    rc = rc > 0 ? ERR_INTERNAL : rc;
    if (err_is_unknown(rc)) {
        metric_add(p->count.unknown, 1);
        s->answer.answer = ANSWER_TIMEOUT;
    } else if (rc < 0) {
        metric_add(p->count.refused, 1);
        s->answer.answer = answer_of_refused_publish(rc);
    }
    if (rc < 0)
        log_unsent(s, rc);
    flow_goto(&s->flow, rc == 0 ? SEND_REMEMBER : SEND_ANSWER);
    flow_resume(&s->flow);
}

static enum flow_result step_publish(struct flow *f)
{
    struct send_command *s = send_of(f);
    struct send_pool *p = s->pool;
    if (!s->watched || p->sched->now_us >= s->deadline_us) {
        flow_goto(f, end_unread(s, ERR_DEADLINE));
        return FLOW_NEXT;
    }
    crashpoint("before_command_publish");
    s->event.command = s->command;
    s->event.message_id = s->command == EVENT_PAY ? event_pay_id(s->event.payment_id)
                                                  : event_cancel_id(&s->answer.reservation_id);
    s->event.request_id = s->answer.request_id;
    s->event.reservation_id = s->answer.reservation_id;
    s->event.item = s->answer.item;
    s->event.user_id = s->user_id;
    s->event.order_id = s->answer.order_id;
    s->event.created_at_us = s->wall_us;
    s->event.schema_version = EVENT_SCHEMA_COMMAND;
    s->event.retry_count = 0;
    s->event.version = s->version;
    s->event.accepted_at_ms = s->answer.accepted_at_ms;
    s->call.publish =
        (struct queue_publish){.op = {on_published, s->deadline_us}, .event = &s->event};
    p->queue->ops->publish(p->queue, &s->call.publish);
    return FLOW_WAIT;
}

/* --- REMEMBER --- */

static void on_remember(struct op *op, int rc)
{
    struct send_command *s = container_of(op, struct send_command, call.remember.op);
    s->answer.answer = rc == 0 ? ANSWER_ACCEPTED : ANSWER_TIMEOUT;
    if (rc == 0) {
        metric_add(s->pool->count.sent, 1);
    } else {
        static struct log_limit limit;
        uint64_t suppressed;
        metric_add(s->pool->count.unkept, 1);
        if (log_allowed(&limit, s->pool->sched->now_us, &suppressed))
            log_warn("a command was published and is not known to be remembered",
                     LOG_Z("command", event_command_name(s->command)),
                     LOG_UUID("message_id", &s->event.message_id),
                     LOG_I("activity_id", s->answer.item.activity_id),
                     LOG_I("sku_id", s->answer.item.sku_id),
                     LOG_Z("error_kind", rc < 0    ? err_name(rc)
                                         : rc == 1 ? "no_item"
                                                   : "too_many"),
                     LOG_B("retryable", true), LOG_I("suppressed", (int64_t)suppressed));
    }
    flow_goto(&s->flow, SEND_ANSWER);
    flow_resume(&s->flow);
}

static enum flow_result step_remember(struct flow *f)
{
    struct send_command *s = send_of(f);
    struct send_pool *p = s->pool;
    strbuf_init_fixed(&s->body, s->room, sizeof(s->room));
    event_encode(&s->event, false, &s->body);
    s->call.remember = (struct stock_remember){.op = {on_remember, store_deadline(s)},
                                               .item = s->answer.item,
                                               .message_id = s->event.message_id,
                                               .body = strbuf_str(&s->body),
                                               .most = p->most};
    p->stock->ops->remember(p->stock, &s->call.remember);
    return FLOW_WAIT;
}

/* --- ANSWER --- */

static enum flow_result step_answer(struct flow *f)
{
    struct send_command *s = send_of(f);
    struct send_pool *p = s->pool;
    enum answer a = s->answer.answer;
    if (a == ANSWER_NOT_FOUND || a == ANSWER_REQUEST_CLOSED)
        metric_add(p->count.declined, 1);
    if (s->watched)
        p->on_answer(p, s->viewer, &s->answer);
    return FLOW_DONE;
}

static void on_end(struct flow *f)
{
    struct send_command *s = send_of(f);
    struct send_pool *p = s->pool;
    flow_pool_put(&p->flows, s);
    if (send_pool_busy(p) == 0 && p->on_idle)
        p->on_idle(p);
}

static const struct flow_state states[SEND_STATES] = {
    [SEND_LOOKUP] = {"LOOKUP", FLOW_TO(SEND_ITEM) | FLOW_TO(SEND_PUBLISH) | FLOW_TO(SEND_ANSWER),
                     step_lookup},
    [SEND_ITEM] = {"ITEM", FLOW_TO(SEND_PUBLISH) | FLOW_TO(SEND_ANSWER), step_item},
    [SEND_PUBLISH] = {"PUBLISH", FLOW_TO(SEND_REMEMBER) | FLOW_TO(SEND_ANSWER), step_publish},
    [SEND_REMEMBER] = {"REMEMBER", FLOW_TO(SEND_ANSWER), step_remember},
    [SEND_ANSWER] = {"ANSWER", 0, step_answer},
};
static const struct flow_kind kind = {
    .name = "send_command", .states = SEND_STATES, .state = states, .on_end = on_end};

/* --- the pool --- */

static struct metric *result(const struct send_pool *p, const char *what)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "command=\"%s\",result=\"%s\"", p->label, what);
    return metric_counter("seckill_command_requests_total",
                          "Cancels and payments asked for, by what was answered.", labels);
}

int send_pool_init(struct send_pool *p, int n)
{
    if (flow_pool_init(&p->flows, n, sizeof(struct send_command)) < 0)
        return ERR_OVERLOAD;
    p->count.sent = result(p, "sent");
    p->count.refused = result(p, "refused");
    p->count.unknown = result(p, "unknown");
    p->count.unkept = result(p, "unkept");
    p->count.declined = result(p, "declined");
    p->count.overloaded = result(p, "overloaded");
    return 0;
}

void send_pool_deinit(struct send_pool *p)
{
    flow_pool_deinit(&p->flows);
}

int send_command_submit(struct send_pool *p, const struct send_request *q, void *viewer,
                        struct send_command **out)
{
    if (p->sched->now_us >= q->received_us + p->budget_us)
        return ERR_DEADLINE;
    struct send_command *s = flow_pool_take(&p->flows);
    if (!s) {
        metric_add(p->count.overloaded, 1);
        return ERR_OVERLOAD;
    }
    s->pool = p;
    s->viewer = viewer;
    s->watched = true;
    s->command = q->command;
    s->user_id = q->user_id;
    s->wall_us = q->wall_us;
    s->deadline_us = q->received_us + p->budget_us;
    s->version = (struct item_version){0, 0};
    s->event = (struct event){
        .payment_id = str_keep(s->payment_id, sizeof(s->payment_id), q->payment_id),
        .traceparent = str_keep(s->traceparent, sizeof(s->traceparent), q->traceparent),
        .tracestate = STR("")};
    if (s->event.traceparent.len)
        s->event.tracestate = str_keep(s->tracestate, sizeof(s->tracestate), q->tracestate);
    s->answer = (struct send_answer){.item = q->item,
                                     .user_id = q->user_id,
                                     .request_id = q->request_id,
                                     .order_id = q->order_id,
                                     .payment_id = s->event.payment_id};
    *out = s;
    flow_start(&s->flow, &kind, SEND_LOOKUP);
    return 0;
}

void send_command_gone(struct send_command *s)
{
    s->watched = false;
    s->viewer = NULL;
}
