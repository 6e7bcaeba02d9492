#include "adapter/rocketmq/producer.h"

#include "adapter/rocketmq/message.h"
#include "adapter/rocketmq/receipt.h"
#include "adapter/rocketmq/session.h"
#include "base/err.h"
#include "base/log.h"
#include "base/panic.h"
#include <assert.h>
#include <stdlib.h>

enum {
    ATTEMPTS_MAX = 2,
    WAITING_MAX = 4096,
    SEND_BUF = 8192,
    SEND_MAX = RMQ_BODY_MAX + (64 << 10)
};

#define LEFT_MIN_US 2000 /* an attempt that has less is not worth beginning */
#define PAUSE_US 5000    /* before the same proxy is asked again, plus up to as much */
#define THROTTLED_US 10000

enum { PUBLISH_NEW, PUBLISH_WAITING, PUBLISH_ON_WIRE, PUBLISH_PAUSED, PUBLISH_DONE };

/* The bytes of a publish and its call: pooled, since each is some ten KiB. */
struct rmq_send {
    struct rmq_call call;
    struct list free_link;
    struct rmq_publish *p;
    struct rmq_receipt receipt;
    char message_id[RMQ_NAME_MAX];
    size_t n;
    void *big; /* instead of bytes, where they are too few */
    unsigned char bytes[SEND_BUF];
};

struct rmq_producer {
    struct rmq_session session;
    struct rocketmq *mq;
    struct rmq_channel *channels[RMQ_CHANNELS_MAX]; /* of brokers that can be written to */
    int n_channels;
    unsigned turn;
    struct list active, waiting; /* all that are under way; of these, those without a place */
    int n_waiting;
    struct list free_sends;
    void (*on_closed)(struct rocketmq *);
};

/* --- sends --- */
static struct rmq_send *send_get(struct rmq_producer *d)
{
    struct list *l = list_pop_front(&d->free_sends);
    if (l)
        return container_of(l, struct rmq_send, free_link);
    struct rmq_send *s = calloc(1, sizeof *s);
    if (!s)
        panic("rocketmq: no memory for a send");
    return s;
}

static void send_put(struct rmq_producer *d, struct rmq_send *s)
{
    free(s->big);
    s->big = NULL;
    s->p = NULL;
    list_push_front(&d->free_sends, &s->free_link);
}

static int pack(struct rocketmq *mq, struct rmq_send *s, const struct rmq_message *m)
{
    struct rmq_send_request request;
    const ProtobufCMessage *r =
        rmq_message_request(m, mq->c.topic, mq->hostname, loop_wall_us(mq->loop), &request);
    size_t n = protobuf_c_message_get_packed_size(r);
    if (n > SEND_MAX || m->body.len == 0 || !m->message_id ||
        !str_copy(s->message_id, sizeof s->message_id, str_of(m->message_id)))
        return ERR_INVALID;
    if (n > sizeof s->bytes && !(s->big = malloc(n)))
        return ERR_OVERLOAD;
    s->call.buf = s->big ? s->big : s->bytes;
    s->call.buf_cap = s->big ? n : sizeof s->bytes;
    s->n = (size_t)rmq_call_pack(&s->call, r);
    return 0;
}

static int encode(struct rocketmq *mq, struct rmq_publish *p, struct rmq_send *s)
{
    if (p->message)
        return pack(mq, s, p->message);
    struct rmq_event_text text;
    struct rmq_message m;
    int rc = rmq_message_of_event(p->event, mq->c.topic, &text, &m);
    return rc ? rc : pack(mq, s, &m);
}

/* --- the end of one --- */
static void leave_waiting(struct rmq_producer *d, struct rmq_publish *p)
{
    if (p->state != PUBLISH_WAITING)
        return;
    list_remove(&p->waiting);
    d->n_waiting--;
    metric_gauge_add(d->mq->m.waiting, -1);
}

