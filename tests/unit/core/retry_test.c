#include "core/retry.h"

#include "unit.h"

#define SECOND INT64_C(1000000)

static void test_full_jitter(void **state)
{
    (void)state;
    static const int64_t limits[] = {20000, 40000, 80000, 160000, 200000, 200000};
    struct rng rng;
    rng_init_seed(&rng, 7);
    for (int attempt = 0; attempt < 6; attempt++) {
        int64_t least = INT64_MAX, most = 0, sum = 0;
        for (int i = 0; i < 20000; i++) {
            int64_t d = retry_delay_us(&rng, 20000, 200000, attempt);
            least = d < least ? d : least;
            most = d > most ? d : most;
            sum += d;
        }
        assert_true(least >= 0 && least < limits[attempt] / 100);
        assert_true(most <= limits[attempt] && most > limits[attempt] / 100 * 99);
        assert_true(sum / 20000 > limits[attempt] / 100 * 48);
        assert_true(sum / 20000 < limits[attempt] / 100 * 52);
    }
}

static void test_extremes_do_not_overflow(void **state)
{
    (void)state;
    struct rng rng;
    rng_init_seed(&rng, 7);
    for (int attempt = 0; attempt < 200; attempt++) {
        int64_t d = retry_delay_us(&rng, 20000, 200000, attempt);
        assert_true(d >= 0 && d <= 200000);
        assert_true(retry_delay_us(&rng, INT64_MAX / 2, INT64_MAX, attempt) >= 0);
        assert_int_equal(retry_delay_us(&rng, 0, 0, attempt), 0);
        assert_int_equal(retry_delay_us(&rng, 0, 200000, 1), 0);
    }
}

static int take_all(struct retry_budget *b, int64_t now_us)
{
    int n = 0;
    while (n < 100000 && retry_budget_take(b, now_us))
        n++;
    return n;
}

static void test_rule_32_floor(void **state)
{
    (void)state;
    struct retry_budget b;
    retry_budget_init(&b, 5, 10, 0);
    assert_int_equal(take_all(&b, 0), 10);
    assert_int_equal(take_all(&b, 49 * SECOND), 0);
    assert_int_equal(take_all(&b, 60 * SECOND), 10); /* the minute has passed */
}

static void test_rule_32_five_percent(void **state)
{
    (void)state;
    struct retry_budget b;
    retry_budget_init(&b, 5, 10, 0);
    for (int i = 0; i < 2000; i++)
        retry_budget_call(&b, i * 10 * 1000);
    assert_int_equal(take_all(&b, 20 * SECOND), 100);
    assert_false(retry_budget_take(&b, 20 * SECOND));
    for (int i = 0; i < 20; i++)
        retry_budget_call(&b, 21 * SECOND);
    assert_int_equal(take_all(&b, 21 * SECOND), 1);
}

static void test_rule_32_at_the_floors_edge(void **state)
{
    (void)state;
    struct retry_budget b;
    retry_budget_init(&b, 5, 10, 0);
    for (int i = 0; i < 219; i++)
        retry_budget_call(&b, 0);
    assert_int_equal(take_all(&b, 0), 10);
    retry_budget_call(&b, 0);
    assert_int_equal(take_all(&b, 0), 1); /* 220: 11 */
}

static void test_windows_leave_one_by_one(void **state)
{
    (void)state;
    struct retry_budget b;
    retry_budget_init(&b, 10, 0, 0);
    for (int w = 0; w < 6; w++) {
        for (int i = 0; i < 100; i++)
            retry_budget_call(&b, w * 10 * SECOND);
    }
    assert_int_equal(take_all(&b, 59 * SECOND), 60); /* all counted in the last window */
    assert_int_equal(take_all(&b, 60 * SECOND), 0);  /* 500 calls, 60 retries */
    assert_int_equal(take_all(&b, 1000 * SECOND), 0);
    retry_budget_call(&b, 1000 * SECOND);
    assert_int_equal(take_all(&b, 1000 * SECOND), 0);
}

static void test_a_clock_that_stands_still_or_steps_back_is_harmless(void **state)
{
    (void)state;
    struct retry_budget b;
    retry_budget_init(&b, 5, 10, 100 * SECOND);
    assert_int_equal(take_all(&b, 50 * SECOND), 10);
    assert_int_equal(take_all(&b, 100 * SECOND), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_jitter),
        cmocka_unit_test(test_extremes_do_not_overflow),
        cmocka_unit_test(test_rule_32_floor),
        cmocka_unit_test(test_rule_32_five_percent),
        cmocka_unit_test(test_rule_32_at_the_floors_edge),
        cmocka_unit_test(test_windows_leave_one_by_one),
        cmocka_unit_test(test_a_clock_that_stands_still_or_steps_back_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
