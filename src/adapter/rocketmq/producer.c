#include "adapter/rocketmq/producer.h"

#include "adapter/rocketmq/receipt.h"
#include "adapter/rocketmq/send.h"
#include "adapter/rocketmq/session.h"
#include "base/err.h"
#include <assert.h>
#include <stdlib.h>

enum { ATTEMPTS_MAX = 2, WAITING_MAX = 4096 };

#define LEFT_MIN_US 2000 /* an attempt that has less is not worth beginning */
#define PAUSE_US 5000    /* before the same proxy is asked again, plus up to as much */
#define THROTTLED_US 10000

enum { PUBLISH_NEW, PUBLISH_WAITING, PUBLISH_ON_WIRE, PUBLISH_PAUSED, PUBLISH_DONE };

struct rmq_producer {
    struct rmq_session session;
    struct rocketmq *mq;
    struct rmq_channel *channels[RMQ_CHANNELS_MAX]; /* of brokers that can be written to */
    int n_channels;
    unsigned turn;
    struct list active, waiting; /* all that are under way; of these, those without a place */
    int n_waiting;
    struct loop_task pump; /* behind what else this turn publishes */
    struct list free_sends;
    void (*on_closed)(struct rocketmq *);
};

/* --- the end of one --- */
static void leave_waiting(struct rmq_producer *d, struct rmq_publish *p)
{
    if (p->state != PUBLISH_WAITING)
        return;
    list_remove(&p->place);
    d->n_waiting--;
    metric_gauge_add(d->mq->m.waiting, -1);
}

static void leave_send(struct rmq_publish *p)
{
    if (p->send)
        list_remove(&p->place);
    p->send = NULL;
}

static void finish(struct rmq_publish *p, int rc)
{
    struct rocketmq *mq = p->mq;
    if (rc && p->unknown)
        rc = ERR_UNCERTAIN; /* rule 14 */
    leave_waiting(mq->producer, p);
    sched_clear(loop_sched(mq->loop), &p->timer);
    list_remove(&p->link);
    leave_send(p);
    metric_add(rc == 0 ? mq->m.accepted : err_is_unknown(rc) ? mq->m.unknown : mq->m.refused, 1);
    metric_observe_us(mq->m.publish_duration, rmq_now_us(mq) - p->started_us);
    p->op->on_done(p->op, rc);
}

/* Never inside a submit or a cancel. */
static void finish_later(struct rmq_publish *p, int rc)
{
    leave_waiting(p->mq->producer, p);
    leave_send(p);
    p->state = PUBLISH_DONE;
    p->rc = rc;
    sched_set(loop_sched(p->mq->loop), &p->timer, rmq_now_us(p->mq));
}

/* --- attempts --- */
static void pump(struct rmq_producer *d);

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

/* One of a send's publishes hears its result. Of several that were refused, each is tried alone:
 * what is wrong with one is not its neighbours' fault. */
static void attempt_ended(struct rmq_publish *p, const struct rmq_answer *a, int rc, int together)
{
    struct rocketmq *mq = p->mq;
    p->unknown |= rc != 0 && err_is_unknown(rc);
    p->rc = rc;
    p->failed = p->send->call.channel;
    int64_t pause = -1;
    if (rc && !p->canceled)
        pause = together > 1 && !err_is_unknown(rc) && a->class == RMQ_REFUSED && !mq->ending
                    ? 0
                    : pause_us(p, a, rc);
    if (pause < 0) {
        finish(p, rc);
        return;
    }
    leave_send(p);
    p->state = PUBLISH_PAUSED;
    metric_add(mq->m.retries, 1);
    sched_set_in(loop_sched(mq->loop), &p->timer, pause);
}

