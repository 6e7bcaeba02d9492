"""What happens to an order after its birth, for the tests of the lifecycle's functions."""
import time
import uuid
from collections import namedtuple

from sale import Sale, ident

Cancelled = namedtuple("Cancelled", "result reason fresh order reservation outbox")
Paid = namedtuple("Paid", "result reason fresh order")
Payment = namedtuple("Payment", "message payment user request reservation order accepted_ms")

MINUTE = 60_000
UNPAID_MS = 15 * MINUTE


def now_ms():
    return int(time.time() * 1000)


class Life(Sale):
    def cancel_id(self, m):
        """Rule 27."""
        return uuid.uuid5(uuid.NAMESPACE_OID, f"cancel{m.reservation}")

    def cancels(self, messages, connection=None, give_up=False, ids=None):
        n = len(messages)
        ids = ids or [self.cancel_id(m) for m in messages]
        rows = (connection or self.c).execute(
            "SELECT * FROM seckill_cancel(%s, %s, %s::uuid[], %s::bigint[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bytea[], %s)",
            (self.activity, self.sku, ids, [m.user for m in messages], [m.request for m in messages],
             [m.reservation for m in messages], [m.order for m in messages], [b"cancel"] * n, give_up)).fetchall()
        assert sorted(r[0] for r in rows) == list(range(1, n + 1))
        return [Cancelled(*r[1:]) for r in sorted(rows)]

    def cancel(self, m, connection=None, **options):
        return self.cancels([m], connection, **options)[0]

    def payment(self, m, accepted_ms=None, **fields):
        name = str(ident())
        p = Payment(uuid.uuid5(uuid.NAMESPACE_OID, name), name, m.user, m.request, m.reservation, m.order,
                    now_ms() if accepted_ms is None else accepted_ms)
        return p._replace(**fields)

    def pays(self, payments, connection=None, give_up=False):
        message, payment, user, request, reservation, order, accepted = [list(c) for c in zip(*payments)]
        rows = (connection or self.c).execute(
            "SELECT * FROM seckill_pay(%s, %s, %s::uuid[], %s::bigint[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bytea[], "
            "%s::text[], %s::bigint[], %s)",
            (self.activity, self.sku, message, user, request, reservation, order, [b"pay"] * len(payments), payment, accepted,
             give_up)).fetchall()
        assert sorted(r[0] for r in rows) == list(range(1, len(payments) + 1))
        return [Paid(*r[1:]) for r in sorted(rows, key=lambda r: r[0])]

    def pay(self, p, connection=None, **options):
        return self.pays([p], connection, **options)[0]

    def expire(self, connection=None, before_ms=None, most=100):
        """The orders that it closed; by default as if all were overdue."""
        cursor = (connection or self.c).execute(
            "SELECT order_id, event_type, state, reason, give_back, reservation_id FROM seckill_expire(%s, %s, %s, %s, %s)",
            (self.activity, self.sku, now_ms() + MINUTE if before_ms is None else before_ms, UNPAID_MS, most))
        rows = cursor.fetchall()
        assert all(r[1:5] == ("ORDER_CANCELLED", "CANCELLED", "EXPIRED", True) for r in rows)
        return [r[0] for r in rows]

    def total(self, to, seen=None, epoch=1, connection=None):
        """(result, total, sold); seen None: as it is."""
        c = connection or self.c
        item = (self.activity, self.sku)
        if seen is None:
            row = c.execute("SELECT total_stock FROM seckill_inventory WHERE (activity_id, sku_id) = (%s, %s)", item).fetchone()
            seen = row[0] if row else 0
        return c.execute("SELECT * FROM seckill_set_total(%s, %s, %s, %s, %s)", (*item, epoch, seen, to)).fetchone()

    def sweep(self, connection=None, give_up_ms=3_600_000, most=100):
        """Takes this item's parked commands: [(command, message_id, given_up)]."""
        rows = (connection or self.c).execute("SELECT command, message_id, given_up, activity_id FROM seckill_parked(%s, %s)",
                                              (most, give_up_ms)).fetchall()
        return [r[:3] for r in rows if r[3] == self.activity]

    def park(self, messages=(), payments=(), connection=None):
        """Commands that the queue may have lost: how many were not known."""
        c, parked = connection or self.c, 0
        if messages:
            parked += c.execute(
                "SELECT seckill_park(%s, %s, %s::uuid[], %s::bigint[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bytea[], %s::text[], "
                "%s::bigint[], 'ORDER_CANCEL_REQUESTED')",
                (self.activity, self.sku, [self.cancel_id(m) for m in messages], [m.user for m in messages],
                 [m.request for m in messages], [m.reservation for m in messages], [m.order for m in messages],
                 [b"cancel"] * len(messages), [""] * len(messages), [0] * len(messages))).fetchone()[0]
        if payments:
            message, payment, user, request, reservation, order, accepted = [list(c) for c in zip(*payments)]
            parked += c.execute(
                "SELECT seckill_park(%s, %s, %s::uuid[], %s::bigint[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bytea[], %s::text[], "
                "%s::bigint[], 'ORDER_PAY_REQUESTED')",
                (self.activity, self.sku, message, user, request, reservation, order, [b"pay"] * len(payments), payment,
                 accepted)).fetchone()[0]
        return parked

    def unclaim(self):
        self.c.execute("UPDATE parked_commands SET claimed_at = claimed_at - interval '2 seconds' WHERE claimed_at IS NOT NULL")

    def parked(self):
        """Of this item: (waiting, done)."""
        return self.c.execute("SELECT count(*) FILTER (WHERE done_at IS NULL), count(*) FILTER (WHERE done_at IS NOT NULL) "
                              "FROM parked_commands WHERE (activity_id, sku_id) = (%s, %s)", (self.activity, self.sku)).fetchone()

    def status(self, m):
        """(status, closed_reason)"""
        return self.c.execute("SELECT status, closed_reason FROM orders WHERE reservation_id = %s", (m.reservation,)).fetchone()

    def ledger(self, m):
        return self.c.execute("SELECT kind, delta FROM stock_ledger WHERE reservation_id = %s ORDER BY delta", (m.reservation,)).fetchall()

    def refund(self, p):
        """(payment's status, refund's reason)"""
        return self.c.execute("SELECT p.status, r.reason FROM payments p LEFT JOIN refunds r USING (payment_id) WHERE payment_id = %s",
                              (p.payment,)).fetchone()

    def find(self, m):
        """(state, reason, order_status, cancel) as query-api reads them."""
        return self.c.execute("SELECT state, reason, order_status, cancel FROM seckill_find_request(%s, %s, %s, %s)",
                              (self.activity, self.sku, m.user, m.request)).fetchone()

    def words(self, m):
        """What Redis is told of an order's end."""
        return self.c.execute("SELECT state, reason, give_back, order_id FROM outbox WHERE reservation_id = %s AND "
                              "event_type = 'ORDER_CANCELLED'", (m.reservation,)).fetchall()

    def audit(self):
        """And: each order that is over gave its unit back once and told so, each payment went one way; seed 000 §13.6."""
        active = super().audit()
        item = (self.activity, self.sku)

        def none(sql, *args):
            assert self.c.execute(sql, args or item).fetchall() == []

        none("SELECT o.order_id, o.status, count(l.*) FROM orders o LEFT JOIN stock_ledger l ON l.reservation_id = o.reservation_id "
             "AND l.delta > 0 WHERE (o.activity_id, o.sku_id) = (%s, %s) GROUP BY 1, 2 "
             "HAVING count(l.*) <> CASE WHEN o.status IN ('CANCELLED', 'CLOSED') THEN 1 ELSE 0 END")
        none("SELECT l.reservation_id FROM stock_ledger l LEFT JOIN orders o USING (order_id) WHERE (l.activity_id, l.sku_id) = (%s, %s) "
             "AND (l.kind = 'CANCEL' AND (o.status, o.closed_reason) IS DISTINCT FROM ('CANCELLED', 'CANCELLED') "
             "OR l.kind = 'EXPIRE' AND (o.status, o.closed_reason) IS DISTINCT FROM ('CLOSED', 'EXPIRED') "
             "OR l.kind NOT IN ('TOTAL', 'ORDER', 'CANCEL', 'EXPIRE'))")
        none("SELECT o.order_id, count(b.*) FROM orders o LEFT JOIN outbox b ON b.order_id = o.order_id AND b.event_type = 'ORDER_CANCELLED' "
             "AND b.state = 'CANCELLED' AND b.give_back AND b.reason = o.closed_reason AND b.reservation_id = o.reservation_id "
             "AND b.message_id = o.message_id WHERE (o.activity_id, o.sku_id) = (%s, %s) GROUP BY o.order_id, o.status "
             "HAVING count(b.*) <> CASE WHEN o.status IN ('CANCELLED', 'CLOSED') THEN 1 ELSE 0 END")
        none("SELECT o.order_id, o.status FROM orders o LEFT JOIN payments p ON (p.user_id, p.request_id) = (o.user_id, o.request_id) "
             "AND p.status = 'APPLIED' WHERE (o.activity_id, o.sku_id) = (%s, %s) GROUP BY 1, 2 "
             "HAVING count(p.*) <> CASE WHEN o.status = 'PAID' THEN 1 ELSE 0 END")
        none("SELECT p.payment_id FROM payments p LEFT JOIN refunds r USING (payment_id) WHERE (p.activity_id, p.sku_id) = (%s, %s) "
             "AND (p.status = 'REFUNDED') <> (r.payment_id IS NOT NULL)")
        none("SELECT p.payment_id FROM payments p WHERE (p.activity_id, p.sku_id) = (%s, %s) AND p.status = 'ACCEPTED' AND NOT EXISTS "
             "(SELECT FROM parked_commands k WHERE (k.user_id, k.request_id) = (p.user_id, p.request_id) AND k.done_at IS NULL)")
        none("SELECT k.message_id FROM parked_commands k LEFT JOIN consumer_inbox i USING (message_id) WHERE "
             "(k.activity_id, k.sku_id) = (%s, %s) AND (k.done_at IS NULL) = (i.result IS NOT NULL)")
        none("SELECT message_id FROM consumer_inbox WHERE (activity_id, sku_id) = (%s, %s) AND (command IS NULL) <> (result IS NULL)")
        none("SELECT activity_id, sku_id, user_id FROM orders WHERE %s > 0 AND %s > 0 AND status IN ('CREATED', 'PAYING', 'PAID') "
             "GROUP BY 1, 2, 3 HAVING count(*) > 1")
        none("SELECT activity_id, sku_id FROM seckill_inventory WHERE %s > 0 AND %s > 0 AND sold_stock > total_stock")
        return active
