"""Issue 3, number 8: what races at the edges of a reservation's life, on the whole system. That each rule has a test is
checked by tests/support/rules.py."""
import collections
import itertools
import random
import threading
import uuid

from services import wait_for
from system import System

VOID = "SELECT voided, state, reason, give_back FROM seckill_void(%s, %s, %s, %s, %s, %s, %s, 'VOID')"


def void(connection, item, user, key, record):
    """As recovery does it: the tombstone, and the outbox row that gives the unit back."""
    return connection.execute(VOID, (*item.args, record["message_id"], key, record["reservation_id"], user,
                                     record["order_id"])).fetchone()


def race(s, item, users, worker_first):
    """Buys, and voids what was bought while the worker orders it; {user: voided?}"""
    keys = {user: str(uuid.uuid4()) for user in users}
    rng, voided, errors = random.Random(8), {}, []
    waiting, ready = collections.deque(), threading.Semaphore(0)

    def voider():
        try:
            with s.pg.connect() as c:
                while True:
                    ready.acquire()
                    job = waiting.popleft()
                    if job is None:
                        return
                    voided[job[0]] = void(c, item, *job)
        except Exception as e:  # pylint: disable=broad-except
            errors.append(e)

    threads = [threading.Thread(target=voider) for _ in range(2)]
    for t in threads:
        t.start()
    batch = []

    def hand_over():
        rng.shuffle(batch)
        for job in batch:
            waiting.append(job)
            ready.release()
        batch.clear()

    for user, key in keys.items():
        assert s.buy(item, user, key).status == 202
        batch.append((user, key, item.record(user, key)))
        # The worker takes a moment: whoever waits for more buyers comes second more often.
        if len(batch) >= (4 if worker_first else 1):
            hand_over()
    hand_over()
    for _ in threads:
        waiting.append(None)
        ready.release()
    for t in threads:
        t.join()
    assert not errors, errors
    item.await_settled()
    for user, key in keys.items():
        was_voided, state, reason, gives_back = voided[user]
        record = item.record(user, key)
        orders = s.sql("SELECT count(*) FROM orders WHERE user_id = %s AND activity_id = %s", user, item.activity)[0][0]
        told = s.sql("SELECT state, reason, give_back FROM outbox WHERE user_id = %s AND activity_id = %s", user, item.activity)
        if was_voided:
            assert (state, reason, gives_back) == ("FAILED", "VOID", True)
            assert orders == 0 and record["status"] == "RELEASED" and record["state"] == "FAILED", record
            assert told == [("FAILED", "VOID", True)]
        else:
            assert state == "SUCCEEDED" and not gives_back
            assert orders == 1 and record["status"] == "ORDERED" and record["state"] == "SUCCEEDED", record
            assert told == [("SUCCEEDED", "", False)]
    n = sum(v[0] for v in voided.values())
    books = item.books()
    assert books["orders"] == books["sold"] == books["buyers"] == len(keys) - n
    assert books["free"] == item.stock - (len(keys) - n)
    assert books["inbox"] == books["outbox"] == len(keys)
    item.audit()
    return n


def test_order_and_void_of_one_reservation_race_a_thousand_times():
    """Rules 3, 4, 16, 17 and 25: exactly one of them exists, and the unit is counted once."""
    with System() as s:
        orders_first = race(s, s.item(stock=500), range(1, 501), worker_first=True)
        voids_first = race(s, s.item(stock=500), range(501, 1001), worker_first=False)
        print(f"voided: {orders_first} and {voids_first} of 500")
        assert 0 < orders_first + voids_first < 1000


