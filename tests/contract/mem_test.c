/* The fakes' own part: scripted faults, and the order function's outcomes (rules 16–19, 25). */
#include "adapter/mem/mem_jobs.h"
#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_stock.h"

#include "base/err.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000

static const struct item item = {1, 2}, other_item = {1, 3};
static struct sched clock_;

static int setup(void **state)
{
    (void)state;
    sched_init(&clock_, MEM_CLOCK_START_US);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sched_deinit(&clock_);
    return 0;
}

static struct uuid id(int kind, int n)
{
    return (struct uuid){{(uint8_t)kind, [6] = 0x70, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n}};
}

struct reserving {
    struct stock_reserve r;
    int done, rc;
};

static void on_reserved(struct op *op, int rc)
{
    struct reserving *x = container_of(op, struct reserving, r.op);
    x->done++;
    x->rc = rc;
}

static void reserve(struct stock *s, struct reserving *x, int user, int64_t within_us)
{
    *x = (struct reserving){.r = {.op = {on_reserved, clock_.now_us + within_us},
                                  .item = item,
                                  .user_id = user,
                                  .order_id = user,
                                  .request_id = id(1, user),
                                  .reservation_id = id(2, user),
                                  .message_id = id(3, user),
                                  .traceparent = STR(""),
                                  .tracestate = STR(""),
                                  .give_up_us = clock_.now_us + within_us}};
    s->ops->reserve(s, &x->r);
    assert_int_equal(x->done, 0);
}

static void stock_faults(void **state)
{
    (void)state;
    static const struct {
        enum mem_fault_kind kind;
        int64_t delay_us;
        int rc;
        bool done;
        int64_t told_after_us;
    } table[] = {
        {MEM_FAULT_NONE, 0, STOCK_CREATED, true, 1 * MS},
        {MEM_FAULT_NOT_DONE, 0, ERR_UNAVAIL, false, 1 * MS},
        {MEM_FAULT_ANSWER, ERR_OVERLOAD, ERR_OVERLOAD, false, 1 * MS},
        {MEM_FAULT_REPLY_LOST, 0, ERR_UNCERTAIN, true, 1 * MS},
        {MEM_FAULT_REQUEST_LOST, 0, ERR_UNCERTAIN, false, 1 * MS},
        {MEM_FAULT_REPLY_LATE, 5 * MS, STOCK_CREATED, true, 6 * MS},
        {MEM_FAULT_REPLY_LATE, 500 * MS, ERR_UNCERTAIN, true, 20 * MS},
        {MEM_FAULT_HELD_BACK, 5 * MS, STOCK_CREATED, true, 6 * MS},
        {MEM_FAULT_HELD_BACK, 500 * MS, ERR_UNCERTAIN, false,
         20 * MS}, /* scenario 21: arrives too late (rule 15) */
        {MEM_FAULT_TWICE, 0, STOCK_REPLAY, true, 1 * MS},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct stock *s = mem_stock_new(&(struct mem_stock_config){.sched = &clock_});
        struct reserving x;
        struct stock_item_info info;
        mem_stock_put_item(s, item, 5);
        mem_faults_add(mem_stock_faults(s), MEM_STOCK_RESERVE, 2, table[i].kind, table[i].delay_us);
        reserve(s, &x, 1, 20 * MS); /* the first is left alone */
        assert_true(mem_clock_run_idle(&clock_, INT64_MAX - 1));
        assert_int_equal(x.rc, STOCK_CREATED);
        int64_t began = clock_.now_us;
        reserve(s, &x, 2, 20 * MS);
        while (!x.done)
            sched_run(&clock_, sched_next_us(&clock_));
        assert_int_equal(clock_.now_us - began, table[i].told_after_us);
        assert_int_equal(x.rc, table[i].rc);
        assert_true(mem_clock_run_idle(&clock_, INT64_MAX - 1));
        assert_int_equal(x.done, 1);
        assert_true(mem_stock_info(s, item, &info));
        assert_int_equal(info.free, table[i].done ? 3 : 4);
        assert_int_equal(info.free + mem_stock_units_held(s, item), 5);
        assert_int_equal(mem_stock_faults(s)->calls[MEM_STOCK_RESERVE], 2);
        mem_stock_free(s);
    }
}

