/* The result topic and retention (architecture 7, rule 9): told at least once what is settled, and
 * nothing and nobody waits for either. */
#include "world.h"

#include <stdio.h>

static struct world *begin(struct world *x, int64_t units)
{
    world_init(x, units);
    x->cfg.results_batch = 512;
    world_start(x);
    return x;
}

static void end(struct world *x)
{
    world_run(x, 12 * S); /* the longest claim and backoff */
    world_assert_clean(x);
    assert_int_equal(mem_db_outbox(x->db, true), 0);
    world_stop(x);
    world_deinit(x);
}

static int told(struct world *x, int64_t user, enum verdict_state state)
{
    const struct result *r;
    int times = 0;
    for (int i = 0; (r = mem_results_told(x->results, i)); i++)
        times += r->user_id == user && r->verdict.state == state;
    return times;
}

static void test_each_outcome_is_told(void **state)
{
    struct world x;
    (void)state;
    begin(&x, 10);
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, ITEM_2, 2);
    world_run(&x, 1 * S);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_run(&x, 1 * S);
    assert_int_equal(mem_results_count(x.results), 3);
    struct event e = world_event(&x, ITEM, 1);
    for (int i = 0; i < 3; i++) {
        const struct result *r = mem_results_told(x.results, i);
        bool of_2 = r->user_id == 2;
        assert_true(item_eq(r->item, of_2 ? ITEM_2 : ITEM));
        assert_int_equal(r->order_id, r->item.sku_id * 1000000 + r->user_id);
        if (!of_2) {
            assert_true(uuid_eq(&r->message_id, &e.message_id));
            assert_true(uuid_eq(&r->request_id, &e.request_id));
            assert_true(uuid_eq(&r->reservation_id, &e.reservation_id));
        }
    }
    assert_int_equal(told(&x, 1, VERDICT_SUCCEEDED), 1);
    assert_int_equal(told(&x, 2, VERDICT_SUCCEEDED), 1);
    assert_string_equal(mem_results_told(x.results, 2)->event, "ORDER_CANCELLED");
    end(&x);
    /* and once */
}

/* Nothing is told that Redis has not, and settles, acks and orders do not wait for the topic. */
static void test_an_outage_delays_nothing_else(void **state)
{
    struct world x;
    (void)state;
    begin(&x, 1000);
    mem_faults_add(mem_results_faults(x.results), MEM_RESULTS_PUBLISH, 0, MEM_FAULT_NOT_DONE, 0);
    for (int user = 1; user <= 600; user++)
        world_reserve(&x, user % 2 ? ITEM : ITEM_2, user);
    world_run(&x, 5 * S);
    world_assert_clean(&x);
    assert_int_equal(mem_db_active_orders(x.db, ITEM) + mem_db_active_orders(x.db, ITEM_2), 600);
    assert_int_equal(mem_results_count(x.results), 0);
    assert_int_equal(mem_db_outbox(x.db, true), 600);
    world_run(&x, 60 * S);
    /* It asks less and less often. */
    int calls = mem_results_faults(x.results)->calls[MEM_RESULTS_PUBLISH];
    world_run(&x, 60 * S);
    assert_in_range(mem_results_faults(x.results)->calls[MEM_RESULTS_PUBLISH] - calls, 5, 15);
    assert_int_equal(metric_value(x.w->metrics.results_waiting), 600);
    assert_in_range(metric_value(x.w->metrics.results_age), 110, 130);
    mem_faults_clear(mem_results_faults(x.results), -1);
    world_run(&x, 15 * S);
    for (int user = 1; user <= 600; user++)
        assert_int_equal(told(&x, user, VERDICT_SUCCEEDED), 1);
    assert_int_equal(metric_value(x.w->metrics.results_waiting), 0);
    end(&x);
}

/* What is unsettled is not told, however old (rule 2: its item is being rebuilt). */
static void test_not_before_it_is_settled(void **state)
{
    struct world x;
    (void)state;
    begin(&x, 10);
    mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_SETTLE, 0, MEM_FAULT_NOT_DONE, 0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 10 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    assert_int_equal(mem_results_count(x.results), 0);
    mem_faults_clear(mem_stock_faults(x.stock), -1);
    world_run(&x, 2 * S);
    assert_int_equal(told(&x, 1, VERDICT_SUCCEEDED), 1);
    end(&x);
}

