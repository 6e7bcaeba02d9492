/* Reconciliation on the fakes of every port: rule 40, I5, failures.md 22, rule 3's exception. */
#include "world.h"

#include "base/err.h"
#include <stdio.h>

static struct world x;

static void begin(int64_t units)
{
    world_init(&x, units);
    x.cfg.reconcile_interval_us = 1 * S;
    world_start(&x);
}

static void end(void)
{
    world_stop(&x);
    world_deinit(&x);
}

static int rounds(struct item item)
{
    int n;
    mem_db_reconciled(x.db, item, &n);
    return n;
}

/* Complete rounds over the item from now on. */
static void run_rounds(struct item item, int n)
{
    int until = rounds(item) + n;
    for (int i = 0; i < 600 && rounds(item) < until; i++)
        world_run(&x, 100 * MS);
    assert_true(rounds(item) >= until);
}

static const char *outcome(struct item item)
{
    return mem_db_reconciled(x.db, item, NULL);
}

static bool told(struct item item, const char *text)
{
    return strstr(mem_db_reconciled_detail(x.db, item), text) != NULL;
}

static void bought(int64_t from, int64_t to)
{
    for (int64_t user = from; user <= to; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 1 * S);
    for (int64_t user = from; user <= to; user++)
        assert_string_equal(world_state(&x, ITEM, user), "SUCCEEDED");
    run_rounds(ITEM, 1); /* what a test does now, the next round sees whole */
}

static struct stock_item_info info(struct item item)
{
    struct stock_item_info i;
    assert_true(mem_stock_info(x.stock, item, &i));
    return i;
}

static struct reservation record(int64_t user)
{
    struct event e = world_event(&x, ITEM, user);
    const struct reservation *r = mem_stock_find(x.stock, ITEM, user, &e.request_id);
    assert_non_null(r);
    return *r;
}

/* Selling, cancelling, waiting: nothing of it is a discrepancy. */
static void test_what_is_on_its_way_is_not_wrong(void **state)
{
    (void)state;
    begin(10);
    bought(1, 4);
    mem_db_cancel(x.db, record(2).order_id, REASON_CANCELLED);
    run_rounds(ITEM, 1);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 6 * S); /* what was asked before */
    for (int64_t user = 5; user <= 7; user++)
        world_reserve(&x, ITEM, user);
    run_rounds(ITEM, 3);
    assert_string_equal(outcome(ITEM), "CLEAN");
    assert_true(told(ITEM, "\"unsure\":0"));
    assert_true(told(ITEM, "\"in_flight\":3"));
    assert_true(told(ITEM, "\"active\":3"));
    mem_faults_clear(mem_queue_faults(x.queue), -1);
    world_run(&x, 10 * S);
    world_assert_clean(&x);
    end();
}

/* A unit stolen: told with how many, and never put back. */
static void test_a_stolen_unit_is_told(void **state)
{
    (void)state;
    begin(10);
    bought(1, 2);
    mem_stock_add_free(x.stock, ITEM, -1);
    run_rounds(ITEM, 1);
    assert_string_equal(outcome(ITEM), "CLEAN"); /* one sample is none */
    assert_true(told(ITEM, "\"unsure\":1"));
    run_rounds(ITEM, 2);
    assert_string_equal(outcome(ITEM), "DISCREPANCY");
    assert_true(told(ITEM, "{\"kind\":\"FREE_LOW\",\"units\":1}"));
    assert_int_equal(info(ITEM).free, 7);
    assert_int_equal(metric_value(x.w->metrics.discrepancy[FINDING_FREE_LOW]), 1);
    assert_string_equal(outcome(ITEM_2), "CLEAN");
    mem_stock_add_free(x.stock, ITEM, 1); /* by an operator's hand */
    run_rounds(ITEM, 1);
    assert_string_equal(outcome(ITEM), "CLEAN");
    assert_int_equal(metric_value(x.w->metrics.discrepancy[FINDING_FREE_LOW]), 0);
    end();
}

static void test_an_invented_unit_is_taken_away(void **state)
{
    (void)state;
    begin(10);
    bought(1, 2);
    mem_stock_add_free(x.stock, ITEM, 3);
    int64_t seq = info(ITEM).version.seq;
    run_rounds(ITEM, 2);
    assert_true(told(ITEM, "{\"kind\":\"FREE_HIGH\",\"units\":3,\"mended\":\"LOWERED\"}"));
    assert_int_equal(info(ITEM).free, 8);
    assert_int_equal(info(ITEM).version.seq, seq + 1);
    run_rounds(ITEM, 1);
    assert_string_equal(outcome(ITEM), "CLEAN");
    world_assert_clean(&x);
    end();
}

