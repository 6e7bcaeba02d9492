/* The stock port on bad days: answers that do not come, late ones, a wrong clock, cancellation, a
 * restart. */
#include "stock_test.h"

#include "adapter/redis/internal.h"
#include "adapter/redis_stock/internal.h"
#include "base/clock.h"

static uint64_t said(int code)
{
    return metric_value(stock_self(stock)->results[code]);
}

static struct redis_time *clock_of(void)
{
    return &stock_self(stock)->redis->conn->time;
}

/* Rule 15: the estimate is wrong, Redis says "too late", its own TIME corrects it, once more with
 * the same ids. */
static void a_wrong_clock_is_estimated_anew(void **state)
{
    (void)state;
    open_item(5);
    uint64_t late = said(STOCK_TOO_LATE);
    clock_of()->offset_us -= 10 * SECONDS;
    struct stock_reserve r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    assert_int_equal(said(STOCK_TOO_LATE), late + 1);
    assert_int_equal(free_units(), 4);
}

/* Rule 15: whoever's time is over gets no unit, and it is said once. */
static void too_late_is_too_late(void **state)
{
    (void)state;
    open_item(5);
    uint64_t late = said(STOCK_TOO_LATE);
    struct stock_reserve r = reserve_of(1, 1);
    r.give_up_us = clock_mono_us() - 50 * MS;
    assert_int_equal(RUN(reserve, &r), STOCK_TOO_LATE);
    assert_int_equal(said(STOCK_TOO_LATE), late + 1);
    assert_int_equal(free_units(), 5);
    assert_int_equal(r.version.epoch, 1);
}

static void a_clock_that_moved_on_is_followed(void **state)
{
    (void)state;
    open_item(5);
    clock_of()->offset_us +=
        100 * SECONDS; /* Redis's clock was set back: the estimate is far ahead */
    for (int i = 0; i < 10; i++)
        clock_of()->bucket[i] += 100 * SECONDS;
    struct stock_reserve r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    assert_true(clock_of()->offset_us - (clock_wall_us() - clock_mono_us()) < SECONDS);
}

/* A hold whose answer does not come, then the same ids: rule 13. */
static void same_ids_again(int64_t stall_us, bool new_connection)
{
    stock_teardown(NULL);
    char err[100];
    stock = redis_stock_new(
        loop,
        &(struct redis_stock_config){.redis = {.url = server.url, .stall_us = stall_us},
                                     .stream_queue = true},
        err, sizeof err);
    UNTIL(loop, redis_stock_ready(stock));
    open_item(5);
    private_redis_freeze(&server);
    struct stock_reserve r = reserve_of(1, 1);
    op_prepare(&r.op);
    r.op.deadline_us = clock_mono_us() + 100 * MS;
    r.give_up_us = INT64_MAX;
    stock->ops->reserve(stock, &r);
    int rc = op_wait(&r.op);
    if (new_connection)
        UNTIL(loop, !redis_stock_ready(stock));
    private_redis_thaw(&server);
    assert_int_equal(rc, ERR_UNCERTAIN);
    UNTIL(loop, redis_stock_ready(stock) && free_units() == 4); /* the first one was done */
    struct stock_reserve again = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &again), STOCK_REPLAY);
    assert_memory_equal(&again.found.reservation_id, &again.reservation_id,
                        16); /* its own: a confirmed hold */
    assert_int_equal(free_units(), 4);
}

static void the_same_ids_again_on_the_same_connection(void **state)
{
    (void)state;
    same_ids_again(5 * SECONDS, false);
}

static void the_same_ids_again_on_a_new_connection(void **state)
{
    (void)state;
    same_ids_again(60 * MS, true);
}

static void a_delayed_call_takes_no_unit(void **state)
{
    (void)state;
    open_item(5);
    private_redis_freeze(&server);
    struct stock_reserve r = reserve_of(1, 1);
    op_prepare(&r.op);
    r.op.deadline_us = r.give_up_us = clock_mono_us() + 30 * MS;
    stock->ops->reserve(stock, &r);
    assert_int_equal(op_wait(&r.op), ERR_UNCERTAIN);
    private_redis_thaw(&server);
    struct stock_probe p = {0};
    assert_int_equal(RUN(probe, &p), 0); /* behind it in the pipeline */
    assert_int_equal(free_units(), 5);
}

