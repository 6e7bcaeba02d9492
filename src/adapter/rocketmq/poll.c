/* One ReceiveMessage at one broker: a long poll that belongs to the consumer, not to the receive
 * operation that caused it. It is never cut short (its messages would be stranded until their lease
 * ends); what comes when nobody asks any more waits in `ready`.
 *
 *   start ─ status ─ message … ─ time ─► end: again at once, or, where it failed, after a pause
 *
 * The lease: the broker's clock starts when it takes the message out of its queue, some time
 * between our request and its answer. It is counted from the first word of the answer, but never
 * from later than the moment at which the poll was over at the broker: so a process that stood
 * still between does not take a lease for longer than it is. What remains (the way of the answer)
 * is the caller's margin. */
#include "adapter/rocketmq/inner.h"

#include "base/err.h"
#include "base/log.h"
#include "core/retry.h"
#include <string.h>

/* The request's deadline is beyond the poll: a poll that is cut strands messages. By their defaults
 * proxies make POLL_LEAST_US of whatever is shorter, and refuse a request that has less left. */
#define POLL_LEAST_US 5000000
#define POLL_GRACE_US 3000000
#define SOON_US 50000 /* an empty answer faster than this is no long poll */
#define PAUSE_US 1000000
/* A receive costs a broker as much as several messages. While they trickle in, some are let gather;
 * the first one after a silence does not wait. */
#define GATHER_US 10000

static void on_message(struct rmq_call *call, const ProtobufCMessage *m)
{
    struct rmq_poll *p = container_of(call, struct rmq_poll, call);
    struct rmq_outlet *o = p->from;
    struct rmq_consumer *c = o->source->c;
    const Rmq__ReceiveMessageResponse *r = (const Rmq__ReceiveMessageResponse *)(const void *)m;
    int64_t now = rmq_consumer_now(c);
    if (!p->heard) {
        p->heard = true;
        int64_t over = p->sent_us + c->mq->c.poll_us;
        p->lease_until_us = (now < over ? now : over) + c->mq->c.lease_us;
    }
    if (r->content_case != RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_MESSAGE)
        return;
    if (p->promised == 0) { /* more than was asked for: the bound holds, it comes again */
        p->surplus++;
        return;
    }
    struct rmq_slot *slot = rmq_slot_take(o, r->message, p->lease_until_us);
    if (!slot)
        return;
    p->promised--;
    o->source->promised--;
    if (p->got++ == 0)
        metric_observe_us(c->m.receive_duration, now - p->sent_us);
    rmq_receive_got(c, slot);
}

static void pause_for(struct rmq_outlet *o, int64_t us)
{
    struct rmq_consumer *c = o->source->c;
    o->not_before_us = rmq_consumer_now(c) + rmq_jitter_us(c->mq, us);
}

/* What an end without messages means for the next poll. */
static void failed(struct rmq_poll *p, const struct rmq_answer *a)
{
    struct rmq_outlet *o = p->from;
    struct rmq_consumer *c = o->source->c;
    int n = o->failures < 16 ? o->failures++ : o->failures;
    if (a->class == RMQ_RESYNC || a->code == RMQ_CODE_INTERNAL) {
        /* 50001: a proxy that lost our settings says no more than that. */
        if (a->class != RMQ_RESYNC)
            rmq_session_resync(&o->source->session, p->call.channel);
        pause_for(o, PAUSE_US);
    } else if (a->class == RMQ_THROTTLED || a->transport) {
        /* At least half of it: an error that comes at once must not make this a busy loop. */
        int64_t bound = retry_delay_us(&c->mq->rng, 20000, PAUSE_US, n);
        pause_for(o, bound > 10000 ? bound : 10000);
    } else {
        pause_for(o, o->source->dead ? 10 * PAUSE_US : PAUSE_US);
    }
    if (o->source->dead)
        return;
    metric_add(c->m.receive_failures, 1);
    static struct log_limit limit;
    uint64_t more;
    if (log_allowed(&limit, rmq_consumer_now(c), &more))
        log_warn("rocketmq: a poll failed; it is tried again", LOG_Z("broker", o->name),
                 LOG_I("code", a->code), LOG_Z("text", a->text),
                 LOG_I("suppressed", (int64_t)more));
    rmq_receive_failed(c, a->rc ? a->rc : ERR_UNAVAIL);
}

