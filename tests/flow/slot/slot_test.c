/* The instance number's lease. Rule 38. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_stock.h"
#include "app/slot.h"
#include "base/log.h"
#include <stdio.h>

#define MS 1000
#define S (1000 * MS)

struct process {
    struct stock *stock;
    struct rng rng;
    struct order_id_source ids;
    struct slot slot;
};

static struct sched sched;
static struct stock *store;
static char trace[2048];
static bool tracing;

static int64_t wall_ms(struct slot *s)
{
    return mem_clock_wall_ms(s->sched);
}

static void on_move(struct flow *f, int from, int to)
{
    size_t len = strlen(trace);
    (void)from;
    if (tracing)
        snprintf(trace + len, sizeof(trace) - len, "%s%s", len ? " " : "", f->kind->state[to].name);
}

static void start(struct process *p, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->stock = mem_stock_another(store);
    rng_init_seed(&p->rng, seed);
    order_id_init(&p->ids);
    p->slot = (struct slot){.stock = p->stock,
                            .sched = &sched,
                            .rng = &p->rng,
                            .ids = &p->ids,
                            .lease_us = 15 * S,
                            .call_us = 60 * MS,
                            .wall_ms = wall_ms};
    slot_start(&p->slot);
}

static void stop(struct process *p)
{
    slot_stop(&p->slot);
    mem_stock_free(p->stock);
    assert_true(slot_stopped(&p->slot));
}

static int next_id(struct process *p, int64_t *id)
{
    return order_id_next(&p->ids, mem_clock_wall_ms(&sched), sched.now_us, id);
}

static int instance_of(int64_t id)
{
    return (int)(id >> 12 & 1023);
}

static int setup(void **state)
{
    (void)state;
    sched_init(&sched, MEM_CLOCK_START_US);
    store = mem_stock_new(&(struct mem_stock_config){.sched = &sched});
    slot_kind.on_move = on_move;
    trace[0] = 0;
    tracing = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_stock_free(store);
    sched_deinit(&sched);
    return 0;
}

static void test_takes_and_renews(void **state)
{
    struct process p;
    int64_t first, id;
    (void)state;
    start(&p, 1);
    assert_int_equal(next_id(&p, &first), ERR_UNAVAIL); /* nothing is held yet */
    mem_clock_run_for(&sched, 2 * MS);
    assert_int_equal(next_id(&p, &first), 0);
    mem_clock_run_for(&sched, 16 * S); /* longer than the lease: renewed each 5 s */
    assert_string_equal(trace, "KEEP RENEW KEEP RENEW KEEP RENEW KEEP");
    assert_int_equal(next_id(&p, &id), 0);
    assert_int_equal(instance_of(first), instance_of(id));
    assert_true(id > first);
    stop(&p);
    assert_int_equal(next_id(&p, &id), ERR_UNAVAIL);
}

/* 200 processes: many want a number that is taken, and no two ever hold the same one. */
static void test_numbers_are_exclusive(void **state)
{
    static struct process p[200];
    bool used[ORDER_ID_INSTANCES] = {false};
    (void)state;
    tracing = false;
    for (int i = 0; i < 200; i++)
        start(&p[i], (uint64_t)i + 1);
    mem_clock_run_for(&sched, 5 * S);
    for (int i = 0; i < 200; i++) {
        int64_t id;
        assert_int_equal(next_id(&p[i], &id), 0);
        assert_false(used[instance_of(id)]);
        used[instance_of(id)] = true;
    }
    for (int i = 0; i < 200; i++)
        stop(&p[i]);
}

static void test_not_renewed_in_time(void **state)
{
    struct process p;
    int64_t id;
    (void)state;
    start(&p, 1);
    mem_clock_run_for(&sched, 2 * MS);
    assert_int_equal(next_id(&p, &id), 0);
    mem_faults_add(mem_stock_faults(p.stock), MEM_STOCK_SLOT_LEASE, 0, MEM_FAULT_REQUEST_LOST, 0);
    mem_clock_run_for(&sched, 13 * S);
    assert_int_equal(next_id(&p, &id), 0);
    mem_clock_run_for(&sched, 600 * MS); /* 13.5 s after it was asked for: a tenth early */
    assert_int_equal(next_id(&p, &id), ERR_UNAVAIL);
    tracing = false;
    mem_clock_run_for(&sched, 2 * S);
    mem_faults_clear(mem_stock_faults(p.stock), -1);
    mem_clock_run_for(&sched, 200 * MS);
    assert_int_equal(next_id(&p, &id), 0); /* another number, or the same by a new nonce */
    stop(&p);
}