static void every_call_until_cleared(void **state)
{
    (void)state;
    struct stock *s = mem_stock_new(&(struct mem_stock_config){.sched = &clock_});
    struct stock *t = mem_stock_another(s);
    struct reserving x;
    mem_stock_put_item(s, item, 5);
    mem_faults_add(mem_stock_faults(s), MEM_STOCK_RESERVE, 0, MEM_FAULT_NOT_DONE, 0);
    for (int i = 0; i < 3; i++) {
        reserve(s, &x, i + 1, 20 * MS);
        mem_clock_run_idle(&clock_, INT64_MAX - 1);
        assert_int_equal(x.rc, ERR_UNAVAIL);
    }
    reserve(t, &x, 1, 20 * MS); /* another process has its own link */
    mem_clock_run_idle(&clock_, INT64_MAX - 1);
    assert_int_equal(x.rc, STOCK_CREATED);
    mem_faults_clear(mem_stock_faults(s), -1);
    reserve(s, &x, 1, 20 * MS);
    mem_clock_run_idle(&clock_, INT64_MAX - 1);
    assert_int_equal(x.rc, STOCK_REPLAY);
    reserve(s, &x, 4, 0); /* no time left: not sent */
    mem_clock_run_idle(&clock_, INT64_MAX - 1);
    assert_int_equal(x.rc, ERR_DEADLINE);
    reserve(s, &x, 5, 20 * MS);
    mem_stock_free(s);
    assert_int_equal(x.done, 1); /* the end of the port completes it */
    assert_int_equal(x.rc, ERR_CANCELED);
    mem_stock_free(t);
}

struct receiving {
    struct queue_receive r;
    int done, rc;
};

static void on_received(struct op *op, int rc)
{
    struct receiving *x = container_of(op, struct receiving, r.op);
    x->done++;
    x->rc = rc;
}

static int receive(struct queue *q, struct receiving *x, int64_t within_us)
{
    *x = (struct receiving){.r = {.op = {on_received, clock_.now_us + within_us}, .max = 8}};
    q->ops->receive(q, &x->r);
    while (!x->done)
        sched_run(&clock_, sched_next_us(&clock_));
    for (struct list *l; (l = list_pop_front(&x->r.messages));)
        q->ops->release(q, container_of(l, struct queue_message, link));
    return x->rc;
}

static void queue_faults(void **state)
{
    (void)state;
    struct mem_broker *b =
        mem_broker_new(&(struct mem_broker_config){.sched = &clock_, .lease_us = 1000 * MS});
    struct queue *q = mem_queue_new(b, "a", 8);
    struct receiving x;
    q->ops->set_items(q, &item, 1);
    mem_broker_append(b, item, STR("{}"), NULL);
    mem_faults_add(mem_queue_faults(q), MEM_QUEUE_RECEIVE, 1, MEM_FAULT_NOT_DONE, 0);
    mem_faults_add(mem_queue_faults(q), MEM_QUEUE_RECEIVE, 2, MEM_FAULT_REPLY_LOST, 0);
    mem_faults_add(mem_queue_faults(q), MEM_QUEUE_RECEIVE, 3, MEM_FAULT_TWICE, 0);
    assert_int_equal(receive(q, &x, 10 * MS), ERR_UNAVAIL);
    assert_int_equal(receive(q, &x, 10 * MS),
                     ERR_UNCERTAIN); /* leased to us, and we do not know it */
    assert_int_equal(x.r.n, 0);
    int64_t began = clock_.now_us;
    assert_int_equal(receive(q, &x, 5000 * MS), 0);
    assert_int_equal(x.r.n, 1);
    assert_true(clock_.now_us - began > 900 * MS);
    assert_int_equal(receive(q, &x, 5000 * MS),
                     0); /* a duplicate delivery, without its lease having ended for us */
    assert_int_equal(x.r.n, 1);
    assert_true(clock_.now_us - began < 1100 * MS);
    assert_int_equal(mem_broker_unacked(b, item), 1);
    mem_queue_free(q);
    mem_broker_free(b);
}

static struct ctx within(int64_t us)
{
    struct ctx c;
    ctx_init(&c, NULL, clock_.now_us + us);
    return c;
}

static struct orders_row row(int n, int user, int request, int64_t seq)
{
    return (struct orders_row){.message_id = id(3, n),
                               .request_id = id(1, request),
                               .reservation_id = id(2, n),
                               .user_id = user,
                               .order_id = n,
                               .version = {1, seq}};
}

