/* Cancel, pay, expire (architecture 7, rules 27 and 31): commands through the queue, those that
 * came before their order, and the sweep of what nobody pays. */
#include "world.h"

#include <stdio.h>

static struct world *begin(struct world *x)
{
    world_init(x, 10);
    world_start(x);
    return x;
}

/* Its effect is there. */
static void command(struct world *x, int64_t user, enum event_command what)
{
    world_command(x, ITEM, user, what);
    world_run(x, 500 * MS);
}

/* The user's cancel ends in rc whenever it is tried; 0: as it would. */
static void poison_cancel(struct world *x, int64_t user, int rc)
{
    struct event e = world_event(x, ITEM, user);
    struct uuid id = event_cancel_id(&e.reservation_id);
    mem_db_poison(x->db, &id, rc);
}

static void test_pay(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    command(&x, 1, EVENT_PAY);
    assert_string_equal(world_trace(&x), "pay 1:PAID | ack 1");
    assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, 1)), "PAID");
    /* Rule 27: it stays. */
    command(&x, 1, EVENT_CANCEL);
    assert_string_equal(world_trace(&x), "cancel 1:REFUSED | ack 1");
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    struct event e = world_event(&x, ITEM, 1);
    assert_true(mem_stock_find(x.stock, ITEM, 1, &e.request_id)->cancel_refused);
    world_end_clean(&x);
}

static void test_cancel(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    command(&x, 1, EVENT_CANCEL);
    assert_string_equal(world_trace(&x), "cancel 1:CANCELLED | settle 1 | ack 1 | mark 1");
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    assert_int_equal(mem_db_sold(x.db, ITEM), 0);
    /* A repeat hears the same, and gives nothing back. */
    command(&x, 1, EVENT_CANCEL);
    assert_string_equal(world_trace(&x), "cancel 1:CANCELLED | ack 1");
    world_end_clean(&x);
}

static void test_a_late_payment_is_refunded(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    command(&x, 1, EVENT_CANCEL);
    command(&x, 1, EVENT_PAY);
    assert_int_equal(mem_db_refunds(x.db), 1);
    assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, 1)), "CANCELLED");
    world_end_clean(&x);
}

/* Batches are of one kind; a command behind its order finds it. */
static void test_kinds_do_not_mix(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    for (int user = 1; user <= 3; user++)
        world_reserve(&x, ITEM, user);
    for (int user = 1; user <= 3; user++)
        world_command(&x, ITEM, user, user == 2 ? EVENT_PAY : EVENT_CANCEL);
    world_start(&x);
    world_run(&x, 50 * MS);
    const char *trace = world_trace(&x);
    const char *placed = strstr(trace, "place 1,2,3"), *cancel = strstr(trace, "cancel 1:"),
               *pay = strstr(trace, "pay 2:PAID");
    assert_true(placed && cancel && pay && placed < cancel && placed < pay);
    assert_non_null(strstr(trace, "cancel 1:CANCELLED,3:CANCELLED"));
    world_end_clean(&x);
}

/* Rule 27: parked, acknowledged, and run by the sweep when the order is there. */
static void test_before_the_order(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_command(&x, ITEM, 2, EVENT_PAY);
    world_run(&x, 1500 * MS);
    assert_string_equal(world_trace(&x), "cancel 1:PARKED | ack 1 | pay 2:PARKED | ack 1");
    assert_int_equal(mem_db_parked(x.db), 2);
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, ITEM, 2);
    world_run(&x, 2500 * MS);
    assert_int_equal(mem_db_parked(x.db), 0);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, 2)), "PAID");
    const char *trace = world_trace(&x);
    assert_non_null(strstr(trace, "parked 2 | cancel 1:CANCELLED | pay 2:PAID | settle 1"));
    world_end_clean(&x);
}

static void test_given_up(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    x.cfg.parked_give_up_us = 5 * S;
    world_start(&x);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_command(&x, ITEM, 2, EVENT_PAY);
    world_run(&x, 8 * S);
    assert_int_equal(mem_db_parked(x.db), 0);
    assert_int_equal(mem_db_refunds(x.db), 1);
    const char *trace = world_trace(&x);
    assert_non_null(strstr(trace, "cancel! 1:NOTHING | pay! 2:REFUNDED"));
    world_end_clean(&x);
}

