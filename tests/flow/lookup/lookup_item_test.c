/* An item as everybody may see it: derived state, rough stock, the cache. */
#include "lookup_fixture.h"

static void test_state(void **state)
{
    /* The order in which the reserve script asks. */
    static const struct {
        int64_t starts, ends, free;
        enum stock_state state;
        const char *is;
    } cases[] = {
        {2000, 3000, 5, STOCK_STATE_OPEN, "NOT_OPEN"},
        {2000, 3000, 5, STOCK_STATE_PAUSED, "NOT_OPEN"},
        {2000, 3000, 5, STOCK_STATE_CLOSED, "NOT_OPEN"},
        {1000, 3000, 5, STOCK_STATE_OPEN, "OPEN"},
        {0, 1001, 1, STOCK_STATE_OPEN, "OPEN"},
        {0, 1000, 5, STOCK_STATE_OPEN, "ENDED"},
        {0, 1000, 5, STOCK_STATE_PAUSED, "ENDED"},
        {0, 3000, 5, STOCK_STATE_CLOSED, "ENDED"},
        {0, 3000, 0, STOCK_STATE_CLOSED, "ENDED"},
        {0, 3000, 5, STOCK_STATE_PAUSED, "PAUSED"},
        {0, 3000, 0, STOCK_STATE_PAUSED, "PAUSED"},
        {0, 3000, 0, STOCK_STATE_OPEN, "SOLD_OUT"},
        {0, 3000, -1, STOCK_STATE_OPEN, "SOLD_OUT"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stock_item_info info = {.state = cases[i].state,
                                       .starts_ms = cases[i].starts,
                                       .ends_ms = cases[i].ends,
                                       .total = 5,
                                       .free = cases[i].free};
        struct str name = item_view_state_name(item_view_state(&info, 1000));
        assert_true(str_eq(name, str_of(cases[i].is)));
    }
}

static void test_free_about(void **state)
{
    static const int64_t cases[][3] = {
        {10000, 10000, 10000},
        {10000, 9999, 10000},
        {10000, 9000, 9000},
        {10000, 8001, 9000},
        {10000, 1001, 2000},
        {10000, 999, 1000},
        {10000, 1, 1000},
        {10000, 0, 0},
        {10000, -3, 0},
        {5, 3, 3},
        {1, 1, 1},
        {15, 14, 14},
        {15, 15, 15},
        {19, 18, 18},
        {0, 0, 0},
        {25, 24, 24},
        {25, 23, 24},
        {25, 25, 25},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stock_item_info info = {.total = cases[i][0], .free = cases[i][1]};
        assert_int_equal(item_view_free_about(&info), cases[i][2]);
    }
    /* Never nothing while something is left, never more than there is in all. */
    for (int64_t total = 1; total < 200; total++) {
        for (int64_t left = 0; left <= total; left++) {
            struct stock_item_info info = {.total = total, .free = left};
            int64_t about = item_view_free_about(&info);
            assert_true(about >= left && about <= total && (about == 0) == (left == 0));
        }
    }
}

/* Asked once in 200 ms, however many want to know; all of them hear of the time that passes. */
static void test_cached(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    for (int i = 0; i < 50; i++)
        assert_int_equal(fixture_item(&f, f.item, NULL), LOOKUP_STARTED);
    fixture_run_ms(&f, 1);
    assert_int_equal(f.answers, 50);
    int64_t first_ms = f.last.now_ms;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(fixture_item(&f, f.item, NULL), LOOKUP_AT_ONCE);
        assert_int_equal(f.last.answer, ANSWER_OK);
        assert_int_equal(f.last.now_ms, first_ms + i);
        fixture_run_ms(&f, 1);
    }
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_ITEM), 1);
    fixture_run_ms(&f, 1);
    mem_stock_set_state(f.stock, f.item, STOCK_STATE_PAUSED);
    assert_int_equal(fixture_item(&f, f.item, NULL), LOOKUP_STARTED);
    fixture_run_ms(&f, 1);
    assert_int_equal(f.last.info.state, STOCK_STATE_PAUSED);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_ITEM), 2);
    fixture_deinit(&f);
}

