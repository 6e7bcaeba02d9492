#include "reserve_fixture.h"

static struct fixture *tracing;

static void say(struct fixture *f, const char *text)
{
    int n = snprintf(f->trace + f->len, sizeof(f->trace) - f->len, "%s%s", f->len ? " " : "", text);
    assert_true(n > 0 && (size_t)n < sizeof(f->trace) - f->len);
    f->len += (size_t)n;
}

static void on_move(struct flow *flow, int from, int to)
{
    char text[64];
    int64_t at = tracing->sched.now_us - MEM_CLOCK_START_US;
    (void)from;
    snprintf(text, sizeof(text), "%s@%lld.%lld", flow->kind->state[to].name, (long long)(at / MS),
             (long long)(at % MS / 100));
    say(tracing, text);
}

static void on_answer(struct reserve_pool *p, void *viewer, const struct reserve_answer *a)
{
    struct fixture *f = container_of(p, struct fixture, pool);
    const struct answer_info *info = answer_info(a->answer);
    char text[128];
    assert_ptr_equal(viewer, f);
    f->answers++;
    f->last = *a;
    f->answered_us = f->sched.now_us - MEM_CLOCK_START_US;
    snprintf(text, sizeof(text), "%d %s%s", info->status,
             a->answer == ANSWER_ACCEPTED ? verdict_state_name(a->verdict.state).ptr : info->code,
             a->replayed ? " replayed" : "");
    say(f, text);
}

static void on_idle(struct reserve_pool *p)
{
    container_of(p, struct fixture, pool)->idles++;
}

static void no_loader(struct hints *h, struct item item, struct item_version v)
{
    (void)h;
    (void)item;
    (void)v;
}

void fixture_init(struct fixture *f, int64_t units, int flows)
{
    memset(f, 0, sizeof(*f));
    sched_init(&f->sched, MEM_CLOCK_START_US);
    f->stock = mem_stock_new(&(struct mem_stock_config){.sched = &f->sched});
    f->item = (struct item){1001, 2001};
    mem_stock_put_item(f->stock, f->item, units);
    order_id_init(&f->ids);
    order_id_grant(&f->ids, 7, 0, INT64_MAX);
    rng_init_seed(&f->rng, 42);
    retry_budget_init(&f->budget, 5, 10, f->sched.now_us);
    f->hints.on_sold_out = no_loader;
    hints_init(&f->hints);
    past_init(&f->past);
    f->reporter = (struct reporter){.stock = f->stock, .sched = &f->sched, .call_us = 60 * MS};
    reporter_init(&f->reporter);
    f->pool = (struct reserve_pool){.stock = f->stock,
                                    .sched = &f->sched,
                                    .ids = &f->ids,
                                    .rng = &f->rng,
                                    .budget = &f->budget,
                                    .hints = &f->hints,
                                    .past = &f->past,
                                    .reporter = &f->reporter,
                                    .submit_us = 90 * MS,
                                    .try_us = 65 * MS,
                                    .target_us = 1000 * MS, /* its own test: core_admission_test */
                                    .on_answer = on_answer,
                                    .on_idle = on_idle};
    assert_int_equal(reserve_pool_init(&f->pool, flows), 0);
    tracing = f;
    reserve_kind.on_move = on_move;
}

void fixture_init_queue(struct fixture *f, int64_t units, int flows, bool strict)
{
    fixture_init(f, units, flows);
    reserve_pool_deinit(&f->pool);
    f->broker = mem_broker_new(&(struct mem_broker_config){.sched = &f->sched});
    f->queue = mem_queue_new(f->broker, "api", 1);
    f->pool.queue = f->queue;
    f->pool.strict = strict;
    f->pool.try_us = 25 * MS;
    f->pool.publish_us = 40 * MS;
    f->pool.send_us = 500 * MS;
    f->pool.store_us = 60 * MS;
    assert_int_equal(reserve_pool_init(&f->pool, flows), 0);
}

void fixture_deinit(struct fixture *f)
{
    /* As a data loop: what the queue ends is still marked, or taken back. */
    if (f->queue)
        mem_queue_free(f->queue);
    if (f->broker)
        mem_broker_free(f->broker);
    mem_stock_free(f->stock);
    reserve_pool_deinit(&f->pool);
    hints_deinit(&f->hints);
    sched_deinit(&f->sched);
}

struct reserve_request fixture_request(const struct fixture *f, int64_t user, unsigned key)
{
    struct reserve_request q = {.item = f->item,
                                .user_id = user,
                                .received_us = f->sched.now_us,
                                .wall_us = mem_clock_wall_us(&f->sched)};
    q.request_id.b[0] = (uint8_t)key;
    q.request_id.b[15] = 1;
    return q;
}

int fixture_submit(struct fixture *f, int64_t user, unsigned key, struct reserve **out)
{
    struct reserve_request q = fixture_request(f, user, key);
    int before = f->answers, rc = reserve_submit(&f->pool, &q, f, out);
    assert_int_equal(f->answers, before); /* never inside the call */
    return rc;
}

void fixture_clear_trace(struct fixture *f)
{
    f->len = 0;
    f->trace[0] = 0;
}

void fixture_run_ms(struct fixture *f, int64_t ms)
{
    mem_clock_run_for(&f->sched, ms * MS);
}

void fixture_buy(struct fixture *f, int64_t user, unsigned key)
{
    int before = f->answers;
    fixture_clear_trace(f);
    assert_int_equal(fixture_submit(f, user, key, NULL), RESERVE_STARTED);
    fixture_run_ms(f, 1000);
    assert_int_equal(f->answers, before + 1); /* exactly once, late replies or not */
    assert_int_equal(reserve_pool_busy(&f->pool), 0);
}

struct settling {
    struct stock_settle s;
    bool done;
};

static void on_settled(struct op *op, int rc)
{
    assert_int_equal(rc, 0);
    container_of(op, struct settling, s.op)->done = true;
}

void fixture_settle(struct fixture *f, int64_t user, unsigned key, struct verdict v, bool give_back)
{
    struct reserve_request q = fixture_request(f, user, key);
    const struct reservation *r = mem_stock_find(f->stock, f->item, user, &q.request_id);
    assert_non_null(r);
    struct stock_settle_row row = {.user_id = user,
                                   .request_id = q.request_id,
                                   .reservation_id = r->reservation_id,
                                   .verdict = v,
                                   .give_back = give_back};
    if (v.reason == REASON_ONE_USER_ONE_ORDER) {
        row.other_order_id = 4711;
        row.other_reservation_id.b[0] = 0xaa;
        row.other_request_id.b[0] = 0xbb;
    }
    struct settling s = {.s = {.item = f->item, .rows = &row, .n = 1}};
    s.s.op = (struct op){.on_done = on_settled, .deadline_us = f->sched.now_us + 100 * MS};
    f->stock->ops->settle(f->stock, &s.s);
    assert_true(mem_clock_run_while(&f->sched, &s.done, f->sched.now_us + 200 * MS));
}

const struct reservation *fixture_record(const struct fixture *f, int64_t user, unsigned key)
{
    struct reserve_request q = fixture_request(f, user, key);
    return mem_stock_find(f->stock, f->item, user, &q.request_id);
}

int64_t fixture_held(const struct fixture *f)
{
    return mem_stock_units_held(f->stock, f->item);
}
