#include "world.h"

#include "app/place.h"
#include "worker_defaults.h"
#include <stdio.h>
#include <stdlib.h>

static struct world *tracing;
static const struct orders_ops *orders_under;
static const struct queue_ops *queue_under;
static const struct stock_ops *stock_under;

static void say(const char *what, const char *detail, int rc)
{
    struct strbuf *b = &tracing->trace;
    if (b->len > 0)
        strbuf_add_str(b, STR(" | "));
    strbuf_printf(b, "%s%s%s", what, *detail ? " " : "", detail);
    if (rc < 0)
        strbuf_printf(b, "=%s", err_name(rc));
    else if (rc > 0)
        strbuf_printf(b, "=%d", rc);
}

static void say_n(const char *what, int n, int rc)
{
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    say(what, number, rc);
}

/* --- orders --- */

static int place(struct orders *o, const struct ctx *ctx, struct item item, struct orders_row *rows,
                 int n, struct orders_timing *timing)
{
    int rc = orders_under->place(o, ctx, item, rows, n, timing);
    char users[2048] = "";
    size_t at = 0;
    for (int i = 0; i < n && at < sizeof users - 24; i++) {
        at += (size_t)snprintf(users + at, sizeof users - at, "%s%lld", i ? "," : "",
                               (long long)rows[i].user_id);
        if (rc == 0 && rows[i].user_id == tracing->again_for && tracing->again_times > 0) {
            tracing->again_times--;
            rows[i].outcome = ORDERS_AGAIN;
            rows[i].outbox_id = 0;
        }
    }
    say("place", users, rc);
    return rc;
}

static void say_rows(const char *what, const struct orders_command *rows, int n, int rc)
{
    char users[2048] = "";
    size_t at = 0;
    for (int i = 0; i < n && at < sizeof users - 24; i++)
        at += (size_t)snprintf(users + at, sizeof users - at, "%s%lld:%s", i ? "," : "",
                               (long long)rows[i].user_id,
                               rc < 0 ? "" : orders_command_name(rows[i].outcome));
    say(what, users, rc);
}

static int cancel_orders(struct orders *o, const struct ctx *ctx, struct item item,
                         struct orders_command *rows, int n, bool give_up)
{
    int rc = orders_under->cancel(o, ctx, item, rows, n, give_up);
    say_rows(give_up ? "cancel!" : "cancel", rows, n, rc);
    return rc;
}

static int pay(struct orders *o, const struct ctx *ctx, struct item item,
               struct orders_command *rows, int n, bool give_up)
{
    int rc = orders_under->pay(o, ctx, item, rows, n, give_up);
    say_rows(give_up ? "pay!" : "pay", rows, n, rc);
    return rc;
}

static int parked(struct orders *o, const struct ctx *ctx, int64_t give_up_ms,
                  struct orders_parked *rows, int *n)
{
    int rc = orders_under->parked(o, ctx, give_up_ms, rows, n);
    if (*n > 0 || rc < 0)
        say_n("parked", *n, rc);
    return rc;
}

static int expire(struct orders *o, const struct ctx *ctx, struct item item, int64_t before_ms,
                  int64_t within_ms, struct orders_unsettled *rows, int *n)
{
    int rc = orders_under->expire(o, ctx, item, before_ms, within_ms, rows, n);
    if (*n > 0 || rc < 0)
        say_n("expire", *n, rc);
    return rc;
}

static int mark_settled(struct orders *o, const struct ctx *ctx, const int64_t *ids, int n,
                        bool tell)
{
    int rc = orders_under->mark_settled(o, ctx, ids, n, tell);
    say_n("mark", n, rc);
    return rc;
}

static int unsettled(struct orders *o, const struct ctx *ctx, int64_t min_age_ms,
                     struct orders_unsettled *rows, int *n)
{
    int rc = orders_under->unsettled(o, ctx, min_age_ms, rows, n);
    if (*n > 0 || rc < 0)
        say_n("unsettled", *n, rc);
    return rc;
}

static int inbox(struct orders *o, const struct ctx *ctx, const struct uuid *ids,
                 struct orders_inbox *rows, int n)
{
    int rc = orders_under->inbox(o, ctx, ids, rows, n);
    say_n("inbox", n, rc);
    return rc;
}

static int void_message(struct orders *o, const struct ctx *ctx, struct item item,
                        const struct orders_row *m, enum verdict_reason reason,
                        struct orders_inbox *row)
{
    int rc = orders_under->void_message(o, ctx, item, m, reason, row);
    say_n("void", (int)m->user_id, rc);
    return rc;
}

