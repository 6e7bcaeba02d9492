/* Rule 22: what the broker gave up (a RocketMQ-like queue: delivered as dead after 16 deliveries)
 * is decided on by what PostgreSQL knows of it, never by the broker's count. */
#include "world.h"

#include <stdio.h>

#define DEAD_AFTER 16

static void open_dead(struct world *x)
{
    world_init_on(x, 200, (struct mem_broker_config){.dead_after = DEAD_AFTER});
}

/* All that waits was delivered in vain until the broker gave it up. */
static void give_up(struct world *x)
{
    mem_broker_set_deliveries(x->broker, ITEM, DEAD_AFTER);
}

static int appended(struct world *x)
{
    int n = 0;
    while (mem_broker_body(x->broker, ITEM, n).ptr)
        n++;
    return n;
}

struct truth {
    struct orders *o;
    struct ctx ctx;
};

static struct truth ask_truth(struct world *x)
{
    struct truth t = {.o = mem_orders_new(x->db)};
    ctx_init(&t.ctx, NULL, CTX_NO_DEADLINE);
    return t;
}

static void fail_by_itself(struct world *x, int64_t user, int times)
{
    struct truth t = ask_truth(x);
    struct uuid id = world_message_id(x, ITEM, user);
    int count = 0;
    for (int i = 0; i < times; i++)
        assert_int_equal(t.o->ops->count_attempts(t.o, &t.ctx, &id, "test", &count, 1), 0);
    mem_orders_free(t.o);
}

/* Fewer own failures than max_attempts: it never had its chance. Nor is it a suspect (rule 23). */
static void test_published_again(void **state)
{
    static const int failures[] = {0, 1, 7};
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct world x;
        open_dead(&x);
        world_reserve(&x, ITEM, 1);
        give_up(&x);
        fail_by_itself(&x, 1, failures[i]);
        world_start_now(&x);
        uint64_t before = metric_value(x.w->metrics.returned);
        world_run(&x, 200 * MS);
        assert_string_equal(world_trace(&x),
                            "inbox 1 | later 1 | place 1 | settle 1 | ack 1 | mark 1");
        assert_int_equal(metric_value(x.w->metrics.returned), before + 1);
        assert_int_equal(appended(&x), 2); /* the same body, so the same message_id */
        assert_true(str_eq(mem_broker_body(x.broker, ITEM, 0), mem_broker_body(x.broker, ITEM, 1)));
        world_assert_clean(&x);
        world_stop(&x);
        world_deinit(&x);
    }
}

/* Settled again and acked; its deliveries make no suspect of it on the way (rule 23). */
static void settled_before(int again, const char *trace)
{
    struct world x;
    open_dead(&x);
    x.again_for = 1;
    x.again_times = again;
    world_reserve(&x, ITEM, 1);
    give_up(&x);
    struct truth t = ask_truth(&x);
    struct event e = world_event(&x, ITEM, 1);
    struct orders_row row = {.message_id = e.message_id,
                             .request_id = e.request_id,
                             .reservation_id = e.reservation_id,
                             .user_id = 1,
                             .order_id = e.order_id};
    assert_int_equal(t.o->ops->place(t.o, &t.ctx, ITEM, &row, 1, NULL), 0);
    assert_int_equal(t.o->ops->mark_settled(t.o, &t.ctx, &row.outbox_id, 1, true), 0);
    mem_orders_free(t.o);
    world_start(&x);
    world_run(&x, 190 * MS);
    assert_string_equal(world_trace(&x), trace);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_int_equal(appended(&x), 1);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_settled_before(void **state)
{
    (void)state;
    settled_before(0, "inbox 1 | place 1 | settle 1 | ack 1");
    settled_before(1, "inbox 1 | place 1 | place 1 | settle 1 | ack 1");
}

static void test_failed_too_often(void **state)
{
    struct world x;
    (void)state;
    open_dead(&x);
    world_reserve(&x, ITEM, 1);
    give_up(&x);
    fail_by_itself(&x, 1, 8);
    world_start(&x);
    world_run(&x, 190 * MS);
    assert_string_equal(world_trace(&x), "inbox 1 | quarantine 1 | ack 1");
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    world_stop(&x);
    world_deinit(&x);
}

/* Its ack was lost until the broker gave it up. */
static void test_quarantined_before(void **state)
{
    struct world x;
    (void)state;
    open_dead(&x);
    world_reserve(&x, ITEM, 1);
    give_up(&x);
    struct truth t = ask_truth(&x);
    struct event e = world_event(&x, ITEM, 1);
    struct orders_dead_letter dl = {.decoded = true,
                                    .message_id = e.message_id,
                                    .request_id = e.request_id,
                                    .reservation_id = e.reservation_id,
                                    .user_id = 1,
                                    .order_id = e.order_id,
                                    .item = ITEM,
                                    .broker_id = STR("x"),
                                    .body = STR("x"),
                                    .reason = STR("test")};
    bool settled;
    assert_int_equal(t.o->ops->quarantine(t.o, &t.ctx, &dl, 1, &settled), 0);
    mem_orders_free(t.o);
    world_start(&x);
    world_run(&x, 190 * MS);
    assert_string_equal(world_trace(&x), "inbox 1 | quarantine 1 | ack 1");
    assert_int_equal(mem_db_dead_letters(x.db), 1); /* the one that was there */
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    world_stop(&x);
    world_deinit(&x);
}

/* Rules 22 and 24: stored raw, then acked; while it cannot be stored it is neither acked nor
 * published again, which would be the same. */
static void test_unreadable(void **state)
{
    struct world x;
    (void)state;
    open_dead(&x);
    mem_broker_append(x.broker, ITEM, STR("no event"), NULL);
    give_up(&x);
    world_start_now(&x);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_QUARANTINE, 1, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 5 * S);
    assert_string_equal(world_trace(&x), "quarantine 0=ERR_UNAVAIL");
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 1);
    world_run(&x, 30 * S);
    assert_non_null(strstr(world_trace(&x), "quarantine 0 | ack 1"));
    assert_int_equal(appended(&x), 1);
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    world_stop(&x);
    world_deinit(&x);
}

