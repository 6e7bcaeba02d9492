#include "core/order_id.h"

#include "unit.h"
#include <pthread.h>
#include <stdlib.h>

#define NOW_MS INT64_C(1782388800000)
#define FOREVER INT64_MAX

static int64_t next(struct order_id_source *s, int64_t wall_ms)
{
    int64_t id = 0;
    assert_int_equal(order_id_next(s, wall_ms, 0, &id), 0);
    assert_true(id > 0);
    return id;
}

static void test_layout(void **state)
{
    (void)state;
    struct order_id_source s;
    order_id_init(&s);
    order_id_grant(&s, 1023, 0, FOREVER);
    int64_t id = next(&s, NOW_MS);
    assert_int_equal(order_id_ms(id), NOW_MS);
    assert_int_equal(id >> 12 & 1023, 1023);
    assert_int_equal(id & 4095, 0);
    assert_int_equal(next(&s, NOW_MS), id + 1);
    assert_int_equal(order_id_highest_ms(&s), NOW_MS);
}

static void test_rule_38_refused_without_a_lease(void **state)
{
    (void)state;
    struct order_id_source s;
    int64_t id = 42;
    order_id_init(&s);
    assert_int_equal(order_id_highest_ms(&s), 0);
    assert_int_equal(order_id_next(&s, NOW_MS, 0, &id), ERR_UNAVAIL);
    order_id_grant(&s, 3, 0, 1000);
    assert_int_equal(order_id_next(&s, NOW_MS, 999, &id), 0);
    id = 42;
    assert_int_equal(order_id_next(&s, NOW_MS, 1000, &id), ERR_UNAVAIL); /* it ran out */
    order_id_grant(&s, 3, 0, 2000);                                      /* renewed */
    assert_int_equal(order_id_next(&s, NOW_MS, 1000, &id), 0);
    order_id_revoke(&s);
    id = 42;
    assert_int_equal(order_id_next(&s, NOW_MS, 0, &id), ERR_UNAVAIL);
    assert_int_equal(id, 42);
}

static void test_rule_38_starts_after_the_floor(void **state)
{
    (void)state;
    struct order_id_source s;
    order_id_init(&s);
    order_id_grant(&s, 3, NOW_MS + 500, FOREVER);
    int64_t id = next(&s, NOW_MS);
    assert_int_equal(order_id_ms(id), NOW_MS + 501);
    /* A lower floor at a renewal changes nothing. */
    order_id_grant(&s, 3, NOW_MS, FOREVER);
    assert_int_equal(next(&s, NOW_MS), id + 1);
}

static void test_rule_38_waits_for_a_floor_in_the_future(void **state)
{
    (void)state;
    struct order_id_source s;
    int64_t id;
    order_id_init(&s);
    order_id_grant(&s, 3, NOW_MS + 5000, FOREVER);
    assert_int_equal(order_id_next(&s, NOW_MS, 0, &id), ERR_UNAVAIL);
    assert_int_equal(order_id_next(&s, NOW_MS + 4000, 0, &id), ERR_UNAVAIL);
    assert_int_equal(order_id_ms(next(&s, NOW_MS + 4001)), NOW_MS + 5001);
}

static void test_never_backwards_whatever_the_clock_does(void **state)
{
    (void)state;
    struct order_id_source s;
    order_id_init(&s);
    order_id_grant(&s, 3, 0, FOREVER);
    static const int steps[] = {0, 1, 5, -3, -900, 0, 7, -1, 1000, 1};
    int64_t last = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int64_t id = next(&s, NOW_MS + steps[i]);
        assert_true(id > last);
        last = id;
    }
}

static void test_a_clock_set_back_further_is_waited_for(void **state)
{
    (void)state;
    struct order_id_source s;
    int64_t id;
    order_id_init(&s);
    order_id_grant(&s, 3, 0, FOREVER);
    int64_t last = next(&s, NOW_MS);
    assert_int_equal(order_id_next(&s, NOW_MS - ORDER_ID_MAX_AHEAD_MS - 1, 0, &id), ERR_UNAVAIL);
    assert_true(next(&s, NOW_MS - ORDER_ID_MAX_AHEAD_MS) > last);
}

