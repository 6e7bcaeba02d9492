/* From the stream to the order: the happy path, each way a transaction can fail, and what counts
 * against a message (rules 16–21, 24, 32). */
#include "world.h"

#include <stdio.h>

static void test_happy_path(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 10);
    for (int user = 1; user <= 3; user++)
        world_reserve(&x, ITEM, user);
    world_start(&x);
    world_run(&x, 100 * MS);
    assert_string_equal(world_trace(&x), "place 1,2,3 | settle 3 | ack 3 | mark 3");
    assert_string_equal(world_state(&x, ITEM, 2), "SUCCEEDED");
    world_run(&x, 20 * S);
    assert_string_equal(world_trace(&x), ""); /* and it rests */
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_batches_form_while_one_is_running(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_start(&x);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 2 * MS); /* 1 is received alone: nothing waits for more */
    for (int user = 2; user <= 5; user++)
        world_post(&x, ITEM, user);
    world_run(&x, 300 * MS);
    assert_string_equal(world_trace(&x), "place 1 | settle 1 | ack 1 | place 2,3,4,5 | "
                                         "settle 4 | ack 4 | mark 5");
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 6, docs/decisions/0005: a hint, told where an end takes long, and once. */
static void test_processing_is_told_to_those_who_wait(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_start(&x);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PLACE, 1,
                       MEM_FAULT_REPLY_LATE, 400 * MS);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 5 * MS);
    world_reserve(&x, ITEM, 2); /* behind it */
    world_run(&x, 85 * MS);
    assert_string_equal(world_state(&x, ITEM, 1), "QUEUED");
    world_run(&x, 110 * MS);
    assert_string_equal(world_state(&x, ITEM, 1), "PROCESSING");
    assert_string_equal(world_state(&x, ITEM, 2), "PROCESSING");
    assert_string_equal(world_trace(&x), "place 1 | progress 1 | progress 1");
    world_run(&x, 1 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_null(strstr(world_trace(&x), "progress"));
    world_stop(&x);
    world_deinit(&x);
}

static void test_items_run_side_by_side_and_one_item_alone(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    x.cfg.batch_max = 1;
    world_start(&x);
    for (int user = 1; user <= 2; user++) {
        world_reserve(&x, ITEM, user);
        world_reserve(&x, ITEM_2, user);
    }
    world_run(&x, 300 * MS);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 2);
    assert_int_equal(mem_db_active_orders(x.db, ITEM_2), 2);
    /* batch_max 1: one by one */
    assert_null(strstr(world_trace(&x), ","));
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* Rules 4 and 18: PostgreSQL admits exactly the total. */
static void test_twice_the_stock(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 5);
    for (int user = 1; user <= 10; user++)
        world_post(&x, ITEM, user);
    world_start(&x);
    world_run(&x, S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 5);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    assert_int_equal(mem_db_unsettled(x.db), 0);
    assert_null(mem_db_audit(x.db));
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_hundred_deliveries_change_nothing(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 5);
    world_reserve(&x, ITEM, 1);
    for (int i = 0; i < 99; i++)
        world_post_again(&x, ITEM, 1);
    world_start(&x);
    world_run(&x, 5 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    assert_int_equal(mem_db_sold(x.db, ITEM), 1);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void start_with_fault(struct world *x, int times, enum mem_fault_kind kind, int64_t arg)
{
    world_init(x, 5);
    world_start(x);
    /* Thread 0 takes the place call whenever it is idle. */
    for (int k = 1; k <= times; k++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x->jobs, 0)), MEM_ORDERS_PLACE, k, kind,
                       arg);
    world_reserve(x, ITEM, 1);
}

static void finish_clean(struct world *x)
{
    assert_string_equal(world_state(x, ITEM, 1), "SUCCEEDED");
    assert_int_equal(mem_db_dead_letters(x->db), 0);
    world_assert_clean(x);
    world_stop(x);
    world_deinit(x);
}

static void test_a_conflict_runs_again_with_the_same_ids(void **state)
{
    struct world x;
    (void)state;
    start_with_fault(&x, 1, MEM_FAULT_ANSWER, ERR_CONFLICT);
    world_run(&x, 300 * MS);
    assert_string_equal(world_trace(&x), "place 1=ERR_CONFLICT | place 1 | settle 1 | "
                                         "ack 1 | mark 1");
    finish_clean(&x);
}

