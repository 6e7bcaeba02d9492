/* One call: zeroed ─ start ─► under way ─ (messages) ─► answer. What came last as a status decides;
 * without one, the transport's end does. */
#include "adapter/rocketmq/session.h"

#include "base/log.h"
#include "core/uuid.h"
#include <assert.h>
#include <string.h>

static struct rmq_call *call_of(struct h2grpc_call *h2)
{
    return container_of(h2, struct rmq_call, h2);
}

/* --- headers --- */
static void request_id(struct rmq_call *c)
{
    struct uuid u;
    rng_fill(&c->session->mq->rng, u.b, sizeof u.b);
    u.b[6] = (uint8_t)((u.b[6] & 0x0f) | 0x40);
    u.b[8] = (uint8_t)((u.b[8] & 0x3f) | 0x80);
    uuid_format(&u, c->request_id);
    c->request_id[UUID_TEXT] = '\0';
}

static void make_headers(struct rmq_call *c)
{
    struct rocketmq *mq = c->session->mq;
    rmq_signer_at(&mq->signer, loop_wall_us(mq->loop));
    request_id(c);
    memcpy(c->date, mq->signer.date, sizeof c->date);
    struct h2grpc_header *h = c->headers;
    int n = 0;
    h[n++] = (struct h2grpc_header){"x-mq-client-id", str_of(c->session->client_id)};
    /* A Java enum's name, exactly; "C" is none. */
    h[n++] = (struct h2grpc_header){"x-mq-language", STR("CPP")};
    h[n++] = (struct h2grpc_header){"x-mq-client-version", STR("5.1.0")};
    h[n++] = (struct h2grpc_header){"x-mq-protocol", STR("v2")};
    h[n++] = (struct h2grpc_header){"x-mq-request-id", str_of(c->request_id)};
    h[n++] = (struct h2grpc_header){"x-mq-date-time", str_of(c->date)};
    if (mq->signer.authorization[0]) {
        memcpy(c->authorization, mq->signer.authorization, sizeof c->authorization);
        h[n++] = (struct h2grpc_header){"authorization", str_of(c->authorization)};
    }
    static_assert(RMQ_HEADERS >= 7, "headers");
    c->h2.metadata = h;
    c->h2.n_metadata = n;
}

/* --- answers --- */
static void on_message(struct h2grpc_call *h2, struct str bytes)
{
    struct rmq_call *c = call_of(h2);
    struct rocketmq *mq = c->session->mq;
    assert(!mq->arena_busy);
    rmq_arena_reset(&mq->arena);
    ProtobufCMessage *m =
        protobuf_c_message_unpack(rmq_method_info(c->method)->response, &mq->arena.allocator,
                                  bytes.len, (const uint8_t *)bytes.ptr);
    if (!m) {
        c->bad = true;
        metric_add(mq->m.undecodable, 1);
        return;
    }
    mq->arena_busy = true;
    const char *text;
    int code = rmq_method_status(c->method, m, &text);
    if (code) {
        /* Two words of one call: which of them is true, nobody knows. */
        c->bad |= c->code && c->method != RMQ_RECEIVE && c->method != RMQ_TELEMETRY;
        c->code = code;
        str_copy(c->text, sizeof c->text, str_of(text));
    }
    if (c->on_message)
        c->on_message(c, m);
    mq->arena_busy = false;
}

/* What gRPC itself says. Only what a server refuses before it looks at a call is "not done". */
static void transport_end(struct rmq_answer *a, const struct h2grpc_end *end)
{
    a->transport = true;
    a->class = RMQ_UNKNOWN;
    a->rc = end->rc;
    if (!end->from_server)
        return;
    /* The service answers with codes: a status is the word of whatever stands in between. */
    if (end->status == GRPC_RESOURCE_EXHAUSTED)
        a->class = RMQ_THROTTLED;
    else if (end->status == GRPC_UNAUTHENTICATED || end->status == GRPC_PERMISSION_DENIED)
        a->class = RMQ_DENIED;
    else if (end->status == GRPC_UNIMPLEMENTED || end->status == GRPC_INVALID_ARGUMENT)
        a->class = RMQ_REFUSED;
    a->rc = rmq_class_rc(a->class);
}

