/* Cancel, pay, parked and expire against a real PostgreSQL: that the arrays arrive as they are
 * meant and each answer is read. What the functions promise is in tests/sql/test_lifecycle.py. */
#include "pg_fixture.h"

#include <stdio.h>

static struct orders_command command_of(const struct orders_row *r, const char *payment)
{
    struct orders_command c = {.request_id = r->request_id,
                               .reservation_id = r->reservation_id,
                               .user_id = r->user_id,
                               .order_id = r->order_id,
                               .body = STR("{\"zero\":\"\0\"}"),
                               .payment_id = STR("")};
    if (payment) {
        c.payment_id = str_of(payment);
        c.accepted_at_ms = clock_wall_us() / 1000;
        c.reservation_id = (struct uuid){{0}};
        c.message_id = event_pay_id(c.payment_id);
    } else {
        c.message_id = event_cancel_id(&r->reservation_id);
    }
    return c;
}

static int cancel(struct item item, struct orders_command *rows, int n, bool give_up)
{
    struct ctx ctx = fixture_ctx(60000000);
    return fixture_orders->ops->cancel(fixture_orders, &ctx, item, rows, n, give_up);
}

static int pay(struct item item, struct orders_command *rows, int n, bool give_up)
{
    struct ctx ctx = fixture_ctx(60000000);
    return fixture_orders->ops->pay(fixture_orders, &ctx, item, rows, n, give_up);
}

static void test_cancel(void **state)
{
    (void)state;
    struct item item = fixture_item(9);
    struct orders_row rows[3];
    fixture_rows(rows, 3);
    fixture_place(item, rows, 2);
    struct orders_command c[3];
    for (int i = 0; i < 3; i++)
        c[i] = command_of(&rows[i], NULL);
    assert_int_equal(cancel(item, c, 3, false), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c[i].outcome, ORDERS_CANCELLED);
        assert_true(c[i].fresh);
        assert_true(c[i].outbox_id > 0);
        assert_true(uuid_eq(&c[i].settle_reservation_id, &rows[i].reservation_id));
        assert_string_equal(c[i].reason, "");
    }
    assert_int_equal(c[2].outcome, ORDERS_PARKED);
    assert_int_equal(c[2].outbox_id, 0);
    /* again: the same, and nothing to settle */
    assert_int_equal(cancel(item, c, 2, false), 0);
    assert_int_equal(c[1].outcome, ORDERS_CANCELLED);
    assert_false(c[1].fresh);
    assert_int_equal(c[1].outbox_id, 0);
    struct orders_inventory inv;
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(fixture_orders->ops->inventory(fixture_orders, &ctx, item, &inv), 0);
    assert_int_equal(inv.sold, 0);
    assert_int_equal(cancel((struct item){1, 1}, c, 1, false), ERR_NOTFOUND);
    /* the buyer's own question tells it */
    struct orders_inbox inbox;
    struct orders_order order;
    assert_int_equal(fixture_orders->ops->find_request(fixture_orders, &ctx, item, rows[0].user_id,
                                                       &rows[0].request_id, &inbox, &order),
                     0);
    assert_string_equal(inbox.cancel, "CANCELLED");
    assert_string_equal(order.status, "CANCELLED");
    assert_int_equal(cancel(item, &c[2], 1, true), 0);
    assert_int_equal(c[2].outcome, ORDERS_NOTHING);
    assert_string_equal(c[2].reason, "NO_OUTCOME");
}

static void test_pay(void **state)
{
    (void)state;
    struct item item = fixture_item(9);
    struct orders_row rows[4];
    fixture_rows(rows, 4);
    fixture_place(item, rows, 3);
    struct orders_command c[4] = {command_of(&rows[0], "p0"), command_of(&rows[1], "p1"),
                                  command_of(&rows[0], "p2"), command_of(&rows[3], "p3")};
    assert_int_equal(pay(item, c, 4, false), 0);
    assert_int_equal(c[0].outcome, ORDERS_PAID);
    assert_int_equal(c[1].outcome, ORDERS_PAID);
    assert_int_equal(c[2].outcome, ORDERS_REFUNDED);
    assert_string_equal(c[2].reason, "ALREADY_PAID");
    assert_int_equal(c[3].outcome, ORDERS_PARKED);
    struct orders_command other = command_of(&rows[2], "p0");
    assert_int_equal(pay(item, &other, 1, false), 0);
    assert_int_equal(other.outcome, ORDERS_REFUSED);
    assert_string_equal(other.reason, "PAYMENT_ID_REUSED");
    struct orders_command refused = command_of(&rows[0], NULL);
    assert_int_equal(cancel(item, &refused, 1, false), 0);
    assert_int_equal(refused.outcome, ORDERS_REFUSED);
    assert_string_equal(refused.reason, "PAID");
    assert_int_equal(fixture_number("SELECT count(*) FROM refunds"), 1);
}

