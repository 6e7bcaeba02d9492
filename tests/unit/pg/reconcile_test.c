/* Reconciliation's calls against a real PostgreSQL. Rules 9, 40; failures.md 22. */
#include "pg_fixture.h"

#include <stdio.h>
#include <string.h>

static int begin(struct item item, const char *life, int64_t lease_ms, struct orders_books *books)
{
    struct ctx ctx = fixture_ctx(60000000);
    return fixture_orders->ops->reconcile_begin(fixture_orders, &ctx, item, str_of(life), lease_ms,
                                                books);
}

static void end(struct item item, const char *life, const char *outcome, const char *detail,
                int64_t walked, bool answered)
{
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_reconciled e = {.item = item,
                                  .started_ms = clock_wall_us() / 1000,
                                  .outcome = outcome,
                                  .detail = str_of(detail),
                                  .walked = walked,
                                  .answered = answered};
    assert_int_equal(fixture_orders->ops->reconcile_end(fixture_orders, &ctx, str_of(life), &e), 0);
}

static void test_one_worker_at_a_time(void **state)
{
    (void)state;
    struct item item = fixture_item(5);
    struct orders_row rows[2];
    struct orders_books books;
    fixture_rows(rows, 2);
    fixture_place(item, rows, 2);
    assert_int_equal(begin(item, "a", 60000, &books), 0);
    assert_int_equal(books.total, 5);
    assert_int_equal(books.sold, 2);
    assert_int_equal(books.epoch, 1);
    assert_int_equal(books.timeline, 1);
    assert_int_equal(books.walked, 0);
    assert_false(books.asked);
    assert_int_equal(begin(item, "b", 60000, &books), 1);
    assert_int_equal(begin(item, "a", 60000, &books), 0);
    assert_int_equal(begin(item, "b", 0, &books), 0); /* its lease is over */
    assert_int_equal(begin(item, "a", 60000, &books), 1);
    end(item, "b", "CLEAN", "{\"findings\":[]}", 1, true);
    assert_int_equal(begin(item, "b", 60000, &books), 0);
    assert_int_equal(books.walked, 1);
    assert_int_equal(begin((struct item){99, 99}, "a", 60000, &books), 1);
}

static void test_a_row_is_a_stretch_of_rounds(void **state)
{
    (void)state;
    struct item item = fixture_item(5);
    struct orders_books books;
    char sql[256];
    assert_int_equal(begin(item, "a", 60000, &books), 0);
    end(item, "a", "CLEAN", "{\"findings\":[],\"active\":1}", 0, true);
    end(item, "a", "CLEAN", "{\"findings\":[],\"active\":2}", 0, true);
    end(item, "a", "DISCREPANCY", "{\"findings\":[{\"kind\":\"FREE\",\"units\":1}]}", 0, true);
    end(item, "a", "DISCREPANCY", "{\"findings\":[{\"kind\":\"FREE\",\"units\":2}]}", 0, true);
    end(item, "a", "DISCREPANCY", "{\"findings\":[{\"kind\":\"FREE\",\"units\":2}]}", 0, true);
#define COUNT(where)                                                                               \
    (snprintf(sql, sizeof sql,                                                                     \
              "SELECT count(*) FROM reconciliation_runs WHERE activity_id = %lld AND " where,      \
              (long long)item.activity_id),                                                        \
     fixture_number(sql))
    assert_int_equal(COUNT("outcome = 'CLEAN'"), 1);
    assert_int_equal(
        COUNT("outcome = 'CLEAN' AND detail->>'rounds' = '2' AND detail->>'active' = '2'"), 1);
    assert_int_equal(COUNT("outcome = 'DISCREPANCY'"), 2);
    assert_int_equal(COUNT("finished_at >= started_at"), 3);
}

