/* Rule 33: the mark that an item is warmed, and what is left of an item that was. */
#include "pg_fixture.h"

#include <stdio.h>
#include <string.h>

static char err[256];

static void test_rule33_warmed_once(void **state)
{
    (void)state;
    const char *pg = fixture_pg.conninfo;
    struct item item = fixture_item(5);
    int64_t mark, other = 0;
    assert_int_equal(pg_mark_warmed(pg, item, &mark, err, sizeof err), 0);
    assert_int_equal(pg_mark_warmed(pg, item, &other, err, sizeof err), 1);
    struct pg_activity b;
    assert_int_equal(pg_activity_get(pg, item, &b, err, sizeof err), 0);
    assert_int_equal(b.warmed_us, mark);
    assert_int_equal(pg_mark_warmed(pg, (struct item){99, 99}, &other, err, sizeof err), 2);
    assert_int_equal(pg_activity_close(pg, item, err, sizeof err), 0);
    assert_int_equal(pg_activity_close(pg, item, err, sizeof err), 1);
}

/* A mark that stands for nothing goes back, and only to whoever made it. */
static void test_rule33_a_mark_is_taken_back_by_its_maker(void **state)
{
    (void)state;
    const char *pg = fixture_pg.conninfo;
    struct item item = fixture_item(5);
    int64_t first, mark, next;
    assert_int_equal(pg_mark_warmed(pg, item, &first, err, sizeof err), 0);
    assert_int_equal(pg_unmark_warmed(pg, item, first + 1, err, sizeof err), 1);
    assert_int_equal(pg_unmark_warmed(pg, item, first, err, sizeof err), 0);
    assert_int_equal(pg_unmark_warmed(pg, item, first, err, sizeof err), 1);
    assert_int_equal(pg_mark_warmed(pg, item, &mark, err, sizeof err), 0);
    /* Another command goes on with it: from then on it is that one's. */
    next = mark;
    assert_int_equal(pg_remark_warmed(pg, item, &next, err, sizeof err), 0);
    assert_true(next > mark);
    assert_int_equal(pg_unmark_warmed(pg, item, mark, err, sizeof err), 1);
    first = mark;
    assert_int_equal(pg_remark_warmed(pg, item, &first, err, sizeof err), 1);
    assert_int_equal(first, mark);
    assert_int_equal(pg_unmark_warmed(pg, item, next, err, sizeof err), 0);
    assert_int_equal(fixture_number("SELECT count(*) FROM operator_actions WHERE action LIKE "
                                    "'stock warm%' AND activity_id = (SELECT max(activity_id) FROM "
                                    "activities)"),
                     5);
}

/* Whatever is known of an item may have been lost by Redis. */
static void test_rule33_what_has_a_past_is_not_warmed_again(void **state)
{
    static const char *const pasts[] = {
        "UPDATE activities SET opened_at = now() WHERE activity_id = $",
        "UPDATE seckill_inventory SET version = 1 WHERE activity_id = $",
        "UPDATE seckill_inventory SET seq = 1 WHERE activity_id = $",
        "INSERT INTO consumer_inbox (message_id, request_id, reservation_id, user_id, activity_id, "
        "sku_id, consumer_group, status) VALUES (gen_random_uuid(), gen_random_uuid(), "
        "gen_random_uuid(), 1, $, 2001, 'seckill-order-create-v1', 'QUARANTINED')",
        "INSERT INTO outbox (message_id, request_id, reservation_id, activity_id, sku_id, user_id, "
        "order_id, give_back, event_type, state, reason) VALUES (gen_random_uuid(), "
        "gen_random_uuid(), gen_random_uuid(), $, 2001, 1, 1, true, 'RESERVATION_REJECTED', "
        "'FAILED', 'VOID')",
        "INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind) VALUES "
        "(gen_random_uuid(), $, 2001, -1, 'ORDER')",
        "INSERT INTO dead_letters (activity_id, sku_id, deliveries, broker_id, reason, body) "
        "VALUES "
        "($, 2001, 1, '1-0', 'x', '')",
        "INSERT INTO orders (order_id, message_id, request_id, reservation_id, activity_id, "
        "sku_id, user_id, reserved_at, status) VALUES (4711, gen_random_uuid(), gen_random_uuid(), "
        "gen_random_uuid(), $, 2001, 1, now(), 'CANCELLED')",
    };
    (void)state;
    for (size_t i = 0; i < sizeof pasts / sizeof pasts[0]; i++) {
        struct item item = fixture_item(5);
        int64_t mark, again;
        char sql[512], with[640];
        assert_int_equal(pg_mark_warmed(fixture_pg.conninfo, item, &mark, err, sizeof err), 0);
        const char *at = strchr(pasts[i], '$');
        snprintf(sql, sizeof sql, "%.*s%lld%s", (int)(at - pasts[i]), pasts[i],
                 (long long)item.activity_id, at + 1);
        snprintf(with, sizeof with, "WITH x AS (%s RETURNING 1) SELECT count(*) FROM x", sql);
        assert_int_equal(fixture_number(with), 1);
        again = mark;
        assert_int_equal(pg_remark_warmed(fixture_pg.conninfo, item, &again, err, sizeof err), 2);
        assert_int_equal(again, mark);
    }
}

static void test_rule33_the_first_opening_is_noted_once(void **state)
{
    (void)state;
    struct item item = fixture_item(5);
    struct pg_activity a, b;
    assert_int_equal(pg_mark_opened(fixture_pg.conninfo, item, err, sizeof err), 0);
    assert_int_equal(pg_activity_get(fixture_pg.conninfo, item, &a, err, sizeof err), 0);
    assert_true(a.opened_ms > 0);
    assert_int_equal(pg_mark_opened(fixture_pg.conninfo, item, err, sizeof err), 1);
    assert_int_equal(pg_activity_get(fixture_pg.conninfo, item, &b, err, sizeof err), 0);
    assert_int_equal(a.opened_ms, b.opened_ms);
    assert_int_equal(pg_mark_opened(fixture_pg.conninfo, (struct item){99, 99}, err, sizeof err),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule33_warmed_once),
        cmocka_unit_test(test_rule33_a_mark_is_taken_back_by_its_maker),
        cmocka_unit_test(test_rule33_what_has_a_past_is_not_warmed_again),
        cmocka_unit_test(test_rule33_the_first_opening_is_noted_once),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
