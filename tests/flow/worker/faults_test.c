/* Every wait × every fault: whatever a call to the stock, the queue or the database does, once or
 * for a while, in the end every reservation has its outcome, nothing is in hand, the unit counts
 * hold, and nobody was buried. */
#include "world.h"

#include <stdio.h>

static const enum mem_fault_kind kinds[] = {
    MEM_FAULT_NOT_DONE,   MEM_FAULT_REPLY_LOST, MEM_FAULT_REQUEST_LOST,
    MEM_FAULT_REPLY_LATE, MEM_FAULT_HELD_BACK,  MEM_FAULT_TWICE,
};

static void add(struct world *x, char port, int op, int k, enum mem_fault_kind kind)
{
    int64_t delay = 700 * MS; /* beyond worker.store_timeout */
    if (port == 'q')
        mem_faults_add(mem_queue_faults(x->queue), op, k, kind, delay);
    else if (port == 's')
        mem_faults_add(mem_stock_faults(x->stock), op, k, kind, delay);
    else
        mem_jobs_fault_all(x->jobs, op, k, kind, delay);
}

static void heal(struct world *x)
{
    mem_faults_clear(mem_queue_faults(x->queue), -1);
    mem_faults_clear(mem_stock_faults(x->stock), -1);
    mem_jobs_clear_faults(x->jobs);
}

/* k 0: every call for five seconds. */
static void one(char port, int op, int k, enum mem_fault_kind kind)
{
    struct world x;
    world_init(&x, 100);
    x.cfg.poll_us = 1700 * MS;
    world_start(&x);
    add(&x, port, op, k, kind);
    for (int user = 1; user <= 6; user++) {
        world_reserve(&x, ITEM, user);
        if (user % 2)
            world_reserve(&x, ITEM_2, user);
    }
    /* One for recovery. */
    world_reserve(&x, ITEM_2, 50);
    mem_broker_wipe(x.broker, ITEM_2);
    world_run(&x, 5 * S);
    if (k == 0)
        heal(&x);
    world_run(&x, 60 * S);
    for (int user = 1; user <= 6; user++) {
        if (strcmp(world_state(&x, ITEM, user), "SUCCEEDED") != 0)
            fail_msg("port %c op %d call %d fault %d: user %d is %s", port, op, k, (int)kind, user,
                     world_state(&x, ITEM, user));
    }
    if (strcmp(world_state(&x, ITEM_2, 50), "SUCCEEDED") != 0)
        fail_msg("port %c op %d call %d fault %d: the lost one is %s", port, op, k, (int)kind,
                 world_state(&x, ITEM_2, 50));
    assert_int_equal(mem_db_dead_letters(x.db), 0);
    heal(&x);
    world_run(&x, 15 * S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

static void test_matrix(char port, int ops, int leave_out)
{
    for (int op = 0; op < ops; op++) {
        if (op == leave_out)
            continue;
        for (int k = 0; k <= 3; k++) {
            for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
                one(port, op, k, kinds[i]);
        }
    }
}

static void test_queue(void **state)
{
    (void)state;
    test_matrix('q', MEM_QUEUE_OPS, -1);
}

static void test_stock(void **state)
{
    (void)state;
    test_matrix('s', MEM_STOCK_OPS, MEM_STOCK_RESERVE);
}

static void test_orders(void **state)
{
    (void)state;
    test_matrix('o', MEM_ORDERS_OPS, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_stock),
        cmocka_unit_test(test_orders),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