static void finish(struct rmq_publish *p, int rc)
{
    struct rocketmq *mq = p->mq;
    if (rc && p->unknown)
        rc = ERR_UNCERTAIN; /* rule 14 */
    leave_waiting(mq->producer, p);
    sched_clear(loop_sched(mq->loop), &p->timer);
    list_remove(&p->link);
    if (p->send)
        send_put(mq->producer, p->send);
    p->send = NULL;
    metric_add(rc == 0 ? mq->m.accepted : err_is_unknown(rc) ? mq->m.unknown : mq->m.refused, 1);
    metric_observe_us(mq->m.publish_duration, rmq_now_us(mq) - p->started_us);
    p->op->on_done(p->op, rc);
}

/* Never inside a submit or a cancel. */
static void finish_later(struct rmq_publish *p, int rc)
{
    leave_waiting(p->mq->producer, p);
    p->state = PUBLISH_DONE;
    p->rc = rc;
    sched_set(loop_sched(p->mq->loop), &p->timer, rmq_now_us(p->mq));
}

/* --- attempts --- */
static void attempt(struct rmq_publish *p);

static void pump(struct rmq_producer *d)
{
    while (!list_empty(&d->waiting) && !d->mq->ending) {
        struct rmq_publish *p = container_of(d->waiting.next, struct rmq_publish, waiting);
        unsigned turn = d->turn;
        if (!rmq_choose(d->channels, d->n_channels, &turn, p->failed, d->mq->c.max_sends))
            return;
        leave_waiting(d, p);
        p->state = PUBLISH_NEW;
        attempt(p);
    }
}

static void on_receipt(struct rmq_call *c, const ProtobufCMessage *message)
{
    struct rmq_send *s = container_of(c, struct rmq_send, call);
    rmq_receipt_read((const Rmq__SendMessageResponse *)(const void *)message, s->message_id,
                     &s->receipt);
}

static void tell_odd(struct rocketmq *mq, const struct rmq_send *s, const struct rmq_answer *a)
{
    static struct log_limit limit;
    uint64_t suppressed;
    metric_add(mq->m.odd_receipts, 1);
    if (log_allowed(&limit, rmq_now_us(mq), &suppressed))
        log_error("rocketmq: a receipt that does not fit what was sent; taken for unknown",
                  LOG_Z("broker_message_id", s->message_id),
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
                 LOG_Z("target", s->call.channel->target), LOG_I("code", a->code),
                 LOG_Z("code_name", a->code ? rmq_code_name(a->code) : "none"),
                 LOG_Z("error_kind", err_name(a->rc)), LOG_Z("text", a->text),
                 LOG_I("suppressed", (int64_t)suppressed));
}

/* The pause before the second attempt, or -1: there is none. */
static int64_t pause_us(struct rmq_publish *p, const struct rmq_answer *a, int rc)
{
    struct rocketmq *mq = p->mq;
    bool elsewhere = mq->producer->n_channels > 1;
    int64_t pause = 0;
    if (p->attempts >= ATTEMPTS_MAX || mq->ending)
        return -1;
    switch (rmq_again_after(a, rc)) {
    case RMQ_AGAIN_NO:
        return -1;
    case RMQ_AGAIN_ELSEWHERE:
        if (!elsewhere)
            return -1;
        break;
    case RMQ_AGAIN_ANYWHERE:
        if (!elsewhere)
            pause = PAUSE_US + (int64_t)rng_below(&mq->rng, PAUSE_US);
        break;
    case RMQ_AGAIN_LATER:
        pause = THROTTLED_US + (int64_t)rng_below(&mq->rng, THROTTLED_US);
        break;
    }
    return rmq_now_us(mq) + pause + LEFT_MIN_US < p->op->deadline_us ? pause : -1;
}