static void test_expiry(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    for (int user = 1; user <= 3; user++)
        world_buy(&x, ITEM, user);
    world_command(&x, ITEM, 2, EVENT_PAY);
    world_run(&x, 899 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_run(&x, 12 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/EXPIRED");
    assert_string_equal(world_state(&x, ITEM, 2), "SUCCEEDED");
    assert_string_equal(world_state(&x, ITEM, 3), "CANCELLED/EXPIRED");
    assert_int_equal(mem_db_sold(x.db, ITEM), 1);
    /* Too late: their money goes back, the units are somebody else's already. */
    command(&x, 1, EVENT_PAY);
    assert_int_equal(mem_db_refunds(x.db), 1);
    world_end_clean(&x);
}

/* Rule 31: a payment that is still in the queue was accepted in time. */
static void test_expiry_waits_for_the_backlog(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    world_run(&x, 890 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    /* Its worker dies with it in hand, for twenty seconds. */
    world_die(&x);
    world_command(&x, ITEM, 1, EVENT_PAY);
    world_run(&x, 20 * S);
    mem_faults_clear(mem_stock_faults(x.stock), -1);
    world_start(&x);
    world_run(&x, 30 * S);
    assert_string_equal(mem_db_order_status(x.db, world_order_id(ITEM, 1)), "PAID");
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_end_clean(&x);
}

/* Rule 31: of a queue whose age nobody knows, max_hold later. */
static void test_expiry_of_an_unknown_age(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LAG, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 1490 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_run(&x, 20 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/EXPIRED");
    world_end_clean(&x);
}

/* More than a tick's bound, of several items. */
static void test_many_expire(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 2000);
    world_start(&x);
    for (int user = 1; user <= 700; user++)
        world_reserve(&x, user % 2 ? ITEM : ITEM_2, user);
    world_run(&x, 5 * S);
    assert_int_equal(mem_db_sold(x.db, ITEM) + mem_db_sold(x.db, ITEM_2), 700);
    world_run(&x, 910 * S);
    assert_int_equal(mem_db_sold(x.db, ITEM) + mem_db_sold(x.db, ITEM_2), 0);
    world_end_clean(&x);
}

/* Rule 20: the bad one is found, counted and put away; the others are not harmed. */
static void test_a_bad_command(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    for (int user = 1; user <= 4; user++)
        world_buy(&x, ITEM, user);
    poison_cancel(&x, 3, ERR_INVALID);
    for (int user = 1; user <= 4; user++)
        world_command(&x, ITEM, user, EVENT_CANCEL);
    world_run(&x, 1 * S);
    for (int user = 1; user <= 4; user++)
        assert_string_equal(world_state(&x, ITEM, user),
                            user == 3 ? "SUCCEEDED" : "CANCELLED/CANCELLED");
    assert_int_equal(mem_db_dead_letters(x.db), 0);
    world_run(&x, 60 * S);
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    world_end_clean(&x);
}

/* Rule 20: a parked one that fails by its own fault is counted and put away, too, and those behind
 * it do not wait. */
static void test_a_bad_parked_command(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    for (int user = 1; user <= 3; user++) {
        world_command(&x, ITEM, user, EVENT_CANCEL);
        world_run(&x, 100 * MS);
    }
    world_command(&x, ITEM_2, 4, EVENT_CANCEL);
    world_run(&x, 1 * S);
    assert_int_equal(mem_db_parked(x.db), 4);
    poison_cancel(&x, 1, ERR_INVALID);
    for (int user = 1; user <= 4; user++)
        world_reserve(&x, user == 4 ? ITEM_2 : ITEM, user);
    world_run(&x, 3 * S);
    for (int user = 2; user <= 3; user++)
        assert_string_equal(world_state(&x, ITEM, user), "CANCELLED/CANCELLED");
    assert_string_equal(world_state(&x, ITEM_2, 4), "CANCELLED/CANCELLED");
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_int_equal(mem_db_parked(x.db), 1);
    assert_int_equal(mem_db_dead_letters(x.db), 0);
    world_run(&x, 20 * S);
    assert_int_equal(mem_db_parked(x.db), 0);
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    int runs = mem_orders_faults(mem_jobs_orders(x.jobs, 0))->calls[MEM_ORDERS_PARKED_FAILED];
    world_run(&x, 10 * S);
    assert_int_equal(mem_orders_faults(mem_jobs_orders(x.jobs, 0))->calls[MEM_ORDERS_PARKED_FAILED],
                     runs);
    world_end_clean(&x);
}

/* Rule 20: all alike is nobody's fault. */
static void test_all_parked_commands_fail_alike(void **state)
{
    struct world x;
    (void)state;
    begin(&x);
    for (int user = 1; user <= 3; user++) {
        world_command(&x, ITEM, user, EVENT_CANCEL);
        world_run(&x, 100 * MS);
        poison_cancel(&x, user, ERR_INVALID);
    }
    for (int user = 1; user <= 3; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 30 * S);
    assert_int_equal(mem_db_parked(x.db), 3);
    assert_int_equal(mem_db_dead_letters(x.db), 0);
    for (int user = 1; user <= 3; user++)
        poison_cancel(&x, user, 0);
    world_end_clean(&x);
}

/* An outage is nobody's fault: nothing is counted, all come again. */
static void test_postgresql_away(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_CANCEL, 0, MEM_FAULT_NOT_DONE, 0);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_run(&x, 30 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_null(strstr(world_trace(&x), "count"));
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 30 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "CANCELLED/CANCELLED");
    assert_int_equal(mem_db_dead_letters(x.db), 0);
    world_end_clean(&x);
}

/* Rule 23: what may end the process runs alone, and as what it is: no order is made of it. */
static void test_a_suspected_command(void **state)
{
    struct world x;
    (void)state;
    world_buy(begin(&x), ITEM, 1);
    world_stop(&x);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_deliver_in_vain(&x, 6);
    world_trace(&x);
    world_start(&x);
    world_run(&x, 500 * MS);
    assert_string_equal(
        world_trace(&x),
        "inbox 1 | begin 0 | cancel 1:CANCELLED | settle 1 | ack 1 | clear 1 | mark 1");
    world_end_clean(&x);
}

/* --- every call × every fault --- */

static const enum mem_fault_kind kinds[] = {
    MEM_FAULT_NOT_DONE,   MEM_FAULT_REPLY_LOST, MEM_FAULT_REQUEST_LOST,
    MEM_FAULT_REPLY_LATE, MEM_FAULT_HELD_BACK,  MEM_FAULT_TWICE,
};

/* k 0: every call for five seconds. */
static void one(int op, int k, enum mem_fault_kind kind)
{
    struct world x;
    world_init(&x, 100);
    x.cfg.unpaid_us = 20 * S;
    world_start(&x);
    for (int user = 1; user <= 4; user++)
        world_buy(&x, ITEM, user);
    mem_jobs_fault_all(x.jobs, op, k, kind, 900 * MS);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_command(&x, ITEM, 2, EVENT_PAY);
    world_command(&x, ITEM, 5, EVENT_CANCEL);
    world_command(&x, ITEM, 6, EVENT_PAY);
    world_run(&x, 2 * S);
    world_reserve(&x, ITEM, 5);
    world_reserve(&x, ITEM, 6);
    world_run(&x, 3 * S);
    if (k == 0 && op != MEM_ORDERS_EXPIRE)
        mem_jobs_clear_faults(x.jobs);
    world_run(&x, 25 * S);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 60 * S);
    static const char *const states[] = {"CANCELLED/CANCELLED", "SUCCEEDED",
                                         "CANCELLED/EXPIRED",   "CANCELLED/EXPIRED",
                                         "CANCELLED/CANCELLED", "SUCCEEDED"};
    for (int user = 1; user <= 6; user++) {
        if (strcmp(world_state(&x, ITEM, user), states[user - 1]) != 0)
            fail_msg("op %d call %d fault %d: user %d is %s", op, k, (int)kind, user,
                     world_state(&x, ITEM, user));
    }
    assert_int_equal(mem_db_sold(x.db, ITEM), 2);
    assert_int_equal(mem_db_parked(x.db) + mem_db_refunds(x.db) + mem_db_dead_letters(x.db), 0);
    world_end_clean(&x);
}

static void test_faults(void **state)
{
    static const int ops[] = {MEM_ORDERS_CANCEL, MEM_ORDERS_PAY, MEM_ORDERS_PARKED,
                              MEM_ORDERS_EXPIRE};
    (void)state;
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
        for (int k = 0; k <= 3; k++) {
            for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
                one(ops[o], k, kinds[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pay),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_a_late_payment_is_refunded),
        cmocka_unit_test(test_kinds_do_not_mix),
        cmocka_unit_test(test_before_the_order),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_expiry_waits_for_the_backlog),
        cmocka_unit_test(test_expiry_of_an_unknown_age),
        cmocka_unit_test(test_many_expire),
        cmocka_unit_test(test_a_bad_command),
        cmocka_unit_test(test_a_bad_parked_command),
        cmocka_unit_test(test_all_parked_commands_fail_alike),
        cmocka_unit_test(test_postgresql_away),
        cmocka_unit_test(test_a_suspected_command),
        cmocka_unit_test(test_faults),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
