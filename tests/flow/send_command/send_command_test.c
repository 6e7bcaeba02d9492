/* Cancels and payments on their way to the queue: 202 only when it accepted, 503 when it certainly
 * did not, 504 when nobody knows (rule 27); nothing is published for what is over or unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_stock.h"
#include "app/send_command.h"
#include "base/log.h"
#include <stdio.h>

#define MS INT64_C(1000)
#define ITEM ((struct item){1001, 2001})
#define ORDER 77

struct world {
    struct sched sched;
    struct mem_broker *broker;
    struct stock *stock;
    struct queue *queue;
    struct send_pool pool;
    int answers, idles;
    struct send_answer last;
};

static void on_answer(struct send_pool *p, void *viewer, const struct send_answer *a)
{
    struct world *x = container_of(p, struct world, pool);
    assert_ptr_equal(viewer, x);
    x->answers++;
    x->last = *a;
}

static void on_idle(struct send_pool *p)
{
    container_of(p, struct world, pool)->idles++;
}

static void on_done(struct op *op, int rc)
{
    (void)op;
    assert_true(rc >= 0);
}

static struct uuid id(unsigned n)
{
    struct uuid u = {{0}};
    u.b[0] = (uint8_t)n;
    u.b[15] = 1;
    return u;
}

static void begin(struct world *x)
{
    *x = (struct world){0};
    sched_init(&x->sched, MEM_CLOCK_START_US);
    x->broker = mem_broker_new(&(struct mem_broker_config){.sched = &x->sched});
    x->stock = mem_stock_new(&(struct mem_stock_config){.sched = &x->sched});
    x->queue = mem_queue_new(x->broker, "api", 1);
    mem_stock_put_item(x->stock, ITEM, 10);
    x->pool = (struct send_pool){.label = "cancel",
                                 .stock = x->stock,
                                 .queue = x->queue,
                                 .sched = &x->sched,
                                 .budget_us = 500 * MS,
                                 .store_us = 60 * MS,
                                 .most = 2,
                                 .on_answer = on_answer,
                                 .on_idle = on_idle};
    assert_int_equal(send_pool_init(&x->pool, 2), 0);
    struct stock_reserve r = {.op = {on_done, x->sched.now_us + 1000 * MS},
                              .item = ITEM,
                              .user_id = 7,
                              .order_id = ORDER,
                              .request_id = id(1),
                              .reservation_id = id(2),
                              .message_id = id(3),
                              .created_at_us = mem_clock_wall_us(&x->sched),
                              .traceparent = STR(""),
                              .tracestate = STR(""),
                              .give_up_us = x->sched.now_us + 1000 * MS};
    x->stock->ops->reserve(x->stock, &r);
    mem_clock_run_for(&x->sched, 100 * MS);
}

static void end(struct world *x)
{
    mem_queue_free(x->queue);
    mem_broker_free(x->broker);
    mem_stock_free(x->stock);
    send_pool_deinit(&x->pool);
    sched_deinit(&x->sched);
}

static struct send_request request(const struct world *x, enum event_command c)
{
    struct send_request q = {.command = c,
                             .item = ITEM,
                             .user_id = 7,
                             .request_id = id(1),
                             .payment_id = STR(""),
                             .received_us = x->sched.now_us,
                             .wall_us = mem_clock_wall_us(&x->sched)};
    if (c == EVENT_PAY) {
        q.payment_id = STR("pay_1");
        q.order_id = ORDER;
    }
    return q;
}

static enum answer ask(struct world *x, const struct send_request *q)
{
    struct send_command *s = NULL;
    struct send_request now = *q;
    int before = x->answers;
    now.received_us = x->sched.now_us;
    assert_int_equal(send_command_submit(&x->pool, &now, x, &s), 0);
    assert_int_equal(x->answers, before); /* never inside the call */
    mem_clock_run_for(&x->sched, 2000 * MS);
    assert_int_equal(x->answers, before + 1);
    assert_int_equal(send_pool_busy(&x->pool), 0);
    return x->last.answer;
}

static int published(struct world *x, struct event *e)
{
    const char *why;
    int n = 0;
    for (struct str body; (body = mem_broker_body(x->broker, ITEM, n)).ptr; n++)
        assert_int_equal(event_decode(body, e, &why), 0);
    return n;
}

static void settle(struct world *x, enum verdict_reason reason)
{
    struct stock_settle_row row = {.user_id = 7,
                                   .request_id = id(1),
                                   .reservation_id = id(2),
                                   .verdict = verdict_of_reason(reason),
                                   .give_back = reason != REASON_NONE};
    struct stock_settle s = {
        .op = {on_done, x->sched.now_us + 1000 * MS}, .item = ITEM, .rows = &row, .n = 1};
    x->stock->ops->settle(x->stock, &s);
    mem_clock_run_for(&x->sched, 100 * MS);
}