/* A buyers entry lost: named, and put back; its unit is not sold a second time. */
static void test_a_lost_entry_is_named_and_comes_back(void **state)
{
    (void)state;
    begin(10);
    bought(1, 3);
    mem_stock_remove_buyer(x.stock, ITEM, 2);
    run_rounds(ITEM, 2);
    assert_true(told(ITEM, "\"kind\":\"BUYER\",\"units\":1,\"user_id\":2"));
    assert_true(told(ITEM, "\"mended\":\"MENDED\""));
    assert_true(told(ITEM, "FREE_LOW")); /* the same, as a sum */
    assert_int_equal(info(ITEM).buyers, 3);
    run_rounds(ITEM, 1);
    assert_string_equal(outcome(ITEM), "CLEAN");
    world_assert_clean(&x);
    end();
}

static void on_told(struct op *op, int rc)
{
    (void)op;
    assert_int_equal(rc, 0);
}

/* An entry too many looks like a unit too many: the entry goes, no unit does. */
static void test_an_entry_of_a_released_one_goes(void **state)
{
    (void)state;
    begin(10);
    bought(1, 3);
    mem_db_cancel(x.db, record(2).order_id, REASON_CANCELLED);
    world_run(&x, 1 * S);
    struct reservation r = record(2);
    assert_int_equal(r.status, RESERVATION_RELEASED);
    mem_stock_put_buyer(x.stock, ITEM, &r);
    run_rounds(ITEM, 3);
    assert_string_equal(outcome(ITEM), "CLEAN");
    assert_int_equal(info(ITEM).buyers, 2);
    assert_int_equal(info(ITEM).free, 8);
    end();
}

/* PostgreSQL lost a cancel whose buyer was told (a standby was promoted): it is carried out again,
 * and the unit, which may be sold again already, is not given back twice. */
static void test_a_cancel_that_the_database_lost(void **state)
{
    (void)state;
    begin(10);
    bought(1, 3);
    struct reservation r = record(2);
    struct stock_settle_row row = {.user_id = 2,
                                   .request_id = r.request_id,
                                   .reservation_id = r.reservation_id,
                                   .verdict = verdict_of_reason(REASON_CANCELLED),
                                   .give_back = true};
    struct stock_settle s = {
        .op = {on_told, x.sched.now_us + S}, .item = ITEM, .rows = &row, .n = 1};
    x.buyers->ops->settle(x.buyers, &s);
    world_run(&x, 100 * MS);
    assert_int_equal(info(ITEM).free, 8);
    assert_string_equal(mem_db_order_status(x.db, r.order_id), "CREATED");
    run_rounds(ITEM, 3);
    world_run(&x, 3 * S);
    assert_string_equal(mem_db_order_status(x.db, r.order_id), "CANCELLED");
    assert_int_equal(info(ITEM).free, 8);
    run_rounds(ITEM, 2);
    assert_string_equal(outcome(ITEM), "CLEAN");
    world_assert_clean(&x);
    end();
}

/* Recovery does not see what is not pending: its buyer would wait for ever. */
static void test_what_waits_and_is_not_pending(void **state)
{
    (void)state;
    begin(10);
    run_rounds(ITEM, 1);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 6 * S);
    world_reserve(&x, ITEM, 1);
    mem_stock_forget_pending(x.stock, ITEM, 1);
    assert_int_equal(mem_stock_pending(x.stock, ITEM), 0);
    run_rounds(ITEM, 3);
    assert_int_equal(mem_stock_pending(x.stock, ITEM), 1);
    mem_faults_clear(mem_queue_faults(x.queue), -1);
    world_run(&x, 10 * S);
    world_assert_clean(&x);
    end();
}

/* Ended in PostgreSQL, told as settled, and Redis never heard of it: settled once more. */
static void test_what_is_settled_only_here_is_settled_there(void **state)
{
    (void)state;
    begin(10);
    bought(1, 3);
    mem_db_cancel(x.db, record(2).order_id, REASON_CANCELLED);
    mem_db_settled_all(x.db);
    assert_int_equal(info(ITEM).free, 7);
    run_rounds(ITEM, 2);
    assert_true(told(ITEM, "\"kind\":\"SETTLE\",\"units\":1,\"user_id\":2"));
    assert_true(told(ITEM, "\"mended\":\"SETTLED\""));
    assert_int_equal(info(ITEM).free, 8);
    assert_string_equal(world_state(&x, ITEM, 2), "CANCELLED/CANCELLED");
    run_rounds(ITEM, 1);
    assert_string_equal(outcome(ITEM), "CLEAN");
    world_assert_clean(&x);
    end();
}

