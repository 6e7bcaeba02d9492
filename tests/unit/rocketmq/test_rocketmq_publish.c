/* Publishing against a proxy that misbehaves: each hop's three results, rule 14, bounds. */
#include "rocketmq_test.h"

#include "adapter/rocketmq/producer.h"
#include "base/err.h"
#include <stdio.h>

struct world {
    struct loop *l;
    struct fake_proxy a, b;
};

static int setup(void **state)
{
    static struct world w;
    w.l = loop_new();
    fake_proxy_start(&w.a, w.l);
    fake_proxy_start(&w.b, w.l);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    fake_proxy_stop(&w->a);
    fake_proxy_stop(&w->b);
    loop_free(w->l);
    return 0;
}

static void accepted(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    uint64_t before =
        test_metric("seckill_mq_publish_total", "queue=\"rocketmq\",result=\"accepted\"");
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    assert_int_equal(w->a.n_stored, 1);
    const struct fake_message *m = &w->a.stored[0];
    assert_string_equal(m->id, "010102030405060708090A0B0C0D0E0F10");
    assert_string_equal(m->tag, "ORDER_CREATE_REQUESTED");
    assert_int_equal(m->n_keys, 3);
    assert_string_equal(m->keys[1], "1001:2001:80818283-8485-8687-8889-8a8b8c8d8e8f");
    assert_string_equal(m->origin, "T");
    assert_string_equal(m->trace, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_string_equal(w->a.last_language, "CPP");
    assert_string_equal(w->a.last_authorization, "");
    assert_int_equal(strlen(w->a.last_date), 16);
    assert_true(w->a.last_timeout[0]);
    assert_int_equal(
        test_metric("seckill_mq_publish_total", "queue=\"rocketmq\",result=\"accepted\""),
        before + 1);
    rocketmq_queue_free(q);
}

static void sign(struct rocketmq_config *c)
{
    c->access_key = "ak";
    c->secret_key = "sk";
}

static void is_signed(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, sign);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    char hex[41], expected[256];
    rmq_sign("sk", w->a.last_date, hex);
    snprintf(expected, sizeof expected,
             "MQv2-HMAC-SHA1 Credential=ak, SignedHeaders=x-mq-date-time, Signature=%s", hex);
    assert_string_equal(w->a.last_authorization, expected);
    rocketmq_queue_free(q);
}

/* The same event twice: the same id on the wire, so that recovery's repeat can be told. */
static void same_id_twice(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    assert_int_equal(test_publish_run(w->l, q, 5, SECONDS), 0);
    assert_int_equal(test_publish_run(w->l, q, 5, SECONDS), 0);
    assert_int_equal(w->a.n_stored, 2);
    assert_string_equal(w->a.stored[0].id, w->a.stored[1].id);
    rocketmq_queue_free(q);
}

