#include "pg_fixture.h"

#include <string.h>

static char err[256];

static void test_activity_create_get_list(void **state)
{
    (void)state;
    struct pg_activity a = {.item = {1, 2},
                            .total = 50,
                            .starts_ms = 1700000000000,
                            .ends_ms = 1700000001123,
                            .expires_ms = 4000000000000};
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), 0);
    a.total = 60;
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), 1);
    struct pg_activity b;
    assert_int_equal(pg_activity_get(fixture_pg.conninfo, a.item, &b, err, sizeof err), 0);
    assert_int_equal(b.total, 50);
    assert_int_equal(b.sold, 0);
    assert_int_equal(b.epoch, 1);
    assert_int_equal(b.ends_ms, 1700000001123);
    assert_int_equal(b.expires_ms, 4000000000000);
    assert_int_equal(b.warmed_us, 0);
    assert_int_equal(b.opened_ms, 0);
    assert_int_equal(pg_activity_get(fixture_pg.conninfo, (struct item){9, 9}, &b, err, sizeof err),
                     1);
    assert_int_equal(fixture_number("SELECT sum(delta) FROM stock_ledger WHERE activity_id = 1"),
                     50);
    assert_int_equal(fixture_number("SELECT count(*) FROM operator_actions WHERE activity_id = 1"),
                     1);

    a = (struct pg_activity){
        .item = {1, 3}, .total = 0, .starts_ms = 1, .ends_ms = 2, .expires_ms = 3};
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), 0);
    struct pg_activity list[8];
    int n = 8;
    assert_int_equal(pg_activity_list(fixture_pg.conninfo, list, &n, err, sizeof err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(list[0].item.sku_id, 2);
    n = 1;
    assert_int_equal(pg_activity_list(fixture_pg.conninfo, list, &n, err, sizeof err), 0);
    assert_int_equal(n, 1);
}

static void test_activity_refuses_nonsense(void **state)
{
    (void)state;
    struct pg_activity a = {
        .item = {5, 5}, .total = 5, .starts_ms = 10, .ends_ms = 10, .expires_ms = 20};
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), ERR_INVALID);
    assert_non_null(strstr(err, "ck_activities_window"));
    a.ends_ms = 11;
    a.total = -1;
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), ERR_INVALID);
    a.total = INT64_MAX;
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), ERR_INVALID);
    struct pg_activity b;
    assert_int_equal(pg_activity_get(fixture_pg.conninfo, a.item, &b, err, sizeof err), 1);
}

static void test_rule25_dead_letters(void **state)
{
    (void)state;
    struct orders *o = fixture_port(fixture_pg.conninfo);
    struct item item = fixture_item(5), found;
    struct orders_row row;
    fixture_rows(&row, 1);
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_dead_letter dl = {.decoded = true,
                                    .message_id = row.message_id,
                                    .request_id = row.request_id,
                                    .reservation_id = row.reservation_id,
                                    .user_id = row.user_id,
                                    .order_id = row.order_id,
                                    .item = item,
                                    .broker_id = STR("3-1"),
                                    .body = STR("body"),
                                    .reason = STR("why"),
                                    .deliveries = 8};
    struct orders_dead_letter raw = {.item = item,
                                     .broker_id = STR("3-2"),
                                     .body = STR("\x00\x01"),
                                     .reason = STR("not JSON"),
                                     .deliveries = 1};
    bool settled;
    assert_int_equal(o->ops->quarantine(o, &ctx, &dl, 1, &settled), 0);
    assert_int_equal(o->ops->quarantine(o, &ctx, &raw, 1, &settled), 0);
    struct pg_dead_letter list[4], one;
    int n = 4;
    assert_int_equal(pg_dead_letters_list(fixture_pg.conninfo, 0, list, &n, err, sizeof err), 0);
    assert_int_equal(n, 2);
    assert_false(list[0].decoded);
    assert_int_equal(list[0].body_len, 2);
    assert_true(list[1].decoded);
    assert_true(uuid_eq(&list[1].message_id, &row.message_id));
    assert_string_equal(list[1].reason, "why");
    assert_string_equal(list[1].broker_id, "3-1");
    assert_int_equal(list[1].deliveries, 8);
    assert_int_equal(list[1].replayed_ms, 0);
    n = 4;
    assert_int_equal(
        pg_dead_letters_list(fixture_pg.conninfo, list[0].id, &one, &n, err, sizeof err), 0);
    assert_int_equal(n, 1);

    struct strbuf body;
    strbuf_init(&body, 65536);
    assert_int_equal(
        pg_dead_letters_show(fixture_pg.conninfo, list[1].id, &one, &body, err, sizeof err), 0);
    assert_true(str_eq(strbuf_str(&body), STR("body")));
    assert_int_equal(
        pg_dead_letters_show(fixture_pg.conninfo, 999999, &one, &body, err, sizeof err), 1);
    strbuf_clear(&body);
    assert_int_equal(
        pg_dead_letters_replay(fixture_pg.conninfo, list[1].id, &found, &body, err, sizeof err), 0);
    assert_true(item_eq(found, item));
    assert_true(str_eq(strbuf_str(&body), STR("body")));
    assert_int_equal(
        pg_dead_letters_replay(fixture_pg.conninfo, list[1].id, &found, &body, err, sizeof err), 1);
    assert_int_equal(
        pg_dead_letters_replay(fixture_pg.conninfo, list[0].id, &found, &body, err, sizeof err), 1);
    strbuf_deinit(&body);
    struct orders_timing timing;
    assert_int_equal(o->ops->place(o, &ctx, item, &row, 1, &timing), 0);
    assert_int_equal(row.outcome, ORDERS_CREATED);
    assert_int_equal(
        fixture_number(
            "SELECT count(*) FROM operator_actions WHERE action = 'dead-letters replay'"),
        1);
    pg_orders_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activity_create_get_list),
        cmocka_unit_test(test_activity_refuses_nonsense),
        cmocka_unit_test(test_rule25_dead_letters),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
