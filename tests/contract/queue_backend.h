/* What the queue's contract and conformance suites need from the thing they run on: the fake on a
 * virtual clock, a private Redis or a private RocketMQ on a real loop. One of queue_backend_*.c is
 * linked. */
#pragma once

#include "backend_time.h"
#include "port/queue.h"
#include <stdbool.h>

extern const int64_t backend_lease_us;
extern const bool backend_virtual; /* time is exact */

/* Where port/queue.h leaves room. What a backend does not promise is not asserted on it; whatever
 * it promises holds without exception. */
struct backend_traits {
    bool ordered;     /* first deliveries come in the order in which they were published */
    bool per_item;    /* messages tell their item, set_items says what is received, lag is of one
                         item; else one queue carries all of them (lag.of_all_items) */
    bool locates;     /* publish tells a queue_id, queue_message.id is the same, locate knows it */
    bool sees_others; /* lag knows what other consumers hold, the delayed and the orphaned too; else
                         what waits and what this consumer holds */
    bool tells_stale; /* ack, extend and retry_later say of what is not ours any more that they took
                         no effect; else that is certain only after the lease, of extend */
    int dead_after;   /* deliveries, then it comes back as dead (rule 22); 0: never. retry_later of
                         the eighth delivery and of dead ones publishes again */
    bool loses_with_the_dead;    /* what is on its way to a consumer that dies may be lost for ever;
                                    the flows' recovery publishes it again, and so does the
                                    conformance suite */
    int64_t redelivery_slack_us; /* redelivered that much later than on streams, at most */
    int64_t latency_us;          /* from append to an idle receive, the median at most */
};
extern const struct backend_traits backend_traits;

void backend_start(void);
void backend_stop(void);
/* An item nobody used yet, whose stream is there. Without per_item: since backend_start the queue
 * is empty, nobody else uses it. */
struct item backend_item(void);
struct queue *backend_consumer(const char *name, int max_in_hand);
/* Its process dies: no goodbye. Messages in hand go with it. */
void backend_kill(struct queue *q);
/* As the reserve script does it: past every port, done when it returns. Any body. queue_id: 32
 * bytes or NULL. */
void backend_append(struct item item, struct str body, char *queue_id);