/* One that does not arrive comes again, and holds up nobody. */
static void test_one_row_alone_fails(void **state)
{
    struct world x;
    (void)state;
    begin(&x, 10);
    mem_results_refuse(x.results, 2);
    for (int user = 1; user <= 3; user++)
        world_reserve(&x, ITEM, user);
    world_run(&x, 20 * S);
    assert_int_equal(told(&x, 1, VERDICT_SUCCEEDED), 1);
    assert_int_equal(told(&x, 3, VERDICT_SUCCEEDED), 1);
    assert_int_equal(mem_db_outbox(x.db, true), 1);
    mem_results_refuse(x.results, 0);
    world_run(&x, 6 * S);
    assert_int_equal(told(&x, 2, VERDICT_SUCCEEDED), 1);
    end(&x);
}

static int calls_of(struct jobs *j, int op)
{
    int n = 0;
    for (int i = 0; i < j->threads; i++)
        n += mem_orders_faults(mem_jobs_orders(j, i))->calls[op];
    return n;
}

/* What was settled now is told now and marked once, for both: nobody looks for it. */
static void test_at_once(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 1000);
    x.cfg.results_batch = 512;
    x.cfg.results_interval_us = 3600 * S;
    world_start(&x);
    world_run(&x, 1 * S); /* the one look of the hour */
    double published = metric_value(x.w->metrics.results_published);
    int looks = calls_of(x.upkeep, MEM_ORDERS_UNPUBLISHED);
    for (int user = 1; user <= 300; user++)
        world_reserve(&x, user % 3 ? ITEM : ITEM_2, user);
    world_run(&x, 1 * S);
    for (int user = 1; user <= 300; user++)
        assert_int_equal(told(&x, user, VERDICT_SUCCEEDED), 1);
    assert_int_equal(mem_db_outbox(x.db, true), 0);
    assert_int_equal(calls_of(x.upkeep, MEM_ORDERS_UNPUBLISHED), looks);
    assert_int_equal(calls_of(x.upkeep, MEM_ORDERS_MARK_PUBLISHED), 0);
    assert_int_equal(metric_value(x.w->metrics.results_published) - published, 300);
    end(&x);
}

/* The topic takes calls and does not answer: what finds no room goes by, and all is settled,
 * acked and marked. Then it is told by project, some of it a second time. */
static void test_bounded(void **state)
{
    enum { N = TELL_MAX + 2000 };
    struct world x;
    (void)state;
    begin(&x, N);
    mem_faults_add(mem_results_faults(x.results), MEM_RESULTS_PUBLISH, 0, MEM_FAULT_REPLY_LATE,
                   20 * S);
    x.w->cfg.store_us = 10 * S;
    for (int user = 1; user <= N; user++)
        world_reserve(&x, ITEM, user);
    for (int ms = 0; ms < 5000; ms++) {
        world_run(&x, 1 * MS);
        assert_true(x.w->tell.n <= TELL_MAX && x.w->tell.under_way <= TELL_CALLS);
    }
    assert_int_equal(mem_db_active_orders(x.db, ITEM), N);
    mem_faults_clear(mem_results_faults(x.results), -1);
    world_run(&x, 60 * S);
    for (int user = 1; user <= N; user += 97)
        assert_true(told(&x, user, VERDICT_SUCCEEDED) >= 1);
    end(&x);
}

/* A process that dies between publish and mark: told again, with the same id. at_once: what is told
 * after its settle; else a cancel, which project tells. */
