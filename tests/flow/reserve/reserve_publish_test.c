/* A queue that is not the store's, mode `recover`: every fault of the publish and of the mark. The
 * buyer with a confirmed hold is told 202 whatever happens to the message, and in time; recovery
 * finds the rest. Rules 1, 13, 14. */
#include "reserve_publish_rows.h"

/* clang-format off */
static const struct publish_row rows[] = {
    {"no fault", OK_, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_SENT, 1},
    {"a slow publish, within the buyer's patience", LATE(30), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@32.0 202 QUEUED END@33.0", 32, 1, RESERVATION_MQ_SENT, 1},
    {"told before the publish ended", LATE(200), OK_, "HOLD@0.0 PUBLISH@1.0 202 QUEUED MARK@202.0 END@203.0", 41, 1, RESERVATION_MQ_SENT, 1},
    {"held back, then stored", HELD_BACK(300), OK_, "HOLD@0.0 PUBLISH@1.0 202 QUEUED MARK@302.0 END@303.0", 41, 1, RESERVATION_MQ_SENT, 1},
    {"stored twice", TWICE, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_SENT, 2},

    /* rule 14: refused is for recovery as well as unknown */
    {"rule 14: refused", NOT_DONE, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: refused by the broker's rules", ANSWER(ERR_DENIED), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: too many under way", ANSWER(ERR_OVERLOAD), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: unknown, done", REPLY_LOST, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 1},
    {"rule 14: unknown, not done", REQUEST_LOST, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: an answer without sense", ANSWER(ERR_INTERNAL), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: an outcome that publish has not", ANSWER(3), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: no answer within its budget, done", LATE(600), OK_, "HOLD@0.0 PUBLISH@1.0 202 QUEUED MARK@501.0 END@502.0", 41, 1, RESERVATION_MQ_PENDING, 1},
    {"rule 14: stored after its budget", HELD_BACK(600), OK_, "HOLD@0.0 PUBLISH@1.0 202 QUEUED MARK@501.0 END@502.0", 41, 1, RESERVATION_MQ_PENDING, 1},

    /* the mark: nothing depends on it */
    {"mark refused", OK_, NOT_DONE, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_RESERVED, 1},
    {"mark done unseen", OK_, REPLY_LOST, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_SENT, 1},
    {"mark lost", OK_, REQUEST_LOST, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_RESERVED, 1},
    {"mark late", OK_, LATE(200), "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@62.0", 2, 1, RESERVATION_MQ_SENT, 1},
    {"mark held back", OK_, HELD_BACK(200), "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@62.0", 2, 1, RESERVATION_MQ_SENT, 1},
    {"refused, and the mark too", NOT_DONE, NOT_DONE, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_RESERVED, 0},
    {"unknown, and the mark too", REPLY_LOST, REPLY_LOST, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 1},
};
/* clang-format on */

static void test_every_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        publish_row_run(&rows[i], false, MEM_STOCK_MARK);
}

/* Rule 13, and what is not published: a refusal, a replay of an earlier request, a hold that stays
 * unknown (recovery looks for it). */
static void test_only_a_confirmed_hold_is_published(void **state)
{
    (void)state;
    static const struct {
        enum mem_fault_kind first, second;
        int64_t units;
        const char *trace;
        int messages;
    } holds[] = {
        {MEM_FAULT_REPLY_LOST, MEM_FAULT_NONE, 1,
         "HOLD@0.0 HOLD_AGAIN@1.0 PUBLISH@2.0 MARK@3.0 202 QUEUED END@4.0", 1},
        {MEM_FAULT_REQUEST_LOST, MEM_FAULT_NONE, 1,
         "HOLD@0.0 HOLD_AGAIN@1.0 PUBLISH@2.0 MARK@3.0 202 QUEUED END@4.0", 1},
        {MEM_FAULT_REPLY_LOST, MEM_FAULT_REPLY_LOST, 1,
         "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 0},
        {MEM_FAULT_REPLY_LOST, MEM_FAULT_NOT_DONE, 1,
         "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 0},
        {MEM_FAULT_NOT_DONE, MEM_FAULT_NONE, 1, "HOLD@0.0 ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE",
         0},
        {MEM_FAULT_NONE, MEM_FAULT_NONE, 0, "HOLD@0.0 ANSWER@1.0 409 SOLD_OUT", 0},
    };
    for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        struct fixture f;
        fixture_init_queue(&f, holds[i].units, 4, i % 2);
        mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 1, holds[i].first, 0);
        mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 2, holds[i].second, 0);
        fixture_buy(&f, 5, 1);
        assert_string_equal(f.trace, holds[i].trace);
        assert_int_equal(mem_broker_unacked(f.broker, f.item), holds[i].messages);
        fixture_deinit(&f);
    }
}

static void test_a_replay_publishes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_queue(&f, 2, 4, false);
    fixture_buy(&f, 5, 1);
    fixture_buy(&f, 5, 1);
    assert_string_equal(f.trace, "HOLD@1000.0 ANSWER@1001.0 202 QUEUED replayed");
    fixture_buy(&f, 5, 2);
    assert_string_equal(f.trace, "HOLD@2000.0 ANSWER@2001.0 409 DUPLICATE_ORDER");
    assert_int_equal(mem_broker_unacked(f.broker, f.item), 1);
    fixture_deinit(&f);
}

/* Recovery and the worker were faster than the second try: the order is there, and no message is
 * missing. */
