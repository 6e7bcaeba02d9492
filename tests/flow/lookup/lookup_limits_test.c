/* Bounds, sharing, deadlines, and viewers that leave. */
#include "lookup_fixture.h"

/* Equal reads are one read, until it begins. */
static void test_coalesced(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    for (int i = 0; i < 20; i++)
        assert_int_equal(fixture_request(&f, 5, 1, NULL), LOOKUP_STARTED);
    fixture_run_ms(&f, 1000);
    assert_int_equal(f.answers, 20);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_LOOKUP), 20);
    assert_int_equal(fixture_pg_calls(&f, MEM_ORDERS_FIND_REQUEST), 1);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_ITEM), 1);
    fixture_deinit(&f);
}

/* A read that has begun may not know what its joiner already heard: who asks for an order after it
 * was committed finds it, although somebody's read from before that is still under way. */
static void test_not_joined_once_begun(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    int64_t id = fixture_order_id(5, 1);
    mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_ORDER, 1, MEM_FAULT_REPLY_LATE, 50 * MS);
    assert_int_equal(fixture_order(&f, id, 5, NULL), LOOKUP_STARTED);
    fixture_run_ms(&f, 10); /* it has looked, and found nothing */
    fixture_place(&f, 5, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_order(&f, id, 5, NULL), LOOKUP_STARTED);
    fixture_run_ms(&f, 1000);
    assert_int_equal(f.answers, 6);
    assert_string_equal(f.trace, "ANSWER@52.0 404 NOT_FOUND none "
                                 "ANSWER@54.0 200 CREATED postgresql "
                                 "ANSWER@54.0 200 CREATED postgresql "
                                 "ANSWER@54.0 200 CREATED postgresql "
                                 "ANSWER@54.0 200 CREATED postgresql "
                                 "ANSWER@54.0 200 CREATED postgresql");
    assert_int_equal(fixture_pg_calls(&f, MEM_ORDERS_FIND_ORDER), 2);
    fixture_deinit(&f);
}

/* One read of an order serves its owner and a stranger, each with their answer. */
static void test_shared_between_users(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    fixture_place(&f, 5, 1);
    fixture_clear_trace(&f);
    fixture_order(&f, fixture_order_id(5, 1), 5, NULL);
    fixture_order(&f, fixture_order_id(5, 1), 6, NULL);
    fixture_run_ms(&f, 100);
    assert_string_equal(f.trace, "ANSWER@2.0 200 CREATED postgresql ANSWER@2.0 404 NOT_FOUND none");
    assert_int_equal(fixture_pg_calls(&f, MEM_ORDERS_FIND_ORDER), 1);
    fixture_deinit(&f);
}

/* One connection, eight reads waiting: the tenth is refused at once. Redis's word is served if
 * there is one, and nobody is told "not found". */
static void test_full_queue(void **state)
{
    struct fixture f;
    struct setup s = SETUP;
    (void)state;
    s.pg_reads = 100; /* the crew's own bound */
    for (int own_bound = 0; own_bound < 2; own_bound++, s.pg_reads = 9, s.queue_max = 100) {
        fixture_init(&f, s);
        fixture_reserve(&f, 50, 1);
        fixture_run_ms(&f, 3000);
        for (int i = 0; i < 9; i++)
            assert_int_equal(fixture_order(&f, 1 + i, 5, NULL), LOOKUP_STARTED);
        assert_int_equal(fixture_order(&f, 100, 5, NULL), ERR_UNAVAIL);
        fixture_clear_trace(&f);
        assert_int_equal(fixture_request(&f, 50, 1, NULL), LOOKUP_STARTED);
        fixture_run_ms(&f, 1);
        assert_string_equal(f.trace, "PG@1.0 ANSWER@1.0 200 QUEUED redis");
        fixture_clear_trace(&f);
        assert_int_equal(fixture_request(&f, 51, 1, NULL), LOOKUP_STARTED);
        mem_clock_run_for(&f.sched, MS - 100); /* the first read is still under way */
        assert_int_equal(f.len, 0);
        fixture_run_ms(&f, 1000);
        assert_int_equal(f.answers, 11);
        fixture_deinit(&f);
    }
}

static void test_full_queue_and_absent(void **state)
{
    struct fixture f;
    struct setup s = SETUP;
    (void)state;
    fixture_init(&f, s);
    for (int i = 0; i < 9; i++)
        assert_int_equal(fixture_order(&f, 1 + i, 5, NULL), LOOKUP_STARTED);
    fixture_clear_trace(&f);
    assert_int_equal(fixture_request(&f, 51, 1, NULL), LOOKUP_STARTED);
    mem_clock_run_for(&f.sched, 1500);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE none");
    fixture_run_ms(&f, 1000);
    fixture_deinit(&f);
}