static void test_three_conflicts_give_it_back_uncounted(void **state)
{
    struct world x;
    (void)state;
    start_with_fault(&x, 3, MEM_FAULT_ANSWER, ERR_CONFLICT);
    world_run(&x, 2 * S);
    assert_string_equal(world_trace(&x),
                        "place 1=ERR_CONFLICT | place 1=ERR_CONFLICT | "
                        "place 1=ERR_CONFLICT | later 1 | place 1 | settle 1 | ack 1 "
                        "| mark 1");
    finish_clean(&x);
}

/* 11.1 of the seed: the COMMIT's answer is lost; the same ids again, the inbox decides. */
static void test_a_lost_commit_is_asked_again(void **state)
{
    struct world x;
    (void)state;
    start_with_fault(&x, 1, MEM_FAULT_REPLY_LOST, 0);
    int64_t made = (int64_t)metric_value(x.w->metrics.order_created);
    world_run(&x, 700 * MS);
    assert_string_equal(world_trace(&x), "place 1=ERR_UNCERTAIN | place 1 | settle 1 "
                                         "| ack 1 | unsettled 1 | settle 1 | mark 1");
    assert_int_equal(metric_value(x.w->metrics.order_created), made + 1);
    finish_clean(&x);
}

/* I11: a second copy that gets no answer is no second order. */
static void test_a_copy_without_an_answer_is_not_counted(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_start(&x);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 700 * MS);
    int64_t made = (int64_t)metric_value(x.w->metrics.order_created);
    world_trace(&x);
    mem_jobs_fault_all(x.jobs, MEM_ORDERS_PLACE, 1, MEM_FAULT_REPLY_LOST, 0);
    world_post_again(&x, ITEM, 1);
    world_run(&x, 1 * S);
    assert_non_null(strstr(world_trace(&x), "place 1=ERR_UNCERTAIN | place 1 "));
    assert_int_equal(metric_value(x.w->metrics.order_created), made);
    finish_clean(&x);
}

static void test_retries_have_a_budget(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    x.cfg.retry_percent = 0;
    x.cfg.retry_floor = 1; /* rule 32: one a minute */
    world_start(&x);
    mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, 0)), MEM_ORDERS_PLACE, 1,
                   MEM_FAULT_ANSWER, ERR_CONFLICT);
    mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, 0)), MEM_ORDERS_PLACE, 2,
                   MEM_FAULT_ANSWER, ERR_CONFLICT);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 150 * MS);
    assert_string_equal(world_trace(&x), "place 1=ERR_CONFLICT | place 1=ERR_CONFLICT | later 1");
    world_run(&x, 2 * S);
    finish_clean(&x);
}

/* Rule 20: the bad one is found, its neighbours are ordered at once; it is counted, and buried at
 * the eighth. */
static void test_one_bad_message_among_good_ones(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    for (int user = 1; user <= 8; user++)
        world_reserve(&x, ITEM, user);
    struct uuid bad = world_message_id(&x, ITEM, 6);
    mem_db_poison(x.db, &bad, ERR_INVALID);
    world_start(&x);
    world_run(&x, 90 * MS);
    assert_string_equal(
        world_trace(&x),
        "place 1,2,3,4,5,6,7,8=ERR_INVALID | place 1,2,3,4 | settle 4 | ack 4 | "
        "place 5,6,7,8=ERR_INVALID | place 5,6=ERR_INVALID | place 5 | settle 1 | ack 1 | "
        "place 6=ERR_INVALID | place 7,8 | settle 2 | ack 2 | count 1 | later 1");
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 7);
    world_run(&x, 60 * S);
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    const char *trace = world_trace(&x);
    assert_non_null(strstr(trace, "place 6=ERR_INVALID | count 1 | quarantine 6 | ack 1"));
    int counted = 1;
    for (const char *at = trace; (at = strstr(at, "count 1")); at++)
        counted++;
    assert_int_equal(counted, 8);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    /* Held, not settled: recovery leaves it alone (rule 25). */
    assert_string_equal(world_state(&x, ITEM, 6), "QUEUED");
    world_stop(&x);
    world_deinit(&x);
}