static int quarantine(struct orders *o, const struct ctx *ctx,
                      const struct orders_dead_letter *letters, int n, bool *settled)
{
    int rc = orders_under->quarantine(o, ctx, letters, n, settled);
    for (int i = 0; i < n; i++)
        say_n("quarantine", (int)letters[i].user_id, rc);
    return rc;
}

static int count_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *ids,
                          const char *kind, int *counts, int n)
{
    int rc = orders_under->count_attempts(o, ctx, ids, kind, counts, n);
    say_n("count", n, rc);
    return rc;
}

static int suspect_begin(struct orders *o, const struct ctx *ctx, const struct uuid *id,
                         struct str life, int *dead_alone)
{
    int rc = orders_under->suspect_begin(o, ctx, id, life, dead_alone);
    say_n("begin", *dead_alone, rc);
    return rc;
}

static int suspect_clear(struct orders *o, const struct ctx *ctx, const struct uuid *ids, int n,
                         struct str life)
{
    int rc = orders_under->suspect_clear(o, ctx, ids, n, life);
    say_n("clear", n, rc);
    return rc;
}

static int probe(struct orders *o, const struct ctx *ctx)
{
    int rc = orders_under->probe(o, ctx);
    say("probe", "", rc);
    return rc;
}

static struct orders_ops orders_traced;

/* --- queue and stock: said when they are asked; what became of it shows in what follows --- */

static void receive(struct queue *q, struct queue_receive *r)
{
    r->max += tracing->surplus;
    queue_under->receive(q, r);
}

static void ack(struct queue *q, struct queue_batch *b)
{
    say_n("ack", b->n, 0);
    queue_under->ack(q, b);
}

static void extend(struct queue *q, struct queue_batch *b)
{
    say_n("extend", b->n, 0);
    queue_under->extend(q, b);
}

static void retry_later(struct queue *q, struct queue_batch *b)
{
    say_n("later", b->n, 0);
    queue_under->retry_later(q, b);
}

static void publish(struct queue *q, struct queue_publish *p)
{
    say_n("publish", (int)p->event->user_id, 0);
    queue_under->publish(q, p);
}

static void lag(struct queue *q, struct queue_lag *l)
{
    tracing->lags++;
    queue_under->lag(q, l);
}

static struct queue_ops queue_traced;

static void settle(struct stock *s, struct stock_settle *r)
{
    say_n("settle", r->n, 0);
    stock_under->settle(s, r);
}

static void progress(struct stock *s, struct stock_settle *r)
{
    say_n("progress", r->n, 0);
    stock_under->progress(s, r);
}

static void claim(struct stock *s, struct stock_claim *r)
{
    say_n("claim", (int)r->user_id, 0);
    stock_under->claim(s, r);
}

static void republished(struct stock *s, struct stock_republished *r)
{
    say_n("note", (int)r->user_id, 0);
    stock_under->republished(s, r);
}

static struct stock_ops stock_traced;

static void trace_ports(struct world *x)
{
    if (!orders_under) {
        orders_under = mem_jobs_orders(x->jobs, 0)->ops;
        orders_traced = *orders_under;
        orders_traced.place = place;
        orders_traced.cancel = cancel_orders;
        orders_traced.pay = pay;
        orders_traced.parked = parked;
        orders_traced.expire = expire;
        orders_traced.mark_settled = mark_settled;
        orders_traced.unsettled = unsettled;
        orders_traced.inbox = inbox;
        orders_traced.void_message = void_message;
        orders_traced.quarantine = quarantine;
        orders_traced.count_attempts = count_attempts;
        orders_traced.suspect_begin = suspect_begin;
        orders_traced.suspect_clear = suspect_clear;
        orders_traced.probe = probe;
        queue_under = x->queue->ops;
        queue_traced = *queue_under;
        queue_traced.receive = receive;
        queue_traced.ack = ack;
        queue_traced.extend = extend;
        queue_traced.retry_later = retry_later;
        queue_traced.publish = publish;
        queue_traced.lag = lag;
        stock_under = x->stock->ops;
        stock_traced = *stock_under;
        stock_traced.settle = settle;
        stock_traced.progress = progress;
        stock_traced.claim = claim;
        stock_traced.republished = republished;
    }
    for (int i = 0; i < x->jobs->threads; i++)
        mem_jobs_orders(x->jobs, i)->ops = &orders_traced;
    x->queue->ops = &queue_traced;
    x->stock->ops = &stock_traced;
}

