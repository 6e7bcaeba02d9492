/* The admission limit against a model of a store: one server, a queue, so many answers a second. */
#include "core/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX 1000
#define TARGET 30000

/* `want` clients ask again as soon as they are answered or refused; the store answers one each
 * service_us. Returns how many are under way at the end. */
static int64_t now;
static int64_t worst;
static int run(struct admission *a, int want, int64_t service_us, int64_t for_us)
{
    static int64_t entered[MAX];
    int64_t end = now + for_us;
    int head = 0, n = 0;
    worst = 0;
    while (now < end) {
        while (n < want && admission_enter(a))
            entered[(head + n++) % MAX] = now;
        now += service_us;
        if (n == 0)
            continue;
        int64_t took = now - entered[head];
        worst = took > worst ? took : worst;
        head = (head + 1) % MAX;
        n--;
        admission_leave(a, now, took, false);
    }
    int left = n;
    for (; n > 0; n--)
        admission_leave(a, now, 0, false);
    return left;
}

static void test_all_may_in_while_it_is_fast(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, MAX, TARGET);
    assert_in_range(run(&a, 200, 100, 2000000), 199, 200); /* 200 × 0.1 ms = 20 ms each */
    assert_int_equal(admission_limit(&a), MAX);
}

static void test_a_slow_store_gets_what_it_answers_in_time(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, MAX, TARGET);
    run(&a, 900, 300, 3000000); /* all 900 would take 270 ms each */
    run(&a, 900, 300, 3000000);
    assert_true(worst < 2 * TARGET); /* once it has learnt */
    assert_in_range(admission_limit(&a), ADMISSION_LEAST, TARGET / 300 * 5 / 4);
}

static void test_it_recovers(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, MAX, TARGET);
    run(&a, 900, 3000, 10000000);
    assert_in_range(admission_limit(&a), ADMISSION_LEAST, ADMISSION_LEAST + 10);
    run(&a, 900, 20, 5000000); /* 900 × 20 µs = 18 ms */
    assert_true(admission_limit(&a) >= 900);
}

static void test_a_burst_of_late_ones_shrinks_once(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, MAX, TARGET);
    for (int i = 0; i < 400; i++)
        assert_true(admission_enter(&a));
    for (int i = 0; i < 400;
         i++) /* a pause of the store: all of them are late at the same moment */
        admission_leave(&a, 1000000, 200000, false);
    assert_int_equal(admission_limit(&a), 300);
}

static void test_time_outs_count_as_late(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, MAX, TARGET);
    assert_true(admission_enter(&a));
    admission_leave(&a, 1000000, 10, true);
    assert_int_equal(admission_limit(&a), ADMISSION_LEAST);
}

static void test_the_hard_bound(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, 3, TARGET);
    for (int i = 0; i < 3; i++)
        assert_true(admission_enter(&a));
    assert_false(admission_enter(&a));
    admission_leave(&a, 0, 200000, true);
    assert_int_equal(admission_limit(&a), 3); /* fewer than the least are never taken away */
    assert_true(admission_enter(&a));
    assert_false(admission_enter(&a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_may_in_while_it_is_fast),
        cmocka_unit_test(test_a_slow_store_gets_what_it_answers_in_time),
        cmocka_unit_test(test_it_recovers),
        cmocka_unit_test(test_a_burst_of_late_ones_shrinks_once),
        cmocka_unit_test(test_time_outs_count_as_late),
        cmocka_unit_test(test_the_hard_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
