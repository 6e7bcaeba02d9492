"""The audit has teeth: a real sale is audited clean; then each invariant is broken by hand in a copy of it, and the
audit must say so, under that invariant's name, with the offender's."""
import collections
import json
import shutil
import time
import uuid

import pytest

from ctl_system import System, wait_for

ITEM = ["--activity", 1, "--sku", 2001]
KEY = "sec:{1:2001}"
STOCK = 20


class Sale:
    """A finished sale, and copies of it to spoil."""

    def __init__(self, system):
        self.system = system
        self.history = f"{system.dir}/history"
        system.ctl("migrate")
        system.item(1, STOCK)
        system.api.start()
        system.worker.start()
        system.ctl("storm", *ITEM, "--buyers", 60, "--clicks", 2, "--api", system.url, "--history", self.history,
                   "--first-user", 100)
        system.ctl("audit", *ITEM, "--wait", "30s", "--history", self.history)
        # Nothing may repair what is broken below.
        system.worker.down()
        system.api.down()
        self.dirty = True  # what a test did to the stores is to be undone
        self._redis = system.redis.connect(decode_responses=True)
        self._raw = system.redis.connect()
        self.keys = {k: (self.raw.dump(k), self.raw.pexpiretime(k)) for k in self.raw.keys()}
        self.orders = system.sql("SELECT order_id, user_id, request_id::text, reservation_id::text, message_id::text "
                                 "FROM orders ORDER BY order_id")
        self.spoilt = f"{system.dir}/spoilt"
        self.observed = f"{system.dir}/observed"

    @property
    def redis(self):
        self.dirty = True
        return self._redis

    @property
    def raw(self):
        self.dirty = True
        return self._raw

    def fresh(self):
        shutil.copy(self.history, self.spoilt)
        if not self.dirty:
            return
        self.system.sql("DROP DATABASE IF EXISTS broken WITH (FORCE)", database="postgres")
        self.system.sql("CREATE DATABASE broken TEMPLATE sale", database="postgres")
        self.raw.flushall()
        for key, (value, expires) in self.keys.items():
            self.raw.restore(key, max(expires, 0), value, absttl=expires > 0)
        self.dirty = False

    def sql(self, statement, *args):
        self.dirty = True
        return self.system.sql(statement, *args, database="broken")

    def record(self, order):
        return f"{KEY}:reservation:{order[1]}:{order[2]}"

    def pend(self, order):
        self.redis.zadd(f"{KEY}:pending", {f"{order[1]}:{order[2]}": 1})
        self.redis.pexpireat(f"{KEY}:pending", self.redis.hget(f"{KEY}:meta", "expires_ms"))

    def lines(self, change):
        """Rewrites the history line by line; None drops a line."""
        kept = [change(json.loads(line)) for line in open(self.history)]
        with open(self.spoilt, "w") as f:
            f.writelines(json.dumps(line) + "\n" for line in kept if line)

    def state(self, order, since, t, state, **more):
        """A line of what the status call told; µs."""
        self.append({"type": "state", "user": order[1], "key": order[2], "since": since, "t": t, "status": 200, "state": state, **more})

    def seen(self, *lines):
        """What was seen of the programs; the first snapshot holds with the sale."""
        orders = STOCK
        with open(self.observed, "w") as f:
            for line in ({"type": "metrics", "program": "order-worker", "instance": "w-1", "life": "1", "final": True,
                          "values": {"seckill_order_created_total": orders, "seckill_mq_inflight_messages": 3,
                                     'seckill_pg_tx_duration_seconds_count{outcome="committed"}': 10, "process_threads": 4,
                                     'seckill_worker_tx_retries_total{error="40001"}': 1}},
                         {"type": "metrics", "program": "seckill-api", "instance": "a-1", "life": "1", "final": True,
                          "values": {"seckill_http_connections": 60, **self.answers()}}, *lines):
                f.write(json.dumps({"t": 1_700_000_000_000_000, **line}) + "\n")

    def answers(self):
        """What the API's counters say if they tell what the clients heard."""
        counts = collections.Counter(line["status"] for line in map(json.loads, open(self.history)) if line.get("status"))
        return {f'seckill_http_requests_total{{route="orders",status="{status}"}}': n for status, n in counts.items()}

    def watched(self, *flags, rc=1):
        """An audit with both files."""
        return self.system.json("audit", *ITEM, f"--pg.conninfo={self.system.conninfo('broken')}", "--history", self.spoilt,
                                "--metrics", self.observed, *flags, rc=rc)

    def append(self, *lines):
        with open(self.spoilt, "a") as f:
            for line in lines:
                f.write(json.dumps({"t": 2_000_000_000_000_000, "activity": 1, "sku": 2001, **line}) + "\n")

    def audit(self, history=True, rc=1):
        words = ["audit", *ITEM, f"--pg.conninfo={self.system.conninfo('broken')}"]
        return self.system.json(*words, *(["--history", self.spoilt] if history else []), rc=rc)


@pytest.fixture(scope="module")
def sale():
    with System() as system:
        yield Sale(system)


@pytest.fixture
def copy(sale):
    sale.fresh()
    return sale


def results(told, result):
    return {c["id"] for c in told["checks"] if c["result"] == result}


def broken(told):
    return {c["id"]: c["offenders"] for c in told["checks"] if c["result"] == "broken"}


def move(sale, units):
    """A movement that keeps the ledger's sum with what a test does to sold_stock."""
    sale.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind) "
             "VALUES (gen_random_uuid(), 1, 2001, %s, 'TOTAL')", units)


# ---------------------------------------------------------------- it holds

def test_a_sale_holds(copy):
    told = copy.audit(rc=0)
    assert told["ok"] and not broken(told)
    assert [c["id"] for c in told["checks"]] == [*(f"I{n}" for n in range(1, 12)), "seed-one-order", "seed-oversold",
                                                 "seed-inbox"]
    assert results(told, "skipped") == {"I8", "I9", "I10", "I11"}
    assert results(told, "ok") == {c["id"] for c in told["checks"]} - results(told, "skipped")
    counts = told["counts"]
    assert counts["orders"] == counts["sold"] == counts["completed"] == counts["accepted"] == STOCK
    assert (counts["free"], counts["pending"], counts["unsettled"]) == (0, 0, 0)
    out, _ = copy.system.ctl("audit", *ITEM, "--history", copy.history)
    assert out.endswith("audit of 1:2001: everything holds\n")


