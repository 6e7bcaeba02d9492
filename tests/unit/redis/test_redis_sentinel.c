/* A scripted Sentinel and two scripted servers: where a connection goes, and where it does not
 * stay. */
#include "redis_test.h"

#include "base/clock.h"
#include <stdio.h>

static struct loop *loop;
static struct redis *r;
static struct fake sentinel, one, two;
static struct fake *named; /* the Sentinel's answer; NULL: it knows no such master */
static const char *role_of_one;
static int asked;

static void on_ask(struct fake *f, struct fake_conn *c, const struct redis_reply *command)
{
    (void)f;
    assert_int_equal(command->n, 3);
    assert_true(str_eq(command->items[0]->s, STR("SENTINEL")));
    assert_true(str_eq(command->items[1]->s, STR("GET-MASTER-ADDR-BY-NAME")));
    assert_true(str_eq(command->items[2]->s, STR("sale")));
    asked++;
    char text[64], port[8];
    int n = snprintf(port, sizeof port, "%d", named ? named->port : 0);
    snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", n, port);
    fake_say(c, named ? text : "*-1\r\n");
}

static void on_command(struct fake *f, struct fake_conn *c, const struct redis_reply *command)
{
    char text[64];
    const char *role = f == &one ? role_of_one : "master";
    if (!str_eq(command->items[0]->s, STR("ROLE"))) {
        fake_say(c, f == &one ? "$3\r\none\r\n" : "$3\r\ntwo\r\n");
        return;
    }
    snprintf(text, sizeof text, "*1\r\n$%zu\r\n%s\r\n", strlen(role), role);
    fake_say(c, text);
}

static void start(int64_t stall_us)
{
    char url[96];
    fake_start_tcp(&sentinel, loop);
    fake_start_tcp(&one, loop);
    fake_start_tcp(&two, loop);
    sentinel.on_command = on_ask;
    one.on_command = two.on_command = on_command;
    named = &one;
    role_of_one = "master";
    asked = 0;
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/sale", sentinel.port);
    r = redis_new(
        loop, &(struct redis_config){.url = url, .metric_link = "sentinel", .stall_us = stall_us});
    assert_non_null(r);
}

static void stop(void)
{
    redis_free(r);
    fake_stop(&sentinel);
    fake_stop(&one);
    fake_stop(&two);
}

static void is_told(const char *who)
{
    struct test_call t;
    CALL(&t, clock_mono_us() + 5 * SECONDS, "GET", "key");
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, 0);
    assert_string_equal(t.text, who);
}

static void the_master_is_asked_for(void **state)
{
    (void)state;
    start(0);
    UNTIL(loop, redis_ready(r));
    is_told("one");
    assert_int_equal(asked, 1);
    fake_close(&one.conns[0]);
    named = &two;
    UNTIL(loop, !redis_ready(r));
    UNTIL(loop, redis_ready(r));
    is_told("two");
    assert_int_equal(asked, 2);
    stop();
}

/* The Sentinel is behind: what it names is a replica already. Nothing is sent there. */
static void a_replica_is_not_taken(void **state)
{
    (void)state;
    start(0);
    role_of_one = "slave";
    UNTIL(loop, asked >= 3);
    assert_false(redis_ready(r));
    named = &two;
    UNTIL(loop, redis_ready(r));
    is_told("two");
    stop();
}

static void an_unknown_master_is_asked_for_again(void **state)
{
    (void)state;
    start(0);
    named = NULL;
    UNTIL(loop, asked >= 2);
    assert_false(redis_ready(r));
    named = &two;
    UNTIL(loop, redis_ready(r));
    stop();
}

/* Whoever only reads never hears READONLY. */
static void a_master_that_becomes_a_replica_is_left(void **state)
{
    (void)state;
    start(60 * MS);
    UNTIL(loop, redis_ready(r));
    role_of_one = "slave";
    named = &two;
    UNTIL(loop, two.accepted > 0 && redis_ready(r));
    is_told("two");
    stop();
}

/* dial_us is for both dials together. */
static void a_silent_sentinel_is_given_up(void **state)
{
    (void)state;
    char url[96];
    fake_start_tcp(&sentinel, loop);
    fake_start_tcp(&one, loop);
    fake_start_tcp(&two, loop);
    sentinel.on_command = NULL; /* "+OK": no address */
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/sale", two.port,
             sentinel.port);
    r = redis_new(
        loop, &(struct redis_config){.url = url, .metric_link = "sentinel", .dial_us = 20 * MS});
    UNTIL(loop, sentinel.accepted >= 2 && two.accepted >= 2); /* by turns */
    assert_false(redis_ready(r));
    stop();
}

static int setup(void **state)
{
    (void)state;
    loop = loop_new();
    return loop ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    until_turn(loop, clock_mono_us() + SECONDS);
    loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_master_is_asked_for),
        cmocka_unit_test(a_replica_is_not_taken),
        cmocka_unit_test(an_unknown_master_is_asked_for_again),
        cmocka_unit_test(a_master_that_becomes_a_replica_is_left),
        cmocka_unit_test(a_silent_sentinel_is_given_up),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
