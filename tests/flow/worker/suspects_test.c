/* Rule 23: a message that ends the process each time runs with fewer and fewer neighbours, at last
 * alone, then it is buried; its neighbours are all ordered. */
#include "world.h"

#include <stdio.h>

static void test_fewer_and_fewer_neighbours(void **state)
{
    static const struct {
        int deliveries_before;
        const char *trace;
    } cases[] = {
        {2, "place 1,2,3,4 | settle 4 | ack 4 | mark 4"},
        /* delivery 4: at most 32 together, after a look into the inbox */
        {3, "inbox 4 | place 1,2,3,4 | settle 4 | ack 4 | mark 4"},
        /* delivery 5: 8 */
        {4, "inbox 4 | place 1,2,3,4 | settle 4 | ack 4 | mark 4"},
        /* from 6: alone, marked before and cleared after */
        {5, "inbox 4 | begin 0 | place 1 | settle 1 | ack 1 | clear 1 | begin 0 | "
            "place 2 | settle 1 | ack 1 | clear 1 | begin 0 | place 3 | settle 1 | ack 1 | "
            "clear 1 | begin 0 | place 4 | settle 1 | ack 1 | clear 1 | mark 4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world x;
        world_init(&x, 100);
        for (int user = 1; user <= 4; user++)
            world_reserve(&x, ITEM, user);
        world_deliver_in_vain(&x, cases[i].deliveries_before);
        world_start(&x);
        world_run(&x, 190 * MS);
        assert_string_equal(world_trace(&x), cases[i].trace);
        world_assert_clean(&x);
        world_stop(&x);
        world_deinit(&x);
    }
}

static void test_groups_of_eight(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    for (int user = 1; user <= 10; user++)
        world_reserve(&x, ITEM, user);
    world_deliver_in_vain(&x, 4);
    world_start(&x);
    world_run(&x, 190 * MS);
    assert_string_equal(world_trace(&x), "inbox 10 | place 1,2,3,4,5,6,7,8 | settle 8 | ack 8 | "
                                         "place 9,10 | settle 2 | ack 2 | mark 10");
    world_stop(&x);
    world_deinit(&x);
}

/* Own failures explain the deliveries, and so does an outcome: these are no suspects. */
static void test_who_is_no_suspect(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    for (int user = 1; user <= 3; user++)
        world_reserve(&x, ITEM, user);
    world_deliver_in_vain(&x, 6);
    struct mem_db *db = x.db;
    struct orders *o = mem_orders_new(db);
    struct ctx ctx;
    int count;
    struct uuid failed = world_message_id(&x, ITEM, 2);
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    assert_int_equal(o->ops->count_attempts(o, &ctx, &failed, "test", &count, 1), 0);
    struct event e = world_event(&x, ITEM, 3);
    struct orders_row row = {.message_id = e.message_id,
                             .request_id = e.request_id,
                             .reservation_id = e.reservation_id,
                             .user_id = 3,
                             .order_id = e.order_id};
    assert_int_equal(o->ops->place(o, &ctx, ITEM, &row, 1, NULL), 0);
    mem_orders_free(o);
    world_start(&x);
    world_run(&x, 190 * MS);
    const char *trace = world_trace(&x);
    assert_non_null(strstr(trace, "inbox 3 | begin 0 | place 1 | "));
    assert_non_null(strstr(trace, "place 2,3"));
    world_run(&x, S);
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* While there are suspects nothing else is begun, and nothing is received. */
static void test_healthy_ones_wait_for_the_suspects(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_reserve(&x, ITEM, 1);
    world_deliver_in_vain(&x, 5);
    world_reserve(&x, ITEM_2, 2);
    world_start(&x);
    world_run(&x, 190 * MS);
    const char *trace = world_trace(&x);
    const char *clear = strstr(trace, "clear 1"), *healthy = strstr(trace, "place 2");
    assert_non_null(clear);
    assert_non_null(healthy);
    /* The healthy one may have been placed before the inquiry ended, but never beside. */
    const char *begin = strstr(trace, "begin 0");
    assert_true(healthy < begin || healthy > strstr(trace, "place 1"));
    world_assert_clean(&x);
    world_stop(&x);
    world_deinit(&x);
}

/* The killer: three lives ended alone with it. */
static void test_dead_alone_three_times(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 100);
    world_reserve(&x, ITEM, 1);
    world_reserve(&x, ITEM, 2);
    world_deliver_in_vain(&x, 5);
    struct orders *o = mem_orders_new(x.db);
    struct uuid killer = world_message_id(&x, ITEM, 1);
    struct ctx ctx;
    int dead;
    int64_t fleet;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    for (int life = 0; life < 3; life++) {
        char name[16];
        snprintf(name, sizeof name, "dead-%d", life);
        o->ops->beat(o, &ctx, str_of(name), 0, &fleet);
        o->ops->suspect_begin(o, &ctx, &killer, str_of(name), &dead);
    }
    mem_orders_free(o);
    world_run(&x, 11 * S); /* a life without a beat for 10 s has ended */
    world_start(&x);
    world_run(&x, 190 * MS);
    assert_string_equal(world_trace(&x),
                        "inbox 2 | begin 3 | quarantine 1 | ack 1 | begin 0 | place 2 "
                        "| settle 1 | ack 1 | clear 1 | mark 1");
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), 1);
    world_stop(&x);
    world_deinit(&x);
}

/* Lives that end by themselves, with healthy ones arriving all the time: everything else is
 * ordered. Death is simulated right after the transaction with user 7 was begun. */
static void test_the_whole_story(void **state)
{
    struct world x;
    (void)state;
    world_init(&x, 1000);
    for (int user = 1; user <= 20; user++)
        world_reserve(&x, ITEM, user);
    int next = 21;
    struct uuid killer = world_message_id(&x, ITEM, 7);
    mem_db_poison(x.db, &killer, ERR_CANCELED); /* it never commits: the process is gone */
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
            world_reserve(&x, ITEM, next++);
            world_run(&x, 11 * S);
        }
    }
    assert_int_equal(mem_db_dead_letters(x.db), 1);
    /* 3 unsuspected, 32 together, 8 together, 3 alone. */
    assert_int_equal(deaths, 9);
    world_run(&x, 30 * S);
    assert_int_equal(mem_db_active_orders(x.db, ITEM), next - 2);
    assert_int_equal(mem_broker_unacked(x.broker, ITEM), 0);
    world_stop(&x);
    world_deinit(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_and_fewer_neighbours),
        cmocka_unit_test(test_groups_of_eight),
        cmocka_unit_test(test_who_is_no_suspect),
        cmocka_unit_test(test_healthy_ones_wait_for_the_suspects),
        cmocka_unit_test(test_dead_alone_three_times),
        cmocka_unit_test(test_the_whole_story),
    };
    log_setup("order-worker", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