static void die_before_the_mark(bool at_once)
{
    struct world x;
    begin(&x, 10);
    if (at_once)
        mem_jobs_fault_all(x.jobs, MEM_ORDERS_MARK_SETTLED, 0, MEM_FAULT_REQUEST_LOST, 0);
    else
        mem_jobs_fault_all(x.upkeep, MEM_ORDERS_MARK_PUBLISHED, 0, MEM_FAULT_REQUEST_LOST, 0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 100 * MS);
    if (!at_once)
        world_command(&x, ITEM, 1, EVENT_CANCEL);
    enum verdict_state what = at_once ? VERDICT_SUCCEEDED : VERDICT_CANCELLED;
    for (int ms = 0; told(&x, 1, what) == 0; ms += 10) {
        assert_true(ms < 2000);
        world_run(&x, 10 * MS);
    }
    int first = mem_results_count(x.results) - 1;
    world_die(&x);
    world_start(&x);
    world_run(&x, 6 * S);
    assert_int_equal(told(&x, 1, what), 2);
    assert_int_equal(mem_results_told(x.results, first)->id,
                     mem_results_told(x.results, first + 1)->id);
    end(&x);
}

static void test_a_death_tells_it_again(void **state)
{
    (void)state;
    die_before_the_mark(true);
    die_before_the_mark(false);
}

/* Before it was told: nobody had it in hand, and it is found. */
static void test_a_death_loses_none(void **state)
{
    struct world x;
    (void)state;
    begin(&x, 10);
    mem_faults_add(mem_results_faults(x.results), MEM_RESULTS_PUBLISH, 0, MEM_FAULT_REQUEST_LOST,
                   0);
    world_reserve(&x, ITEM, 1);
    world_run(&x, 60 * MS);
    world_die(&x);
    assert_int_equal(told(&x, 1, VERDICT_SUCCEEDED), 0);
    world_start(&x);
    world_run(&x, 6 * S);
    world_die(&x);
    world_start(&x);
    world_run(&x, 6 * S);
    assert_int_equal(told(&x, 1, VERDICT_SUCCEEDED), 1);
    end(&x);
}

/* The end waits for what is under way, and for nothing else. */
static void test_drain(void **state)
{
    struct world x;
    (void)state;
    begin(&x, 10);
    mem_faults_add(mem_results_faults(x.results), MEM_RESULTS_PUBLISH, 1, MEM_FAULT_REPLY_LOST, 0);
    world_reserve(&x, ITEM, 1);
    while (mem_results_count(x.results) == 0)
        world_run(&x, 1 * MS);
    world_stop(&x);
    world_start(&x);
    end(&x);
}

/* --- every call × every fault --- */

static const enum mem_fault_kind kinds[] = {
    MEM_FAULT_NOT_DONE,   MEM_FAULT_REPLY_LOST, MEM_FAULT_REQUEST_LOST,
    MEM_FAULT_REPLY_LATE, MEM_FAULT_HELD_BACK,  MEM_FAULT_TWICE,
};

static void one(int op, int k, enum mem_fault_kind kind)
{
    struct world x;
    begin(&x, 10);
    if (op < 0)
        mem_faults_add(mem_results_faults(x.results), MEM_RESULTS_PUBLISH, k, kind, 900 * MS);
    else
        mem_jobs_fault_all(op == MEM_ORDERS_MARK_SETTLED ? x.jobs : x.upkeep, op, k, kind,
                           900 * MS);
    for (int user = 1; user <= 4; user++)
        world_reserve(&x, user % 2 ? ITEM : ITEM_2, user);
    world_run(&x, 1 * S);
    if (op != MEM_ORDERS_MARK_SETTLED)
        world_assert_clean(&x);
    world_command(&x, ITEM, 1, EVENT_CANCEL);
    world_run(&x, 3 * S);
    mem_faults_clear(mem_results_faults(x.results), -1);
    mem_faults_clear(mem_orders_faults(mem_jobs_orders(x.upkeep, 0)), -1);
    for (int i = 0; i < x.jobs->threads; i++)
        mem_faults_clear(mem_orders_faults(mem_jobs_orders(x.jobs, i)), -1);
    world_run(&x, 12 * S);
    for (int user = 1; user <= 4; user++) {
        if (told(&x, user, VERDICT_SUCCEEDED) < 1)
            fail_msg("op %d call %d fault %d: user %d is not told", op, k, (int)kind, user);
    }
    assert_true(told(&x, 1, VERDICT_CANCELLED) >= 1);
    end(&x);
}