static void on_nothing(struct op *op, int rc)
{
    (void)op;
    assert_int_equal(rc, 0);
}

static int64_t mended(void)
{
    int64_t n = 0;
    for (int k = 0; k < FINDING_KINDS; k++)
        n += (int64_t)metric_value(x.w->metrics.mended[k]);
    return n;
}

/* Rule 35: while a rebuild is under way the books are half written, and nobody else's. */
static void test_what_is_being_rebuilt_is_left_alone(void **state)
{
    (void)state;
    begin(10);
    bought(1, 3);
    struct stock_item_info i = info(ITEM);
    struct stock_rebuild_begin r = {.op = {on_nothing, x.sched.now_us + S},
                                    .item = ITEM,
                                    .epoch = 2,
                                    .total = 10,
                                    .starts_ms = i.starts_ms,
                                    .ends_ms = i.ends_ms,
                                    .expires_ms = i.expires_ms,
                                    .after = STOCK_STATE_OPEN};
    int64_t done = mended();
    x.buyers->ops->rebuild_begin(x.buyers, &r); /* whoever did it is dead: a worker takes it over */
    mem_db_put_item(x.db, ITEM, 10, 2);
    for (int k = 0; k < 100; k++) {
        world_run(&x, 100 * MS);
        assert_string_equal(outcome(ITEM), "CLEAN");
    }
    assert_true(info(ITEM).version.epoch > 2);
    assert_int_equal(mended(), done);
    world_assert_clean(&x);
    end();
}

/* One item's key is broken: it is paused, told, and its neighbour sells. */
static void test_a_broken_item_is_paused_alone(void **state)
{
    (void)state;
    begin(10);
    run_rounds(ITEM, 1);
    mem_stock_break_item(x.stock, ITEM, "stock");
    run_rounds(ITEM, 1);
    assert_int_equal(info(ITEM).state, STOCK_STATE_PAUSED);
    assert_int_equal(info(ITEM_2).state, STOCK_STATE_OPEN);
    assert_string_equal(outcome(ITEM), "DISCREPANCY");
    assert_true(
        told(ITEM, "{\"kind\":\"BROKEN\",\"units\":1,\"key\":\"stock\",\"mended\":\"PAUSED\"}"));
    assert_int_equal(metric_value(x.w->metrics.discrepancy[FINDING_BROKEN]), 1);
    world_reserve(&x, ITEM_2, 1);
    world_run(&x, 1 * S);
    assert_string_equal(world_state(&x, ITEM_2, 1), "SUCCEEDED");
    mem_stock_break_item(x.stock, ITEM, NULL);
    run_rounds(ITEM, 1);
    assert_string_equal(outcome(ITEM), "CLEAN");
    assert_int_equal(info(ITEM).state, STOCK_STATE_PAUSED); /* opening it is the operator's */
    end();
}

/* Totals: Redis's is lowered to PostgreSQL's, never raised. */
static void test_totals_that_differ(void **state)
{
    (void)state;
    begin(10);
    bought(1, 3);
    mem_db_set_total(x.db, ITEM, 8);
    run_rounds(ITEM, 2);
    assert_true(told(ITEM, "{\"kind\":\"TOTAL\",\"units\":2,\"mended\":\"LOWERED\"}"));
    assert_int_equal(info(ITEM).total, 8);
    assert_int_equal(info(ITEM).free, 5);
    mem_db_set_total(x.db, ITEM, 2); /* three are held: none of them is taken away */
    run_rounds(ITEM, 2);
    assert_int_equal(info(ITEM).total, 2);
    assert_int_equal(info(ITEM).free, 0);
    assert_int_equal(info(ITEM).buyers, 3);
    end();
    begin(8);
    bought(1, 3);
    mem_db_set_total(x.db, ITEM, 12);
    run_rounds(ITEM, 3);
    assert_true(told(ITEM, "{\"kind\":\"TOTAL\",\"units\":4}"));
    assert_int_equal(info(ITEM).total, 8);
    end();
}

