#include "lookup_fixture.h"

static struct fixture *tracing;

static void say(struct fixture *f, const char *text)
{
    int n = snprintf(f->trace + f->len, sizeof(f->trace) - f->len, "%s%s", f->len ? " " : "", text);
    assert_true(n > 0);
    if ((size_t)n < sizeof(f->trace) - f->len) /* long runs do not read it */
        f->len += (size_t)n;
}

static void on_move(struct flow *flow, int from, int to)
{
    char text[64];
    int64_t at = tracing->sched.now_us - tracing->trace_us;
    (void)from;
    snprintf(text, sizeof(text), "%s@%lld.%lld", flow->kind->state[to].name, (long long)(at / MS),
             (long long)(at % MS / 100));
    say(tracing, text);
}

static void tell(struct fixture *f, const struct lookup_answer *a)
{
    static const char *const from[] = {"none", "redis", "postgresql", "token"};
    char text[128];
    f->answers++;
    f->last = *a;
    const char *what = answer_info(a->answer)->code;
    if (a->answer == ANSWER_OK && a->kind == LOOKUP_OF_REQUEST)
        what = verdict_state_name(a->verdict.state).ptr;
    else if (a->answer == ANSWER_OK && a->kind == LOOKUP_OF_ORDER)
        what = a->order.status;
    snprintf(text, sizeof(text), "%d %s %s", answer_info(a->answer)->status, what, from[a->source]);
    say(f, text);
}

static void on_answer(struct lookup_pool *p, void *viewer, const struct lookup_answer *a)
{
    struct fixture *f = container_of(p, struct fixture, pool);
    assert_ptr_equal(viewer, f);
    tell(f, a);
}

void fixture_init(struct fixture *f, struct setup s)
{
    memset(f, 0, sizeof(*f));
    sched_init(&f->sched, MEM_CLOCK_START_US);
    f->stock = mem_stock_new(&(struct mem_stock_config){.sched = &f->sched});
    f->item = (struct item){1001, 2001};
    mem_stock_put_item(f->stock, f->item, 100);
    f->db = mem_db_new(&f->sched, 0);
    mem_db_put_item(f->db, f->item, 100, 1);
    f->orders = mem_orders_new(f->db);
    f->jobs = mem_jobs_new(f->db, &f->sched, s.threads, s.queue_max);
    f->reporter = (struct reporter){.stock = f->stock, .sched = &f->sched, .call_us = 60 * MS};
    reporter_init(&f->reporter);
    f->pool = (struct lookup_pool){.stock = f->stock,
                                   .jobs = f->jobs,
                                   .sched = &f->sched,
                                   .timeout_us = s.timeout_us,
                                   .redis_us = 60 * MS,
                                   .fallback_after_us = 2000 * MS,
                                   .pg_us = 400 * MS,
                                   .pg_reads = s.pg_reads,
                                   .reporter = &f->reporter,
                                   .on_answer = on_answer};
    assert_int_equal(lookup_pool_init(&f->pool, s.flows), 0);
    tracing = f;
    lookup_kind.on_move = on_move;
    fixture_clear_trace(f);
}

void fixture_deinit(struct fixture *f)
{
    assert_int_equal(lookup_pool_busy(&f->pool), 0);
    assert_int_equal(reads_busy(&f->pool.reads), 0);
    lookup_pool_deinit(&f->pool);
    mem_jobs_free(f->jobs);
    mem_orders_free(f->orders);
    mem_db_free(f->db);
    mem_stock_free(f->stock);
    sched_deinit(&f->sched);
}

struct uuid fixture_key(unsigned n)
{
    return (struct uuid){{(uint8_t)(n >> 8), (uint8_t)n, [15] = 1}};
}

static struct uuid message_of(int64_t user, unsigned key)
{
    struct uuid u = fixture_key(key);
    u.b[6] = 0x40; /* not version 7: it tells no time */
    u.b[13] = (uint8_t)(user >> 8);
    u.b[14] = (uint8_t)user;
    u.b[15] = 2;
    return u;
}

static struct uuid reservation_of(int64_t user, unsigned key)
{
    struct uuid u = message_of(user, key);
    u.b[15] = 3;
    return u;
}

int64_t fixture_order_id(int64_t user, unsigned key)
{
    return user * 1000 + key;
}

void fixture_run_ms(struct fixture *f, int64_t ms)
{
    mem_clock_run_for(&f->sched, ms * MS);
}

void fixture_clear_trace(struct fixture *f)
{
    f->len = 0;
    f->trace[0] = 0;
    f->trace_us = f->sched.now_us;
}

/* --- the world --- */

struct call {
    union {
        struct stock_reserve reserve;
        struct stock_settle settle;
    };
    bool done;
};

static void on_reserved(struct op *op, int rc)
{
    assert_int_equal(rc, STOCK_CREATED);
    container_of(op, struct call, reserve.op)->done = true;
}

void fixture_reserve(struct fixture *f, int64_t user, unsigned key)
{
    struct stock *other = mem_stock_another(f->stock);
    struct call c = {.reserve = {.item = f->item,
                                 .user_id = user,
                                 .order_id = fixture_order_id(user, key),
                                 .request_id = fixture_key(key),
                                 .reservation_id = reservation_of(user, key),
                                 .message_id = message_of(user, key),
                                 .created_at_us = mem_clock_wall_us(&f->sched),
                                 .give_up_us = INT64_MAX}};
    c.reserve.op = (struct op){.on_done = on_reserved, .deadline_us = INT64_MAX};
    other->ops->reserve(other, &c.reserve);
    assert_true(mem_clock_run_while(&f->sched, &c.done, f->sched.now_us + 200 * MS));
    mem_stock_free(other);
}

