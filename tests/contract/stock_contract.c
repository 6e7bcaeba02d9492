/* The contract of port/stock.h, rules A of rules.md: one source, run on the fake and on a real
 * Redis, each with and without streams as the queue. */
#include "stock_contract.h"

static bool streams;

bool contract_streams(void)
{
    return streams;
}

static int setup(void **state)
{
    (void)state;
    backend_start(streams);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_stop();
    return 0;
}

static void reserve_takes_one_unit(void **state)
{
    (void)state;
    struct item item = client_sale(2);
    struct stock_reserve r;
    struct stock_item_info before = info(item);
    assert_int_equal(client_reserve(item, 7, 1, 100, &r), STOCK_CREATED);
    assert_int_equal(r.version.epoch, 1);
    assert_int_equal(r.version.seq, before.version.seq + 1); /* rule 7 */
    assert_true(r.sent_us > 0);
    struct reservation found = record(item, 7, 1);
    const struct reservation *both[] = {&r.found, &found};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i]->user_id, 7);
        assert_int_equal(both[i]->order_id, 100);
        assert_uuid(both[i]->request_id, REQUEST(1));
        assert_uuid(both[i]->reservation_id, RESERVATION(100));
        assert_uuid(both[i]->message_id, client_uuid(3, 100));
        assert_int_equal(both[i]->status,
                         streams ? RESERVATION_MQ_SENT : RESERVATION_RESERVED); /* rule 1 */
        assert_int_equal(both[i]->epoch, 1);
        assert_int_equal(both[i]->seq, r.version.seq);
        assert_int_equal(both[i]->verdict.state, VERDICT_QUEUED);
        assert_int_equal(both[i]->republished, 0);
        assert_int_equal(both[i]->queue_id[0] != '\0', streams);
        assert_true(both[i]->created_at_ms >= before.now_ms);
    }
    assert_free(item, 1, 1, 1);
}

static void reserve_outcomes(void **state)
{
    (void)state;
    struct stock_reserve r;
    struct item item = client_sale(1);
    reserve(item, 7, 1, 100);
    struct item_version at = info(item).version;
    /* Rules 12, 13: the same ids again. */
    assert_int_equal(client_reserve(item, 7, 1, 101, &r), STOCK_REPLAY);
    assert_uuid(r.found.reservation_id, RESERVATION(100));
    assert_int_equal(r.found.order_id, 100);
    assert_int_equal(r.found.verdict.state, VERDICT_QUEUED);
    assert_int_equal(item_version_cmp(r.version, at), 0);
    /* A holder hears of their own unit, whatever key they use, even when all is sold. */
    assert_int_equal(client_reserve(item, 7, 2, 102, &r), STOCK_DUPLICATE);
    assert_uuid(r.found.reservation_id, RESERVATION(100));
    assert_uuid(r.found.request_id, REQUEST(1));
    assert_int_equal(r.found.order_id, 100);
    /* The key belongs to its user. */
    assert_int_equal(client_reserve(item, 8, 1, 103, &r), STOCK_SOLD_OUT);
    assert_int_equal(item_version_cmp(r.version, at), 0);
    struct reservation none;
    assert_int_equal(client_lookup(item, 8, 1, &none), 1); /* a refusal writes nothing */
    assert_int_equal(client_lookup(item, 7, 2, &none), 1);
    assert_free(item, 0, 1, 1);

    assert_int_equal(client_reserve(backend_item(), 7, 1, 104, &r), STOCK_NO_ITEM);
    assert_false(r.listed);
    item = backend_item();
    assert_int_equal(client_warm(item, 5, 0, DAY_MS), 0);
    assert_int_equal(client_reserve(item, 7, 1, 105, &r), STOCK_PAUSED); /* warmed, not opened */
    item = backend_item();
    assert_int_equal(client_warm(item, 5, 3600000, DAY_MS), 0);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 0);
    assert_int_equal(client_reserve(item, 7, 1, 106, &r), STOCK_NOT_OPEN);
    item = backend_item();
    assert_int_equal(client_warm(item, 5, -3600000, -1), 0);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 0);
    assert_int_equal(client_reserve(item, 7, 1, 107, &r), STOCK_ENDED);
    item = client_sale(5);
    assert_int_equal(client_control(item, STOCK_STATE_CLOSED), 0);
    assert_int_equal(client_reserve(item, 7, 1, 108, &r), STOCK_ENDED);
    assert_free(item, 5, 0, 0);
}

