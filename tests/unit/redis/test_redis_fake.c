/* The connection against a scripted server: what a real Redis does only on bad days. */
#include "redis_test.h"

#include "base/clock.h"
#include "base/metric.h"
#include <stdio.h>

static struct loop *loop;
static struct fake fake;
static struct redis *r;

static int64_t in(int64_t us)
{
    return clock_mono_us() + us;
}

static void start(struct redis_config c)
{
    fake_start(&fake, loop);
    c.url = fake.url;
    c.metric_link = "fake";
    if (!c.slot_us)
        c.slot_us = 20 * SECONDS; /* a connection takes what it takes */
    r = redis_new(loop, &c);
    assert_non_null(r);
    UNTIL(loop, redis_ready(r));
}

static void stop(void)
{
    redis_free(r);
    r = NULL;
    fake_stop(&fake);
}

static struct fake_conn *conn(void)
{
    return &fake.conns[(fake.accepted - 1) % 16];
}

/* Says nothing: the test answers by hand. */
static void silent(struct fake *f, struct fake_conn *c, const struct redis_reply *command)
{
    (void)f, (void)c, (void)command;
}

static void a_late_reply_is_dropped_and_harms_nobody(void **state)
{
    (void)state;
    start((struct redis_config){0});
    fake.on_command = silent;
    struct metric *late = metric_counter("seckill_redis_late_replies_total", "", "link=\"fake\"");
    uint64_t before = metric_value(late);
    struct test_call slow, other;
    CALL(&slow, in(20 * MS), "GET", "slow");
    CALL(&other, in(60 * SECONDS), "GET", "other");
    redis_send(r, &slow.call);
    redis_send(r, &other.call);
    UNTIL(loop, slow.ends);
    assert_int_equal(slow.rc, ERR_UNCERTAIN);
    assert_int_equal(other.ends, 0);
    fake_say(conn(), "$4\r\nlate\r\n$4\r\nhers\r\n");
    UNTIL(loop, other.ends);
    assert_int_equal(other.rc, 0);
    assert_string_equal(other.text, "hers");
    assert_int_equal(slow.ends, 1);
    assert_int_equal(metric_value(late), before + 1);
    assert_int_equal(fake.accepted, 1); /* it did not cost the connection */
    stop();
}

static void everything_of_a_turn_leaves_in_one_write(void **state)
{
    (void)state;
    start((struct redis_config){0});
    static struct test_call calls[50];
    for (int i = 0; i < 50; i++) {
        CALL(&calls[i], in(60 * SECONDS), "GET", "x");
        redis_send(r, &calls[i].call);
    }
    UNTIL(loop, calls[49].ends);
    assert_int_equal(calls[0].call.sent_us, calls[49].call.sent_us);
    stop();
}

static void replies_may_come_in_pieces(void **state)
{
    (void)state;
    start((struct redis_config){0});
    fake.on_command = silent;
    struct test_call a, b;
    CALL(&a, in(60 * SECONDS), "GET", "a");
    CALL(&b, in(60 * SECONDS), "GET", "b");
    redis_send(r, &a.call);
    redis_send(r, &b.call);
    UNTIL(loop, fake.commands == 2);
    const char *bytes = "*2\r\n$3\r\none\r\n*2\r\n:1\r\n$-1\r\n$5\r\nhello\r\n";
    for (const char *p = bytes; *p; p++) {
        fake_say(conn(), (char[]){*p, 0});
        until_turn(loop, in(60 * SECONDS));
    }
    UNTIL(loop, b.ends);
    assert_int_equal(a.type, REDIS_ARRAY);
    assert_string_equal(b.text, "hello");
    stop();
}

static void a_stalled_connection_is_given_up(void **state)
{
    (void)state;
    start((struct redis_config){.stall_us = 60 * MS});
    fake.on_command = silent;
    struct test_call lost, next;
    CALL(&lost, in(60 * SECONDS), "GET", "lost");
    redis_send(r, &lost.call);
    UNTIL(loop, lost.ends);
    assert_int_equal(lost.rc, ERR_UNCERTAIN);
    fake.on_command = NULL;
    UNTIL(loop, redis_ready(r));
    assert_int_equal(fake.accepted, 2);
    CALL(&next, in(60 * SECONDS), "GET", "next");
    redis_send(r, &next.call);
    UNTIL(loop, next.ends);
    assert_int_equal(next.rc, 0);
    stop();
}

