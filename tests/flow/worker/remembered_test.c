/* Rule 27, docs/decisions/0026: a command that was accepted is carried out, whatever the queue
 * loses; it is handed to PostgreSQL only when the queue has passed it, and forgotten when it has
 * its turn. */
#include "world.h"

#include "base/err.h"

static struct world *begin(struct world *x)
{
    world_init(x, 100);
    world_start(x);
    return x;
}

static void end(struct world *x)
{
    world_run(x, 2 * S);
    assert_int_equal(mem_stock_remembered(x->stock, ITEM), 0);
    world_end_clean(x);
}

static int parks(struct world *x)
{
    int n = 0;
    for (int i = 0; i < 3; i++)
        n += mem_orders_faults(mem_jobs_orders(x->jobs, i))->calls[MEM_ORDERS_PARK];
    return n;
}

static void accept(struct world *x, int64_t user, enum event_command command)
{
    world_accepted(x, ITEM, user, command);
    world_command(x, ITEM, user, command);
}

/* The queue confirmed it, and has it no more. */
static void lose(struct world *x, int64_t user, enum event_command command)
{
    world_accepted(x, ITEM, user, command);
}

static void test_a_cancel_that_the_queue_lost(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    lose(&x, 1, EVENT_CANCEL);
    world_run(&x, 3 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED"); /* it may be on its way */
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1);
    world_run(&x, 6 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    assert_int_equal(mem_db_sold(x.db, ITEM), 0);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 0);
    /* it turns up again after all */
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_run(&x, 1 * S);
    assert_int_equal(mem_db_sold(x.db, ITEM), 0);
    end(&x);
}

static void test_a_payment_that_the_queue_lost(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    lose(&x, 1, EVENT_PAY);
    world_run(&x, 9 * S);
    assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, 1)), "PAID");
    end(&x);
}

/* Rule 31: accepted in the last second, and lost: its order does not expire before that is known.
 */
static void test_a_payment_lost_at_the_last_moment(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    x.cfg.unpaid_us = 20 * S;
    world_start(&x);
    world_buy(&x, ITEM, 1);
    world_buy(&x, ITEM, 2);
    world_run(&x, 18 * S);
    lose(&x, 1, EVENT_PAY);
    world_run(&x, 15 * S);
    assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, 1)), "PAID");
    assert_string_equal(world_state(&x, ITEM, 2), "CANCELLED/EXPIRED");
    assert_int_equal(mem_db_refunds(x.db), 0);
    end(&x);
}

/* What the queue delivers is forgotten with its turn, and nothing else is asked of anybody. */
static void test_what_is_not_lost(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    world_buy(&x, ITEM, 2);
    accept(&x, 1, EVENT_CANCEL);
    accept(&x, 2, EVENT_PAY);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 2);
    world_run(&x, 500 * MS);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 0);
    world_run(&x, 20 * S);
    assert_int_equal(parks(&x), 0);
    end(&x);
}

/* Rule 28's spirit: what waits behind others is not lost. */
static void test_what_waits_in_the_queue(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 20 * S); /* the poll that is under way ends */
    accept(&x, 1, EVENT_CANCEL);
    int looks = mem_stock_faults(x.stock)->calls[MEM_STOCK_REMEMBERED];
    world_run(&x, 30 * S);
    assert_true(mem_stock_faults(x.stock)->calls[MEM_STOCK_REMEMBERED] > looks + 5);
    assert_int_equal(parks(&x), 0);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1);
    mem_faults_clear(mem_queue_faults(x.queue), -1);
    world_run(&x, 30 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    end(&x);
}

/* Order and cancel are lost together: the order is published again, its cancel waits for it. */
static void test_lost_with_its_order(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_reserve(&x, ITEM, 1);
    mem_broker_wipe(x.broker, ITEM);
    lose(&x, 1, EVENT_CANCEL);
    world_start(&x);
    world_run(&x, 90 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    assert_int_equal(mem_db_sold(x.db, ITEM), 0);
    end(&x);
}

/* Its outcome was told and not forgotten: PostgreSQL knows it, nothing happens twice. */
static void test_forgetting_fails(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_FORGET, 1, MEM_FAULT_NOT_DONE, 0);
    accept(&x, 1, EVENT_CANCEL);
    world_run(&x, 1 * S);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1);
    world_run(&x, 9 * S);
    assert_int_equal(parks(&x), 1);
    assert_int_equal(mem_db_parked(x.db), 0);
    end(&x);
}

