/* Several messages in one request: what happens to one of them happens to all, and what one of them
 * does happens to none but it. */
#include "rocketmq_test.h"

#include "adapter/rocketmq/producer.h"
#include "base/err.h"
#include <stdio.h>

enum { MANY = 10 };

struct world {
    struct loop *l;
    struct fake_proxy a;
    struct queue *q;
    struct test_publish t[100];
};

static void one_at_a_time(struct rocketmq_config *c)
{
    c->max_sends = 1;
    c->send_batch = 32;
}

static int setup(void **state)
{
    static struct world w;
    w.l = loop_new();
    fake_proxy_start(&w.a, w.l);
    w.q = test_queue_ready(w.l, w.a.target, one_at_a_time);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    if (w->q)
        rocketmq_queue_free(w->q);
    fake_proxy_stop(&w->a);
    loop_free(w->l);
    return 0;
}

/* All in one turn. */
static void publish(struct world *w, int n, int64_t deadline_in_us)
{
    for (int i = 0; i < n; i++)
        test_publish(w->l, w->q, &w->t[i], i, deadline_in_us);
}

static void await(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        UNTIL(w->l, w->t[i].ends);
        assert_int_equal(w->t[i].ends, 1);
    }
}

/* How often the proxy stored it. */
static int stored(const struct world *w, int i)
{
    char id[RMQ_MESSAGE_ID + 1];
    int n = 0;
    rmq_message_id(&w->t[i].e.message_id, id);
    for (int k = 0; k < w->a.n_stored; k++)
        n += strcmp(w->a.stored[k].id, id) == 0;
    return n;
}

static void go_together(void **state)
{
    struct world *w = *state;
    publish(w, 100, 5 * SECONDS);
    await(w, 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(w->t[i].rc, 0);
        assert_int_equal(stored(w, i), 1);
    }
    assert_int_equal(w->a.calls[RMQ_SEND], 4); /* 32, 32, 32, 4 */
    assert_int_equal(w->a.last_together, 4);
    assert_int_equal(w->a.most_sends, 1);
    /* Nothing waits for company. */
    assert_int_equal(test_publish_run(w->l, w->q, 200, SECONDS), 0);
    assert_int_equal(w->a.last_together, 1);
}

/* As many as fit: an event may have 4 KiB, a request has 32. */
static void as_many_as_fit(void **state)
{
    struct world *w = *state;
    static char large[4000];
    memset(large, 'x', sizeof large);
    struct test_op ops[MANY];
    struct rmq_publish p[MANY];
    struct rmq_message m = {.body = {large, sizeof large}, .message_id = "0199"};
    struct rmq_message elsewhere = {.topic = "T", .body = {large, 1}, .message_id = "0199"};
    for (int i = 0; i < MANY; i++) { /* with a topic of its own it goes alone */
        test_op_init(&ops[i], 5 * SECONDS);
        p[i] = (struct rmq_publish){.op = &ops[i].op, .message = i == 0 ? &elsewhere : &m};
        rmq_publish_start(rmq_of(w->q), &p[i]);
    }
    publish(w, MANY, 5 * SECONDS);
    await(w, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ops[i].ends, 1);
        assert_int_equal(ops[i].rc, 0);
        assert_int_equal(w->t[i].rc, 0);
    }
    assert_int_equal(w->a.calls[RMQ_SEND], 3); /* 1; 8 large ones; 1 and all events */
    assert_int_equal(w->a.last_together, 1 + MANY);
}

/* What the first answer is, how many requests it takes, what comes of each, how often each was
 * stored. */
