/* A queue that carries all items in one and shows what waits and what the asker holds (RocketMQ):
 * the backlog by age (rules 26, 30, 31), receiving without a list of items, events of no item. */
#include "world.h"

static void open_one(struct world *x, int64_t lease_us)
{
    world_init_on(
        x, 300, (struct mem_broker_config){.shared = true, .dead_after = 16, .lease_us = lease_us});
    x->cfg.poll_us = 2 * S;
}

static void test_orders_of_two_items(void **state)
{
    struct world x;
    (void)state;
    open_one(&x, 0);
    for (int user = 1; user <= 40; user++)
        world_reserve(&x, user % 2 ? ITEM : ITEM_2, user);
    world_start(&x);
    world_run(&x, 2 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 20);
    assert_int_equal(mem_db_active_orders(x.db, ITEM_2), 20);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* The list of items says what is looked after, not what is received. */
static void test_no_items_are_listed(void **state)
{
    struct world x;
    (void)state;
    open_one(&x, 0);
    mem_stock_unlist_all(x.stock);
    mem_db_set_expiry(x.db, ITEM, 1);
    mem_db_set_expiry(x.db, ITEM_2, 1);
    world_start(&x);
    world_run(&x, 1 * S);
    assert_int_equal(x.w->catalog.n, 0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 1 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_stop(&x);
    world_deinit(&x);
}

/* Once a second, however many items there are; and the answer is every item's. */
static void test_the_backlog_is_asked_for_once(void **state)
{
    enum { N = 500 };
    struct world x;
    (void)state;
    open_one(&x, 0);
    x.cfg.max_items = N + 2;
    for (int i = 0; i < N; i++) {
        struct item item = {2000, 1 + i};
        mem_stock_put_item(x.stock, item, 5);
        mem_db_put_item(x.db, item, 5, 1);
    }
    world_start(&x);
    world_run(&x, 2 * S);
    assert_int_equal(x.w->catalog.n, N + 2);
    x.lags = 0;
    world_run(&x, 10 * S);
    assert_in_range(x.lags, 9, 11);
    for (int i = 0; i < N; i++)
        assert_non_null(catalog_backlog(x.w, (struct item){2000, 1 + i}));
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_lost_message_is_published_again(void **state)
{
    struct world x;
    (void)state;
    open_one(&x, 0);
    world_reserve(&x, ITEM, 1);
    mem_broker_wipe(x.broker, ITEM);
    world_start(&x);
    world_run(&x, 9 * S);
    assert_string_equal(world_trace(&x), "inbox 1 | claim 1 | publish 1 | note 1 | "
                                         "place 1 | settle 1 | ack 1 | mark 1");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 30: a long backlog of one's own is left alone, its oldest too. */
static void test_a_backlog_is_left_alone(void **state)
{
    struct world x;
    (void)state;
    open_one(&x, 0);
    x.cfg.batch_max = 1;
    x.cfg.tx_budget_us = 5 * S;
    for (int user = 1; user <= 30; user++)
        world_reserve(&x, ITEM, user);
    world_start(&x);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PLACE, 0,
                       MEM_FAULT_REPLY_LATE, 1 * S);
    world_run(&x, 8 * S);
    assert_null(strstr(world_trace(&x), "publish"));
    world_run(&x, 60 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void on_received(struct op *op, int rc)
{
    (void)op;
    assert_int_equal(rc, 0);
}

/* Rule 26: what another worker has in its hands is not seen in the queue. Its beat tells of it; a
 * life that ended tells nothing. */
static void test_what_another_worker_holds(void **state)
{
    (void)state;
    for (int beats = 0; beats < 2; beats++) {
        struct world x;
        open_one(&x, 120 * S);
        world_reserve(&x, ITEM, 1);
        world_run(&x, 300 * MS); /* as if publishing took so long: the message is younger */
        struct queue *other = mem_queue_new(x.broker, "other", 10);
        struct queue_receive r = {.max = 5, .op = {on_received, x.sched.now_us + S}};
        other->ops->receive(other, &r);
        mem_clock_run_for(&x.sched, 10 * MS);
        assert_int_equal(r.n, 1);
        struct orders *o = mem_orders_new(x.db);
        struct ctx ctx;
        int64_t fleet, began = mem_clock_wall_ms(&x.sched);
        ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
        world_start_now(&x);
        for (int i = 0; i < 15; i++) {
            if (beats)
                o->ops->beat(o, &ctx, STR("other"), mem_clock_wall_ms(&x.sched) - began, &fleet);
            world_run(&x, 2 * S);
        }
        assert_true((strstr(world_trace(&x), "publish 1") != NULL) == !beats);
        if (beats) {
            assert_true(health_fleet_age_ms(x.w) > 25000);
            world_run(&x, 30 * S); /* it is silent: dead */
            assert_non_null(strstr(world_trace(&x), "publish 1"));
        }
        assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
        while (!list_empty(&r.messages))
            other->ops->release(
                other, container_of(list_pop_front(&r.messages), struct queue_message, link));
        mem_orders_free(o);
        world_stop(&x);
        mem_queue_free(other);
        world_deinit(&x);
    }
}

/* Rule 31: published again after 60 s, never voided. */
static void test_the_backlog_is_unknown(void **state)
{
    struct world x;
    (void)state;
    open_one(&x, 0);
    x.cfg.max_hold_us = 30 * S;
    world_reserve(&x, ITEM, 1);
    mem_broker_wipe(x.broker, ITEM);
    world_start_now(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LAG, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 55 * S);
    assert_string_equal(world_trace(&x), "");
    world_run(&x, 10 * S);
    assert_non_null(strstr(world_trace(&x), "publish 1"));
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_stop(&x);
    world_deinit(&x);
}

/* Events of an item that PostgreSQL does not know: each is counted, whoever it comes with, and ends
 * among the dead letters (rule 20); it neither loops nor makes PostgreSQL look broken. */
static void test_an_item_that_is_none(void **state)
{
    static const int sizes[] = {1, 2, 40};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct world x;
        open_one(&x, 0);
        for (int user = 1; user <= sizes[i]; user++)
            world_post(&x, (struct item){77, 78}, user);
        world_start(&x);
        for (int user = 1; user <= 60; user++) {
            if (user % 6 == 0)
                world_reserve(&x, ITEM, user);
            world_run(&x, 1 * S);
            assert_true(health_usable(x.w));
        }
        assert_int_equal(mem_db_dead_letters(x.db), sizes[i]);
        assert_int_equal(mem_db_active_orders(x.db, ITEM), 10);
        world_assert_clean(&x);
        world_stop(&x);
        world_deinit(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_of_two_items),
        cmocka_unit_test(test_no_items_are_listed),
        cmocka_unit_test(test_the_backlog_is_asked_for_once),
        cmocka_unit_test(test_a_lost_message_is_published_again),
        cmocka_unit_test(test_a_backlog_is_left_alone),
        cmocka_unit_test(test_what_another_worker_holds),
        cmocka_unit_test(test_the_backlog_is_unknown),
        cmocka_unit_test(test_an_item_that_is_none),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