static void on_sent(struct rmq_call *c, const struct rmq_answer *a)
{
    struct rmq_send *s = container_of(c, struct rmq_send, call);
    struct rmq_publish *p = s->p;
    struct rocketmq *mq = p->mq;
    struct rmq_producer *d = mq->producer;
    bool odd;
    int rc = rmq_receipt_judge(a, &s->receipt, &odd);
    c->channel->sends--;
    if (odd)
        tell_odd(mq, s, a);
    else if (rc)
        tell_failure(mq, s, a);
    if (!mq->ending)
        rmq_session_heed(&d->session, c->channel, a);
    p->unknown |= rc != 0 && err_is_unknown(rc);
    p->rc = rc;
    p->failed = c->channel;
    int64_t pause = rc && !p->canceled ? pause_us(p, a, rc) : -1;
    if (pause < 0) {
        finish(p, rc);
    } else {
        p->state = PUBLISH_PAUSED;
        metric_add(mq->m.retries, 1);
        sched_set_in(loop_sched(mq->loop), &p->timer, pause);
    }
    pump(d);
}

/* With another proxy at hand the first does not get all of the time. */
static int64_t attempt_deadline_us(const struct rmq_publish *p)
{
    const struct rocketmq *mq = p->mq;
    int64_t now_us = rmq_now_us(mq), left_us = p->op->deadline_us - now_us;
    if (p->attempts == 0 && mq->producer->n_channels > 1)
        left_us = left_us / 2;
    return now_us + (left_us < mq->c.request_us ? left_us : mq->c.request_us);
}

static void wait_for_place(struct rmq_publish *p)
{
    struct rmq_producer *d = p->mq->producer;
    if (d->n_waiting >= WAITING_MAX) {
        metric_add(d->mq->m.overload, 1);
        finish_later(p, ERR_OVERLOAD);
        return;
    }
    p->state = PUBLISH_WAITING;
    list_push_back(&d->waiting, &p->waiting);
    d->n_waiting++;
    metric_gauge_add(d->mq->m.waiting, 1);
    sched_set(loop_sched(d->mq->loop), &p->timer, p->op->deadline_us);
}

static void attempt(struct rmq_publish *p)
{
    struct rocketmq *mq = p->mq;
    struct rmq_producer *d = mq->producer;
    if (d->n_channels == 0) {
        finish_later(p, p->attempts ? p->rc : ERR_UNAVAIL);
        return;
    }
    struct rmq_channel *ch =
        rmq_choose(d->channels, d->n_channels, &d->turn, p->failed, mq->c.max_sends);
    if (!ch) {
        wait_for_place(p);
        return;
    }
    if (!p->send) {
        p->send = send_get(d);
        p->send->p = p;
        int rc = encode(mq, p, p->send);
        if (rc) {
            finish_later(p, rc);
            return;
        }
    }
    struct rmq_send *s = p->send;
    s->receipt = (struct rmq_receipt){0};
    s->call.on_message = on_receipt;
    s->call.on_answer = on_sent;
    int64_t deadline_us = attempt_deadline_us(p);
    p->state = PUBLISH_ON_WIRE;
    p->attempts++;
    ch->sends++;
    sched_clear(loop_sched(mq->loop), &p->timer);
    /* Another one is there for it: then it is not worth waiting for a connection. */
    bool fail_fast = p->attempts < ATTEMPTS_MAX && d->n_channels > 1;
    rmq_call_start_packed(&s->call, &d->session, ch, RMQ_SEND, s->n, deadline_us, fail_fast);
}

static void on_timer(struct timer *t)
{
    struct rmq_publish *p = container_of(t, struct rmq_publish, timer);
    if (p->state == PUBLISH_PAUSED && rmq_now_us(p->mq) < p->op->deadline_us)
        attempt(p);
    else if (p->state == PUBLISH_DONE)
        finish(p, p->rc);
    else
        finish(p, p->attempts ? p->rc : ERR_DEADLINE);
}

void rmq_publish_start(struct rocketmq *mq, struct rmq_publish *p)
{
    struct rmq_producer *d = mq->producer;
    p->mq = mq;
    p->started_us = rmq_now_us(mq);
    p->timer.on_fire = on_timer;
    list_init(&p->waiting);
    list_push_back(&d->active, &p->link);
    if (mq->ending)
        finish_later(p, ERR_CANCELED);
    else if (p->op->deadline_us <= p->started_us)
        finish_later(p, ERR_DEADLINE);
    else if (!list_empty(&d->waiting))
        wait_for_place(p);
    else
        attempt(p);
}