def test_with_everything_to_look_at_all_is_checked(copy):
    copy.seen({"type": "injected", "metric": "seckill_worker_tx_retries_total", "count": 1, "what": "a test"})
    told = copy.watched("--wait", "10s", "--sold-out", "--strict", rc=0)
    assert told["ok"] and results(told, "ok") == {c["id"] for c in told["checks"]}
    assert told["counts"]["buyers_asked"] == 60


def test_what_is_not_checked_is_not_ok(copy):
    """Without a history nobody knows what was invented; --strict makes that a failure."""
    told = copy.audit(history=False, rc=0)
    assert results(told, "skipped") == {"I6", "I8", "I9", "I10", "I11"}
    words = ["audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}", "--strict"]
    assert not copy.system.json(*words, rc=3)["ok"]


def test_dead_letters_are_told(copy):
    copy.sql("SELECT seckill_quarantine(1, 2001, NULL, NULL, NULL, NULL, NULL, '1-0', 'x', 'no JSON', 1)")
    assert copy.audit(rc=0)["counts"]["dead_letters"] == 1


# ---------------------------------------------------------------- each invariant, broken alone
# Each returns which checks must be broken, and a word that one of the offenders' names has.

def i1_sold_is_not_what_was_ordered(s):
    s.sql("UPDATE seckill_inventory SET sold_stock = sold_stock - 1")
    move(s, 1)
    return {"I1"}, "20 active orders, but sold_stock is 19"


def i1_oversold(s):
    s.sql("ALTER TABLE seckill_inventory DROP CONSTRAINT ck_inventory_sold_range")
    s.sql("UPDATE seckill_inventory SET sold_stock = 21")
    move(s, -1)
    return {"I1", "seed-oversold"}, "sold_stock 21"


def i2_two_active_orders(s):
    order = s.orders[0]
    s.sql("DROP INDEX uq_orders_active")
    s.sql("UPDATE orders SET user_id = %s WHERE order_id = %s", order[1], s.orders[1][0])
    return {"I2", "seed-one-order", "I4", "I5", "I6"}, f"user {order[1]}: active orders {order[0]}, {s.orders[1][0]}"


def i3_still_queued(s):
    order = s.orders[3]
    s.redis.hdel(s.record(order), "state", "rank")
    s.redis.hset(s.record(order), "status", "MQ_SENT")
    s.pend(order)
    return {"I3"}, f"user {order[1]}, request {order[2]}: is QUEUED"


def i3_accepted_and_gone(s):
    key = str(uuid.uuid4())
    s.append({"type": "invoke", "user": 9999, "key": key},
             {"type": "ok", "user": 9999, "key": key, "status": 202, "code": "ACCEPTED", "order_id": "77",
              "reservation_id": str(uuid.uuid4())})
    return {"I3"}, f"user 9999, request {key}: was accepted, and is nowhere"


def i4_no_ledger_row(s):
    s.sql("DELETE FROM stock_ledger WHERE order_id = %s", s.orders[4][0])
    move(s, -1)
    return {"I4"}, f"order {s.orders[4][0]}: its unit was not taken"


def i4_ledger_row_without_order(s):
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (gen_random_uuid(), 1, 2001, 4711, -1, 'ORDER')")
    move(s, 1)
    return {"I4"}, "for order 4711, which is not there"


def i4_two_units_for_one_reservation(s):
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (%s, 1, 2001, %s, -2, 'ORDER')", s.orders[5][3], s.orders[5][0])
    move(s, 2)
    return {"I4"}, f"reservation {s.orders[5][3]}: moved -2 units"


def i4_unit_of_an_active_order_came_back(s):
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (%s, 1, 2001, %s, 1, 'CANCEL')", s.orders[5][3], s.orders[5][0])
    move(s, -1)
    return {"I4"}, f"order {s.orders[5][0]} is CREATED: its unit came back 1 times"


def i4_two_orders_of_one_message(s):
    s.sql("UPDATE orders SET message_id = %s WHERE order_id = %s", s.orders[0][4], s.orders[1][0])
    return {"I4"}, f"message {s.orders[0][4]}: orders"


def i4_order_without_its_inbox_row(s):
    s.sql("DELETE FROM consumer_inbox WHERE message_id = %s", s.orders[6][4])
    return {"I4"}, f"message {s.orders[6][4]} is not completed"


def i4_inbox_row_without_order(s):
    message = str(uuid.uuid4())
    s.sql("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, "
          "sku_id, order_id, status) VALUES ('seckill-order-create-v1', %s, gen_random_uuid(), gen_random_uuid(), 5, 1, "
          "2001, 4711, 'COMPLETED')", message)
    return {"I4"}, f"message {message} is completed with order 4711"


def i4_told_twice(s):
    s.sql("INSERT INTO outbox (message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id, "
          "settled_at, give_back, event_type, state, reason) SELECT message_id, request_id, reservation_id, activity_id, "
          "sku_id, user_id, order_id, now(), false, 'ORDER_CREATED', 'SUCCEEDED', '' FROM orders WHERE order_id = %s",
          s.orders[7][0])
    return {"I4"}, f"message {s.orders[7][4]} was told 2 times"


def i4_never_told(s):
    s.sql("DELETE FROM outbox WHERE message_id = %s", s.orders[7][4])
    return {"I4"}, f"message {s.orders[7][4]} was told 0 times"


def i5_a_unit_too_many(s):
    s.redis.incr(f"{KEY}:stock")
    return {"I5"}, "the units do not add up: 21, not 20"


def i5_a_unit_lost(s):
    s.redis.hset(f"{KEY}:meta", "total", "21")
    return {"I5"}, "Redis sells 21 units, PostgreSQL 20"


def i5_ledger(s):
    move(s, 1)
    return {"I5"}, "the ledger says that 1 are free"


def i5_holder_is_not_in_buyers(s):
    s.redis.hdel(f"{KEY}:buyers", s.orders[8][1])
    return {"I5"}, f"user {s.orders[8][1]}, request {s.orders[8][2]}: holds a unit and is not in buyers"


def i5_buyer_without_a_unit(s):
    s.redis.hset(f"{KEY}:buyers", 5, f"{uuid.uuid4()} 4711 {uuid.uuid4()}")
    return {"I5"}, "user 5,"


