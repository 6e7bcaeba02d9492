/* Many look-ups of every kind, with random faults of both stores, viewers that leave and a worker
 * that settles meanwhile. However it goes: each is answered exactly once unless its viewer left,
 * within the budget; no accepted request is ever "not found"; nobody sees what is another's. */
#include "lookup_fixture.h"

#include "base/rng.h"

#define USERS 8
#define STEPS 3000

struct asked {
    struct lookup *lookup;
    int64_t user, until_us;
    bool open, own;
};

static struct asked asked[64];
static struct fixture *world;

static void on_answer(struct lookup_pool *p, void *viewer, const struct lookup_answer *a)
{
    struct asked *q = viewer;
    (void)p;
    assert_true(q->open);
    q->open = false;
    assert_true(world->sched.now_us <= q->until_us);
    if (q->own)
        assert_int_not_equal(a->answer, ANSWER_NOT_FOUND);
    else if (a->kind != LOOKUP_OF_ITEM)
        assert_int_not_equal(a->answer, ANSWER_OK);
}

static void random_fault(struct fixture *f, struct rng *r)
{
    static const enum mem_fault_kind kinds[] = {MEM_FAULT_NOT_DONE,     MEM_FAULT_REPLY_LOST,
                                                MEM_FAULT_REQUEST_LOST, MEM_FAULT_REPLY_LATE,
                                                MEM_FAULT_HELD_BACK,    MEM_FAULT_TWICE};
    static const int stock[] = {MEM_STOCK_LOOKUP, MEM_STOCK_ITEM};
    static const int pg[] = {MEM_ORDERS_FIND_REQUEST, MEM_ORDERS_FIND_ORDER, MEM_ORDERS_INVENTORY};
    enum mem_fault_kind kind = kinds[rng_below(r, 6)];
    int64_t delay_us = (int64_t)rng_below(r, 600 * MS);
    if (rng_below(r, 2)) {
        mem_faults_clear(mem_stock_faults(f->stock), -1);
        fixture_stock_fault(f, stock[rng_below(r, 2)], 1 + (int)rng_below(r, 3), kind, delay_us);
    } else {
        mem_faults_clear(mem_orders_faults(mem_jobs_orders(f->jobs, 0)), -1);
        mem_jobs_fault_all(f->jobs, pg[rng_below(r, 3)], 1 + (int)rng_below(r, 3), kind, delay_us);
    }
}

static void ask(struct fixture *f, struct rng *r, const bool *accepted, const bool *ordered)
{
    struct asked *q = &asked[rng_below(r, 64)];
    if (q->open)
        return;
    int64_t owner = 1 + (int64_t)rng_below(r, USERS), now = f->sched.now_us;
    struct uuid id = fixture_key((unsigned)owner);
    struct lookup_answer at_once;
    *q = (struct asked){.user = rng_below(r, 4) ? owner : owner % USERS + 1,
                        .until_us = now + 500 * MS,
                        .open = true};
    int rc;
    switch (rng_below(r, 3)) {
    case 0:
        q->own = q->user == owner && accepted[owner];
        if (q->user == owner && !accepted[owner])
            q->user = owner % USERS + 1; /* accepted meanwhile would be right either way */
        /* Whoever was told 202 has a token, and may bring it. */
        rc = lookup_request(&f->pool, f->item, q->user, &id, q->own ? (int64_t)rng_below(r, 2) : 0,
                            now, q, &q->lookup);
        break;
    case 1:
        q->own = q->user == owner && ordered[owner];
        if (q->user == owner && !ordered[owner])
            q->user = owner % USERS + 1;
        rc = lookup_order(&f->pool, fixture_order_id(owner, (unsigned)owner), q->user, now, q,
                          &q->lookup);
        break;
    default:
        q->own = true;
        rc = lookup_item(&f->pool, f->item, now, q, &q->lookup, &at_once);
    }
    if (rc != LOOKUP_STARTED)
        q->open = false;
    assert_true(rc == LOOKUP_STARTED || rc == LOOKUP_AT_ONCE || rc == ERR_OVERLOAD ||
                rc == ERR_UNAVAIL);
}

static void run(uint64_t seed)
{
    struct fixture f;
    struct setup s = {24, 1, 4, 5, 500 * MS};
    struct rng r;
    bool accepted[USERS + 1] = {0}, ordered[USERS + 1] = {0};
    rng_init_seed(&r, seed);
    fixture_init(&f, s);
    f.pool.on_answer = on_answer;
    world = &f;
    memset(asked, 0, sizeof asked);
    for (int step = 0; step < STEPS; step++) {
        unsigned user = 1 + (unsigned)rng_below(&r, USERS);
        switch (rng_below(&r, 16)) {
        case 0:
            random_fault(&f, &r);
            break;
        case 1:
            if (!accepted[user])
                fixture_reserve(&f, user, user);
            accepted[user] = true;
            break;
        case 2:
            if (accepted[user] && !ordered[user]) {
                fixture_place(&f, user, user);
                ordered[user] = true;
            }
            break;
        case 3: {
            struct asked *q = &asked[rng_below(&r, 64)];
            if (q->open)
                lookup_gone(q->lookup);
            q->open = false;
            break;
        }
        case 4:
            mem_clock_run_for(&f.sched, (int64_t)rng_below(&r, 100 * MS));
            break;
        case 5:
            mem_clock_run_for(&f.sched, (int64_t)rng_below(&r, 3 * MS));
            break;
        default:
            ask(&f, &r, accepted, ordered);
        }
    }
    mem_clock_run_for(&f.sched, 2000 * MS);
    for (int i = 0; i < 64; i++)
        assert_false(asked[i].open);
    fixture_deinit(&f);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++)
        run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
