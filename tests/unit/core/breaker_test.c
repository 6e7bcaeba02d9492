#include "core/breaker.h"

#include "unit.h"

#define COOLDOWN 1000

static void open_at(struct breaker *b, int64_t now)
{
    breaker_init(b, 3, COOLDOWN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b->state, BREAKER_CLOSED);
        assert_true(breaker_allow(b, now));
        breaker_failure(b, now);
    }
    assert_int_equal(b->state, BREAKER_OPEN);
}

static void test_opens_after_failures_in_a_row(void **state)
{
    (void)state;
    struct breaker b;
    open_at(&b, 0);
    for (int64_t now = 0; now < COOLDOWN; now++)
        assert_false(breaker_allow(&b, now));
}

static void test_a_success_in_between_starts_the_count_anew(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 3, COOLDOWN);
    for (int i = 0; i < 100; i++) {
        breaker_failure(&b, i);
        breaker_failure(&b, i);
        breaker_success(&b, i);
        assert_int_equal(b.state, BREAKER_CLOSED);
    }
    assert_int_equal(b.closed_at_us, 0); /* it never was open */
}

static void test_one_probe_at_a_time(void **state)
{
    (void)state;
    struct breaker b;
    open_at(&b, 0);
    assert_true(breaker_allow(&b, COOLDOWN));
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    for (int64_t now = COOLDOWN; now < 2 * COOLDOWN; now++)
        assert_false(breaker_allow(&b, now));
}

static void test_the_probes_answer_closes(void **state)
{
    (void)state;
    struct breaker b;
    open_at(&b, 0);
    assert_true(breaker_allow(&b, COOLDOWN));
    breaker_success(&b, COOLDOWN + 5);
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_int_equal(b.closed_at_us, COOLDOWN + 5); /* rule 29 counts from here */
    for (int i = 0; i < 10; i++)
        assert_true(breaker_allow(&b, COOLDOWN + 5));
    /* The old failures are forgotten. */
    breaker_failure(&b, COOLDOWN + 6);
    breaker_failure(&b, COOLDOWN + 6);
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void test_the_probes_failure_opens_for_another_cooldown(void **state)
{
    (void)state;
    struct breaker b;
    open_at(&b, 0);
    assert_true(breaker_allow(&b, COOLDOWN));
    breaker_failure(&b, COOLDOWN + 10);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_false(breaker_allow(&b, 2 * COOLDOWN + 9));
    assert_true(breaker_allow(&b, 2 * COOLDOWN + 10));
    assert_false(breaker_allow(&b, 2 * COOLDOWN + 10));
}

static void test_late_reports_do_not_close_or_prolong(void **state)
{
    (void)state;
    struct breaker b;
    open_at(&b, 0);
    breaker_success(&b, 1); /* to a call made before */
    assert_int_equal(b.state, BREAKER_OPEN);
    breaker_failure(&b, COOLDOWN - 1);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_true(breaker_allow(&b, COOLDOWN));
}

static void test_a_probe_nobody_reports_is_given_up_after_a_cooldown(void **state)
{
    (void)state;
    struct breaker b;
    open_at(&b, 0);
    assert_true(breaker_allow(&b, COOLDOWN));
    assert_false(breaker_allow(&b, 2 * COOLDOWN - 1));
    assert_true(breaker_allow(&b, 2 * COOLDOWN));
    assert_false(breaker_allow(&b, 2 * COOLDOWN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_after_failures_in_a_row),
        cmocka_unit_test(test_a_success_in_between_starts_the_count_anew),
        cmocka_unit_test(test_one_probe_at_a_time),
        cmocka_unit_test(test_the_probes_answer_closes),
        cmocka_unit_test(test_the_probes_failure_opens_for_another_cooldown),
        cmocka_unit_test(test_late_reports_do_not_close_or_prolong),
        cmocka_unit_test(test_a_probe_nobody_reports_is_given_up_after_a_cooldown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