/* Rule 15. */
static void too_late_takes_nothing(void **state)
{
    (void)state;
    struct item item = client_sale(1);
    struct stock_reserve r;
    struct reservation none;
    client_rest(50 * MS);
    int rc = client_reserve_until(item, 7, 1, 100, backend_now_us() - 20 * MS, &r);
    assert_true(rc == STOCK_TOO_LATE || rc == ERR_DEADLINE);
    assert_int_equal(client_lookup(item, 7, 1, &none), 1);
    assert_free(item, 1, 0, 0);
}

/* Rule 6. */
static void progress_only_raises(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct reservation r;
    reserve(item, 7, 1, 100);
    reserve(item, 8, 1, 101);
    assert_int_equal(client_settle_one(item, client_row(8, 1, 101, SUCCEEDED, false)),
                     STOCK_SETTLED);
    struct stock_settle_row rows[] = {
        client_row(7, 1, 100, SUCCEEDED, false), client_row(8, 1, 101, SUCCEEDED, false),
        client_row(9, 1, 102, SUCCEEDED, false), client_row(7, 1, 999, SUCCEEDED, false)};
    struct item_version before = info(item).version;
    assert_int_equal(client_progress(item, rows, 4), 0);
    assert_int_equal(record(item, 7, 1).verdict.state, VERDICT_PROCESSING);
    assert_int_equal(record(item, 8, 1).verdict.state, VERDICT_SUCCEEDED);
    assert_int_equal(client_lookup(item, 9, 1, &r), 1);
    assert_int_equal(item_version_cmp(info(item).version, before), 0);
    assert_free(item, 3, 2, 1);
    assert_int_equal(client_settle_one(item, rows[0]), STOCK_SETTLED);
    assert_int_equal(client_progress(item, rows, 1), 0);
    assert_int_equal(record(item, 7, 1).verdict.state, VERDICT_SUCCEEDED);
}

/* Rule 1. */
static void marks(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    reserve(item, 7, 1, 100);
    static const enum reservation_status moves[] = {RESERVATION_MQ_SENT, RESERVATION_MQ_PENDING,
                                                    RESERVATION_MQ_SENT};
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        assert_int_equal(client_mark(item, 7, 1, 100, moves[i]), 0);
        assert_int_equal(record(item, 7, 1).status, moves[i]);
    }
    assert_int_equal(client_mark(item, 7, 1, 999, RESERVATION_MQ_PENDING), 1); /* another's */
    assert_int_equal(record(item, 7, 1).status, RESERVATION_MQ_SENT);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_mark(item, 7, 1, 100, RESERVATION_MQ_PENDING), 1);
    assert_int_equal(record(item, 7, 1).status, RESERVATION_ORDERED);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, because(REASON_EXPIRED), true)),
                     STOCK_SETTLED);
    assert_int_equal(client_mark(item, 7, 1, 100, RESERVATION_MQ_SENT), 1);
    assert_int_equal(record(item, 7, 1).status, RESERVATION_RELEASED);
    assert_int_equal(client_mark(item, 9, 1, 100, RESERVATION_MQ_SENT), 1); /* nobody's */
    struct reservation r;
    assert_int_equal(client_lookup(item, 9, 1, &r), 1);
}