static void test_at_most_a_second_ahead(void **state)
{
    (void)state;
    struct order_id_source s;
    int64_t id, last = 0, n = 0;
    order_id_init(&s);
    order_id_grant(&s, 3, 0, FOREVER);
    while (order_id_next(&s, NOW_MS, 0, &id) == 0) {
        assert_true(id > last);
        last = id;
        n++;
    }
    assert_int_equal(n, (ORDER_ID_MAX_AHEAD_MS + 1) * 4096);
    assert_int_equal(order_id_ms(last), NOW_MS + ORDER_ID_MAX_AHEAD_MS);
    assert_int_equal(order_id_next(&s, NOW_MS + 1, 0, &id), 0);
}

static void test_another_instance_number_within_a_ms_does_not_go_back(void **state)
{
    (void)state;
    struct order_id_source s;
    order_id_init(&s);
    order_id_grant(&s, 900, 0, FOREVER);
    int64_t last = next(&s, NOW_MS);
    order_id_grant(&s, 1, 0, FOREVER);
    assert_true(next(&s, NOW_MS) > last);
}

static void test_clocks_outside_41_bits_are_refused(void **state)
{
    (void)state;
    struct order_id_source s;
    int64_t id;
    order_id_init(&s);
    order_id_grant(&s, 0, 0, FOREVER);
    assert_int_equal(order_id_next(&s, ORDER_ID_EPOCH_MS - 1, 0, &id), ERR_UNAVAIL);
    assert_int_equal(order_id_next(&s, 0, 0, &id), ERR_UNAVAIL);
    assert_int_equal(order_id_next(&s, ORDER_ID_EPOCH_MS + (INT64_C(1) << 41), 0, &id),
                     ERR_UNAVAIL);
    assert_int_equal(order_id_next(&s, ORDER_ID_EPOCH_MS + (INT64_C(1) << 41) - 1, 0, &id), 0);
    assert_true(id > 0);
    order_id_init(&s);
    order_id_grant(&s, 0, INT64_MAX, FOREVER); /* a floor out of its mind */
    assert_int_equal(order_id_next(&s, NOW_MS, 0, &id), ERR_UNAVAIL);
}

#define THREADS 4
#define EACH 50000

struct taker {
    struct order_id_source *source;
    int64_t *ids;
    pthread_t thread;
};

static void *take(void *arg)
{
    struct taker *t = arg;
    for (int i = 0; i < EACH; i++) {
        if (order_id_next(t->source, NOW_MS + i / 1000, 0, &t->ids[i]))
            t->ids[i] = 0;
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* While the lease moves from one number to another. */
static void test_unique_from_four_threads(void **state)
{
    (void)state;
    struct order_id_source s;
    struct taker takers[THREADS];
    int64_t *ids = calloc(THREADS * EACH, sizeof *ids);
    assert_non_null(ids);
    order_id_init(&s);
    order_id_grant(&s, 7, 0, FOREVER);
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){.source = &s, .ids = ids + i * EACH};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take, &takers[i]), 0);
    }
    for (int i = 0; i < 100; i++)
        order_id_grant(&s, 7 + i % 2, 0, FOREVER);
    for (int i = 0; i < THREADS; i++)
        pthread_join(takers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        int64_t last = 0; /* each thread's own rise too */
        for (int j = 0; j < EACH; j++) {
            int64_t id = takers[i].ids[j];
            assert_true(id == 0 || id > last);
            last = id ? id : last;
        }
    }
    qsort(ids, THREADS * EACH, sizeof *ids, compare);
    size_t given = 0;
    for (size_t i = 1; i < THREADS * EACH; i++) {
        assert_true(ids[i] == 0 || ids[i] != ids[i - 1]);
        given += ids[i] != 0;
    }
    assert_true(given > EACH);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_rule_38_refused_without_a_lease),
        cmocka_unit_test(test_rule_38_starts_after_the_floor),
        cmocka_unit_test(test_rule_38_waits_for_a_floor_in_the_future),
        cmocka_unit_test(test_never_backwards_whatever_the_clock_does),
        cmocka_unit_test(test_a_clock_set_back_further_is_waited_for),
        cmocka_unit_test(test_at_most_a_second_ahead),
        cmocka_unit_test(test_another_instance_number_within_a_ms_does_not_go_back),
        cmocka_unit_test(test_clocks_outside_41_bits_are_refused),
        cmocka_unit_test(test_unique_from_four_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
