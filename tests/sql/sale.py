"""One item, its messages and its books, for the tests of the SQL functions."""
import itertools
import uuid
from collections import namedtuple

import psycopg

Message = namedtuple("Message", "message request reservation user order created_ms epoch seq")
Result = namedtuple("Result", "outcome state reason give_back other_order other_reservation other_request outbox")

CREATED, KNOWN, REJECTED, AGAIN, QUARANTINED = range(5)
_numbers = itertools.count(1)


def ident():
    return uuid.uuid4()


class Sale:
    def __init__(self, database, connection):
        self.database = database
        self.c = connection
        self.activity, self.sku = next(_numbers) + 1000, 2001

    def item(self, total):
        """A new item."""
        self.activity = next(_numbers) + 1000
        self.c.execute("INSERT INTO seckill_inventory (activity_id, sku_id, total_stock) VALUES (%s, %s, %s)",
                       (self.activity, self.sku, total))
        self.c.execute("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind) "
                       "SELECT gen_random_uuid(), %s, %s, %s, 'TOTAL' WHERE %s > 0", (self.activity, self.sku, total, total))
        return self

    def message(self, **fields):
        n = next(_numbers)
        return Message(ident(), ident(), ident(), 3_000_000 + n, 900_000_000 + n, 1_700_000_000_000 + n, 1, n)._replace(**fields)

    def messages(self, n):
        return [self.message() for _ in range(n)]

    def place(self, messages, connection=None):
        columns = [list(c) for c in zip(*messages)] or [[]] * 8
        rows = (connection or self.c).execute(
            "SELECT * FROM seckill_place(%s, %s, %s::uuid[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], "
            "%s::bigint[], %s::bigint[], %s::bigint[])", (self.activity, self.sku, *columns)).fetchall()
        if messages and [r[0] for r in rows] == [0]:  # one row for all
            _, *all_of_them, _, told = rows[0]
            assert len(told) == 4 + len(messages)
            rows = [(i, *all_of_them, outbox) for i, outbox in enumerate(told[4:], 1)]
        assert sorted(r[0] for r in rows) == list(range(1, len(messages) + 1))
        return [Result(*r[1:9]) for r in sorted(rows, key=lambda r: r[0])]

    def void(self, m, reason="VOID", connection=None):
        """(voided, status, state, reason, order_id, give_back)"""
        return (connection or self.c).execute(
            "SELECT voided, status, state, reason, order_id, give_back FROM seckill_void(%s, %s, %s, %s, %s, %s, %s, %s)",
            (self.activity, self.sku, m.message, m.request, m.reservation, m.user, m.order, reason)).fetchone()

    def quarantine(self, m, body=b"{}", reason="broken"):
        return self.c.execute("SELECT seckill_quarantine(%s, %s, %s, %s, %s, %s, %s, '1-0', %s, %s, 8)",
                              (self.activity, self.sku, m.message, m.request, m.reservation, m.user, m.order, body,
                               reason)).fetchone()[0]

    def cancel(self, m):
        """As the cancel flow will: order, stock and ledger in one transaction."""
        with self.c.transaction():
            done = self.c.execute("UPDATE orders SET status = 'CANCELLED' WHERE order_id = %s AND status = 'CREATED'", (m.order,))
            assert done.rowcount == 1
            self.c.execute("UPDATE seckill_inventory SET sold_stock = sold_stock - 1 WHERE activity_id = %s AND sku_id = %s",
                           (self.activity, self.sku))
            self.c.execute("INSERT INTO stock_ledger VALUES (%s, %s, %s, %s, clock_timestamp(), 1, 'CANCEL')",
                           (m.reservation, self.activity, self.sku, m.order))

    def scalar(self, sql, *args):
        return self.c.execute(sql, args).fetchone()[0]

    def inbox(self, m):
        return self.c.execute("SELECT status, last_error_code, order_id FROM consumer_inbox WHERE message_id = %s",
                              (m.message,)).fetchone()

    def sold(self):
        return self.scalar("SELECT sold_stock FROM seckill_inventory WHERE activity_id = %s AND sku_id = %s", self.activity, self.sku)

    def books(self):
        """Everything that a redelivery may not change."""
        item = (self.activity, self.sku)
        return self.c.execute(
            "SELECT (SELECT count(*) FROM orders WHERE (activity_id, sku_id) = (%s, %s)), "
            "(SELECT sold_stock FROM seckill_inventory WHERE (activity_id, sku_id) = (%s, %s)), "
            "(SELECT count(*) FROM stock_ledger WHERE (activity_id, sku_id) = (%s, %s)), "
            "(SELECT count(*) FROM outbox WHERE (activity_id, sku_id) = (%s, %s)), "
            "(SELECT count(*) FROM consumer_inbox WHERE (activity_id, sku_id) = (%s, %s))", item * 5).fetchone()

    def audit(self):
        """I1, I2, I4, I5 as far as PostgreSQL alone can tell; the number of active orders."""
        item = (self.activity, self.sku)
        one = self.c.execute(
            "SELECT i.total_stock, i.sold_stock, "
            "(SELECT count(*) FROM orders o WHERE (o.activity_id, o.sku_id) = (i.activity_id, i.sku_id) AND o.status IN ('CREATED', 'PAYING', 'PAID')), "
            "(SELECT COALESCE(sum(delta), 0) FROM stock_ledger l WHERE (l.activity_id, l.sku_id) = (i.activity_id, i.sku_id)) "
            "FROM seckill_inventory i WHERE (activity_id, sku_id) = (%s, %s)", item).fetchone()
        total, sold, active, free = one
        assert sold == active <= total
        assert free == total - sold, "the ledger's sum is what is free"
        assert self.c.execute("SELECT user_id FROM orders WHERE (activity_id, sku_id) = (%s, %s) AND status IN ('CREATED', 'PAYING', 'PAID') "
                              "GROUP BY user_id HAVING count(*) > 1", item).fetchall() == []
        # each message has one inbox row and one word to Redis; each order one message that made it
        assert self.c.execute(
            "SELECT i.message_id, i.status, count(o.outbox_id) FROM consumer_inbox i LEFT JOIN outbox o ON o.message_id = i.message_id "
            "AND o.event_type <> 'ORDER_CANCELLED' WHERE (i.activity_id, i.sku_id) = (%s, %s) AND i.status <> 'QUARANTINED' "
            "AND i.command IS NULL GROUP BY 1, 2 HAVING count(o.outbox_id) <> 1",
            item).fetchall() == []
        assert self.c.execute(
            "SELECT order_id FROM orders o WHERE (activity_id, sku_id) = (%s, %s) AND NOT EXISTS (SELECT FROM consumer_inbox i "
            "WHERE i.message_id = o.message_id AND i.status = 'COMPLETED' AND i.order_id = o.order_id)", item).fetchall() == []
        assert self.scalar("SELECT count(*) FROM consumer_inbox WHERE (activity_id, sku_id) = (%s, %s) AND status = 'PROCESSING'", *item) == 0
        return active

    def until_placed(self, messages, connection, attempts=50):
        """As a worker does: the same ids again after a conflict, and those that say AGAIN."""
        results = {}
        while messages:
            attempts -= 1
            assert attempts > 0
            try:
                got = self.place(messages, connection)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                self.deadlocks = getattr(self, "deadlocks", 0) + 1
                continue
            again = []
            for m, r in zip(messages, got):
                if r.outcome == AGAIN:
                    again.append(m)
                else:
                    results[m.message] = r
            messages = again
        return results
