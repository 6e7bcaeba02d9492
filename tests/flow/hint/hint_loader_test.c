/* The loader of the sold-out hints, on the fake stock. Rules 10 and 11. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_stock.h"
#include "app/hint_loader.h"

#define MS 1000
#define UNITS 2500 /* three pages of the fake */

static struct sched sched;
static struct stock *stock;
static struct rng rng;
static struct hint_loader loader;
static const struct item item = {1001, 2001};
static struct hint_set *last;
static int sets, news, offs;

static void on_set(struct hint_loader *l, struct hint_set *set)
{
    (void)l;
    hint_set_unref(last);
    last = set;
    sets++;
}

static void on_news(struct hint_loader *l, struct item i, struct item_version v)
{
    (void)l;
    (void)i;
    (void)v;
    news++;
}

static void on_off(struct hint_loader *l)
{
    (void)l;
    offs++;
}

struct buy {
    struct stock_reserve r;
    int rc;
};

static void on_bought(struct op *op, int rc)
{
    container_of(op, struct buy, r.op)->rc = rc;
}

static int buy(int64_t user)
{
    struct buy b = {.r = {.item = item, .user_id = user, .order_id = user}};
    b.r.request_id.b[0] = b.r.reservation_id.b[0] = 1;
    memcpy(b.r.request_id.b + 8, &user, 8);
    memcpy(b.r.reservation_id.b + 8, &user, 8);
    b.r.give_up_us = INT64_MAX;
    b.r.op = (struct op){.on_done = on_bought, .deadline_us = INT64_MAX};
    b.rc = -1;
    stock->ops->reserve(stock, &b.r);
    mem_clock_run_for(&sched, 1 * MS);
    return b.rc;
}

static struct stock_item_info info(void)
{
    struct stock_item_info i;
    assert_true(mem_stock_info(stock, item, &i));
    return i;
}

static int calls(enum mem_stock_op op)
{
    return mem_stock_faults(stock)->calls[op];
}

