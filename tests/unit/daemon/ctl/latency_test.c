#include "daemon/ctl/latency.h"

#include "unit.h"
#include <string.h>

static struct latency l;

static void is_exact_where_it_is_short(void **state)
{
    (void)state;
    memset(&l, 0, sizeof(l));
    assert_int_equal(latency_quantile_us(&l, 0.5), -1);
    for (int i = 1; i <= 100; i++)
        latency_add(&l, i);
    assert_int_equal(latency_quantile_us(&l, 0.5), 50);
    assert_int_equal(latency_quantile_us(&l, 0.9), 90);
    assert_int_equal(latency_quantile_us(&l, 0.99), 99);
    assert_int_equal(latency_quantile_us(&l, 0.999), 100);
    assert_int_equal(l.max_us, 100);
}

static void is_within_one_percent(void **state)
{
    (void)state;
    for (int64_t us = 1; us < INT64_C(8000000000); us += 1 + us / 3) {
        memset(&l, 0, sizeof(l));
        latency_add(&l, us);
        latency_add(&l, INT64_C(8500000000));
        int64_t q = latency_quantile_us(&l, 0.5);
        if (q < us || q > us + us / 100)
            fail_msg("%lld is told as %lld", (long long)us, (long long)q);
    }
}

static void takes_everything(void **state)
{
    (void)state;
    memset(&l, 0, sizeof(l));
    latency_add(&l, -5);
    latency_add(&l, INT64_MAX);
    assert_int_equal(l.n, 2);
    assert_int_equal(latency_quantile_us(&l, 0.5), 0);
    assert_true(l.max_us == INT64_MAX);
    assert_true(latency_quantile_us(&l, 1) >= (INT64_C(1) << 33) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_exact_where_it_is_short),
        cmocka_unit_test(is_within_one_percent),
        cmocka_unit_test(takes_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
