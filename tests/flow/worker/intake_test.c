/* What is in hand: never more than workers + queue, received only when it makes sense, and never
 * kept beyond its lease (architecture 6). */
#include "world.h"

#include <stdio.h>

static void open_small(struct world *x)
{
    world_init(x, 1000);
    x->cfg.workers = 8;
    x->cfg.queue = 16;
}

static void slow_down(struct world *x, int64_t us)
{
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x->jobs, i)), MEM_ORDERS_PLACE, 0,
                       MEM_FAULT_REPLY_LATE, us);
}

static void test_never_more_than_workers_and_queue(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    for (int user = 1; user <= 500; user++) {
        world_reserve(&x, ITEM, user);
        world_reserve(&x, ITEM_2, user);
    }
    world_start(&x); /* world_run looks at the bound at every event */
    slow_down(&x, 300 * MS);
    world_run(&x, 5 * S);
    assert_int_equal(x.most_in_hand, 24);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 30 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM) + mem_db_active_orders(x.db, ITEM_2), 1000);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_queue_that_returns_too_much_does_not_break_the_bound(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    x.cfg.queue = 0;
    x.cfg.workers = 4;
    x.surplus = 3;
    world_start(&x);
    /* The fake's own bound must not hide ours. */
    slow_down(&x, 100 * MS);
    for (int user = 1; user <= 12; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 5 * S);
    assert_true(x.most_in_hand <= 4);
    x.surplus = 0;
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 40 * S); /* what was let go comes back when its lease ends */
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 12);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_receive_errors_back_off(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    world_start(&x);
    struct mem_faults *f = mem_queue_faults(x.queue);
    mem_faults_add(f, MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 6 * S); /* the poll under way ends */
    int before = f->calls[MEM_QUEUE_RECEIVE];
    world_run(&x, 10 * S);
    int calls = f->calls[MEM_QUEUE_RECEIVE] - before;
    /* Full jitter up to 1 s: about two a second, and never a busy loop. */
    assert_in_range(calls, 10, 60);
    mem_faults_clear(f, -1);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 2 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_leases_of_waiting_messages_are_prolonged(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    x.cfg.batch_max = 1;
    x.cfg.tx_budget_us = 3 * S;
    world_start(&x);
    slow_down(&x, 1500 * MS); /* 24 of one item, one by one: 36 s, far beyond a lease */
    for (int user = 1; user <= 24; user++)
        world_reserve(&x, ITEM, user);
    world_trace(&x);
    world_run(&x, 28 * S);
    const char *trace = world_trace(&x);
    assert_non_null(strstr(trace, "extend "));
    int placed = 0;
    for (const char *at = trace; (at = strstr(at, "place ")); at++)
        placed++;
    /* Without it most would have been delivered twice. */
    assert_in_range(placed, 16, 20);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 60 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 24);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* SIGSTOP for 20 s: what it finds in hand afterwards may be another worker's by now. */
static void test_a_process_that_slept_does_not_place_what_is_not_its_own(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    x.cfg.batch_max = 1;
    world_start(&x);
    slow_down(&x, 200 * MS);
    for (int user = 1; user <= 10; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 100 * MS);
    world_trace(&x);
    assert_true(x.w->hand.waiting >= 5);
    x.sched.now_us += 20 * S; /* nothing ran meanwhile; every timer is late at once */
    sched_run(&x.sched, x.sched.now_us);
    world_run(&x, 1);
    /* One answer came; no other message of before was begun. */
    assert_int_equal(x.w->hand.waiting, 0);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 40 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 10);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* A transaction that hangs is over while its message is still ours for as long as the margin says:
 * its end has to be done with before another worker may have the message. */
static void test_a_transaction_ends_a_margin_before_its_lease(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    x.cfg.tx_budget_us = 60 * S;
    world_start(&x);
    slow_down(&x, 30 * S);
    world_reserve(&x, ITEM, 1); /* received at once: its lease is 10 s, the margin 2 s */
    world_run(&x, 7800 * MS);
    assert_int_equal(hand_active(&x.w->hand), 1);
    world_run(&x, 400 * MS);
    assert_int_equal(hand_active(&x.w->hand), 0);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 60 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* SIGSTOP between two tries of a transaction: by the second one the message is another's. */
static void test_a_pause_that_was_slept_through_is_not_followed_by_a_try(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    x.cfg.tx_budget_us = 60 * S;
    x.cfg.retry_base_us = x.cfg.retry_max_us = 1 * S;
    world_start(&x);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_PLACE, 1, MEM_FAULT_ANSWER, ERR_CONFLICT);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 5 * MS);
    assert_string_equal(world_trace(&x), "place 1=ERR_CONFLICT");
    x.sched.now_us += 20 * S;
    sched_run(&x.sched, x.sched.now_us);
    world_run(&x, 1);
    assert_int_equal(hand_active(&x.w->hand), 0);
    assert_null(strstr(world_trace(&x), "place"));
    world_run(&x, 20 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_new_items_are_seen_within_a_second(void **state)
{
    struct world x;
    struct item late = {7, 8};
    (void)state;
    open_small(&x);
    world_start(&x);
    world_run(&x, 3 * S);
    mem_stock_put_item(x.stock, late, 10);
    mem_db_put_item(x.db, late, 10, 1);
    world_reserve(&x, late, 1);
    world_run(&x, 1 * S);
    assert_string_equal(world_state(&x, late, 1), "SUCCEEDED");
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_drain_finishes_what_is_in_hand(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    world_start(&x);
    slow_down(&x, 100 * MS);
    for (int user = 1; user <= 60; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 20 * MS);
    assert_true(x.w->hand.used > 10);
    world_stop(&x);
    /* What it had is ordered and acked, the rest waits for another worker; nothing was lost. */
    assert_int_equal(mem_db_unsettled(x.db), 0);
    assert_int_equal(mem_broker_acked(x.broker, ITEM), mem_db_active_orders(x.db, ITEM));
    world_start(&x);
    world_run(&x, 15 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 60);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Nothing is under way and yet the hand is full: what waits for PostgreSQL is given time to come
 * through, until its leases are over. */
static void test_a_drain_while_postgresql_is_away(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    world_start(&x);
    for (int op = 0; op < MEM_ORDERS_OPS; op++)
        mem_jobs_fault_all(x.jobs, op, 0, MEM_FAULT_NOT_DONE, 0);
    for (int i = 0; i < 5; i++)
        health_saw(x.w, ERR_UNAVAIL);
    assert_false(health_usable(x.w));
    for (int user = 1; user <= 10; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 5 * MS);
    assert_true(x.w->hand.waiting > 0);
    assert_int_equal(hand_active(&x.w->hand), 0);
    world_stop(&x);
    assert_int_equal(mem_broker_acked(x.broker, ITEM), 0);
    world_start(&x);
    world_run(&x, 15 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 10);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_cancelled_drain_leaves_the_rest_to_redelivery(void **state)
{
    struct world x;
    (void)state;
    open_small(&x);
    x.cfg.batch_max = 1;
    world_start(&x);
    slow_down(&x, 500 * MS);
    for (int user = 1; user <= 40; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 100 * MS);
    world_die(&x);
    assert_true(mem_broker_unacked(x.broker, ITEM) > 0);
    world_start(&x);
    world_run(&x, 30 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 40);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_more_than_workers_and_queue),
        cmocka_unit_test(test_a_queue_that_returns_too_much_does_not_break_the_bound),
        cmocka_unit_test(test_receive_errors_back_off),
        cmocka_unit_test(test_leases_of_waiting_messages_are_prolonged),
        cmocka_unit_test(test_a_process_that_slept_does_not_place_what_is_not_its_own),
        cmocka_unit_test(test_a_transaction_ends_a_margin_before_its_lease),
        cmocka_unit_test(test_a_pause_that_was_slept_through_is_not_followed_by_a_try),
        cmocka_unit_test(test_new_items_are_seen_within_a_second),
        cmocka_unit_test(test_a_drain_finishes_what_is_in_hand),
        cmocka_unit_test(test_a_drain_while_postgresql_is_away),
        cmocka_unit_test(test_a_cancelled_drain_leaves_the_rest_to_redelivery),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