/* Rule 27: noted at an order that stays, and at nothing else. */
static void refused_cancels(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    reserve(item, 7, 1, 100);
    assert_false(record(item, 7, 1).cancel_refused);
    assert_int_equal(client_refuse(item, 7, 1, 999), 1); /* another's */
    assert_int_equal(client_refuse(item, 9, 1, 100), 1); /* nobody's: nothing is made */
    struct reservation r;
    assert_int_equal(client_lookup(item, 9, 1, &r), 1);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_refuse(item, 7, 1, 100), 0);
    assert_true(record(item, 7, 1).cancel_refused);
    assert_int_equal(record(item, 7, 1).status, RESERVATION_ORDERED);
    assert_int_equal(record(item, 7, 1).verdict.state, VERDICT_SUCCEEDED);
    reserve(item, 8, 2, 101);
    assert_int_equal(client_settle_one(item, client_row(8, 2, 101, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    assert_int_equal(client_refuse(item, 8, 2, 101), 1);
}

static void claims(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct reservation r;
    reserve(item, 7, 1, 100);
    for (int times = 1; times <= 2; times++) {
        assert_int_equal(client_claim(item, 7, 1, 100, &r), 0);
        assert_int_equal(r.status, RESERVATION_MQ_PENDING);
        assert_int_equal(r.republished, times - 1); /* what was accepted before */
        assert_int_equal(r.user_id, 7);
        assert_int_equal(r.order_id, 100);
        assert_uuid(r.message_id, client_uuid(3, 100));
        assert_uuid(r.request_id, REQUEST(1));
        assert_int_equal(client_republished(item, 7, 1, 100, "1780000000000-7"), 0);
        assert_string_equal(record(item, 7, 1).queue_id, "1780000000000-7");
        assert_int_equal(record(item, 7, 1).status, RESERVATION_MQ_SENT);
    }
    assert_int_equal(client_claim(item, 7, 1, 999, &r), 1);
    assert_int_equal(client_claim(item, 9, 1, 100, &r), 1);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_claim(item, 7, 1, 100, &r),
                     1); /* recovery publishes only after its claim */
    assert_true(client_republished(item, 7, 1, 100, "1-1") >= 0);
    assert_int_equal(record(item, 7, 1).status, RESERVATION_ORDERED);
}

static void pending_in_order(void **state)
{
    (void)state;
    enum { N = 6 };
    struct item item = client_sale(N);
    static struct stock_pending p;
    int64_t created[N];
    for (int i = 0; i < N; i++) {
        reserve(item, 100 - i, 1, i + 1); /* users descending: the order is by time */
        created[i] = record(item, 100 - i, 1).created_at_ms;
        client_rest(3 * MS);
    }
    int64_t now = client_store_ms();
    assert_int_equal(client_pending(item, now + 1000, 0, STOCK_PENDING_MAX, &p), 0);
    assert_int_equal(p.n, N);
    assert_int_equal(p.total, N);
    assert_true(p.now_ms >= now);
    for (int i = 0; i < N; i++) {
        assert_int_equal(p.rows[i].user_id, 100 - i);
        assert_int_equal(p.rows[i].order_id, i + 1); /* records in full */
        assert_uuid(p.rows[i].reservation_id, RESERVATION(i + 1));
        assert_uuid(p.rows[i].request_id, REQUEST(1));
        assert_int_equal(p.rows[i].created_at_ms, created[i]);
    }
    assert_int_equal(client_pending(item, created[3], 1, 10, &p),
                     0); /* strictly before; from the second */
    assert_int_equal(p.n, 2);
    assert_int_equal(p.total, N);
    assert_int_equal(p.rows[0].user_id, 99);
    assert_int_equal(p.rows[1].user_id, 98);
    assert_int_equal(client_settle_one(item, client_row(100, 1, 1, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_settle_one(item, client_row(98, 1, 3, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    assert_int_equal(client_pending(item, now + 1000, 0, 2, &p), 0);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.total, N - 2);
    assert_int_equal(p.rows[0].user_id, 99);
    assert_int_equal(p.rows[1].user_id, 97);
    assert_int_equal(client_pending(backend_item(), now, 0, 2, &p), 0);
    assert_int_equal(p.n, 0);
}

static void warm_and_control(void **state)
{
    (void)state;
    struct item item = backend_item(), list[256];
    struct stock_item_get g;
    int n = 0, found = 0;
    assert_int_equal(client_item(item, &g), 1);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 1);
    assert_int_equal(client_warm(item, 9, 0, DAY_MS), 0);
    assert_int_equal(client_item(item, &g), 0);
    assert_int_equal(g.info.state, STOCK_STATE_PAUSED);
    assert_int_equal(g.info.total, 9);
    assert_int_equal(g.info.free, 9);
    assert_int_equal(g.info.version.epoch, 1);
    assert_true(g.info.ends_ms - g.info.starts_ms == DAY_MS && g.info.expires_ms > g.info.ends_ms);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 0);
    assert_true(info(item).version.seq > g.info.version.seq); /* rule 7 */
    reserve(item, 7, 1, 100);
    assert_int_equal(client_warm(item, 50, 0, DAY_MS), 1); /* rule 33: never a second time */
    assert_free(item, 8, 1, 1);
    assert_int_equal(info(item).total, 9);
    assert_int_equal(client_control(item, STOCK_STATE_PAUSED), 0);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 0);
    assert_int_equal(client_control(item, STOCK_STATE_CLOSED), 0);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 2); /* final */
    assert_int_equal(info(item).state, STOCK_STATE_CLOSED);
    /* Closed, what is under way is settled all the same. */
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_items(list, 256, &n), 0);
    for (int i = 0; i < n; i++)
        found += item_eq(list[i], item);
    assert_int_equal(found, 1);
}

