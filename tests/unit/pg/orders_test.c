/* The port's operations against a real PostgreSQL; what the functions themselves promise is in
 * tests/sql. */
#include "pg_fixture.h"

#include <stdio.h>

static struct orders *o;

#ifdef BEHIND_PGBOUNCER /* failure 15: the same tests through PgBouncer 1.18 in transaction mode   \
                         */
static struct private_pg bouncer;
static const char *front(void)
{
    private_bouncer_start(&bouncer, &fixture_pg);
    return bouncer.conninfo;
}
static void front_stop(void)
{
    private_pg_stop(&bouncer);
}
#else
static const char *front(void)
{
    return fixture_pg.conninfo;
}
static void front_stop(void) {}
#endif

static int setup(void **state)
{
    if (fixture_setup(state))
        return -1;
    o = fixture_port(front());
    return 0;
}
static int teardown(void **state)
{
    pg_orders_free(o);
    front_stop();
    return fixture_teardown(state);
}

static int place(struct item item, struct orders_row *rows, int n)
{
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_timing timing;
    return o->ops->place(o, &ctx, item, rows, n, &timing);
}

static void test_place_created_known_rejected(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row rows[5];
    fixture_rows(rows, 5);
    rows[1].user_id = rows[0].user_id;
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_timing timing = {-1, -1, -1, -1};
    assert_int_equal(o->ops->place(o, &ctx, item, rows, 5, &timing), 0);
    assert_true(timing.inbox_us > 0 && timing.orders_us > 0 && timing.inventory_us > 0 &&
                timing.finish_us > 0);
    static const enum orders_outcome outcomes[] = {ORDERS_CREATED, ORDERS_REJECTED, ORDERS_CREATED,
                                                   ORDERS_CREATED, ORDERS_REJECTED};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rows[i].outcome, outcomes[i]);
        assert_true(rows[i].outbox_id > 0);
    }
    assert_int_equal(rows[1].verdict.reason, REASON_ONE_USER_ONE_ORDER);
    assert_int_equal(rows[1].verdict.state, VERDICT_REJECTED);
    assert_true(rows[1].give_back);
    assert_int_equal(rows[1].other_order_id, rows[0].order_id);
    assert_true(uuid_eq(&rows[1].other_reservation_id, &rows[0].reservation_id));
    assert_true(uuid_eq(&rows[1].other_request_id, &rows[0].request_id));
    assert_int_equal(rows[4].verdict.state, VERDICT_SOLD_OUT);
    assert_false(rows[4].give_back);
    assert_int_equal(rows[0].verdict.state, VERDICT_SUCCEEDED);
    assert_int_equal(rows[0].other_order_id, 0);

    struct orders_row again[5];
    for (int i = 0; i < 5; i++)
        again[i] = rows[4 - i];
    assert_int_equal(place(item, again, 5), 0);
    for (int i = 0; i < 5; i++) {
        const struct orders_row *was = &rows[4 - i];
        assert_int_equal(again[i].outcome, ORDERS_KNOWN);
        assert_int_equal(again[i].verdict.state, was->verdict.state);
        assert_int_equal(again[i].verdict.reason, was->verdict.reason);
        assert_int_equal(again[i].give_back, was->give_back);
        assert_int_equal(again[i].other_order_id, was->other_order_id);
        assert_int_equal(again[i].outbox_id, 0);
    }
    struct orders_inventory inv;
    ctx = fixture_ctx(60000000);
    assert_int_equal(o->ops->inventory(o, &ctx, item, &inv), 0);
    assert_int_equal(inv.total, 3);
    assert_int_equal(inv.sold, 3);
    assert_int_equal(inv.epoch, 1);
    assert_false(inv.warmed);
    assert_int_equal(o->ops->inventory(o, &ctx, (struct item){1, 1}, &inv), 1);
}

/* What a newer version wrote harms no neighbour: neither a message of its batch, nor the relay, nor
 * recovery. */