/* What the queue may have lost waits as if it had been parked; what is known does not. */
static void test_park(void **state)
{
    (void)state;
    fixture_execute("UPDATE parked_commands SET done_at = clock_timestamp() WHERE done_at IS NULL");
    struct item item = fixture_item(9);
    struct orders_row rows[3];
    fixture_rows(rows, 3);
    fixture_place(item, rows, 3);
    struct orders_command c[3] = {command_of(&rows[0], NULL), command_of(&rows[1], NULL),
                                  command_of(&rows[2], "parked-1")};
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(cancel(item, &c[0], 1, false), 0);
    int n = 2;
    assert_int_equal(fixture_orders->ops->park(fixture_orders, &ctx, item, EVENT_CANCEL, c, &n), 0);
    assert_int_equal(n, 1);
    n = 2;
    assert_int_equal(fixture_orders->ops->park(fixture_orders, &ctx, item, EVENT_CANCEL, c, &n), 0);
    assert_int_equal(n, 0);
    n = 1;
    assert_int_equal(fixture_orders->ops->park(fixture_orders, &ctx, item, EVENT_PAY, &c[2], &n),
                     0);
    assert_int_equal(n, 1);
    assert_int_equal(fixture_number("SELECT count(*) FROM payments WHERE payment_id = 'parked-1' "
                                    "AND status = 'ACCEPTED'"),
                     1);
    static struct orders_parked parked[4];
    n = 4;
    assert_int_equal(fixture_orders->ops->parked(fixture_orders, &ctx, 60000, parked, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(parked[0].body_len, c[1].body.len);
    assert_int_equal(cancel(item, &c[1], 1, false), 0);
    assert_int_equal(c[1].outcome, ORDERS_CANCELLED);
    assert_int_equal(pay(item, &c[2], 1, false), 0);
    assert_int_equal(c[2].outcome, ORDERS_PAID);
    assert_int_equal(fixture_number("SELECT count(*) FROM parked_commands WHERE done_at IS NULL"),
                     0);
    n = 1;
    assert_int_equal(
        fixture_orders->ops->park(fixture_orders, &ctx, (struct item){1, 1}, EVENT_PAY, c, &n),
        ERR_NOTFOUND);
}

static void test_parked(void **state)
{
    (void)state;
    fixture_execute("UPDATE parked_commands SET done_at = clock_timestamp()");
    struct item item = fixture_item(9);
    struct orders_row rows[2];
    fixture_rows(rows, 2);
    struct orders_command c = command_of(&rows[0], NULL);
    assert_int_equal(cancel(item, &c, 1, false), 0);
    assert_int_equal(c.outcome, ORDERS_PARKED);
    static struct orders_parked parked[4];
    struct ctx ctx = fixture_ctx(60000000);
    int n = 4;
    assert_int_equal(fixture_orders->ops->parked(fixture_orders, &ctx, 60000, parked, &n), 0);
    assert_int_equal(n, 0);
    fixture_place(item, rows, 1);
    n = 4;
    assert_int_equal(fixture_orders->ops->parked(fixture_orders, &ctx, 60000, parked, &n), 0);
    assert_int_equal(n, 1);
    assert_true(uuid_eq(&parked[0].message_id, &c.message_id));
    assert_false(parked[0].given_up);
    assert_int_equal(parked[0].body_len, c.body.len);
    assert_memory_equal(parked[0].body, c.body.ptr, c.body.len);
    n = 4;
    assert_int_equal(fixture_orders->ops->parked(fixture_orders, &ctx, 60000, parked, &n), 0);
    assert_int_equal(n, 0); /* claimed */
    assert_int_equal(cancel(item, &c, 1, false), 0);
    assert_int_equal(c.outcome, ORDERS_CANCELLED);
    struct orders_command late = command_of(&rows[1], NULL);
    assert_int_equal(cancel(item, &late, 1, false), 0);
    n = 4;
    assert_int_equal(fixture_orders->ops->parked(fixture_orders, &ctx, 0, parked, &n), 0);
    assert_int_equal(n, 1);
    assert_true(parked[0].given_up);
}

static void test_expire(void **state)
{
    (void)state;
    struct item item = fixture_item(9);
    struct orders_row rows[3];
    fixture_rows(rows, 3);
    fixture_place(item, rows, 3);
    struct orders_command paid = command_of(&rows[0], "in-time");
    assert_int_equal(pay(item, &paid, 1, false), 0);
    struct orders_unsettled ends[2];
    struct ctx ctx = fixture_ctx(60000000);
    int n = 2;
    int64_t now = clock_wall_us() / 1000;
    assert_int_equal(
        fixture_orders->ops->expire(fixture_orders, &ctx, item, now - 60000, 1000, ends, &n), 0);
    assert_int_equal(n, 0);
    n = 1;
    assert_int_equal(
        fixture_orders->ops->expire(fixture_orders, &ctx, item, now + 60000, 1000, ends, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(ends[0].verdict.state, VERDICT_CANCELLED);
    assert_int_equal(ends[0].verdict.reason, REASON_EXPIRED);
    assert_true(ends[0].give_back);
    assert_true(item_eq(ends[0].item, item));
    assert_true(ends[0].outbox_id > 0);
    n = 2;
    assert_int_equal(
        fixture_orders->ops->expire(fixture_orders, &ctx, item, now + 60000, 1000, ends, &n), 0);
    assert_int_equal(n, 1);
    struct orders_inventory inv;
    assert_int_equal(fixture_orders->ops->inventory(fixture_orders, &ctx, item, &inv), 0);
    assert_int_equal(inv.sold, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel), cmocka_unit_test(test_pay),    cmocka_unit_test(test_park),
        cmocka_unit_test(test_parked), cmocka_unit_test(test_expire),
    };
    return cmocka_run_group_tests(tests, fixture_port_setup, fixture_port_teardown);
}
