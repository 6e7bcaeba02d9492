/* A cluster of two scripted servers: who is asked what, in which order, how often. */
#include "redis_test.h"

#include "adapter/redis/cluster.h"
#include "adapter/redis/slot.h"
#include "base/clock.h"
#include <stdio.h>

static struct loop *loop;
static struct redis *r;

static struct server {
    struct fake fake;
    char log[1024]; /* the words of each command but its arguments */
    int maps;       /* how often it was asked for them */
    int commands;   /* others, ASKING not among them */
    const char *(*answer)(struct server *s, const char *name);
} a, b;

static struct server *owner; /* of all slots, as both tell */

static int64_t in(int64_t us)
{
    return clock_mono_us() + us;
}

static void say_map(struct fake_conn *c)
{
    char text[128];
    snprintf(text, sizeof text, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n",
             owner->fake.port);
    fake_say(c, text);
}

static void on_command(struct fake *f, struct fake_conn *c, const struct redis_reply *command)
{
    struct server *s = container_of(f, struct server, fake);
    char name[16];
    str_copy(name, sizeof name, command->items[0]->s);
    if (strcmp(name, "CLUSTER") == 0) {
        s->maps++;
        say_map(c);
        return;
    }
    strcat(strcat(s->log, name), " ");
    if (strcmp(name, "ASKING") == 0) {
        fake_say(c, "+OK\r\n");
        return;
    }
    s->commands++;
    fake_say(c, s->answer ? s->answer(s, name) : "+OK\r\n");
}

static const char *redirect(const char *kind, const struct server *to)
{
    static char text[64];
    snprintf(text, sizeof text, "-%s %d 127.0.0.1:%d\r\n", kind, redis_slot(STR("key")),
             to->fake.port);
    return text;
}

static const char *moved_to_a(struct server *s, const char *name)
{
    (void)s, (void)name;
    return redirect("MOVED", &a);
}
static const char *moved_to_b(struct server *s, const char *name)
{
    (void)s, (void)name;
    return redirect("MOVED", &b);
}
static const char *ask_b(struct server *s, const char *name)
{
    (void)s, (void)name;
    return redirect("ASK", &b);
}

static void start(void)
{
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    fake_start_tcp(&a.fake, loop);
    fake_start_tcp(&b.fake, loop);
    a.fake.on_command = b.fake.on_command = on_command;
    owner = &a;
    char url[64];
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", a.fake.port);
    r = redis_new(loop, &(struct redis_config){.url = url, .metric_link = "cluster"});
    assert_non_null(r);
    UNTIL(loop, redis_ready(r));
    assert_int_equal(redis_servers(r), 1);
    assert_int_equal(a.maps, 1);
}

static void stop(void)
{
    redis_free(r);
    r = NULL;
    fake_stop(&a.fake);
    fake_stop(&b.fake);
}

static void get(struct test_call *t)
{
    CALL(t, in(60 * SECONDS), "GET", "key");
    t->call.key_at = 1;
    redis_send(r, &t->call);
}

static void run(struct test_call *t)
{
    get(t);
    UNTIL(loop, t->ends);
}

static void keys_are_in_the_slots_of_the_specification(void **state)
{
    (void)state;
    assert_int_equal(redis_slot(STR("123456789")), 0x31C3); /* its test vector */
    assert_int_equal(redis_slot(STR("foo")), 12182);
    assert_int_equal(redis_slot(STR("")), 0);
    assert_int_equal(redis_slot(STR("sec:{5001:2001}:meta")), redis_slot(STR("5001:2001")));
    assert_int_equal(redis_slot(STR("x{a}y{b}")), redis_slot(STR("a")));
    assert_int_equal(redis_slot(STR("x{{a}}y")), redis_slot(STR("{a")));
    const char *whole[] = {"x{}y{a}", "x{a", "x}a{"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        assert_int_not_equal(redis_slot(str_of(whole[i])), redis_slot(STR("a")));
}

static void a_moved_slot_is_followed_and_remembered(void **state)
{
    (void)state;
    struct test_call t;
    start();
    a.answer = moved_to_b;
    owner = &b;
    run(&t);
    assert_int_equal(t.rc, 0);
    run(&t);
    assert_int_equal(t.rc, 0);
    assert_int_equal(a.commands, 1); /* only the first one went there */
    assert_int_equal(b.commands, 2);
    UNTIL(loop, a.maps + b.maps == 2); /* and the map was asked for */
    UNTIL(loop, redis_servers(r) == 1);
    stop();
}

static void an_ask_is_followed_and_not_remembered(void **state)
{
    (void)state;
    struct test_call t;
    start();
    a.answer = ask_b;
    for (int i = 1; i <= 2; i++) {
        run(&t);
        assert_int_equal(t.rc, 0);
        assert_int_equal(a.commands, i);
        assert_int_equal(b.commands, i);
    }
    assert_string_equal(b.log, "ASKING GET ASKING GET ");
    assert_int_equal(a.maps + b.maps, 1);
    stop();
}

static const char *knows_it_the_second_time(struct server *s, const char *name)
{
    (void)name;
    return s->commands > 1 ? "+OK\r\n" : "-NOSCRIPT No matching script.\r\n";
}

/* ASKING holds for one command: each time anew, and nothing in between. */
static void a_script_is_repaired_behind_an_ask(void **state)
{
    (void)state;
    struct redis_script s = {.name = "asked", .body = "return 1"};
    redis_script_init(&s);
    struct test_call t;
    start();
    a.answer = ask_b;
    b.answer = knows_it_the_second_time;
    test_script_init(&t, in(60 * SECONDS), &s, 1, (const char *const[]){"key", NULL});
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, 0);
    assert_string_equal(b.log, "ASKING EVALSHA ASKING EVALSHA ");
    assert_int_equal(b.fake.loads, 1);
    stop();
}