def i5_buyer_of_another_reservation(s):
    other = str(uuid.uuid4())
    s.redis.hset(f"{KEY}:buyers", s.orders[8][1], f"{other} {s.orders[8][0]} {s.orders[8][2]}")
    return {"I5"}, f"with reservation {other}, which holds no unit"


def i5_nonsense_in_buyers(s):
    s.redis.hset(f"{KEY}:buyers", 5, "hello")
    return {"I5"}, "makes no sense: 5"


def i5_pending_for_ever(s):
    s.pend(s.orders[9])
    return {"I5"}, f"user {s.orders[9][1]}, request {s.orders[9][2]}: is in pending"


def i5_given_back_and_ordered(s):
    s.redis.hset(s.record(s.orders[10]), "status", "RELEASED")
    return {"I5"}, f"order {s.orders[10][0]} is active, its unit was given back"


def i5_unreadable(s):
    s.redis.hset(s.record(s.orders[10]), "status", "NONSENSE")
    return {"I5"}, f"user {s.orders[10][1]}, request {s.orders[10][2]}: the record in Redis cannot be read"


def i5_stray_key(s):
    s.redis.hset(f"{KEY}:reservation:me:mine", "a", "b")
    return {"I5"}, ":reservation:me:mine"


def i6_nobody_asked(s):
    s.lines(lambda line: None if line["user"] == s.orders[11][1] else line)
    return {"I6"}, f"order {s.orders[11][0]}, which nobody asked for"


def i6_told_another_reservation(s):
    other = str(uuid.uuid4())
    s.lines(lambda line: {**line, "reservation_id": other} if line.get("order_id") == str(s.orders[11][0])
            and line["type"] == "ok" else line)
    return {"I6"}, f"was told reservation {other}"


def i6_told_another_order(s):
    s.lines(lambda line: {**line, "order_id": "4711"} if line.get("order_id") == str(s.orders[11][0])
            and line["type"] == "ok" else line)
    return {"I6"}, "was told order 4711"


def i6_told_anothers_order(s):
    s.append({"type": "fail", "user": s.orders[1][1], "key": str(uuid.uuid4()), "status": 409,
              "code": "DUPLICATE_ORDER", "order_id": str(s.orders[2][0]), "reservation_id": s.orders[2][3]})
    return {"I6"}, f"was told to have order {s.orders[2][0]}, which is not theirs"


def i7_another_verdict(s):
    s.redis.hset(s.record(s.orders[12]), mapping={"state": "FAILED", "reason": "VOID"})
    return {"I7"}, f"request {s.orders[12][2]}: is FAILED VOID in Redis, SUCCEEDED"


def i7_another_reason(s):
    s.redis.hset(s.record(s.orders[12]), "reason", "EXPIRED")
    return {"I7"}, f"request {s.orders[12][2]}: is SUCCEEDED EXPIRED"


def i7_another_order(s):
    s.redis.hset(s.record(s.orders[12]), "order_id", "4711")
    return {"I7"}, "is order 4711 in Redis"


def i7_two_acceptances(s):
    s.append({"type": "invoke", "user": s.orders[13][1], "key": s.orders[13][2]},
             {"type": "ok", "user": s.orders[13][1], "key": s.orders[13][2], "status": 202, "code": "ACCEPTED",
              "order_id": "4711", "reservation_id": s.orders[13][3]})
    return {"I7"}, f"request {s.orders[13][2]}: two acceptances"


def i7_refused_after_acceptance(s):
    s.append({"type": "invoke", "user": s.orders[13][1], "key": s.orders[13][2]},
             {"type": "fail", "user": s.orders[13][1], "key": s.orders[13][2], "status": 409, "code": "SOLD_OUT"})
    return {"I7"}, f"request {s.orders[13][2]}: was refused after it was accepted"


def i3_told_two_ends(s):
    s.state(s.orders[3], 10, 20, "SUCCEEDED")
    s.state(s.orders[3], 10, 20, "REJECTED", reason="ONE_USER_ONE_ORDER")
    return {"I3"}, f"user {s.orders[3][1]}, request {s.orders[3][2]}: was told more than one end"


def i3_told_another_end(s):
    s.state(s.orders[3], 10, 20, "FAILED", reason="VOID")
    return {"I3"}, f"user {s.orders[3][1]}, request {s.orders[3][2]}: was told another end than SUCCEEDED"


def i3_failed_and_cancelled(s):
    s.state(s.orders[3], 10, 20, "FAILED", reason="VOID")
    s.state(s.orders[3], 30, 40, "CANCELLED", reason="CANCELLED")
    return {"I3", "I7"}, "was told that it failed, and that it is CANCELLED"


def i3_not_found_after_its_acceptance(s):
    order = s.orders[3]
    s.append({"type": "state", "user": order[1], "key": order[2], "since": 2_000_000_000_000_000, "status": 404})
    return {"I3"}, f"user {order[1]}, request {order[2]}: was accepted, and not found later"


def i3_a_command_that_nobody_runs(s):
    order = s.orders[3]
    s.sql("UPDATE consumer_inbox SET processed_at = now() - interval '1 hour'")
    s.sql("INSERT INTO parked_commands (message_id, command, activity_id, sku_id, user_id, request_id, body, parked_at) VALUES "
          "(gen_random_uuid(), 'ORDER_CANCEL_REQUESTED', 1, 2001, %s, %s, 'x', now() - interval '1 hour')", order[1], order[2])
    return {"I3"}, f"user {order[1]}, request {order[2]}: ORDER_CANCEL_REQUESTED"


def i4_paid_by_nobody(s):
    s.sql("UPDATE orders SET status = 'PAID' WHERE order_id = %s", s.orders[6][0])
    return {"I4"}, f"order {s.orders[6][0]} is PAID by 0 payments"


def pay(s, order, status):
    s.sql("INSERT INTO payments (payment_id, order_id, activity_id, sku_id, user_id, request_id, status, accepted_at) VALUES "
          "('pay-1', %s, 1, 2001, %s, %s, %s, now())", order[0], order[1], order[2], status)


def i4_paid_for_nothing(s):
    pay(s, s.orders[6], "APPLIED")
    return {"I4"}, f"payment pay-1 is APPLIED, order {s.orders[6][0]} is not PAID"