static void on_end(struct h2grpc_call *h2, const struct h2grpc_end *end)
{
    struct rmq_call *c = call_of(h2);
    struct rmq_channel *ch = c->channel;
    struct rmq_answer a = {.method = c->method, .code = c->code, .text = c->text};
    c->busy = false;
    ch->calls--;
    if (c->code && !c->bad) {
        a.class = rmq_class_of(c->code);
        a.rc = rmq_class_rc(a.class);
    } else if (end->rc) {
        transport_end(&a, end);
        str_copy(c->text, sizeof c->text, end->message);
    } else {
        a.class = RMQ_UNKNOWN;
        a.rc = ERR_INTERNAL;
        str_copy(c->text, sizeof c->text,
                 STR("an answer without a status, or one that cannot be decoded"));
    }
    bool lost = end->rc == ERR_UNAVAIL || end->rc == ERR_UNCERTAIN ||
                (end->rc == ERR_DEADLINE && !h2grpc_up(ch->h2));
    /* A stream of telemetry ends for many reasons, which say little of the next send. */
    if (lost && !end->from_server && !c->canceled && c->method != RMQ_TELEMETRY)
        rmq_channel_failed(ch, c->text);
    else if (!a.transport && (c->method == RMQ_HEARTBEAT || c->method == RMQ_QUERY_ROUTE))
        rmq_channel_alive(ch);
    c->on_answer(c, &a);
}

/* --- requests --- */
int rmq_call_pack(struct rmq_call *c, const ProtobufCMessage *request)
{
    size_t n = protobuf_c_message_get_packed_size(request);
    if (n > c->buf_cap)
        return ERR_INVALID;
    return (int)protobuf_c_message_pack(request, c->buf);
}

void rmq_call_start_packed(struct rmq_call *c, struct rmq_session *s, struct rmq_channel *ch,
                           enum rmq_method m, size_t n, int64_t deadline_us, bool fail_fast)
{
    assert(!c->busy);
    c->session = s;
    c->channel = ch;
    c->method = m;
    c->busy = true;
    c->canceled = c->bad = false;
    c->code = 0;
    c->text[0] = '\0';
    make_headers(c);
    c->h2.path = rmq_method_info(m)->path;
    c->h2.request = (struct str){c->buf, n};
    c->h2.streaming = m == RMQ_TELEMETRY;
    c->h2.fail_fast = fail_fast;
    c->h2.deadline_us = deadline_us;
    c->h2.on_message = on_message;
    c->h2.on_end = on_end;
    ch->calls++;
    h2grpc_start(ch->h2, &c->h2);
}

int rmq_call_start(struct rmq_call *c, struct rmq_session *s, struct rmq_channel *ch,
                   enum rmq_method m, const ProtobufCMessage *request, int64_t deadline_us,
                   bool fail_fast)
{
    int n = rmq_call_pack(c, request);
    if (n < 0)
        return n;
    rmq_call_start_packed(c, s, ch, m, (size_t)n, deadline_us, fail_fast);
    return 0;
}

int rmq_call_write(struct rmq_call *c, const ProtobufCMessage *message)
{
    unsigned char buf[4096];
    size_t n = protobuf_c_message_get_packed_size(message);
    if (!c->busy || n > sizeof buf)
        return ERR_INVALID;
    protobuf_c_message_pack(message, buf);
    return h2grpc_write(&c->h2, (struct str){(const char *)buf, n});
}

void rmq_call_cancel(struct rmq_call *c)
{
    if (!c->busy)
        return;
    c->canceled = true;
    h2grpc_cancel(&c->h2);
}