static void redirections_are_bounded(void **state)
{
    (void)state;
    struct test_call t;
    start();
    a.answer = moved_to_b;
    b.answer = moved_to_a;
    run(&t);
    assert_int_equal(t.rc, ERR_UNAVAIL); /* each of them said that nothing was done */
    assert_int_equal(a.commands + b.commands, 1 + CLUSTER_HOPS);
    stop();
}

static void the_map_is_not_asked_for_with_every_redirection(void **state)
{
    (void)state;
    static struct test_call t[200];
    start();
    a.answer = moved_to_b; /* for ever, as the map says it is there */
    int64_t begun = clock_mono_us();
    for (int i = 0; i < 200; i++) {
        run(&t[i]);
        assert_int_equal(t[i].rc, 0);
    }
    int64_t gaps = (clock_mono_us() - begun) / (100 * MS);
    assert_true(a.maps + b.maps <= 1 + gaps + 1);
    stop();
}

static const char *down(struct server *s, const char *name)
{
    (void)s, (void)name;
    return "-CLUSTERDOWN The cluster is down\r\n";
}
static const char *try_again(struct server *s, const char *name)
{
    (void)s, (void)name;
    return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
}

static void a_slot_in_motion_is_not_done(void **state)
{
    (void)state;
    struct test_call t;
    start();
    a.answer = try_again;
    run(&t);
    assert_int_equal(t.rc, ERR_UNAVAIL);
    assert_int_equal(a.commands, 1);
    assert_int_equal(a.maps, 1);
    a.answer = down;
    run(&t);
    assert_int_equal(t.rc, ERR_UNAVAIL);
    UNTIL(loop, a.maps == 2);
    stop();
}

/* It goes to any, which says where it is. */
static void a_call_without_a_key_is_followed_too(void **state)
{
    (void)state;
    struct test_call t;
    start();
    a.answer = moved_to_b;
    CALL(&t, in(60 * SECONDS), "GET", "key");
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, 0);
    stop();
}

static void a_master_that_went_is_replaced(void **state)
{
    (void)state;
    struct test_call t;
    start();
    a.answer = moved_to_b;
    owner = &b;
    run(&t);
    UNTIL(loop, b.maps == 1 || a.maps == 2);
    fake_close(&a.fake.conns[0]);
    a.answer = NULL;
    owner = &a;
    b.answer = moved_to_a;
    run(&t);
    assert_int_equal(t.rc, 0);
    stop();
}

static void sends_again(struct test_call *t)
{
    if (t->ends == 1) {
        t->call.deadline_us = in(60 * SECONDS);
        redis_send(r, &t->call);
    }
}

static void freeing_completes_what_is_on_its_way_to_each(void **state)
{
    (void)state;
    struct test_call t[2];
    start();
    a.answer = ask_b;
    run(&t[0]); /* now both are connected */
    a.fake.on_command = b.fake.on_command = NULL;
    for (int i = 0; i < 2; i++) {
        CALL(&t[i], in(60 * SECONDS), "GET", "key");
        t[i].call.key_at = 1;
        t[i].then = sends_again;
        redis_send(r, &t[i].call);
    }
    stop();
    assert_int_equal(t[0].ends, 2);
    assert_int_equal(t[1].ends, 2);
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
    until_turn(loop, in(60 * SECONDS));
    loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_in_the_slots_of_the_specification),
        cmocka_unit_test(a_moved_slot_is_followed_and_remembered),
        cmocka_unit_test(an_ask_is_followed_and_not_remembered),
        cmocka_unit_test(a_script_is_repaired_behind_an_ask),
        cmocka_unit_test(redirections_are_bounded),
        cmocka_unit_test(the_map_is_not_asked_for_with_every_redirection),
        cmocka_unit_test(a_slot_in_motion_is_not_done),
        cmocka_unit_test(a_call_without_a_key_is_followed_too),
        cmocka_unit_test(a_master_that_went_is_replaced),
        cmocka_unit_test(freeing_completes_what_is_on_its_way_to_each),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
