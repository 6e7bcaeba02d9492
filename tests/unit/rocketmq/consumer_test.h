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
struct queue *consumer_queue(void); /* ready; freed by the test */

void receive_start(struct queue *q, struct test_receive *t, int max, int64_t in_us);
/* To its end; what came into hand, from *n on. The rc. */
int receive_end(struct test_receive *t, struct queue_message **hand, int *n);
/* With a poll that brings h<from>… : n of them, asked for by max n. */
void receive_some(struct queue *q, int from, int n, struct queue_message **hand);

typedef void batch_fn(struct queue *q, struct queue_batch *b);
void batch_start(struct queue *q, batch_fn *f, struct test_batch *t, struct queue_message **m,
                 int n);
int batch_run(struct queue *q, batch_fn *f, struct queue_message **m, int n, int *done);
void release_all(struct queue *q, struct queue_message **m, int n);
uint64_t counted(const char *name);
void turns(int64_t us); /* lets time pass */