/* Of one that could not be asked about nothing is known: it is left to its lease. */
static void test_asking_fails(void **state)
{
    static const enum mem_orders_op ops[] = {MEM_ORDERS_INBOX, MEM_ORDERS_ATTEMPTS};
    static const enum mem_fault_kind kinds[] = {MEM_FAULT_NOT_DONE, MEM_FAULT_REPLY_LOST};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world x;
        open_dead(&x);
        world_reserve(&x, ITEM, 1);
        give_up(&x);
        world_start_now(&x);
        mem_jobs_fault_all(x.jobs, ops[i / 2], 1, kinds[i % 2], 0);
        world_run(&x, 9 * S); /* recovery (after 5 s) sees that it is in hand */
        const char *trace = world_trace(&x);
        assert_non_null(strstr(trace, "inbox 1"));
        assert_null(strstr(trace, "ack"));
        assert_null(strstr(trace, "later"));
        assert_int_equal(x.w->hand.used, 0);
        assert_int_equal(mem_broker_unacked(x.broker, ITEM), 1);
        world_run(&x, 40 * S);
        assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
        world_assert_clean(&x);
        world_stop(&x);
        world_deinit(&x);
    }
}

/* With PostgreSQL away nothing is asked; those in hand go back by their lease. */
static void test_postgres_is_away(void **state)
{
    struct world x;
    (void)state;
    open_dead(&x);
    world_reserve(&x, ITEM_2, 1);
    world_start_now(&x);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_PLACE, 0, MEM_FAULT_NOT_DONE, 0);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_PROBE, 0, MEM_FAULT_NOT_DONE, 0);
    for (int step = 0; step < 100000 && health_usable(x.w); step++)
        world_run(&x, 1 * MS);
    assert_false(health_usable(x.w));
    world_trace(&x);
    world_reserve(&x, ITEM, 2);
    give_up(&x);
    world_run(&x, 100 * MS);
    assert_int_equal(x.w->hand.used, 1); /* by the poll that waited already */
    world_reserve(&x, ITEM, 3);
    give_up(&x);
    world_run(&x, 20 * S);
    assert_int_equal(x.w->hand.used, 0);
    assert_null(strstr(world_trace(&x), "inbox"));
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 0);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 40 * S);
    assert_string_equal(world_state(&x, ITEM, 2), "SUCCEEDED");
    assert_string_equal(world_state(&x, ITEM, 3), "SUCCEEDED");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Asked about many at once, beside healthy ones, within the bound of what may be in hand. */
