#include "base/flow_pool.h"
#include "unit.h"

struct flow_like {
    int seen;
    char rest[60];
};

static void test_refuses_beyond_its_number(void **state)
{
    (void)state;
    struct flow_pool p;
    struct flow_like *taken[3];
    assert_int_equal(flow_pool_init(&p, 3, sizeof(struct flow_like)), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(flow_pool_busy(&p), i);
        taken[i] = flow_pool_take(&p);
        assert_non_null(taken[i]);
        assert_int_equal(taken[i]->seen, 0);
        taken[i]->seen = i + 1;
    }
    for (int i = 0; i < 3; i++) /* each its own */
        assert_int_equal(taken[i]->seen, i + 1);
    assert_null(flow_pool_take(&p));
    assert_int_equal(flow_pool_busy(&p), 3);
    for (int i = 0; i < 3; i++)
        flow_pool_put(&p, taken[i]);
    assert_int_equal(flow_pool_busy(&p), 0);
    flow_pool_deinit(&p);
}

static void test_takes_what_was_put_back_last(void **state)
{
    (void)state;
    struct flow_pool p;
    assert_int_equal(flow_pool_init(&p, 8, sizeof(struct flow_like)), 0);
    void *a = flow_pool_take(&p), *b = flow_pool_take(&p);
    flow_pool_put(&p, a);
    flow_pool_put(&p, b);
    assert_ptr_equal(flow_pool_take(&p), b);
    assert_ptr_equal(flow_pool_take(&p), a);
    flow_pool_put(&p, a);
    flow_pool_put(&p, b);
    flow_pool_deinit(&p);
}

static void test_deinit_of_nothing(void **state)
{
    (void)state;
    struct flow_pool p = {0};
    assert_null(flow_pool_take(&p));
    flow_pool_deinit(&p);
    flow_pool_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_beyond_its_number),
        cmocka_unit_test(test_takes_what_was_put_back_last),
        cmocka_unit_test(test_deinit_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