static void test_a_cancel(void **state)
{
    (void)state;
    struct world x;
    struct event e;
    begin(&x);
    struct send_request q = request(&x, EVENT_CANCEL);
    q.traceparent = STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_int_equal(ask(&x, &q), ANSWER_ACCEPTED);
    assert_int_equal(x.last.verdict.state, VERDICT_QUEUED);
    assert_int_equal(x.last.order_id, ORDER);
    assert_int_equal(published(&x, &e), 1);
    assert_int_equal(e.command, EVENT_CANCEL);
    assert_int_equal(e.schema_version, EVENT_SCHEMA_COMMAND);
    struct uuid reservation = id(2), request_id = id(1), message = event_cancel_id(&reservation);
    assert_true(uuid_eq(&e.message_id, &message));
    assert_true(uuid_eq(&e.reservation_id, &reservation));
    assert_true(uuid_eq(&e.request_id, &request_id));
    assert_int_equal(e.user_id, 7);
    assert_int_equal(e.order_id, ORDER);
    assert_true(str_eq(e.traceparent, q.traceparent));
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1);
    /* ordered meanwhile: as before, the same message */
    settle(&x, REASON_NONE);
    assert_int_equal(ask(&x, &q), ANSWER_ACCEPTED);
    assert_int_equal(x.last.verdict.state, VERDICT_SUCCEEDED);
    assert_int_equal(published(&x, &e), 2);
    assert_true(uuid_eq(&e.message_id, &message));
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1);
    assert_int_equal(x.idles, 2);
    end(&x);
}

static void test_a_payment(void **state)
{
    (void)state;
    struct world x;
    struct event e;
    begin(&x);
    struct send_request q = request(&x, EVENT_PAY);
    assert_int_equal(ask(&x, &q), ANSWER_ACCEPTED);
    assert_int_equal(published(&x, &e), 1);
    struct uuid message = event_pay_id(STR("pay_1"));
    assert_int_equal(e.command, EVENT_PAY);
    assert_true(uuid_eq(&e.message_id, &message));
    assert_true(str_eq(e.payment_id, STR("pay_1")));
    assert_int_equal(e.accepted_at_ms, x.last.accepted_at_ms);
    int64_t now_ms = mem_clock_wall_ms(&x.sched);
    assert_true(e.accepted_at_ms <= now_ms && e.accepted_at_ms > now_ms - 2100);
    /* another order than this request's */
    q.order_id = ORDER + 1;
    assert_int_equal(ask(&x, &q), ANSWER_NOT_FOUND);
    assert_int_equal(published(&x, &e), 1);
    /* too late: it goes on all the same, and is refunded where that is written down */
    settle(&x, REASON_EXPIRED);
    q = request(&x, EVENT_PAY);
    assert_int_equal(ask(&x, &q), ANSWER_ACCEPTED);
    assert_int_equal(published(&x, &e), 2);
    /* of a request that nobody knows: the money has moved */
    q.request_id = id(9);
    assert_int_equal(ask(&x, &q), ANSWER_ACCEPTED);
    assert_int_equal(published(&x, &e), 3);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 1); /* one payment */
    assert_true(uuid_is_nil(&e.reservation_id));
    q.item = (struct item){1001, 9};
    assert_int_equal(ask(&x, &q), ANSWER_NOT_FOUND);
    end(&x);
}

static void test_nothing_to_cancel(void **state)
{
    (void)state;
    struct world x;
    struct event e;
    begin(&x);
    struct send_request q = request(&x, EVENT_CANCEL);
    q.user_id = 8; /* somebody else's */
    assert_int_equal(ask(&x, &q), ANSWER_NOT_FOUND);
    q = request(&x, EVENT_CANCEL);
    q.item = (struct item){1001, 9};
    assert_int_equal(ask(&x, &q), ANSWER_NOT_FOUND);
    q = request(&x, EVENT_CANCEL);
    settle(&x, REASON_CANCELLED);
    assert_int_equal(ask(&x, &q), ANSWER_REQUEST_CLOSED);
    assert_int_equal(x.last.verdict.state, VERDICT_CANCELLED);
    assert_int_equal(x.last.verdict.reason, REASON_CANCELLED);
    assert_int_equal(published(&x, &e), 0);
    end(&x);
}