static int place(struct orders *o, struct item at, struct orders_row *rows, int n)
{
    struct ctx c = within(1000 * MS);
    return o->ops->place(o, &c, at, rows, n, NULL);
}

static void order_outcomes(void **state)
{
    (void)state;
    struct mem_db *db = mem_db_new(&clock_, 0);
    struct orders *o = mem_orders_new(db);
    mem_db_put_item(db, item, 3, 1);
    mem_db_put_item(db, other_item, 3, 1);
    /* Rule 18: too few: the last by seq go without, whatever the order of the batch. */
    struct orders_row batch[] = {row(14, 4, 4, 9), row(11, 1, 1, 1), row(12, 2, 2, 2),
                                 row(13, 3, 3, 3), row(11, 1, 1, 1)};
    assert_int_equal(place(o, item, batch, 5), 0);
    assert_int_equal(batch[0].outcome, ORDERS_REJECTED);
    assert_int_equal(batch[0].verdict.state, VERDICT_SOLD_OUT);
    assert_int_equal(batch[0].verdict.reason, REASON_PG_STOCK_EXHAUSTED);
    assert_false(batch[0].give_back); /* rule 4 */
    for (int i = 1; i < 4; i++) {
        assert_int_equal(batch[i].outcome, ORDERS_CREATED);
        assert_true(batch[i].outbox_id > 0);
    }
    assert_int_equal(batch[4].outcome, ORDERS_KNOWN); /* twice in one batch is fine */
    assert_int_equal(batch[4].verdict.state, VERDICT_SUCCEEDED);
    for (int i = 0; i < 100; i++) { /* delivered a hundred times: nothing changes */
        struct orders_row again = row(14, 4, 4, 9);
        assert_int_equal(place(o, item, &again, 1), 0);
        assert_int_equal(again.outcome, ORDERS_KNOWN);
        assert_int_equal(again.verdict.reason, REASON_PG_STOCK_EXHAUSTED);
        assert_int_equal(again.outbox_id, 0);
    }
    assert_int_equal(mem_db_sold(db, item), 3);
    assert_int_equal(mem_db_unsettled(db), 4);
    /* Rule 19, in its order. */
    struct orders_row same = row(21, 1, 1, 20);
    same.reservation_id = id(2, 11);
    assert_int_equal(place(o, item, &same, 1), 0);
    assert_int_equal(same.outcome, ORDERS_KNOWN);
    assert_int_equal(same.verdict.state, VERDICT_SUCCEEDED);
    assert_false(same.give_back);
    struct orders_row key = row(22, 1, 1, 21);
    assert_int_equal(place(o, item, &key, 1), 0);
    assert_int_equal(key.verdict.state, VERDICT_SUCCEEDED);
    assert_true(key.give_back);
    assert_int_equal(key.other_order_id, 11);
    struct orders_row reused = row(23, 1, 1, 22);
    assert_int_equal(place(o, other_item, &reused, 1), 0);
    assert_int_equal(reused.verdict.reason, REASON_IDEMPOTENCY_KEY_REUSED);
    assert_true(reused.give_back);
    struct orders_row second = row(24, 1, 9, 23);
    assert_int_equal(place(o, item, &second, 1), 0);
    assert_int_equal(second.verdict.reason, REASON_ONE_USER_ONE_ORDER);
    assert_int_equal(second.other_order_id, 11);
    assert_true(second.give_back);
    struct orders_row collision = row(25, 7, 7, 24);
    collision.order_id = 11;
    assert_int_equal(place(o, other_item, &collision, 1), 0);
    assert_int_equal(collision.verdict.reason, REASON_ID_COLLISION);
    assert_null(mem_db_audit(db));
    /* Cancelled, and bought again by the same user. */
    assert_int_equal(mem_db_cancel(db, 11, REASON_CANCELLED), 0);
    assert_int_equal(mem_db_cancel(db, 11, REASON_EXPIRED), 1);
    assert_int_equal(mem_db_sold(db, item), 2);
    struct orders_row bought = row(26, 1, 10, 25);
    assert_int_equal(place(o, item, &bought, 1), 0);
    assert_int_equal(bought.outcome, ORDERS_CREATED);
    assert_null(mem_db_audit(db));
    /* Rule 21: the probe. */
    assert_int_equal(place(o, item, NULL, 0), 0);
    mem_orders_free(o);
    mem_db_free(db);
}

