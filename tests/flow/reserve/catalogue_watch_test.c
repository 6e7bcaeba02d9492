/* Rule 34: without a catalogue nothing is sold. */
#include "reserve_fixture.h"

#include "app/catalogue_watch.h"
#include "base/err.h"

static struct catalogue_watch watch;

static void start(struct fixture *f)
{
    fixture_init(f, 10, 2);
    watch.stock = f->stock;
    watch.sched = &f->sched;
    watch.call_us = 60 * MS;
    catalogue_watch_start(&watch);
}

static void stop(struct fixture *f)
{
    catalogue_watch_stop(&watch);
    fixture_deinit(f);
}

static void test_it_goes_and_comes(void **state)
{
    struct fixture f;
    (void)state;
    start(&f);
    assert_false(catalogue_missing(&watch)); /* not known: as ever */
    fixture_run_ms(&f, 10);
    assert_false(catalogue_missing(&watch));
    mem_stock_unlist_all(f.stock);
    fixture_run_ms(&f, 1010);
    assert_true(catalogue_missing(&watch));
    mem_stock_list_item(f.stock, f.item);
    fixture_run_ms(&f, 30);
    assert_false(catalogue_missing(&watch));
    stop(&f);
}

/* A question without an answer is no answer, either way. */
static void test_questions_that_fail(void **state)
{
    (void)state;
    static const enum mem_fault_kind kinds[] = {MEM_FAULT_NOT_DONE, MEM_FAULT_REPLY_LOST,
                                                MEM_FAULT_REQUEST_LOST, MEM_FAULT_HELD_BACK};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct fixture f;
        start(&f);
        for (int k = 1; k <= 3; k++)
            mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_ITEMS, k, kinds[i], 5000 * MS);
        for (int ms = 0; ms < 2500; ms += 10) {
            fixture_run_ms(&f, 10);
            assert_false(catalogue_missing(&watch));
        }
        mem_stock_unlist_all(f.stock);
        fixture_run_ms(&f, 2000);
        assert_true(catalogue_missing(&watch));
        int asked = mem_stock_faults(f.stock)->calls[MEM_STOCK_ITEMS];
        for (int k = 1; k <= 3; k++)
            mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_ITEMS, asked + k, kinds[i],
                           5000 * MS);
        for (int ms = 0; ms < 200; ms += 10) {
            fixture_run_ms(&f, 10);
            assert_true(catalogue_missing(&watch));
        }
        fixture_run_ms(&f, 6000);
        stop(&f);
    }
}

static void test_nothing_is_asked_after_the_stop(void **state)
{
    struct fixture f;
    (void)state;
    start(&f);
    fixture_run_ms(&f, 10);
    catalogue_watch_stop(&watch);
    int asked = mem_stock_faults(f.stock)->calls[MEM_STOCK_ITEMS];
    fixture_run_ms(&f, 5000);
    assert_int_equal(mem_stock_faults(f.stock)->calls[MEM_STOCK_ITEMS], asked);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_goes_and_comes),
        cmocka_unit_test(test_questions_that_fail),
        cmocka_unit_test(test_nothing_is_asked_after_the_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
