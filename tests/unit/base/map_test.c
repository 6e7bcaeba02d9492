#include "base/err.h"
#include "base/map.h"
#include "base/rng.h"
#include "unit.h"

static void test_basics(void **state)
{
    (void)state;
    struct map m;
    uint64_t v = 9;
    map_init(&m, 2);
    assert_false(map_get(&m, 0, &v));
    assert_false(map_remove(&m, 0));
    assert_int_equal(map_put(&m, 0, 100), 0); /* zero is a key like any other */
    assert_int_equal(map_put(&m, UINT64_MAX, 200), 0);
    assert_int_equal(map_put(&m, 5, 300), ERR_OVERLOAD);
    assert_int_equal(map_put(&m, 0, 101), 0); /* replacing is always possible */
    assert_true(map_get(&m, 0, &v) && v == 101);
    assert_true(map_get(&m, UINT64_MAX, &v) && v == 200);
    assert_false(map_get(&m, 5, &v));
    assert_true(map_remove(&m, 0));
    assert_false(map_remove(&m, 0));
    assert_int_equal(map_put(&m, 5, 300), 0);
    size_t at = 0;
    uint64_t key, sum = 0;
    int n = 0;
    while (map_next(&m, &at, &key, &v)) {
        sum += v;
        n++;
    }
    assert_int_equal(n, 2);
    assert_int_equal(sum, 500);
    map_deinit(&m);

    map_init(&m, 0);
    assert_int_equal(map_put(&m, 1, 1), ERR_OVERLOAD);
    map_deinit(&m);
}

/* Against plain arrays, with few keys, so that removals close gaps all the time. */
static void test_random(void **state)
{
    (void)state;
    enum { KEYS = 2000, MAX = 900 };
    static bool there[KEYS];
    static uint64_t value[KEYS];
    struct rng rng;
    struct map m;
    rng_init_seed(&rng, 42);
    map_init(&m, MAX);
    size_t n = 0;
    for (int step = 0; step < 200000; step++) {
        size_t k = (size_t)rng_below(&rng, KEYS);
        uint64_t key = k << 32, v; /* keys that differ in the high half only */
        if (rng_below(&rng, 5) < 3) {
            uint64_t fresh = rng_u64(&rng);
            int rc = map_put(&m, key, fresh);
            assert_int_equal(rc, there[k] || n < MAX ? 0 : ERR_OVERLOAD);
            if (rc == 0) {
                n += !there[k];
                there[k] = true;
                value[k] = fresh;
            }
        } else {
            assert_int_equal(map_remove(&m, key), there[k]);
            n -= there[k];
            there[k] = false;
        }
        assert_int_equal(m.n, n);
        k = (size_t)rng_below(&rng, KEYS);
        assert_int_equal(map_get(&m, (uint64_t)k << 32, &v), there[k]);
        if (there[k])
            assert_true(v == value[k]);
    }
    size_t at = 0, seen = 0;
    uint64_t key, v;
    while (map_next(&m, &at, &key, &v)) {
        assert_true(there[key >> 32] && value[key >> 32] == v);
        seen++;
    }
    assert_int_equal(seen, n);
    assert_true(m.cap <= 2048);
    map_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_basics),
                                       cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
