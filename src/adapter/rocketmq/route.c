#include "adapter/rocketmq/route.h"

#include "base/log.h"
#include <string.h>

static struct rmq_broker *broker_of(struct rmq_route *r, const char *name)
{
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->brokers[i].name, name) == 0)
            return &r->brokers[i];
    }
    if (r->n == RMQ_BROKERS_MAX)
        return NULL;
    struct rmq_broker *b = &r->brokers[r->n];
    *b = (struct rmq_broker){0};
    if (!name[0] || !str_copy(b->name, sizeof b->name, str_of(name)))
        return NULL;
    r->n++;
    return b;
}

static bool reached_by(const struct rmq_broker *b, const struct rmq_channel *ch)
{
    for (int i = 0; i < b->n_channels; i++) {
        if (b->channels[i] == ch)
            return true;
    }
    return false;
}

static void add_channels(struct rocketmq *mq, struct rmq_broker *b, const Rmq__Endpoints *e)
{
    for (size_t i = 0; i < e->n_addresses && b->n_channels < RMQ_ADDRESSES_MAX; i++) {
        const Rmq__Address *a = e->addresses[i];
        struct rmq_channel *ch = a->host ? rmq_channel_get(mq, a->host, a->port) : NULL;
        if (ch && !reached_by(b, ch))
            b->channels[b->n_channels++] = ch;
    }
}

static bool may(const Rmq__MessageQueue *q, Rmq__Permission what)
{
    return q->permission == what || q->permission == RMQ__PERMISSION__READ_WRITE;
}

static void too_many(struct rocketmq *mq, const char *broker)
{
    static struct log_limit limit;
    uint64_t suppressed;
    if (log_allowed(&limit, rmq_now_us(mq), &suppressed))
        log_error("rocketmq: too many brokers; this one is not used", LOG_Z("broker", broker),
                  LOG_I("at_most", RMQ_BROKERS_MAX), LOG_I("suppressed", (int64_t)suppressed));
}

bool rmq_route_read(struct rocketmq *mq, const Rmq__QueryRouteResponse *r, struct rmq_route *out)
{
    out->n = 0;
    mq->readings++;
    for (size_t i = 0; i < r->n_message_queues; i++) {
        const Rmq__MessageQueue *q = r->message_queues[i];
        if (!q->broker || !q->broker->name || !q->broker->endpoints || q->broker->id != 0)
            continue;
        struct rmq_broker *b = broker_of(out, q->broker->name);
        if (!b) {
            if (out->n == RMQ_BROKERS_MAX)
                too_many(mq, q->broker->name);
            continue;
        }
        if (b->n_channels == 0)
            add_channels(mq, b, q->broker->endpoints);
        if (may(q, RMQ__PERMISSION__READ) && b->readable++ == 0)
            b->queue_id = q->id;
        if (may(q, RMQ__PERMISSION__WRITE))
            b->writable++;
    }
    int kept = 0;
    for (int i = 0; i < out->n; i++) {
        if (out->brokers[i].n_channels > 0)
            out->brokers[kept++] = out->brokers[i];
    }
    out->n = kept;
    return kept > 0;
}

bool rmq_route_same(const struct rmq_route *a, const struct rmq_route *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++) {
        const struct rmq_broker *x = &a->brokers[i], *y = &b->brokers[i];
        if (strcmp(x->name, y->name) != 0 || x->n_channels != y->n_channels ||
            x->readable != y->readable || x->writable != y->writable ||
            x->queue_id != y->queue_id ||
            memcmp(x->channels, y->channels, (size_t)x->n_channels * sizeof(void *)) != 0)
            return false;
    }
    return true;
}

bool rmq_route_has(const struct rmq_route *r, const struct rmq_channel *ch)
{
    for (int i = 0; i < r->n; i++) {
        if (reached_by(&r->brokers[i], ch))
            return true;
    }
    return false;
}
