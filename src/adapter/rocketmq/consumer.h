/* The consumer half, as queue.c calls it. Receiving is only there with config.consume; otherwise
 * its operations complete with ERR_INVALID. */
#pragma once

#include "adapter/rocketmq/client.h"

/* Begins the sessions of group and dead group; sets mq->consumer. 0 or an error with a text. */
int rmq_consumer_new(struct rocketmq *mq, char *err, size_t err_cap);
/* The clean end: polls end, what was received and not handed out goes back, the proxies are told;
 * on_closed(mq), deferred, at the end or at the deadline. */
void rmq_consumer_close(struct rocketmq *mq, int64_t deadline_us,
                        void (*on_closed)(struct rocketmq *));
/* The channels are gone, and with them all calls (mq->ending is set): what still waits completes
 * inside this call. Harmless when mq->consumer is NULL. */
void rmq_consumer_free(struct rocketmq *mq);
bool rmq_consumer_ready(const struct rocketmq *mq); /* at least one broker knows our settings */

/* queue_ops */
void rmq_queue_receive(struct queue *q, struct queue_receive *r);
void rmq_queue_ack(struct queue *q, struct queue_batch *b);
void rmq_queue_extend(struct queue *q, struct queue_batch *b);
void rmq_queue_retry_later(struct queue *q, struct queue_batch *b);
void rmq_queue_lag(struct queue *q, struct queue_lag *l);
void rmq_queue_release(struct queue *q, struct queue_message *m);
/* By its op; false: it is none of the consumer's. */
bool rmq_consumer_cancel(struct rocketmq *mq, struct op *op);