def i4_never_refunded(s):
    pay(s, s.orders[6], "REFUNDED")
    return {"I4"}, "payment pay-1 is REFUNDED, without a refund"


def i7_a_rank_fell(s):
    s.state(s.orders[13], 10, 20, "SUCCEEDED")
    s.state(s.orders[13], 30, 40, "PROCESSING")
    return {"I7"}, f"user {s.orders[13][1]}, request {s.orders[13][2]}: was told a state of rank 3"


def i7_told_more_than_is(s):
    s.state(s.orders[13], 10, 20, "SUCCEEDED")
    s.state(s.orders[13], 30, 40, "CANCELLED", reason="CANCELLED")
    return {"I7"}, f"user {s.orders[13][1]}, request {s.orders[13][2]}: was told a state of rank 4, is SUCCEEDED now"


def i3_settled_and_never_told(s):
    s.sql("UPDATE outbox SET settled_at = NULL, created_at = now() - interval '1 hour' WHERE message_id = %s",
          s.orders[3][4])
    return {"I3"}, f"message {s.orders[3][4]} is settled in PostgreSQL, Redis was not told for 360"


def of_message(statement):
    """A change to a row of the first order's message."""
    def spoil(s):
        s.sql(statement, s.orders[0][4])
        return {"I4"}, s.orders[0][4]
    return spoil


i4_inbox_of_another_user = of_message("UPDATE consumer_inbox SET user_id = 5 WHERE message_id = %s")
i4_inbox_of_another_request = of_message("UPDATE consumer_inbox SET request_id = gen_random_uuid() WHERE message_id = %s")
i4_inbox_of_another_reservation = of_message("UPDATE consumer_inbox SET reservation_id = gen_random_uuid() "
                                                "WHERE message_id = %s")
i4_inbox_names_another_order = of_message(
    "UPDATE consumer_inbox SET other_order_id = (SELECT max(order_id) FROM orders) WHERE message_id = %s")
i4_inbox_names_no_order = of_message("UPDATE consumer_inbox SET other_order_id = 4711 WHERE message_id = %s")
i4_told_failed = of_message("UPDATE outbox SET state = 'FAILED' WHERE message_id = %s")
i4_told_a_reason = of_message("UPDATE outbox SET state = 'FAILED', reason = 'VOID' WHERE message_id = %s")
i4_told_to_give_back = of_message("UPDATE outbox SET give_back = true WHERE message_id = %s")
i4_told_another_user = of_message("UPDATE outbox SET user_id = 5 WHERE message_id = %s")
i4_told_another_request = of_message("UPDATE outbox SET request_id = gen_random_uuid() WHERE message_id = %s")
i4_told_another_reservation = of_message("UPDATE outbox SET reservation_id = gen_random_uuid() WHERE message_id = %s")
i4_told_another_order = of_message("UPDATE outbox SET order_id = order_id + 1 WHERE message_id = %s")
i4_told_another_kind = of_message("UPDATE outbox SET event_type = 'RESERVATION_SETTLED', give_back = true "
                                     "WHERE message_id = %s")
i4_told_an_order_instead = of_message(
    "UPDATE outbox SET other_order_id = order_id, other_reservation_id = reservation_id WHERE message_id = %s")


def i4_completed_with_anothers_order(s):
    message = str(uuid.uuid4())
    s.sql("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, "
          "sku_id, order_id, status) VALUES ('seckill-order-create-v1', %s, gen_random_uuid(), gen_random_uuid(), 5, 1, "
          "2001, %s, 'COMPLETED')", message, s.orders[0][0])
    return {"I4"}, f"message {message} is completed with order {s.orders[0][0]}, which is of another request"


def i4_told_of_no_message(s):
    message = str(uuid.uuid4())
    s.sql("INSERT INTO outbox (message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id, settled_at, "
          "give_back, event_type, state, reason) VALUES (%s, gen_random_uuid(), gen_random_uuid(), 1, 2001, 5, 4711, "
          "now(), true, 'RESERVATION_REJECTED', 'FAILED', 'VOID')", message)
    return {"I4"}, f"message {message}: outbox row"


def i4_told_cancelled(s):
    s.sql("INSERT INTO outbox (message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id, settled_at, "
          "give_back, event_type, state, reason) SELECT gen_random_uuid(), request_id, reservation_id, activity_id, "
          "sku_id, user_id, order_id, now(), true, 'ORDER_CANCELLED', 'CANCELLED', 'CANCELLED' FROM orders "
          "WHERE order_id = %s", s.orders[0][0])
    return {"I4"}, f"order {s.orders[0][0]}: outbox row"


def i4_unit_of_no_order_came_back(s):
    reservation = str(uuid.uuid4())
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (%s, 1, 2001, 4711, 1, 'CANCEL')", reservation)
    move(s, -1)
    return {"I4"}, f"reservation {reservation}: the ledger gave a unit back as CANCEL of order 4711"


def i5_transferred_for_nobody(s):
    transfer = str(uuid.uuid4())
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind) "
          "VALUES (%s, 1, 2001, 1, 'TRANSFER'), (%s, 1, 2001, -1, 'TRANSFER')", transfer, transfer)
    return {"I5"}, f"reservation {transfer}: 1 units moved as TRANSFER, for nobody"


def i5_buyer_of_another_order(s):
    s.redis.hset(f"{KEY}:buyers", s.orders[8][1], f"{s.orders[8][3]} 4711 {s.orders[8][2]}")
    return {"I5"}, f"request {s.orders[8][2]}: buyers has them with order 4711, it is order {s.orders[8][0]}"


def i5_buyer_of_another_request(s):
    other = str(uuid.uuid4())
    s.redis.hset(f"{KEY}:buyers", s.orders[8][1], f"{s.orders[8][3]} {s.orders[8][0]} {other}")
    return {"I5"}, f"user {s.orders[8][1]}, request {other}: buyers has them"


def i5_no_sequence(s):
    s.redis.hdel(s.record(s.orders[10]), "seq")
    return {"I5"}, f"request {s.orders[10][2]}: the record in Redis cannot be read"


def i6_answered_without_asking(s):
    line = next(line for line in map(json.loads, open(s.history)) if line["type"] == "ok")
    s.lines(lambda x: None if x["type"] == "invoke" and (x["user"], x["key"]) == (line["user"], line["key"]) else x)
    return {"I6"}, f"user {line['user']}, request {line['key']}: was answered more often than it asked"