/* An order that Redis does not know takes a place; nothing of Redis looks older than it. */
static void place_a_stranger(void)
{
    for (int i = 0; i < 10; i++) {
        struct stock_control c = {.op = {on_nothing, x.sched.now_us + S},
                                  .item = ITEM,
                                  .to = i % 2 ? STOCK_STATE_OPEN : STOCK_STATE_PAUSED};
        x.buyers->ops->control(x.buyers, &c);
        world_run(&x, 5 * MS);
    }
    world_post(&x, ITEM, 9);
    world_run(&x, 500 * MS);
}

static void lose(int64_t user)
{
    assert_int_equal(mem_db_lose_order(x.db, record(user).order_id), 0);
}

/* failures.md 22: a standby that lacks the last orders is promoted. They are placed again, with the
 * same ids, at once; nothing is oversold meanwhile. */
static void test_a_promotion_that_lost_orders(void **state)
{
    (void)state;
    begin(6);
    bought(1, 5);
    lose(2);
    lose(4);
    mem_db_promote(x.db);
    run_rounds(ITEM, 1);
    assert_true(told(ITEM, "\"republished\":2"));
    world_run(&x, 1 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 5);
    assert_string_equal(mem_db_order_status(x.db, record(2).order_id), "CREATED");
    assert_int_equal(info(ITEM).free, 1);
    run_rounds(ITEM, 2);
    assert_string_equal(outcome(ITEM), "CLEAN");
    assert_true(told(ITEM, "\"timeline\":2") && told(ITEM, "\"republished\":0"));
    world_assert_clean(&x);
    end();
}

/* Rule 3: one that cannot be placed any more hears FAILED/LOST_ORDER; its unit went to another. */
static void test_a_lost_order_that_cannot_be_placed(void **state)
{
    (void)state;
    begin(2);
    bought(1, 2);
    lose(1);
    place_a_stranger();
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 2);
    mem_db_promote(x.db);
    run_rounds(ITEM, 4);
    assert_string_equal(world_state(&x, ITEM, 1), "FAILED/LOST_ORDER");
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 2);
    assert_string_equal(outcome(ITEM), "DISCREPANCY"); /* the other one's record */
    end();
}

/* A round that meets its refusal committed and not settled yet has not answered the buyer: the next
 * ones do. */
static void test_a_lost_order_is_refused_slowly(void **state)
{
    (void)state;
    begin(2);
    bought(1, 2);
    lose(1);
    place_a_stranger();
    mem_db_promote(x.db);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_SETTLE, 0, MEM_FAULT_NOT_DONE, 0);
    run_rounds(ITEM, 3);
    assert_true(told(ITEM, "\"returning\":1"));
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    mem_faults_clear(mem_stock_faults(x.stock), -1);
    world_run(&x, 10 * S);
    run_rounds(ITEM, 3);
    assert_string_equal(world_state(&x, ITEM, 1), "FAILED/LOST_ORDER");
    end();
}

/* The same where the raise of the total was lost, too: afterwards both stores agree again. */
static void test_a_lost_raise_of_the_total(void **state)
{
    (void)state;
    begin(1);
    mem_db_set_total(x.db, ITEM, 2);
    struct stock_set_total raise = {
        .op = {on_nothing, x.sched.now_us + S}, .item = ITEM, .seen = 1, .to = 2};
    x.buyers->ops->set_total(x.buyers, &raise);
    world_run(&x, 100 * MS);
    bought(1, 2);
    lose(2);
    mem_db_set_total(x.db, ITEM, 1);
    mem_db_promote(x.db);
    run_rounds(ITEM, 8);
    assert_string_equal(world_state(&x, ITEM, 2), "FAILED/LOST_ORDER");
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_string_equal(outcome(ITEM), "CLEAN");
    assert_int_equal(info(ITEM).total, 1);
    world_assert_clean(&x);
    end();
}

/* Without a change of the timeline a buyer who was told SUCCEEDED is not told otherwise. */
static void test_success_is_not_taken_back_without_a_timeline_change(void **state)
{
    (void)state;
    begin(2);
    bought(1, 2);
    run_rounds(ITEM, 2);
    lose(1);
    place_a_stranger();
    run_rounds(ITEM, 5);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_true(told(ITEM, "SETTLE"));
    end();
}