static void test_settled_before_the_second_try(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_queue(&f, 1, 4, false);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 1, MEM_FAULT_REPLY_LOST, 0);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 2, MEM_FAULT_HELD_BACK, 20 * MS);
    assert_int_equal(fixture_submit(&f, 5, 1, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 10);
    fixture_settle(&f, 5, 1, (struct verdict){VERDICT_SUCCEEDED, REASON_NONE}, false);
    fixture_run_ms(&f, 200);
    assert_string_equal(f.trace, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@22.0 202 SUCCEEDED");
    assert_int_equal(mem_broker_unacked(f.broker, f.item), 0);
    fixture_deinit(&f);
}

#define TRACEPARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

/* The message is the reservation's, and carries the version at which it was made: the second try's
 * answer may come after others have bought. */
static void test_the_event_is_the_records(void **state)
{
    (void)state;
    struct fixture f;
    struct event e;
    const char *why;
    fixture_init_queue(&f, 9, 4, false);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 1, MEM_FAULT_REPLY_LOST, 0);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 2, MEM_FAULT_HELD_BACK, 20 * MS);
    struct reserve_request q = fixture_request(&f, 5, 1);
    q.traceparent = STR(TRACEPARENT);
    q.tracestate = STR("a=b");
    assert_int_equal(reserve_submit(&f.pool, &q, &f, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 5);
    assert_int_equal(fixture_submit(&f, 6, 2, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 500);
    const struct reservation *r = fixture_record(&f, 5, 1);
    assert_int_equal(mem_broker_unacked(f.broker, f.item), 2); /* 6's came first */
    assert_int_equal(event_decode(mem_broker_body(f.broker, f.item, 1), &e, &why), 0);
    assert_true(uuid_eq(&e.message_id, &r->message_id));
    assert_true(uuid_eq(&e.request_id, &r->request_id));
    assert_true(uuid_eq(&e.reservation_id, &r->reservation_id));
    assert_true(item_eq(e.item, f.item));
    assert_int_equal(e.user_id, 5);
    assert_int_equal(e.order_id, r->order_id);
    assert_int_equal(e.version.epoch, r->epoch);
    assert_int_equal(e.version.seq, r->seq);
    assert_int_equal(r->seq, 1);
    assert_int_equal(e.retry_count, 0);
    assert_int_equal(e.created_at_us, q.wall_us);
    assert_true(str_eq(e.traceparent, STR(TRACEPARENT)));
    assert_true(str_eq(e.tracestate, STR("a=b")));
    fixture_deinit(&f);
}

/* The buyer who waited for the hold already waits no longer than its whole budget. */
static void test_told_within_the_submit_budget(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_queue(&f, 9, 4, false);
    mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 0, MEM_FAULT_REPLY_LATE, 300 * MS);
    struct reserve_request q = fixture_request(&f, 5, 1);
    q.received_us -= 80 * MS;
    assert_int_equal(reserve_submit(&f.pool, &q, &f, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 1000);
    assert_string_equal(f.trace, "HOLD@0.0 PUBLISH@1.0 202 QUEUED MARK@302.0 END@303.0");
    assert_int_equal(f.answered_us, 10 * MS);
    fixture_deinit(&f);
}

/* A publish keeps its flow's slot, so their number stays bounded; but the holds' limit is learnt
 * from holds: a slow broker lets no fewer buyers ask Redis. */
static void test_bounds(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_queue(&f, 999, 200, false);
    f.pool.admission.target_us = 10 * MS;
    mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 0, MEM_FAULT_REPLY_LATE, 300 * MS);
    for (int i = 0; i < 200; i++)
        assert_int_equal(fixture_submit(&f, 1000 + i, (unsigned)i, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 100);
    assert_int_equal(f.answers, 200);
    assert_int_equal(f.pool.admission.in_flight, 0);
    assert_int_equal(reserve_pool_busy(&f.pool), 200);
    assert_int_equal(fixture_submit(&f, 1, 1, NULL), ERR_OVERLOAD);
    assert_int_equal(f.idles, 0);
    fixture_run_ms(&f, 400);
    assert_int_equal(reserve_pool_busy(&f.pool), 0);
    assert_int_equal(f.idles, 1); /* a drain waits for it */
    assert_int_equal(admission_limit(&f.pool.admission), 200);
    assert_int_equal(mem_broker_unacked(f.broker, f.item), 200);
    fixture_deinit(&f);
}

/* Both ports are freed under a flow, as at the end of a drain that took too long: it ends. */
static void test_ports_freed(void **state)
{
    (void)state;
    for (int at = 0; at < 30; at++) {
        for (int strict = 0; strict < 2; strict++) {
            struct fixture f;
            fixture_init_queue(&f, 9, 2, strict);
            if (strict)
                mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_NOT_DONE,
                               0);
            retry_budget_init(&f.budget, 0, 0, f.sched.now_us);
            assert_int_equal(fixture_submit(&f, 5, 1, NULL), RESERVE_STARTED);
            mem_clock_run_for(&f.sched, at * 100);
            fixture_deinit(&f); /* panics with a flow under way */
            assert_int_equal(f.answers, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(test_only_a_confirmed_hold_is_published),
        cmocka_unit_test(test_a_replay_publishes_nothing),
        cmocka_unit_test(test_settled_before_the_second_try),
        cmocka_unit_test(test_the_event_is_the_records),
        cmocka_unit_test(test_told_within_the_submit_budget),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_ports_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