/* --- the world --- */

static int64_t wall_us(struct worker *w)
{
    return mem_clock_wall_us(w->sched);
}

void world_init(struct world *x, int64_t units)
{
    world_init_on(x, units, (struct mem_broker_config){0});
}

void world_init_on(struct world *x, int64_t units, struct mem_broker_config queue)
{
    *x = (struct world){0};
    sched_init(&x->sched, MEM_CLOCK_START_US);
    queue.sched = &x->sched;
    x->broker = mem_broker_new(&queue);
    x->stock = mem_stock_new(&(struct mem_stock_config){.sched = &x->sched, .stream = x->broker});
    x->buyers = mem_stock_another(x->stock);
    x->db = mem_db_new(&x->sched, 0);
    struct item items[] = {ITEM, ITEM_2};
    for (int i = 0; i < 2; i++) {
        mem_stock_put_item(x->stock, items[i], units);
        mem_db_put_item(x->db, items[i], units, 1);
    }
    x->results = mem_results_new(&x->sched);
    strbuf_init(&x->trace, 1 << 20);
    tracing = x;
    x->cfg = worker_defaults();
}

void world_start_now(struct world *x)
{
    struct worker *w = calloc(1, sizeof *w);
    char name[32];
    snprintf(name, sizeof name, "life-%d", ++x->lives);
    /* The fake's own bound must not hide the worker's. */
    x->queue = mem_queue_new(x->broker, name, x->cfg.workers + x->cfg.queue + x->surplus);
    x->jobs = mem_jobs_new(x->db, &x->sched, 3, 16);
    trace_ports(x);
    w->cfg = x->cfg;
    w->sched = &x->sched;
    w->wall_us = wall_us;
    w->queue = x->queue;
    w->stock = x->stock;
    w->jobs = x->jobs;
    if (x->cfg.results_batch > 0) {
        x->upkeep = mem_jobs_new(x->db, &x->sched, 1, 1);
        w->results = x->results;
        w->upkeep = x->upkeep;
    }
    snprintf(w->life, sizeof w->life, "%s", name);
    x->w = w;
    worker_init(w);
    rng_init_seed(&w->rng, (uint64_t)x->lives); /* the same sequence in each run */
    worker_start(w);
}

void world_start(struct world *x)
{
    world_start_now(x);
    /* The items are known and the first receive is at the broker. */
    world_run(x, 10 * MS);
}

static void on_idle(struct worker *w)
{
    (void)w;
    tracing->idle = true;
}

static void end(struct world *x)
{
    worker_deinit(x->w);
    free(x->w);
    x->w = NULL;
    mem_jobs_free(x->jobs);
    if (x->upkeep)
        mem_jobs_free(x->upkeep);
    x->upkeep = NULL;
    mem_queue_free(x->queue);
    x->queue = NULL;
}

void world_stop(struct world *x)
{
    x->idle = false;
    worker_stop(x->w, on_idle);
    assert_true(mem_clock_run_while(&x->sched, &x->idle, x->sched.now_us + 30 * S));
    end(x);
}

void world_die(struct world *x)
{
    for (int op = 0; op < MEM_QUEUE_OPS; op++) {
        if (op != MEM_QUEUE_RECEIVE)
            mem_faults_add(mem_queue_faults(x->queue), op, 0, MEM_FAULT_REQUEST_LOST, 0);
    }
    for (int op = 0; op < MEM_STOCK_OPS; op++)
        mem_faults_add(mem_stock_faults(x->stock), op, 0, MEM_FAULT_REQUEST_LOST, 0);
    for (int op = 0; op < MEM_ORDERS_OPS; op++)
        mem_jobs_fault_all(x->jobs, op, 0, MEM_FAULT_REQUEST_LOST, 0);
    for (int op = 0; x->upkeep && op < MEM_ORDERS_OPS; op++)
        mem_jobs_fault_all(x->upkeep, op, 0, MEM_FAULT_REQUEST_LOST, 0);
    mem_faults_add(mem_results_faults(x->results), MEM_RESULTS_PUBLISH, 0, MEM_FAULT_REQUEST_LOST,
                   0);
    x->idle = false;
    worker_stop(x->w, on_idle);
    worker_cancel(x->w);
    assert_true(mem_clock_run_while(&x->sched, &x->idle, x->sched.now_us + 2 * S));
    end(x);
    mem_faults_clear(mem_stock_faults(x->stock), -1);
    mem_faults_clear(mem_results_faults(x->results), -1);
}