/* Mending turned off: told only; an operator who asks gets it done, and the answer after that. */
static void test_only_on_demand(void **state)
{
    (void)state;
    world_init(&x, 10);
    x.cfg.reconcile_interval_us = 1 * S;
    x.cfg.reconcile_mend = false;
    world_start(&x);
    bought(1, 2);
    mem_stock_add_free(x.stock, ITEM, 1);
    run_rounds(ITEM, 4);
    assert_true(told(ITEM, "{\"kind\":\"FREE_HIGH\",\"units\":1}"));
    assert_int_equal(info(ITEM).free, 9);
    mem_db_ask_reconcile(x.db, ITEM);
    run_rounds(ITEM, 2);
    assert_false(mem_db_asked_reconcile(x.db, ITEM));
    assert_int_equal(info(ITEM).free, 8);
    /* and of what is new the answer waits for the second sample */
    mem_stock_add_free(x.stock, ITEM, 2);
    mem_db_ask_reconcile(x.db, ITEM);
    while (mem_db_asked_reconcile(x.db, ITEM))
        world_run(&x, 10 * MS);
    assert_true(told(ITEM, "{\"kind\":\"FREE_HIGH\",\"units\":2,\"mended\":\"LOWERED\"}"));
    end();
}

/* Whatever call fails, of whatever kind: the round says nothing, and a later one does. */
static void test_calls_that_fail(void **state)
{
    (void)state;
    static const int stock_ops[] = {MEM_STOCK_INSPECT, MEM_STOCK_HOLDERS, MEM_STOCK_HELD,
                                    MEM_STOCK_PENDING, MEM_STOCK_MEND,    MEM_STOCK_LOWER};
    static const int orders_ops[] = {MEM_ORDERS_RECONCILE_ASKED, MEM_ORDERS_RECONCILE_BEGIN,
                                     MEM_ORDERS_RECONCILE_LOOK, MEM_ORDERS_RECONCILE_ORDERS,
                                     MEM_ORDERS_RECONCILE_END};
    static const enum mem_fault_kind kinds[] = {MEM_FAULT_NOT_DONE, MEM_FAULT_REPLY_LOST,
                                                MEM_FAULT_REQUEST_LOST};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 11; i++) {
            begin(10);
            bought(1, 3);
            mem_stock_remove_buyer(x.stock, ITEM, 2);
            mem_stock_add_free(x.stock, ITEM, 2);
            if (i < 6)
                mem_faults_add(mem_stock_faults(x.stock), stock_ops[i], 1, kinds[k], 0);
            else
                mem_jobs_fault_all(x.jobs, orders_ops[i - 6], 1, kinds[k], 0);
            run_rounds(ITEM, 8);
            assert_string_equal(outcome(ITEM), "CLEAN");
            assert_int_equal(info(ITEM).free, 7);
            assert_int_equal(info(ITEM).buyers, 3);
            mem_faults_clear(mem_stock_faults(x.stock), -1);
            world_assert_clean(&x);
            end();
        }
    }
}

/* A page is a page, and an item of many buyers takes as many as it needs. */
static void test_many_buyers(void **state)
{
    (void)state;
    enum { N = 1200 };
    begin(N);
    for (int64_t user = 1; user <= N; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 3 * S);
    mem_stock_remove_buyer(x.stock, ITEM, 777);
    run_rounds(ITEM, 3);
    assert_int_equal(info(ITEM).buyers, N);
    run_rounds(ITEM, 1);
    assert_true(told(ITEM, "\"active\":1200"));
    assert_string_equal(outcome(ITEM), "CLEAN");
    world_assert_clean(&x);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_on_its_way_is_not_wrong),
        cmocka_unit_test(test_a_stolen_unit_is_told),
        cmocka_unit_test(test_an_invented_unit_is_taken_away),
        cmocka_unit_test(test_a_lost_entry_is_named_and_comes_back),
        cmocka_unit_test(test_an_entry_of_a_released_one_goes),
        cmocka_unit_test(test_a_cancel_that_the_database_lost),
        cmocka_unit_test(test_what_waits_and_is_not_pending),
        cmocka_unit_test(test_what_is_settled_only_here_is_settled_there),
        cmocka_unit_test(test_what_is_being_rebuilt_is_left_alone),
        cmocka_unit_test(test_a_broken_item_is_paused_alone),
        cmocka_unit_test(test_totals_that_differ),
        cmocka_unit_test(test_a_promotion_that_lost_orders),
        cmocka_unit_test(test_a_lost_order_that_cannot_be_placed),
        cmocka_unit_test(test_a_lost_order_is_refused_slowly),
        cmocka_unit_test(test_a_lost_raise_of_the_total),
        cmocka_unit_test(test_success_is_not_taken_back_without_a_timeline_change),
        cmocka_unit_test(test_only_on_demand),
        cmocka_unit_test(test_calls_that_fail),
        cmocka_unit_test(test_many_buyers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