static void test_a_reason_of_tomorrow(void **state)
{
    (void)state;
    struct item item = fixture_item(9);
    struct orders_row rows[3], again[3];
    struct orders_inbox inbox[3];
    struct orders_unsettled unsettled[64];
    struct uuid ids[3];
    fixture_rows(rows, 3);
    for (int i = 0; i < 3; i++)
        ids[i] = rows[i].message_id;
    rows[1].user_id = rows[0].user_id; /* rejected */
    assert_int_equal(place(item, rows, 3), 0);
    memcpy(again, rows, sizeof rows);
    fixture_execute("UPDATE consumer_inbox SET last_error_code = 'TOMORROW' "
                    "WHERE last_error_code = 'ONE_USER_ONE_ORDER'");
    fixture_execute("UPDATE outbox SET reason = 'TOMORROW', created_at = '2001-01-01' "
                    "WHERE reason = 'ONE_USER_ONE_ORDER'");
    assert_int_equal(place(item, again, 3), 0);
    assert_int_equal(again[0].outcome, ORDERS_KNOWN);
    assert_int_equal(again[1].outcome, ORDERS_QUARANTINED); /* left */
    assert_int_equal(again[2].outcome, ORDERS_KNOWN);
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(o->ops->inbox(o, &ctx, ids, inbox, 3), 0);
    assert_string_equal(inbox[0].status, "COMPLETED");
    assert_string_equal(inbox[1].status, ORDERS_UNREADABLE);
    assert_string_equal(inbox[2].status, "COMPLETED");
    int n = 64, found = 0;
    assert_int_equal(o->ops->unsettled(o, &ctx, 0, unsettled, &n), 0);
    for (int i = 0; i < n; i++) {
        assert_false(uuid_eq(&unsettled[i].reservation_id, &rows[1].reservation_id));
        found += item_eq(unsettled[i].item, item);
    }
    assert_int_equal(found, 2);
}

/* Rule 34b: what was warmed and is not over, by id. */
static void test_warmed_items(void **state)
{
    (void)state;
    char err[256], sql[160];
    struct item items[4], got[64];
    int64_t mark;
    for (int i = 0; i < 4; i++) {
        items[i] = fixture_item(1);
        if (i > 0)
            assert_int_equal(pg_mark_warmed(fixture_pg.conninfo, items[i], &mark, err, sizeof err),
                             0);
    }
    snprintf(sql, sizeof sql,
             "UPDATE activities SET starts_at = '2001-01-01', ends_at = '2001-01-02', expires_at = "
             "'2001-01-03' WHERE activity_id = %ld",
             (long)items[2].activity_id);
    fixture_execute(sql);
    int n = 64;
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(o->ops->warmed(o, &ctx, got, &n), 0);
    assert_true(n >= 2);
    assert_true(item_eq(got[n - 2], items[1]) && item_eq(got[n - 1], items[3]));
    struct orders_inventory inv;
    assert_int_equal(o->ops->inventory(o, &ctx, items[2], &inv), 0);
    assert_true(inv.warmed && inv.expires_ms > 0 && inv.expires_ms < 1000000000000);
    n = 1;
    assert_int_equal(o->ops->warmed(o, &ctx, got, &n), 0);
    assert_int_equal(n, 1);
}

