/* POST …/requests/{request_id}/cancel and POST /v1/payments: from the request to the flow, from the
 * flow's answer to the response. The checks stand in the order of their cost, as in orders.c. */
#include "app/payment_body.h"
#include "base/parse.h"
#include "daemon/api/api.h"
#include "daemon/api/header.h"
#include "daemon/api/location.h"
#include "daemon/common/bearer.h"

#define NONE ((struct str){NULL, 0})

static struct data_loop *loop_of(struct http_service *s)
{
    return container_of(s, struct data_loop, service);
}

static bool refuse_draining(struct data_loop *d, struct http_exchange *x)
{
    if (!d->draining)
        return false;
    metric_add(d->refused_draining, 1);
    http_problem(x, ANSWER_DRAINING, NULL, NULL);
    return true;
}

static void on_gone(struct http_exchange *x)
{
    send_command_gone(x->viewer);
}

static void submit(struct data_loop *d, struct send_pool *p, struct http_exchange *x,
                   struct send_request *q)
{
    struct send_command *flow = NULL;
    q->received_us = x->received_us;
    q->wall_us = loop_wall_us(d->loop);
    if (header_is_traceparent(x->traceparent)) {
        q->traceparent = x->traceparent;
        q->tracestate = x->tracestate;
    }
    int rc = send_command_submit(p, q, x, &flow);
    if (rc < 0) {
        /* Nothing was asked of anybody. */
        http_problem(x, rc == ERR_DEADLINE ? ANSWER_DEPENDENCY_UNAVAILABLE : answer_of_err(rc),
                     &q->request_id, NULL);
        return;
    }
    x->viewer = flow;
    x->on_gone = on_gone;
}

void commands_on_cancel(struct http_service *s, struct http_exchange *x)
{
    struct data_loop *d = loop_of(s);
    struct send_request q = {.command = EVENT_CANCEL};
    if (refuse_draining(d, x) || !bearer_authenticate(d->auth, x, &q.user_id))
        return;
    if (parse_i64(x->params[0], 1, INT64_MAX, &q.item.activity_id) < 0 ||
        parse_i64(x->params[1], 1, INT64_MAX, &q.item.sku_id) < 0 ||
        uuid_parse(x->params[2], &q.request_id) < 0) {
        http_problem(x, ANSWER_INVALID_ARGUMENT, NULL,
                     "activity and SKU are numbers from 1 to 2^63-1, a request id is a UUID");
        return;
    }
    if (x->body.len) {
        http_problem(x, ANSWER_INVALID_ARGUMENT, &q.request_id, "a cancel has no body");
        return;
    }
    submit(d, &d->cancels, x, &q);
}

void commands_on_payment(struct http_service *s, struct http_exchange *x)
{
    struct data_loop *d = loop_of(s);
    struct payment_body body;
    const char *why;
    if (refuse_draining(d, x))
        return;
    if (!header_is_json(x->content_type)) {
        http_problem(x, ANSWER_UNSUPPORTED_MEDIA_TYPE, NULL, NULL);
        return;
    }
    if (!payment_auth_check(&d->api->payment_auth, x->authorization, x->body,
                            loop_wall_us(d->loop) / 1000000, &why)) {
        http_problem_extra(x, ANSWER_UNAUTHENTICATED, NULL, why, NONE,
                           STR("WWW-Authenticate: Seckill-HMAC-SHA256\r\n"));
        return;
    }
    switch (payment_body_parse(x->body, &body, &why)) {
    case ORDER_BODY_INVALID_JSON:
        http_problem(x, ANSWER_INVALID_JSON, NULL, why);
        return;
    case ORDER_BODY_INVALID_ARGUMENT:
        http_problem(x, ANSWER_INVALID_ARGUMENT, NULL, why);
        return;
    case ORDER_BODY_OK:
        break;
    }
    struct send_request q = {.command = EVENT_PAY,
                             .item = body.item,
                             .user_id = body.user_id,
                             .request_id = body.request_id,
                             .order_id = body.order_id,
                             .payment_id = body.payment_id};
    submit(d, &d->payments, x, &q);
}

/* --- the answers --- */

static void refused(struct http_exchange *x, const struct send_answer *a)
{
    char mem[128];
    struct strbuf members;
    strbuf_init_fixed(&members, mem, sizeof(mem));
    if (a->answer == ANSWER_REQUEST_CLOSED) {
        strbuf_add_str(&members, STR("\"state\":\""));
        strbuf_add_str(&members, verdict_state_name(a->verdict.state));
        strbuf_add_str(&members, STR("\",\"reason\":\""));
        strbuf_add_str(&members, verdict_reason_name(a->verdict.reason));
        strbuf_add_char(&members, '"');
    }
    http_problem_with(x, a->answer, &a->request_id, NULL, strbuf_str(&members));
}

static void add_ids(struct strbuf *b, const struct send_answer *a)
{
    strbuf_add_str(b, STR("\"request_id\":\""));
    uuid_add(b, &a->request_id);
    if (!uuid_is_nil(&a->reservation_id)) {
        strbuf_add_str(b, STR("\",\"reservation_id\":\""));
        uuid_add(b, &a->reservation_id);
    }
    strbuf_add_str(b, STR("\",\"order_id\":\""));
    strbuf_add_i64(b, a->order_id);
    strbuf_add_char(b, '"');
}

void commands_on_cancel_answer(struct send_pool *p, void *viewer, const struct send_answer *a)
{
    const struct data_loop *d = container_of(p, struct data_loop, cancels);
    char body_mem[320], extra_mem[LOCATION_HEADER_MAX];
    struct strbuf body, extra;
    if (a->answer != ANSWER_ACCEPTED) {
        refused(viewer, a);
        return;
    }
    strbuf_init_fixed(&body, body_mem, sizeof(body_mem));
    strbuf_add_char(&body, '{');
    add_ids(&body, a);
    strbuf_add_str(&body, STR(",\"state\":\""));
    strbuf_add_str(&body, verdict_state_name(a->verdict.state));
    strbuf_add_str(&body, STR("\",\"cancel\":\"REQUESTED\"}"));
    strbuf_init_fixed(&extra, extra_mem, sizeof(extra_mem));
    location_add(&extra, &d->api->location_keys,
                 &(struct location_claim){a->user_id, a->item, a->request_id, a->epoch});
    http_respond(viewer, 202, STR("application/json"), strbuf_str(&extra), strbuf_str(&body));
}

void commands_on_payment_answer(struct send_pool *p, void *viewer, const struct send_answer *a)
{
    char mem[512], time[32];
    struct strbuf body;
    (void)p;
    if (a->answer != ANSWER_ACCEPTED) {
        refused(viewer, a);
        return;
    }
    size_t n = parse_format_time_ms(time, a->accepted_at_ms);
    strbuf_init_fixed(&body, mem, sizeof(mem));
    strbuf_add_str(&body, STR("{\"payment_id\":\""));
    strbuf_add_str(&body, a->payment_id);
    strbuf_add_str(&body, STR("\","));
    add_ids(&body, a);
    strbuf_add_str(&body, STR(",\"accepted_at\":\""));
    strbuf_add(&body, time, n);
    strbuf_add_str(&body, STR("\"}"));
    http_respond(viewer, 202, STR("application/json"), NONE, strbuf_str(&body));
}
