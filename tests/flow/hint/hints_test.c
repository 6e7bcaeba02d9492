/* The hints of one loop. Rules 10–12. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/hint.h"

#define T0 INT64_C(1000000000)
#define MS 1000

static struct hints hints;
static int asked;
static struct item_version asked_for;
static const struct item one = {1, 1};

static void on_sold_out(struct hints *h, struct item item, struct item_version v)
{
    (void)h;
    (void)item;
    asked++;
    asked_for = v;
}

static int setup(void **state)
{
    (void)state;
    asked = 0;
    hints.on_sold_out = on_sold_out;
    hints_init(&hints);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hints_deinit(&hints);
    return 0;
}

static struct item_version at(int64_t seq)
{
    return (struct item_version){1, seq};
}

static struct hint_set *set_of(struct item item, int64_t seq, int64_t user)
{
    struct hint_set *s = hint_set_new(item, at(seq), 4);
    assert_true(hint_set_add(s, user));
    return s;
}

static void test_sold_out_asks_for_a_set(void **state)
{
    (void)state;
    hints_saw(&hints, one, at(4), false, T0, T0);
    assert_int_equal(asked, 0);
    hints_saw(&hints, one, at(5), true, T0, T0);
    assert_int_equal(asked, 1);
    assert_int_equal(asked_for.seq, 5);
    for (int i = 1; i < 100; i++)
        hints_saw(&hints, one, at(5), true, T0 + i * MS, T0 + i * MS);
    assert_int_equal(asked, 1); /* at most once in HINT_ASK_US */
    hints_saw(&hints, one, at(5), true, T0 + 100 * MS, T0 + 100 * MS);
    assert_int_equal(asked, 2);
    hints_saw(&hints, one, at(4), true, T0 + 300 * MS, T0 + 300 * MS);
    assert_int_equal(asked, 2); /* an old answer is no reason */
}

static void test_rule_10_only_the_newest_is_installed(void **state)
{
    (void)state;
    hints_saw(&hints, one, at(7), true, T0, T0);
    assert_false(hints_install(&hints, set_of(one, 6, 5), T0)); /* an answer was newer */
    assert_true(hints_install(&hints, set_of(one, 7, 5), T0));
    assert_int_equal(hints_decide(&hints, one, 9, T0 + MS), HINT_REFUSE);
    assert_int_equal(hints_decide(&hints, one, 5, T0 + MS), HINT_ASK); /* a member asks */
    uint64_t ended = metric_value(hints.ended);
    hints_heard(&hints, one, at(8)); /* PUBLISH ends it at once */
    assert_int_equal(metric_value(hints.ended) - ended, 1);
    assert_int_equal(hints_decide(&hints, one, 9, T0 + MS), HINT_ASK);
    assert_false(hints_install(&hints, set_of(one, 7, 5), T0 + MS)); /* PUBLISH was newer */
    assert_int_equal(hints_decide(&hints, one, 9, T0 + MS), HINT_ASK);
    /* A rebuild's epoch is newer than any seq. */
    hints_saw(&hints, one, (struct item_version){2, 1}, true, T0, T0);
    assert_false(hints_install(&hints, set_of(one, 99, 5), T0 + MS));
}

