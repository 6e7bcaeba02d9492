/* The queue port in memory, on a virtual clock: leases, redelivery, delivery counts, delayed retry,
 * one stream per item; for flow tests. Not for production. Or, with `shared` and `dead_after`, what
 * RocketMQ does of it.
 *
 * A broker is the server; each port on it is one consumer. Operations arrive half the latency after
 * they were submitted and answer the other half later, never inside the submitting call; deadlines,
 * cancel and faults as in mem_stock.h. As with Redis Streams, an ack takes effect whoever sends it,
 * extend and retry_later only for the owner. One thread. */
#pragma once

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_fault.h"
#include "port/queue.h"

enum mem_queue_op {
    MEM_QUEUE_PUBLISH,
    MEM_QUEUE_RECEIVE, /* its faults strike when there is something to deliver (or at once:
                          NOT_DONE, ANSWER) */
    MEM_QUEUE_ACK,
    MEM_QUEUE_EXTEND,
    MEM_QUEUE_RETRY_LATER,
    MEM_QUEUE_LOCATE,
    MEM_QUEUE_LAG,
    MEM_QUEUE_OPS
};

struct mem_broker;

struct mem_broker_config {
    struct sched *sched;
    int64_t latency_us; /* 0: 1 ms */
    int64_t lease_us;   /* 0: 10 s */
    bool shared; /* one queue for all items, which it does not tell apart: set_items means nothing,
                    locate is ERR_NOTFOUND, lag is of all items: what waits, and what the asking
                    consumer holds. Functions that take an item take any */
    int dead_after; /* deliveries, from then on it comes as dead (rule 22); 0: never */
};
struct mem_broker *mem_broker_new(const struct mem_broker_config *c);
void mem_broker_free(struct mem_broker *b); /* after its consumers */

struct queue *mem_queue_new(struct mem_broker *b, const char *consumer, int max_in_hand);
/* Also a consumer's death: messages in hand go with the port and are delivered again after their
 * lease. What is under way completes first, inside this call. */
void mem_queue_free(struct queue *q);
struct mem_faults *mem_queue_faults(struct queue *q);

/* Appends a message at once, as the reserve script does. queue_id (32 bytes) may be NULL. */
void mem_broker_append(struct mem_broker *b, struct item item, struct str body, char *queue_id);
/* All leases end now. */
void mem_broker_expire_all(struct mem_broker *b);
/* What of the item is not acked was delivered so often in vain. */
void mem_broker_set_deliveries(struct mem_broker *b, struct item item, int deliveries);
/* Not acked messages of an item: waiting and in hand. */
int mem_broker_unacked(const struct mem_broker *b, struct item item);
int mem_broker_acked(const struct mem_broker *b, struct item item);
/* Forgets the item's messages, as a broker that lost what it confirmed. */
void mem_broker_wipe(struct mem_broker *b, struct item item);
/* The body of the n-th message ever appended to the item (from 0); {NULL, 0}: there is none. */
struct str mem_broker_body(const struct mem_broker *b, struct item item, int n);
