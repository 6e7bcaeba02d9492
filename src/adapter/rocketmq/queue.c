#include "adapter/rocketmq/client.h"
#include "adapter/rocketmq/config.h"
#include "adapter/rocketmq/consumer.h"
#include "adapter/rocketmq/producer.h"
#include "base/err.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define ARENA_MAX ((size_t)32 << 20)
/* What the producer's goodbye may take of a close, after the consumer's. */
#define GOODBYE_US 500000

/* --- operations with nothing to wait for --- */
static void on_later(struct timer *t)
{
    struct rmq_later *x = container_of(t, struct rmq_later, timer);
    sched_clear(loop_sched(x->mq->loop), &x->timer);
    list_remove(&x->link);
    x->op->on_done(x->op, x->rc);
}

void rmq_later_start(struct rocketmq *mq, struct op_space *space, struct op *op, int rc)
{
    struct rmq_later *x = (struct rmq_later *)(void *)space->bytes;
    static_assert(sizeof *x <= sizeof *space, "op_space");
    *x = (struct rmq_later){.timer.on_fire = on_later, .mq = mq, .op = op, .rc = rc};
    list_push_back(&mq->later, &x->link);
    sched_set(loop_sched(mq->loop), &x->timer, rmq_now_us(mq));
}

/* --- the port --- */
static void locate(struct queue *q, struct queue_locate *l)
{
    rmq_later_start(rmq_of(q), &l->space, &l->op, ERR_NOTFOUND);
}

static void cancel(struct queue *q, struct op *op)
{
    struct rocketmq *mq = rmq_of(q);
    if (!rmq_publish_cancel(mq, op))
        rmq_consumer_cancel(mq, op);
}

static void set_items(struct queue *q, const struct item *items, int n)
{
    (void)q; /* one topic carries them all */
    (void)items;
    (void)n;
}

static const struct queue_ops ops = {
    .publish = rmq_queue_publish,
    .receive = rmq_queue_receive,
    .ack = rmq_queue_ack,
    .extend = rmq_queue_extend,
    .retry_later = rmq_queue_retry_later,
    .locate = locate,
    .lag = rmq_queue_lag,
    .release = rmq_queue_release,
    .cancel = cancel,
    .set_items = set_items,
};

/* --- begin and end --- */
static int open_access(struct rocketmq *mq, char *err, size_t err_cap)
{
    int n = 0;
    for (int i = 0; i < mq->n_access; i++) {
        const Rmq__Address *a = mq->access_addresses[i];
        struct rmq_channel *ch = rmq_channel_get(mq, a->host, a->port);
        if (ch)
            mq->access[n++] = ch;
    }
    if (n < mq->n_access) {
        snprintf(err, err_cap, "rocketmq: a proxy cannot be used (its address, or the CA file)");
        return ERR_INVALID;
    }
    return 0;
}

static void free_channels(struct rocketmq *mq)
{
    for (int i = 0; i < mq->n_channels; i++) {
        h2grpc_free(mq->channels[i].h2);
        if (mq->channels[i].isolated)
            metric_gauge_add(mq->m.isolated, -1);
    }
}

struct queue *rocketmq_queue_new(struct loop *l, const struct rocketmq_config *c, char *err,
                                 size_t err_cap)
{
    struct rocketmq *mq = calloc(1, sizeof *mq);
    if (!mq) {
        snprintf(err, err_cap, "rocketmq: no memory");
        return NULL;
    }
    mq->port.ops = &ops;
    mq->loop = l;
    rng_init(&mq->rng);
    list_init(&mq->sessions);
    list_init(&mq->later);
    rmq_arena_init(&mq->arena, ARENA_MAX);
    rmq_metrics_init(&mq->m, c->metric_queue ? c->metric_queue : "rocketmq");
    int rc = rmq_config_init(mq, c, err, err_cap);
    if (!rc)
        rc = open_access(mq, err, err_cap);
    if (!rc)
        rc = rmq_producer_new(mq);
    if (!rc && mq->c.consume)
        rc = rmq_consumer_new(mq, err, err_cap);
    if (!rc)
        return &mq->port;
    mq->ending = true;
    free_channels(mq);
    if (mq->producer)
        rmq_producer_free(mq);
    rmq_config_deinit(mq);
    free(mq);
    return NULL;
}

static void on_producer_closed(struct rocketmq *mq)
{
    struct op *op = mq->closing;
    mq->closing = NULL;
    op->on_done(op, 0);
}

static void on_consumer_closed(struct rocketmq *mq)
{
    int64_t most_us = rmq_now_us(mq) + GOODBYE_US, end_us = mq->closing->deadline_us;
    rmq_producer_close(mq, most_us < end_us ? most_us : end_us, on_producer_closed);
}

void rocketmq_queue_close(struct queue *q, struct op *op)
{
    struct rocketmq *mq = rmq_of(q);
    assert(!mq->closing);
    mq->closing = op;
    if (mq->consumer)
        rmq_consumer_close(mq, op->deadline_us, on_consumer_closed);
    else
        on_consumer_closed(mq);
}

void rocketmq_queue_free(struct queue *q)
{
    struct rocketmq *mq = rmq_of(q);
    mq->ending = true;
    free_channels(mq);
    rmq_producer_drain(mq);
    rmq_consumer_free(mq);
    rmq_producer_free(mq);
    while (!list_empty(&mq->later))
        on_later(&container_of(mq->later.next, struct rmq_later, link)->timer);
    if (mq->closing)
        on_producer_closed(mq);
    rmq_arena_deinit(&mq->arena);
    rmq_config_deinit(mq);
    free(mq);
}

bool rocketmq_queue_ready(const struct queue *q)
{
    const struct rocketmq *mq = rmq_of_const(q);
    return rmq_producer_ready(mq) && (!mq->c.consume || rmq_consumer_ready(mq));
}
