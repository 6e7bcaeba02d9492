/* What the tests of the consumer half share: a queue on the fake broker, and operations that note
 * their end. */
#pragma once

#include "fake_broker.h"

#include "base/err.h"
#include "base/metric.h"

enum { HAND = 64 };

struct test_receive {
    struct queue_receive r;
    int ends, rc;
};
struct test_batch {
    struct queue_batch b;
    struct queue_message *m[HAND];
    int ends, rc;
};

extern struct loop *consumer_loop;
extern struct fake_broker consumer_broker;
extern int consumer_slots;             /* of the next queue */
extern const char *consumer_endpoints; /* NULL: consumer_broker's */
extern int64_t consumer_poll_us;       /* 2 s */

int consumer_setup(void **state);
int consumer_teardown(void **state);
struct queue *consumer_queue(void); /* ready; the test ends it */
/* Releases what is in hand, and frees the queue. */
void consumer_end(struct queue *q, struct queue_message **hand, int n);

void receive_start(struct queue *q, struct test_receive *t, int max, int64_t in_us);
/* And the poll that it causes, to be answered. */
struct fake_poll *receive_poll(struct queue *q, struct test_receive *t, int max);
/* To its end; what came into hand, from *n on. The rc. */
int receive_end(struct test_receive *t, struct queue_message **hand, int *n);
/* With a poll that brings h<from>… : n of them, asked for by max n. */
void receive_some(struct queue *q, int from, int n, struct queue_message **hand);

typedef void batch_fn(struct queue *q, struct queue_batch *b);
void batch_start(struct queue *q, batch_fn *f, struct test_batch *t, struct queue_message **m,
                 int n);
int batch_run(struct queue *q, batch_fn *f, struct queue_message **m, int n, int *done);
/* The same: what it has to say, and of how many messages it has to be true. */
#define BATCH(q, operation, messages, n, rc, done)                                                 \
    do {                                                                                           \
        int batch_done_;                                                                           \
        assert_int_equal(batch_run(q, (q)->ops->operation, messages, n, &batch_done_), rc);        \
        assert_int_equal(batch_done_, done);                                                       \
    } while (0)
void release_all(struct queue *q, struct queue_message **m, int n);
uint64_t counted(const char *name);
void turns(int64_t us); /* lets time pass */
