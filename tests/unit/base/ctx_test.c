#include "base/ctx.h"
#include "unit.h"

static void test_deadlines(void **state)
{
    (void)state;
    struct ctx parent, child, longer;
    ctx_init(&parent, NULL, 1000);
    ctx_init(&child, &parent, 500);
    ctx_init(&longer, &parent, 2000);
    assert_int_equal(child.deadline_us, 500);
    assert_int_equal(longer.deadline_us, 1000); /* never later than the parent's */
    assert_int_equal(ctx_check(&child, 499), 0);
    assert_int_equal(ctx_left_us(&child, 499), 1);
    assert_int_equal(ctx_check(&child, 500), ERR_DEADLINE); /* at the deadline it is over */
    assert_int_equal(ctx_left_us(&child, 500), 0);
    assert_int_equal(ctx_left_us(&child, 700), 0);
    assert_int_equal(ctx_check(&longer, 999), 0);

    struct ctx none;
    ctx_init(&none, NULL, CTX_NO_DEADLINE);
    assert_int_equal(ctx_check(&none, INT64_MAX - 1), 0);
    assert_true(ctx_left_us(&none, 12345) == CTX_NO_DEADLINE);
}

static void test_cancel(void **state)
{
    (void)state;
    struct ctx root, middle, leaf, other;
    ctx_init(&root, NULL, 1000);
    ctx_init(&middle, &root, 1000);
    ctx_init(&leaf, &middle, 1000);
    ctx_init(&other, &root, 1000);
    ctx_cancel(&middle);
    assert_int_equal(ctx_check(&root, 0), 0);
    assert_int_equal(ctx_check(&other, 0), 0);
    assert_int_equal(ctx_check(&middle, 0), ERR_CANCELED);
    assert_int_equal(ctx_check(&leaf, 0), ERR_CANCELED);
    assert_int_equal(ctx_left_us(&leaf, 0), 0);
    /* Cancelled and late: the cancel is what somebody decided. */
    assert_int_equal(ctx_check(&leaf, 5000), ERR_CANCELED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
