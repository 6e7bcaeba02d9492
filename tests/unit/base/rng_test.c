#include "base/rng.h"
#include "unit.h"
#include <string.h>

static void test_seeded(void **state)
{
    (void)state;
    struct rng a, b, c;
    rng_init_seed(&a, 1);
    rng_init_seed(&b, 1);
    rng_init_seed(&c, 2);
    for (int i = 0; i < 100; i++) {
        uint64_t v = rng_u64(&a);
        assert_true(v == rng_u64(&b));
        assert_true(v != rng_u64(&c));
    }
    /* xoshiro256** from the state 1, 2, 3, 4: the first numbers that its definition gives. */
    struct rng r = {{1, 2, 3, 4}};
    assert_true(rng_u64(&r) == 11520);
    assert_true(rng_u64(&r) == 0);
    assert_true(rng_u64(&r) == 1509978240);
    assert_true(rng_u64(&r) == UINT64_C(1215971899390074240));
}

static void test_below(void **state)
{
    (void)state;
    struct rng r;
    rng_init_seed(&r, 3);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++)
        counts[rng_below(&r, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500);
    assert_int_equal(rng_below(&r, 1), 0);
    for (int i = 0; i < 1000; i++)
        assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
    /* Just above half the range: every second draw must be thrown away, and none may come out too
     * large. */
    uint64_t n = (UINT64_C(1) << 63) + 1, high = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t v = rng_below(&r, n);
        assert_true(v < n);
        high += v > n / 2;
    }
    assert_in_range(high, 400, 600);
}

static void test_fill(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r);
    unsigned char bytes[64] = {0}, zero[64] = {0};
    rng_fill(&r, bytes, 13);
    assert_memory_not_equal(bytes, zero, 13);
    assert_memory_equal(bytes + 13, zero, 51);
    rng_secret(bytes, 32);
    assert_memory_not_equal(bytes, zero, 32);
    assert_memory_equal(bytes + 32, zero, 32);
    rng_secret(bytes, 0);
}

static void below_zero(void)
{
    struct rng r = {{1, 2, 3, 4}};
    (void)rng_below(&r, 0);
}

static void test_bugs_abort(void **state)
{
    (void)state;
    assert_true(unit_aborts(below_zero));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeded),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