def test_a_void_before_the_message_is_delivered():
    """Rules 16 and 25: the message that comes later finds the tombstone; the unit is sold to somebody else."""
    with System() as s:
        item = s.item(stock=1)
        s.worker.terminate()
        key, other = str(uuid.uuid4()), str(uuid.uuid4())
        assert s.buy(item, 1, key).status == 202
        assert s.buy(item, 2, other).code == "SOLD_OUT"
        with s.pg.connect() as c:
            assert void(c, item, 1, key, item.record(1, key))[0]
        s.worker.start()
        item.await_settled()
        assert item.record(1, key)["state"] == "FAILED" and item.orders() == 0
        wait_for("the unit to be free", lambda: s.buy(item, 2, other).status == 202)
        item.await_settled()
        assert s.sql("SELECT user_id FROM orders") == [(2,)]
        closed = s.buy(item, 1, key)
        assert closed.code in ("REQUEST_CLOSED", "SOLD_OUT")  # rule 12
        assert s.state(item, 1, key).json["state"] == "FAILED"


def cancel(s, item, order_id):
    """As the cancel flow will: order, stock, ledger and outbox in one transaction."""
    with s.pg.connect() as c, c.transaction():
        row = c.execute("UPDATE orders SET status = 'CANCELLED', closed_reason = 'CANCELLED' WHERE order_id = %s AND "
                        "status = 'CREATED' RETURNING message_id, request_id, reservation_id, user_id", (order_id,)).fetchone()
        c.execute("UPDATE seckill_inventory SET sold_stock = sold_stock - 1 WHERE (activity_id, sku_id) = (%s, %s)", item.args)
        c.execute("INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind) "
                  "VALUES (%s, %s, %s, %s, 1, 'CANCEL')", (row[2], *item.args, order_id))
        c.execute("INSERT INTO outbox (message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id, "
                  "event_type, state, reason, give_back) VALUES (%s, %s, %s, %s, %s, %s, %s, 'ORDER_CANCELLED', 'CANCELLED', "
                  "'CANCELLED', true)", (*row[:3], *item.args, row[3], order_id))


def test_cancelled_and_bought_again_by_the_same_user():
    """Rules 3, 5 and 7: the old release, however often it comes, takes nothing from the new order."""
    with System({"queue.trim_interval": "10m"}) as s:
        item = s.item(stock=2)
        first, second = str(uuid.uuid4()), str(uuid.uuid4())
        bought = s.buy(item, 1, first)
        assert bought.status == 202
        item.await_settled()
        cancel(s, item, int(bought.json["order_id"]))
        item.await_settled()
        record = item.record(1, first)
        assert (record["status"], record["state"], record["rank"]) == ("RELEASED", "CANCELLED", "4")
        assert item.books()["free"] == 2 and item.books()["buyers"] == 0
        again = s.buy(item, 1, second)
        assert again.status == 202 and again.json["order_id"] != bought.json["order_id"]
        item.await_settled()
        before = item.books(), s.redis_client.hgetall(item.key("buyers")), item.record(1, first), item.record(1, second)
        assert before[0]["free"] == 1 and before[0]["buyers"] == 1
        bodies = [fields[b"b"] for _, fields in s.redis_client.xrange(item.key("events"))]
        # Every old row of the outbox once more (a late "succeeded" among them), and the old message.
        for _ in range(20):
            s.sql("UPDATE outbox SET settled_at = NULL, claimed_at = NULL WHERE request_id = %s", first)
            item.publish(bodies[0])
            item.await_settled()
        assert before == (item.books(), s.redis_client.hgetall(item.key("buyers")), item.record(1, first), item.record(1, second))
        assert s.state(item, 1, first).json["state"] == "CANCELLED"
        assert s.state(item, 1, second).json["state"] == "SUCCEEDED"
        assert item.orders() == 1