/* There is no number of items at which the catalogue cannot be read any more. */
static void the_catalogue_has_pages(void **state)
{
    (void)state;
    enum { N = 1300 };
    static struct item items[N], list[2 * N];
    int n = 0, before = 0;
    assert_int_equal(client_items(list, 2 * N, &before), 0);
    for (int i = 0; i < N; i++) {
        items[i] = backend_item();
        assert_int_equal(client_warm(items[i], 1, 0, DAY_MS), 0);
    }
    assert_int_equal(client_items(list, 2 * N, &n), 0);
    assert_int_equal(n, before + N);
    struct stock_item_get g;
    for (int i = 0; i < N; i++)
        assert_int_equal(client_unlist(items[i]), 0);
    assert_int_equal(client_unlist(items[0]), 0);
    assert_int_equal(client_items(list, 2 * N, &n), 0);
    assert_int_equal(n, before);
    assert_int_equal(client_item(items[0], &g), 0); /* its keys are not touched */
}

/* Rule 38. */
/* Rule 34a. */
static void a_store_that_went_back(void **state)
{
    (void)state;
    struct item item = client_sale(10);
    struct stock_reserve first, r;
    assert_int_equal(client_reserve(item, 1, 1, 1, &first), STOCK_CREATED);
    assert_true(first.connection > 0);
    assert_false(first.asked_witness);
    struct stock_past past = {.seen = first.version};
    assert_int_equal(client_reserve_past(item, 2, 2, past, &r), STOCK_CREATED);
    past.seen.seq += 100;
    assert_int_equal(client_reserve_past(item, 3, 3, past, &r), STOCK_BEHIND);
    assert_int_equal(r.version.epoch, 1);
    assert_int_equal(r.version.seq, first.version.seq + 1);
    past.seen = (struct item_version){2, 0};
    assert_int_equal(client_reserve_past(item, 3, 3, past, &r), STOCK_BEHIND);
    assert_int_equal(client_reserve_past(item, 1, 1, past, &r),
                     STOCK_BEHIND); /* no replay either */

    /* The witness: not over the connection over which it was found. */
    past = (struct stock_past){
        .seen = first.version, .witness_user = 1, .witness_request = REQUEST(1)};
    assert_int_equal(client_reserve_past(item, 4, 4, past, &r), STOCK_CREATED);
    assert_true(r.asked_witness);
    past.witness_request = REQUEST(77);
    assert_int_equal(client_reserve_past(item, 5, 5, past, &r), STOCK_BEHIND);
    assert_true(r.asked_witness);
    past.checked_connection = r.connection;
    assert_int_equal(client_reserve_past(item, 5, 5, past, &r), STOCK_CREATED);
    assert_false(r.asked_witness);
    past.checked_connection = 0;
    past.witness_user = 9;
    assert_int_equal(client_reserve_past(item, 6, 6, past, &r), STOCK_BEHIND);
    backend_set_epoch(item, 2); /* rebuilt */
    assert_int_equal(client_reserve_past(item, 6, 6, past, &r), STOCK_CREATED);
    assert_free(item, 5, 5, 5);
    struct item none = backend_item();
    assert_int_equal(client_reserve_past(none, 6, 6, past, &r), STOCK_NO_ITEM);
}

/* Rule 34: noted, and nothing else; an item that is not there can be reported as well. */
static void reports(void **state)
{
    (void)state;
    struct item item = client_sale(10), lost = backend_item(), other = client_sale(1);
    struct stock_item_info before = info(item);
    assert_false(backend_reported(item));
    assert_int_equal(client_report(item), 0);
    assert_int_equal(client_report(item), 0);
    assert_int_equal(client_report(lost), 0);
    assert_true(backend_reported(item));
    assert_true(backend_reported(lost));
    assert_false(backend_reported(other));
    struct stock_item_info after = info(item);
    assert_int_equal(item_version_cmp(before.version, after.version), 0);
    struct stock_item_get g;
    assert_int_equal(client_item(lost, &g), 1);
    assert_false(g.listed);
}

