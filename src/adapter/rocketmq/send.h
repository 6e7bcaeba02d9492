/* One SendMessage of the producer: the bytes of one message or of several, which the broker stores
 * all or none (one append to its log), and answers with one receipt. Several cost it little more
 * than one: what is published while others are on the wire goes together. */
#pragma once

#include "adapter/rocketmq/producer.h"
#include "adapter/rocketmq/receipt.h"

enum { RMQ_SEND_BUF = 32 << 10 };

struct rmq_send {
    struct rmq_call call;
    struct list link;      /* of the free ones */
    struct list publishes; /* those that are in it and still wait for its answer: the producer's */
    int n;                 /* messages in it */
    struct rmq_receipt receipt;
    char message_id[RMQ_NAME_MAX]; /* of the first */
    size_t used;
    void *big; /* instead of bytes, where one message needs more */
    unsigned char bytes[RMQ_SEND_BUF];
};

/* Pooled, since each is some 35 KiB; *free_sends holds those at rest. */
struct rmq_send *rmq_send_get(struct list *free_sends);
void rmq_send_put(struct list *free_sends, struct rmq_send *s);
void rmq_sends_free(struct list *free_sends);

/* Adds the bytes of p's message. RMQ_SEND_FULL: they do not fit beside what is there. ERR_INVALID:
 * they never do (a bug of whoever made them); ERR_OVERLOAD: no memory. */
enum { RMQ_SEND_FULL = 1 };
int rmq_send_add(struct rmq_send *s, const struct rmq_publish *p);

/* on_answer(&s->call, answer) comes later. */
void rmq_send_start(struct rmq_send *s, struct rmq_session *session, struct rmq_channel *ch,
                    int64_t deadline_us, bool fail_fast,
                    void (*on_answer)(struct rmq_call *c, const struct rmq_answer *a));
/* Its result by that answer, as rmq_receipt_judge; what is not 0 is logged. */
int rmq_send_judge(struct rmq_send *s, const struct rmq_answer *a);