/* A proxy of 5.3 with its broker inside took our settings without a word, and says it like this. */
static bool group_missing(const struct rmq_answer *a)
{
    return a->code == RMQ_CODE_INTERNAL && strstr(a->text, "subscription group") &&
           strstr(a->text, "not exist");
}

static void on_answer(struct rmq_call *call, const struct rmq_answer *a)
{
    struct rmq_poll *p = container_of(call, struct rmq_poll, call);
    struct rmq_outlet *o = p->from;
    struct rmq_consumer *c = o->source->c;
    int64_t now = rmq_consumer_now(c);
    static struct log_limit limit;
    uint64_t more;
    p->busy = false;
    o->polling--;
    o->source->promised -= p->promised;
    p->promised = 0;
    o->full = p->got > 0 && p->got == p->asked;
    metric_gauge_add(c->m.polls, -1);
    if (p->surplus) {
        metric_add(c->m.surplus, (uint64_t)p->surplus);
        if (log_allowed(&limit, now, &more))
            log_error("a proxy sent more messages than were asked for; the surplus is left to its "
                      "lease",
                      LOG_Z("broker", o->name), LOG_I("asked", p->asked),
                      LOG_I("surplus", p->surplus), LOG_I("suppressed", (int64_t)more));
    }
    if (c->mq->ending)
        return;
    struct rmq_answer heeded = *a;
    if (group_missing(a))
        heeded.class = RMQ_MISSING_GROUP;
    rmq_session_heed(&o->source->session, call->channel, &heeded);
    if (a->class == RMQ_OK || a->class == RMQ_EMPTY) {
        o->failures = 0;
        if (p->got == 0 && now - p->sent_us < SOON_US)
            pause_for(o, 2 * SOON_US);
        else if (p->got > 0 && !o->full)
            pause_for(o, GATHER_US);
        if (!o->source->dead)
            rmq_receive_succeeded(c);
    } else {
        failed(p, a);
    }
    if (c->closing)
        rmq_receive_give_back(c);
    rmq_receive_pump(c);
    rmq_consumer_moved(c);
}

void rmq_poll_start(struct rmq_poll *p, struct rmq_channel *ch, int n)
{
    struct rmq_outlet *o = p->from;
    struct rmq_source *s = o->source;
    struct rmq_consumer *c = s->c;
    static char all[] = "*";
    Rmq__Resource group = rmq_resource(s->group), topic = rmq_resource(s->topic);
    Rmq__Broker broker = RMQ__BROKER__INIT;
    Rmq__MessageQueue queue = RMQ__MESSAGE_QUEUE__INIT;
    Rmq__FilterExpression filter = RMQ__FILTER_EXPRESSION__INIT;
    Rmq__ReceiveMessageRequest r = RMQ__RECEIVE_MESSAGE_REQUEST__INIT;
    Rmq__Duration lease = rmq_duration(c->mq->c.lease_us), wait = rmq_duration(c->mq->c.poll_us);
    broker.name = o->name;
    queue.topic = &topic;
    queue.broker = &broker;
    queue.has_id = queue.has_permission = true;
    queue.id = o->queue_id;
    queue.permission = RMQ__PERMISSION__READ_WRITE;
    filter.has_type = true;
    filter.type = RMQ__FILTER_TYPE__TAG;
    filter.expression = all;
    r.group = &group;
    r.message_queue = &queue;
    r.filter_expression = &filter;
    r.has_batch_size = r.has_auto_renew = true;
    r.batch_size = n;
    r.auto_renew = false;
    r.invisible_duration = &lease;
    r.long_polling_timeout = &wait;

    int64_t now = rmq_consumer_now(c);
    int64_t longest = c->mq->c.poll_us > POLL_LEAST_US ? c->mq->c.poll_us : POLL_LEAST_US;
    p->call.buf = p->buf;
    p->call.buf_cap = sizeof p->buf;
    p->call.on_message = on_message;
    p->call.on_answer = on_answer;
    p->asked = p->promised = n;
    p->got = p->surplus = 0;
    p->heard = false;
    p->sent_us = now;
    if (rmq_call_start(&p->call, &s->session, ch, RMQ_RECEIVE, &r.base,
                       now + longest + POLL_GRACE_US, true)) {
        p->promised = 0;
        pause_for(o, 10 * PAUSE_US);
        return;
    }
    p->busy = true;
    o->polling++;
    s->promised += n;
    metric_gauge_add(c->m.polls, 1);
}
