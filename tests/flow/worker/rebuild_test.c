/* An item that the store lost comes back (rules 33–37), whatever goes wrong on the way. */
#include "world.h"

#include "app/epoch_judge.h"

#define TOTAL 20

static struct stock_item_info info(struct world *x)
{
    struct stock_item_info i;
    assert_true(mem_stock_info(x->stock, ITEM, &i));
    return i;
}

/* Open again at PostgreSQL's epoch, with what PostgreSQL says. */
static void assert_rebuilt(struct world *x, int64_t at_least)
{
    struct stock_item_info i = info(x);
    int orders = mem_db_active_orders(x->db, ITEM);
    assert_false(i.rebuilding);
    assert_int_equal(i.state, STOCK_STATE_OPEN);
    assert_true(i.version.epoch >= at_least);
    assert_int_equal(i.version.epoch, mem_db_epoch(x->db, ITEM));
    assert_int_equal(i.pending, 0);
    assert_int_equal(i.buyers, orders);
    assert_int_equal(i.free, TOTAL - orders);
    assert_null(mem_db_audit(x->db));
    assert_int_equal(mem_db_unsettled(x->db), 0);
}

static void sell(struct world *x, int first, int last)
{
    for (int user = first; user <= last; user++)
        world_reserve(x, ITEM, user);
    world_run(x, 2 * S);
}

static void test_a_lost_item_comes_back(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, TOTAL);
    world_start(&x);
    sell(&x, 1, 5);
    mem_stock_lose_item(x.stock, ITEM);
    world_run(&x, 3 * S);
    assert_rebuilt(&x, 2);
    for (int user = 1; user <= 5; user++)
        assert_string_equal(world_state(&x, ITEM, user), "SUCCEEDED");
    sell(&x, 6, 9);
    assert_rebuilt(&x, 2);
    /* A unit of before comes back once. */
    assert_int_equal(mem_db_cancel(x.db, world_event(&x, ITEM, 2).order_id, REASON_CANCELLED), 0);
    world_run(&x, 2 * S);
    assert_rebuilt(&x, 2);
    assert_int_equal(info(&x).free, TOTAL - 8);
    assert_string_equal(world_state(&x, ITEM, 2), "CANCELLED/CANCELLED");
    assert_int_equal(info(&x).version.epoch, 2); /* and nothing more was found */
    world_stop(&x);
    world_deinit(&x);
}

/* Rules 2, 36: an older state of the store: it is at a lower seq than PostgreSQL knows. */
static void test_what_ended_meanwhile_has_no_effect(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, TOTAL);
    world_start(&x);
    sell(&x, 1, 5);
    mem_db_ask_rebuild(x.db, ITEM);
    world_run(&x, 3 * S);
    assert_rebuilt(&x, 2);
    for (int user = 1; user <= 5; user++)
        assert_string_equal(world_state(&x, ITEM, user), "SUCCEEDED");
    world_stop(&x);
    world_deinit(&x);
}

/* Each call of a rebuild × each fault: the next attempt, or the same call once more, ends it. */
static void test_every_call_and_every_fault(void **state)
{
    static const int stock_ops[] = {MEM_STOCK_UNREPORT,        MEM_STOCK_REBUILD_BEGIN,
                                    MEM_STOCK_REBUILD_RESTORE, MEM_STOCK_REBUILD_END,
                                    MEM_STOCK_PENDING,         MEM_STOCK_ITEM,
                                    MEM_STOCK_REPORTS,         MEM_STOCK_RELIST};
    static const int orders_ops[] = {
        MEM_ORDERS_REBUILD_TAKE, MEM_ORDERS_REBUILD_KEEP,     MEM_ORDERS_REBUILD_COUNT,
        MEM_ORDERS_REBUILD_PAGE, MEM_ORDERS_REBUILD_RESETTLE, MEM_ORDERS_REBUILD_FINISH,
        MEM_ORDERS_WATCH};
    static const enum mem_fault_kind faults[] = {MEM_FAULT_NOT_DONE, MEM_FAULT_REPLY_LOST,
                                                 MEM_FAULT_REQUEST_LOST, MEM_FAULT_REPLY_LATE,
                                                 MEM_FAULT_HELD_BACK};
    enum { STOCK = sizeof stock_ops / sizeof stock_ops[0] };
    enum { ORDERS = sizeof orders_ops / sizeof orders_ops[0] };
    (void)state;
    for (int op = 0; op < STOCK + ORDERS; op++) {
        for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
            for (int lost = 0; lost < 2; lost++) {
                struct world x;
                world_init(&x, TOTAL);
                world_start(&x);
                sell(&x, 1, 5);
                for (int k = 1; k <= REBUILD_TRIES + 1; k++) { /* more than one attempt stands */
                    if (op < STOCK)
                        mem_faults_add(mem_stock_faults(x.stock), stock_ops[op], k, faults[f],
                                       4 * S);
                    else
                        mem_jobs_fault_all(x.jobs, orders_ops[op - STOCK], k, faults[f], 4 * S);
                }
                if (lost)
                    mem_stock_lose_item(x.stock, ITEM);
                else
                    mem_db_ask_rebuild(x.db, ITEM);
                world_run(&x, 45 * S);
                assert_rebuilt(&x, 2);
                sell(&x, 6, TOTAL); /* what was held back has arrived by now */
                world_run(&x, 5 * S);
                assert_rebuilt(&x, 2);
                assert_int_equal(mem_db_active_orders(x.db, ITEM), TOTAL);
                world_stop(&x);
                world_deinit(&x);
            }
        }
    }
}