/* Rule 34, both ways; and absence is remembered as long as presence. */
static void test_absent(void **state)
{
    struct fixture f;
    struct item never = {7, 7};
    (void)state;
    fixture_init(&f, SETUP);
    fixture_ask_item(&f, never);
    assert_string_equal(f.trace, "ANSWER@1.0 404 NOT_FOUND none");
    int calls = fixture_stock_calls(&f, MEM_STOCK_ITEM);
    fixture_item(&f, never, NULL);
    fixture_run_ms(&f, 1);
    fixture_item(&f, never, NULL);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_ITEM), calls + 1);
    mem_stock_lose_item(f.stock, f.item);
    fixture_ask_item(&f, f.item);
    assert_string_equal(f.trace, "ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE none");
    fixture_deinit(&f);
}

static void test_failures_are_not_remembered(void **state)
{
    static const struct {
        enum mem_fault_kind kind;
        int64_t delay_us;
        const char *trace;
    } faults[] = {
        {MEM_FAULT_NOT_DONE, 0, "ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE none"},
        {MEM_FAULT_REPLY_LOST, 0, "ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE none"},
        {MEM_FAULT_REQUEST_LOST, 0, "ANSWER@1.0 503 DEPENDENCY_UNAVAILABLE none"},
        {MEM_FAULT_REPLY_LATE, 5000 * MS, "ANSWER@60.0 503 DEPENDENCY_UNAVAILABLE none"},
        {MEM_FAULT_HELD_BACK, 5000 * MS, "ANSWER@60.0 503 DEPENDENCY_UNAVAILABLE none"},
        {MEM_FAULT_ANSWER, ERR_INTERNAL, "ANSWER@1.0 500 INTERNAL_ERROR none"},
        {MEM_FAULT_TWICE, 0, "ANSWER@1.0 200 OK redis"},
    };
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        fixture_stock_fault(&f, MEM_STOCK_ITEM, 1, faults[i].kind, faults[i].delay_us);
        fixture_clear_trace(&f);
        assert_int_equal(fixture_item(&f, f.item, NULL), LOOKUP_STARTED);
        fixture_run_ms(&f, 70);
        assert_string_equal(f.trace, faults[i].trace);
        if (f.last.answer == ANSWER_OK)
            continue;
        assert_int_equal(fixture_item(&f, f.item, NULL), LOOKUP_STARTED); /* asked anew */
        fixture_run_ms(&f, 300);
        assert_int_equal(f.last.answer, ANSWER_OK);
    }
    fixture_run_ms(&f, 6000);
    fixture_deinit(&f);
}

/* 1024 places: who was asked for longest ago makes room; all being loaded: refused. */
static void test_bounded(void **state)
{
    struct fixture f;
    struct setup s = SETUP;
    (void)state;
    s.flows = 2 * ITEM_VIEWS_MAX;
    fixture_init(&f, s);
    for (int i = 0; i < ITEM_VIEWS_MAX; i++)
        assert_int_equal(fixture_item(&f, (struct item){1 + i, 1}, NULL), LOOKUP_STARTED);
    assert_int_equal(fixture_item(&f, (struct item){9999, 1}, NULL), LOOKUP_AT_ONCE);
    assert_int_equal(f.last.answer, ANSWER_DEPENDENCY_UNAVAILABLE);
    fixture_run_ms(&f, 1);
    assert_int_equal(f.answers, ITEM_VIEWS_MAX + 1);
    assert_int_equal(fixture_item(&f, (struct item){1, 1}, NULL), LOOKUP_AT_ONCE);
    int calls = fixture_stock_calls(&f, MEM_STOCK_ITEM);
    for (int i = 0; i < ITEM_VIEWS_MAX - 1; i++) {
        fixture_item(&f, (struct item){20000 + i, 1}, NULL);
        if (i % 100 == 0)
            fixture_run_ms(&f, 1); /* time for the loads, and far less than 200 ms */
        fixture_item(&f, (struct item){1, 1}, NULL); /* wanted all the time: it stays */
    }
    fixture_run_ms(&f, 1);
    assert_int_equal(fixture_stock_calls(&f, MEM_STOCK_ITEM), calls + ITEM_VIEWS_MAX - 1);
    assert_int_equal(fixture_item(&f, (struct item){1024, 1}, NULL), LOOKUP_STARTED); /* gone */
    fixture_run_ms(&f, 1);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_free_about),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_failures_are_not_remembered),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
