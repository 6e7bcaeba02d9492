/* What a buyer hears who proves that the request was accepted, when no store knows it: never "not
 * found" (rules 34c, 37), and when the workers are told. */
#include "lookup_fixture.h"

#define QUEUED "PG@1.0 EPOCH@3.0 ANSWER@5.0 200 QUEUED token"
#define LOST "PG@1.0 EPOCH@3.0 ANSWER@5.0 200 FAILED token"

/* The item was rebuilt just now. */
static void move_epoch(struct fixture *f, int64_t epoch)
{
    mem_db_rebuilt(f->db, f->item, epoch, MAX_HOLD_MS * MS);
}

static bool reported(struct fixture *f)
{
    fixture_run_ms(f, 10);
    return mem_stock_reported(f->stock, f->item);
}

/* Rule 34c. */
static void test_of_the_current_epoch(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    assert_true(f.last.ask_again);
    assert_true(uuid_is_nil(&f.last.reservation_id));
    assert_true(reported(&f));
    /* however long ago the epoch began: within it nothing may be lost */
    fixture_run_ms(&f, 2 * MAX_HOLD_MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    fixture_deinit(&f);
}

/* Without the proof all stays as it was. */
static void test_without_a_token(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    move_epoch(&f, 2);
    fixture_run_ms(&f, MAX_HOLD_MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ITEM@3.0 ANSWER@4.0 404 NOT_FOUND none");
    assert_false(reported(&f));
    fixture_deinit(&f);
}

/* Rule 37: only max_hold after the first rebuild that did not find it; till then the message may
 * still come. The next ones take nothing back. */
static void test_of_an_older_epoch(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    move_epoch(&f, 2);
    int64_t lost_us = f.sched.now_us + MAX_HOLD_MS * MS;
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    assert_true(f.last.ask_again);
    fixture_run_ms(&f, MAX_HOLD_MS / 2);
    move_epoch(&f, 3);
    mem_clock_run_for(&f.sched, lost_us - f.sched.now_us - 6 * MS); /* answered in the 5th */
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    mem_clock_run_for(&f.sched, lost_us - f.sched.now_us);
    for (int64_t epoch = 4; epoch <= 5; epoch++) {
        fixture_ask(&f, 5, 1);
        assert_string_equal(f.trace, LOST);
        assert_int_equal(f.last.verdict.reason, REASON_LOST_RESERVATION);
        assert_false(f.last.ask_again);
        move_epoch(&f, epoch);
    }
    assert_false(reported(&f)); /* it was rebuilt: nothing is amiss now */
    f.accepted_epoch = 3; /* of after the first one: the third did not find it, or the fourth */
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    fixture_deinit(&f);
}

/* A rebuild that is not at its end says nothing yet of what is lost. */
static void test_while_it_is_rebuilt(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    mem_db_put_item(f.db, f.item, 100, 2);
    fixture_run_ms(&f, 2 * MAX_HOLD_MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    assert_false(reported(&f));
    fixture_deinit(&f);
}

/* PostgreSQL went back: what it says of the epoch is old. */
static void test_of_a_newer_epoch(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 2;
    fixture_run_ms(&f, 2 * MAX_HOLD_MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    assert_true(reported(&f));
    fixture_deinit(&f);
}

/* A token says nothing that a store knows better, an order of after the rebuild least of all. */
static void test_what_is_known_is_told(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    fixture_reserve(&f, 5, 1);
    fixture_place(&f, 6, 2);
    fixture_void(&f, 7, 3);
    move_epoch(&f, 2);
    fixture_run_ms(&f, MAX_HOLD_MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@3.0 200 QUEUED redis");
    fixture_ask(&f, 6, 2);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@3.0 200 SUCCEEDED postgresql");
    fixture_ask(&f, 7, 3);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@3.0 200 FAILED postgresql");
    assert_int_equal(f.last.verdict.reason, REASON_VOID);
    assert_false(reported(&f));
    fixture_deinit(&f);
}

/* The item was lost as well: that is when buyers come with their tokens. */
static void test_with_the_item(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    fixture_reserve(&f, 5, 1);
    mem_stock_lose_item(f.stock, f.item);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    assert_true(reported(&f));
    mem_stock_unlist_all(f.stock);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    fixture_deinit(&f);
}

/* When the item's records may be gone by rights, that nothing is found means nothing. */
static void test_after_the_horizon(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    mem_db_set_expiry(f.db, f.item, mem_clock_wall_ms(&f.sched) + 1000);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, QUEUED);
    fixture_run_ms(&f, 1000);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 EPOCH@3.0 ANSWER@5.0 404 NOT_FOUND none");
    fixture_deinit(&f);
}

/* PostgreSQL does not know an item that was sold: nothing true can be said of it. */
static void test_an_item_that_postgresql_lost(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    f.item.sku_id = 9;
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 EPOCH@3.0 ANSWER@5.0 503 DEPENDENCY_UNAVAILABLE none");
    fixture_deinit(&f);
}

/* Every fault of every read: 200 QUEUED or 503, never 404, never LOST, and a report only for what
 * was really looked for everywhere. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        enum mem_fault_kind kind;
        int64_t delay_us;
    } faults[] = {
        {MEM_FAULT_NOT_DONE, 0},          {MEM_FAULT_REPLY_LOST, 0},
        {MEM_FAULT_REQUEST_LOST, 0},      {MEM_FAULT_REPLY_LATE, 5000 * MS},
        {MEM_FAULT_HELD_BACK, 5000 * MS}, {MEM_FAULT_ANSWER, ERR_INTERNAL},
        {MEM_FAULT_ANSWER, ERR_OVERLOAD}, {MEM_FAULT_ANSWER, ERR_CANCELED},
    };
    static const int pg[] = {MEM_ORDERS_FIND_REQUEST, MEM_ORDERS_INVENTORY};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        enum answer expected = faults[i].delay_us == ERR_INTERNAL ? ANSWER_INTERNAL_ERROR
                                                                  : ANSWER_DEPENDENCY_UNAVAILABLE;
        for (int where = 0; where < 3; where++) {
            struct fixture f;
            fixture_init(&f, SETUP);
            f.accepted_epoch = 1;
            if (where == 2)
                fixture_stock_fault(&f, MEM_STOCK_LOOKUP, 1, faults[i].kind, faults[i].delay_us);
            else
                mem_jobs_fault_all(f.jobs, pg[where], 1, faults[i].kind, faults[i].delay_us);
            fixture_ask(&f, 5, 1);
            assert_int_equal(f.last.answer, expected);
            assert_false(reported(&f));
            fixture_ask(&f, 5, 1); /* the next one is told */
            assert_int_equal(f.last.answer, ANSWER_OK);
            assert_true(reported(&f));
            fixture_run_ms(&f, 6000);
            fixture_deinit(&f);
        }
    }
}

/* A thousand buyers with tokens are one report a second and item, and few reads. */
static void test_reports_are_few(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    for (int round = 1; round <= 3; round++) {
        int64_t begun = f.sched.now_us;
        for (int i = 0; i < 9; i++) {
            fixture_request(&f, 1 + i, 1 + (unsigned)i, NULL);
            fixture_run_ms(&f, 5);
        }
        fixture_run_ms(&f, 200);
        assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_REPORT), round);
        mem_clock_run_for(&f.sched, begun + REPORTER_EVERY_US + 10 * MS - f.sched.now_us);
    }
    assert_int_equal(f.answers, 27);
    fixture_deinit(&f);
}