/* With one proxy: what the first answer is, what the second, what comes of it. */
static void outcomes(void **state)
{
    struct world *w = *state;
    static const struct {
        enum fake_fault_kind kind;
        int code, n, rc, sends, stored;
    } expected[] = {
        /* throttled, then let in; throttled twice: certainly refused */
        {FAULT_CODE, 42900, 1, 0, 2, 1},
        {FAULT_CODE, 42900, 9, ERR_UNAVAIL, 2, 0},
        {FAULT_GRPC, GRPC_RESOURCE_EXHAUSTED, 1, 0, 2, 1},
        {FAULT_GRPC, GRPC_RESOURCE_EXHAUSTED, 9, ERR_UNAVAIL, 2, 0},
        /* refused for good: once is enough */
        {FAULT_CODE, 40007, 9, ERR_INVALID, 1, 0},
        {FAULT_CODE, 41301, 9, ERR_INVALID, 1, 0},
        {FAULT_CODE, 40100, 9, ERR_DENIED, 1, 0},
        {FAULT_CODE, 40014, 9, ERR_UNAVAIL, 1, 0},
        {FAULT_CODE, 40300, 9, ERR_UNAVAIL, 1, 0},
        {FAULT_GRPC, GRPC_UNIMPLEMENTED, 9, ERR_INVALID, 1, 0},
        {FAULT_GRPC, GRPC_UNAUTHENTICATED, 9, ERR_DENIED, 1, 0},
        /* unknown: the same bytes again; accepted is accepted */
        {FAULT_CODE, 50001, 1, 0, 2, 1},
        {FAULT_CODE, 50001, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_CODE, 50400, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_CODE, 50401, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_GRPC, GRPC_INTERNAL, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_GRPC, GRPC_UNAVAILABLE, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_GRPC, GRPC_ABORTED, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_RESET, 2, 1, 0, 2, 1},
        {FAULT_RESET, 2, 9, ERR_UNCERTAIN, 2, 0},
        {FAULT_CUT, 0, 1, 0, 2, 2},
        {FAULT_JUNK, 0, 9, ERR_UNCERTAIN, 2, 0},
        /* it was stored and nobody said so */
        {FAULT_LOST, 0, 9, ERR_UNCERTAIN, 1, 1},
        {FAULT_SILENT, 0, 9, ERR_UNCERTAIN, 1, 0},
        /* receipts that do not fit */
        {FAULT_TWO, 0, 1, ERR_UNCERTAIN, 1, 1},
        {FAULT_ZERO, 0, 1, ERR_UNCERTAIN, 1, 1},
        {FAULT_ENTRY, 50401, 1, ERR_UNCERTAIN, 1, 1},
        {FAULT_ID, 0, 1, ERR_UNCERTAIN, 1, 1},
        /* two answers to one call: neither is believed */
        {FAULT_TWICE, 0, 9, ERR_UNCERTAIN, 2, 2},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
        w->a.n_stored = w->a.calls[RMQ_SEND] = 0;
        fake_fault(&w->a, RMQ_SEND, expected[i].kind, expected[i].code, expected[i].n);
        /* silence is only told by the deadline */
        bool silent = expected[i].kind == FAULT_LOST || expected[i].kind == FAULT_SILENT;
        int rc = test_publish_run(w->l, q, (int)i, silent ? 100 * MS : 5 * SECONDS);
        if (rc != expected[i].rc || w->a.calls[RMQ_SEND] != expected[i].sends ||
            w->a.n_stored != expected[i].stored)
            fail_msg("case %zu: %s, %d sends, %d stored", i, err_name(rc), w->a.calls[RMQ_SEND],
                     w->a.n_stored);
        for (int k = 1; k < w->a.n_stored; k++)
            assert_string_equal(w->a.stored[k].id, w->a.stored[0].id);
        fake_fault(&w->a, RMQ_SEND, FAULT_NONE, 0, 0);
        rocketmq_queue_free(q);
    }
}

static int answers;
static bool first_unknown_then_refused(struct fake_call *c, struct str request)
{
    (void)request;
    if (c->method != RMQ_SEND)
        return false;
    fake_say_code(c, answers++ == 0 ? 50001 : 40007, "");
    return true;
}

/* Rule 14: unknown first, refused second, and the whole is unknown. */
static void unknown_stays_unknown(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    answers = 0;
    w->a.on_call = first_unknown_then_refused;
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), ERR_UNCERTAIN);
    assert_int_equal(answers, 2);
    rocketmq_queue_free(q);
}

/* Two brokers: what fails at one is tried at the other. */
static struct queue *two_brokers(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        struct fake_proxy *p = i ? &w->b : &w->a;
        p->brokers[0].at = &w->a;
        p->brokers[1].name = "b1";
        p->brokers[1].at = &w->b;
        p->n_brokers = 2;
    }
    return test_queue_ready(w->l, w->a.target, NULL);
}

static void both_brokers_take_turns(void **state)
{
    struct world *w = *state;
    struct queue *q = two_brokers(w);
    for (int i = 0; i < 10; i++)
        assert_int_equal(test_publish_run(w->l, q, i, SECONDS), 0);
    assert_int_equal(w->a.n_stored, 5);
    assert_int_equal(w->b.n_stored, 5);
    rocketmq_queue_free(q);
}