/* Every wait × every fault: what is answered, and how many messages there may be. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        char port;
        enum mem_fault_kind kind;
        enum answer answer;
        int least, most; /* published */
        int kept;        /* remembered */
    } rows[] = {
        {'s', MEM_FAULT_NOT_DONE, ANSWER_DEPENDENCY_UNAVAILABLE, 0, 0, 0},
        {'s', MEM_FAULT_REPLY_LOST, ANSWER_DEPENDENCY_UNAVAILABLE, 0, 0, 0},
        {'s', MEM_FAULT_REQUEST_LOST, ANSWER_DEPENDENCY_UNAVAILABLE, 0, 0, 0},
        {'s', MEM_FAULT_REPLY_LATE, ANSWER_DEPENDENCY_UNAVAILABLE, 0, 0, 0},
        {'s', MEM_FAULT_HELD_BACK, ANSWER_DEPENDENCY_UNAVAILABLE, 0, 0, 0},
        {'q', MEM_FAULT_NOT_DONE, ANSWER_DEPENDENCY_UNAVAILABLE, 0, 0, 0},
        {'q', MEM_FAULT_REPLY_LOST, ANSWER_TIMEOUT, 1, 1, 0},
        {'q', MEM_FAULT_REQUEST_LOST, ANSWER_TIMEOUT, 0, 0, 0},
        {'q', MEM_FAULT_REPLY_LATE, ANSWER_TIMEOUT, 1, 1, 0},
        {'q', MEM_FAULT_HELD_BACK, ANSWER_TIMEOUT, 1, 1, 0},
        {'q', MEM_FAULT_TWICE, ANSWER_ACCEPTED, 2, 2, 1},
        /* in the queue, and not known to be remembered: nobody is told that it is safe */
        {'r', MEM_FAULT_NOT_DONE, ANSWER_TIMEOUT, 1, 1, 0},
        {'r', MEM_FAULT_REPLY_LOST, ANSWER_TIMEOUT, 1, 1, 1},
        {'r', MEM_FAULT_REQUEST_LOST, ANSWER_TIMEOUT, 1, 1, 0},
        {'r', MEM_FAULT_REPLY_LATE, ANSWER_TIMEOUT, 1, 1, 1},
        {'r', MEM_FAULT_HELD_BACK, ANSWER_TIMEOUT, 1, 1, 1},
        {'r', MEM_FAULT_TWICE, ANSWER_ACCEPTED, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int c = EVENT_CANCEL; c <= EVENT_PAY; c++) {
            struct world x;
            struct event e;
            begin(&x);
            struct send_request q = request(&x, (enum event_command)c);
            if (rows[i].port != 'q')
                mem_faults_add(mem_stock_faults(x.stock),
                               rows[i].port == 's' ? MEM_STOCK_LOOKUP : MEM_STOCK_REMEMBER, 1,
                               rows[i].kind, 700 * MS);
            else
                mem_faults_add(mem_queue_faults(x.queue), MEM_QUEUE_PUBLISH, 1, rows[i].kind,
                               700 * MS);
            enum answer got = ask(&x, &q);
            int n = published(&x, &e);
            int kept = mem_stock_remembered(x.stock, ITEM);
            if (got != rows[i].answer || n < rows[i].least || n > rows[i].most ||
                kept != rows[i].kept)
                fail_msg("row %d command %d: %s, %d published, %d remembered", (int)i, c,
                         answer_info(got)->code, n, kept);
            end(&x);
        }
    }
}

static void test_bounds(void **state)
{
    (void)state;
    struct world x;
    struct event e;
    struct send_command *s[3];
    begin(&x);
    struct send_request q = request(&x, EVENT_CANCEL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(send_command_submit(&x.pool, &q, &x, &s[i]), 0);
    assert_int_equal(send_command_submit(&x.pool, &q, &x, &s[2]), ERR_OVERLOAD);
    /* Who left before the publish is not published for, and hears nothing. */
    send_command_gone(s[1]);
    mem_clock_run_for(&x.sched, 1000 * MS);
    assert_int_equal(x.answers, 1);
    assert_int_equal(published(&x, &e), 1);
    assert_int_equal(x.idles, 1);
    q.received_us = x.sched.now_us - 500 * MS;
    assert_int_equal(send_command_submit(&x.pool, &q, &x, &s[0]), ERR_DEADLINE);
    end(&x);
}

/* What Redis keeps has a bound: beyond it nothing is promised. The same message again is kept once.
 */
static void test_too_many_are_remembered(void **state)
{
    (void)state;
    struct world x;
    struct event e;
    begin(&x);
    struct send_request q = request(&x, EVENT_PAY);
    for (int i = 1; i <= 3; i++) {
        char id_of[8];
        snprintf(id_of, sizeof id_of, "pay_%d", i);
        q.payment_id = str_of(id_of);
        assert_int_equal(ask(&x, &q), i <= 2 ? ANSWER_ACCEPTED : ANSWER_TIMEOUT);
    }
    q.payment_id = STR("pay_1");
    assert_int_equal(ask(&x, &q), ANSWER_ACCEPTED);
    assert_int_equal(published(&x, &e), 4);
    assert_int_equal(mem_stock_remembered(x.stock, ITEM), 2);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cancel),
        cmocka_unit_test(test_a_payment),
        cmocka_unit_test(test_nothing_to_cancel),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_too_many_are_remembered),
    };
    log_setup("seckill-api", "test", LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