static void slots(void **state)
{
    (void)state;
    int64_t floor = -1;
    int slot = 17 + 2 * streams; /* the store outlives the test */
    assert_int_equal(client_slot(slot, "aaaa", 5000, 100, &floor), 0);
    assert_int_equal(floor, 0);
    assert_int_equal(client_slot(slot, "bbbb", 9000, 100, &floor), 1);
    assert_int_equal(client_slot(slot, "aaaa", 7000, 100, &floor), 0);
    assert_int_equal(client_slot(slot + 1, "bbbb", 9000, 100, &floor), 0);
    client_rest(150 * MS);
    assert_int_equal(client_slot(slot, "bbbb", 7500, 100, &floor), 0);
    assert_int_equal(floor, 7000); /* ids start after whatever its owner before may have used */
    assert_int_equal(client_slot(slot, "aaaa", 8000, 100, &floor), 1);
    assert_int_equal(client_probe(), 0);
}

static bool told;
static int told_rc;

static void on_told(struct op *op, int rc)
{
    (void)op;
    assert_false(told);
    told = true;
    told_rc = rc;
    backend_wake();
}

/* Asked to end, an operation still completes, once; and what it says is true. */
static void cancel_is_told(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct stock *st = backend_stock();
    struct reservation found;
    for (int n = 1; n <= 20; n++) {
        struct stock_reserve r = {.op = {on_told, backend_now_us() + 1000 * MS},
                                  .item = item,
                                  .user_id = n,
                                  .order_id = n,
                                  .request_id = REQUEST(1),
                                  .reservation_id = RESERVATION(n),
                                  .message_id = client_uuid(3, n),
                                  .traceparent = STR(""),
                                  .tracestate = STR(""),
                                  .give_up_us = backend_now_us() + 1000 * MS};
        told = false;
        st->ops->reserve(st, &r);
        client_rest(n * 20);
        if (!told)
            st->ops->cancel(st, &r.op);
        assert_true(told || backend_run(&told, 2000 * MS));
        client_rest(2 * MS); /* what was sent arrives */
        bool there = client_lookup(item, n, 1, &found) == 0;
        if (told_rc == ERR_CANCELED || told_rc == ERR_UNAVAIL)
            assert_false(there); /* certainly not done */
        else if (told_rc == STOCK_CREATED)
            assert_true(there);
        else
            assert_true(told_rc == ERR_UNCERTAIN || told_rc == STOCK_SOLD_OUT);
        if (there)
            assert_int_equal(
                client_settle_one(item, client_row(n, 1, n, because(REASON_VOID), true)),
                STOCK_SETTLED);
    }
    assert_free(item, 5, 0, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(reserve_takes_one_unit),
        T(reserve_outcomes),
        T(too_late_takes_nothing),
        T(settle_table),
        T(ranks),
        T(a_released_key_tells_its_reason),
        T(buyers_only_if_mine),
        T(one_user_one_order),
        T(the_same_keys_earlier_order),
        T(another_epoch),
        T(unknown_reservations),
        T(progress_only_raises),
        T(marks),
        T(refused_cancels),
        T(commands_are_remembered),
        T(remembered_in_pages),
        T(claims),
        T(release_only_from_reserved),
        T(a_released_key_competes_again),
        T(release_of_what_is_not_there),
        T(pending_in_order),
        T(many_rows_at_once),
        T(warm_and_control),
        T(the_catalogue_has_pages),
        T(a_store_that_went_back),
        T(reports),
        T(a_rebuild),
        T(a_rebuilds_steps_are_done_once),
        T(reports_are_taken_up),
        T(slots),
        T(cancel_is_told),
        T(inspect_tells_what_item_tells),
        T(holders_and_what_is_held),
        T(mend_follows_the_record),
        T(lower_takes_only_what_is_too_many),
        T(total_up_and_down),
    };
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        streams = i == 1;
        failed += cmocka_run_group_tests_name(streams ? "with streams" : "another queue", tests,
                                              NULL, NULL);
    }
    return failed;
}
