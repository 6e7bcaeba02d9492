/* What recovery meets among the pending that is no reservation, or none that can be read: it is
 * passed over, counted, and harms no other (rules 2, 28). */
#include "world.h"

static void open_short(struct world *x)
{
    world_init(x, 300);
    x->cfg.poll_us = 2 * S;
}

/* Reserved, and the broker lost the events. */
static void lose(struct world *x, int64_t from, int64_t to)
{
    for (int64_t user = from; user <= to; user++)
        world_reserve(x, ITEM, user);
    mem_broker_wipe(x->broker, ITEM);
}

static void assert_all_succeed(struct world *x, int64_t from, int64_t to)
{
    for (int64_t user = from; user <= to; user++)
        assert_string_equal(world_state(x, ITEM, user), "SUCCEEDED");
}

static void test_one_that_cannot_be_read_harms_no_other(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1, 20);
    mem_stock_spoil(x.stock, ITEM, 7, STOCK_ROW_UNREADABLE);
    mem_stock_put_junk(x.stock, ITEM, 1000, 3);
    world_start(&x);
    world_run(&x, 12 * S);
    assert_all_succeed(&x, 1, 6);
    assert_all_succeed(&x, 8, 20);
    assert_int_equal(metric_value(x.w->metrics.unreadable), 4);
    assert_int_equal(metric_value(x.w->metrics.pending), 4);
    world_stop(&x);
    world_deinit(&x);
}

/* Pages go by what was listed: more than a page of junk, and more than a page of good ones. */
static void test_pages_of_junk_are_passed(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1, 150);
    mem_stock_put_junk(x.stock, ITEM, 1000, RECOVER_ROWS + 40);
    world_start(&x);
    world_run(&x, 20 * S);
    assert_all_succeed(&x, 1, 150);
    assert_int_equal(metric_value(x.w->metrics.unreadable), RECOVER_ROWS + 40);
    world_stop(&x);
    world_deinit(&x);
}

/* A record is gone and its member stays: PostgreSQL knows how it ended, so it may go; one that
 * nobody knows is held as long as any other, and then told as lost. */
static void test_a_member_without_a_record(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_hold_us = 60 * S;
    lose(&x, 2, 4);
    mem_stock_spoil(x.stock, ITEM, 3, STOCK_ROW_GONE);
    world_reserve(&x, ITEM, 1);
    mem_stock_spoil(x.stock, ITEM, 1, STOCK_ROW_GONE);
    world_start(&x);
    world_run(&x, 1 * S); /* its event is there all the same: ordered, and settled with no record */
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    assert_int_equal(mem_stock_pending(x.stock, ITEM), 3); /* rule 2 */
    world_run(&x, 12 * S);
    assert_string_equal(world_state(&x, ITEM, 2), "SUCCEEDED");
    assert_string_equal(world_state(&x, ITEM, 4), "SUCCEEDED");
    assert_int_equal(mem_stock_pending(x.stock, ITEM), 1);
    uint64_t before = metric_value(x.w->metrics.orphans);
    world_run(&x, 60 * S);
    assert_int_equal(mem_stock_pending(x.stock, ITEM), 0);
    assert_int_equal(metric_value(x.w->metrics.orphans), before + 1);
    world_stop(&x);
    world_deinit(&x);
}

/* The list itself cannot be had: told, and its turn comes again. */
static void test_a_list_that_fails(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1, 3);
    world_start(&x);
    uint64_t before = metric_value(x.w->metrics.recover_failures);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_PENDING, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 10 * S);
    assert_true(metric_value(x.w->metrics.recover_failures) > before);
    mem_faults_clear(mem_stock_faults(x.stock), MEM_STOCK_PENDING);
    world_run(&x, 10 * S);
    assert_all_succeed(&x, 1, 3);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_cannot_be_read_harms_no_other),
        cmocka_unit_test(test_pages_of_junk_are_passed),
        cmocka_unit_test(test_a_member_without_a_record),
        cmocka_unit_test(test_a_list_that_fails),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
