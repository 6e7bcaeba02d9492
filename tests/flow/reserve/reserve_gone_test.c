/* The client goes away, in each state and at each fault: before the hold is confirmed that cancels
 * the call; the flow always ends, is answered to nobody, and its slot comes back. */
#include "reserve_fixture.h"

struct row {
    const char *name;
    enum mem_fault_kind first;
    int64_t first_delay_us;
    int64_t gone_after_us;
    const char *trace;
    int64_t held;
};

/* clang-format off */
static const struct row rows[] = {
    {"before it was written", MEM_FAULT_NONE, 0, 0, "HOLD@0.0 ANSWER@0.0", 0},
    {"on its way", MEM_FAULT_NONE, 0, 300, "HOLD@0.0 ANSWER@0.3", 1},
    {"done, not yet heard", MEM_FAULT_NONE, 0, 700, "HOLD@0.0 ANSWER@0.7", 1},
    {"waiting for a late reply", MEM_FAULT_REPLY_LATE, 200 * MS, 20 * MS, "HOLD@0.0 ANSWER@20.0", 1},
    {"waiting for a reply that is lost: no second try", MEM_FAULT_REPLY_LOST, 0, 700, "HOLD@0.0 ANSWER@0.7", 1},
    {"a request that is lost", MEM_FAULT_REQUEST_LOST, 0, 300, "HOLD@0.0 ANSWER@0.3", 0},
    {"refused", MEM_FAULT_NOT_DONE, 0, 300, "HOLD@0.0 ANSWER@0.3", 0},
    {"held back beyond the deadline", MEM_FAULT_HELD_BACK, 300 * MS, 20 * MS, "HOLD@0.0 ANSWER@20.0", 0},
    {"in the second try, before it was written", MEM_FAULT_REQUEST_LOST, 0, 1000, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@1.0", 0},
    {"in the second try, on its way", MEM_FAULT_REQUEST_LOST, 0, 1300, "HOLD@0.0 HOLD_AGAIN@1.0 ANSWER@1.3", 1},
    {"in the second try, done", MEM_FAULT_REPLY_LATE, 200 * MS, 65700, "HOLD@0.0 HOLD_AGAIN@65.0 ANSWER@65.7", 1},
};
/* clang-format on */

static void test_gone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct fixture f;
        struct reserve *r;
        fixture_init(&f, 1, 1);
        if (row->first)
            mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 1, row->first,
                           row->first_delay_us);
        assert_int_equal(fixture_submit(&f, 5, 1, &r), RESERVE_STARTED);
        mem_clock_run_for(&f.sched, row->gone_after_us);
        assert_int_equal(reserve_pool_busy(&f.pool), 1);
        reserve_gone(r);
        fixture_run_ms(&f, 1000);
        if (strcmp(f.trace, row->trace) != 0 || fixture_held(&f) != row->held)
            fail_msg("%s: %s, held %d; expected %s, held %d", row->name, f.trace,
                     (int)fixture_held(&f), row->trace, (int)row->held);
        assert_int_equal(f.answers, 0);
        assert_int_equal(reserve_pool_busy(&f.pool), 0);
        assert_int_equal(f.idles, 1);
        /* The slot is free, and the same key tells what became of it. */
        bool held = fixture_held(&f) == 1;
        fixture_buy(&f, 5, 1);
        assert_int_equal(f.last.answer, ANSWER_ACCEPTED);
        assert_int_equal(f.last.replayed, held);
        fixture_deinit(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