static void test_who_asks_is_answered_once(void **state)
{
    (void)state;
    struct item item = fixture_item(5), asked;
    struct orders_books books;
    struct ctx ctx = fixture_ctx(60000000);
    char sql[256];
    assert_int_equal(
        fixture_orders->ops->reconcile_asked(fixture_orders, &ctx, STR("a"), 60000, &asked), 1);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO reconcile_items (activity_id, sku_id, asked_at) VALUES (%lld, %lld, now())",
        (long long)item.activity_id, (long long)item.sku_id);
    fixture_execute(sql);
    assert_int_equal(
        fixture_orders->ops->reconcile_asked(fixture_orders, &ctx, STR("a"), 60000, &asked), 0);
    assert_true(item_eq(asked, item));
    assert_int_equal(begin(item, "a", 60000, &books), 0);
    assert_true(books.asked);
    assert_int_equal(
        fixture_orders->ops->reconcile_asked(fixture_orders, &ctx, STR("b"), 60000, &asked), 1);
    end(item, "a", "DISCREPANCY", "{\"findings\":[]}", 0, false); /* not sure yet */
    assert_int_equal(
        fixture_orders->ops->reconcile_asked(fixture_orders, &ctx, STR("a"), 60000, &asked), 0);
    end(item, "a", "CLEAN", "{\"findings\":[]}", 0, true);
    assert_int_equal(
        fixture_orders->ops->reconcile_asked(fixture_orders, &ctx, STR("a"), 60000, &asked), 1);
}

static void test_what_is_known_of_reservations(void **state)
{
    (void)state;
    struct item item = fixture_item(2);
    struct orders_row rows[4];
    struct ctx ctx = fixture_ctx(60000000);
    fixture_rows(rows, 4);
    fixture_place(item, rows, 3); /* the third finds nothing free */
    struct orders_command cancel = {.message_id = event_cancel_id(&rows[1].reservation_id),
                                    .request_id = rows[1].request_id,
                                    .reservation_id = rows[1].reservation_id,
                                    .user_id = rows[1].user_id,
                                    .order_id = rows[1].order_id,
                                    .body = STR("{}")};
    assert_int_equal(fixture_orders->ops->cancel(fixture_orders, &ctx, item, &cancel, 1, false), 0);
    assert_int_equal(cancel.outcome, ORDERS_CANCELLED);
    assert_int_equal(
        fixture_orders->ops->mark_settled(fixture_orders, &ctx, &rows[0].outbox_id, 1, true), 0);
    struct orders_look looks[4];
    for (int i = 0; i < 4; i++)
        looks[i] = (struct orders_look){.message_id = rows[i].message_id,
                                        .reservation_id = rows[i].reservation_id};
    assert_int_equal(fixture_orders->ops->reconcile_look(fixture_orders, &ctx, looks, 4), 0);
    assert_string_equal(looks[0].order_status, "CREATED");
    assert_int_equal(looks[0].inbox.verdict.state, VERDICT_SUCCEEDED);
    assert_false(looks[0].unsettled);
    assert_int_equal(looks[0].ledger, -1);
    assert_string_equal(looks[1].order_status, "CANCELLED");
    assert_int_equal(looks[1].inbox.verdict.state, VERDICT_CANCELLED);
    assert_true(looks[1].inbox.give_back && looks[1].unsettled);
    assert_int_equal(looks[1].ledger, 0);
    assert_string_equal(looks[2].order_status, "");
    assert_int_equal(looks[2].inbox.verdict.reason, REASON_PG_STOCK_EXHAUSTED);
    assert_true(looks[2].unsettled);
    assert_false(looks[3].inbox.found || looks[3].unsettled);
    assert_int_equal(looks[3].ledger, 0);
}

static void test_active_orders_in_pages(void **state)
{
    (void)state;
    struct item item = fixture_item(10);
    struct orders_row rows[5];
    struct orders_active page[3];
    struct ctx ctx = fixture_ctx(60000000);
    fixture_rows(rows, 5);
    fixture_place(item, rows, 5);
    int64_t after = 0;
    int n = 3, seen = 0;
    do {
        n = 3;
        assert_int_equal(
            fixture_orders->ops->reconcile_orders(fixture_orders, &ctx, item, after, page, &n), 0);
        for (int i = 0; i < n; i++) {
            assert_true(page[i].user_id > after);
            after = page[i].user_id;
        }
        seen += n;
    } while (n > 0);
    assert_int_equal(seen, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker_at_a_time),
        cmocka_unit_test(test_a_row_is_a_stretch_of_rounds),
        cmocka_unit_test(test_who_asks_is_answered_once),
        cmocka_unit_test(test_what_is_known_of_reservations),
        cmocka_unit_test(test_active_orders_in_pages),
    };
    return cmocka_run_group_tests(tests, fixture_port_setup, fixture_port_teardown);
}