static void bytes_that_are_not_resp_cost_the_connection(void **state)
{
    (void)state;
    const char *bad[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "*1\r\n$5\r\nab",
                         ":12x\r\n+OK\r\n+extra\r\n", "*100000000000\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        start((struct redis_config){.stall_us = 60 * MS});
        fake.on_command = silent;
        struct test_call t;
        CALL(&t, in(60 * SECONDS), "GET", "x");
        redis_send(r, &t.call);
        UNTIL(loop, fake.commands == 1);
        fake_say(conn(), bad[i]);
        UNTIL(loop, t.ends);
        UNTIL(loop, fake.accepted >= 2);
        stop();
    }
}

static void what_was_not_written_waits_for_the_next_connection(void **state)
{
    (void)state;
    start((struct redis_config){.slot_us = 5 * SECONDS});
    fake.on_command = silent;
    struct test_call sent, waiting;
    CALL(&sent, in(60 * SECONDS), "GET", "sent");
    redis_send(r, &sent.call);
    UNTIL(loop, fake.commands == 1);
    fake_close(conn());
    fake.on_command = NULL;
    UNTIL(loop, sent.ends);
    assert_int_equal(sent.rc, ERR_UNCERTAIN);
    CALL(&waiting, in(60 * SECONDS), "GET", "waiting");
    redis_send(r, &waiting.call);
    UNTIL(loop, waiting.ends);
    assert_int_equal(waiting.rc, 0);
    stop();
}

/* A command of which the kernel took only a part was certainly not executed. */
static void a_half_written_command_is_not_uncertain(void **state)
{
    (void)state;
    start((struct redis_config){.slot_us = 5 * SECONDS});
    loop_io_want(loop, &conn()->io, 0); /* the server reads nothing more */
    static char big[1 << 20];
    memset(big, 'x', sizeof big - 1);
    struct test_call small, large;
    CALL(&small, in(60 * SECONDS), "GET", "small");
    CALL(&large, in(60 * SECONDS), "SET", "large", big);
    redis_send(r, &small.call);
    redis_send(r, &large.call);
    UNTIL(loop, large.call.sent_us);
    until_turn(loop, in(60 * SECONDS));
    fake_close(conn());
    UNTIL(loop, large.ends);
    assert_int_equal(small.rc, ERR_UNCERTAIN);
    assert_int_equal(large.rc, 0); /* on the second connection */
    assert_int_equal(fake.accepted, 2);
    stop();
}

static void a_call_can_be_cancelled_at_each_stage(void **state)
{
    (void)state;
    start((struct redis_config){0});
    fake.on_command = silent;
    struct test_call waiting, sent, other;
    CALL(&waiting, in(60 * SECONDS), "GET", "a");
    redis_send(r, &waiting.call);
    redis_cancel(r, &waiting.call);
    redis_cancel(r, &waiting.call);
    assert_int_equal(waiting.ends, 0); /* deferred */
    UNTIL(loop, waiting.ends);
    assert_int_equal(waiting.rc, ERR_CANCELED);
    assert_int_equal(fake.commands, 0);
    CALL(&sent, in(60 * SECONDS), "GET", "b");
    CALL(&other, in(60 * SECONDS), "GET", "c");
    redis_send(r, &sent.call);
    redis_send(r, &other.call);
    UNTIL(loop, fake.commands == 2);
    redis_cancel(r, &sent.call);
    UNTIL(loop, sent.ends);
    assert_int_equal(sent.rc, ERR_UNCERTAIN);
    fake_say(conn(), "$1\r\nb\r\n$1\r\nc\r\n");
    UNTIL(loop, other.ends);
    assert_string_equal(other.text, "c");
    assert_int_equal(sent.ends, 1);
    redis_cancel(r, &other.call); /* over: harmless */
    stop();
}

