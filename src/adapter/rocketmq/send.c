#include "adapter/rocketmq/send.h"

#include "adapter/rocketmq/message.h"
#include "adapter/rocketmq/session.h"
#include "base/err.h"
#include "base/log.h"
#include "base/panic.h"
#include <stdlib.h>

enum { SEND_MAX = RMQ_BODY_MAX + (64 << 10) };

/* --- the pool --- */
struct rmq_send *rmq_send_get(struct list *free_sends)
{
    struct list *l = list_pop_front(free_sends);
    struct rmq_send *s = l ? container_of(l, struct rmq_send, link) : calloc(1, sizeof *s);
    if (!s)
        panic("rocketmq: no memory for a send");
    list_init(&s->publishes);
    s->n = 0;
    s->used = 0;
    return s;
}

void rmq_send_put(struct list *free_sends, struct rmq_send *s)
{
    free(s->big);
    s->big = NULL;
    list_push_front(free_sends, &s->link);
}

void rmq_sends_free(struct list *free_sends)
{
    for (struct list *l; (l = list_pop_front(free_sends));)
        free(container_of(l, struct rmq_send, link));
}

/* --- bytes --- */

/* Requests of one message each, one behind the other, are a request of them all: that is how
 * protobuf writes a repeated field. */
static int pack(struct rmq_send *s, struct rocketmq *mq, const struct rmq_message *m)
{
    struct rmq_send_request request;
    const ProtobufCMessage *r =
        rmq_message_request(m, mq->c.topic, mq->hostname, loop_wall_us(mq->loop), &request);
    size_t n = protobuf_c_message_get_packed_size(r);
    if (n > SEND_MAX || m->body.len == 0 || !m->message_id)
        return ERR_INVALID;
    if (s->n > 0 && n > sizeof s->bytes - s->used)
        return RMQ_SEND_FULL;
    if (s->n == 0 && !str_copy(s->message_id, sizeof s->message_id, str_of(m->message_id)))
        return ERR_INVALID;
    if (n > sizeof s->bytes && !(s->big = malloc(n)))
        return ERR_OVERLOAD;
    uint8_t *to = s->big ? s->big : s->bytes + s->used;
    s->used += protobuf_c_message_pack(r, to);
    s->n++;
    return 0;
}

int rmq_send_add(struct rmq_send *s, const struct rmq_publish *p)
{
    if (p->message)
        return pack(s, p->mq, p->message);
    struct rmq_event_text text;
    struct rmq_message m;
    int rc = rmq_message_of_event(p->event, p->mq->c.topic, &text, &m);
    return rc ? rc : pack(s, p->mq, &m);
}

/* --- the call --- */
static void on_receipt(struct rmq_call *c, const ProtobufCMessage *message)
{
    struct rmq_send *s = container_of(c, struct rmq_send, call);
    rmq_receipt_read((const Rmq__SendMessageResponse *)(const void *)message, s->message_id, s->n,
                     &s->receipt);
}

void rmq_send_start(struct rmq_send *s, struct rmq_session *session, struct rmq_channel *ch,
                    int64_t deadline_us, bool fail_fast,
                    void (*on_answer)(struct rmq_call *c, const struct rmq_answer *a))
{
    s->receipt = (struct rmq_receipt){.sent = s->n};
    s->call.buf = s->big ? s->big : s->bytes;
    s->call.on_message = on_receipt;
    s->call.on_answer = on_answer;
    rmq_call_start_packed(&s->call, session, ch, RMQ_SEND, s->used, deadline_us, fail_fast);
}

static void tell_odd(struct rocketmq *mq, const struct rmq_send *s, const struct rmq_answer *a)
{
    static struct log_limit limit;
    uint64_t suppressed;
    metric_add(mq->m.odd_receipts, 1);
    if (log_allowed(&limit, rmq_now_us(mq), &suppressed))
        log_error("rocketmq: a receipt that does not fit what was sent; taken for unknown",
                  LOG_Z("broker_message_id", s->message_id), LOG_I("messages", s->n),
                  LOG_Z("target", s->call.channel->target), LOG_I("code", a->code),
                  LOG_I("entries", (int64_t)s->receipt.entries),
                  LOG_I("entry_code", s->receipt.code), LOG_B("same_id", s->receipt.same_id),
                  LOG_I("suppressed", (int64_t)suppressed));
}

static void tell_failure(struct rocketmq *mq, const struct rmq_send *s, const struct rmq_answer *a)
{
    static struct log_limit limit;
    uint64_t suppressed;
    if (log_allowed(&limit, rmq_now_us(mq), &suppressed))
        log_warn("rocketmq: a send was not accepted", LOG_Z("broker_message_id", s->message_id),
                 LOG_I("messages", s->n), LOG_Z("target", s->call.channel->target),
                 LOG_I("code", a->code),
                 LOG_Z("code_name", a->code ? rmq_code_name(a->code) : "none"),
                 LOG_Z("error_kind", err_name(a->rc)), LOG_Z("text", a->text),
                 LOG_I("suppressed", (int64_t)suppressed));
}

int rmq_send_judge(struct rmq_send *s, const struct rmq_answer *a)
{
    struct rocketmq *mq = s->call.session->mq;
    bool odd;
    int rc = rmq_receipt_judge(a, &s->receipt, &odd);
    if (odd)
        tell_odd(mq, s, a);
    else if (rc)
        tell_failure(mq, s, a);
    return rc;
}
