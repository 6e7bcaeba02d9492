/* Rule 15. Times in µs; the server's clock is ours + OFFSET. */
#include "core/redis_time.h"

#include "base/rng.h"
#include "unit.h"

#define OFFSET INT64_C(1782388800000000)
#define SECOND 1000000

static void test_rule_15_unknown_until_the_first_answer(void **state)
{
    (void)state;
    struct redis_time t;
    redis_time_init(&t);
    assert_false(t.known);
    assert_int_equal(redis_time_ms(&t, 5 * SECOND), 0);
    redis_time_sample(&t, OFFSET + 1500, 1000, 2000);
    assert_true(t.known);
    assert_int_equal(t.offset_us, OFFSET - 500);
}

static void test_rule_15_the_maximum_of_t_minus_receive_time(void **state)
{
    (void)state;
    struct redis_time t;
    redis_time_init(&t);
    redis_time_sample(&t, OFFSET + 10000, 9000, 90000); /* a slow way back */
    assert_int_equal(t.offset_us, OFFSET - 80000);
    redis_time_sample(&t, OFFSET + 100050, 100000, 100100);
    assert_int_equal(t.offset_us, OFFSET - 50);
    redis_time_sample(&t, OFFSET + 200000, 199000, 205000); /* worse: ignored */
    assert_int_equal(t.offset_us, OFFSET - 50);
}

static void test_rule_15_only_of_the_last_ten_seconds(void **state)
{
    (void)state;
    struct redis_time t;
    redis_time_init(&t);
    redis_time_sample(&t, OFFSET + 500, 0, 510);
    assert_int_equal(t.offset_us, OFFSET - 10);
    for (int s = 1; s < 10; s++) {
        redis_time_sample(&t, OFFSET + s * SECOND, s * SECOND - 10, s * SECOND + 300);
        assert_int_equal(t.offset_us, OFFSET - 10);
    }
    redis_time_sample(&t, OFFSET + 10 * SECOND, 10 * SECOND - 10, 10 * SECOND + 400);
    assert_int_equal(t.offset_us, OFFSET - 300);
    /* After a long silence only the new one counts. */
    redis_time_sample(&t, OFFSET + 100 * SECOND, 100 * SECOND - 10, 100 * SECOND + 900);
    assert_int_equal(t.offset_us, OFFSET - 900);
}

static void test_rule_15_starts_anew_when_t_minus_send_time_falls_below(void **state)
{
    (void)state;
    struct redis_time t;
    redis_time_init(&t);
    redis_time_sample(&t, OFFSET + 1000, 990, 1010);
    /* The server's clock was set back by 5 s: an upper bound below the estimate proves it. */
    redis_time_sample(&t, OFFSET - 5 * SECOND + 2000, 1990, 2020);
    assert_int_equal(t.offset_us, OFFSET - 5 * SECOND - 20);
    /* Set forward: the maximum takes it at once. */
    redis_time_sample(&t, OFFSET + 60 * SECOND + 3000, 2990, 3030);
    assert_int_equal(t.offset_us, OFFSET + 60 * SECOND - 30);
}

static void test_rounded_down(void **state)
{
    (void)state;
    struct redis_time t;
    redis_time_init(&t);
    redis_time_sample(&t, OFFSET, 0, 0);
    assert_int_equal(redis_time_ms(&t, 1999), OFFSET / 1000 + 1);
    assert_int_equal(redis_time_ms(&t, 2000), OFFSET / 1000 + 2);
}

/* Whatever the delays, the estimate is never later than the truth while the clocks run alike. */
static void test_never_later_than_the_truth(void **state)
{
    (void)state;
    struct rng rng;
    struct redis_time t;
    rng_init_seed(&rng, 15);
    redis_time_init(&t);
    int64_t now = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t sent = now, read = sent + (int64_t)rng_below(&rng, 3000);
        now = read + (int64_t)rng_below(&rng, 3000);
        redis_time_sample(&t, OFFSET + read, sent, now);
        assert_true(t.offset_us <= OFFSET && t.offset_us >= OFFSET - 3000);
        now += (int64_t)rng_below(&rng, 20000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_15_unknown_until_the_first_answer),
        cmocka_unit_test(test_rule_15_the_maximum_of_t_minus_receive_time),
        cmocka_unit_test(test_rule_15_only_of_the_last_ten_seconds),
        cmocka_unit_test(test_rule_15_starts_anew_when_t_minus_send_time_falls_below),
        cmocka_unit_test(test_rounded_down),
        cmocka_unit_test(test_never_later_than_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
