/* The connection against a real Redis: scripts repaired in place, restarts, passwords, refusals,
 * cancellation. */
#include "redis_test.h"

#include "adapter/redis/internal.h"

#include "base/clock.h"
#include "base/metric.h"
#include "support/private_redis.h"
#include <stdio.h>

static struct private_redis server;
static struct loop *loop;

static struct redis *connect_to(const char *url)
{
    const struct redis_config c = {.url = url, .metric_link = "test", .max_pending = 1000};
    struct redis *r = redis_new(loop, &c);
    assert_non_null(r);
    return r;
}

static int64_t in(int64_t us)
{
    return clock_mono_us() + us;
}

static void replies_come_in_order_and_in_type(void **state)
{
    (void)state;
    struct redis *r = connect_to(server.url);
    struct test_call set, get, none, incr, list, wrong;
    CALL(&set, in(60 * SECONDS), "SET", "a", "some text");
    CALL(&get, in(60 * SECONDS), "GET", "a");
    CALL(&none, in(60 * SECONDS), "GET", "none");
    CALL(&incr, in(60 * SECONDS), "INCRBY", "n", "41");
    CALL(&list, in(60 * SECONDS), "MGET", "a", "none");
    CALL(&wrong, in(60 * SECONDS), "INCR", "a");
    struct test_call *all[] = {&set, &get, &none, &incr, &list, &wrong};
    for (int i = 0; i < 6; i++) {
        redis_send(r, &all[i]->call); /* also while it is not up yet */
        assert_int_equal(all[i]->ends, 0);
    }
    UNTIL(loop, wrong.ends);
    for (int i = 0; i < 6; i++)
        assert_int_equal(all[i]->ends, 1);
    assert_int_equal(set.type, REDIS_STATUS);
    assert_string_equal(get.text, "some text");
    assert_int_equal(none.type, REDIS_NIL);
    assert_int_equal(incr.i, 41);
    assert_int_equal(list.type, REDIS_ARRAY);
    assert_int_equal(wrong.rc, ERR_INTERNAL);
    assert_int_equal(wrong.type, REDIS_ERROR);
    assert_true(redis_ready(r));
    assert_true(r->conn->time.known); /* rule 15: a new connection asks TIME first */
    redis_free(r);
}

static struct redis_script script = {.name = "test_add",
                                     .body = "return redis.call('INCRBY', KEYS[1], ARGV[1])"};

static void noscript_is_repaired_in_place(void **state)
{
    (void)state;
    struct redis *r = connect_to(server.url);
    private_redis_text(&server, "DEL added");
    private_redis_text(&server, "SCRIPT FLUSH");
    struct metric *reloads =
        metric_counter("seckill_redis_script_reloads_total", "", "link=\"test\"");
    uint64_t before = metric_value(reloads);
    static struct test_call calls[100];
    for (int i = 0; i < 100; i++) {
        test_script_init(&calls[i], in(60 * SECONDS), &script, 1,
                         (const char *const[]){"added", "1", NULL});
        redis_send(r, &calls[i].call);
    }
    UNTIL(loop, calls[99].ends);
    for (int i = 0; i < 100; i++)
        assert_int_equal(calls[i].rc, 0);
    assert_int_equal(private_redis_int(&server, "GET added"), 100);
    assert_int_equal(metric_value(reloads),
                     before + 1); /* one load for the flush, not one a call */
    redis_free(r);
}

/* --- SCRIPT FLUSH every few milliseconds under load: no error reaches a caller --- */

static int errors, answered;
static bool stop_load;

static struct redis *under_load;

static void again(struct test_call *t)
{
    answered++;
    if (t->rc != 0)
        errors++;
    if (stop_load)
        return;
    t->call.deadline_us = in(60 * SECONDS);
    redis_send(under_load, &t->call);
}