static void second_attempt_elsewhere(void **state)
{
    struct world *w = *state;
    static const struct {
        enum fake_fault_kind kind;
        int code, rc;
    } faults[] = {
        {FAULT_CODE, 42900, 0}, {FAULT_CODE, 50001, 0}, {FAULT_CODE, 40014, 0},
        {FAULT_CODE, 40300, 0}, {FAULT_RESET, 2, 0},    {FAULT_CUT, 0, 0},
        {FAULT_SILENT, 0, 0},   {FAULT_LOST, 0, 0},     {FAULT_CODE, 40007, ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct queue *q = two_brokers(w);
        fake_fault(&w->a, RMQ_SEND, faults[i].kind, faults[i].code, 100);
        for (int k = 0; k < 4; k++) { /* half of them begin at each */
            int rc = test_publish_run(w->l, q, k, SECONDS);
            assert_true(rc == 0 || rc == faults[i].rc);
        }
        assert_true(w->b.n_stored >= 2);
        fake_fault(&w->a, RMQ_SEND, FAULT_NONE, 0, 0);
        rocketmq_queue_free(q);
        fake_proxy_stop(&w->a);
        fake_proxy_stop(&w->b);
        fake_proxy_start(&w->a, w->l);
        fake_proxy_start(&w->b, w->l);
    }
}

/* One proxy dies: after the first failure it is avoided, until a heartbeat reaches it again. */
static void isolation(void **state)
{
    struct world *w = *state;
    struct queue *q = two_brokers(w);
    UNTIL(w->l, w->a.n_clients == 1 && w->b.n_clients == 1);
    fake_proxy_stop(&w->b);
    UNTIL(w->l, !fake_find(&w->b, RMQ_TELEMETRY));
    int sends = 0;
    for (; test_metric("seckill_mq_proxies_isolated", NULL) == 0; sends++)
        assert_int_equal(test_publish_run(w->l, q, sends, SECONDS), 0);
    assert_true(sends <= 2);
    for (int i = 0; i < 6; i++)
        assert_int_equal(test_publish_run(w->l, q, i, SECONDS), 0);
    assert_int_equal(w->a.n_stored, sends + 6);
    fake_proxy_again(&w->b);
    UNTIL(w->l, test_metric("seckill_mq_proxies_isolated", NULL) == 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(test_publish_run(w->l, q, i, SECONDS), 0);
    assert_int_equal(w->b.n_stored, 2);
    rocketmq_queue_free(q);
}

static void nobody_there(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    UNTIL(w->l, w->a.settings == 1);
    uint64_t before = test_metric("seckill_mq_telemetry_reopened_total", NULL);
    fake_proxy_stop(&w->a);
    /* What is sent until the loss is noticed is unknown. */
    UNTIL(w->l, test_metric("seckill_mq_telemetry_reopened_total", NULL) > before);
    /* Certainly not done: there was nobody to do it. */
    int rc = test_publish_run(w->l, q, 1, 200 * MS);
    assert_true(rc && !err_is_unknown(rc));
    fake_proxy_again(&w->a);
    UNTIL(w->l, test_publish_run(w->l, q, 1, 200 * MS) == 0);
    rocketmq_queue_free(q);
}

static void few_sends(struct rocketmq_config *c)
{
    c->max_sends = 3;
    c->send_batch = 1;
}

static void many_sends(struct rocketmq_config *c)
{
    c->max_sends = 50;
    c->send_batch = 1;
}

/* At most max_sends on the wire; the rest waits, in order, within its deadline. */
static void bounded(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, few_sends);
    struct test_publish t[10];
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 3);
    for (int i = 0; i < 10; i++)
        test_publish(w->l, q, &t[i], i, i < 3 || i == 9 ? 5 * SECONDS : 150 * MS);
    UNTIL(w->l, w->a.calls[RMQ_SEND] == 3);
    assert_int_equal(test_metric("seckill_mq_publish_waiting", NULL), 7);
    for (int i = 3; i < 9; i++) {
        UNTIL(w->l, t[i].ends);
        assert_int_equal(t[i].rc, ERR_DEADLINE);
    }
    assert_int_equal(w->a.calls[RMQ_SEND], 3);
    q->ops->cancel(q, &t[0].p.op); /* on the wire: unknown; and its place is free */
    assert_int_equal(t[0].ends, 0);
    UNTIL(w->l, t[0].ends && t[9].ends);
    assert_int_equal(t[0].rc, ERR_UNCERTAIN);
    assert_int_equal(t[9].rc, 0);
    assert_int_equal(w->a.most_sends, 3);
    rocketmq_queue_free(q); /* ends the other two */
    for (int i = 0; i < 10; i++)
        assert_int_equal(t[i].ends, 1);
    assert_int_equal(t[1].rc, ERR_UNCERTAIN);
    assert_int_equal(test_metric("seckill_mq_publish_waiting", NULL), 0);
}

