"""The audit has teeth: a real sale is audited clean; then each invariant is broken by hand in a copy of it, and the
audit must say so, under that invariant's name, with the offender's."""
import json
import shutil
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
        self.redis = system.redis.connect(decode_responses=True)
        self.raw = system.redis.connect()
        self.keys = {k: (self.raw.dump(k), self.raw.pexpiretime(k)) for k in self.raw.keys()}
        self.orders = system.sql("SELECT order_id, user_id, request_id::text, reservation_id::text, message_id::text "
                                 "FROM orders ORDER BY order_id")
        self.spoilt = f"{system.dir}/spoilt"

    def fresh(self):
        self.system.sql("DROP DATABASE IF EXISTS broken WITH (FORCE)", database="postgres")
        self.system.sql("CREATE DATABASE broken TEMPLATE sale", database="postgres")
        self.raw.flushall()
        for key, (value, expires) in self.keys.items():
            self.raw.restore(key, max(expires, 0), value, absttl=expires > 0)
        shutil.copy(self.history, self.spoilt)

    def sql(self, statement, *args):
        return self.system.sql(statement, *args, database="broken")

    def record(self, order):
        return f"{KEY}:reservation:{order[1]}:{order[2]}"

    def lines(self, change):
        """Rewrites the history line by line; None drops a line."""
        kept = [change(json.loads(line)) for line in open(self.history)]
        with open(self.spoilt, "w") as f:
            f.writelines(json.dumps(line) + "\n" for line in kept if line)

    def append(self, *lines):
        with open(self.spoilt, "a") as f:
            for line in lines:
                f.write(json.dumps({"t": 1, "activity": 1, "sku": 2001, **line}) + "\n")

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


def broken(told):
    return {c["id"]: c["offenders"] for c in told["checks"] if c["result"] == "broken"}


def transfer(sale, units):
    """A movement that keeps the ledger's sum with what a test does to sold_stock."""
    sale.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind) "
             "VALUES (gen_random_uuid(), 1, 2001, %s, 'TRANSFER')", units)


# ---------------------------------------------------------------- it holds

def test_a_sale_holds(copy):
    told = copy.audit(rc=0)
    assert told["ok"] and not broken(told)
    assert [c["id"] for c in told["checks"]] == ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "seed-one-order",
                                                 "seed-oversold", "seed-inbox"]
    assert all(c["result"] == "ok" for c in told["checks"])
    counts = told["counts"]
    assert counts["orders"] == counts["sold"] == counts["completed"] == counts["accepted"] == STOCK
    assert (counts["free"], counts["pending"], counts["unsettled"]) == (0, 0, 0)
    out, _ = copy.system.ctl("audit", *ITEM, "--history", copy.history)
    assert out.endswith("audit of 1:2001: everything holds\n")


def test_without_a_history_i6_is_not_checked_and_not_ok(copy):
    told = copy.audit(history=False, rc=0)
    assert {c["id"] for c in told["checks"] if c["result"] == "skipped"} == {"I6"}


def test_dead_letters_are_told(copy):
    copy.sql("SELECT seckill_quarantine(1, 2001, NULL, NULL, NULL, NULL, NULL, '1-0', 'x', 'no JSON', 1)")
    assert copy.audit(rc=0)["counts"]["dead_letters"] == 1


# ---------------------------------------------------------------- each invariant, broken alone
# Each returns which checks must be broken, and a word that one of the offenders' names has.

def i1_sold_is_not_what_was_ordered(s):
    s.sql("UPDATE seckill_inventory SET sold_stock = sold_stock - 1")
    transfer(s, 1)
    return {"I1"}, "20 active orders, but sold_stock is 19"


def i1_oversold(s):
    s.sql("ALTER TABLE seckill_inventory DROP CONSTRAINT ck_inventory_sold_range")
    s.sql("UPDATE seckill_inventory SET sold_stock = 21")
    transfer(s, -1)
    return {"I1", "seed-oversold"}, "sold_stock 21"


def i2_two_active_orders(s):
    order = s.orders[0]
    s.sql("DROP INDEX uq_orders_active")
    s.sql("UPDATE orders SET user_id = %s WHERE order_id = %s", order[1], s.orders[1][0])
    return {"I2", "seed-one-order", "I5", "I6"}, f"user {order[1]}: active orders {order[0]}, {s.orders[1][0]}"