def test_a_user_s_key_is_the_user_s_own():
    """Rule 19: another user with the same key is another request; the same key for another item is refused for good."""
    with System() as s:
        item, other = s.item(stock=10), s.item(stock=10)
        key = str(uuid.uuid4())
        mine, theirs = s.buy(item, 1, key), s.buy(item, 2, key)
        assert mine.status == theirs.status == 202
        assert mine.json["reservation_id"] != theirs.json["reservation_id"]
        item.await_settled()
        assert s.state(item, 1, key).json["order_id"] == mine.json["order_id"]
        assert s.state(item, 2, key).json["order_id"] == theirs.json["order_id"]
        assert s.state(item, 3, key).status == 404
        assert s.buy(other, 1, key).status == 202  # Redis knows one item; PostgreSQL knows them all
        other.await_settled()
        record = other.record(1, key)
        assert (record["state"], record["reason"]) == ("REJECTED", "IDEMPOTENCY_KEY_REUSED")
        assert other.books()["free"] == 10 and other.books()["buyers"] == 0
        replay = s.buy(other, 1, key)
        assert (replay.status, replay.code) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_the_hint_refuses_losers_without_redis_and_nobody_else():
    """Rules 10, 11 and 12: on when sold out, off at once when a unit comes back, and never for one who holds a unit."""
    with System({"api.loops": "2"}) as s:
        item = s.item(stock=20)
        keys = {user: str(uuid.uuid4()) for user in range(1, 21)}
        for user, key in keys.items():
            assert s.buy(item, user, key).status == 202
        item.await_settled()

        for _ in range(3):  # the loops take turns
            wait_for("the hint", lambda: s.hinted(item, 1000, s.api))
        before = s.redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
        refusals = [s.buy(item, user) for user in range(2000, 2200)]
        assert {a.code for a in refusals} == {"SOLD_OUT"}
        calls = s.redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] - before
        assert calls < 150, f"{calls} calls for 200 refusals"  # probes, and what the worker does
        for user, key in keys.items():
            assert s.buy(item, user, key).code == "SUCCEEDED"
            assert s.buy(item, user).code == "DUPLICATE_ORDER"
        order = s.sql("SELECT order_id FROM orders WHERE user_id = 7")[0][0]
        cancel(s, item, order)
        item.await_settled()
        wait_for("the news", lambda: s.buy(item, 3000).status == 202)
        item.await_settled()
        assert item.orders() == 20
        # Rule 12: the released one's replay may hear SOLD_OUT again; the status call tells the reason.
        assert s.buy(item, 7, keys[7]).code in ("SOLD_OUT", "REQUEST_CLOSED")
        assert s.state(item, 7, keys[7]).json["state"] == "CANCELLED"


def test_an_instance_number_that_is_taken_away():
    """Rule 38: no ids without a lease; whoever takes the number next starts beyond."""
    with System({"api.instance_lease": "1s"}) as s:
        item = s.item(stock=1000)
        first = s.api.logged("instance number held")[-1]["instance_id"]
        assert s.buy(item, 1).status == 202
        slot = f"sec:slot:{{{first}}}"
        s.redis_client.hset(slot, mapping={"nonce": "somebody else", "until_ms": int(s.redis_client.time()[0] + 3600) * 1000})
        wait_for("another number", lambda: len(s.api.logged("instance number held")) > 1)
        second = s.api.logged("instance number held")[-1]["instance_id"]
        assert second != first
        wait_for("ids", lambda: s.buy(item, 2).status == 202)
        ids = [int(row[0]) for row in (item.await_settled() or s.sql("SELECT order_id FROM orders ORDER BY order_id"))]
        assert len(ids) == 2 and {i >> 12 & 1023 for i in ids} == {first, second}
        # All numbers are somebody's: 503, and nothing is taken.
        until = int(s.redis_client.time()[0] + 3600) * 1000
        pipe = s.redis_client.pipeline()
        for number in range(1024):
            pipe.hset(f"sec:slot:{{{number}}}", mapping={"nonce": "somebody else", "until_ms": until})
        pipe.execute()
        answers = (s.buy(item, user) for user in itertools.count(10))
        answer = wait_for("the end of the ids", lambda: next((a for a in [next(answers)] if a.status != 202), None))
        taken = item.books()["seq"]
        assert (answer.status, answer.code) == (503, "DEPENDENCY_UNAVAILABLE")
        assert [next(answers).status for _ in range(10)] == [503] * 10
        assert s.api.get("/readyz").status == 503
        assert item.books()["seq"] == taken
        s.redis_client.delete(*[f"sec:slot:{{{number}}}" for number in range(1024)])
        wait_for("ids again", lambda: next(answers).status == 202)
