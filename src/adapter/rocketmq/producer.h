/* Publishing: at most two attempts within the deadline, the second at another proxy if there is
 * one. At most config.max_sends requests on the wire per proxy; what is published meanwhile waits
 * within its deadline, and goes together, config.send_batch messages in a request at most (send.h).
 * Nothing waits for company: what finds a place goes at the end of its turn.
 *
 *   start ─► waiting ─► on the wire ─► accepted: on_done(0)
 *               ▲            ├─ refused for good: on_done(its error)
 *               └─ pause ◄───┴─ throttled, unavailable, unknown, or refused among others: once
 * more, alone, with the same message id
 *
 * The result is refused only if every attempt was refused; one unknown makes the whole unknown
 * (rule 14): ERR_UNCERTAIN. */
#pragma once

#include "adapter/rocketmq/client.h"

enum {
    RMQ_KEYS_MAX = 4,
    RMQ_PROPERTIES_MAX = 16,
    RMQ_BODY_MAX = 4 << 20,
    RMQ_MESSAGE_ID = 34, /* "01" and the event's message_id in upper-case hex */
    RMQ_KEY_MAX = 96,
};

/* Strings are zero-terminated, borrowed until on_done, NULL or "" where there is none. */
struct rmq_message {
    const char *topic; /* NULL: the configured one */
    struct str body;
    const char *message_id, *tag;
    const char *keys[RMQ_KEYS_MAX];
    int n_keys;
    const char *trace_context;
    struct rmq_property {
        const char *name, *value;
    } properties[RMQ_PROPERTIES_MAX]; /* user properties, those of an earlier life included */
    int n_properties;
};

/* Our user properties. */
#define RMQ_PROPERTY_ORIGIN "sk_origin_topic" /* a dead letter queue does not tell it */
#define RMQ_PROPERTY_TRACE "traceparent"

/* Fits into op_space. Zero it, set the upper part, start. */
struct rmq_publish {
    struct op *op;
    const struct event *event;         /* this, or … */
    const struct rmq_message *message; /* … these bytes again (rule 22) */
    /* internal */
    struct list link;
    struct list place; /* among those who wait, or those of a send */
    struct timer timer;
    struct rmq_send *send; /* on the wire: what it is in */
    struct rocketmq *mq;
    int64_t started_us;
    int state, attempts, rc;
    bool unknown, canceled;           /* unknown: an attempt may have been done */
    const struct rmq_channel *failed; /* where the first one failed */
};

void rmq_publish_start(struct rocketmq *mq, struct rmq_publish *p);
/* By its op; false: it is none of ours. What waits ends as ERR_CANCELED; what is on the wire is
 * awaited no longer: unknown. */
bool rmq_publish_cancel(struct rocketmq *mq, struct op *op);

/* Begins the producer's session. 0 or an error (memory). */
int rmq_producer_new(struct rocketmq *mq);
/* Says goodbye; on_closed(mq) at the end. */
void rmq_producer_close(struct rocketmq *mq, int64_t deadline_us,
                        void (*on_closed)(struct rocketmq *));
/* The channels are gone: what waits completes, inside this call. */
void rmq_producer_drain(struct rocketmq *mq);
void rmq_producer_free(struct rocketmq *mq); /* after it */
bool rmq_producer_ready(const struct rocketmq *mq);

/* queue_ops.publish */
void rmq_queue_publish(struct queue *q, struct queue_publish *p);
void rmq_message_id(const struct uuid *message_id, char out[RMQ_MESSAGE_ID + 1]);
