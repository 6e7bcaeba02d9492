#include "core/suspect.h"

#include "unit.h"

static void test_rule_23_groups(void **state)
{
    (void)state;
    static const int expected[] = {0, 0, 0, 0, 32, 8, 1, 1, 1, 1, 1};
    for (int deliveries = 0; deliveries < 11; deliveries++)
        assert_int_equal(suspect_group(deliveries), expected[deliveries]);
    assert_int_equal(suspect_group(-1), 0);
    assert_int_equal(suspect_group(1000000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rule_23_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