def i3_still_queued(s):
    order = s.orders[3]
    s.redis.hdel(s.record(order), "state", "rank")
    s.redis.hset(s.record(order), "status", "MQ_SENT")
    s.redis.zadd(f"{KEY}:pending", {f"{order[1]}:{order[2]}": 1})
    return {"I3"}, f"user {order[1]}, request {order[2]}: is QUEUED"


def i3_accepted_and_gone(s):
    key = str(uuid.uuid4())
    s.append({"type": "invoke", "user": 9999, "key": key},
             {"type": "ok", "user": 9999, "key": key, "status": 202, "code": "ACCEPTED", "order_id": "77",
              "reservation_id": str(uuid.uuid4())})
    return {"I3"}, f"user 9999, request {key}: was accepted and is nowhere"


def i4_no_ledger_row(s):
    s.sql("DELETE FROM stock_ledger WHERE order_id = %s", s.orders[4][0])
    transfer(s, -1)
    return {"I4"}, f"order {s.orders[4][0]}: its unit was not taken"


def i4_ledger_row_without_order(s):
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (gen_random_uuid(), 1, 2001, 4711, -1, 'ORDER')")
    transfer(s, 1)
    return {"I4"}, "for order 4711, which is not there"


def i4_two_units_for_one_reservation(s):
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (%s, 1, 2001, %s, -2, 'ORDER')", s.orders[5][3], s.orders[5][0])
    transfer(s, 2)
    return {"I4"}, f"reservation {s.orders[5][3]}: moved -2 units"


def i4_unit_of_an_active_order_came_back(s):
    s.sql("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
          "VALUES (%s, 1, 2001, %s, 1, 'CANCEL')", s.orders[5][3], s.orders[5][0])
    transfer(s, -1)
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
    transfer(s, 1)
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
    s.redis.zadd(f"{KEY}:pending", {f"{s.orders[9][1]}:{s.orders[9][2]}": 1})
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


def seed_inbox(s):
    message = str(uuid.uuid4())
    s.sql("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, "
          "sku_id, status, received_at) VALUES ('seckill-order-create-v1', %s, gen_random_uuid(), gen_random_uuid(), 5, "
          "1, 2001, 'PROCESSING', now() - interval '1 hour')", message)
    return {"seed-inbox"}, message


CASES = [value for name, value in list(globals().items()) if name.startswith(("i1_", "i2_", "i3_", "i4_", "i5_", "i6_",
                                                                              "i7_", "seed_"))]


@pytest.mark.parametrize("spoil", CASES, ids=lambda f: f.__name__)
def test_what_is_broken_is_named(copy, spoil):
    expected, word = spoil(copy)
    found = broken(copy.audit())
    assert set(found) == expected
    assert any(word in name for names in found.values() for name in names), found


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
    copy.redis.zadd(f"{KEY}:pending", {f"{order[1]}:{order[2]}": 1})
    told = copy.system.json("audit", *ITEM, f"--pg.conninfo={copy.system.conninfo('broken')}", "--wait", "60s",
                            "--history", copy.spoilt)
    assert (told["counts"]["quarantined"], told["counts"]["dead_letters"]) == (1, 1)


def test_wait_ends_as_soon_as_nothing_is_on_its_way(copy):
    order = copy.orders[0]
    copy.redis.zadd(f"{KEY}:pending", {f"{order[1]}:{order[2]}": 1})
    p = copy.system.popen("audit", *ITEM, "--wait", "60s")
    wait_for("the audit to look", lambda: copy.raw.info("commandstats").get("cmdstat_evalsha"))
    copy.redis.zrem(f"{KEY}:pending", f"{order[1]}:{order[2]}")
    assert p.wait(30) == 0


def test_wait_has_an_end(copy):
    order = copy.orders[0]
    copy.redis.zadd(f"{KEY}:pending", {f"{order[1]}:{order[2]}": 1})
    copy.system.ctl("audit", *ITEM, "--wait", "300ms", rc=1)


# ---------------------------------------------------------------- unknown is not ok

def test_what_cannot_be_checked_is_not_ok(copy):
    system = copy.system
    for words in ([*ITEM, "--pg.conninfo=host=/nowhere"], [*ITEM, "--redis.url=unix:///nowhere"],
                  [*ITEM, "--history", "/nowhere"], ["--activity", 99, "--sku", 1]):
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