static void flushes_under_load_reach_nobody(void **state)
{
    (void)state;
    struct redis *r = under_load = connect_to(server.url);
    private_redis_text(&server, "DEL loaded");
    static struct test_call calls[64];
    errors = answered = 0;
    stop_load = false;
    for (int i = 0; i < 64; i++) {
        test_script_init(&calls[i], in(60 * SECONDS), &script, 1,
                         (const char *const[]){"loaded", "1", NULL});
        calls[i].then = again;
        redis_send(r, &calls[i].call);
    }
    for (int i = 0; i < 150; i++) {
        int seen = answered;
        UNTIL(loop, answered > seen + 20);
        private_redis_text(&server, "SCRIPT FLUSH");
    }
    stop_load = true;
    int left = 0;
    do {
        left = 0;
        UNTIL(loop, true);
        until_turn(loop, in(60 * SECONDS));
        for (int i = 0; i < 64; i++)
            left += calls[i].call.state != 0;
    } while (left);
    assert_int_equal(errors, 0);
    assert_int_equal(private_redis_int(&server, "GET loaded"), answered); /* each exactly once */
    redis_free(r);
}

static void a_restart_is_survived(void **state)
{
    (void)state;
    struct redis *r = connect_to(server.url);
    struct test_call sent, after, waits;
    CALL(&sent, in(60 * SECONDS), "BLPOP", "nothing", "0"); /* on its way when Redis dies */
    redis_send(r, &sent.call);
    UNTIL(loop, sent.call.sent_us);
    private_redis_kill(&server);
    UNTIL(loop, sent.ends);
    assert_int_equal(sent.rc, ERR_UNCERTAIN);
    assert_false(redis_ready(r));
    /* Nobody is there: a call waits no longer than slot_us, though its own deadline is later. */
    int64_t began = clock_mono_us();
    CALL(&waits, in(60 * SECONDS), "PING");
    redis_send(r, &waits.call);
    UNTIL(loop, waits.ends);
    assert_int_equal(waits.rc, ERR_UNAVAIL);
    assert_true(clock_mono_us() - began < 2 * SECONDS);
    /* Its own deadline first. */
    CALL(&waits, in(5 * MS), "PING");
    redis_send(r, &waits.call);
    UNTIL(loop, waits.ends);
    assert_int_equal(waits.rc, ERR_DEADLINE);
    private_redis_again(&server, NULL);
    UNTIL(loop, redis_ready(r));
    CALL(&after, in(60 * SECONDS), "GET", "loaded");
    redis_send(r, &after.call);
    UNTIL(loop, after.ends);
    assert_int_equal(after.rc, 0);
    redis_free(r);
}

static void passwords_and_databases(void **state)
{
    (void)state;
    struct private_redis locked;
    private_redis_start(&locked, (const char *const[]){"--requirepass", "p@ss:w", NULL});
    char url[200];
    /* No URL for a password on a unix socket: TCP on a free port of the server's. */
    strcpy(locked.password, "p@ss:w");
    int port = 0;
    for (int p = 20000 + (int)(clock_mono_us() % 20000); !port; p++) {
        if (strcmp(private_redis_text(&locked, "CONFIG SET port %d", p), "OK") == 0)
            port = p;
    }
    snprintf(url, sizeof url, "redis://:p%%40ss:w@127.0.0.1:%d/3", port);
    struct redis *r = connect_to(url);
    struct test_call set;
    CALL(&set, in(60 * SECONDS), "SET", "where", "3");
    UNTIL(loop, redis_ready(r));
    redis_send(r, &set.call);
    UNTIL(loop, set.ends);
    assert_int_equal(set.rc, 0);
    private_redis_text(&locked, "SELECT 3");
    assert_string_equal(private_redis_text(&locked, "GET where"), "3");
    redis_free(r);

    for (int i = 0; i < 2; i++) { /* a wrong one, none at all */
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", i == 0 ? ":no@" : "", port);
        r = connect_to(url);
        CALL(&set, in(100 * MS), "SET", "where", "x");
        redis_send(r, &set.call);
        UNTIL(loop, set.ends);
        assert_true(set.rc == ERR_UNAVAIL || set.rc == ERR_DEADLINE);
        redis_free(r);
    }
    assert_string_equal(private_redis_text(&locked, "GET where"), "3");
    private_redis_stop(&locked);
}