static void test_place_of_a_large_batch(void **state)
{
    (void)state;
    enum { N = 512 };
    static struct orders_row rows[N];
    struct item item = fixture_item(N);
    fixture_rows(rows, N);
    assert_int_equal(place(item, rows, N), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(rows[i].outcome, ORDERS_CREATED);
}

static void test_rule20_own_failures_are_invalid(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row rows[2];
    fixture_rows(rows, 2);
    rows[1].user_id = 0;
    assert_int_equal(place(item, rows, 2), ERR_INVALID);
    fixture_rows(rows, 1);
    assert_int_equal(place((struct item){77, 77}, rows, 1),
                     ERR_NOTFOUND); /* an item that is not there */
    fixture_rows(rows, 2);
    assert_int_equal(place(item, rows, 2), 0); /* the connection is fine */
}

static void test_rule21_probe(void **state)
{
    (void)state;
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(o->ops->probe(o, &ctx), 0);
    struct orders_timing timing;
    assert_int_equal(o->ops->place(o, &ctx, (struct item){1, 1}, NULL, 0, &timing), 0);
}

static void test_settling(void **state)
{
    (void)state;
    struct item item = fixture_item(10);
    fixture_execute("UPDATE outbox SET settled_at = now() WHERE settled_at IS NULL");
    struct orders_row rows[4];
    fixture_rows(rows, 4);
    rows[3].user_id = rows[2].user_id;
    assert_int_equal(place(item, rows, 4), 0);
    struct ctx ctx = fixture_ctx(60000000);
    int64_t ids[] = {rows[0].outbox_id, rows[1].outbox_id};
    assert_int_equal(o->ops->mark_settled(o, &ctx, ids, 2, true), 0);
    assert_int_equal(o->ops->mark_settled(o, &ctx, ids, 0, true), 0);
    struct orders_unsettled left[8];
    int n = 8;
    assert_int_equal(o->ops->unsettled(o, &ctx, 0, left, &n), 0);
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++) {
        const struct orders_row *row = left[i].outbox_id == rows[2].outbox_id ? &rows[2] : &rows[3];
        assert_int_equal(left[i].outbox_id, row->outbox_id);
        assert_true(item_eq(left[i].item, item));
        assert_int_equal(left[i].user_id, row->user_id);
        assert_true(uuid_eq(&left[i].request_id, &row->request_id));
        assert_true(uuid_eq(&left[i].reservation_id, &row->reservation_id));
        assert_int_equal(left[i].verdict.reason, row->verdict.reason);
        assert_int_equal(left[i].give_back, row->give_back);
        assert_int_equal(left[i].other_order_id, row->other_order_id);
        assert_true(uuid_eq(&left[i].other_request_id, &row->other_request_id));
    }
    n = 8;
    assert_int_equal(o->ops->unsettled(o, &ctx, 3600000, left, &n), 0);
    assert_int_equal(n, 0);
}

static void test_inbox_and_void(void **state)
{
    (void)state;
    struct item item = fixture_item(1);
    struct orders_row rows[3];
    fixture_rows(rows, 3);
    assert_int_equal(place(item, rows, 2), 0);
    struct ctx ctx = fixture_ctx(60000000);
    struct uuid ids[] = {rows[2].message_id, rows[1].message_id, rows[0].message_id};
    struct orders_inbox in[3];
    assert_int_equal(o->ops->inbox(o, &ctx, ids, in, 3), 0);
    assert_false(in[0].found);
    assert_true(in[1].found);
    assert_string_equal(in[1].status, "REJECTED");
    assert_int_equal(in[1].verdict.state, VERDICT_SOLD_OUT);
    assert_false(in[1].give_back);
    assert_string_equal(in[2].status, "COMPLETED");
    assert_int_equal(in[2].verdict.state, VERDICT_SUCCEEDED);
    assert_int_equal(in[2].order_id, rows[0].order_id);

    struct orders_inbox row;
    assert_int_equal(o->ops->void_message(o, &ctx, item, &rows[2], REASON_VOID, &row), 0);
    assert_string_equal(row.status, "REJECTED");
    assert_int_equal(row.verdict.state, VERDICT_FAILED);
    assert_true(row.give_back);
    assert_int_equal(o->ops->void_message(o, &ctx, item, &rows[2], REASON_VOID, &row), 1);
    assert_int_equal(row.verdict.reason, REASON_VOID);
    assert_int_equal(o->ops->void_message(o, &ctx, item, &rows[0], REASON_VOID, &row), 1);
    assert_int_equal(row.verdict.state, VERDICT_SUCCEEDED);
    assert_int_equal(row.order_id, rows[0].order_id);
    assert_false(row.give_back);
    assert_int_equal(place(item, &rows[2], 1), 0);
    assert_int_equal(rows[2].outcome, ORDERS_KNOWN);
    assert_int_equal(rows[2].verdict.reason, REASON_VOID);
}

