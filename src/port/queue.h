/* The queue of order events. Redis Streams (adapter/redis_stream), RocketMQ (adapter/rocketmq), a
 * fake in flow tests; one contract suite runs on each (tests/contract). At least once: ack and
 * extend are hints, nothing depends on them for correctness. Asynchronous (base/op.h), of the loop
 * that owns the port. Slots are the caller's: receive never returns more than it was asked for. */
#pragma once

#include "base/list.h"
#include "base/op.h"
#include "base/str.h"
#include "core/event.h"
#include "core/item.h"

#define QUEUE_ID_MAX 128
/* Rule 22: from this delivery on retry_later publishes again, where the transport's own count leads
 * to its dead letter queue. */
#define QUEUE_REPUBLISH_FROM 8

/* A message in hand. Made by the adapter, borrowed by the caller until queue_ops.release: its slot.
 */
struct queue_message {
    struct list link;      /* the caller's, while it holds the message */
    struct item item;      /* of the stream it came from; 0,0 where the transport does not say */
    char id[QUEUE_ID_MAX]; /* broker's id, zero-terminated: logs, dead letters of undecodable
                              messages */
    struct str body;
    int deliveries;         /* the broker's count, 1 = first */
    int64_t enqueued_ms;    /* broker's clock; 0 = unknown */
    int64_t lease_until_us; /* monotonic: another consumer may get it from then on. Margin is the
                               caller's. */
    bool dead; /* the broker gave it up and moved it to its dead letter queue: it is decided on, not
                  placed (rule 22). retry_later publishes it again, then acks it there */
};

/* rc: 0 accepted (queue_id set), ERR_UNAVAIL/ERR_INVALID/… = refused, ERR_UNCERTAIN = unknown. */
struct queue_publish {
    struct op op;
    const struct event *event; /* borrowed until on_done */
    char queue_id[32];         /* out: stream id, or "" */
    struct op_space space;
};

/* Waits until there is something or op.deadline_us; rc 0 with n >= 0. Cancel returns what it has,
 * so that nothing received is dropped. */
struct queue_receive {
    struct op op;
    int max;              /* free slots: n <= max */
    struct list messages; /* out: of queue_message.link */
    int n;
    struct op_space space;
};

/* ack, extend, retry_later: many messages of one item at once. A transport whose own count of
 * deliveries leads to its dead letter queue publishes again and acks instead of retrying later,
 * before that count is reached (rule 22). rc 0: `done` of them took effect
 * (others were no longer ours). A message stays in hand until released. */
struct queue_batch {
    struct op op;
    struct item item;
    struct queue_message **messages; /* borrowed until on_done */
    int n;                           /* 1…256 */
    int64_t delay_us; /* retry_later: redelivered after about this, never later than the lease */
    int done;         /* out. extend also renews lease_until_us of those that took effect */
    struct op_space space;
};

/* How far a queue is with a message that was published (rule 28). rc: one of these, or an error =
 * unknown. */
enum queue_position { QUEUE_WAITING, QUEUE_IN_HAND, QUEUE_PASSED };
struct queue_locate {
    struct op op;
    struct item item;
    char queue_id[32];
    struct op_space space;
};

/* Backlog of one item, or of the whole queue where the transport cannot tell items apart. rc 0, or
 * an error: then unknown, and never taken for zero (rules 26, 31). */
struct queue_lag {
    struct op op;
    struct item item;
    int64_t waiting,
        in_hand;           /* out: not yet delivered; delivered and not acked, for any consumer */
    int64_t oldest_age_ms; /* out: by enqueue time, of what waits or is pending with a first
                              delivery; 0 if nothing */
    bool of_all_items;     /* out: the figures are those of all items together */
    struct op_space space;
};

struct queue;
struct queue_ops {
    void (*publish)(struct queue *, struct queue_publish *);
    void (*receive)(struct queue *, struct queue_receive *);
    void (*ack)(struct queue *, struct queue_batch *);
    void (*extend)(struct queue *, struct queue_batch *);
    void (*retry_later)(struct queue *, struct queue_batch *);
    void (*locate)(struct queue *, struct queue_locate *);
    void (*lag)(struct queue *, struct queue_lag *);
    void (*release)(struct queue *,
                    struct queue_message *); /* the caller is done with it: frees its memory */
    void (*cancel)(struct queue *, struct op *);
    /* The items to receive from changed (streams: one per item). */
    void (*set_items)(struct queue *, const struct item *items, int n);
};
struct queue {
    const struct queue_ops *ops;
};
