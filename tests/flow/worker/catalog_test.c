/* The catalogue: any number of items, those over the bound told, expired ones gone (rules 33, 34).
 */
#include "world.h"

static struct item nth(int i)
{
    return (struct item){2000, 1 + i};
}

static void put(struct world *x, int from, int to)
{
    for (int i = from; i < to; i++) {
        mem_stock_put_item(x->stock, nth(i), 5);
        mem_db_put_item(x->db, nth(i), 5, 1);
    }
}

static void test_no_number_at_which_orders_stop(void **state)
{
    enum { N = 1500 };
    struct world x;
    (void)state;
    world_init(&x, 10);
    x.cfg.max_items = 4096;
    put(&x, 0, N);
    world_start(&x);
    world_run(&x, 1 * S);
    assert_int_equal(metric_value(x.w->metrics.items), N + 2);
    assert_null(catalog_complaint(x.w));
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, nth(N - 1), 2);
    put(&x, N, N + 1); /* one more while it runs */
    world_run(&x, 2 * S);
    world_reserve(&x, nth(N), 3);
    world_run(&x, 1 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_string_equal(world_state(&x, nth(N - 1), 2), "SUCCEEDED");
    assert_string_equal(world_state(&x, nth(N), 3), "SUCCEEDED");
    /* The backlog of each is known and fresh. */
    world_run(&x, 6 * S);
    for (int i = 0; i <= N; i++)
        assert_non_null(catalog_backlog(x.w, nth(i)));
    world_stop(&x);
    world_deinit(&x);
}

static void test_over_the_bound_the_known_ones_stay(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    x.cfg.max_items = 4;
    put(&x, 5, 7);
    world_start(&x);
    world_run(&x, 1 * S);
    put(&x, 0, 5); /* with lower ids, and they came later */
    put(&x, 7, 9);
    world_run(&x, 2 * S);
    assert_int_equal(metric_value(x.w->metrics.items), 4);
    assert_int_equal(metric_value(x.w->metrics.items_surplus), 7);
    assert_string_equal(catalog_complaint(x.w), "more items than worker.max_items");
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, nth(6), 2);
    world_reserve(&x, nth(0), 3);
    world_run(&x, 2 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_string_equal(world_state(&x, nth(6), 2), "SUCCEEDED");
    assert_string_equal(world_state(&x, nth(0), 3), "QUEUED");
    /* Served ones expire: others come in, and nobody stays behind. */
    for (int i = 5; i < 7; i++) {
        mem_stock_lose_item(x.stock, nth(i));
        mem_db_set_expiry(x.db, nth(i), mem_clock_wall_ms(&x.sched) - 3600000);
    }
    world_run(&x, 10 * S);
    assert_int_equal(metric_value(x.w->metrics.items), 4);
    assert_int_equal(metric_value(x.w->metrics.items_surplus), 5);
    assert_string_equal(world_state(&x, nth(0), 3), "SUCCEEDED");
    world_stop(&x);
    world_deinit(&x);
}

/* Only what was over leaves: an item without keys before its time was lost (rule 34). */
static void test_only_the_expired_leave(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    put(&x, 0, 3);
    world_start(&x);
    world_run(&x, 1 * S);
    int64_t now = mem_clock_wall_ms(&x.sched);
    for (int i = 0; i < 3; i++)
        mem_db_set_expiry(x.db, nth(i), now - 3600000);
    mem_stock_lose_item(x.stock, nth(0)); /* expired */
    mem_stock_lose_item(x.stock, nth(1)); /* lost */
    mem_db_set_expiry(x.db, nth(1), now + 3600000);
    mem_stock_list_item(x.stock, nth(9)); /* PostgreSQL does not know it */
    uint64_t before = metric_value(x.w->metrics.items_retired);
    world_run(&x, 5 * S);
    assert_int_equal(metric_value(x.w->metrics.items_retired), before + 1);
    assert_int_equal(metric_value(x.w->metrics.items), 5);
    assert_non_null(catalog_backlog(x.w, ITEM));
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 34: the list is lost and the streams are there; it is restored as soon as the store lets. */
static void test_a_lost_catalogue_stops_nobody(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    world_start(&x);
    world_run(&x, 1 * S);
    for (int life = 0; life < 2; life++) { /* while it runs; and from the start */
        mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_RELIST, 0, MEM_FAULT_NOT_DONE, 0);
        mem_stock_unlist_all(x.stock);
        world_run(&x, 2 * S);
        assert_int_equal(metric_value(x.w->metrics.items), 2);
        assert_int_equal(metric_value(x.w->metrics.items_unlisted), 2);
        assert_string_equal(catalog_complaint(x.w), "warmed items are not in the catalogue");
        world_reserve(&x, ITEM, 1 + life);
        world_run(&x, 1 * S);
        assert_string_equal(world_state(&x, ITEM, 1 + life), "SUCCEEDED");
        mem_faults_clear(mem_stock_faults(x.stock), MEM_STOCK_RELIST);
        world_run(&x, 3 * S);
        assert_int_equal(metric_value(x.w->metrics.items_unlisted), 0);
        assert_null(catalog_complaint(x.w));
        world_stop(&x);
        if (life == 0)
            world_start(&x);
    }
    /* PostgreSQL away: nothing is known, so nothing that is served goes. */
    mem_stock_list_item(x.stock, ITEM);
    mem_stock_list_item(x.stock, ITEM_2);
    world_start_now(&x);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_WARMED, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 1 * S);
    mem_stock_unlist_all(x.stock);
    world_run(&x, 2 * S);
    assert_int_equal(metric_value(x.w->metrics.items), 2);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_catalogue_that_cannot_be_read(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    world_start(&x);
    world_run(&x, 1 * S);
    uint64_t before = metric_value(x.w->metrics.catalog_failures);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_ITEMS, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 2 * S);
    assert_true(metric_value(x.w->metrics.catalog_failures) > before);
    assert_null(catalog_complaint(x.w)); /* not for a moment's failure */
    world_run(&x, 10 * S);
    assert_string_equal(catalog_complaint(x.w), "the catalogue of items cannot be read");
    world_reserve(&x, ITEM, 1);
    world_run(&x, 2 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED"); /* those known so far stay */
    mem_faults_clear(mem_stock_faults(x.stock), MEM_STOCK_ITEMS);
    world_run(&x, 1 * S);
    assert_null(catalog_complaint(x.w));
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_number_at_which_orders_stop),
        cmocka_unit_test(test_over_the_bound_the_known_ones_stay),
        cmocka_unit_test(test_only_the_expired_leave),
        cmocka_unit_test(test_a_lost_catalogue_stops_nobody),
        cmocka_unit_test(test_a_catalogue_that_cannot_be_read),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