static void test_rules_24_25_quarantine(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    struct orders_dead_letter dl = {
        .decoded = true,
        .message_id = row.message_id,
        .request_id = row.request_id,
        .reservation_id = row.reservation_id,
        .user_id = row.user_id,
        .order_id = row.order_id,
        .item = item,
        .broker_id = STR("1-0"),
        .body = STR("{\"x\":1}"),
        .reason = STR("it \xff\x01 broke"),
        .deliveries = 9,
    };
    struct ctx ctx = fixture_ctx(60000000);
    bool settled;
    assert_int_equal(o->ops->quarantine(o, &ctx, &dl, 1, &settled), 0);
    assert_int_equal(settled, 0);
    assert_int_equal(o->ops->quarantine(o, &ctx, &dl, 1, &settled), 0);
    assert_int_equal(settled, 0);
    assert_int_equal(place(item, &row, 1), 0);
    assert_int_equal(row.outcome, ORDERS_QUARANTINED);
    struct orders_inbox in;
    assert_int_equal(o->ops->inbox(o, &ctx, &row.message_id, &in, 1), 0);
    assert_string_equal(in.status, "QUARANTINED");
    assert_int_equal(o->ops->void_message(o, &ctx, item, &row, REASON_GIVEN_UP, &in), 0);
    assert_int_equal(in.verdict.reason, REASON_GIVEN_UP);
    assert_int_equal(o->ops->quarantine(o, &ctx, &dl, 1, &settled), 0);
    assert_int_equal(settled, 1); /* settled: just ack */

    static char junk[100000];
    struct orders_dead_letter raw = {.item = item,
                                     .broker_id = STR("7-1"),
                                     .body = {junk, sizeof junk},
                                     .reason = STR("not JSON"),
                                     .deliveries = 1};
    assert_int_equal(o->ops->quarantine(o, &ctx, &raw, 1, &settled), 0);
    assert_int_equal(settled, 0);
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT octet_length(body) FROM dead_letters WHERE activity_id = %ld AND message_id "
             "IS NULL",
             (long)item.activity_id);
    assert_int_equal(fixture_number(sql), sizeof junk);

    /* Many at once: the one that was settled before, and the others. */
    struct orders_dead_letter many[ORDERS_LETTERS_MAX];
    bool each[ORDERS_LETTERS_MAX];
    char ids[ORDERS_LETTERS_MAX][16];
    for (int i = 0; i < ORDERS_LETTERS_MAX; i++) {
        snprintf(ids[i], sizeof ids[i], "8-%d", i);
        many[i] = raw;
        many[i].broker_id = str_of(ids[i]);
        many[i].body.len = (size_t)i;
    }
    many[7] = dl;
    assert_int_equal(o->ops->quarantine(o, &ctx, many, ORDERS_LETTERS_MAX, each), 0);
    for (int i = 0; i < ORDERS_LETTERS_MAX; i++)
        assert_int_equal(each[i], i == 7);
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM dead_letters WHERE activity_id = %ld AND message_id IS NULL",
             (long)item.activity_id);
    assert_int_equal(fixture_number(sql), ORDERS_LETTERS_MAX);
}

static void test_attempts_and_suspects(void **state)
{
    (void)state;
    struct orders_row rows[2];
    fixture_rows(rows, 2);
    struct uuid ids[] = {rows[0].message_id, rows[1].message_id};
    int counts[2];
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(o->ops->attempts(o, &ctx, ids, counts, 2), 0);
    assert_int_equal(counts[0] + counts[1], 0);
    assert_int_equal(o->ops->count_attempts(o, &ctx, ids, "decode", counts, 2), 0);
    assert_int_equal(o->ops->count_attempts(o, &ctx, ids + 1, "decode", counts, 1), 0);
    assert_int_equal(counts[0], 2);
    assert_int_equal(o->ops->attempts(o, &ctx, ids, counts, 2), 0);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 2);

    int dead = -1;
    assert_int_equal(o->ops->suspect_begin(o, &ctx, ids, STR("life-1"), &dead), 0);
    assert_int_equal(dead, 0);
    fixture_execute("UPDATE worker_lives SET beat_at = now() - interval '1 minute'");
    assert_int_equal(o->ops->suspect_begin(o, &ctx, ids, STR("life-2"), &dead), 0);
    assert_int_equal(dead, 1);
    int64_t fleet = -1;
    assert_int_equal(o->ops->beat(o, &ctx, STR("life-1"), 0, &fleet), 0);
    assert_int_equal(fleet, 0);
    assert_int_equal(o->ops->suspect_begin(o, &ctx, ids, STR("life-2"), &dead), 0);
    assert_int_equal(dead, 0);
    assert_int_equal(o->ops->suspect_clear(o, &ctx, ids, 2, STR("life-2")), 0);
    assert_int_equal(
        fixture_number("SELECT count(*) FROM suspect_runs WHERE cleared_at IS NOT NULL"), 1);
}

