/* POST /v1/orders: from the request to the flow, from the flow's answer to the response. The checks
 * stand in the order of their cost and of what they protect: draining, content type, token, key,
 * body, hint, admission, Redis. */
#include "app/order_body.h"
#include "daemon/api/api.h"
#include "daemon/api/header.h"
#include "daemon/api/location.h"
#include "daemon/common/bearer.h"

#define NONE ((struct str){NULL, 0})
#define REPLAYED STR("Idempotent-Replayed: true\r\n")

/* --- the request --- */

static void on_gone(struct http_exchange *x)
{
    reserve_gone(x->viewer);
}

static void submit(struct data_loop *d, struct http_exchange *x, struct reserve_request *q)
{
    struct reserve *flow;
    if (catalogue_missing(&d->api->control.catalogue)) { /* rule 34 */
        metric_add(d->refused_no_catalogue, 1);
        http_problem(x, ANSWER_DEPENDENCY_UNAVAILABLE, &q->request_id, NULL);
        return;
    }
    q->received_us = x->received_us;
    q->wall_us = loop_wall_us(d->loop);
    if (header_is_traceparent(x->traceparent)) {
        q->traceparent = x->traceparent;
        q->tracestate = x->tracestate;
    }
    int rc = reserve_submit(&d->pool, q, x, &flow);
    if (rc == RESERVE_STARTED) {
        x->viewer = flow;
        x->on_gone = on_gone;
        return;
    }
    if (rc == ERR_UNAVAIL)
        metric_add(d->refused_no_ids, 1);
    http_problem(x, rc == RESERVE_HINTED_SOLD_OUT ? ANSWER_SOLD_OUT : answer_of_err(rc),
                 &q->request_id, NULL);
}

void orders_on_request(struct http_service *s, struct http_exchange *x)
{
    struct data_loop *d = container_of(s, struct data_loop, service);
    struct reserve_request q = {0};
    const char *why;
    if (d->draining) {
        metric_add(d->refused_draining, 1);
        http_problem(x, ANSWER_DRAINING, NULL, NULL);
        return;
    }
    if (!header_is_json(x->content_type)) {
        http_problem(x, ANSWER_UNSUPPORTED_MEDIA_TYPE, NULL, NULL);
        return;
    }
    if (!bearer_authenticate(d->auth, x, &q.user_id))
        return;
    if (uuid_parse(x->idempotency_key, &q.request_id) < 0) {
        http_problem(x, ANSWER_INVALID_ARGUMENT, NULL, "Idempotency-Key must be a UUID");
        return;
    }
    switch (order_body_parse(x->body, &q.item, &why)) {
    case ORDER_BODY_OK:
        submit(d, x, &q);
        break;
    case ORDER_BODY_INVALID_JSON:
        http_problem(x, ANSWER_INVALID_JSON, &q.request_id, why);
        break;
    case ORDER_BODY_INVALID_ARGUMENT:
        http_problem(x, ANSWER_INVALID_ARGUMENT, &q.request_id, why);
        break;
    }
}

/* --- the answer --- */

static void add_ids(struct strbuf *b, const struct reserve_answer *a)
{
    strbuf_add_str(b, STR("\"reservation_id\":\""));
    uuid_add(b, &a->reservation_id);
    strbuf_add_str(b, STR("\",\"order_id\":\"")); /* text: JSON's numbers end at 2^53 */
    strbuf_add_i64(b, a->order_id);
    strbuf_add_char(b, '"');
}

static void accepted(const struct data_loop *d, struct http_exchange *x,
                     const struct reserve_answer *a)
{
    char body_mem[320], extra_mem[256];
    struct strbuf body, extra;
    strbuf_init_fixed(&body, body_mem, sizeof(body_mem));
    strbuf_add_str(&body, STR("{\"request_id\":\""));
    uuid_add(&body, &a->request_id);
    strbuf_add_str(&body, STR("\","));
    add_ids(&body, a);
    strbuf_add_str(&body, STR(",\"state\":\""));
    strbuf_add_str(&body, verdict_state_name(a->verdict.state));
    strbuf_add_str(&body, STR("\"}"));

    strbuf_init_fixed(&extra, extra_mem, sizeof(extra_mem));
    location_add(&extra, &d->api->location_keys,
                 &(struct location_claim){a->user_id, a->item, a->request_id, a->epoch});
    if (a->replayed)
        strbuf_add_str(&extra, REPLAYED);
    http_respond(x, answer_info(a->answer)->status, STR("application/json"), strbuf_str(&extra),
                 strbuf_str(&body));
}

static void refused(struct http_exchange *x, const struct reserve_answer *a)
{
    char mem[320];
    struct strbuf members;
    strbuf_init_fixed(&members, mem, sizeof(mem));
    if (a->order_id)
        add_ids(&members, a);
    if (a->replayed) { /* what that request came to */
        strbuf_add_str(&members, STR(",\"state\":\""));
        strbuf_add_str(&members, verdict_state_name(a->verdict.state));
        strbuf_add_str(&members, STR("\",\"reason\":\""));
        strbuf_add_str(&members, verdict_reason_name(a->verdict.reason));
        strbuf_add_char(&members, '"');
    }
    http_problem_extra(x, a->answer, &a->request_id, NULL, strbuf_str(&members),
                       a->replayed ? REPLAYED : NONE);
}

void orders_on_answer(struct reserve_pool *p, void *viewer, const struct reserve_answer *a)
{
    if (a->answer == ANSWER_ACCEPTED)
        accepted(container_of(p, struct data_loop, pool), viewer, a);
    else
        refused(viewer, a);
}