static void bounds_are_refused(void **state)
{
    (void)state;
    start((struct redis_config){.max_pending = 10});
    fake.on_command = silent;
    static struct test_call calls[12];
    for (int i = 0; i < 10; i++) {
        CALL(&calls[i], in(i < 5 ? 20 * MS : 5 * SECONDS), "GET", "x");
        redis_send(r, &calls[i].call);
    }
    CALL(&calls[10], in(60 * SECONDS), "GET", "x");
    redis_send(r, &calls[10].call);
    assert_int_equal(calls[10].ends, 0); /* never inside redis_send */
    UNTIL(loop, calls[10].ends);
    assert_int_equal(calls[10].rc, ERR_OVERLOAD);
    UNTIL(loop, calls[4].ends);
    assert_int_equal(calls[4].rc, ERR_UNCERTAIN);
    /* Tombstones count: their replies are still owed. */
    CALL(&calls[11], in(60 * SECONDS), "GET", "x");
    redis_send(r, &calls[11].call);
    UNTIL(loop, calls[11].ends);
    assert_int_equal(calls[11].rc, ERR_OVERLOAD);
    fake_say(conn(), "+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n+6\r\n");
    UNTIL(loop, calls[5].ends);
    assert_string_equal(calls[5].text, "6");
    CALL(&calls[11], in(60 * SECONDS), "GET", "x");
    redis_send(r, &calls[11].call);
    UNTIL(loop, fake.commands == 11);
    stop();
    assert_int_equal(calls[11].rc, ERR_UNCERTAIN);
}

static void sends_again(struct test_call *t)
{
    if (t->ends == 1) {
        t->call.deadline_us = in(60 * SECONDS);
        redis_send(r, &t->call);
    }
}

static void freeing_completes_what_waits(void **state)
{
    (void)state;
    start((struct redis_config){0});
    fake.on_command = silent;
    struct test_call sent, waiting, stubborn;
    CALL(&sent, in(60 * SECONDS), "GET", "a");
    redis_send(r, &sent.call);
    UNTIL(loop, fake.commands == 1);
    CALL(&waiting, in(60 * SECONDS), "GET", "b");
    CALL(&stubborn, in(60 * SECONDS), "GET", "c");
    stubborn.then = sends_again;
    redis_send(r, &waiting.call);
    redis_send(r, &stubborn.call);
    stop();
    assert_int_equal(sent.rc, ERR_UNCERTAIN);
    assert_int_equal(waiting.rc, ERR_CANCELED);
    assert_int_equal(sent.ends, 1);
    assert_int_equal(waiting.ends, 1);
    assert_int_equal(stubborn.ends, 2);
    assert_int_equal(stubborn.rc, ERR_CANCELED);
}

static void error_replies_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        int rc;
    } table[] = {
        {"-LOADING Redis is loading\r\n", ERR_UNAVAIL},
        {"-MISCONF cannot persist\r\n", ERR_UNAVAIL},
        {"-BUSY a script runs\r\n", ERR_UNAVAIL},
        {"-OOM command not allowed\r\n", ERR_UNAVAIL},
        {"-NOREPLICAS\r\n", ERR_INTERNAL}, /* not a word of Redis's: no space */
        {"-NOREPLICAS not enough\r\n", ERR_UNAVAIL},
        {"-TRYAGAIN migrating\r\n", ERR_UNAVAIL},
        {"-CLUSTERDOWN down\r\n", ERR_UNAVAIL},
        {"-MOVED 1 host:1\r\n", ERR_UNAVAIL},
        {"-MASTERDOWN link\r\n", ERR_UNAVAIL},
        {"-NOAUTH required\r\n", ERR_UNAVAIL},
        {"-WRONGTYPE kind\r\n", ERR_INTERNAL},
        {"-ERR syntax\r\n", ERR_INTERNAL},
        {"+OK\r\n", 0},
    };
    start((struct redis_config){0});
    fake.on_command = silent;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct test_call t;
        CALL(&t, in(60 * SECONDS), "GET", "x");
        redis_send(r, &t.call);
        UNTIL(loop, fake.commands == (int)i + 1);
        fake_say(conn(), table[i].reply);
        UNTIL(loop, t.ends);
        assert_int_equal(t.rc, table[i].rc);
    }
    assert_int_equal(fake.accepted, 1);
    stop();
}