/* Rule 35: the process dies at any moment of it; the next one begins anew, at another epoch. */
static void test_death_at_any_moment(void **state)
{
    (void)state;
    for (int64_t at_us = 1 * S; at_us < 1 * S + 120 * MS; at_us += 3 * MS) {
        struct world x;
        world_init(&x, TOTAL);
        world_start(&x);
        sell(&x, 1, 5);
        if (at_us % (2 * MS))
            mem_stock_lose_item(x.stock, ITEM);
        else
            mem_db_ask_rebuild(x.db, ITEM);
        world_run(&x, at_us);
        world_die(&x);
        world_start(&x);
        world_run(&x, 12 * S);
        assert_rebuilt(&x, 2);
        sell(&x, 6, TOTAL);
        assert_rebuilt(&x, 2);
        assert_int_equal(mem_db_active_orders(x.db, ITEM), TOTAL);
        world_stop(&x);
        world_deinit(&x);
    }
}

static void on_reported(struct op *op, int rc)
{
    (void)op;
    assert_int_equal(rc, 0);
}

/* Rule 34: an API that saw the loss reports it while the rebuild begins. That is what is being
 * mended, and no reason for another one when the report's rest is over. */
static void test_a_late_report_begins_nothing(void **state)
{
    struct world x;
    struct stock_report report = {.item = ITEM};
    (void)state;
    world_init(&x, TOTAL);
    world_start(&x);
    sell(&x, 1, 5);
    for (int k = 1; k < REBUILD_TRIES; k++)
        mem_faults_add(mem_stock_faults(x.stock), MEM_STOCK_REBUILD_BEGIN, k, MEM_FAULT_NOT_DONE,
                       0);
    mem_stock_lose_item(x.stock, ITEM);
    while (mem_db_epoch(x.db, ITEM) == 1)
        world_run(&x, 10000);
    report.op = (struct op){on_reported, x.sched.now_us + 1 * S};
    x.buyers->ops->report(x.buyers, &report);
    world_run(&x, 3 * S);
    assert_rebuilt(&x, 2);
    assert_false(mem_stock_reported(x.stock, ITEM));
    world_run(&x, 2 * EPOCH_REPORT_REST_MS * INT64_C(1000));
    assert_int_equal(mem_db_epoch(x.db, ITEM), 2);
    world_stop(&x);
    world_deinit(&x);
}

/* Rule 34: what is a loss, and what is not. */
static void test_judgement(void **state)
{
    (void)state;
    static const struct {
        struct orders_watched pg;
        struct item_version seen;
        bool reported;
        int rc;
        struct stock_item_info redis;
        enum epoch_finding finding;
    } rows[] = {
        {{.version = {1, 5}, .opened = true}, {1, 5}, false, 0, {.version = {1, 5}}, EPOCH_GOOD},
        {{.version = {1, 5}, .opened = true},
         {0, 0},
         false,
         0,
         {.version = {1, 4}},
         EPOCH_ROLLED_BACK},
        {{.version = {1, 5}, .opened = true},
         {1, 9},
         false,
         0,
         {.version = {1, 8}},
         EPOCH_ROLLED_BACK},
        {{.version = {2, 0}, .opened = true}, {1, 9}, false, 0, {.version = {2, 0}}, EPOCH_GOOD},
        {{.version = {2, 0}, .opened = true}, {0, 0}, false, 0, {.version = {1, 9}}, EPOCH_BEHIND},
        {{.version = {1, 5}, .opened = true}, {0, 0}, false, 0, {.version = {2, 0}}, EPOCH_AHEAD},
        {{.version = {2, 0}, .opened = true},
         {0, 0},
         false,
         0,
         {.version = {2, 0}, .rebuilding = true},
         EPOCH_INTERRUPTED},
        {{.version = {2, 0}, .unfinished = true},
         {0, 0},
         false,
         0,
         {.version = {2, 1}},
         EPOCH_UNFINISHED},
        {{.version = {1, 5}, .opened = true}, {0, 0}, false, 1, {.version = {0, 0}}, EPOCH_LOST},
        {{.version = {1, 0}}, {0, 0}, false, 1, {.version = {0, 0}}, EPOCH_GOOD}, /* rule 33 */
        {{.version = {1, 0}, .asked = true}, {0, 0}, false, 1, {.version = {0, 0}}, EPOCH_LOST},
        {{.version = {1, 0}, .asked = true}, {0, 0}, false, 0, {.version = {1, 0}}, EPOCH_ASKED},
        {{.version = {1, 5}, .epoch_age_ms = 60000},
         {0, 0},
         true,
         0,
         {.version = {1, 5}},
         EPOCH_REPORTED},
        {{.version = {2, 0}, .epoch_age_ms = 1000},
         {0, 0},
         true,
         0,
         {.version = {2, 5}},
         EPOCH_GOOD},
        {{.version = {1, 5}, .opened = true},
         {0, 0},
         true,
         ERR_UNCERTAIN,
         {.version = {0, 0}},
         EPOCH_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(
            epoch_finding_name(epoch_judge(&rows[i].pg, rows[i].seen, rows[i].reported, rows[i].rc,
                                           &rows[i].redis)),
            epoch_finding_name(rows[i].finding));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judgement),
        cmocka_unit_test(test_a_lost_item_comes_back),
        cmocka_unit_test(test_what_ended_meanwhile_has_no_effect),
        cmocka_unit_test(test_every_call_and_every_fault),
        cmocka_unit_test(test_death_at_any_moment),
        cmocka_unit_test(test_a_late_report_begins_nothing),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
