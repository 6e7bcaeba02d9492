/* A queue that is not the store's, and a hold whose answer comes late, or never: the buyer hears
 * 504 when its budget is over, and a unit that was taken in time is published all the same,
 * whenever that is heard. Rules 1, 13, 14. */
#include "reserve_faults.h"

#define NO_RECORD (-1)

struct late_row {
    const char *name;
    bool strict;
    struct reserve_fault first, second, publish;
    const char *trace;
    int64_t told_ms;
    int held, status, messages;
};

/* clang-format off */
static const struct late_row rows[] = {
    {"late, and within the budget: 202", false, LATE(60), OK_, OK_, "HOLD@0.0 PUBLISH@61.0 MARK@62.0 202 QUEUED END@63.0", 62, 1, RESERVATION_MQ_SENT, 1},
    {"late, told before the publish ended", false, LATE(60), OK_, LATE(100), "HOLD@0.0 PUBLISH@61.0 202 QUEUED MARK@162.0 END@163.0", 90, 1, RESERVATION_MQ_SENT, 1},
    {"after the buyer was told", false, LATE(200), OK_, OK_, "HOLD@0.0 504 TIMEOUT PUBLISH@201.0 MARK@202.0 END@203.0", 90, 1, RESERVATION_MQ_SENT, 1},
    {"after the buyer was told, and nobody waits for the publish", false, LATE(200), OK_, LATE(200), "HOLD@0.0 504 TIMEOUT PUBLISH@201.0 MARK@402.0 END@403.0", 90, 1, RESERVATION_MQ_SENT, 1},
    {"after the buyer was told, and the publish is refused: recovery's", false, LATE(200), OK_, NOT_DONE, "HOLD@0.0 504 TIMEOUT PUBLISH@201.0 MARK@202.0 END@203.0", 90, 1, RESERVATION_MQ_PENDING, 0},
    {"later than that is heard: recovery's", false, LATE(900), OK_, OK_, "HOLD@0.0 504 TIMEOUT ANSWER@500.0", 90, 1, RESERVATION_RESERVED, 0},
    {"held back: takes nothing", false, HELD_BACK(60), OK_, OK_, "HOLD@0.0 ANSWER@61.0 504 TIMEOUT", 61, 0, NO_RECORD, 0},
    {"held back beyond the budget: takes nothing", false, HELD_BACK(200), OK_, OK_, "HOLD@0.0 504 TIMEOUT ANSWER@201.0", 90, 0, NO_RECORD, 0},
    {"lost with its connection, the second is late", false, REPLY_LOST, LATE(200), OK_, "HOLD@0.0 HOLD_AGAIN@1.0 504 TIMEOUT PUBLISH@202.0 MARK@203.0 END@204.0", 90, 1, RESERVATION_MQ_SENT, 1},
    {"never reached the store, the second is late", false, REQUEST_LOST, LATE(200), OK_, "HOLD@0.0 HOLD_AGAIN@1.0 504 TIMEOUT PUBLISH@202.0 MARK@203.0 END@204.0", 90, 1, RESERVATION_MQ_SENT, 1},
    {"strict: late, and within the budget", true, LATE(60), OK_, OK_, "HOLD@0.0 PUBLISH@61.0 MARK@62.0 202 QUEUED END@63.0", 62, 1, RESERVATION_MQ_SENT, 1},
    {"strict: after the buyer was told", true, LATE(200), OK_, OK_, "HOLD@0.0 504 TIMEOUT PUBLISH@201.0 MARK@202.0 END@203.0", 90, 1, RESERVATION_MQ_SENT, 1},
    {"strict: after the buyer was told, refused, taken back", true, LATE(200), OK_, NOT_DONE, "HOLD@0.0 504 TIMEOUT PUBLISH@201.0 RELEASE@202.0 ANSWER@203.0", 90, 0, NO_RECORD, 0},
};
/* clang-format on */

static void test_every_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct late_row *row = &rows[i];
        struct fixture f;
        fixture_init_queue(&f, 1, 4, row->strict);
        struct mem_faults *stock = mem_stock_faults(f.stock);
        mem_faults_add(stock, MEM_STOCK_RESERVE, 1, row->first.kind, row->first.delay);
        mem_faults_add(stock, MEM_STOCK_RESERVE, 2, row->second.kind, row->second.delay);
        mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, row->publish.kind,
                       row->publish.delay);
        fixture_buy(&f, 5, 1);
        const struct reservation *r = fixture_record(&f, 5, 1);
        int status = r ? (int)r->status : NO_RECORD, n = mem_broker_unacked(f.broker, f.item);
        if (strcmp(f.trace, row->trace) != 0 || f.answered_us != row->told_ms * MS ||
            status != row->status || n != row->messages || fixture_held(&f) != row->held)
            fail_msg("%s: %s, told at %d ms, held %d, status %d, %d messages", row->name, f.trace,
                     (int)(f.answered_us / MS), (int)fixture_held(&f), status, n);
        /* The same key tells what became of it. */
        mem_faults_clear(stock, -1);
        fixture_buy(&f, 5, 1);
        assert_int_equal(f.last.answer, ANSWER_ACCEPTED);
        assert_int_equal(f.last.replayed, row->held);
        fixture_deinit(&f);
    }
}

/* An answer that is waited for keeps its flow and its place among the holds: while the store does
 * not answer, what asks next is refused at once. */
static void test_bounds(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_queue(&f, 999, 100, false);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 0, MEM_FAULT_REPLY_LATE, 300 * MS);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fixture_submit(&f, 1000 + i, (unsigned)i, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 100);
    assert_int_equal(f.answers, 100);
    assert_int_equal(f.last.answer, ANSWER_TIMEOUT);
    assert_int_equal(f.pool.admission.in_flight, 100);
    assert_int_equal(fixture_submit(&f, 1, 1, NULL), ERR_OVERLOAD);
    assert_int_equal(f.idles, 0);
    fixture_run_ms(&f, 400);
    assert_int_equal(f.pool.admission.in_flight, 0);
    assert_int_equal(reserve_pool_busy(&f.pool), 0);
    assert_int_equal(f.idles, 1); /* a drain waits for it */
    assert_int_equal(mem_broker_unacked(f.broker, f.item), 100);
    fixture_deinit(&f);
}

/* Where the store publishes there is nothing to wait for: the message is where the unit is. */
static void test_not_where_the_store_publishes(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1, 4);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 0, MEM_FAULT_REPLY_LATE, 200 * MS);
    fixture_buy(&f, 5, 1);
    assert_string_equal(f.trace, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@90.0 504 TIMEOUT");
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_not_where_the_store_publishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