/* The admission bound: no flow, no work. */
static void test_overload(void **state)
{
    struct fixture f;
    struct setup s = SETUP;
    struct lookup_answer now;
    struct lookup *l;
    (void)state;
    s.flows = 2;
    fixture_init(&f, s);
    assert_int_equal(fixture_request(&f, 5, 1, NULL), LOOKUP_STARTED);
    assert_int_equal(fixture_order(&f, 5, 1, NULL), LOOKUP_STARTED);
    assert_int_equal(fixture_request(&f, 5, 1, NULL), ERR_OVERLOAD);
    assert_int_equal(fixture_order(&f, 5, 1, NULL), ERR_OVERLOAD);
    assert_int_equal(fixture_item(&f, f.item, NULL), ERR_OVERLOAD);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_LOOKUP), 1);
    fixture_run_ms(&f, 100);
    assert_int_equal(f.answers, 2);
    /* Nor when its time is over. */
    int64_t long_ago = f.sched.now_us - 500 * MS;
    struct uuid id = fixture_key(1);
    uint64_t late = metric_value(f.pool.count.late);
    assert_int_equal(lookup_request(&f.pool, f.item, 5, &id, 0, long_ago, &f, &l), ERR_DEADLINE);
    assert_int_equal(lookup_order(&f.pool, 5, 1, long_ago, &f, &l), ERR_DEADLINE);
    assert_int_equal(lookup_item(&f.pool, f.item, long_ago, &f, &l, &now), ERR_DEADLINE);
    assert_int_equal(metric_value(f.pool.count.late), late + 3);
    assert_int_equal(lookup_pool_busy(&f.pool), 0);
    fixture_deinit(&f);
}

/* The budget ends before the read: the answer does not wait, the late read finds nobody. */
static void test_deadline(void **state)
{
    struct fixture f;
    struct setup s = SETUP;
    (void)state;
    s.timeout_us = 100 * MS;
    fixture_init(&f, s);
    fixture_reserve(&f, 5, 1);
    fixture_run_ms(&f, 3000);
    fixture_place(&f, 5, 1);
    mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_REQUEST, 1, MEM_FAULT_REPLY_LATE, 300 * MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@100.0 200 QUEUED redis");
    mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_REQUEST, 1, MEM_FAULT_REPLY_LATE, 300 * MS);
    fixture_ask(&f, 6, 1);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@100.0 503 DEPENDENCY_UNAVAILABLE none");
    mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_ORDER, 1, MEM_FAULT_REPLY_LATE, 300 * MS);
    fixture_ask_order(&f, fixture_order_id(5, 1), 5);
    assert_string_equal(f.trace, "ANSWER@100.0 503 DEPENDENCY_UNAVAILABLE none");
    fixture_stock_fault(&f, MEM_STOCK_LOOKUP, 1, MEM_FAULT_REPLY_LATE, 5000 * MS);
    fixture_stock_fault(&f, MEM_STOCK_ITEM, 1, MEM_FAULT_REPLY_LATE, 5000 * MS);
    f.pool.redis_us = 200 * MS; /* longer than the budget */
    fixture_ask(&f, 6, 1);
    assert_string_equal(f.trace, "PG@100.0 ANSWER@100.0 503 DEPENDENCY_UNAVAILABLE none");
    f.pool.items.call_us = 200 * MS;
    fixture_ask_item(&f, f.item);
    assert_string_equal(f.trace, "ANSWER@100.0 503 DEPENDENCY_UNAVAILABLE none");
    fixture_run_ms(&f, 6000);
    fixture_deinit(&f);
}

/* At every instant of a look-up's life its viewer may leave: no answer, and nothing stays behind.
 */
static void test_gone(void **state)
{
    (void)state;
    for (int64_t at_us = 0; at_us <= 4500; at_us += 250) {
        struct fixture f;
        struct lookup *l;
        fixture_init(&f, SETUP);
        fixture_request(&f, 5, 1, &l); /* REDIS to 1 ms, PG to 3 ms, ITEM to 4 ms */
        mem_clock_run_for(&f.sched, at_us);
        if (f.answers == 0)
            lookup_gone(l);
        assert_int_equal(f.answers, at_us >= 4000);
        fixture_run_ms(&f, 1000);
        assert_int_equal(f.answers, at_us >= 4000);
        fixture_ask(&f, 5, 1); /* and the pool is as good as new */
        assert_int_equal(f.last.answer, ANSWER_NOT_FOUND);
        fixture_deinit(&f);
    }
}

/* Who leaves takes nobody along; the read that nobody waits for any more is not made. */
static void test_gone_from_a_shared_read(void **state)
{
    struct fixture f;
    struct lookup *blocker, *a, *b, *c;
    (void)state;
    fixture_init(&f, SETUP);
    fixture_place(&f, 5, 1);
    mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_ORDER, 1, MEM_FAULT_REPLY_LATE, 50 * MS);
    fixture_order(&f, 1, 5, &blocker);
    fixture_run_ms(&f, 10);
    int64_t id = fixture_order_id(5, 1);
    fixture_order(&f, id, 5, &a);
    fixture_order(&f, id, 5, &b);
    fixture_order(&f, 4711, 5, &c);
    lookup_gone(a);
    lookup_gone(c);
    /* What was given up is not joined. */
    fixture_order(&f, 4711, 6, NULL);
    fixture_run_ms(&f, 1000);
    assert_int_equal(f.answers, 3);
    /* The cancelled read never reached the store. */
    assert_int_equal(fixture_pg_calls(&f, MEM_ORDERS_FIND_ORDER), 3);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coalesced),
        cmocka_unit_test(test_not_joined_once_begun),
        cmocka_unit_test(test_shared_between_users),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_full_queue_and_absent),
        cmocka_unit_test(test_overload),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_gone_from_a_shared_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