static void too_many_wait(void **state)
{
    struct world *w = *state;
    enum { N = 4200 };
    static struct test_publish t[N];
    struct queue *q = test_queue_ready(w->l, w->a.target, few_sends);
    int refused = 0;
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 3);
    for (int i = 0; i < N; i++) {
        test_publish(w->l, q, &t[i], i, 20 * SECONDS);
        if (i == 2)
            UNTIL(w->l, w->a.calls[RMQ_SEND] == 3);
    }
    UNTIL(w->l, t[N - 1].ends);
    for (int i = 0; i < N; i++)
        refused += t[i].ends && t[i].rc == ERR_OVERLOAD;
    assert_int_equal(refused, N - 4096 - 3);
    rocketmq_queue_free(q);
    for (int i = 0; i < N; i++) {
        assert_int_equal(t[i].ends, 1);
        assert_true(t[i].rc == ERR_OVERLOAD || t[i].rc == ERR_CANCELED || i < 3);
    }
}

static void cancel_what_waits(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, few_sends);
    struct test_publish t[5];
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 3);
    for (int i = 0; i < 5; i++)
        test_publish(w->l, q, &t[i], i, 5 * SECONDS);
    UNTIL(w->l, w->a.calls[RMQ_SEND] == 3);
    q->ops->cancel(q, &t[4].p.op);
    assert_int_equal(t[4].ends, 0);
    UNTIL(w->l, t[4].ends);
    assert_int_equal(t[4].rc, ERR_CANCELED);
    q->ops->cancel(q, &t[4].p.op); /* over: harmless */
    struct test_publish late;
    test_publish(w->l, q, &late, 9, -1);
    UNTIL(w->l, late.ends);
    assert_int_equal(late.rc, ERR_DEADLINE);
    rocketmq_queue_free(q);
}

/* GOAWAY while sends are under way: what is above it goes to the new connection by itself. */
static void goaway(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, many_sends);
    struct test_publish t[50];
    for (int i = 0; i < 50; i++)
        test_publish(w->l, q, &t[i], i, 5 * SECONDS);
    UNTIL(w->l, w->a.n_stored > 0);
    fake_goaway(&w->a);
    for (int i = 0; i < 50; i++) {
        UNTIL(w->l, t[i].ends);
        assert_int_equal(t[i].rc, 0);
    }
    assert_int_equal(test_publish_run(w->l, q, 99, 5 * SECONDS), 0);
    assert_true(w->a.n_stored >= 51);
    rocketmq_queue_free(q);
}

/* Rule 22: bytes of an earlier life go out again as they were. */
static void raw_again(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    static char large[4000];
    memset(large, 'x', sizeof large);
    struct rmq_message m = {
        .body = {large, sizeof large},
        .message_id = "0199",
        .tag = "X",
        .keys = {"k1", "k2"},
        .n_keys = 2,
        .properties = {{"sk_origin_topic", "T"}, {"other", "v"}},
        .n_properties = 2,
    };
    struct test_op t;
    struct rmq_publish p = {.op = &t.op, .message = &m};
    test_op_init(&t, SECONDS);
    rmq_publish_start(rmq_of(q), &p);
    UNTIL(w->l, t.ends);
    assert_int_equal(t.rc, 0);
    assert_string_equal(w->a.stored[0].id, "0199");
    assert_string_equal(w->a.stored[0].tag, "X");
    assert_string_equal(w->a.stored[0].keys[1], "k2");
    assert_int_equal(w->a.stored[0].body_n, sizeof large);
    /* Nothing that a broker would refuse for good is sent at all. */
    m.body.len = 0;
    p = (struct rmq_publish){.op = &t.op, .message = &m};
    test_op_init(&t, SECONDS);
    rmq_publish_start(rmq_of(q), &p);
    UNTIL(w->l, t.ends);
    assert_int_equal(t.rc, ERR_INVALID);
    assert_int_equal(w->a.calls[RMQ_SEND], 1);
    rocketmq_queue_free(q);
}

static void free_under_way(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, few_sends);
    struct test_publish t[3];
    fake_fault(&w->a, RMQ_SEND, FAULT_SILENT, 0, 3);
    for (int i = 0; i < 3; i++)
        test_publish(w->l, q, &t[i], i, 5 * SECONDS);
    UNTIL(w->l, w->a.calls[RMQ_SEND] == 3);
    rocketmq_queue_free(q);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t[i].ends, 1);
        assert_int_equal(t[i].rc, ERR_UNCERTAIN);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(accepted),
        TEST(is_signed),
        TEST(same_id_twice),
        TEST(outcomes),
        TEST(unknown_stays_unknown),
        TEST(both_brokers_take_turns),
        TEST(second_attempt_elsewhere),
        TEST(isolation),
        TEST(nobody_there),
        TEST(bounded),
        TEST(too_many_wait),
        TEST(cancel_what_waits),
        TEST(goaway),
        TEST(raw_again),
        TEST(free_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