/* What it can still answer it answers; then the master is looked for. */
static void a_replica_is_left(void **state)
{
    (void)state;
    start((struct redis_config){0});
    fake.on_command = silent;
    struct test_call first, second, later;
    CALL(&first, in(60 * SECONDS), "SET", "x", "1");
    CALL(&second, in(60 * SECONDS), "GET", "x");
    CALL(&later, in(60 * SECONDS), "GET", "x");
    redis_send(r, &first.call);
    redis_send(r, &second.call);
    UNTIL(loop, fake.commands == 2);
    fake_say(conn(), "-READONLY You can't write against a read only replica.\r\n");
    UNTIL(loop, first.ends);
    assert_int_equal(first.rc, ERR_UNAVAIL);
    redis_send(r, &later.call);
    fake_say(conn(), "$1\r\n0\r\n");
    UNTIL(loop, second.ends);
    assert_int_equal(second.rc, 0);
    fake.on_command = NULL;
    UNTIL(loop, later.ends);
    assert_int_equal(later.rc, 0);
    assert_int_equal(fake.accepted, 2);
    stop();
}

static int evals, evalshas;

static void never_knows_a_script(struct fake *f, struct fake_conn *c,
                                 const struct redis_reply *command)
{
    (void)f;
    if (str_eq(command->items[0]->s, STR("EVALSHA"))) {
        evalshas++;
        fake_say(c, "-NOSCRIPT No matching script.\r\n");
    } else {
        assert_true(str_eq(command->items[0]->s, STR("EVAL")));
        evals++;
        fake_say(c, "$4\r\ndone\r\n");
    }
}

static void repairs_are_bounded(void **state)
{
    (void)state;
    struct redis_script s = {.name = "never", .body = "return 1"};
    redis_script_init(&s);
    start((struct redis_config){0});
    fake.on_command = never_knows_a_script;
    struct test_call t;
    test_script_init(&t, in(60 * SECONDS), &s, 1, (const char *const[]){"k", NULL});
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, 0);
    assert_string_equal(t.text, "done");
    assert_int_equal(evals, 1);
    assert_true(evalshas <= 5);
    assert_true(fake.loads <= evalshas);
    stop();
}

static void a_slow_greeting_is_given_up(void **state)
{
    (void)state;
    fake_start(&fake, loop);
    char url[160];
    snprintf(url, sizeof url, "%s", fake.url);
    fake.on_command = silent;
    /* Nobody accepts or answers in time. */
    loop_io_want(loop, &fake.io, 0);
    r = redis_new(loop,
                  &(struct redis_config){.url = url, .dial_us = 20 * MS, .metric_link = "fake"});
    struct metric *again = metric_counter("seckill_redis_reconnects_total", "", "link=\"fake\"");
    uint64_t before = metric_value(again);
    UNTIL(loop, metric_value(again) >= before + 2);
    assert_false(redis_ready(r));
    loop_io_want(loop, &fake.io, LOOP_READ);
    UNTIL(loop, redis_ready(r));
    stop();
}

static int setup(void **state)
{
    (void)state;
    loop = loop_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_reply_is_dropped_and_harms_nobody),
        cmocka_unit_test(everything_of_a_turn_leaves_in_one_write),
        cmocka_unit_test(replies_may_come_in_pieces),
        cmocka_unit_test(a_stalled_connection_is_given_up),
        cmocka_unit_test(bytes_that_are_not_resp_cost_the_connection),
        cmocka_unit_test(what_was_not_written_waits_for_the_next_connection),
        cmocka_unit_test(a_half_written_command_is_not_uncertain),
        cmocka_unit_test(a_call_can_be_cancelled_at_each_stage),
        cmocka_unit_test(bounds_are_refused),
        cmocka_unit_test(freeing_completes_what_waits),
        cmocka_unit_test(error_replies_are_told_apart),
        cmocka_unit_test(a_replica_is_left),
        cmocka_unit_test(repairs_are_bounded),
        cmocka_unit_test(a_slow_greeting_is_given_up),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
