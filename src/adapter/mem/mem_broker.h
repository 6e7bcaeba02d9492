/* The fake server of queues: streams of messages with leases. Internal to adapter/mem. */
#pragma once

#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_queue.h"

enum mem_msg_state { MEM_MSG_WAITING, MEM_MSG_IN_HAND, MEM_MSG_ACKED, MEM_MSG_WIPED };

struct mem_msg {
    struct mem_stream *stream;
    char id[32];
    int64_t enqueued_ms;
    char *body; /* heap, lives as long as the broker */
    size_t len;
    enum mem_msg_state state;
    int deliveries, owner; /* owner: a consumer's number */
    int64_t lease_until_us;
};

struct mem_stream {
    struct list link;
    struct item item;
    struct mem_msg **all;
    int n, cap;
    int over_to;      /* everything before it is acked or wiped */
    int waiting_from; /* everything before it was delivered once */
    /* Ended leases are looked for from scan_from on; no lease ends before next_expiry_us, nor, of
     * those before scan_from and of new ones, before scan_min_us. */
    int scan_from;
    int64_t next_expiry_us, scan_min_us;
    int64_t last_ms;
    int last_seq;
};

struct mem_broker {
    struct sched *sched;
    int64_t latency_us, lease_us;
    bool shared;
    int dead_after;
    struct list streams, waiters; /* waiters: receives that have arrived */
    struct timer pump;
    int consumers, next_consumer;
};

/* A message in hand of one consumer. */
struct mem_hand {
    struct queue_message m;
    struct list all;
    struct mem_msg *msg;
};

struct mem_queue {
    struct queue port;
    struct mem_broker *broker;
    char consumer[64];
    int number, max_in_hand, in_hand;
    struct mem_link link;
    struct list hands, receives;
    struct item *items;
    int n_items, next_item;
};

struct mem_stream *mem_broker_stream(struct mem_broker *b,
                                     struct item item); /* made on first use */
struct mem_msg *mem_broker_find(struct mem_broker *b, struct item item, const char *id);
/* Its lease ends then. */
void mem_broker_lease(struct mem_msg *m, int64_t until_us);
/* Something became deliverable: look again, in this turn. */
void mem_broker_wake(struct mem_broker *b);
/* The next deliverable message of the stream for anybody, expired leases and new ones by turns;
 * NULL: none. */
struct mem_msg *mem_broker_take(struct mem_broker *b, struct mem_stream *s, bool expired_first);

/* mem_receive.c */
void mem_receive_start(struct mem_queue *q, struct queue_receive *r);
bool mem_receive_cancel(struct mem_queue *q, struct op *op);
void mem_receive_end_all(struct mem_queue *q);
void mem_receive_pump(struct mem_broker *b);