def i6_answered_twice(s):
    line = next(line for line in map(json.loads, open(s.history)) if line["type"] == "ok")
    s.append(line)
    return {"I6"}, f"user {line['user']}, request {line['key']}: was answered more often than it asked"


def i7_refused_and_ordered(s):
    order = s.orders[13]
    s.lines(lambda x: {**x, "type": "fail", "status": 409, "code": "SOLD_OUT"}
            if x["type"] == "ok" and x["key"] == order[2] else x)
    return {"I7"}, f"request {order[2]}: was refused each time, and has order {order[0]}"


def of_record(word, **fields):
    def spoil(s):
        s.redis.hset(s.record(s.orders[14]), mapping=fields)
        return {"I7"}, f"request {s.orders[14][2]}: {word}"
    return spoil


i7_message_of_nobody = of_record("its message is 01a22d53-af66-7094-8fe0-bc69e4780bbc in Redis",
                                    message_id="01a22d53-af66-7094-8fe0-bc69e4780bbc")
i7_rank_too_low = of_record("is SUCCEEDED in Redis, with another state's rank", rank=1)
i7_rank_too_high = of_record("is SUCCEEDED in Redis, with another state's rank", rank=4)
i7_another_epoch = of_record("is of epoch 9, the item of 1", epoch=9)


def i7_record_for_ever(s):
    s.redis.persist(s.record(s.orders[14]))
    return {"I7"}, f"request {s.orders[14][2]}: never expires"


def i7_record_ends_early(s):
    s.redis.expire(s.record(s.orders[14]), 3600)
    return {"I7"}, f"request {s.orders[14][2]}: expires at"


def i7_buyers_for_ever(s):
    s.redis.persist(f"{KEY}:buyers")
    return {"I7"}, "the key buyers: never expires"


def of_meta(word, **fields):
    def spoil(s):
        s.redis.hset(f"{KEY}:meta", mapping=fields)
        return {"I7"}, word
    return spoil


i7_meta_epoch = of_meta("the item is of epoch 2 in Redis, 1 in PostgreSQL", epoch=2)
i7_meta_seq = of_meta("Redis is at seq 0, and gave seq", seq=0)
i7_meta_starts = of_meta("starts is 1999999999999 ms in Redis", starts_ms=1999999999999)
i7_meta_ends = of_meta("ends is 1999999999999 ms in Redis", ends_ms=1999999999999)
i7_meta_expires = of_meta("expires is 1999999999999 ms in Redis", expires_ms=1999999999999)


def i7_closed_in_postgres_only(s):
    s.sql("UPDATE activities SET closed_at = now()")
    return {"I7"}, "closed in PostgreSQL and not in Redis"


def i7_paused_in_postgres_only(s):
    s.sql("UPDATE activities SET paused_at = now()")
    return {"I7"}, "operators paused the item in PostgreSQL, and Redis sells"


def i7_never_opened(s):
    s.sql("UPDATE activities SET opened_at = NULL")
    return {"I7"}, "the item was never opened in PostgreSQL, and Redis sells"


def i4_quarantined_and_not_in_the_list(s):
    """Nobody could replay it; its end comes only with the sale's."""
    message = str(uuid.uuid4())
    s.sql("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, sku_id, status) "
          "SELECT 'seckill-order-create-v1', %s, gen_random_uuid(), gen_random_uuid(), 5, 1, 2001, 'QUARANTINED'", message)
    return {"I4"}, f"message {message} is in quarantine, and no dead letter"


def unanswered(s):
    """The key of a request that was made and got no answer."""
    key = str(uuid.uuid4())
    s.append({"type": "invoke", "user": 9999, "key": key, "t": 1_000_000_000_000_000},
             {"type": "unknown", "user": 9999, "key": key, "t": 1_000_000_000_000_000})
    return key


def i3_told_and_nowhere(s):
    """The answer to its POST was lost; but the status call knew it."""
    key = unanswered(s)
    s.state(("", 9999, key), 1, 2, "QUEUED")
    return {"I3"}, f"user 9999, request {key}: was told a state, and is nowhere now"


def i3_told_an_end_and_nowhere(s):
    key = unanswered(s)
    s.state(("", 9999, key), 1, 2, "SUCCEEDED")
    return {"I3"}, f"user 9999, request {key}: was told an end, and is nowhere now"


def i3_lost_without_a_loss(s):
    """LOST_RESERVATION is said of an epoch that is over (rule 37); this item never had another."""
    key = str(uuid.uuid4())
    s.append({"type": "invoke", "user": 9999, "key": key, "t": 1_000_000_000_000_000},
             {"type": "ok", "user": 9999, "key": key, "status": 202, "code": "ACCEPTED", "order_id": "77",
              "reservation_id": str(uuid.uuid4()), "t": 1_000_000_000_000_000})
    s.state(("", 9999, key), 1, 2, "FAILED", reason="LOST_RESERVATION")
    return {"I3"}, f"user 9999, request {key}: was accepted, and is nowhere now"


def i7_postgres_epoch(s):
    s.sql("UPDATE seckill_inventory SET epoch = 2")
    return {"I7"}, "the item is of epoch 1 in Redis, 2 in PostgreSQL"


def seed_inbox(s):
    message = str(uuid.uuid4())
    s.sql("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, "
          "sku_id, status, received_at) VALUES ('seckill-order-create-v1', %s, gen_random_uuid(), gen_random_uuid(), 5, "
          "1, 2001, 'PROCESSING', now() - interval '1 hour')", message)
    return {"seed-inbox"}, message


CASES = {name: value for name, value in list(globals().items()) if name.startswith(("i1_", "i2_", "i3_", "i4_", "i5_",
                                                                                    "i6_", "i7_", "seed_"))}


@pytest.mark.parametrize("spoil", CASES.values(), ids=CASES)
def test_what_is_broken_is_named(copy, spoil):
    expected, word = spoil(copy)
    found = broken(copy.audit())
    assert set(found) == expected
    assert any(word in name for names in found.values() for name in names), found