static void tombstones_and_quarantine(void **state)
{
    (void)state;
    struct mem_db *db = mem_db_new(&clock_, 0);
    struct orders *o = mem_orders_new(db);
    struct ctx c = within(1000 * MS);
    struct orders_inbox in;
    int counts[1], alone;
    mem_db_put_item(db, item, 3, 1);
    /* Order and void exclude each other (rule 25, scenario 17). */
    struct orders_row r = row(1, 1, 1, 1);
    assert_int_equal(o->ops->void_message(o, &c, item, &r, REASON_VOID, &in), 0);
    assert_int_equal(place(o, item, &r, 1), 0);
    assert_int_equal(r.outcome, ORDERS_KNOWN);
    assert_int_equal(r.verdict.reason, REASON_VOID);
    assert_true(r.give_back);
    r = row(2, 2, 2, 2);
    assert_int_equal(place(o, item, &r, 1), 0);
    assert_int_equal(o->ops->void_message(o, &c, item, &r, REASON_VOID, &in), 1);
    assert_string_equal(in.status, "COMPLETED");
    assert_int_equal(in.verdict.state, VERDICT_SUCCEEDED);
    /* A message's own failure harms its batch only as long as it is in it. */
    struct orders_row bad[] = {row(3, 3, 3, 3), row(4, 4, 4, 4)};
    mem_db_poison(db, &bad[1].message_id, ERR_INVALID);
    assert_int_equal(place(o, item, bad, 2), ERR_INVALID);
    assert_int_equal(mem_db_sold(db, item), 1);
    assert_int_equal(place(o, item, bad, 1), 0);
    for (int i = 1; i <= 8; i++) {
        assert_int_equal(o->ops->count_attempts(o, &c, &bad[1].message_id, "INVALID", counts, 1),
                         0);
        assert_int_equal(counts[0], i);
    }
    struct orders_dead_letter dl = {.decoded = true,
                                    .message_id = bad[1].message_id,
                                    .user_id = 4,
                                    .item = item,
                                    .broker_id = STR("7-1"),
                                    .body = STR("x"),
                                    .reason = STR("attempts")};
    bool settled;
    assert_int_equal(o->ops->quarantine(o, &c, &dl, 1, &settled), 0);
    assert_int_equal(settled, 0);
    assert_int_equal(o->ops->quarantine(o, &c, &dl, 1, &settled), 0);
    assert_int_equal(settled, 0);
    assert_int_equal(mem_db_dead_letters(db), 1);
    mem_db_poison(db, &bad[1].message_id, 0);
    assert_int_equal(place(o, item, &bad[1], 1), 0);
    assert_int_equal(bad[1].outcome, ORDERS_QUARANTINED);
    mem_db_replay(db, &bad[1].message_id);
    assert_int_equal(place(o, item, &bad[1], 1), 0);
    assert_int_equal(bad[1].outcome, ORDERS_CREATED);
    assert_int_equal(o->ops->quarantine(o, &c, &dl, 1, &settled), 0);
    assert_int_equal(settled, 1); /* settled before: just ack */
    /* Rule 24: no message_id. */
    dl = (struct orders_dead_letter){
        .broker_id = STR("9-1"), .body = STR("?"), .reason = STR("undecodable")};
    assert_int_equal(o->ops->quarantine(o, &c, &dl, 1, &settled), 0);
    assert_int_equal(settled, 0);
    assert_int_equal(o->ops->quarantine(o, &c, &dl, 1, &settled), 0);
    assert_int_equal(settled, 0);
    assert_int_equal(mem_db_dead_letters(db), 2);
    /* Rule 23: lives that ended without clearing their mark. */
    struct uuid suspect = id(3, 9);
    int64_t fleet = -1;
    assert_int_equal(o->ops->beat(o, &c, STR("one"), 0, &fleet), 0);
    assert_int_equal(fleet, 0);
    assert_int_equal(o->ops->suspect_begin(o, &c, &suspect, STR("one"), &alone), 0);
    assert_int_equal(alone, 0);
    assert_int_equal(o->ops->suspect_begin(o, &c, &suspect, STR("two"), &alone), 0);
    assert_int_equal(alone, 0); /* the first still lives */
    mem_clock_run_for(&clock_, 11000 * MS);
    mem_orders_take_us(o);
    c = within(1000 * MS);
    assert_int_equal(o->ops->suspect_begin(o, &c, &suspect, STR("three"), &alone), 0);
    assert_int_equal(alone, 2);
    assert_int_equal(o->ops->suspect_clear(o, &c, &suspect, 1, STR("one")), 0);
    assert_int_equal(o->ops->suspect_begin(o, &c, &suspect, STR("three"), &alone), 0);
    assert_int_equal(alone, 1);
    assert_null(mem_db_audit(db));
    mem_orders_free(o);
    mem_db_free(db);
}