static void test_every_call_every_fault(void **state)
{
    static const int ops[] = {-1, MEM_ORDERS_MARK_SETTLED, MEM_ORDERS_UNPUBLISHED,
                              MEM_ORDERS_MARK_PUBLISHED, MEM_ORDERS_UNPUBLISHED_BACKLOG};
    (void)state;
    for (size_t op = 0; op < sizeof ops / sizeof ops[0]; op++) {
        for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
            for (int k = 0; k <= 3; k++)
                one(ops[op], k, kinds[kind]);
        }
    }
}

/* --- retention --- */

static void retention(struct world *x, int batch)
{
    world_init(x, 100);
    x->cfg.results_batch = 512;
    x->cfg.retain_batch = batch;
    x->cfg.retain_after_us = 60 * S;
    x->cfg.retain_strays_us = 60 * S;
    x->cfg.retain_interval_us = 1 * S;
    x->cfg.retain_idle_us = 30 * S;
    world_start(x);
    for (int user = 1; user <= 20; user++)
        world_reserve(x, user % 2 ? ITEM : ITEM_2, user);
    world_run(x, 2 * S);
    assert_int_equal(mem_db_outbox(x->db, false), 20);
}

static int64_t taken(struct world *x)
{
    return (int64_t)metric_value(x->w->metrics.retained[ORDERS_T_OUTBOX]);
}

/* Nothing before the keys are over, then so many in an interval, and nothing of others' items. */
static void test_retention(void **state)
{
    struct world x;
    (void)state;
    retention(&x, 3);
    int64_t before = taken(&x);
    mem_db_set_expiry(x.db, ITEM, mem_clock_wall_ms(&x.sched) + 100000);
    mem_db_set_expiry(x.db, ITEM_2, mem_clock_wall_ms(&x.sched) + 1000000000);
    world_run(&x, 155 * S);
    assert_int_equal(taken(&x), before);
    world_run(&x, 35 * S);
    assert_int_equal(taken(&x) - before, 10);
    assert_int_equal(mem_db_outbox(x.db, false), 10);
    end(&x);
}

static void test_retention_is_rate_limited(void **state)
{
    struct world x;
    (void)state;
    retention(&x, 2);
    mem_db_set_expiry(x.db, ITEM, mem_clock_wall_ms(&x.sched) - 100000);
    int64_t before = taken(&x), last = before;
    for (int second = 0; second < 45; second++) {
        world_run(&x, 1 * S);
        assert_true(taken(&x) - last <= 2);
        last = taken(&x);
    }
    assert_int_equal(last - before, 10);
    end(&x);
}

/* It fails, and comes again; orders do not notice, though its calls take for ever. */
static void test_retention_harms_nobody(void **state)
{
    struct world x;
    (void)state;
    retention(&x, 100);
    mem_db_set_expiry(x.db, ITEM, mem_clock_wall_ms(&x.sched) - 100000);
    mem_jobs_fault_all(x.upkeep, MEM_ORDERS_RETAIN, 0, MEM_FAULT_REPLY_LATE, 60 * S);
    for (int i = 0; i < 60; i++) {
        world_run(&x, 1 * S);
        world_reserve(&x, ITEM_2, 100 + i);
        world_run(&x, 100 * MS);
        assert_string_equal(world_state(&x, ITEM_2, 100 + i), "SUCCEEDED");
    }
    assert_true(metric_value(x.w->metrics.retain_failures) > 0);
    assert_true(health_usable(x.w));
    mem_faults_clear(mem_orders_faults(mem_jobs_orders(x.upkeep, 0)), -1);
    world_run(&x, 60 * S);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_outcome_is_told),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_an_outage_delays_nothing_else),
        cmocka_unit_test(test_not_before_it_is_settled),
        cmocka_unit_test(test_one_row_alone_fails),
        cmocka_unit_test(test_a_death_tells_it_again),
        cmocka_unit_test(test_a_death_loses_none),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_every_call_every_fault),
        cmocka_unit_test(test_retention),
        cmocka_unit_test(test_retention_is_rate_limited),
        cmocka_unit_test(test_retention_harms_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
