/* The result topic's side of the outbox, retention and failed parked commands against a real
 * PostgreSQL: that arguments arrive as they are meant and each answer is read. What the functions
 * promise is in tests/sql/test_results.py, test_retention.py and test_lifecycle.py. */
#include "pg_fixture.h"

#include <stdio.h>

static int unpublished(struct result *rows, int max)
{
    struct ctx ctx = fixture_ctx(60000000);
    int n = max;
    assert_int_equal(fixture_orders->ops->unpublished(fixture_orders, &ctx, 0, rows, &n), 0);
    return n;
}

static void mark_settled(const int64_t *ids, int n)
{
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(fixture_orders->ops->mark_settled(fixture_orders, &ctx, ids, n, true), 0);
}

static void mark_published(const struct result *rows, int n)
{
    struct ctx ctx = fixture_ctx(60000000);
    int64_t ids[16];
    for (int i = 0; i < n; i++)
        ids[i] = rows[i].id;
    assert_int_equal(fixture_orders->ops->mark_published(fixture_orders, &ctx, ids, n), 0);
}

static void test_results(void **state)
{
    (void)state;
    struct item item = fixture_item(1);
    struct orders_row rows[2];
    struct result results[16];
    fixture_rows(rows, 2);
    fixture_place(item, rows, 2);
    assert_int_equal(unpublished(results, 16), 0);
    const int64_t ids[] = {rows[0].outbox_id, rows[1].outbox_id};
    mark_settled(ids, 2);
    assert_int_equal(unpublished(results, 16), 2);
    int sold = results[0].id == rows[0].outbox_id ? 0 : 1;
    for (int i = 0; i < 2; i++) {
        const struct result *r = &results[i == 0 ? sold : 1 - sold];
        assert_int_equal(r->id, rows[i].outbox_id);
        assert_true(uuid_eq(&r->message_id, &rows[i].message_id));
        assert_true(uuid_eq(&r->request_id, &rows[i].request_id));
        assert_true(uuid_eq(&r->reservation_id, &rows[i].reservation_id));
        assert_true(item_eq(r->item, item));
        assert_int_equal(r->user_id, rows[i].user_id);
        assert_int_equal(r->order_id, i == 0 ? rows[0].order_id : 0);
        assert_int_equal(r->verdict.state, i == 0 ? VERDICT_SUCCEEDED : VERDICT_SOLD_OUT);
        assert_string_equal(r->event, i == 0 ? "ORDER_CREATED" : "RESERVATION_REJECTED");
        assert_in_range(r->decided_at_ms, clock_wall_us() / 1000 - 60000,
                        clock_wall_us() / 1000 + 1000);
    }
    struct orders_unpublished backlog;
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(fixture_orders->ops->unpublished_backlog(fixture_orders, &ctx, 10, &backlog),
                     0);
    assert_int_equal(backlog.waiting, 2);
    mark_published(results, 2);
    assert_int_equal(unpublished(results, 16), 0);
    assert_int_equal(fixture_orders->ops->unpublished_backlog(fixture_orders, &ctx, 10, &backlog),
                     0);
    assert_int_equal(backlog.waiting + backlog.oldest_age_ms, 0);
}

/* Where nobody reads them nothing waits to be told. */
static void test_settled_for_nobody(void **state)
{
    (void)state;
    struct item item = fixture_item(1);
    struct orders_row row;
    struct result results[4];
    struct ctx ctx = fixture_ctx(60000000);
    fixture_rows(&row, 1);
    fixture_place(item, &row, 1);
    assert_int_equal(
        fixture_orders->ops->mark_settled(fixture_orders, &ctx, &row.outbox_id, 1, false), 0);
    assert_int_equal(unpublished(results, 4), 0);
    assert_int_equal(fixture_number("SELECT count(*) FROM outbox WHERE settled_at = published_at"),
                     1);
}

static struct orders_retained retain(bool results)
{
    struct ctx ctx = fixture_ctx(60000000);
    const struct orders_retention what = {
        .after_ms = 1, .strays_ms = 1000, .max = 100, .results = results};
    struct orders_retained taken = {0};
    assert_int_equal(fixture_orders->ops->retain(fixture_orders, &ctx, &what, &taken), 0);
    return taken;
}

