/* Rules 10–12. */
#include "core/hint.h"

#include "base/rng.h"
#include "unit.h"

static const struct item item = {1001, 2001};

static struct hint_set *set_at(int64_t epoch, int64_t seq)
{
    struct hint_set *s = hint_set_new(item, (struct item_version){epoch, seq}, 3);
    assert_non_null(s);
    for (int64_t user = 1; user <= 3; user++)
        assert_true(hint_set_add(s, user));
    return s;
}

static struct item_version at(int64_t epoch, int64_t seq)
{
    return (struct item_version){epoch, seq};
}

static void test_set(void **state)
{
    (void)state;
    struct rng rng;
    rng_init_seed(&rng, 3);
    for (size_t n_max = 0; n_max < 300; n_max += 7) {
        struct hint_set *s = hint_set_new(item, at(1, 1), n_max);
        assert_non_null(s);
        for (size_t i = 1; i <= n_max; i++) {
            assert_true(hint_set_add(s, (int64_t)i * 3));
            assert_true(hint_set_add(s, (int64_t)i * 3)); /* HSCAN repeats */
        }
        assert_int_equal(s->n, n_max);
        for (size_t i = 1; i <= n_max; i++) {
            assert_true(hint_set_has(s, (int64_t)i * 3));
            assert_false(hint_set_has(s, (int64_t)i * 3 + 1));
        }
        assert_false(hint_set_has(s, 0));
        assert_false(hint_set_has(s, -3));
        hint_set_unref(s);
    }
}

static void test_a_full_set_says_so_and_never_loops(void **state)
{
    (void)state;
    struct hint_set *s = hint_set_new(item, at(1, 1), 10);
    int64_t user = 1;
    while (hint_set_add(s, user))
        user++;
    assert_true(user > 10);
    assert_true(s->n < s->cap);
    assert_false(hint_set_has(s, user));
    hint_set_unref(s);
    assert_null(hint_set_new(item, at(1, 1), SIZE_MAX));
}

static void test_without_a_set_redis_is_asked(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_int_equal(hint_decide(&h, 9, 0), HINT_ASK);
    hint_saw(&h, at(1, 5), true, 0);
    assert_int_equal(hint_decide(&h, 9, 0), HINT_ASK);
    hint_end(&h);
}

static void test_members_are_never_refused(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 5), 0));
    for (int64_t now = 0; now < 2 * HINT_VALID_US; now += 1000) {
        for (int64_t user = 1; user <= 3; user++)
            assert_int_equal(hint_decide(&h, user, now), HINT_ASK);
        hint_saw(&h, at(1, 5), true, now);
    }
    assert_int_equal(hint_decide(&h, 4, 2 * HINT_VALID_US - 1000), HINT_PROBE);
    assert_int_equal(hint_decide(&h, 4, 2 * HINT_VALID_US - 1000), HINT_REFUSE);
    hint_end(&h);
}

static void test_one_probe_per_interval(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 5), 1000));
    int probes = 0;
    for (int64_t now = 1000; now < 1000 + 10 * HINT_PROBE_INTERVAL_US; now += 100) {
        enum hint_decision d = hint_decide(&h, 9, now);
        assert_true(d == HINT_PROBE || d == HINT_REFUSE);
        probes += d == HINT_PROBE;
        if (d == HINT_PROBE)
            hint_saw(&h, at(1, 5), true, now);
    }
    assert_int_equal(probes, 9);
    hint_end(&h);
}

static void test_rule_10_a_newer_version_ends_it_at_once(void **state)
{
    (void)state;
    static const struct item_version newer[] = {{1, 6}, {2, 0}, {2, 5}};
    for (size_t i = 0; i < 3; i++) {
        for (int sold_out = 0; sold_out < 2; sold_out++) {
            struct hint h = {0};
            assert_true(hint_install(&h, set_at(1, 5), 0));
            assert_int_equal(hint_decide(&h, 9, 1), HINT_REFUSE);
            hint_saw(&h, newer[i], sold_out, 2);
            assert_null(h.set);
            assert_int_equal(hint_decide(&h, 9, 3), HINT_ASK);
        }
    }
}

static void test_an_older_answer_changes_nothing(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(2, 5), 0));
    int64_t until = h.valid_until_us;
    hint_saw(&h, at(2, 4), true, 100000);
    hint_saw(&h, at(1, 99), false, 100000);
    assert_int_equal(h.valid_until_us, until);
    assert_int_equal(hint_decide(&h, 9, 1), HINT_REFUSE);
    hint_end(&h);
}

static void test_rule_10_a_version_heard_during_the_load_throws_the_set_away(void **state)
{
    (void)state;
    struct hint h = {0};
    hint_saw(&h, at(1, 5), true, 0);
    struct hint_set *loaded = set_at(1, 5);
    hint_saw(&h, at(1, 6), false, 10); /* meanwhile */
    assert_false(hint_install(&h, loaded, 20));
    assert_null(h.set);
    assert_int_equal(hint_decide(&h, 9, 21), HINT_ASK);
    /* A set of the newest version heard of is taken. */
    assert_true(hint_install(&h, set_at(1, 6), 30));
    assert_int_equal(hint_decide(&h, 9, 31), HINT_REFUSE);
    hint_end(&h);
}

