/* The size of a batch against a model of a database: so long for a transaction, so long for each of
 * its rows; a batch that takes longer than the budget is given up and nothing of it is done. */
#include "core/batch_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define S (1000 * MS)
#define MAX 256
#define TARGET (200 * MS)
#define BUDGET (800 * MS)

static struct batch_limit l;
static int64_t longest_us; /* without anything done */

/* A backlog that never ends, for so long: how many rows are done. */
static int run(int64_t fixed_us, int64_t row_us, int64_t for_us)
{
    int64_t at = 0, done_at = 0;
    int done = 0;
    longest_us = 0;
    while (at < for_us) {
        int n = batch_limit_now(&l);
        assert_in_range(n, 1, MAX);
        int64_t took = fixed_us + n * row_us;
        bool timed_out = took > BUDGET;
        at += timed_out ? BUDGET : took;
        batch_limit_took(&l, n, timed_out ? BUDGET : took, timed_out);
        if (timed_out)
            continue;
        longest_us = at - done_at > longest_us ? at - done_at : longest_us;
        done_at = at;
        done += n;
    }
    return done;
}

static int setup(void **state)
{
    (void)state;
    batch_limit_init(&l, MAX, TARGET);
    return 0;
}

static void test_a_fast_database_gets_whole_batches(void **state)
{
    (void)state;
    run(1 * MS, 50, 1 * S);
    assert_int_equal(batch_limit_now(&l), MAX);
}

static void test_slow_rows_come_through_at_their_own_speed(void **state)
{
    static const int64_t rows_us[] = {10 * MS, 20 * MS, 50 * MS, 90 * MS, 200 * MS, 300 * MS};
    (void)state;
    for (size_t i = 0; i < sizeof rows_us / sizeof rows_us[0]; i++) {
        setup(NULL);
        int done = run(2 * MS, rows_us[i], 60 * S);
        assert_true(done > 60 * S / rows_us[i] * 8 / 10);
        assert_true(longest_us <= 1110 * MS);
        /* And never again, once it is known. */
        run(2 * MS, rows_us[i], 60 * S);
        assert_true(longest_us <= 610 * MS);
    }
}

static void test_a_stall_of_the_past_costs_little(void **state)
{
    (void)state;
    batch_limit_took(&l, MAX, BUDGET, true);
    assert_int_equal(batch_limit_now(&l), 1);
    for (int i = 0; i < 8; i++)
        batch_limit_took(&l, batch_limit_now(&l), 3 * MS, false);
    assert_int_equal(batch_limit_now(&l), MAX);
}

/* The commit waits for something far away: small batches would make it worse. */
static void test_slow_commits_want_large_batches(void **state)
{
    static const int64_t commits_us[] = {210 * MS, 250 * MS, 400 * MS, 700 * MS};
    (void)state;
    for (size_t i = 0; i < sizeof commits_us / sizeof commits_us[0]; i++) {
        setup(NULL);
        run(commits_us[i], 50, 20 * S);
        assert_int_equal(batch_limit_now(&l), MAX);
        /* Also after it had shrunk for another reason. */
        batch_limit_took(&l, MAX, BUDGET, true);
        run(commits_us[i], 50, 30 * S);
        assert_int_equal(batch_limit_now(&l), MAX);
    }
}

static void test_a_limit_that_nobody_reached_says_nothing(void **state)
{
    (void)state;
    batch_limit_took(&l, 40, 300 * MS, false);
    assert_int_equal(batch_limit_now(&l), 20);
    for (int i = 0; i < 100; i++)
        batch_limit_took(&l, 5, 1 * MS, false);
    assert_int_equal(batch_limit_now(&l), 20);
    batch_limit_took(&l, 20, 150 * MS, false);
    assert_int_equal(batch_limit_now(&l), 21);
}

static void test_one_by_one_stays_so(void **state)
{
    (void)state;
    batch_limit_init(&l, 1, TARGET);
    run(1 * MS, 1 * MS, 1 * S);
    run(500 * MS, 1 * MS, 30 * S);
    assert_int_equal(batch_limit_now(&l), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_fast_database_gets_whole_batches, setup),
        cmocka_unit_test_setup(test_slow_rows_come_through_at_their_own_speed, setup),
        cmocka_unit_test_setup(test_a_stall_of_the_past_costs_little, setup),
        cmocka_unit_test_setup(test_slow_commits_want_large_batches, setup),
        cmocka_unit_test_setup(test_a_limit_that_nobody_reached_says_nothing, setup),
        cmocka_unit_test_setup(test_one_by_one_stays_so, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
