/* Every wait × every fault: what the first try meets, what the second one does, and what the buyer
 * is told. Rules 13, 14, 15, 32. */
#include "reserve_faults.h"

struct row {
    const char *name;
    int64_t units;
    struct reserve_fault first, second;
    const char *trace;
    int64_t held; /* units held by the buyer when everything has come to rest */
};

/* clang-format off */
static const struct row rows[] = {
    {"no fault", 1, OK_, OK_, "HOLD@0.0 ANSWER@1.0 202 QUEUED", 1},
    {"a slow reply within the try", 1, LATE(60), OK_, "HOLD@0.0 ANSWER@61.0 202 QUEUED", 1},
    {"refused", 1, NOT_DONE, OK_, "HOLD@0.0 ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE", 0},
    {"sold out", 0, OK_, OK_, "HOLD@0.0 ANSWER@1.0 409 SOLD_OUT", 0},
    {"pipeline full", 1, ANSWER(ERR_OVERLOAD), OK_, "HOLD@0.0 ANSWER@1.0 429 OVERLOADED", 0},
    {"not sent in time", 1, ANSWER(ERR_DEADLINE), OK_, "HOLD@0.0 ANSWER@1.0 504 TIMEOUT", 0},
    {"cut off by a drain", 1, ANSWER(ERR_CANCELED), OK_, "HOLD@0.0 ANSWER@1.0 503 DRAINING", 0},

    /* rule 13: the second try meets the first one's record: confirmed, and no replay */
    {"rule 13: done, reply lost", 1, REPLY_LOST, OK_, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 202 QUEUED", 1},
    {"rule 13: done, reply too late", 1, LATE(200), OK_, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@66.0 202 QUEUED", 1},
    {"rule 13: not done, no answer", 1, REQUEST_LOST, OK_, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 202 QUEUED", 1},
    {"rule 13: an answer without sense", 1, ANSWER(ERR_INTERNAL), OK_, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 202 QUEUED", 1},

    /* still unknown: 504, never 202, never a refusal */
    {"lost twice", 1, REPLY_LOST, REPLY_LOST, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 1},
    {"requests lost twice", 1, REQUEST_LOST, REQUEST_LOST, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 0},
    {"late twice", 1, LATE(200), LATE(200), "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@90.0 504 TIMEOUT", 1},
    {"no sense twice", 1, ANSWER(ERR_INTERNAL), ANSWER(ERR_INTERNAL), "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 500 INTERNAL_ERROR", 0},

    /* rule 14: one unknown makes the whole unknown */
    {"rule 14: done unseen, then refused", 1, REPLY_LOST, NOT_DONE, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 1},
    {"rule 14: not done unseen, then refused", 1, REQUEST_LOST, NOT_DONE, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 0},
    {"rule 14: the first may still come", 0, REQUEST_LOST, OK_, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 0},
    {"rule 14: the first can come no more", 0, LATE(200), OK_, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@66.0 409 SOLD_OUT", 0},

    /* rule 15 */
    {"rule 15: held back beyond its deadline takes nothing", 1, HELD_BACK(300), NOT_DONE, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@66.0 504 TIMEOUT", 0},
    {"rule 15: held back, then bought", 1, HELD_BACK(300), OK_, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@66.0 202 QUEUED", 1},
    {"rule 15: both held back", 1, HELD_BACK(300), HELD_BACK(300), "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@90.0 504 TIMEOUT", 0},
    {"rule 15: too late by the store's clock: no unit was taken", 1, ANSWER(STOCK_TOO_LATE), OK_, "HOLD@0.0 ANSWER@1.0 504 TIMEOUT", 0},
    {"rule 15: unknown, then too late", 1, REPLY_LOST, ANSWER(STOCK_TOO_LATE), "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@2.0 504 TIMEOUT", 1},
};
/* clang-format on */

static void script(struct fixture *f, const struct row *row)
{
    struct mem_faults *faults = mem_stock_faults(f->stock);
    if (row->first.kind)
        mem_faults_add(faults, MEM_STOCK_RESERVE, 1, row->first.kind, row->first.delay);
    if (row->second.kind)
        mem_faults_add(faults, MEM_STOCK_RESERVE, 2, row->second.kind, row->second.delay);
}

static void test_every_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct fixture f;
        fixture_init(&f, row->units, 4);
        script(&f, row);
        fixture_buy(&f, 5, 1);
        if (strcmp(f.trace, row->trace) != 0 || fixture_held(&f) != row->held)
            fail_msg("%s: %s, held %d; expected %s, held %d", row->name, f.trace,
                     (int)fixture_held(&f), row->trace, (int)row->held);
        /* One unit at most, whatever was asked how often; and 202 only with a unit held. */
        assert_true(fixture_held(&f) <= 1);
        assert_true(f.last.answer != ANSWER_ACCEPTED || fixture_held(&f) == 1);
        assert_true(answer_info(f.last.answer)->status != 409 || fixture_held(&f) == 0);
        fixture_deinit(&f);
    }
}

/* Whatever happened: the buyer who asks again with the same key learns the truth. */
static void test_same_key_again_tells(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        fixture_init(&f, rows[i].units, 4);
        script(&f, &rows[i]);
        fixture_buy(&f, 5, 1);
        fixture_run_ms(&f, 1000);
        mem_faults_clear(mem_stock_faults(f.stock), -1);
        bool held = fixture_held(&f) == 1;
        fixture_buy(&f, 5, 1);
        assert_int_equal(f.last.answer, rows[i].units ? ANSWER_ACCEPTED : ANSWER_SOLD_OUT);
        assert_int_equal(f.last.replayed, held);
        fixture_deinit(&f);
    }
}

static void test_rule_13_same_ids(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 2, 4);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 1, MEM_FAULT_REPLY_LOST, 0);
    fixture_buy(&f, 5, 1);
    struct reserve_request q = fixture_request(&f, 5, 1);
    const struct reservation *r = mem_stock_find(f.stock, f.item, 5, &q.request_id);
    assert_non_null(r);
    assert_true(uuid_eq(&r->reservation_id, &f.last.reservation_id));
    assert_int_equal(r->order_id, f.last.order_id);
    assert_int_equal(mem_stock_faults(f.stock)->calls[MEM_STOCK_RESERVE], 2);
    fixture_deinit(&f);
}

/* The worker was faster than the second try: still this request's own result, and no replay. */
static void test_rule_13_settled_in_between(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 1, 4);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 1, MEM_FAULT_REPLY_LATE, 200 * MS);
    assert_int_equal(fixture_submit(&f, 5, 1, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 10);
    fixture_settle(&f, 5, 1, (struct verdict){VERDICT_SUCCEEDED, REASON_NONE}, false);
    fixture_run_ms(&f, 200);
    assert_string_equal(f.trace, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@66.0 202 SUCCEEDED");
    fixture_deinit(&f);
}

static void test_rule_32_budget_exhausted(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 9, 4);
    retry_budget_init(&f.budget, 5, 2, f.sched.now_us);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 0, MEM_FAULT_REQUEST_LOST, 0);
    fixture_buy(&f, 1, 1);
    fixture_buy(&f, 2, 2);
    fixture_buy(&f, 3, 3);
    assert_string_equal(f.trace, "HOLD@2000.0 ANSWER@2001.0 504 TIMEOUT");
    assert_int_equal(mem_stock_faults(f.stock)->calls[MEM_STOCK_RESERVE], 5);
    fixture_deinit(&f);
}

