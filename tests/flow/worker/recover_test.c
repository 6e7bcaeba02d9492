/* Reservations left behind (rules 25, 28–31), and the relay's sweep (rules 2, 9). */
#include "world.h"

#include <stdio.h>

/* The broker confirmed it and lost it. */
static void lose(struct world *x, int64_t user)
{
    world_reserve(x, ITEM, user);
    mem_broker_wipe(x->broker, ITEM);
}

static void open_short(struct world *x)
{
    world_init(x, 100);
    x->cfg.poll_us = 2 * S;
}

static void test_a_lost_message_is_published_again(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1);
    world_start(&x);
    world_run(&x, 4 * S);
    assert_string_equal(world_trace(&x), ""); /* not before recover_after */
    world_run(&x, 5 * S);
    assert_string_equal(world_trace(&x), "inbox 1 | claim 1 | publish 1 | note 1 | "
                                         "place 1 | settle 1 | ack 1 | mark 1");
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 28: what waits or is in hand is left alone, however old. */
static void test_a_backlog_is_left_alone(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.batch_max = 1;
    x.cfg.tx_budget_us = 5 * S;
    for (int user = 1; user <= 30; user++)
        world_reserve(&x, ITEM, user);
    world_start(&x);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PLACE, 0,
                       MEM_FAULT_REPLY_LATE, 1 * S);
    world_run(&x, 25 * S);
    const char *trace = world_trace(&x);
    assert_null(strstr(trace, "claim"));
    assert_null(strstr(trace, "publish"));
    world_run(&x, 30 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Settled in PostgreSQL, and Redis does not know: from the inbox, exactly as the first time. */
static void test_an_outcome_is_settled_again(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1);
    struct orders *o = mem_orders_new(x.db);
    struct ctx ctx;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    struct event e = world_event(&x, ITEM, 1);
    struct orders_row row = {.message_id = e.message_id,
                             .request_id = e.request_id,
                             .reservation_id = e.reservation_id,
                             .user_id = 1,
                             .order_id = e.order_id};
    assert_int_equal(o->ops->place(o, &ctx, ITEM, &row, 1, NULL), 0);
    assert_int_equal(o->ops->mark_settled(o, &ctx, &row.outbox_id, 1, true), 0);
    mem_orders_free(o);
    world_start(&x);
    world_run(&x, 8 * S);
    assert_string_equal(world_trace(&x), "inbox 1 | settle 1");
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void quarantine(struct world *x, int64_t user)
{
    struct orders *o = mem_orders_new(x->db);
    struct ctx ctx;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    struct event e = world_event(x, ITEM, user);
    struct orders_dead_letter dl = {.decoded = true,
                                    .message_id = e.message_id,
                                    .request_id = e.request_id,
                                    .reservation_id = e.reservation_id,
                                    .user_id = user,
                                    .order_id = e.order_id,
                                    .item = ITEM,
                                    .broker_id = STR("x"),
                                    .body = STR("x"),
                                    .reason = STR("test")};
    bool settled;
    assert_int_equal(o->ops->quarantine(o, &ctx, &dl, 1, &settled), 0);
    mem_orders_free(o);
}

/* Rule 25: held until the end of the sale, then voided; the unit comes back. */
static void test_a_quarantined_one_is_held_and_then_given_up(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1);
    quarantine(&x, 1);
    int64_t now = mem_clock_wall_ms(&x.sched);
    mem_stock_set_window(x.stock, ITEM, now - 1000, now + 60000);
    world_start(&x);
    world_run(&x, 50 * S);
    assert_null(strstr(world_trace(&x), "void"));
    world_run(&x, 20 * S);
    assert_non_null(strstr(world_trace(&x), "void 1 | settle 1"));
    assert_string_equal(world_state(&x, ITEM, 1), "FAILED/GIVEN_UP");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 30: published again without success, max_republish times; voided after max_hold, and not
 * before. */
static void test_void_after_many_publishes(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_republish = 2;
    x.cfg.max_hold_us = 60 * S;
    lose(&x, 1);
    world_start(&x);
    world_run(&x, 3 * S); /* a full receive round */
    /* From here on the broker loses each event before it is delivered. */
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    int published = 0;
    for (int i = 0; i < 600; i++) {
        world_run(&x, 100 * MS);
        mem_broker_wipe(x.broker, ITEM);
        published += strstr(world_trace(&x), "publish") != NULL;
    }
    assert_int_equal(published, 2);
    assert_string_equal(world_state(&x, ITEM, 1), "QUEUED"); /* nothing could be received */
    mem_faults_clear(mem_queue_faults(x.queue), -1);
    world_run(&x, 40 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "QUEUED");
    world_run(&x, 40 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "FAILED/VOID");
    world_run(&x, S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* An order and a void of the same reservation: whoever comes second obeys. */
static void test_a_void_that_comes_too_late_obeys_the_order(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_republish = 0;
    x.cfg.max_hold_us = 1 * S; /* void at once */
    lose(&x, 1);
    world_start(&x);
    world_run(&x, 4 * S);
    /* Another worker orders it between our look into the inbox and our void. */
    for (int step = 0; step < 10000; step++) {
        world_run(&x, 500);
        if (x.trace.len > 0)
            break;
    }
    assert_string_equal(world_trace(&x), "inbox 1");
    struct orders *o = mem_orders_new(x.db);
    struct ctx ctx;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    struct event e = world_event(&x, ITEM, 1);
    struct orders_row row = {.message_id = e.message_id,
                             .request_id = e.request_id,
                             .reservation_id = e.reservation_id,
                             .user_id = 1,
                             .order_id = e.order_id};
    assert_int_equal(o->ops->place(o, &ctx, ITEM, &row, 1, NULL), 0);
    mem_orders_free(o);
    world_run(&x, 2 * S);
    assert_non_null(strstr(world_trace(&x), "void 1=1 | settle 1"));
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_run(&x, 2 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* And the other way round: a message that arrives after the void finds the tombstone. */
static void test_an_order_after_the_void_finds_the_tombstone(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_republish = 0;
    x.cfg.max_hold_us = 1 * S;
    lose(&x, 1);
    world_start(&x);
    world_run(&x, 8 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "FAILED/VOID");
    world_post_again(&x, ITEM, 1);
    world_run(&x, 2 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 0);
    assert_string_equal(world_state(&x, ITEM, 1), "FAILED/VOID");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 30: max_hold counts only while PostgreSQL and the queue are usable. */
static void test_the_hold_does_not_run_during_an_outage(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_hold_us = 60 * S;
    world_start(&x);
    int64_t then = mem_clock_wall_ms(&x.sched);
    world_run(&x, 20 * S);
    assert_in_range(health_usable_since_us(x.w, then), 18 * S, 20 * S);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 100 * S);
    mem_faults_clear(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE);
    world_run(&x, 20 * S);
    assert_in_range(health_usable_since_us(x.w, then), 36 * S, 46 * S);
    /* A sleeping process does not count its sleep. */
    x.sched.now_us += 50 * S;
    world_run(&x, 1 * S);
    assert_in_range(health_usable_since_us(x.w, then), 36 * S, 48 * S);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 31: where it is nobody knows. Published again after 60 s, never voided. */
static void test_age_unknown(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_hold_us = 90 * S;
    x.cfg.max_republish = 1;
    lose(&x, 1);
    world_start(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LOCATE, 0, MEM_FAULT_NOT_DONE, 0);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LAG, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 55 * S);
    assert_string_equal(world_trace(&x), "");
    assert_int_equal(metric_value(x.w->metrics.age_unknown), 1);
    world_run(&x, 10 * S);
    assert_string_equal(world_trace(&x), "inbox 1 | claim 1 | publish 1 | note 1 | "
                                         "place 1 | settle 1 | ack 1 | mark 1");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_age_unknown_never_voids(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_hold_us = 90 * S;
    x.cfg.max_republish = 1;
    lose(&x, 2);
    world_start(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LOCATE, 0, MEM_FAULT_NOT_DONE, 0);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LAG, 0, MEM_FAULT_NOT_DONE, 0);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_PUBLISH, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 300 * S);
    const char *trace = world_trace(&x);
    assert_null(strstr(trace, "void"));
    assert_non_null(strstr(trace, "publish 2"));
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 30 for a queue that cannot tell a message's place: the backlog's age decides. */
static void test_the_age_of_the_backlog_decides_where_locate_cannot(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1);
    world_start(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_LOCATE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 9 * S);
    assert_non_null(strstr(world_trace(&x), "claim 1 | publish 1"));
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 29. */
static void test_nothing_is_published_before_a_full_receive_round(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1);
    world_start(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x,
              2500 * MS); /* the poll under way was answered once: let it be before the closing */
    x.w->health.breaker.closed_at_us = x.sched.now_us;
    world_run(&x, 20 * S);
    assert_null(strstr(world_trace(&x), "claim"));
    mem_faults_clear(mem_queue_faults(x.queue), MEM_QUEUE_RECEIVE);
    world_run(&x, 6 * S);
    assert_non_null(strstr(world_trace(&x), "claim 1 | publish 1"));
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_publishing_again_is_rate_limited(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 1000);
    x.cfg.poll_us = 2 * S;
    x.cfg.recover_rate = 10;
    for (int user = 1; user <= 200; user++)
        world_reserve(&x, ITEM, user);
    mem_broker_wipe(x.broker, ITEM);
    world_start(&x);
    world_run(&x, 10 * S);
    assert_in_range(mem_queue_faults(x.queue)->calls[MEM_QUEUE_PUBLISH], 30, 70);
    world_run(&x, 25 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 200);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_lost_answer_of_the_publish_is_not_repeated_at_once(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    lose(&x, 1);
    world_start(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_REPLY_LOST, 0);
    world_run(&x, 10 * S);
    assert_string_equal(world_trace(&x), "inbox 1 | claim 1 | publish 1 | place 1 | "
                                         "settle 1 | ack 1 | mark 1");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* What no queue accepted does not count: it is tried again until one does. */
static void test_refused_publishes_do_not_count(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    x.cfg.max_republish = 1;
    lose(&x, 1);
    world_start(&x);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_PUBLISH, 0, MEM_FAULT_NOT_DONE, 0);
    world_run(&x, 60 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "QUEUED");
    mem_faults_clear(mem_queue_faults(x.queue), -1);
    world_run(&x, 20 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* --- relay --- */

static void test_the_relay_sweeps_what_redis_did_not_take(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    world_start(&x);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_SETTLE, 1, MEM_FAULT_NOT_DONE, 0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 700 * MS);
    assert_string_equal(world_trace(&x), "place 1 | settle 1 | ack 1 | unsettled 1 | "
                                         "settle 1 | mark 1");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 2: an item being rebuilt answers LATER; its rows stay, others are not held up. */
static void test_later_stays_unsettled(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 2000);
    x.cfg.relay_batch = 4;
    for (int user = 1; user <= 20; user++)
        world_reserve(&x, ITEM, user);
    mem_stock_set_epoch(x.stock, ITEM, 2); /* the reservations keep epoch 1 */
    world_start(&x);
    world_run(&x, 2 * S);
    assert_int_equal(mem_db_unsettled(x.db), 20);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_SETTLE, 1, MEM_FAULT_NOT_DONE, 0);
    world_reserve(&x, ITEM_2, 1);
    world_run(&x, 5 * S);
    assert_string_equal(world_state(&x, ITEM_2, 1), "SUCCEEDED");
    assert_int_equal(mem_db_unsettled(x.db), 20);
    mem_stock_set_epoch(x.stock, ITEM, 1);
    world_run(&x, 5 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_crash_between_commit_and_settle(void **state)
{
    struct world x;
    (void)state;
    open_short(&x);
    world_start(&x);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_SETTLE, 0, MEM_FAULT_REQUEST_LOST, 0);
    mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_ACK, 0, MEM_FAULT_REQUEST_LOST, 0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 50 * MS);
    world_die(&x);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    assert_string_equal(world_state(&x, ITEM, 1), "QUEUED");
    world_start(&x);
    world_run(&x, 1 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED"); /* the relay, before redelivery */
    world_run(&x, 15 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_message_is_published_again),
        cmocka_unit_test(test_a_backlog_is_left_alone),
        cmocka_unit_test(test_an_outcome_is_settled_again),
        cmocka_unit_test(test_a_quarantined_one_is_held_and_then_given_up),
        cmocka_unit_test(test_void_after_many_publishes),
        cmocka_unit_test(test_a_void_that_comes_too_late_obeys_the_order),
        cmocka_unit_test(test_an_order_after_the_void_finds_the_tombstone),
        cmocka_unit_test(test_the_hold_does_not_run_during_an_outage),
        cmocka_unit_test(test_age_unknown),
        cmocka_unit_test(test_age_unknown_never_voids),
        cmocka_unit_test(test_the_age_of_the_backlog_decides_where_locate_cannot),
        cmocka_unit_test(test_nothing_is_published_before_a_full_receive_round),
        cmocka_unit_test(test_publishing_again_is_rate_limited),
        cmocka_unit_test(test_a_lost_answer_of_the_publish_is_not_repeated_at_once),
        cmocka_unit_test(test_refused_publishes_do_not_count),
        cmocka_unit_test(test_the_relay_sweeps_what_redis_did_not_take),
        cmocka_unit_test(test_later_stays_unsettled),
        cmocka_unit_test(test_a_crash_between_commit_and_settle),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
