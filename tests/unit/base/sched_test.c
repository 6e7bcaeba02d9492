#include "base/rng.h"
#include "base/sched.h"
#include "unit.h"
#include <string.h>

static struct sched sched;
static char fired[64];

struct named {
    struct timer timer;
    char name;
    int64_t again_at; /* ≥ 0: sets itself when it fires */
    struct timer *clears, *sets;
    int64_t sets_at;
};

static void on_fire(struct timer *t)
{
    struct named *n = container_of(t, struct named, timer);
    fired[strlen(fired)] = n->name;
    if (n->again_at >= 0)
        sched_set(&sched, t, n->again_at);
    if (n->clears)
        sched_clear(&sched, n->clears);
    if (n->sets)
        sched_set(&sched, n->sets, n->sets_at);
}

static struct named named(char name)
{
    return (struct named){.timer = {.on_fire = on_fire}, .name = name, .again_at = -1};
}

static const char *run(int64_t now)
{
    memset(fired, 0, sizeof fired);
    sched_run(&sched, now);
    return fired;
}

static int setup(void **state)
{
    (void)state;
    sched_init(&sched, 0);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    sched_deinit(&sched);
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    struct named a = named('a'), b = named('b'), c = named('c'), d = named('d');
    assert_true(sched_next_us(&sched) == INT64_MAX);
    sched_set(&sched, &a.timer, 30);
    sched_set(&sched, &b.timer, 10);
    sched_set(&sched, &c.timer, 10); /* after b, which was set first */
    sched_set_in(&sched, &d.timer, 40);
    assert_int_equal(sched_next_us(&sched), 10);
    assert_string_equal(run(9), "");
    assert_string_equal(run(10), "bc");
    sched_set(&sched, &d.timer, 20); /* set again: moved */
    assert_string_equal(run(30), "da");
    assert_string_equal(run(1000), "");
    assert_int_equal(sched.now_us, 1000);
}

static void test_reset_takes_the_later_place(void **state)
{
    (void)state;
    struct named a = named('a'), b = named('b');
    sched_set(&sched, &a.timer, 10);
    sched_set(&sched, &b.timer, 10);
    sched_set(&sched, &a.timer, 10);
    assert_string_equal(run(10), "ba");
}

static void test_clear(void **state)
{
    (void)state;
    struct named a = named('a'), b = named('b');
    sched_clear(&sched, &a.timer);
    sched_set(&sched, &a.timer, 10);
    sched_set(&sched, &b.timer, 10);
    a.clears = &b.timer; /* due in the same turn, but cleared in time */
    assert_string_equal(run(10), "a");
    assert_int_equal(b.timer.slot, 0);
}

static void test_past_fires_next_turn(void **state)
{
    (void)state;
    struct named a = named('a'), b = named('b'), c = named('c');
    run(100);
    /* a sets itself into the past: not in this turn, and not in the way of b, which is due. */
    a.again_at = 5;
    a.sets = &c.timer;
    a.sets_at = 100;
    sched_set(&sched, &a.timer, 50);
    sched_set(&sched, &b.timer, 60);
    assert_string_equal(run(100), "ab");
    assert_true(sched_next_us(&sched) <= 100);
    a.again_at = -1;
    a.sets = NULL;
    assert_string_equal(run(100), "ac");
}

static void test_due_timer_moved_away(void **state)
{
    (void)state;
    struct named a = named('a'), b = named('b');
    a.sets = &b.timer;
    a.sets_at = 500;
    sched_set(&sched, &a.timer, 10);
    sched_set(&sched, &b.timer, 10);
    assert_string_equal(run(20), "a");
    a.sets = NULL;
    assert_string_equal(run(500), "b");
}

/* Against a list that is simply searched: thousands of sets, clears and runs. */
static void test_random(void **state)
{
    (void)state;
    enum { N = 300 };
    static struct named t[N];
    static int64_t at[N]; /* -1: not set */
    struct rng rng;
    rng_init_seed(&rng, 7);
    for (int i = 0; i < N; i++) {
        t[i] = named('x');
        at[i] = -1;
    }
    int64_t now = 0;
    for (int step = 0; step < 30000; step++) {
        size_t i = (size_t)rng_below(&rng, N);
        switch (rng_below(&rng, 4)) {
        case 0:
        case 1:
            at[i] = now + (int64_t)rng_below(&rng, 50);
            sched_set(&sched, &t[i].timer, at[i]);
            break;
        case 2:
            at[i] = -1;
            sched_clear(&sched, &t[i].timer);
            break;
        case 3: {
            now += (int64_t)rng_below(&rng, 3);
            int64_t earliest = INT64_MAX;
            size_t due = 0, left = 0;
            for (int k = 0; k < N; k++) {
                if (at[k] >= 0 && at[k] <= now) {
                    at[k] = -1;
                    due++;
                } else if (at[k] >= 0) {
                    left++;
                    earliest = at[k] < earliest ? at[k] : earliest;
                }
            }
            assert_true(due < sizeof fired);
            assert_int_equal(strlen(run(now)), due);
            assert_int_equal(sched.n, left);
            assert_true(sched_next_us(&sched) == earliest);
        }
        }
    }
    for (int i = 0; i < N; i++)
        sched_clear(&sched, &t[i].timer);
}

static struct named bug = {.timer = {.on_fire = on_fire}, .again_at = -1};

static void deinit_with_timers(void)
{
    sched_set(&sched, &bug.timer, 1);
    sched_deinit(&sched);
}
static void backwards(void)
{
    sched_run(&sched, 10);
    sched_run(&sched, 9);
}
static void no_callback(void)
{
    static struct timer t;
    sched_set(&sched, &t, 1);
}
static void runs(struct timer *t)
{
    (void)t;
    sched_run(&sched, sched.now_us);
}
static void run_in_run(void)
{
    static struct timer t = {.on_fire = runs};
    sched_set(&sched, &t, 0);
    sched_run(&sched, 0);
}

static void test_bugs_abort(void **state)
{
    (void)state;
    assert_true(unit_aborts(deinit_with_timers));
    assert_true(unit_aborts(backwards));
    assert_true(unit_aborts(no_callback));
    assert_true(unit_aborts(run_in_run));
}

int main(void)
{
#define SCHED_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        SCHED_TEST(test_order),
        SCHED_TEST(test_reset_takes_the_later_place),
        SCHED_TEST(test_clear),
        SCHED_TEST(test_past_fires_next_turn),
        SCHED_TEST(test_due_timer_moved_away),
        SCHED_TEST(test_random),
        SCHED_TEST(test_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