static void on_settled(struct op *op, int rc)
{
    assert_int_equal(rc, 0);
    container_of(op, struct call, settle.op)->done = true;
}

void fixture_settle(struct fixture *f, int64_t user, unsigned key, struct verdict v)
{
    struct stock *other = mem_stock_another(f->stock);
    struct stock_settle_row row = {.user_id = user,
                                   .request_id = fixture_key(key),
                                   .reservation_id = reservation_of(user, key),
                                   .verdict = v};
    struct call c = {.settle = {.item = f->item, .rows = &row, .n = 1}};
    c.settle.op = (struct op){.on_done = on_settled, .deadline_us = INT64_MAX};
    other->ops->settle(other, &c.settle);
    assert_true(mem_clock_run_while(&f->sched, &c.done, f->sched.now_us + 200 * MS));
    mem_stock_free(other);
}

static struct orders_row row_of(struct fixture *f, int64_t user, unsigned key)
{
    return (struct orders_row){.message_id = message_of(user, key),
                               .request_id = fixture_key(key),
                               .reservation_id = reservation_of(user, key),
                               .user_id = user,
                               .order_id = fixture_order_id(user, key),
                               .created_at_ms = mem_clock_wall_ms(&f->sched),
                               .version = {1, 1}};
}

void fixture_place(struct fixture *f, int64_t user, unsigned key)
{
    struct orders_row row = row_of(f, user, key);
    struct orders_timing timing;
    struct ctx ctx;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    assert_int_equal(f->orders->ops->place(f->orders, &ctx, f->item, &row, 1, &timing), 0);
    mem_orders_take_us(f->orders);
}

void fixture_quarantine(struct fixture *f, int64_t user, unsigned key)
{
    struct orders_dead_letter dl = {.decoded = true,
                                    .message_id = message_of(user, key),
                                    .request_id = fixture_key(key),
                                    .reservation_id = reservation_of(user, key),
                                    .user_id = user,
                                    .order_id = fixture_order_id(user, key),
                                    .item = f->item,
                                    .broker_id = STR("1-1"),
                                    .body = STR("{}"),
                                    .reason = STR("test")};
    struct ctx ctx;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    bool settled;
    assert_int_equal(f->orders->ops->quarantine(f->orders, &ctx, &dl, 1, &settled), 0);
    assert_false(settled);
    mem_orders_take_us(f->orders);
}

void fixture_void(struct fixture *f, int64_t user, unsigned key)
{
    struct orders_row row = row_of(f, user, key);
    struct orders_inbox inbox;
    struct ctx ctx;
    ctx_init(&ctx, NULL, CTX_NO_DEADLINE);
    assert_int_equal(
        f->orders->ops->void_message(f->orders, &ctx, f->item, &row, REASON_VOID, &inbox), 0);
    mem_orders_take_us(f->orders);
}

/* --- asking --- */

int fixture_request(struct fixture *f, int64_t user, unsigned key, struct lookup **out)
{
    struct lookup *l = NULL;
    struct uuid request_id = fixture_key(key);
    int before = f->answers;
    int rc = lookup_request(&f->pool, f->item, user, &request_id, f->accepted_epoch,
                            f->sched.now_us, f, &l);
    assert_int_equal(f->answers, before); /* never inside the call */
    if (out)
        *out = l;
    return rc;
}

int fixture_order(struct fixture *f, int64_t order_id, int64_t user, struct lookup **out)
{
    struct lookup *l = NULL;
    int before = f->answers;
    int rc = lookup_order(&f->pool, order_id, user, f->sched.now_us, f, &l);
    assert_int_equal(f->answers, before);
    if (out)
        *out = l;
    return rc;
}

int fixture_item(struct fixture *f, struct item item, struct lookup **out)
{
    struct lookup *l = NULL;
    struct lookup_answer now;
    int before = f->answers;
    int rc = lookup_item(&f->pool, item, f->sched.now_us, f, &l, &now);
    assert_int_equal(f->answers, before);
    if (rc == LOOKUP_AT_ONCE)
        tell(f, &now);
    if (out)
        *out = l;
    return rc;
}

static void rest(struct fixture *f, int before)
{
    fixture_run_ms(f, 1000);
    assert_int_equal(f->answers, before + 1); /* exactly once, late replies or not */
    assert_int_equal(lookup_pool_busy(&f->pool), 0);
}

void fixture_ask(struct fixture *f, int64_t user, unsigned key)
{
    int before = f->answers;
    fixture_clear_trace(f);
    assert_int_equal(fixture_request(f, user, key, NULL), LOOKUP_STARTED);
    rest(f, before);
}

void fixture_ask_order(struct fixture *f, int64_t order_id, int64_t user)
{
    int before = f->answers;
    fixture_clear_trace(f);
    assert_int_equal(fixture_order(f, order_id, user, NULL), LOOKUP_STARTED);
    rest(f, before);
}

void fixture_ask_item(struct fixture *f, struct item item)
{
    int before = f->answers;
    fixture_clear_trace(f);
    if (fixture_item(f, item, NULL) == LOOKUP_STARTED)
        rest(f, before);
}

int fixture_stock_calls(struct fixture *f, int op)
{
    return mem_stock_faults(f->stock)->calls[op];
}

int fixture_pg_calls(struct fixture *f, int op)
{
    int n = 0;
    for (int i = 0; i < f->jobs->threads; i++)
        n += mem_orders_faults(mem_jobs_orders(f->jobs, i))->calls[op];
    return n;
}

void fixture_stock_fault(struct fixture *f, int op, int k, enum mem_fault_kind kind,
                         int64_t delay_us)
{
    mem_faults_add(mem_stock_faults(f->stock), op, k, kind, delay_us);
}
