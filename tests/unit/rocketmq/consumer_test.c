#include "consumer_test.h"

struct loop *consumer_loop;
struct fake_broker consumer_broker;
int consumer_slots;
const char *consumer_endpoints;
int64_t consumer_poll_us;

int consumer_setup(void **state)
{
    (void)state;
    consumer_loop = loop_new();
    consumer_slots = 8;
    consumer_endpoints = NULL;
    consumer_poll_us = 2 * SECONDS;
    fake_broker_start(&consumer_broker, consumer_loop);
    return consumer_loop ? 0 : -1;
}

int consumer_teardown(void **state)
{
    (void)state;
    fake_proxy_stop(&consumer_broker.proxy);
    turns(2000);
    loop_free(consumer_loop);
    return 0;
}

static void configure(struct rocketmq_config *c)
{
    c->group = "G";
    c->dead_group = "D";
    c->consume = true;
    c->max_in_hand = consumer_slots;
    c->lease_us = 15 * SECONDS;
    c->poll_us = consumer_poll_us;
    c->request_us = 1 * SECONDS;
}

struct queue *consumer_queue(void)
{
    return test_queue_ready(consumer_loop,
                            consumer_endpoints ? consumer_endpoints : consumer_broker.proxy.target,
                            configure);
}

static void on_received(struct op *op, int rc)
{
    struct test_receive *t = container_of(op, struct test_receive, r.op);
    t->ends++;
    t->rc = rc;
}

void receive_start(struct queue *q, struct test_receive *t, int max, int64_t in_us)
{
    *t = (struct test_receive){.r = {.op = {on_received, in(in_us)}, .max = max}};
    q->ops->receive(q, &t->r);
    assert_int_equal(t->ends, 0); /* never inside its submit */
}

struct fake_poll *receive_poll(struct queue *q, struct test_receive *t, int max)
{
    int polls = consumer_broker.n_polls;
    receive_start(q, t, max, 5 * SECONDS);
    UNTIL(consumer_loop, consumer_broker.n_polls > polls);
    return fake_poll_at(&consumer_broker, polls);
}

int receive_end(struct test_receive *t, struct queue_message **hand, int *n)
{
    UNTIL(consumer_loop, t->ends);
    assert_int_equal(t->ends, 1);
    assert_true(t->r.n <= t->r.max);
    for (int i = 0; i < t->r.n; i++) {
        assert_true(*n < HAND);
        hand[(*n)++] = container_of(list_pop_front(&t->r.messages), struct queue_message, link);
    }
    return t->rc;
}

void receive_some(struct queue *q, int from, int n, struct queue_message **hand)
{
    struct test_receive t;
    int got = 0;
    fake_poll_messages(receive_poll(q, &t, n), from, n);
    assert_int_equal(receive_end(&t, hand, &got), 0);
    assert_int_equal(got, n);
}

static void on_batch(struct op *op, int rc)
{
    struct test_batch *t = container_of(op, struct test_batch, b.op);
    t->ends++;
    t->rc = rc;
}

void batch_start(struct queue *q, batch_fn *f, struct test_batch *t, struct queue_message **m,
                 int n)
{
    *t =
        (struct test_batch){.b = {.op = {on_batch, in(2 * SECONDS)}, .n = n, .delay_us = 700 * MS}};
    t->b.messages = t->m;
    memcpy(t->m, m, (size_t)n * sizeof *m);
    f(q, &t->b);
    assert_int_equal(t->ends, 0);
}

int batch_run(struct queue *q, batch_fn *f, struct queue_message **m, int n, int *done)
{
    struct test_batch t;
    batch_start(q, f, &t, m, n);
    UNTIL(consumer_loop, t.ends);
    assert_int_equal(t.ends, 1);
    *done = t.b.done;
    return t.rc;
}

void release_all(struct queue *q, struct queue_message **m, int n)
{
    for (int i = 0; i < n; i++)
        q->ops->release(q, m[i]);
}

void consumer_end(struct queue *q, struct queue_message **hand, int n)
{
    release_all(q, hand, n);
    rocketmq_queue_free(q);
}

uint64_t counted(const char *name)
{
    return metric_value(metric_counter(name, "", NULL));
}

void turns(int64_t us)
{
    for (int64_t end = in(us); in(0) < end;)
        until_turn(consumer_loop, end + 1000000);
}