/* Each refusal that says "nothing was done" is ERR_UNAVAIL, with the reply. */
static void refusals_are_certain(void **state)
{
    (void)state;
    struct redis *r = connect_to(server.url);
    struct test_call t;
    private_redis_text(&server, "CONFIG SET maxmemory 1");
    test_script_init(&t, in(60 * SECONDS), &script, 1, (const char *const[]){"oom", "1", NULL});
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, ERR_UNAVAIL);
    assert_true(strncmp(t.text, "OOM ", 4) == 0);
    private_redis_text(&server, "CONFIG SET maxmemory 0");
    assert_int_equal(private_redis_int(&server, "EXISTS oom"), 0);

    private_redis_text(&server, "REPLICAOF 127.0.0.1 1");
    test_script_init(&t, in(60 * SECONDS), &script, 1, (const char *const[]){"oom", "1", NULL});
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, ERR_UNAVAIL);
    assert_true(strncmp(t.text, "READONLY ", 9) == 0);
    private_redis_text(&server, "REPLICAOF NO ONE");

    private_redis_text(&server, "CONFIG SET min-replicas-to-write 1");
    test_script_init(&t, in(60 * SECONDS), &script, 1, (const char *const[]){"oom", "1", NULL});
    redis_send(r, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.rc, ERR_UNAVAIL);
    assert_true(strncmp(t.text, "NOREPLICAS ", 11) == 0);
    private_redis_text(&server, "CONFIG SET min-replicas-to-write 0");
    assert_int_equal(private_redis_int(&server, "EXISTS oom"), 0);
    redis_free(r);
}

/* --- subscription --- */

static int messages, ups, downs;
static char last_message[64];

static void on_message(struct redis_subscription *s, struct str payload)
{
    (void)s;
    messages++;
    str_copy(last_message, sizeof last_message, payload);
}

static void on_link(struct redis_subscription *s, bool up)
{
    (void)s;
    *(up ? &ups : &downs) += 1;
}

/* The link stayed up; false if it was lost, which it may only where this process stood still. */
static bool quiet_for(int64_t us)
{
    int before = downs;
    int64_t longest = 0, last = clock_mono_us();
    for (int64_t end = last + us; last < end;) {
        until_turn(loop, end);
        int64_t now = clock_mono_us();
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    assert_true(downs == before || longest > 50 * MS);
    if (downs != before)
        UNTIL(loop, ups == downs + 1);
    return downs == before;
}

static void a_subscription_comes_back(void **state)
{
    (void)state;
    struct redis_subscription s = {.on_message = on_message, .on_link = on_link};
    const struct redis_config c = {.url = server.url, .stall_us = 200 * MS};
    assert_int_equal(redis_subscribe(loop, &c, "news", &s), 0);
    UNTIL(loop, ups == 1);
    private_redis_int(&server, "PUBLISH news hello");
    UNTIL(loop, messages == 1);
    assert_string_equal(last_message, "hello");
    /* Silence is no failure: it asks. Where this machine slept the answer came too late, and that
     * is one. */
    bool quiet = false;
    for (int i = 0; i < 20 && !quiet; i++)
        quiet = quiet_for(700 * MS);
    assert_true(quiet);
    int before = downs;
    private_redis_kill(&server);
    UNTIL(loop, downs == before + 1);
    private_redis_again(&server, NULL);
    UNTIL(loop, ups == before + 2);
    private_redis_int(&server, "PUBLISH news again");
    UNTIL(loop, messages == 2);
    redis_unsubscribe(&s);
    redis_unsubscribe(&s); /* harmless */
}

static void bad_urls_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         "http://x",
                         "redis://",
                         "redis://:6379",
                         "redis://h:0",
                         "redis://h:70000",
                         "redis://h/x",
                         "redis://user@h",
                         "unix://",
                         "unix://relative",
                         "redis://:%zz@h",
                         "redis://h,i",
                         "redis+sentinel://h",
                         "redis+sentinel://h/",
                         "redis+sentinel://h,/m",
                         "redis+sentinel://h/m/x",
                         "redis+cluster://",
                         "redis+cluster://h,,i",
                         "redis+cluster://h/1",
                         "redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(redis_new(loop, &(struct redis_config){.url = bad[i]}));
}

static int setup(void **state)
{
    (void)state;
    loop = loop_new();
    redis_script_init(&script);
    private_redis_start(&server, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    private_redis_stop(&server);
    loop_free(loop); /* nothing is left attached */
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_come_in_order_and_in_type),
        cmocka_unit_test(noscript_is_repaired_in_place),
        cmocka_unit_test(flushes_under_load_reach_nobody),
        cmocka_unit_test(a_restart_is_survived),
        cmocka_unit_test(passwords_and_databases),
        cmocka_unit_test(refusals_are_certain),
        cmocka_unit_test(a_subscription_comes_back),
        cmocka_unit_test(bad_urls_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