# What was seen of the programs that is wrong: a line more, which check names it, and how.
WORKER = {"type": "metrics", "program": "order-worker", "instance": "w-2", "life": "7", "final": False}
API = {"type": "metrics", "program": "seckill-api", "instance": "a-2", "life": "7", "final": True}
SEEN = {
    "i8_messages": ({**WORKER, "values": {"seckill_mq_inflight_messages": 769}}, "I8",
                    "order-worker w-2 (life 7): seckill_mq_inflight_messages was 769, at most 768"),
    "i8_threads": ({**WORKER, "values": {"process_threads": 6}}, "I8", "process_threads was 6, at most 5"),
    "i8_sockets": ({**API, "values": {"seckill_http_connections": 10001}}, "I8", "seckill_http_connections was 10001"),
    "i8_memory": ({**API, "values": {"process_resident_memory_bytes": 3e9}}, "I8", "process_resident_memory_bytes was 3000000000"),
    "i9_retries": ({**WORKER, "values": {'seckill_worker_tx_retries_total{error="40001"}': 80,
                                         'seckill_pg_tx_duration_seconds_count{outcome="committed"}': 1000}}, "I9",
                   "order-worker w-2 (life 7): 80 retries of 1000 transactions, at most 5 %"),
    "i9_attempts": ({**WORKER, "values": {'seckill_worker_tx_retries_total{error="40001"}': 9,
                                          'seckill_pg_tx_duration_seconds_count{outcome="committed"}': 12}}, "I9",
                    "more than 3 attempts each"),
    "i9_publishes": ({**API, "values": {"seckill_mq_publish_retries_total": 3, 'seckill_mq_publish_total{result="accepted"}': 2}},
                     "I9", "more than two attempts each"),
    "i11_injected": ({"type": "injected", "metric": "seckill_pg_commit_unknown_total", "count": 2, "what": "answers dropped"}, "I11",
                     "seckill_pg_commit_unknown_total is 0, not exactly 2: answers dropped"),
    "i11_at_least": ({"type": "injected", "metric": "seckill_order_created_total", "program": "order-worker", "count": 21,
                      "is": "at_least", "what": "x"}, "I11", "is 20, not at least 21"),
    "i11_answers": ({**API, "values": {'seckill_http_requests_total{route="orders",status="202"}': 1}}, "I11",
                    'seckill_http_requests_total{route="orders",status="202"} is 21'),
    "i11_created": ({**WORKER, "final": True, "values": {"seckill_order_created_total": 1}}, "I11",
                    "seckill_order_created_total is 21, PostgreSQL has 20 orders"),
    # One transaction of 256 messages, whose answer was lost, does not explain 257 that nobody counted.
    "i11_not_created": ({**WORKER, "final": True, "values": {"seckill_order_created_total": -257, "seckill_pg_commit_unknown_total": 1}},
                        "I11", "seckill_order_created_total is -237, PostgreSQL has 20 orders"),
}


@pytest.mark.parametrize("case", SEEN)
def test_what_the_metrics_tell_is_named(copy, case):
    line, check, word = SEEN[case]
    copy.seen(line)
    found = broken(copy.watched("--max-memory", "2000"))
    assert set(found) == {check} and any(word in name for name in found[check]), found


def test_i10_all_must_be_sold_where_buyers_kept_asking(copy):
    order = copy.orders[0]
    copy.sql("UPDATE activities SET closed_at = NULL")
    copy.sql("SELECT seckill_cancel(1, 2001, ARRAY[gen_random_uuid()], ARRAY[%s]::bigint[], ARRAY[%s]::uuid[], ARRAY[%s]::uuid[], "
             "ARRAY[%s]::bigint[], ARRAY['x'::bytea])", order[1], order[2], order[3], order[0])
    copy.seen()
    assert not broken(copy.watched(rc=0))
    assert broken(copy.watched("--sold-out"))["I10"] == ["19 of 20 are sold, though 60 buyers asked for one"]


def test_i10_what_stays_in_the_queue_is_not_drained(copy):
    copy.raw.xadd(f"{KEY}:events", {"b": "{}"})
    found = broken(copy.system.json("audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}", "--wait", "300ms", rc=1))
    assert found == {"I10": ["not drained: 0 reservations unsettled, 0 rows Redis was not told, 1 messages in the queue"]}


def test_i10_the_time_since_the_last_fault(copy):
    """It is only judged by who saw the end."""
    copy.seen({"type": "fault", "what": "kill -9", "t": int(time.time() * 1e6) - 40_000_000})
    assert not broken(copy.watched("--wait", "5s", rc=0))
    fault = time.time() + 4  # the audit begins before that, however slow this machine is
    copy.seen({"type": "fault", "what": "kill -9", "t": int(fault * 1e6)})
    copy.raw.xadd(f"{KEY}:events", {"b": "{}"})
    p = copy.system.popen("audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}", "--wait", "60s", "--drain", "1s",
                          "--metrics", copy.observed, "--json")
    wait_for("the time to be over", lambda: time.time() > fault + 1.1)
    (_, ((name, _),)), = copy.raw.xreadgroup("seckill-order-create-v1", "a-test", {f"{KEY}:events": ">"})
    copy.raw.xack(f"{KEY}:events", "seckill-order-create-v1", name)
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 1
    assert "s after the last fault, at most 1" in broken(json.loads(out))["I10"][0]


def test_i10_a_backlog_that_is_not_known_is_unknown(copy):
    """Rule 26: unknown is not zero."""
    copy.raw.delete(f"{KEY}:events")
    copy.raw.set(f"{KEY}:events", "x", pxat=int(copy.redis.hget(f"{KEY}:meta", "expires_ms")))
    told = copy.system.json("audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}", "--wait", "300ms", rc=3)
    assert results(told, "unknown") == {"I10"} and not told["ok"]


def test_answers_that_nobody_heard_may_be_among_the_counted(copy):
    copy.append({"type": "invoke", "user": 9999, "key": str(uuid.uuid4())})
    copy.seen({**API, "values": {'seckill_http_requests_total{route="orders",status="202"}': 1}})
    assert not broken(copy.watched(rc=0))


def test_concurrent_polls_may_be_heard_in_any_order(copy):
    """The lower rank was asked for before the higher one was heard."""
    copy.state(copy.orders[13], 10, 40, "PROCESSING")
    copy.state(copy.orders[13], 15, 20, "SUCCEEDED")
    copy.audit(rc=0)


