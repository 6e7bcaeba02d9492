#include "daemon/common/event_queue.h"

#include "adapter/redis_stream/redis_stream.h"
#include "base/log.h"
#include "core/event.h"
#include "daemon/common/rocketmq_client.h"
#include "daemon/common/store.h"
#include <stdio.h>

#define PATIENCE_US 5000000 /* of an operator's command */
#define QUIET_US 1000000    /* a start takes a moment */
#define SAY_AGAIN_US 5000000

bool event_queue_is_stores(const struct settings *s)
{
    return s->queue.kind == SETTINGS_QUEUE_REDIS_STREAM;
}

int64_t event_queue_lease_us(const struct settings *s)
{
    return event_queue_is_stores(s) ? s->queue.lease_us : s->rocketmq.lease_us;
}

static struct queue *new_stream(struct loop *l, const struct settings *s,
                                const struct event_queue_config *c, char *err, size_t err_cap)
{
    struct redis_stream_config config = {.redis = store_redis_config(s, "queue"),
                                         .group = EVENT_GROUP,
                                         .consumer = c->consumer,
                                         .lease_us = s->queue.lease_us,
                                         .trim_interval_us = s->queue.trim_interval_us,
                                         .max_in_hand = c->max_in_hand > 0 ? c->max_in_hand : 1,
                                         .publish_only = c->use == EVENT_QUEUE_PUBLISH};
    if (c->use != EVENT_QUEUE_CONSUME) {
        config.redis.stall_us = PATIENCE_US;
        config.redis.slot_us = s->redis.dial_us * 2;
    }
    return redis_stream_new(l, &config, err, err_cap);
}

static struct queue *new_rocketmq(struct loop *l, const struct settings *s,
                                  const struct event_queue_config *c, char *err, size_t err_cap)
{
    char secret[CONF_STRING_MAX];
    struct rocketmq_config config;
    if (rocketmq_client_config(s, &config, secret, sizeof(secret), err, err_cap) < 0)
        return NULL;
    config.consume = c->use != EVENT_QUEUE_PUBLISH; /* the backlog is a group's */
    config.max_in_hand = c->max_in_hand > 0 ? c->max_in_hand : 1;
    struct queue *q = rocketmq_queue_new(l, &config, err, err_cap);
    explicit_bzero(secret, sizeof(secret));
    return q;
}

int event_queue_init(struct event_queue *q, struct loop *l, const struct settings *s,
                     const struct event_queue_config *c, char *err, size_t err_cap)
{
    q->kind = s->queue.kind;
    q->port = event_queue_is_stores(s) ? new_stream(l, s, c, err, err_cap)
                                       : new_rocketmq(l, s, c, err, err_cap);
    return q->port ? 0 : ERR_INVALID;
}

void event_queue_close(struct event_queue *q, struct op *op)
{
    if (q->kind == SETTINGS_QUEUE_ROCKETMQ) {
        rocketmq_queue_close(q->port, op);
        return;
    }
    redis_stream_close(q->port, op);
}

void event_queue_deinit(struct event_queue *q)
{
    if (!q->port)
        return;
    if (q->kind == SETTINGS_QUEUE_ROCKETMQ)
        rocketmq_queue_free(q->port);
    else
        redis_stream_free(q->port);
    q->port = NULL;
}

bool event_queue_ready(const struct event_queue *q)
{
    if (q->port && q->kind == SETTINGS_QUEUE_ROCKETMQ)
        return rocketmq_queue_ready(q->port);
    return true;
}

const char *event_queue_complaint(const struct event_queue *q)
{
    if (q->port && q->kind == SETTINGS_QUEUE_ROCKETMQ)
        return rocketmq_queue_complaint(q->port);
    return NULL;
}

bool event_queue_complaint_lasts(const struct event_queue *q)
{
    return q->port && q->kind == SETTINGS_QUEUE_ROCKETMQ && rocketmq_queue_complaint_lasts(q->port);
}

void event_queue_log_waiting(struct event_queue_wait *w, int64_t now_us, const char *why)
{
    if (!w->next_us)
        w->next_us = now_us + QUIET_US;
    if (now_us < w->next_us && !(why && !w->said))
        return;
    log_warn("waiting for the queue", LOG_Z("why", why ? why : "no answer yet"));
    w->said = why != NULL;
    w->next_us = now_us + SAY_AGAIN_US;
}