static void on_sent(struct rmq_call *c, const struct rmq_answer *a)
{
    struct rmq_send *s = container_of(c, struct rmq_send, call);
    struct rocketmq *mq = c->session->mq;
    struct rmq_producer *d = mq->producer;
    int rc = rmq_send_judge(s, a);
    c->channel->sends--;
    if (!mq->ending)
        rmq_session_heed(&d->session, c->channel, a);
    while (!list_empty(&s->publishes))
        attempt_ended(container_of(s->publishes.next, struct rmq_publish, place), a, rc, s->n);
    rmq_send_put(&d->free_sends, s);
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

/* The next of those who wait, with others if it is a first attempt at the producer's own topic and
 * they are, too. The earliest of their deadlines; with nothing in it 0. */
static int64_t load(struct rmq_producer *d, struct rmq_send *s)
{
    int64_t deadline_us = 0;
    bool alone = false;
    while (!list_empty(&d->waiting) && !alone && s->n < d->mq->c.send_batch) {
        struct rmq_publish *p = container_of(d->waiting.next, struct rmq_publish, place);
        alone = p->attempts > 0 || (p->message && p->message->topic);
        if (alone && s->n > 0)
            break;
        int rc = rmq_send_add(s, p);
        if (rc == RMQ_SEND_FULL)
            break;
        leave_waiting(d, p);
        if (rc < 0) {
            finish_later(p, rc);
            continue;
        }
        int64_t until_us = attempt_deadline_us(p);
        if (s->n == 1 || until_us < deadline_us)
            deadline_us = until_us;
        p->state = PUBLISH_ON_WIRE;
        p->send = s;
        list_push_back(&s->publishes, &p->place);
        p->attempts++;
        sched_clear(loop_sched(d->mq->loop), &p->timer);
    }
    return deadline_us;
}

static void pump(struct rmq_producer *d)
{
    while (!list_empty(&d->waiting) && !d->mq->ending) {
        struct rmq_publish *p = container_of(d->waiting.next, struct rmq_publish, place);
        if (d->n_channels == 0) {
            finish_later(p, p->attempts ? p->rc : ERR_UNAVAIL);
            continue;
        }
        struct rmq_channel *ch =
            rmq_choose(d->channels, d->n_channels, &d->turn, p->failed, d->mq->c.max_sends);
        if (!ch)
            return;
        /* Another one is there for it: then it is not worth waiting for a connection. */
        bool fail_fast = p->attempts + 1 < ATTEMPTS_MAX && d->n_channels > 1;
        struct rmq_send *s = rmq_send_get(&d->free_sends);
        int64_t deadline_us = load(d, s);
        if (s->n == 0) {
            rmq_send_put(&d->free_sends, s);
            continue;
        }
        ch->sends++;
        rmq_send_start(s, &d->session, ch, deadline_us, fail_fast, on_sent);
    }
}

static void on_pump(struct loop_task *t)
{
    pump(container_of(t, struct rmq_producer, pump));
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
    list_push_back(&d->waiting, &p->place);
    d->n_waiting++;
    metric_gauge_add(d->mq->m.waiting, 1);
    sched_set(loop_sched(d->mq->loop), &p->timer, p->op->deadline_us);
    loop_defer(d->mq->loop, &d->pump);
}

static void on_timer(struct timer *t)
{
    struct rmq_publish *p = container_of(t, struct rmq_publish, timer);
    if (p->state == PUBLISH_PAUSED && rmq_now_us(p->mq) < p->op->deadline_us)
        wait_for_place(p);
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
    list_push_back(&d->active, &p->link);
    if (mq->ending)
        finish_later(p, ERR_CANCELED);
    else if (p->op->deadline_us <= p->started_us)
        finish_later(p, ERR_DEADLINE);
    else
        wait_for_place(p);
}

static bool only_one_in(const struct rmq_send *s)
{
    return s->publishes.next == s->publishes.prev;
}

bool rmq_publish_cancel(struct rocketmq *mq, struct op *op)
{
    list_for_each (l, &mq->producer->active) {
        struct rmq_publish *p = container_of(l, struct rmq_publish, link);
        if (p->op != op)
            continue;
        p->canceled = true;
        if (p->state == PUBLISH_ON_WIRE && only_one_in(p->send))
            rmq_call_cancel(&p->send->call);
        else if (p->state == PUBLISH_ON_WIRE) /* its neighbours' call */
            finish_later(p, ERR_UNCERTAIN);
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
    list_init(&d->pump.link);
    d->pump.on_run = on_pump;
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
    loop_defer_cancel(&d->pump);
    rmq_sends_free(&d->free_sends);
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