bool rmq_publish_cancel(struct rocketmq *mq, struct op *op)
{
    list_for_each (l, &mq->producer->active) {
        struct rmq_publish *p = container_of(l, struct rmq_publish, link);
        if (p->op != op)
            continue;
        p->canceled = true;
        if (p->state == PUBLISH_ON_WIRE)
            rmq_call_cancel(&p->send->call);
        else if (p->state != PUBLISH_DONE)
            finish_later(p, ERR_CANCELED);
        return true;
    }
    return false;
}

void rmq_queue_publish(struct queue *q, struct queue_publish *p)
{
    struct rmq_publish *x = (struct rmq_publish *)(void *)p->space.bytes;
    static_assert(sizeof *x <= sizeof p->space, "op_space");
    *x = (struct rmq_publish){.op = &p->op, .event = p->event};
    p->queue_id[0] = '\0';
    rmq_publish_start(rmq_of(q), x);
}

/* --- the session --- */
static void on_route(struct rmq_session *s)
{
    struct rmq_producer *d = container_of(s, struct rmq_producer, session);
    d->n_channels = 0;
    for (int i = 0; i < s->mq->n_channels; i++) {
        struct rmq_channel *ch = &s->mq->channels[i];
        bool leads = false;
        for (int b = 0; b < s->route.n; b++) {
            const struct rmq_broker *broker = &s->route.brokers[b];
            for (int k = 0; k < broker->n_channels && broker->writable > 0; k++)
                leads |= broker->channels[k] == ch;
        }
        if (leads)
            d->channels[d->n_channels++] = ch;
    }
    pump(d);
}

static void on_session_closed(struct rmq_session *s)
{
    struct rmq_producer *d = container_of(s, struct rmq_producer, session);
    d->on_closed(d->mq);
}

int rmq_producer_new(struct rocketmq *mq)
{
    struct rmq_producer *d = calloc(1, sizeof *d);
    if (!d)
        return ERR_OVERLOAD;
    d->mq = mq;
    list_init(&d->active);
    list_init(&d->waiting);
    list_init(&d->free_sends);
    d->session.kind = RMQ_PRODUCER;
    d->session.topic = mq->c.topic;
    d->session.on_route = on_route;
    d->session.on_closed = on_session_closed;
    mq->producer = d;
    rmq_session_init(&d->session, mq);
    return 0;
}

void rmq_producer_close(struct rocketmq *mq, int64_t deadline_us,
                        void (*on_closed)(struct rocketmq *))
{
    mq->producer->on_closed = on_closed;
    rmq_session_close(&mq->producer->session, deadline_us);
}

void rmq_producer_drain(struct rocketmq *mq)
{
    struct rmq_producer *d = mq->producer;
    while (!list_empty(&d->active)) {
        struct rmq_publish *p = container_of(d->active.next, struct rmq_publish, link);
        assert(p->state != PUBLISH_ON_WIRE);
        finish(p, p->state == PUBLISH_DONE || p->attempts ? p->rc : ERR_CANCELED);
    }
}

void rmq_producer_free(struct rocketmq *mq)
{
    struct rmq_producer *d = mq->producer;
    rmq_session_deinit(&d->session);
    for (struct list *l; (l = list_pop_front(&d->free_sends));)
        free(container_of(l, struct rmq_send, free_link));
    free(d);
    mq->producer = NULL;
}

/* A proxy that lost a call and is still connected may only be slow. */
bool rmq_producer_ready(const struct rocketmq *mq)
{
    const struct rmq_producer *d = mq->producer;
    for (int i = 0; i < d->n_channels; i++) {
        if (!d->channels[i]->isolated || h2grpc_up(d->channels[i]->h2))
            return true;
    }
    return false;
}