static void test_rule_10_an_older_set_does_not_replace_the_newer(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 6), 0));
    struct hint_set *newer = h.set;
    assert_false(hint_install(&h, set_at(1, 5), 1));
    assert_ptr_equal(h.set, newer);
    assert_true(hint_install(&h, set_at(1, 7), 2));
    assert_int_equal(item_version_cmp(h.seen, at(1, 7)), 0);
    hint_end(&h);
}

static void test_rule_10_a_probe_renews_only_at_the_identical_version(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 5), 0));
    hint_saw(&h, at(1, 4), true, 100000);  /* another version */
    hint_saw(&h, at(1, 5), false, 100000); /* another answer: a member's */
    assert_int_equal(hint_decide(&h, 9, HINT_VALID_US), HINT_ASK);
    assert_true(hint_install(&h, set_at(1, 5), 0));
    hint_saw(&h, at(1, 5), true, 100000);
    assert_int_not_equal(hint_decide(&h, 9, 100000 + HINT_VALID_US - 1), HINT_ASK);
    assert_int_equal(hint_decide(&h, 9, 100000 + HINT_VALID_US), HINT_ASK);
    hint_end(&h);
}

static void test_a_renewal_counts_from_when_the_probe_was_sent(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 5), 1000000));
    hint_saw(&h, at(1, 5), true, 900000); /* an old answer does not shorten */
    assert_int_equal(h.valid_until_us, 1000000 + HINT_VALID_US);
    hint_end(&h);
}

static void test_without_a_confirming_probe_nobody_is_refused(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 5), 0));
    assert_int_equal(hint_decide(&h, 9, HINT_PROBE_INTERVAL_US - 1), HINT_REFUSE);
    assert_int_equal(hint_decide(&h, 9, HINT_VALID_US - 1), HINT_PROBE); /* its answer is lost */
    for (int64_t now = HINT_VALID_US; now < 10 * HINT_VALID_US; now += 1000)
        assert_int_equal(hint_decide(&h, 9, now), HINT_ASK);
    /* The next answer at its very version makes it hold again; a newer one would have ended it. */
    hint_saw(&h, at(1, 5), true, 10 * HINT_VALID_US);
    assert_int_not_equal(hint_decide(&h, 9, 10 * HINT_VALID_US + 1), HINT_ASK);
    hint_end(&h);
}

/* Rule 12: who held a unit and lost it is no longer in buyers, and hears SOLD_OUT. */
static void test_rule_12_a_released_buyer_is_refused_like_anybody(void **state)
{
    (void)state;
    struct hint h = {0};
    struct hint_set *s = hint_set_new(item, at(1, 9), 2);
    assert_true(hint_set_add(s, 1)); /* 2's unit was released, and sold again to 3 */
    assert_true(hint_set_add(s, 3));
    assert_true(hint_install(&h, s, 0));
    assert_int_equal(hint_decide(&h, 2, 1), HINT_REFUSE);
    hint_end(&h);
}

static void test_rule_11_off_while_the_subscription_is_down(void **state)
{
    (void)state;
    struct hint h = {0};
    assert_true(hint_install(&h, set_at(1, 5), 0));
    hint_end(&h); /* what on_link(false) does */
    assert_int_equal(hint_decide(&h, 9, 1), HINT_ASK);
    hint_end(&h);
}

static void test_one_set_of_several_loops(void **state)
{
    (void)state;
    struct hint a = {0}, b = {0};
    struct hint_set *s = set_at(1, 5);
    assert_true(hint_install(&a, hint_set_ref(s), 0));
    assert_true(hint_install(&b, s, 0));
    hint_saw(&a, at(1, 6), false, 1);
    assert_int_equal(hint_decide(&b, 9, 1), HINT_REFUSE);
    hint_end(&b);
    hint_set_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_a_full_set_says_so_and_never_loops),
        cmocka_unit_test(test_without_a_set_redis_is_asked),
        cmocka_unit_test(test_members_are_never_refused),
        cmocka_unit_test(test_one_probe_per_interval),
        cmocka_unit_test(test_rule_10_a_newer_version_ends_it_at_once),
        cmocka_unit_test(test_an_older_answer_changes_nothing),
        cmocka_unit_test(test_rule_10_a_version_heard_during_the_load_throws_the_set_away),
        cmocka_unit_test(test_rule_10_an_older_set_does_not_replace_the_newer),
        cmocka_unit_test(test_rule_10_a_probe_renews_only_at_the_identical_version),
        cmocka_unit_test(test_a_renewal_counts_from_when_the_probe_was_sent),
        cmocka_unit_test(test_without_a_confirming_probe_nobody_is_refused),
        cmocka_unit_test(test_rule_12_a_released_buyer_is_refused_like_anybody),
        cmocka_unit_test(test_rule_11_off_while_the_subscription_is_down),
        cmocka_unit_test(test_one_set_of_several_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
