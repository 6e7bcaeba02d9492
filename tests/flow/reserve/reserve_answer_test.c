/* What each outcome of the store becomes for the buyer: replays, duplicates, refusals, the hint. */
#include "reserve_fixture.h"

static const struct {
    enum verdict_state state;
    enum verdict_reason reason;
    bool give_back;
    const char *trace;
} settled[] = {
    {VERDICT_SUCCEEDED, REASON_NONE, false, "202 SUCCEEDED replayed"},
    {VERDICT_SOLD_OUT, REASON_PG_STOCK_EXHAUSTED, false, "409 SOLD_OUT replayed"},
    {VERDICT_REJECTED, REASON_ONE_USER_ONE_ORDER, true, "409 DUPLICATE_ORDER replayed"},
    {VERDICT_REJECTED, REASON_IDEMPOTENCY_KEY_REUSED, true, "422 IDEMPOTENCY_KEY_REUSED replayed"},
    {VERDICT_REJECTED, REASON_ID_COLLISION, true, "409 REQUEST_CLOSED replayed"},
    {VERDICT_FAILED, REASON_VOID, true, "409 REQUEST_CLOSED replayed"},
    {VERDICT_FAILED, REASON_GIVEN_UP, true, "409 REQUEST_CLOSED replayed"},
    {VERDICT_CANCELLED, REASON_CANCELLED, true, "409 REQUEST_CLOSED replayed"},
    {VERDICT_CANCELLED, REASON_EXPIRED, true, "409 REQUEST_CLOSED replayed"},
};

static void test_replay_tells_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(settled) / sizeof(settled[0]); i++) {
        struct fixture f;
        char expected[128];
        fixture_init(&f, 3, 4);
        fixture_buy(&f, 5, 1);
        int64_t order_id = f.last.order_id;
        fixture_settle(&f, 5, 1, (struct verdict){settled[i].state, settled[i].reason},
                       settled[i].give_back);
        int64_t at = (f.sched.now_us - MEM_CLOCK_START_US) / MS;
        fixture_buy(&f, 5, 1);
        snprintf(expected, sizeof(expected), "HOLD@%d.0 ANSWER@%d.0 %s", (int)at, (int)at + 1,
                 settled[i].trace);
        assert_string_equal(f.trace, expected);
        assert_int_equal(f.last.verdict.state, settled[i].state);
        assert_int_equal(f.last.verdict.reason, settled[i].reason);
        /* Rule 5: what exists instead is what the buyer hears of. */
        bool other = settled[i].reason == REASON_ONE_USER_ONE_ORDER;
        assert_int_equal(f.last.order_id, other ? 4711 : order_id);
        fixture_deinit(&f);
    }
}

static void test_replay_while_queued(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 3, 4);
    fixture_buy(&f, 5, 1);
    struct reserve_answer first = f.last;
    fixture_buy(&f, 5, 1);
    assert_string_equal(f.trace, "HOLD@1000.0 ANSWER@1001.0 202 QUEUED replayed");
    assert_true(uuid_eq(&first.reservation_id, &f.last.reservation_id));
    assert_int_equal(first.order_id, f.last.order_id);
    assert_int_equal(fixture_held(&f), 1);
    fixture_deinit(&f);
}

/* An order that no rebuild has found proves nothing: what there is, query-api finds out. */
static void test_replay_of_an_order_of_an_epoch_that_is_over(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 3, 4);
    fixture_buy(&f, 5, 1);
    fixture_settle(&f, 5, 1, (struct verdict){VERDICT_SUCCEEDED, REASON_NONE}, false);
    mem_stock_set_epoch(f.stock, f.item, 2);
    fixture_buy(&f, 5, 1);
    assert_int_equal(f.last.answer, ANSWER_ACCEPTED);
    assert_int_equal(f.last.verdict.state, VERDICT_QUEUED);
    assert_int_equal(f.last.epoch, 1);
    fixture_deinit(&f);
}

static void test_duplicate_names_their_own(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 1, 4);
    fixture_buy(&f, 5, 1);
    struct reserve_answer first = f.last;
    fixture_buy(&f, 5, 2);
    assert_string_equal(f.trace, "HOLD@1000.0 ANSWER@1001.0 409 DUPLICATE_ORDER");
    assert_true(uuid_eq(&first.reservation_id, &f.last.reservation_id));
    assert_true(uuid_eq(&first.request_id, &f.last.request_id));
    assert_int_equal(first.order_id, f.last.order_id);
    fixture_deinit(&f);
}

