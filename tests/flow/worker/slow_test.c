/* A slow PostgreSQL, and a backlog of garbage: neither may stall what is healthy. */
#include "world.h"

#include <stdio.h>

static void init(struct world *x)
{
    world_init(x, 1000);
    x->cfg.workers = 256;
    x->cfg.queue = 512;
    /* It asks the inbox, too, of what is settled just then: nobody is blamed by that. */
    x->cfg.recover_after_us = 600 * S;
}

/* Runs until so many orders stand; the longest time without one. */
static int64_t longest_stall_us(struct world *x, int orders, int64_t at_most_us)
{
    int64_t begin = x->sched.now_us, last = begin, longest = 0;
    int before = 0, now;
    while ((now = mem_db_active_orders(x->db, ITEM)) < orders) {
        assert_true(x->sched.now_us - begin < at_most_us);
        if (now > before)
            last = x->sched.now_us;
        before = now;
        world_run(x, 5 * MS);
        longest = x->sched.now_us - last > longest ? x->sched.now_us - last : longest;
    }
    return longest;
}

/* Nothing was counted against a message, none went round, none is taken for a suspect. */
static void assert_nobody_blamed(struct world *x)
{
    const char *trace = world_trace(x);
    assert_null(strstr(trace, "count"));
    assert_null(strstr(trace, "later"));
    assert_null(strstr(trace, "quarantine"));
    assert_null(strstr(trace, "inbox"));
    assert_null(strstr(trace, "begin"));
    assert_int_equal(mem_db_dead_letters(x->db), 0);
    world_assert_clean(x);
}

static void test_slow_rows_never_stall(void **state)
{
    static const int64_t rows_us[] = {5 * MS, 20 * MS, 100 * MS, 200 * MS, 300 * MS};
    (void)state;
    for (size_t i = 0; i < sizeof rows_us / sizeof rows_us[0]; i++) {
        struct world x;
        init(&x);
        for (int user = 1; user <= 100; user++)
            world_reserve(&x, ITEM, user);
        mem_db_slow_rows(x.db, rows_us[i]);
        world_start(&x);
        int64_t stall = longest_stall_us(&x, 100, 100 * rows_us[i] * 13 / 10 + 1 * S);
        assert_true(stall <= 1250 * MS);
        world_run(&x, 1 * S);
        assert_nobody_blamed(&x);
        world_stop(&x);
        world_deinit(&x);
    }
}

/* More than is worked off within a lease: it is not received, so nothing is delivered again. */
static void test_a_long_backlog_waits_in_the_queue(void **state)
{
    struct world x;
    (void)state;
    init(&x);
    mem_db_slow_rows(x.db, 100 * MS);
    world_start(&x);
    for (int user = 1; user <= 600; user++)
        world_reserve(&x, ITEM, user);
    int64_t stall = longest_stall_us(&x, 600, 80 * S);
    assert_true(stall <= 1200 * MS);
    world_run(&x, 1 * S);
    assert_nobody_blamed(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_pause_is_over_when_it_is_over(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 1000);
    mem_db_slow_rows(x.db, 200 * MS);
    world_start(&x);
    for (int user = 1; user <= 90; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 3 * S);
    assert_true(mem_db_active_orders(x.db, ITEM) < 20);
    mem_db_slow_rows(x.db, 0);
    world_run(&x, 500 * MS);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 90);
    world_run(&x, 1 * S);
    assert_nobody_blamed(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Also a drain and a cancel find nothing left behind in the lanes. */
static void test_a_drain_while_it_is_slow(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 1000);
    mem_db_slow_rows(x.db, 200 * MS);
    for (int user = 1; user <= 90; user++)
        world_reserve(&x, ITEM, user);
    world_start(&x);
    world_run(&x, 500 * MS); /* the first is not given up yet */
    world_stop(&x);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 90);
    world_start(&x);
    world_run(&x, 1 * S);
    for (int user = 101; user <= 190; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 100 * MS);
    world_die(&x);
    world_deinit(&x);
}

/* Rule 24, and the healthy behind it. */
static void test_healthy_ones_behind_two_thousand_that_are_none(void **state)
{
    struct world x;
    (void)state;
    init(&x);
    for (int i = 0; i < 2000; i++)
        mem_broker_append(x.broker, ITEM, STR("{\"oops\":"), NULL);
    world_reserve(&x, ITEM, 1);
    world_start(&x);
    world_run(&x, 500 * MS);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    world_run(&x, 500 * MS);
    assert_int_equal(mem_db_dead_letters(x.db), 2000);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_slow_burials_are_made_in_smaller_ones(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 1000);
    mem_db_slow_rows(x.db, 50 * MS);
    world_start(&x);
    for (int i = 0; i < 60; i++)
        mem_broker_append(x.broker, ITEM, STR("nonsense"), NULL);
    world_run(&x, 6 * S);
    assert_int_equal(mem_db_dead_letters(x.db), 60);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    assert_null(strstr(world_trace(&x), "later"));
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_rows_never_stall),
        cmocka_unit_test(test_a_long_backlog_waits_in_the_queue),
        cmocka_unit_test(test_a_pause_is_over_when_it_is_over),
        cmocka_unit_test(test_a_drain_while_it_is_slow),
        cmocka_unit_test(test_healthy_ones_behind_two_thousand_that_are_none),
        cmocka_unit_test(test_slow_burials_are_made_in_smaller_ones),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