static int setup(void **state)
{
    (void)state;
    sched_init(&sched, MEM_CLOCK_START_US);
    stock = mem_stock_new(&(struct mem_stock_config){.sched = &sched});
    mem_stock_put_item(stock, item, UNITS);
    for (int64_t user = 1; user <= UNITS; user++)
        assert_int_equal(buy(user), STOCK_CREATED);
    rng_init_seed(&rng, 1);
    sets = news = offs = 0;
    memset(&loader, 0, sizeof(loader));
    loader.stock = stock;
    loader.sched = &sched;
    loader.rng = &rng;
    loader.call_us = 60 * MS;
    loader.max_buyers = 10000;
    loader.on_set = on_set;
    loader.on_news = on_news;
    loader.on_off = on_off;
    hint_loader_init(&loader);
    mem_stock_news_start(stock, &loader.news);
    mem_clock_run_for(&sched, 10 * MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hint_loader_stop(&loader);
    mem_stock_news_stop(stock, &loader.news);
    mem_stock_free(stock);
    hint_loader_deinit(&loader);
    sched_deinit(&sched);
    hint_set_unref(last);
    last = NULL;
    return 0;
}

static void on_settled(struct op *op, int rc)
{
    (void)op;
    assert_int_equal(rc, 0);
}

static void cancel_one(int64_t user)
{
    struct stock_settle_row row = {
        .user_id = user, .verdict = {VERDICT_CANCELLED, REASON_CANCELLED}, .give_back = true};
    row.request_id.b[0] = row.reservation_id.b[0] = 1;
    memcpy(row.request_id.b + 8, &user, 8);
    memcpy(row.reservation_id.b + 8, &user, 8);
    struct stock_settle s = {.item = item, .rows = &row, .n = 1};
    s.op = (struct op){.on_done = on_settled, .deadline_us = INT64_MAX};
    stock->ops->settle(stock, &s);
    mem_clock_run_for(&sched, 2 * MS);
}

static void test_loads_the_buyers(void **state)
{
    (void)state;
    hint_loader_sold_out(&loader, item, info().version);
    assert_int_equal(sets, 0);
    mem_clock_run_for(&sched, 60 * MS);
    assert_int_equal(sets, 1);
    assert_int_equal(last->n, UNITS);
    assert_int_equal(item_version_cmp(last->version, info().version), 0);
    for (int64_t user = 1; user <= UNITS; user++)
        assert_true(hint_set_has(last, user));
    assert_false(hint_set_has(last, UNITS + 1));
    assert_int_equal(calls(MEM_STOCK_BUYERS), 3);
    assert_int_equal(calls(MEM_STOCK_ITEM), 2); /* before and after */
}

static void test_rule_11_one_load_a_second(void **state)
{
    (void)state;
    int64_t began = sched.now_us;
    for (int i = 0; i < 3000; i++) {
        hint_loader_sold_out(&loader, item, info().version);
        mem_clock_run_for(&sched, 1 * MS);
    }
    /* In 3 s: at 0, 1 and 2 s, each with some jitter. */
    assert_in_range(sets, 2, 3);
    assert_int_equal(sched.now_us - began, 3000 * MS);
}

static void test_rule_11_jittered(void **state)
{
    (void)state;
    int64_t earliest = INT64_MAX, latest = 0;
    for (int i = 0; i < 20; i++) {
        int before = sets;
        int64_t began = sched.now_us;
        hint_loader_sold_out(&loader, item, info().version);
        while (sets == before)
            mem_clock_run_for(&sched, 100);
        int64_t took = sched.now_us - began;
        earliest = took < earliest ? took : earliest;
        latest = took > latest ? took : latest;
        mem_clock_run_for(&sched, 2000 * MS);
    }
    assert_true(latest - earliest > 10 * MS);
    assert_true(latest < 60 * MS);
}

static void test_rule_10_moved_during_the_load_is_thrown_away(void **state)
{
    (void)state;
    hint_loader_sold_out(&loader, item, info().version);
    while (calls(MEM_STOCK_BUYERS) < 2)
        mem_clock_run_for(&sched, 100);
    cancel_one(7);
    assert_int_equal(buy(9999), STOCK_CREATED);
    mem_clock_run_for(&sched, 500 * MS);
    assert_int_equal(sets, 0);
    assert_true(news > 0); /* and the loops were told at once */
    hint_loader_sold_out(&loader, item, info().version);
    mem_clock_run_for(&sched, 2000 * MS);
    assert_int_equal(sets, 1);
    assert_true(hint_set_has(last, 9999));
    assert_false(hint_set_has(last, 7));
}

/* Only the second reading of the item can tell: the news are lost. */
static void test_rule_10_rereads(void **state)
{
    (void)state;
    hint_loader_sold_out(&loader, item, info().version);
    while (calls(MEM_STOCK_BUYERS) < 2)
        mem_clock_run_for(&sched, 100);
    mem_stock_news_stop(stock, &loader.news);
    cancel_one(7);
    assert_int_equal(buy(9999), STOCK_CREATED);
    mem_clock_run_for(&sched, 500 * MS);
    assert_int_equal(sets, 0);
    mem_stock_news_start(stock, &loader.news);
    mem_clock_run_for(&sched, 10 * MS);
}

static void test_on_sale_again(void **state)
{
    (void)state;
    struct item_version v = info().version;
    cancel_one(7);
    hint_loader_sold_out(&loader, item, v); /* older than what was heard: not even asked */
    mem_clock_run_for(&sched, 2000 * MS);
    hint_loader_sold_out(&loader, item, info().version);
    mem_clock_run_for(&sched, 2000 * MS);
    assert_int_equal(sets, 0);
    assert_int_equal(calls(MEM_STOCK_BUYERS), 0);
}

static void test_rule_11_off_while_the_subscription_is_down(void **state)
{
    (void)state;
    mem_stock_news_link(stock, false);
    assert_int_equal(offs, 1);
    hint_loader_sold_out(&loader, item, info().version);
    mem_clock_run_for(&sched, 2000 * MS);
    assert_int_equal(calls(MEM_STOCK_ITEM), 0);
    mem_stock_news_link(stock, true);
    hint_loader_sold_out(&loader, item, info().version);
    mem_clock_run_for(&sched, 2000 * MS);
    assert_int_equal(sets, 1);
}

static void test_rule_11_down_during_a_load(void **state)
{
    (void)state;
    /* READ, each of the three pages, CHECK: how many calls were made by then */
    static const int items[] = {1, 1, 1, 1, 2}, pages[] = {0, 1, 2, 3, 3};
    for (int stage = 0; stage < 5; stage++) {
        int before = sets, items0 = calls(MEM_STOCK_ITEM), pages0 = calls(MEM_STOCK_BUYERS);
        hint_loader_sold_out(&loader, item, info().version);
        while (calls(MEM_STOCK_ITEM) - items0 < items[stage] ||
               calls(MEM_STOCK_BUYERS) - pages0 < pages[stage])
            mem_clock_run_for(&sched, 100);
        mem_stock_news_link(stock, false);
        mem_stock_news_link(stock, true); /* back before the load's call has ended */
        mem_clock_run_for(&sched, 3000 * MS);
        assert_int_equal(sets, before);
    }
    assert_int_equal(offs, 5);
}

static void test_rule_11_size_bound(void **state)
{
    (void)state;
    loader.max_buyers = UNITS - 1;
    hint_loader_sold_out(&loader, item, info().version);
    mem_clock_run_for(&sched, 500 * MS);
    assert_int_equal(sets, 0);
    assert_int_equal(calls(MEM_STOCK_BUYERS), 0);
}

static void test_faults(void **state)
{
    static const enum mem_stock_op ops[] = {MEM_STOCK_ITEM, MEM_STOCK_BUYERS, MEM_STOCK_BUYERS,
                                            MEM_STOCK_ITEM};
    static const int nth[] = {1, 1, 3, 2};
    static const enum mem_fault_kind kinds[] = {MEM_FAULT_NOT_DONE, MEM_FAULT_REPLY_LOST,
                                                MEM_FAULT_REPLY_LATE};
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 3; k++) {
            int before = sets;
            mem_faults_add(mem_stock_faults(stock), ops[i], nth[i], kinds[k], 500 * MS);
            hint_loader_sold_out(&loader, item, info().version);
            mem_clock_run_for(&sched, 1000 * MS);
            assert_int_equal(sets, before);
            mem_faults_clear(mem_stock_faults(stock), -1);
            hint_loader_sold_out(&loader, item, info().version);
            mem_clock_run_for(&sched, 3000 * MS);
            assert_int_equal(sets, before + 1);
        }
    }
}

/* I8: no more than 1024 items are known; unknown ones are simply not loaded. */
static void test_bound(void **state)
{
    (void)state;
    struct item_version v = {1, 1};
    for (int64_t i = 1; i <= 3 * HINT_ITEMS_MAX; i++)
        hint_loader_sold_out(&loader, (struct item){i, i}, v);
    assert_int_equal(loader.index.n, HINT_ITEMS_MAX);
    hint_loader_sold_out(&loader, item, info().version);
    mem_clock_run_for(&sched, 10 * MS);
    assert_int_equal(sets, 0);
    mem_clock_run_for(&sched, HINT_LOADER_IDLE_US);
    hint_loader_sold_out(&loader, item, info().version); /* the idle ones made room */
    mem_clock_run_for(&sched, 100 * MS);
    assert_int_equal(sets, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_loads_the_buyers),
        T(test_rule_11_one_load_a_second),
        T(test_rule_11_jittered),
        T(test_rule_10_moved_during_the_load_is_thrown_away),
        T(test_rule_10_rereads),
        T(test_on_sale_again),
        T(test_rule_11_off_while_the_subscription_is_down),
        T(test_rule_11_down_during_a_load),
        T(test_rule_11_size_bound),
        T(test_faults),
        T(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