static void expect(struct fixture *f, enum answer a)
{
    fixture_buy(f, 5, 1);
    assert_int_equal(f->last.answer, a);
    assert_int_equal(fixture_held(f), 0);
}

static void test_refusals(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 1, 4);
    int64_t now = mem_clock_wall_ms(&f.sched);
    mem_stock_set_window(f.stock, f.item, now + 1000000, now + 2000000);
    expect(&f, ANSWER_NOT_OPEN);
    mem_stock_set_window(f.stock, f.item, now - 2000000, now - 1000000);
    expect(&f, ANSWER_ENDED);
    mem_stock_set_window(f.stock, f.item, now - 1000000, now + 1000000);
    mem_stock_set_state(f.stock, f.item, STOCK_STATE_PAUSED);
    expect(&f, ANSWER_PAUSED);
    mem_stock_set_state(f.stock, f.item, STOCK_STATE_CLOSED);
    expect(&f, ANSWER_ENDED);
    mem_stock_lose_item(f.stock, f.item); /* rule 34: listed without meta */
    expect(&f, ANSWER_DEPENDENCY_UNAVAILABLE);
    f.item.sku_id = 9; /* not listed */
    fixture_buy(&f, 5, 1);
    assert_int_equal(f.last.answer, ANSWER_NOT_FOUND);
    fixture_deinit(&f);
}

/* Whoever is in the set goes to the store, everybody else is refused without it; the probe's answer
 * renews the hint; a newer version in any answer ends it. */
static void test_hint(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 1, 4);
    fixture_buy(&f, 5, 1);
    fixture_buy(&f, 6, 2);
    assert_int_equal(f.last.answer, ANSWER_SOLD_OUT);
    struct stock_item_info info;
    assert_true(mem_stock_info(f.stock, f.item, &info));
    struct hint_set *set = hint_set_new(f.item, info.version, 1);
    assert_true(hint_set_add(set, 5));
    assert_true(hints_install(&f.hints, set, f.sched.now_us));

    int calls = mem_stock_faults(f.stock)->calls[MEM_STOCK_RESERVE];
    assert_int_equal(fixture_submit(&f, 7, 3, NULL), RESERVE_HINTED_SOLD_OUT);
    assert_int_equal(fixture_submit(&f, 8, 4, NULL), RESERVE_HINTED_SOLD_OUT);
    assert_int_equal(mem_stock_faults(f.stock)->calls[MEM_STOCK_RESERVE], calls);
    assert_int_equal(fixture_submit(&f, 5, 9, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 60);
    assert_int_equal(f.last.answer, ANSWER_DUPLICATE_ORDER);
    /* one probe per 50 ms, the next one is refused again */
    assert_int_equal(fixture_submit(&f, 7, 3, NULL), RESERVE_STARTED);
    assert_int_equal(fixture_submit(&f, 8, 4, NULL), RESERVE_HINTED_SOLD_OUT);
    fixture_run_ms(&f, 20);
    assert_int_equal(f.last.answer, ANSWER_SOLD_OUT);

    fixture_settle(&f, 5, 1, (struct verdict){VERDICT_CANCELLED, REASON_CANCELLED}, true);
    fixture_run_ms(&f, 60);
    assert_int_equal(fixture_submit(&f, 7, 3, NULL), RESERVE_STARTED); /* the probe wins the unit */
    fixture_run_ms(&f, 20);
    assert_int_equal(f.last.answer, ANSWER_ACCEPTED);
    assert_int_equal(fixture_submit(&f, 8, 4, NULL), RESERVE_STARTED); /* and ended the hint */
    fixture_run_ms(&f, 20);
    assert_int_equal(f.last.answer, ANSWER_SOLD_OUT);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_tells_the_same),
        cmocka_unit_test(test_replay_while_queued),
        cmocka_unit_test(test_replay_of_an_order_of_an_epoch_that_is_over),
        cmocka_unit_test(test_duplicate_names_their_own),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
