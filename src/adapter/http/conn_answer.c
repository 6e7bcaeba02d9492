#include "adapter/http/conn_answer.h"

#include "adapter/http/route.h"
#include "base/log.h"
#include "base/panic.h"

static struct http_in *in_of(struct http_exchange *x)
{
    return container_of(x, struct http_in, x);
}

void http_exchange_over(struct http_conn *c)
{
    struct http_server *s = c->server;
    c->active = false;
    if (c->in->inflight)
        metric_gauge_add(s->metrics.inflight, -1);
    c->in->inflight = false;
}

/* How the connection goes on after this answer. A draining server still answers what it has read.
 */
static struct http_frame frame_of(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct http_in *in = c->in;
    bool last = in->start + in->request.end == in->len;
    if (!in->request.keep_alive || (last && (s->draining || c->ended)))
        c->closing = true;
    if (loop_now_us(s->loop) >= s->date.until_us)
        http_date_refresh(&s->date, loop_now_us(s->loop), loop_wall_us(s->loop));
    return (struct http_frame){
        .date = &s->date,
        .ending = c->closing             ? HTTP_CLOSE
                  : in->request.http_1_0 ? HTTP_KEEP_1_0
                                         : HTTP_KEEP,
        .head_only = in->request.method == HTTP_METHOD_HEAD,
    };
}

/* After the answer was appended: the request is used up. */
static void finish(struct http_conn *c, int status)
{
    struct http_server *s = c->server;
    struct http_in *in = c->in;
    int64_t now = loop_now_us(s->loop);
    http_metrics_answer(&s->metrics, in->x.route, status, now - in->received_us);
    http_exchange_over(c);
    in->start = c->closing ? in->len : in->start + in->request.end;
    http_request_init(&in->request, (uint32_t)s->limits.max_header, (uint32_t)s->limits.max_body);
    c->begun_us = 0;
    c->idle_us = now;
    if (c->in_callback)
        return;
    loop_flush_later(s->loop, &c->flush);
    if (in->start < in->len)
        loop_defer(s->loop, &c->resume);
}

/* The connection to answer on; NULL when nobody is there. */
static struct http_conn *answering(struct http_exchange *x)
{
    struct http_conn *c = in_of(x)->conn;
    if (!c->active)
        panic("http: answered twice, or after on_gone");
    if (c->state != HTTP_CONN_ZOMBIE)
        return c;
    if (c->server)
        http_exchange_over(c);
    http_conn_release_zombie(c);
    return NULL;
}

static void problem(struct http_conn *c, enum answer a, const struct uuid *request_id,
                    const char *detail, struct str members, struct str extra)
{
    struct http_frame f = frame_of(c);
    /* Without memory for an answer the client gets none, but it gets the end. */
    if (!http_problem_write(&c->server->out_pool, &c->out, &f, a, request_id, detail, members,
                            extra))
        c->closing = true;
    finish(c, answer_info(a)->status);
}

void http_respond(struct http_exchange *x, int status, struct str content_type, struct str extra,
                  struct str body)
{
    struct http_conn *c = answering(x);
    if (!c)
        return;
    struct http_frame f = frame_of(c);
    if (http_answer_write(&c->server->out_pool, &c->out, &f, status, content_type, extra, body)) {
        finish(c, status);
        return;
    }
    log_error("http answer too large", LOG_I("bytes", (int64_t)body.len));
    problem(c, ANSWER_INTERNAL_ERROR, NULL, NULL, (struct str){NULL, 0}, (struct str){NULL, 0});
}

void http_problem_extra(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                        const char *detail, struct str members, struct str extra)
{
    struct http_conn *c = answering(x);
    if (c)
        problem(c, a, request_id, detail, members, extra);
}

void http_problem_with(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                       const char *detail, struct str members)
{
    http_problem_extra(x, a, request_id, detail, members, (struct str){NULL, 0});
}

void http_problem(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                  const char *detail)
{
    http_problem_with(x, a, request_id, detail, (struct str){NULL, 0});
}

struct loop *http_exchange_loop(const struct http_exchange *x)
{
    const struct http_in *in =
        container_of((struct http_exchange *)(uintptr_t)x, struct http_in, x);
    return in->conn->server->loop;
}

static void fill(struct http_exchange *x, const struct http_in *in)
{
    const struct http_request *r = &in->request;
    const char *b = in->bytes + in->start;
    *x = (struct http_exchange){
        .method = http_span_str(r->method_name, b),
        .path = http_span_str(r->path, b),
        .query = http_span_str(r->query, b),
        .authorization = http_span_str(r->authorization, b),
        .idempotency_key = http_span_str(r->idempotency_key, b),
        .content_type = http_span_str(r->content_type, b),
        .traceparent = http_span_str(r->traceparent, b),
        .tracestate = http_span_str(r->tracestate, b),
        .body = {b + r->head_len, r->body_len},
        .received_us = in->received_us,
    };
    x->method.ptr = b + r->first; /* offset 0 means absent, but the method stands there */
    x->method.len = r->method_name.len;
}

static void no_route(struct http_conn *c, const char *allow)
{
    char line[64];
    struct strbuf b;
    strbuf_init_fixed(&b, line, sizeof line);
    if (allow)
        strbuf_printf(&b, "Allow: %s\r\n", allow);
    problem(c, allow ? ANSWER_METHOD_NOT_ALLOWED : ANSWER_NOT_FOUND, NULL, NULL,
            (struct str){NULL, 0}, strbuf_str(&b));
}

void http_exchange_begin(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct http_in *in = c->in;
    struct http_exchange *x = &in->x;
    fill(x, in);
    c->active = true;
    struct http_match m = http_route_find(s->service, in->request.method, x->path, x->params);
    if (!m.route) {
        no_route(c, m.allow);
        return;
    }
    x->route = m.route;
    m.route->on_request(s->service, x);
    if (c->active) {
        in->inflight = true;
        metric_gauge_add(s->metrics.inflight, 1);
    }
}

void http_exchange_refuse(struct http_conn *c, enum answer a)
{
    c->in->x = (struct http_exchange){.received_us = c->in->received_us};
    c->in->request.method =
        HTTP_METHOD_OTHER; /* nothing of it is believed: the answer has its body */
    c->active = true;
    c->closing = true;
    problem(c, a, NULL, NULL, (struct str){NULL, 0}, (struct str){NULL, 0});
}

void http_exchange_continue(struct http_conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char *at = http_out_reserve(&c->server->out_pool, &c->out, sizeof text - 1);
    if (!at)
        return;
    memcpy(at, text, sizeof text - 1);
    c->out->len += sizeof text - 1;
}