/* More than a page, both kinds, and something that is no command among them. */
static void test_many(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    for (int user = 1; user <= 40; user++) {
        world_reserve(&x, ITEM, user);
        world_run(&x, 100 * MS);
    }
    for (int user = 1; user <= 40; user++)
        lose(&x, user, user % 2 ? EVENT_CANCEL : EVENT_PAY);
    world_remember(&x, ITEM, STR("{\"no\":\"command\"}"));
    world_run(&x, 12 * S);
    assert_int_equal(mem_db_sold(x.db, ITEM), 20);
    for (int user = 2; user <= 40; user += 2)
        assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, user)), "PAID");
    end(&x);
}

/* Rule 20: what fails by its own fault keeps nobody else. */
static void test_a_bad_one_among_good_ones(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    for (int user = 1; user <= 3; user++)
        world_buy(&x, ITEM, user);
    for (int user = 1; user <= 3; user++)
        lose(&x, user, EVENT_CANCEL);
    struct event e = world_event(&x, ITEM, 2);
    struct uuid bad = event_cancel_id(&e.reservation_id);
    mem_db_poison(x.db, &bad, ERR_INVALID);
    world_run(&x, 12 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    assert_string_equal(world_state(&x, ITEM, 2), "SUCCEEDED");
    assert_string_equal(world_state(&x, ITEM, 3), "CANCELLED/CANCELLED");
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1);
    mem_db_poison(x.db, &bad, 0);
    world_run(&x, 12 * S);
    assert_string_equal(world_state(&x, ITEM, 2), "CANCELLED/CANCELLED");
    end(&x);
}

/* --- every call × every fault --- */

static const enum mem_fault_kind kinds[] = {
    MEM_FAULT_NOT_DONE,   MEM_FAULT_REPLY_LOST, MEM_FAULT_REQUEST_LOST,
    MEM_FAULT_REPLY_LATE, MEM_FAULT_HELD_BACK,  MEM_FAULT_TWICE,
};

static void one(bool store, int op, int k, enum mem_fault_kind kind)
{
    struct world x;
    begin(&x);
    for (int user = 1; user <= 2; user++)
        world_buy(&x, ITEM, user);
    if (store)
        mem_faults_add(mem_stock_faults(x.stock), op, k, kind, 900 * MS);
    else
        mem_jobs_fault_all(x.jobs, op, k, kind, 900 * MS);
    lose(&x, 1, EVENT_CANCEL);
    lose(&x, 2, EVENT_PAY);
    world_run(&x, 12 * S);
    mem_faults_clear(mem_stock_faults(x.stock), -1);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 20 * S);
    if (strcmp(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED") != 0 ||
        strcmp(mem_db_order_status(x.db, world_order_id(ITEM, 2)), "PAID") != 0)
        fail_msg("op %d call %d fault %d: %s, %s", op, k, (int)kind, world_state(&x, ITEM, 1),
                 mem_db_order_status(x.db, world_order_id(ITEM, 2)));
    assert_int_equal(mem_db_sold(x.db, ITEM), 1);
    assert_int_equal(mem_db_parked(x.db) + mem_db_refunds(x.db), 0);
    end(&x);
}

static void test_faults(void **state)
{
    (void)state;
    for (int k = 0; k <= 2; k++) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            one(true, MEM_STOCK_REMEMBERED, k, kinds[i]);
            one(true, MEM_STOCK_FORGET, k, kinds[i]);
            one(false, MEM_ORDERS_PARK, k, kinds[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cancel_that_the_queue_lost),
        cmocka_unit_test(test_a_payment_that_the_queue_lost),
        cmocka_unit_test(test_a_payment_lost_at_the_last_moment),
        cmocka_unit_test(test_what_is_not_lost),
        cmocka_unit_test(test_what_waits_in_the_queue),
        cmocka_unit_test(test_lost_with_its_order),
        cmocka_unit_test(test_forgetting_fails),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_a_bad_one_among_good_ones),
        cmocka_unit_test(test_faults),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
