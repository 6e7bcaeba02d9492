/* A queue that is not the store's, mode `strict`: what was certainly not published is taken back,
 * so that the same key may compete again; nothing else is. And viewers that leave, in both modes.
 * Rules 1, 7, 8, 14. */
#include "reserve_publish_rows.h"

/* clang-format off */
static const struct publish_row refused[] = {
    {"rule 8: refused, released", NOT_DONE, OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 3, 0, NO_RECORD, 0},
    {"rule 8: too many under way", ANSWER(ERR_OVERLOAD), OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 429 OVERLOADED", 3, 0, NO_RECORD, 0},
    {"rule 8: no time left to send it", ANSWER(ERR_DEADLINE), OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 3, 0, NO_RECORD, 0},
    {"rule 8: our credentials are no good: not the buyer's fault", ANSWER(ERR_DENIED), OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 3, 0, NO_RECORD, 0},
    {"rule 8: no such topic: not the buyer's either", ANSWER(ERR_NOTFOUND), OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 3, 0, NO_RECORD, 0},
    {"rule 8: nor is a message that the broker does not like", ANSWER(ERR_INVALID), OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 3, 0, NO_RECORD, 0},
    {"rule 8: cut off by a drain", ANSWER(ERR_CANCELED), OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DRAINING", 3, 0, NO_RECORD, 0},
    {"rule 8: certainly not released: it stands, recovery publishes it", NOT_DONE, NOT_DONE, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 202 QUEUED", 3, 1, RESERVATION_RESERVED, 0},
    {"released unseen", NOT_DONE, REPLY_LOST, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 504 TIMEOUT", 3, 0, NO_RECORD, 0},
    {"the release is lost", NOT_DONE, REQUEST_LOST, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 504 TIMEOUT", 3, 1, RESERVATION_RESERVED, 0},
    {"released, said too late", NOT_DONE, LATE(200), "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@62.0 504 TIMEOUT", 62, 0, NO_RECORD, 0},
    {"released later", NOT_DONE, HELD_BACK(200), "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@62.0 504 TIMEOUT", 62, 0, NO_RECORD, 0},
    {"a release without sense", NOT_DONE, ANSWER(ERR_INTERNAL), "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 504 TIMEOUT", 3, 1, RESERVATION_RESERVED, 0},
};

static const struct publish_row others[] = {
    {"no fault", OK_, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_SENT, 1},
    {"rule 14: unknown, done", REPLY_LOST, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 1},
    {"rule 14: unknown, not done", REQUEST_LOST, OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"rule 14: an answer without sense", ANSWER(ERR_INTERNAL), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_MQ_PENDING, 0},
    {"the buyer waits for the send", LATE(30), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@32.0 202 QUEUED END@33.0", 32, 1, RESERVATION_MQ_SENT, 1},
    {"whose budget is the publish timeout", LATE(200), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@41.0 202 QUEUED END@42.0", 41, 1, RESERVATION_MQ_PENDING, 1},
    {"stored after it", HELD_BACK(200), OK_, "HOLD@0.0 PUBLISH@1.0 MARK@41.0 202 QUEUED END@42.0", 41, 1, RESERVATION_MQ_PENDING, 1},
    {"mark refused", OK_, NOT_DONE, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 202 QUEUED END@3.0", 2, 1, RESERVATION_RESERVED, 1},
};
/* clang-format on */

static void test_every_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        publish_row_run(&refused[i], true, MEM_STOCK_RELEASE);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        publish_row_run(&others[i], true, MEM_STOCK_MARK);
}

struct claiming {
    struct stock_claim c;
    int rc;
};

static void on_claimed(struct op *op, int rc)
{
    container_of(op, struct claiming, c.op)->rc = rc;
}

/* Rules 1, 8: recovery has taken it: it will be published, so it is accepted. */
static void test_recovery_was_faster(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_queue(&f, 1, 4, true);
    mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_NOT_DONE, 0);
    assert_int_equal(fixture_submit(&f, 5, 1, NULL), RESERVE_STARTED);
    mem_clock_run_for(&f.sched, 1200);
    const struct reservation *r = fixture_record(&f, 5, 1);
    struct claiming c = {.c = {.item = f.item,
                               .user_id = 5,
                               .request_id = r->request_id,
                               .reservation_id = r->reservation_id},
                         .rc = -99};
    c.c.op = (struct op){on_claimed, f.sched.now_us + 100 * MS};
    f.stock->ops->claim(f.stock, &c.c);
    fixture_run_ms(&f, 100);
    assert_int_equal(c.rc, 0);
    assert_string_equal(f.trace, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 202 QUEUED");
    assert_int_equal(fixture_record(&f, 5, 1)->status, RESERVATION_MQ_PENDING);
    assert_int_equal(fixture_held(&f), 1);
    fixture_deinit(&f);
}

struct pin_row {
    const char *name;
    int64_t after_us; /* the second click */
    unsigned key;     /* its; the first one's is 1 */
    struct reserve_fault mark;
    const char *trace;
    int held, status;
};

/* clang-format off */
static const struct pin_row pins[] = {
    {"before it is taken back", 900, 1, OK_, "HOLD@0.0 HOLD@0.9 PUBLISH@1.0 PIN@1.9 RELEASE@2.0 ANSWER@2.9 202 QUEUED replayed ANSWER@3.0 202 QUEUED", 1, RESERVATION_MQ_PENDING},
    {"too late", 1100, 1, OK_, "HOLD@0.0 PUBLISH@1.0 HOLD@1.1 RELEASE@2.0 PIN@2.1 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE ANSWER@3.1 504 TIMEOUT", 0, NO_RECORD},
    {"not done", 900, 1, NOT_DONE, "HOLD@0.0 HOLD@0.9 PUBLISH@1.0 PIN@1.9 RELEASE@2.0 ANSWER@2.9 504 TIMEOUT ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 0, NO_RECORD},
    {"lost", 900, 1, REQUEST_LOST, "HOLD@0.0 HOLD@0.9 PUBLISH@1.0 PIN@1.9 RELEASE@2.0 ANSWER@2.9 504 TIMEOUT ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 0, NO_RECORD},
    {"done unseen", 900, 1, REPLY_LOST, "HOLD@0.0 HOLD@0.9 PUBLISH@1.0 PIN@1.9 RELEASE@2.0 ANSWER@2.9 504 TIMEOUT ANSWER@3.0 202 QUEUED", 1, RESERVATION_MQ_PENDING},
    {"another key, before", 900, 2, OK_, "HOLD@0.0 HOLD@0.9 PUBLISH@1.0 PIN@1.9 RELEASE@2.0 ANSWER@2.9 409 DUPLICATE_ORDER ANSWER@3.0 202 QUEUED", 1, RESERVATION_MQ_PENDING},
    {"another key, lost", 900, 2, REQUEST_LOST, "HOLD@0.0 HOLD@0.9 PUBLISH@1.0 PIN@1.9 RELEASE@2.0 ANSWER@2.9 504 TIMEOUT ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE", 0, NO_RECORD},
    {"another key, when all is over", 9000, 2, OK_, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0 503 DEPENDENCY_UNAVAILABLE HOLD@9.0 PUBLISH@10.0 MARK@11.0 202 QUEUED END@12.0", 1, NO_RECORD},
};
/* clang-format on */

/* Rules 1, 8: a second click while the first one's unit is about to be taken back. Told to have it,
 * the buyer finds it there later. */
static void test_a_replay_while_it_is_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pins) / sizeof(pins[0]); i++) {
        const struct pin_row *row = &pins[i];
        struct fixture f;
        fixture_init_queue(&f, 1, 4, true);
        mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_NOT_DONE, 0);
        if (row->mark.kind)
            mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_MARK, 1, row->mark.kind,
                           row->mark.delay);
        assert_int_equal(fixture_submit(&f, 5, 1, NULL), RESERVE_STARTED);
        mem_clock_run_for(&f.sched, row->after_us);
        assert_int_equal(fixture_submit(&f, 5, row->key, NULL), RESERVE_STARTED);
        fixture_run_ms(&f, 1000);
        const struct reservation *r = fixture_record(&f, 5, 1);
        int status = r ? (int)r->status : NO_RECORD;
        if (strcmp(f.trace, row->trace) != 0 || status != row->status ||
            fixture_held(&f) != row->held)
            fail_msg("%s: %s, held %d, status %d", row->name, f.trace, (int)fixture_held(&f),
                     status);
        assert_int_equal(f.answers, 2);
        fixture_deinit(&f);
    }
}

/* Rule 7: the unit that came back is for everybody, also for those whom the hint refuses. */
static void test_the_hint_hears_of_the_release(void **state)
{
    (void)state;
    struct fixture f;
    struct stock_item_info info;
    fixture_init_queue(&f, 1, 4, true);
    mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_REPLY_LATE, 10 * MS);
    fixture_buy(&f, 5, 1);
    assert_true(mem_stock_info(f.stock, f.item, &info));
    fixture_settle(&f, 5, 1, (struct verdict){VERDICT_CANCELLED, REASON_CANCELLED}, true);
    mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_NOT_DONE, 0);
    assert_int_equal(fixture_submit(&f, 6, 2, NULL), RESERVE_STARTED);
    mem_clock_run_for(&f.sched, 1100); /* held, not yet released */
    assert_true(mem_stock_info(f.stock, f.item, &info));
    assert_int_equal(info.free, 0);
    struct hint_set *set = hint_set_new(f.item, info.version, 1);
    assert_true(hint_set_add(set, 6));
    assert_true(hints_install(&f.hints, set, f.sched.now_us));
    assert_int_equal(fixture_submit(&f, 7, 3, NULL), RESERVE_HINTED_SOLD_OUT);
    fixture_run_ms(&f, 10);
    assert_int_equal(f.last.answer, ANSWER_DEPENDENCY_UNAVAILABLE);
    assert_int_equal(fixture_submit(&f, 7, 3, NULL), RESERVE_STARTED);
    fixture_run_ms(&f, 10);
    assert_int_equal(f.last.answer, ANSWER_ACCEPTED);
    fixture_deinit(&f);
}

struct gone_row {
    const char *name;
    bool strict;
    struct reserve_fault publish, after;
    int64_t after_us;
    const char *trace;
    int held, status, messages;
};

/* clang-format off */
static const struct gone_row gone[] = {
    {"in the hold, before it was written", false, OK_, OK_, 0, "HOLD@0.0 ANSWER@0.0", 0, NO_RECORD, 0},
    {"in the hold, on its way: recovery will find it", false, OK_, OK_, 300, "HOLD@0.0 ANSWER@0.3", 1, RESERVATION_RESERVED, 0},
    {"while it is published", false, OK_, OK_, 1300, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 END@3.0", 1, RESERVATION_MQ_SENT, 1},
    {"while it is published, with nothing to wait for", false, LATE(200), OK_, 1300, "HOLD@0.0 PUBLISH@1.0 MARK@202.0 END@203.0", 1, RESERVATION_MQ_SENT, 1},
    {"while it is refused", false, NOT_DONE, OK_, 1300, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 END@3.0", 1, RESERVATION_MQ_PENDING, 0},
    {"strict: while it is published", true, OK_, OK_, 1300, "HOLD@0.0 PUBLISH@1.0 MARK@2.0 END@3.0", 1, RESERVATION_MQ_SENT, 1},
    {"strict: while it is refused", true, NOT_DONE, OK_, 1300, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0", 0, NO_RECORD, 0},
    {"strict: while it is released", true, NOT_DONE, OK_, 2300, "HOLD@0.0 PUBLISH@1.0 RELEASE@2.0 ANSWER@3.0", 0, NO_RECORD, 0},
};
/* clang-format on */

static void test_gone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        const struct gone_row *row = &gone[i];
        struct fixture f;
        struct reserve *flow;
        fixture_init_queue(&f, 1, 1, row->strict);
        mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, row->publish.kind,
                       row->publish.delay);
        assert_int_equal(fixture_submit(&f, 5, 1, &flow), RESERVE_STARTED);
        mem_clock_run_for(&f.sched, row->after_us);
        assert_int_equal(reserve_pool_busy(&f.pool), 1);
        reserve_gone(flow);
        fixture_run_ms(&f, 1000);
        const struct reservation *r = fixture_record(&f, 5, 1);
        int status = r ? (int)r->status : NO_RECORD, n = mem_broker_unacked(f.broker, f.item);
        if (strcmp(f.trace, row->trace) != 0 || status != row->status || n != row->messages ||
            fixture_held(&f) != row->held)
            fail_msg("%s: %s, held %d, status %d, %d messages", row->name, f.trace,
                     (int)fixture_held(&f), status, n);
        assert_int_equal(f.answers, 0);
        assert_int_equal(reserve_pool_busy(&f.pool), 0);
        assert_int_equal(f.idles, 1);
        fixture_deinit(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(test_recovery_was_faster),
        cmocka_unit_test(test_a_replay_while_it_is_published),
        cmocka_unit_test(test_the_hint_hears_of_the_release),
        cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
