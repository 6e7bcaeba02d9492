/* The queue port on RocketMQ 5, over gRPC through its proxies (own client: adapter/h2grpc). One
 * topic carries the events of all items; queue_message.item is 0,0 and queue_id is "". At least
 * once. Guarantees and their price: docs/rocketmq.md; wire facts: the design's rocketmq.md.
 *
 * Publishing: one SendMessage per event with an id made of the event's message_id, so that every
 * repeat, recovery's too, carries the same one. Receiving (only with `consume`): one long poll per
 * broker, never for more than the free slots; the dead letter topic of the group is drained, too
 * (queue_message.dead). locate is not known here: ERR_NOTFOUND. */
#pragma once

#include "loop/loop.h"
#include "port/queue.h"
#include "port/results.h"

/* Strings are borrowed for the call. What is 0, NULL or "" takes the default. */
struct rocketmq_config {
    const char *endpoints;    /* proxies: "host:port[,host:port…]" */
    const char *endpoint_map; /* "told=reached[,…]": proxies that tell an address which is not
                                 theirs from here (NAT, LOCAL mode) */
    const char *namesrv;      /* "host:port[,…]", for the backlog (remoting); "": it is unknown */
    const char *topic, *group, *dead_group;
    const char *access_key, *secret_key; /* "": not signed */
    bool tls;
    const char *ca_file;
    bool consume;
    int max_in_hand;          /* messages in memory at most: the caller's slots */
    int max_sends;            /* SendMessage on the wire per proxy at most: 4 */
    int send_batch;           /* messages in one at most: 32 */
    int64_t lease_us;         /* invisible time: 15 s */
    int64_t poll_us;          /* long poll: 5 s */
    int64_t request_us;       /* any other request: 3 s */
    int64_t refresh_us;       /* route: 30 s */
    int64_t heartbeat_us;     /* 10 s */
    const char *metric_queue; /* label of the publishes' metrics: "rocketmq" */
};

/* NULL: the configuration is no good (err). Connects in the background. */
struct queue *rocketmq_queue_new(struct loop *l, const struct rocketmq_config *c, char *err,
                                 size_t err_cap);
/* The clean end, after the last receive: what was received and not handed out goes back at once,
 * polls end, the proxies are told. op.on_done, rc 0 at the end or at its deadline. */
void rocketmq_queue_close(struct queue *q, struct op *op);
/* Calls under way complete first, inside this call. Without _close it is as if the process died. */
void rocketmq_queue_free(struct queue *q);
/* A route to the topic is known, one of its proxies is not lost, and (with consume) at least one
 * broker knows our settings. */
bool rocketmq_queue_ready(const struct queue *q);
/* What is wrong now, for people: credentials refused; topic missing, with the command that creates
 * it; …; NULL: nothing. Valid until the next turn of the loop. */
const char *rocketmq_queue_complaint(const struct queue *q);
/* It stays until somebody puts it right; proxies that cannot be reached may come back by
 * themselves. */
bool rocketmq_queue_complaint_lasts(const struct queue *q);

/* The results port on a topic of its own, c->topic: a client of its own, which only publishes. A
 * message per row, with an id made of result_key, and the keys message_id, a:s:reservation_id,
 * request_id. Rows of one call arrive or not one by one. */
struct results *rocketmq_results_new(struct loop *l, const struct rocketmq_config *c, char *err,
                                     size_t err_cap);
/* The clean end, after the last publish: the proxies are told. As of the queue. */
void rocketmq_results_close(struct results *r, struct op *op);
/* Calls under way complete first, inside this call. Without _close it is as if the process died. */
void rocketmq_results_free(struct results *r);
/* As of the queue. */
bool rocketmq_results_ready(struct results *r);
const char *rocketmq_results_complaint(struct results *r);