static void test_another_owner(void **state)
{
    struct process p;
    int64_t id;
    (void)state;
    start(&p, 1);
    mem_clock_run_for(&sched, 2 * MS);
    assert_int_equal(next_id(&p, &id), 0);
    int lost = instance_of(id);
    mem_faults_add(mem_stock_faults(p.stock), MEM_STOCK_SLOT_LEASE, 1, MEM_FAULT_ANSWER, 1);
    mem_clock_run_for(&sched, 5 * S + 2 * MS);
    assert_int_equal(next_id(&p, &id), ERR_UNAVAIL);
    mem_clock_run_for(&sched, 200 * MS);
    assert_int_equal(next_id(&p, &id), 0);
    assert_int_not_equal(instance_of(id), lost);
    assert_string_equal(trace, "KEEP RENEW PAUSE TAKE KEEP");
    stop(&p);
}

/* The next owner of a number starts beyond everything that the one before may have used; while that
 * is still to come, it takes another number. */
static void test_next_owner_starts_beyond(void **state)
{
    static struct process a, b;
    int64_t id, theirs;
    (void)state;
    start(&a, 1);
    mem_clock_run_for(&sched, 2 * MS);
    for (int i = 0; i < 4096 * 500; i++) /* half a second ahead of the clock */
        assert_int_equal(next_id(&a, &id), 0);
    assert_true(order_id_highest_ms(&a.ids) > mem_clock_wall_ms(&sched) + 400);
    stop(&a); /* as a crash: its lease runs out */
    mem_clock_run_for(&sched, 15 * S + 1 * MS);
    trace[0] = 0;
    start(&b, 1); /* the same random numbers: wants the same one first */
    mem_clock_run_for(&sched, 200 * MS);
    assert_string_equal(trace, "PAUSE TAKE KEEP"); /* its times are up to a second ahead */
    assert_int_equal(next_id(&b, &theirs), 0);
    assert_int_not_equal(instance_of(theirs), instance_of(id));
    stop(&b);
    mem_clock_run_for(&sched, 20 * S);
    start(&b, 1);
    mem_clock_run_for(&sched, 2 * MS);
    assert_int_equal(next_id(&b, &theirs), 0);
    assert_int_equal(instance_of(theirs), instance_of(id));
    assert_true(theirs > id);
    stop(&b);
}

static void test_stops_in_each_state(void **state)
{
    static const int64_t after_us[] = {0, 300, 2 * MS, 5 * S + 300, 5 * S + 50 * MS};
    (void)state;
    for (size_t i = 0; i < sizeof(after_us) / sizeof(after_us[0]); i++) {
        struct process p;
        start(&p, i + 1);
        if (i == 4) {
            mem_clock_run_for(&sched, 2 * MS);
            mem_faults_add(mem_stock_faults(p.stock), MEM_STOCK_SLOT_LEASE, 0, MEM_FAULT_NOT_DONE,
                           0);
        }
        mem_clock_run_for(&sched, after_us[i]);
        stop(&p);
    }
}

static void test_fixed(void **state)
{
    struct order_id_source ids;
    int64_t id, again;
    (void)state;
    order_id_init(&ids);
    int64_t wall = mem_clock_wall_ms(&sched);
    slot_fixed(&ids, 12, wall);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(order_id_next(&ids, wall, 1, &id), 0);
    assert_int_equal(order_id_next(&ids, wall, 1, &again), ERR_UNAVAIL); /* a second ahead */
    order_id_init(&ids); /* killed and started again, two milliseconds later */
    slot_fixed(&ids, 12, wall + 2);
    assert_int_equal(order_id_next(&ids, wall + 2, 1, &again), 0);
    assert_true(again > id);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_takes_and_renews),
        T(test_numbers_are_exclusive),
        T(test_not_renewed_in_time),
        T(test_another_owner),
        T(test_next_owner_starts_beyond),
        T(test_stops_in_each_state),
        T(test_fixed),
    };
    int null = -1;
    FILE *f = fopen("/dev/null", "w");
    if (f)
        null = fileno(f);
    log_to_fd(null);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (f)
        fclose(f);
    return failed;
}
