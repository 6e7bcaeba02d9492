/* What the tests of the RocketMQ adapter share: publishes that note their end, and a quick
 * configuration. */
#pragma once

#include "fake_proxy.h"

#include "adapter/rocketmq/client.h"
#include "adapter/rocketmq/rocketmq.h"
#include "port/queue.h"

struct test_publish {
    struct queue_publish p;
    struct event e;
    int ends, rc;
};
/* An event of its own ids: n says which. */
void test_event(struct event *e, int n);
void test_publish(struct loop *l, struct queue *q, struct test_publish *t, int n,
                  int64_t deadline_in_us);
/* Publishes and turns the loop to its end: the rc. */
int test_publish_run(struct loop *l, struct queue *q, int n, int64_t deadline_in_us);

/* Topic T, short times; aborts the test if it is refused. */
struct queue *test_queue(struct loop *l, const char *endpoints,
                         void (*change)(struct rocketmq_config *c));
/* And turned until it is ready. */
struct queue *test_queue_ready(struct loop *l, const char *endpoints,
                               void (*change)(struct rocketmq_config *c));

struct test_op {
    struct op op;
    int ends, rc;
};
void test_op_init(struct test_op *t, int64_t deadline_in_us);
uint64_t test_metric(const char *name, const char *labels); /* a counter or gauge */
/* Each "seckill_mq_" metric there is now has its row in docs/metrics.md. How many there are. */
int test_metrics_documented(void);