/* The budget runs from the request's first byte, not from its submission. */
static void test_no_time_for_a_second_try(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 9, 4);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 0, MEM_FAULT_REPLY_LATE, 500 * MS);
    struct reserve_request q = fixture_request(&f, 1, 1);
    q.received_us -= 30 * MS;
    assert_int_equal(reserve_submit(&f.pool, &q, &f, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 1000);
    assert_string_equal(f.trace, "HOLD@0.0 ANSWER@60.0 504 TIMEOUT");
    fixture_clear_trace(&f);
    q = fixture_request(&f, 2, 2);
    q.received_us -= 90 * MS;
    uint64_t late = metric_value(f.pool.count.late);
    assert_int_equal(reserve_submit(&f.pool, &q, &f, NULL), ERR_DEADLINE);
    assert_int_equal(metric_value(f.pool.count.late), late + 1);
    assert_int_equal(reserve_pool_busy(&f.pool), 0);
    assert_string_equal(f.trace, "");
    fixture_deinit(&f);
}

static void test_admission_full(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 9, 2);
    assert_int_equal(fixture_submit(&f, 1, 1, NULL), RESERVE_STARTED);
    assert_int_equal(fixture_submit(&f, 2, 2, NULL), RESERVE_STARTED);
    assert_int_equal(fixture_submit(&f, 3, 3, NULL), ERR_OVERLOAD);
    assert_int_equal(reserve_pool_busy(&f.pool), 2);
    fixture_run_ms(&f, 5);
    assert_int_equal(f.answers, 2);
    assert_int_equal(f.idles, 1);
    assert_int_equal(fixture_submit(&f, 3, 3, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 5);
    assert_int_equal(fixture_held(&f), 3);
    fixture_deinit(&f);
}

static void test_rule_38_no_ids(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 9, 2);
    order_id_revoke(&f.ids);
    assert_int_equal(fixture_submit(&f, 1, 1, NULL), ERR_UNAVAIL);
    assert_int_equal(reserve_pool_busy(&f.pool), 0);
    fixture_deinit(&f);
}

/* The port is freed under a flow: it ends, as not done or unknown. */
static void test_port_freed(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 9, 2);
    retry_budget_init(&f.budget, 0, 0, f.sched.now_us);
    assert_int_equal(fixture_submit(&f, 1, 1, NULL), RESERVE_STARTED);
    fixture_deinit(&f);
    assert_string_equal(f.trace, "HOLD@0.0 ANSWER@0.0 503 DRAINING");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(test_same_key_again_tells),
        cmocka_unit_test(test_rule_13_same_ids),
        cmocka_unit_test(test_rule_13_settled_in_between),
        cmocka_unit_test(test_rule_32_budget_exhausted),
        cmocka_unit_test(test_no_time_for_a_second_try),
        cmocka_unit_test(test_admission_full),
        cmocka_unit_test(test_rule_38_no_ids),
        cmocka_unit_test(test_port_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