static void test_all_failing_alike_counts_for_none(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    for (int user = 1; user <= 4; user++) {
        world_reserve(&x, ITEM, user);
        struct uuid id = world_message_id(&x, ITEM, user);
        mem_db_poison(x.db, &id, ERR_INVALID);
    }
    world_start(&x);
    world_run(&x, 80 * MS);
    assert_string_equal(world_trace(&x),
                        "place 1,2,3,4=ERR_INVALID | place 1,2=ERR_INVALID | "
                        "place 1=ERR_INVALID | place 2=ERR_INVALID | place 3,4=ERR_INVALID | "
                        "place 3=ERR_INVALID | place 4=ERR_INVALID | later 4");
    for (int user = 1; user <= 4; user++) {
        struct uuid id = world_message_id(&x, ITEM, user);
        mem_db_poison(x.db, &id, 0);
    }
    world_run(&x, 5 * S);
    finish_clean(&x);
}

/* Infrastructure: no bisecting, no count, everything back. */
static void test_an_outage_counts_against_nobody(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_start(&x);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PLACE, 0,
                       MEM_FAULT_NOT_DONE, 0);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PROBE, 0,
                       MEM_FAULT_NOT_DONE, 0);
    for (int user = 1; user <= 40; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 20 * S);
    assert_false(health_usable(x.w));
    world_trace(&x);
    int waiting = mem_broker_unacked(x.broker, ITEM) - x.w->hand.used;
    world_run(&x, 40 * S);
    /* Nothing is received meanwhile; only the probe asks (rule 21). */
    assert_true(mem_broker_unacked(x.broker, ITEM) - x.w->hand.used >= waiting);
    const char *trace = world_trace(&x);
    assert_null(strstr(trace, "place"));
    assert_non_null(strstr(trace, "probe=ERR_UNAVAIL | probe=ERR_UNAVAIL"));
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 15 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 40);
    finish_clean(&x);
}

static void test_again_means_again_at_once(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, ITEM, 2);
    x.again_for = 2;
    x.again_times = 1;
    world_start(&x);
    world_run(&x, 100 * MS);
    /* The fake made the order all the same; the second answer is what counts here. */
    assert_string_equal(world_trace(&x), "place 1,2 | settle 1 | ack 1 | place 2 | "
                                         "settle 1 | ack 1 | mark 1");
    world_run(&x, 2 * S);
    finish_clean(&x);
}

static void test_again_is_bounded(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_reserve(&x, ITEM, 1);
    x.again_for = 1;
    x.again_times = 4;
    world_start(&x);
    world_run(&x, 80 * MS);
    assert_string_equal(world_trace(&x), "place 1 | place 1 | place 1 | place 1 | later 1");
    world_run(&x, 5 * S);
    finish_clean(&x);
}

/* Rule 24. */
static void test_bytes_that_are_no_event(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    mem_broker_append(x.broker, ITEM, STR("{\"oops\":"), NULL);
    world_start(&x);
    world_run(&x, 200 * MS);
    assert_string_equal(world_trace(&x), "quarantine 0 | ack 1");
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_newer_schema_is_quarantined_by_its_ids(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    struct event e = world_event(&x, ITEM, 7);
    e.schema_version = EVENT_SCHEMA_COMMAND + 1;
    struct strbuf b;
    strbuf_init(&b, EVENT_MAX_BYTES);
    event_encode(&e, false, &b);
    mem_broker_append(x.broker, ITEM, strbuf_str(&b), NULL);
    strbuf_deinit(&b);
    world_start(&x);
    world_run(&x, 200 * MS);
    assert_string_equal(world_trace(&x), "quarantine 7 | ack 1");
    world_stop(&x);
    world_deinit(&x);
}

static void test_what_cannot_be_buried_is_not_acked(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_start(&x);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_QUARANTINE, 0,
                       MEM_FAULT_NOT_DONE, 0);
    mem_broker_append(x.broker, ITEM, STR("nonsense"), NULL);
    world_run(&x, 20 * S);
    assert_null(strstr(world_trace(&x), "ack"));
    assert_int_equal(mem_broker_acked(x.broker, ITEM), 0);
    mem_jobs_clear_faults(x.jobs);
    world_run(&x, 10 * S);
    assert_int_equal(mem_broker_acked(x.broker, ITEM), 1);
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    world_stop(&x);
    world_deinit(&x);
}