static void outcomes(void **state)
{
    struct world *w = *state;
    static const struct {
        enum fake_fault_kind kind;
        int code, n, rc, sends, stored;
    } expected[] = {
        {FAULT_CODE, 42900, 1, 0, 1 + MANY, 1}, /* throttled: later, alone */
        {FAULT_CODE, 42900, 99, ERR_UNAVAIL, 1 + MANY, 0},
        {FAULT_CODE, 50001, 1, 0, 1 + MANY, 1}, /* unknown: once more, alone */
        {FAULT_CODE, 50001, 99, ERR_UNCERTAIN, 1 + MANY, 0},
        {FAULT_CODE, 40007, 1, 0, 1 + MANY, 1}, /* refused: whose fault it is shows alone */
        {FAULT_CODE, 40007, 99, ERR_INVALID, 1 + MANY, 0},
        {FAULT_GRPC, GRPC_UNIMPLEMENTED, 1, 0, 1 + MANY, 1}, /* a proxy that takes one at a time */
        {FAULT_CODE, 40100, 99, ERR_DENIED, 1, 0},
        {FAULT_RESET, 2, 1, 0, 1 + MANY, 1},
        {FAULT_CUT, 0, 1, 0, 1 + MANY, 2}, /* stored, and nobody said so: the same ids again */
        {FAULT_TWO, 0, 1, ERR_UNCERTAIN, 1, 1},
        {FAULT_ZERO, 0, 1, ERR_UNCERTAIN, 1, 1},
        {FAULT_ENTRY, 50401, 1, ERR_UNCERTAIN, 1, 1},
        {FAULT_ID, 0, 1, 0, 1, 1}, /* it is the proxy's */
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        w->a.n_stored = w->a.calls[RMQ_SEND] = 0;
        fake_fault(&w->a, RMQ_SEND, expected[i].kind, expected[i].code, expected[i].n);
        publish(w, MANY, 5 * SECONDS);
        await(w, MANY);
        for (int k = 0; k < MANY; k++) {
            if (w->t[k].rc != expected[i].rc || stored(w, k) != expected[i].stored)
                fail_msg("case %zu, message %d: %s, stored %d times", i, k, err_name(w->t[k].rc),
                         stored(w, k));
        }
        if (w->a.calls[RMQ_SEND] != expected[i].sends)
            fail_msg("case %zu: %d requests", i, w->a.calls[RMQ_SEND]);
        fake_fault(&w->a, RMQ_SEND, FAULT_NONE, 0, 0);
    }
}

static char bad_id[RMQ_MESSAGE_ID + 1];
static bool refuses_the_bad_one(struct fake_call *c, struct str request)
{
    if (c->method != RMQ_SEND || !memmem(request.ptr, request.len, bad_id, strlen(bad_id)))
        return false;
    fake_say_code(c, 40007, "");
    return true;
}

static void one_bad_one(void **state)
{
    struct world *w = *state;
    struct event e;
    test_event(&e, 3);
    rmq_message_id(&e.message_id, bad_id);
    w->a.on_call = refuses_the_bad_one;
    publish(w, MANY, 5 * SECONDS);
    await(w, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(w->t[i].rc, i == 3 ? ERR_INVALID : 0);
        assert_int_equal(stored(w, i), i == 3 ? 0 : 1);
    }
}

/* Who goes with others ends like all when it is cancelled, and they do not notice. */
static void cancel_one(void **state)
{
    struct world *w = *state;
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 1);
    publish(w, MANY, 300 * MS);
    UNTIL(w->l, w->a.calls[RMQ_SEND] == 1);
    w->q->ops->cancel(w->q, &w->t[4].p.op);
    assert_int_equal(w->t[4].ends, 0);
    UNTIL(w->l, w->t[4].ends);
    assert_int_equal(w->t[4].rc, ERR_UNCERTAIN);
    assert_int_equal(w->t[3].ends, 0);
    for (int i = 0; i < MANY - 1; i++) /* all but one: that one's call ends with it */
        w->q->ops->cancel(w->q, &w->t[i].p.op);
    w->q->ops->cancel(w->q, &w->t[MANY - 1].p.op);
    await(w, MANY);
    assert_int_equal(w->t[MANY - 1].rc, ERR_UNCERTAIN);
    assert_int_equal(test_publish_run(w->l, w->q, 200, SECONDS), 0);
}

/* They have the time of the one with the least; who has more tries again. */
static void the_earliest_deadline(void **state)
{
    struct world *w = *state;
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 1);
    test_publish(w->l, w->q, &w->t[0], 0, 5 * SECONDS);
    test_publish(w->l, w->q, &w->t[1], 1, 100 * MS);
    await(w, 2);
    assert_int_equal(w->t[0].rc, 0);
    assert_int_equal(w->t[1].rc, ERR_UNCERTAIN);
    assert_int_equal(stored(w, 0), 1);
    assert_int_equal(w->a.calls[RMQ_SEND], 2);
}

static void free_under_way(void **state)
{
    struct world *w = *state;
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 1);
    publish(w, 40, 5 * SECONDS);
    UNTIL(w->l, w->a.calls[RMQ_SEND] == 1);
    rocketmq_queue_free(w->q);
    w->q = NULL;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(w->t[i].ends, 1);
        assert_int_equal(w->t[i].rc, i < 32 ? ERR_UNCERTAIN : ERR_CANCELED);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(go_together), TEST(as_many_as_fit),        TEST(outcomes),       TEST(one_bad_one),
        TEST(cancel_one),  TEST(the_earliest_deadline), TEST(free_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