static void a_wrong_type_is_our_fault_and_changes_nothing(void **state)
{
    (void)state;
    open_item(5);
    private_redis_text(&server, "SET sec:{1001:2001}:pending x");
    struct stock_reserve r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), ERR_INTERNAL);
    assert_int_equal(free_units(), 5);
    private_redis_int(&server, "DEL sec:{1001:2001}:pending");
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    /* A record that is not ours is not read as if it were. */
    private_redis_int(
        &server,
        "HSET sec:{1001:2001}:reservation:1:01900000-0000-7000-8000-000000000001 status NEW");
    assert_int_equal(RUN(reserve, &r), ERR_INTERNAL);
}

static void out_of_memory_is_a_refusal(void **state)
{
    (void)state;
    open_item(5);
    private_redis_text(&server, "CONFIG SET maxmemory 1");
    struct stock_reserve r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), ERR_UNAVAIL);
    private_redis_text(&server, "CONFIG SET maxmemory 0");
    assert_int_equal(free_units(), 5);
}

static void cancel_at_each_stage(void **state)
{
    (void)state;
    open_item(5);
    struct stock_reserve r = reserve_of(1, 1);
    op_prepare(&r.op);
    stock->ops->reserve(stock, &r);
    stock->ops->cancel(stock, &r.op);
    assert_int_equal(op_wait(&r.op), ERR_CANCELED);
    stock->ops->cancel(stock, &r.op); /* over: harmless */
    private_redis_freeze(&server);
    stock->ops->reserve(stock, &r);
    UNTIL(loop, ((struct stock_call *)(void *)r.space.bytes)->call.sent_us);
    stock->ops->cancel(stock, &r.op);
    int rc = op_wait(&r.op);
    private_redis_thaw(&server);
    assert_int_equal(rc, ERR_UNCERTAIN);
}

static void freed_with_calls_waiting(void **state)
{
    (void)state;
    open_item(5);
    struct stock_reserve r[3];
    op_ends = 0;
    for (int i = 0; i < 3; i++) {
        r[i] = reserve_of(i + 1, i + 1);
        op_prepare(&r[i].op);
        stock->ops->reserve(stock, &r[i]);
    }
    redis_stock_free(stock);
    stock = NULL;
    assert_int_equal(op_ends, 3);
    assert_int_equal(op_rc, ERR_CANCELED);
}

/* Orders flow on after kill -9 of Redis; what was confirmed is there (AOF always). */
static void what_was_confirmed_survives_a_crash(void **state)
{
    (void)state;
    open_item(100);
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i <= 10; i++) {
            struct stock_reserve r = reserve_of(round * 10 + i, round * 10 + i);
            assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
        }
        private_redis_kill(&server);
        private_redis_again(&server, NULL);
        UNTIL(loop, redis_stock_ready(stock));
        struct stock_reserve r;
        int rc = 0;
        do { /* the first call may still meet the old connection */
            r = reserve_of(round * 10 + 10, round * 10 + 10);
            rc = RUN(reserve, &r);
        } while (rc == ERR_UNAVAIL || rc == ERR_UNCERTAIN);
        assert_int_equal(rc, STOCK_REPLAY);
        assert_int_equal(free_units(), 100 - 10 * (round + 1));
    }
}

#define WITH_STOCK(test) cmocka_unit_test_setup_teardown(test, stock_setup, stock_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STOCK(a_wrong_clock_is_estimated_anew),
        WITH_STOCK(too_late_is_too_late),
        WITH_STOCK(a_clock_that_moved_on_is_followed),
        WITH_STOCK(the_same_ids_again_on_the_same_connection),
        WITH_STOCK(the_same_ids_again_on_a_new_connection),
        WITH_STOCK(a_delayed_call_takes_no_unit),
        WITH_STOCK(a_wrong_type_is_our_fault_and_changes_nothing),
        WITH_STOCK(out_of_memory_is_a_refusal),
        WITH_STOCK(cancel_at_each_stage),
        WITH_STOCK(freed_with_calls_waiting),
        WITH_STOCK(what_was_confirmed_survives_a_crash),
    };
    return cmocka_run_group_tests(tests, stock_group_setup, stock_group_teardown);
}