/* Rule 26: the oldest in the hands of any live worker, by this server's clock. */
static void test_age_of_the_fleet(void **state)
{
    (void)state;
    struct ctx ctx = fixture_ctx(60000000);
    int64_t fleet = -1;
    fixture_execute("DELETE FROM worker_lives");
    assert_int_equal(o->ops->beat(o, &ctx, STR("old"), 60000, &fleet), 0);
    assert_in_range(fleet, 60000, 64000);
    assert_int_equal(o->ops->beat(o, &ctx, STR("young"), 500, &fleet), 0);
    assert_in_range(fleet, 60000, 64000);
    assert_int_equal(o->ops->beat(o, &ctx, STR("old"), 0, &fleet), 0); /* it ended */
    assert_in_range(fleet, 500, 5000);
    fixture_execute("UPDATE worker_lives SET beat_at = now() - interval '11 seconds'");
    assert_int_equal(o->ops->beat(o, &ctx, STR("new"), 0, &fleet), 0); /* dead: no live worker's */
    assert_int_equal(fleet, 0);
    assert_int_equal(o->ops->beat(o, &ctx, STR("new"), 1, &fleet), 0);
    assert_true(fleet >= 1); /* never 0 with something in hand */
}

static void test_finding(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row rows[2];
    fixture_rows(rows, 2);
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_inbox in;
    struct orders_order order;
    assert_int_equal(
        o->ops->find_request(o, &ctx, item, rows[0].user_id, &rows[0].request_id, &in, &order), 1);
    assert_int_equal(place(item, rows, 1), 0);
    assert_int_equal(
        o->ops->find_request(o, &ctx, item, rows[0].user_id, &rows[0].request_id, &in, &order), 0);
    assert_true(in.found);
    assert_int_equal(in.verdict.state, VERDICT_SUCCEEDED);
    assert_int_equal(order.order_id, rows[0].order_id);
    assert_string_equal(order.status, "CREATED");
    assert_int_equal(
        o->ops->find_request(o, &ctx, item, rows[0].user_id + 7, &rows[0].request_id, &in, &order),
        1);
    assert_int_equal(o->ops->void_message(o, &ctx, item, &rows[1], REASON_VOID, &in), 0);
    assert_int_equal(
        o->ops->find_request(o, &ctx, item, rows[1].user_id, &rows[1].request_id, &in, &order), 0);
    assert_true(in.found);
    assert_int_equal(in.verdict.reason, REASON_VOID);
    assert_int_equal(order.order_id, 0);

    assert_int_equal(o->ops->find_order(o, &ctx, rows[0].order_id, &order), 0);
    assert_true(item_eq(order.item, item));
    assert_int_equal(order.user_id, rows[0].user_id);
    assert_true(uuid_eq(&order.reservation_id, &rows[0].reservation_id));
    assert_true(order.created_at_ms > clock_wall_us() / 1000 - 60000);
    assert_int_equal(o->ops->find_order(o, &ctx, 12345, &order), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_created_known_rejected),
        cmocka_unit_test(test_a_reason_of_tomorrow),
        cmocka_unit_test(test_warmed_items),
        cmocka_unit_test(test_place_of_a_large_batch),
        cmocka_unit_test(test_rule20_own_failures_are_invalid),
        cmocka_unit_test(test_rule21_probe),
        cmocka_unit_test(test_settling),
        cmocka_unit_test(test_inbox_and_void),
        cmocka_unit_test(test_rules_24_25_quarantine),
        cmocka_unit_test(test_attempts_and_suspects),
        cmocka_unit_test(test_age_of_the_fleet),
        cmocka_unit_test(test_finding),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