def test_what_an_epoch_took_with_it_is_no_fault(copy):
    """Rule 37: accepted before the epoch moved, gone since: the buyer hears LOST_RESERVATION."""
    key = str(uuid.uuid4())
    copy.append({"type": "invoke", "user": 9999, "key": key, "t": 1_000_000_000_000_000},
                {"type": "ok", "user": 9999, "key": key, "status": 202, "code": "ACCEPTED", "order_id": "77",
                 "reservation_id": str(uuid.uuid4()), "t": 1_000_000_000_000_000})
    assert set(broken(copy.audit())) == {"I3"}
    copy.sql("UPDATE seckill_inventory SET epoch = 2, epoch_at = now()")
    assert set(broken(copy.audit())) == {"I7"}  # Redis is still in the old epoch
    copy.state(("", 9999, key), 1, 2, "PROCESSING")
    assert set(broken(copy.audit())) == {"I7"}
    copy.state(("", 9999, key), 3, 4, "FAILED", reason="LOST_RESERVATION")
    assert set(broken(copy.audit())) == {"I7"}


def test_no_epoch_takes_with_it_what_had_an_end(copy):
    """Rules 36, 37: PostgreSQL had decided that; a rebuild loses none of it."""
    key = str(uuid.uuid4())
    copy.sql("UPDATE seckill_inventory SET epoch = 2, epoch_at = now()")
    copy.append({"type": "invoke", "user": 9999, "key": key, "t": 1_000_000_000_000_000},
                {"type": "ok", "user": 9999, "key": key, "status": 202, "code": "ACCEPTED", "order_id": "77",
                 "reservation_id": str(uuid.uuid4()), "t": 1_000_000_000_000_000})
    copy.state(("", 9999, key), 1, 2, "SUCCEEDED")
    assert broken(copy.audit())["I3"] == [f"user 9999, request {key}: was told an end, and is nowhere now (order 77)"]


def test_a_lost_order_is_seen_from_all_sides(copy):
    order = copy.orders[0]
    for table, column, value in (("orders", "order_id", order[0]), ("consumer_inbox", "message_id", order[4]),
                                 ("outbox", "message_id", order[4]), ("stock_ledger", "order_id", order[0])):
        copy.sql(f"DELETE FROM {table} WHERE {column} = %s", value)
    copy.sql("UPDATE seckill_inventory SET sold_stock = sold_stock - 1")
    found = broken(copy.audit())
    assert set(found) == {"I5", "I7"}
    assert any(order[3] in name for name in found["I5"])
    assert any("not settled in PostgreSQL" in name for name in found["I7"])


def test_no_more_than_twenty_are_named_and_all_are_counted(copy):
    for i in range(30):
        copy.redis.hset(f"{KEY}:buyers", 10_000_000 + i, f"{uuid.uuid4()} 4711 {uuid.uuid4()}")
    i5, = [c for c in copy.audit()["checks"] if c["id"] == "I5"]
    assert i5["broken"] == 30 and len(i5["offenders"]) == 20
    out, _ = copy.system.ctl("audit", *ITEM, rc=1)
    assert "… and 10 more" in out and out.endswith("audit of 1:2001: BROKEN\n")


# ---------------------------------------------------------------- what is no fault

def test_what_redis_has_not_heard_is_no_fault_and_is_waited_for(copy):
    """A cancelled order whose settle is still to come: the unit is on its way back."""
    order = copy.orders[0]
    copy.sql("UPDATE orders SET status = 'CANCELLED', closed_reason = 'CANCELLED' WHERE order_id = %s", order[0])
    copy.sql("UPDATE seckill_inventory SET sold_stock = sold_stock - 1")
    copy.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
             "VALUES (%s, 1, 2001, %s, 1, 'CANCEL')", order[3], order[0])
    (outbox,), = copy.sql(
        "INSERT INTO outbox (message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id, give_back, "
        "event_type, state, reason) VALUES (%s, %s, %s, 1, 2001, %s, %s, true, 'ORDER_CANCELLED', 'CANCELLED', "
        "'CANCELLED') RETURNING outbox_id", order[4], order[2], order[3], order[1], order[0])
    told = copy.audit(rc=0)
    assert told["counts"]["unsettled"] == 1
    assert any("on their way back 1 = 20" in c["note"] for c in told["checks"])

    # Told as settled, and Redis never heard it: both are at fault.
    copy.sql("UPDATE outbox SET settled_at = now() WHERE outbox_id = %s", outbox)
    assert set(broken(copy.audit())) == {"I5", "I7"}

    # Settled: the key may be refused after its acceptance, and the unit is free.
    copy.redis.hset(copy.record(order), mapping={"status": "RELEASED", "state": "CANCELLED", "reason": "CANCELLED",
                                                 "rank": "4"})
    copy.redis.hdel(f"{KEY}:buyers", order[1])
    copy.redis.incr(f"{KEY}:stock")
    copy.append({"type": "invoke", "user": order[1], "key": order[2]},
                {"type": "fail", "user": order[1], "key": order[2], "status": 409, "code": "REQUEST_CLOSED"})
    assert copy.audit(rc=0)["counts"]["free"] == 1


def test_what_was_not_told_when_the_wait_is_over_is_a_fault(copy):
    """Without --wait it may still be on its way."""
    message = copy.orders[0][4]
    copy.sql("UPDATE outbox SET settled_at = NULL, created_at = now() WHERE message_id = %s", message)
    words = ["audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}"]
    assert copy.system.json(*words)["counts"]["unsettled"] == 1
    assert message in broken(copy.system.json(*words, "--wait", "300ms", rc=1))["I3"][0]