static void test_retention(void **state)
{
    (void)state;
    struct item item = fixture_item(5);
    struct orders_row rows[3];
    char sql[512];
    fixture_rows(rows, 3);
    fixture_place(item, rows, 3);
    const int64_t ids[] = {rows[0].outbox_id, rows[1].outbox_id, rows[2].outbox_id};
    mark_settled(ids, 3);
    snprintf(sql, sizeof sql,
             "UPDATE activities SET created_at = now() - interval '2 hours', starts_at = now() - "
             "interval '2 hours', ends_at = now() - interval '1 hour', expires_at = "
             "clock_timestamp() WHERE (activity_id, sku_id) = (%lld, %lld)",
             (long long)item.activity_id, (long long)item.sku_id);
    fixture_execute(sql);
    /* not told yet: held up; then, when nobody is told, taken */
    struct orders_retained taken;
    do {
        taken = retain(true);
        assert_int_equal(taken.rows[ORDERS_T_OUTBOX], 0);
    } while (taken.more);
    while (taken.rows[ORDERS_T_ITEMS] == 0) {
        struct orders_retained more = retain(false);
        for (int t = 0; t < ORDERS_TABLES; t++)
            taken.rows[t] += more.rows[t];
    }
    assert_int_equal(taken.rows[ORDERS_T_OUTBOX], 3);
    assert_int_equal(taken.rows[ORDERS_T_INBOX], 3);
    assert_true(taken.rows[ORDERS_T_LEDGER] >= 3);
    assert_int_equal(fixture_number("SELECT count(*) FROM orders"), 5);
    /* strays */
    struct ctx ctx = fixture_ctx(60000000);
    int64_t age;
    assert_int_equal(fixture_orders->ops->beat(fixture_orders, &ctx, STR("old"), 0, &age), 0);
    fixture_execute("UPDATE worker_lives SET beat_at = now() - interval '1 day'");
    assert_int_equal(retain(false).rows[ORDERS_T_LIVES], 1);
}

/* A command among the dead letters is one there, too, and a payment names no reservation. */
static void test_quarantined_commands(void **state)
{
    (void)state;
    struct item item = fixture_item(5);
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_row row;
    fixture_rows(&row, 1);
    struct orders_dead_letter letters[3] = {
        {.decoded = true, .command = EVENT_PAY, .item = item, .broker_id = STR("1-0")},
        {.decoded = true, .command = EVENT_CANCEL, .item = item, .broker_id = STR("2-0")},
        {.decoded = true, .command = EVENT_CREATE, .item = item, .broker_id = STR("3-0")},
    };
    bool settled[3];
    for (int i = 0; i < 3; i++) {
        struct orders_row ids;
        fixture_rows(&ids, 1);
        letters[i].message_id = ids.message_id;
        letters[i].request_id = ids.request_id;
        letters[i].user_id = ids.user_id;
        letters[i].order_id = ids.order_id;
        letters[i].body = STR("{}");
        letters[i].reason = STR("broken");
        letters[i].deliveries = 8;
        if (i > 0)
            letters[i].reservation_id = ids.reservation_id;
    }
    assert_int_equal(fixture_orders->ops->quarantine(fixture_orders, &ctx, letters, 3, settled), 0);
    for (int i = 0; i < 3; i++)
        assert_false(settled[i]);
    assert_int_equal(fixture_number("SELECT count(*) FROM consumer_inbox WHERE status = "
                                    "'QUARANTINED' AND command = 'ORDER_PAY_REQUESTED'"),
                     1);
    assert_int_equal(fixture_number("SELECT count(*) FROM consumer_inbox WHERE status = "
                                    "'QUARANTINED' AND command = 'ORDER_CANCEL_REQUESTED'"),
                     1);
    assert_int_equal(fixture_number("SELECT count(*) FROM consumer_inbox WHERE status = "
                                    "'QUARANTINED' AND command IS NULL"),
                     1);
}

static void test_parked_failed(void **state)
{
    (void)state;
    struct item item = fixture_item(5);
    struct orders_row row;
    struct ctx ctx = fixture_ctx(60000000);
    int quarantined = -1;
    fixture_rows(&row, 1);
    struct orders_command c = {.message_id = event_cancel_id(&row.reservation_id),
                               .request_id = row.request_id,
                               .reservation_id = row.reservation_id,
                               .user_id = row.user_id,
                               .order_id = row.order_id,
                               .body = STR("{}"),
                               .payment_id = STR("")};
    assert_int_equal(fixture_orders->ops->cancel(fixture_orders, &ctx, item, &c, 1, false), 0);
    assert_int_equal(c.outcome, ORDERS_PARKED);
    assert_int_equal(fixture_orders->ops->parked_failed(fixture_orders, &ctx, &c.message_id, 1,
                                                        "boom", 2, &quarantined),
                     0);
    assert_int_equal(quarantined, 0);
    assert_int_equal(fixture_orders->ops->parked_failed(fixture_orders, &ctx, &c.message_id, 1,
                                                        "boom", 2, &quarantined),
                     0);
    assert_int_equal(quarantined, 1);
    assert_int_equal(fixture_orders->ops->parked_failed(fixture_orders, &ctx, &c.message_id, 1,
                                                        "boom", 2, &quarantined),
                     0);
    assert_int_equal(quarantined, 0);
    assert_int_equal(fixture_orders->ops->cancel(fixture_orders, &ctx, item, &c, 1, false), 0);
    assert_int_equal(c.outcome, ORDERS_COMMAND_QUARANTINED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),       cmocka_unit_test(test_settled_for_nobody),
        cmocka_unit_test(test_retention),     cmocka_unit_test(test_quarantined_commands),
        cmocka_unit_test(test_parked_failed),
    };
    return cmocka_run_group_tests(tests, fixture_port_setup, fixture_port_teardown);
}