void world_deinit(struct world *x)
{
    assert_null(x->w);
    mem_results_free(x->results);
    mem_stock_free(x->buyers);
    mem_stock_free(x->stock);
    mem_broker_free(x->broker);
    mem_db_free(x->db);
    sched_deinit(&x->sched);
    strbuf_deinit(&x->trace);
}

/* In steps, so that the bound is looked at all the time. */
void world_run(struct world *x, int64_t us)
{
    int64_t until = x->sched.now_us + us;
    while (x->sched.now_us < until) {
        int64_t next = sched_next_us(&x->sched);
        mem_clock_run_until(&x->sched, next < until ? next : until);
        if (!x->w)
            continue;
        struct hand *h = &x->w->hand;
        assert_true(h->used + h->reserved <= x->cfg.workers + x->cfg.queue);
        x->most_in_hand = h->used > x->most_in_hand ? h->used : x->most_in_hand;
    }
}

/* --- buyers and their events --- */

static void ids_of(struct item item, int64_t user, struct uuid *request, struct uuid *reservation,
                   struct uuid *message)
{
    struct uuid u = {{0}};
    u.b[0] = (uint8_t)item.sku_id;
    for (int i = 0; i < 8; i++)
        u.b[15 - i] = (uint8_t)(user >> (8 * i));
    *request = *reservation = *message = u;
    request->b[1] = 1;
    reservation->b[1] = 2;
    message->b[1] = 3;
}

struct reserving {
    struct stock_reserve op;
    bool done;
};

static void on_reserved(struct op *op, int rc)
{
    assert_int_equal(rc, STOCK_CREATED);
    container_of(op, struct reserving, op.op)->done = true;
}

int64_t world_order_id(struct item item, int64_t user)
{
    return item.sku_id * 1000000 + user;
}

void world_reserve(struct world *x, struct item item, int64_t user)
{
    struct reserving r = {.op = {.op = {on_reserved, x->sched.now_us + S},
                                 .item = item,
                                 .user_id = user,
                                 .order_id = world_order_id(item, user),
                                 .created_at_us = mem_clock_wall_us(&x->sched),
                                 .traceparent = STR(""),
                                 .tracestate = STR(""),
                                 .give_up_us = x->sched.now_us + S}};
    ids_of(item, user, &r.op.request_id, &r.op.reservation_id, &r.op.message_id);
    x->buyers->ops->reserve(x->buyers, &r.op);
    while (!r.done)
        world_run(x, 100);
}

void world_buy(struct world *x, struct item item, int64_t user)
{
    world_reserve(x, item, user);
    world_run(x, 500 * MS);
    assert_string_equal(world_state(x, item, user), "SUCCEEDED");
    world_trace(x);
}

struct event world_event(struct world *x, struct item item, int64_t user)
{
    struct event e = {.item = item,
                      .user_id = user,
                      .order_id = world_order_id(item, user),
                      .created_at_us = mem_clock_wall_us(&x->sched),
                      .schema_version = EVENT_SCHEMA_VERSION,
                      .version = {1, user},
                      .traceparent = STR(""),
                      .tracestate = STR("")};
    ids_of(item, user, &e.request_id, &e.reservation_id, &e.message_id);
    return e;
}

void world_post(struct world *x, struct item item, int64_t user)
{
    struct event e = world_event(x, item, user);
    struct strbuf b;
    strbuf_init(&b, EVENT_MAX_BYTES);
    event_encode(&e, false, &b);
    mem_broker_append(x->broker, item, strbuf_str(&b), NULL);
    strbuf_deinit(&b);
}

/* Its body, in b (to be deinited); its message_id. */
static struct uuid command_body(struct world *x, struct item item, int64_t user,
                                enum event_command command, struct strbuf *b)
{
    struct event e = world_event(x, item, user);
    char payment[32];
    e.schema_version = EVENT_SCHEMA_COMMAND;
    e.command = command;
    e.message_id = event_cancel_id(&e.reservation_id);
    if (command == EVENT_PAY) {
        snprintf(payment, sizeof payment, "pay-%lld-%lld", (long long)item.sku_id, (long long)user);
        e.payment_id = str_of(payment);
        e.accepted_at_ms = mem_clock_wall_ms(&x->sched);
        e.message_id = event_pay_id(e.payment_id);
    }
    strbuf_init(b, EVENT_MAX_BYTES);
    event_encode(&e, false, b);
    return e.message_id;
}