static void test_an_event_of_another_item_is_not_believed(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    struct event e = world_event(&x, ITEM_2, 7);
    struct strbuf b;
    strbuf_init(&b, EVENT_MAX_BYTES);
    event_encode(&e, false, &b);
    mem_broker_append(x.broker, ITEM, strbuf_str(&b), NULL);
    strbuf_deinit(&b);
    world_start(&x);
    world_run(&x, 200 * MS);
    assert_string_equal(world_trace(&x), "quarantine 0 | ack 1");
    assert_int_equal(mem_db_active_orders(x.db, ITEM_2), 0);
    world_stop(&x);
    world_deinit(&x);
}

static void test_a_lost_ack_is_repeated_and_then_redelivered(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    x.cfg.poll_us = 4 * S; /* so that no poll ends just when the lease does */
    world_start(&x);
    for (int k = 1; k <= 2; k++)
        mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_ACK, k, MEM_FAULT_NOT_DONE, 0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 500 * MS);
    assert_string_equal(world_trace(&x), "place 1 | settle 1 | ack 1 | ack 1 | mark 1");
    world_run(&x, 12 * S);
    /* Delivered again: the inbox answers, settled once more, acked. */
    assert_string_equal(world_trace(&x), "place 1 | settle 1 | ack 1");
    finish_clean(&x);
}

/* A transaction from before the breaker opened fails while the probe is out, and the probe's answer
 * comes after the next one would have been due: there is another one all the same. */
static void test_a_late_failure_during_the_probe(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    x.cfg.breaker_threshold = 1;
    x.cfg.breaker_cooldown_us = 100 * MS;
    x.cfg.tx_attempts = 1;
    world_start(&x);
    mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, 0)), MEM_ORDERS_PLACE, 1,
                   MEM_FAULT_REPLY_LATE, 900 * MS);
    for (int i = 1; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PLACE, 1,
                       MEM_FAULT_NOT_DONE, 0);
    for (int i = 0; i < 3; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(x.jobs, i)), MEM_ORDERS_PROBE, 1,
                       MEM_FAULT_REPLY_LATE, 950 * MS);
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, ITEM_2, 2);
    world_run(&x, 30 * S);
    assert_string_equal(world_state(&x, ITEM, 1), "SUCCEEDED");
    assert_string_equal(world_state(&x, ITEM_2, 2), "SUCCEEDED");
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_happy_path),
        cmocka_unit_test(test_batches_form_while_one_is_running),
        cmocka_unit_test(test_processing_is_told_to_those_who_wait),
        cmocka_unit_test(test_items_run_side_by_side_and_one_item_alone),
        cmocka_unit_test(test_twice_the_stock),
        cmocka_unit_test(test_a_hundred_deliveries_change_nothing),
        cmocka_unit_test(test_a_conflict_runs_again_with_the_same_ids),
        cmocka_unit_test(test_three_conflicts_give_it_back_uncounted),
        cmocka_unit_test(test_a_lost_commit_is_asked_again),
        cmocka_unit_test(test_a_copy_without_an_answer_is_not_counted),
        cmocka_unit_test(test_retries_have_a_budget),
        cmocka_unit_test(test_one_bad_message_among_good_ones),
        cmocka_unit_test(test_all_failing_alike_counts_for_none),
        cmocka_unit_test(test_an_outage_counts_against_nobody),
        cmocka_unit_test(test_again_means_again_at_once),
        cmocka_unit_test(test_again_is_bounded),
        cmocka_unit_test(test_bytes_that_are_no_event),
        cmocka_unit_test(test_a_newer_schema_is_quarantined_by_its_ids),
        cmocka_unit_test(test_what_cannot_be_buried_is_not_acked),
        cmocka_unit_test(test_an_event_of_another_item_is_not_believed),
        cmocka_unit_test(test_a_lost_ack_is_repeated_and_then_redelivered),
        cmocka_unit_test(test_a_late_failure_during_the_probe),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