static void test_rule_10_probe_renews_only_the_identical(void **state)
{
    (void)state;
    hints_saw(&hints, one, at(7), true, T0, T0);
    assert_true(hints_install(&hints, set_of(one, 7, 5), T0));
    int64_t now = T0 + 50 * MS;
    assert_int_equal(hints_decide(&hints, one, 9, now), HINT_PROBE);
    assert_int_equal(hints_decide(&hints, one, 9, now + MS), HINT_REFUSE); /* one per 50 ms */
    hints_saw(&hints, one, at(7), true, now, now + MS);
    assert_int_equal(hints_decide(&hints, one, 9, now + 100 * MS), HINT_PROBE);
    /* No answer to the probes: it ends 150 ms after the last that was sent. */
    assert_int_equal(hints_decide(&hints, one, 9, now + 149 * MS), HINT_REFUSE);
    assert_int_equal(hints_decide(&hints, one, 9, now + 150 * MS), HINT_ASK);
    /* An answer at another version, or one that does not say sold out, renews nothing. */
    hints_saw(&hints, one, at(6), true, now + 160 * MS, now + 161 * MS);
    hints_saw(&hints, one, at(7), false, now + 160 * MS, now + 161 * MS);
    assert_int_equal(hints_decide(&hints, one, 9, now + 162 * MS), HINT_ASK);
    hints_saw(&hints, one, at(7), true, now + 170 * MS, now + 171 * MS);
    assert_int_not_equal(hints_decide(&hints, one, 9, now + 172 * MS), HINT_ASK);
}

static void test_rule_11_off(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 3; i++) {
        struct item item = {i, i};
        hints_saw(&hints, item, at(7), true, T0, T0);
        assert_true(hints_install(&hints, set_of(item, 7, 5), T0));
    }
    hints_off(&hints);
    for (int64_t i = 1; i <= 3; i++)
        assert_int_equal(hints_decide(&hints, (struct item){i, i}, 9, T0 + MS), HINT_ASK);
    /* What was heard of is not forgotten. */
    assert_false(hints_install(&hints, set_of((struct item){1, 1}, 6, 5), T0 + MS));
}

static void test_no_set_for_what_is_not_tracked(void **state)
{
    (void)state;
    assert_false(hints_install(&hints, set_of(one, 7, 5), T0));
    assert_int_equal(hints_decide(&hints, one, 9, T0), HINT_ASK);
}

/* I8: 1024 items; those that nobody asks for make room; without room an item simply has no hint. */
static void test_bound(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= HINT_ITEMS_MAX; i++)
        hints_saw(&hints, (struct item){i, i * 3}, at(1), true, T0, T0);
    assert_int_equal(asked, HINT_ITEMS_MAX);
    assert_true(hints_install(&hints, set_of((struct item){7, 21}, 1, 5), T0));
    struct item more = {5000, 1};
    uint64_t untracked = metric_value(hints.untracked);
    hints_saw(&hints, more, at(1), true, T0, T0 + MS);
    assert_int_equal(asked, HINT_ITEMS_MAX);
    assert_int_equal(metric_value(hints.untracked), untracked + 1);
    assert_int_equal(hints_decide(&hints, more, 9, T0 + MS), HINT_ASK);
    assert_int_equal(hints_decide(&hints, (struct item){7, 21}, 9, T0 + MS), HINT_REFUSE);

    int64_t later = T0 + HINT_IDLE_US;
    hints_saw(&hints, (struct item){9, 27}, at(1), true, later - MS, later - MS); /* in use */
    hints_saw(&hints, more, at(1), true, later, later);
    assert_int_equal(hints.index.n, 3); /* 7 was used at T0 + 1 ms, 9 just now, and the new one */
    assert_true(hints_install(&hints, set_of(more, 1, 5), later));
    assert_int_equal(hints_decide(&hints, more, 9, later), HINT_REFUSE);
    assert_false(hints_install(&hints, set_of((struct item){8, 24}, 1, 5), later)); /* forgotten */
    assert_true(hints_install(&hints, set_of((struct item){9, 27}, 1, 5), later));
}

static void test_switched_off(void **state)
{
    (void)state;
    hints.on_sold_out = NULL;
    hints_saw(&hints, one, at(7), true, T0, T0);
    assert_int_equal(hints.index.n, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_sold_out_asks_for_a_set),
        T(test_rule_10_only_the_newest_is_installed),
        T(test_rule_10_probe_renews_only_the_identical),
        T(test_rule_11_off),
        T(test_no_set_for_what_is_not_tracked),
        T(test_bound),
        T(test_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