void world_command(struct world *x, struct item item, int64_t user, enum event_command command)
{
    struct strbuf b;
    command_body(x, item, user, command, &b);
    mem_broker_append(x->broker, item, strbuf_str(&b), NULL);
    strbuf_deinit(&b);
}

struct remembering {
    struct stock_remember op;
    bool done;
};

static void on_remembered(struct op *op, int rc)
{
    assert_int_equal(rc, 0);
    container_of(op, struct remembering, op.op)->done = true;
}

static void remember(struct world *x, struct item item, struct uuid message_id, struct str body)
{
    struct remembering r = {.op = {.op = {on_remembered, x->sched.now_us + S},
                                   .item = item,
                                   .message_id = message_id,
                                   .body = body,
                                   .most = 1000}};
    x->buyers->ops->remember(x->buyers, &r.op);
    while (!r.done)
        world_run(x, 100);
}

void world_accepted(struct world *x, struct item item, int64_t user, enum event_command command)
{
    struct strbuf b;
    struct uuid message_id = command_body(x, item, user, command, &b);
    remember(x, item, message_id, strbuf_str(&b));
    strbuf_deinit(&b);
}

void world_remember(struct world *x, struct item item, struct str body)
{
    remember(x, item, world_message_id(x, item, 1), body);
}

void world_post_again(struct world *x, struct item item, int64_t user)
{
    for (int i = 0;; i++) {
        struct str body = mem_broker_body(x->broker, item, i);
        struct event e = {0};
        const char *why;
        assert_non_null(body.ptr);
        if (event_decode(body, &e, &why) < 0 || e.user_id != user)
            continue;
        char copy[EVENT_MAX_BYTES];
        memcpy(copy, body.ptr, body.len);
        mem_broker_append(x->broker, item, (struct str){copy, body.len}, NULL);
        return;
    }
}

struct uuid world_message_id(struct world *x, struct item item, int64_t user)
{
    struct uuid a, b, message;
    (void)x;
    ids_of(item, user, &a, &b, &message);
    return message;
}

const char *world_state(struct world *x, struct item item, int64_t user)
{
    static char text[64];
    struct uuid request, b, c;
    ids_of(item, user, &request, &b, &c);
    const struct reservation *r = mem_stock_find(x->stock, item, user, &request);
    if (!r)
        return "NONE";
    struct str reason = verdict_reason_name(r->verdict.reason);
    snprintf(text, sizeof text, STR_FMT "%s" STR_FMT, STR_ARG(verdict_state_name(r->verdict.state)),
             reason.len ? "/" : "", STR_ARG(reason));
    return text;
}

const char *world_trace(struct world *x)
{
    static char text[1 << 16];
    assert_true(x->trace.len < sizeof text);
    if (x->trace.len)
        memcpy(text, x->trace.ptr, x->trace.len);
    text[x->trace.len] = 0;
    strbuf_clear(&x->trace);
    return text;
}

void world_assert_clean(struct world *x)
{
    const char *wrong = mem_db_audit(x->db);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(mem_db_unsettled(x->db), 0);
    struct item items[] = {ITEM, ITEM_2};
    for (int i = 0; i < 2; i++) {
        struct stock_item_info info;
        assert_int_equal(mem_broker_unacked(x->broker, items[i]), 0);
        assert_true(mem_stock_info(x->stock, items[i], &info));
        assert_int_equal(info.pending, 0);
        assert_true(info.free >= 0);
        assert_int_equal(info.free + mem_db_active_orders(x->db, items[i]), info.total);
    }
    if (x->w)
        assert_int_equal(x->w->hand.used, 0);
}

void world_end_clean(struct world *x)
{
    world_run(x, 2 * S);
    world_assert_clean(x);
    world_stop(x);
    world_deinit(x);
}

static void on_doomed(struct op *op, int rc)
{
    (void)op;
    assert_int_equal(rc, 0);
}

void world_deliver_in_vain(struct world *x, int times)
{
    for (int i = 0; i < times; i++) {
        struct queue *q = mem_queue_new(x->broker, "doomed", 1000);
        struct item items[] = {ITEM, ITEM_2};
        struct queue_receive r = {.max = 256, .op = {on_doomed, x->sched.now_us + S}};
        q->ops->set_items(q, items, 2);
        q->ops->receive(q, &r);
        mem_clock_run_for(&x->sched, 10 * MS);
        assert_true(r.n > 0);
        while (!list_empty(&r.messages))
            q->ops->release(q,
                            container_of(list_pop_front(&r.messages), struct queue_message, link));
        mem_queue_free(q);
        mem_broker_expire_all(x->broker);
    }
}