def test_each_outcome_of_the_order_function_is_no_fault(copy):
    """Sold out in PostgreSQL, the same buyer again, the same key again, a void: told as each was decided."""
    order, rows = copy.orders[0], []

    def place(user, request):
        reservation, message, number = str(uuid.uuid4()), str(uuid.uuid4()), 9_000_000_000 + len(rows)
        rows.append(copy.sql("SELECT state, reason FROM seckill_place(1, 2001, ARRAY[%s]::uuid[], ARRAY[%s]::uuid[], "
                             "ARRAY[%s]::uuid[], ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], ARRAY[0]::bigint[], "
                             "ARRAY[1]::bigint[], ARRAY[1]::bigint[])", message, request, reservation, user, number)[0])
        return message, request, reservation, user, number

    place(77, str(uuid.uuid4()))
    place(order[1], str(uuid.uuid4()))
    place(order[1], order[2])
    copy.sql("SELECT * FROM seckill_void(1, 2001, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 78, 4711, 'VOID')")
    assert rows == [("SOLD_OUT", "PG_STOCK_EXHAUSTED"), ("REJECTED", "ONE_USER_ONE_ORDER"), ("SUCCEEDED", "")]
    copy.sql("UPDATE outbox SET settled_at = now()")
    told = copy.audit(history=False, rc=0)
    assert (told["counts"]["rejected"], told["counts"]["completed"]) == (3, 21)

    # One of them told otherwise.
    for event, change in (("RESERVATION_SETTLED", "give_back = false"), ("RESERVATION_REJECTED", "reason = 'CLOSED'"),
                          ("RESERVATION_REJECTED", "give_back = NOT give_back"),
                          ("RESERVATION_SETTLED", "other_reservation_id = gen_random_uuid()")):
        (outbox,), = copy.sql("SELECT min(outbox_id) FROM outbox WHERE event_type = %s", event)
        copy.sql("DROP TABLE IF EXISTS kept")
        copy.sql("CREATE TABLE kept AS SELECT * FROM outbox WHERE outbox_id = %s", outbox)
        copy.sql(f"UPDATE outbox SET {change} WHERE outbox_id = {outbox}")
        found = broken(copy.audit(history=False))
        assert set(found) == {"I4"} and f"outbox row {outbox} ({event})" in found["I4"][0]
        copy.sql("DELETE FROM outbox WHERE outbox_id = %s", outbox)
        copy.sql("INSERT INTO outbox OVERRIDING SYSTEM VALUE SELECT * FROM kept")
    copy.audit(history=False, rc=0)


def test_commands_have_inbox_rows_of_their_own(copy):
    """Rule 16. What a command came to is told by the order's outbox row, or by none; a message's is told once."""
    order = copy.orders[5]

    def cancel(user, request, reservation, number):
        return copy.sql("SELECT result FROM seckill_cancel(1, 2001, ARRAY[gen_random_uuid()], ARRAY[%s]::bigint[], "
                        "ARRAY[%s]::uuid[], ARRAY[%s]::uuid[], ARRAY[%s]::bigint[], ARRAY['x'::bytea], true)",
                        user, request, reservation, number)

    assert cancel(*order[1:4], order[0]) == [("CANCELLED",)]
    assert cancel(*order[1:4], order[0]) == [("ALREADY",)]
    assert cancel(79, str(uuid.uuid4()), str(uuid.uuid4()), 4711) == [("NOTHING",)]
    assert copy.sql("SELECT count(*) FROM consumer_inbox WHERE command IS NOT NULL") == [(3,)]
    told = copy.audit(rc=0)
    assert (told["counts"]["completed"], told["counts"]["rejected"]) == (STOCK, 0)


def test_a_record_that_is_gone_is_no_fault(copy):
    """Rule 5: what PostgreSQL has is told from there."""
    copy.redis.delete(copy.record(copy.orders[0]))
    copy.audit(rc=0)


def test_quarantine_is_a_hold_and_not_a_fault(copy):
    """Rule 25: a message in quarantine keeps its unit until it is replayed or voided; nothing waits for it."""
    order = copy.orders[0]
    for table, column, value in (("orders", "order_id", order[0]), ("consumer_inbox", "message_id", order[4]),
                                 ("outbox", "message_id", order[4]), ("stock_ledger", "order_id", order[0])):
        copy.sql(f"DELETE FROM {table} WHERE {column} = %s", value)
    copy.sql("UPDATE seckill_inventory SET sold_stock = sold_stock - 1")
    copy.sql("SELECT seckill_quarantine(1, 2001, %s, %s, %s, %s, %s, '1-0', '{}', 'a test', 9)", order[4], order[2],
             order[3], order[1], order[0])
    copy.redis.hdel(copy.record(order), "state", "rank")
    copy.redis.hset(copy.record(order), "status", "MQ_SENT")
    copy.pend(order)
    told = copy.system.json("audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}", "--wait", "60s",
                            "--history", copy.spoilt)
    assert (told["counts"]["quarantined"], told["counts"]["dead_letters"]) == (1, 1)


def test_wait_ends_as_soon_as_nothing_is_on_its_way(copy):
    order = copy.orders[0]
    copy.pend(order)
    p = copy.system.popen("audit", *ITEM, "--wait", "60s")
    wait_for("the audit to look", lambda: copy.raw.info("commandstats").get("cmdstat_evalsha"))
    copy.redis.zrem(f"{KEY}:pending", f"{order[1]}:{order[2]}")
    assert p.wait(30) == 0


def test_wait_has_an_end(copy):
    order = copy.orders[0]
    copy.pend(order)
    copy.system.ctl("audit", *ITEM, "--wait", "300ms", rc=1)


# ---------------------------------------------------------------- unknown is not ok

def test_what_cannot_be_checked_is_not_ok(copy):
    system = copy.system
    for words in ([*ITEM, "--pg.conninfo=host=/nowhere"], [*ITEM, "--redis.url=unix:///nowhere"],
                  [*ITEM, "--history", "/nowhere"], [*ITEM, "--metrics", "/nowhere"], [*ITEM, "--metrics", copy.history], ["--activity", 99, "--sku", 1]):
        out, err = system.ctl("audit", *words, rc=3)
        assert err and not out
    with open(copy.spoilt, "a") as f:
        f.write("nonsense\n{}\n")
    system.ctl("audit", *ITEM, "--history", copy.spoilt, rc=3)
    for words in (["--activity", 1], [*ITEM, "--wait", "5"], [*ITEM, "--wait", "-1s"], [*ITEM, "x"]):
        system.ctl("audit", *words, rc=2)


def test_a_history_whose_writer_died_counts(copy):
    with open(copy.spoilt, "a") as f:
        f.write('{"t":1,"type":"inv')
    copy.audit(rc=0)


def test_a_lost_item_cannot_be_checked(copy):
    copy.redis.delete(f"{KEY}:meta")
    _, err = copy.system.ctl("audit", *ITEM, rc=3)
    assert "not in Redis" in err


def test_wrong_types_cannot_be_checked(copy):
    copy.redis.delete(copy.record(copy.orders[0]))
    copy.redis.set(copy.record(copy.orders[0]), "x")
    copy.system.ctl("audit", *ITEM, rc=3)