/* A report that did not arrive is repeated by the next who asks. */
static void test_a_report_that_failed(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    f.accepted_epoch = 1;
    fixture_stock_fault(&f, MEM_STOCK_REPORT, 1, MEM_FAULT_NOT_DONE, 0);
    fixture_request(&f, 5, 1, NULL);
    fixture_run_ms(&f, 20);
    assert_false(mem_stock_reported(f.stock, f.item));
    fixture_request(&f, 5, 1, NULL);
    fixture_run_ms(&f, 20);
    assert_true(mem_stock_reported(f.stock, f.item));
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_REPORT), 2);
    fixture_deinit(&f);
}

/* Items beyond the reporter's places are dropped while those are taken, and served afterwards. */
static void test_more_items_than_places(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    for (int i = 0; i < REPORTER_ITEMS + 6; i++)
        reporter_report(&f.reporter, (struct item){7, 1 + i}, REPORT_NOWHERE);
    fixture_run_ms(&f, 20);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_REPORT), REPORTER_ITEMS);
    assert_false(mem_stock_reported(f.stock, (struct item){7, REPORTER_ITEMS + 1}));
    fixture_run_ms(&f, 1000);
    reporter_report(&f.reporter, (struct item){7, REPORTER_ITEMS + 1}, REPORT_NOWHERE);
    fixture_run_ms(&f, 20);
    assert_true(mem_stock_reported(f.stock, (struct item){7, REPORTER_ITEMS + 1}));
    fixture_deinit(&f);
}

/* Whoever leaves is not answered; what was seen is reported if it was seen whole. */
static void test_viewers_leave(void **state)
{
    (void)state;
    for (int ms = 0; ms < 7; ms++) {
        struct fixture f;
        struct lookup *l;
        fixture_init(&f, SETUP);
        f.accepted_epoch = 1;
        assert_int_equal(fixture_request(&f, 5, 1, &l), LOOKUP_STARTED);
        fixture_run_ms(&f, ms);
        if (f.answers == 0)
            lookup_gone(l);
        fixture_run_ms(&f, 1000);
        assert_int_equal(f.answers, ms >= 5);
        assert_int_equal(mem_stock_reported(f.stock, f.item), ms >= 5);
        fixture_deinit(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_the_current_epoch),
        cmocka_unit_test(test_without_a_token),
        cmocka_unit_test(test_of_an_older_epoch),
        cmocka_unit_test(test_while_it_is_rebuilt),
        cmocka_unit_test(test_of_a_newer_epoch),
        cmocka_unit_test(test_what_is_known_is_told),
        cmocka_unit_test(test_with_the_item),
        cmocka_unit_test(test_after_the_horizon),
        cmocka_unit_test(test_an_item_that_postgresql_lost),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_reports_are_few),
        cmocka_unit_test(test_a_report_that_failed),
        cmocka_unit_test(test_more_items_than_places),
        cmocka_unit_test(test_viewers_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