static void test_many(void **state)
{
    struct world x;
    (void)state;
    open_dead(&x);
    for (int user = 1; user <= 150; user++)
        world_reserve(&x, ITEM, user);
    give_up(&x);
    for (int user = 1; user <= 20; user++)
        world_reserve(&x, ITEM_2, user);
    world_start(&x);
    world_run(&x, 500 * MS);
    const char *trace = world_trace(&x);
    int asks = 0;
    for (const char *at = trace; (at = strstr(at, "inbox")); at++)
        asks++;
    assert_in_range(asks, 150 / RETURNED_ASK_MAX, 30);
    assert_null(strstr(trace, "begin"));
    world_run(&x, 20 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 150);
    assert_int_equal(mem_db_active_orders(x.db, ITEM_2), 20);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Own failures are counted here, not there: retry later from delivery 8 on publishes again, and the
 * eighth own failure buries it before the broker ever gives it up. */
static void test_own_failures_come_first(void **state)
{
    struct world x;
    (void)state;
    world_init_on(&x, 200, (struct mem_broker_config){.shared = true, .dead_after = DEAD_AFTER});
    world_reserve(&x, ITEM, 1);
    mem_broker_set_deliveries(x.broker, ITEM, 3);
    struct uuid id = world_message_id(&x, ITEM, 1);
    mem_db_poison(x.db, &id, ERR_INVALID);
    x.cfg.recover_after_us = 600 * S; /* it would publish again what is delivered again (rule 26) */
    /* One own failure on record, so that it is no suspect. */
    fail_by_itself(&x, 1, 1);
    world_start(&x);
    uint64_t before = metric_value(x.w->metrics.returned);
    world_run(&x, 60 * S);
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    assert_int_equal(appended(&x), 2); /* at its eighth delivery */
    assert_int_equal(metric_value(x.w->metrics.returned), before);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    world_stop(&x);
    world_deinit(&x);
}

/* One that ends the process each time, and that the broker gave up meanwhile: published again, it
 * meets the suspects from its fourth delivery on, with the marks it had (rules 22, 23). */
static void kill_until_buried(int marks, int deaths_expected)
{
    struct world x;
    open_dead(&x);
    for (int user = 1; user <= 5; user++)
        world_reserve(&x, ITEM, user);
    give_up(&x);
    struct uuid killer = world_message_id(&x, ITEM, 3);
    mem_db_poison(x.db, &killer, ERR_CANCELED); /* it never commits: the process is gone */
    struct truth t = ask_truth(&x);
    for (int i = 0; i < marks; i++) {
        char life[32];
        int dead;
        int64_t fleet;
        snprintf(life, sizeof life, "before-%d", i);
        t.o->ops->beat(t.o, &t.ctx, str_of(life), 0, &fleet);
        t.o->ops->suspect_begin(t.o, &t.ctx, &killer, str_of(life), &dead);
    }
    mem_orders_free(t.o);
    world_run(&x, 11 * S);
    int deaths = 0;
    for (; deaths < 20 && mem_db_dead_letters(x.db) == 0; deaths++) {
        world_start_now(&x);
        for (int step = 0; step < 200000 && mem_db_dead_letters(x.db) == 0; step++) {
            world_run(&x, 500);
            if (strstr(world_trace(&x), "=ERR_CANCELED"))
                break;
        }
        if (mem_db_dead_letters(x.db) == 0) {
            world_die(&x);
            world_trace(&x);
            world_run(&x, 11 * S);
        }
    }
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    assert_int_equal(deaths, deaths_expected);
    world_run(&x, 30 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 4);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_killer_is_caught_all_the_same(void **state)
{
    (void)state;
    kill_until_buried(0, 9); /* 3 unsuspected, 32 together, 8 together, 3 alone; then buried */
    kill_until_buried(2, 7);
}

/* The drain finishes what is in hand; a cancel leaves it to its lease. */
static void test_the_end(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct world x;
        open_dead(&x);
        for (int user = 1; user <= 3; user++)
            world_reserve(&x, ITEM, user);
        give_up(&x);
        world_start_now(&x);
        while (x.w->hand.used == 0)
            world_run(&x, 100);
        if (cancel) {
            worker_cancel(x.w);
            x.cfg.poll_us = 0;
        }
        world_stop(&x);
        const char *trace = world_trace(&x);
        assert_true((strstr(trace, "later") != NULL) == !cancel);
        assert_int_equal(mem_broker_unacked(x.broker, ITEM), 3);
        world_deinit(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_again),
        cmocka_unit_test(test_settled_before),
        cmocka_unit_test(test_failed_too_often),
        cmocka_unit_test(test_quarantined_before),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_asking_fails),
        cmocka_unit_test(test_postgres_is_away),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_own_failures_come_first),
        cmocka_unit_test(test_a_killer_is_caught_all_the_same),
        cmocka_unit_test(test_the_end),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
