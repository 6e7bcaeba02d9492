/* What lua/results.lua promises of the stream itself: bounded, ended, and nothing else touched. */
#include "base/err.h"
#include "results_backend.h"
#include "results_backend_redis.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define KEY(name) "sec:{%lld:%lld}:" name
#define OF(item) (long long)(item).activity_id, (long long)(item).sku_id

static bool over;
static int result;

static void on_done(struct op *op, int rc)
{
    (void)op;
    over = true;
    result = rc;
    backend_wake();
}

static int publish(struct item item, int n)
{
    static struct results_row rows[RESULTS_MAX];
    struct results_publish p = {
        .op = {on_done, backend_now_us() + 5000000}, .item = item, .rows = rows, .n = n};
    for (int i = 0; i < n; i++)
        rows[i] = (struct results_row){.result = {.id = i + 1, .item = item, .user_id = 1}};
    over = false;
    backend_results()->ops->publish(backend_results(), &p);
    assert_true(backend_run(&over, 10000000));
    for (int i = 0; i < n; i++)
        assert_int_equal(rows[i].published, result == 0);
    return result;
}

static void test_bounded(void **state)
{
    struct item item = backend_item();
    (void)state;
    for (int i = 0; i < 200; i++)
        assert_int_equal(publish(item, 2 * BACKEND_PER_ENTRY), 0);
    long long len = private_redis_int(&backend_redis, "XLEN " KEY("results"), OF(item));
    /* MAXLEN ~ leaves a node of the stream more. */
    assert_in_range(len, BACKEND_STREAM_MAX, BACKEND_STREAM_MAX + 200);
}

/* With the item's keys; without any, or if they are over sooner, after a while of its own. */
static void test_it_ends(void **state)
{
    struct item item = backend_item(), without = backend_item();
    (void)state;
    long long now_ms = private_redis_int(&backend_redis, "EVAL %s 0",
                                         "local t = redis.call('TIME') return t[1] * 1000");
    freeReplyObject(private_redis_command(&backend_redis,
                                          "HSET " KEY("meta") " epoch 1 seq 1 expires_ms %lld",
                                          OF(item), now_ms + 10 * BACKEND_KEEP_MS));
    assert_int_equal(publish(item, 1), 0);
    assert_int_equal(publish(without, 1), 0);
    assert_int_equal(private_redis_int(&backend_redis, "PEXPIRETIME " KEY("results"), OF(item)),
                     now_ms + 10 * BACKEND_KEEP_MS);
    long long left = private_redis_int(&backend_redis, "PTTL " KEY("results"), OF(without));
    assert_in_range(left, 1, BACKEND_KEEP_MS);
}

/* A key of another type: nothing is written, and it is this item's trouble alone. */
static void test_a_wrong_key(void **state)
{
    struct item item = backend_item();
    (void)state;
    freeReplyObject(private_redis_command(&backend_redis, "SET " KEY("results") " x", OF(item)));
    assert_int_equal(publish(item, 2), ERR_INTERNAL);
    assert_string_equal(private_redis_text(&backend_redis, "GET " KEY("results"), OF(item)), "x");
    item = backend_item();
    freeReplyObject(private_redis_command(&backend_redis, "SET " KEY("meta") " x", OF(item)));
    assert_int_equal(publish(item, 2), ERR_INTERNAL);
    assert_int_equal(private_redis_int(&backend_redis, "EXISTS " KEY("results"), OF(item)), 0);
}

static int setup(void **state)
{
    (void)state;
    backend_start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_it_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_wrong_key, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