static void orders_faults(void **state)
{
    (void)state;
    struct mem_db *db = mem_db_new(&clock_, 2 * MS);
    struct orders *o = mem_orders_new(db);
    struct mem_faults *f = mem_orders_faults(o);
    struct ctx c = within(100 * MS);
    struct orders_row r = row(1, 1, 1, 1);
    mem_db_put_item(db, item, 9, 1);
    mem_faults_add(f, MEM_ORDERS_PLACE, 1, MEM_FAULT_NOT_DONE, 0);
    mem_faults_add(f, MEM_ORDERS_PLACE, 2, MEM_FAULT_ANSWER, ERR_CONFLICT);
    mem_faults_add(f, MEM_ORDERS_PLACE, 3, MEM_FAULT_REPLY_LOST, 0);
    mem_faults_add(f, MEM_ORDERS_PLACE, 5, MEM_FAULT_REPLY_LATE, 500 * MS);
    assert_int_equal(o->ops->place(o, &c, item, &r, 1, NULL), ERR_UNAVAIL);
    assert_int_equal(o->ops->place(o, &c, item, &r, 1, NULL), ERR_CONFLICT);
    assert_int_equal(mem_db_sold(db, item), 0);
    assert_int_equal(o->ops->place(o, &c, item, &r, 1, NULL), ERR_UNCERTAIN);
    assert_int_equal(mem_db_sold(db, item), 1);
    assert_int_equal(o->ops->place(o, &c, item, &r, 1, NULL),
                     0); /* the same ids: the inbox decides */
    assert_int_equal(r.outcome, ORDERS_KNOWN);
    assert_int_equal(mem_orders_take_us(o), 8 * MS);
    r = row(2, 2, 2, 2);
    assert_int_equal(o->ops->place(o, &c, item, &r, 1, NULL), ERR_UNCERTAIN);
    assert_int_equal(mem_orders_take_us(o), 100 * MS); /* the whole of its time */
    assert_int_equal(mem_db_sold(db, item), 2);
    mem_clock_run_for(&clock_, 100 * MS);
    assert_int_equal(o->ops->place(o, &c, item, &r, 1, NULL), ERR_DEADLINE);
    mem_orders_free(o);
    mem_db_free(db);
}

struct probing {
    struct job j;
    int rc, ended;
};

static void run_probe(struct job *j, struct orders *o)
{
    struct ctx c = within(1000 * MS);
    container_of(j, struct probing, j)->rc = o->ops->probe(o, &c);
}

static void on_probed(struct job *j)
{
    container_of(j, struct probing, j)->ended++;
}

static void jobs_take_virtual_time(void **state)
{
    (void)state;
    struct mem_db *db = mem_db_new(&clock_, 10 * MS);
    struct jobs *jobs = mem_jobs_new(db, &clock_, 2, 1);
    struct probing p[4];
    int64_t began = clock_.now_us;
    for (int i = 0; i < 4; i++) {
        p[i] = (struct probing){.j = {run_probe, on_probed}};
        /* Two run, one waits, the fourth is refused. */
        assert_int_equal(jobs->ops->submit(jobs, &p[i].j), i < 3 ? 0 : ERR_OVERLOAD);
        assert_int_equal(p[i].ended, 0);
    }
    mem_clock_run_until(&clock_, began + 10 * MS);
    assert_int_equal(p[0].ended + p[1].ended, 2);
    assert_int_equal(p[2].ended, 0);
    assert_true(mem_clock_run_idle(&clock_, INT64_MAX - 1));
    assert_int_equal(p[2].ended, 1);
    assert_int_equal(clock_.now_us - began, 20 * MS);
    mem_jobs_free(jobs);
    mem_db_free(db);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(stock_faults),           T(every_call_until_cleared),  T(queue_faults),
        T(order_outcomes),         T(tombstones_and_quarantine), T(orders_faults),
        T(jobs_take_virtual_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
