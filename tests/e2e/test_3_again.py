"""Issue 3, number 3: what is delivered again changes nothing; what the queue holds too much of is not sold."""
import collections
import random
import uuid

from system import System


def verdicts(s):
    return collections.Counter(s.sql("SELECT status, COALESCE(last_error_code, '') FROM consumer_inbox"))


def test_a_message_delivered_a_hundred_times():
    """Rules 1, 5, 9 and 16: orders, sold, ledger, outbox and releases stay as they were after the first time."""
    with System({"queue.trim_interval": "10m"}, record=True) as s:
        item = s.item(stock=10)
        keys = {user: str(uuid.uuid4()) for user in (1, 2)}
        for user, key in keys.items():
            assert s.buy(item, user, key).status == 202
        item.await_settled()
        # One that is rejected: user 1 has an order already.
        item.publish(item.event(1))
        item.await_settled()
        assert verdicts(s) == {("COMPLETED", ""): 2, ("REJECTED", "ONE_USER_ONE_ORDER"): 1}
        bodies = item.published(3)
        assert len(bodies) == 3

        def everything():
            return (item.books(), s.sql("SELECT * FROM orders ORDER BY order_id"), s.sql("SELECT * FROM outbox ORDER BY outbox_id"),
                    s.sql("SELECT * FROM consumer_inbox ORDER BY message_id"),
                    s.sql("SELECT * FROM stock_ledger ORDER BY reservation_id"),
                    [item.record(user, key) for user, key in keys.items()], s.redis_client.hgetall(item.key("buyers")))

        before = everything()
        again = bodies * 99
        random.Random(3).shuffle(again)
        item.publish(*again)
        item.await_settled()
        assert everything() == before
        assert s.worker.metric("seckill_order_created_total") == 2


def test_twice_the_stock_in_the_queue():
    """Rules 4 and 18: Redis says 20 where there are 10. PostgreSQL admits 10, the others end SOLD_OUT, and no unit comes
    back that never was."""
    with System(record=True) as s:
        item = s.item(stock=10)
        s.redis_client.set(item.key("stock"), 20, keepttl=True)
        keys = {user: str(uuid.uuid4()) for user in range(1, 21)}
        answers = s.crowd(item, keys)
        assert [a.status for a in answers] == [202] * 20
        item.await_settled()
        assert verdicts(s) == {("COMPLETED", ""): 10, ("REJECTED", "PG_STOCK_EXHAUSTED"): 10}
        records = [item.record(user, key) for user, key in keys.items()]
        assert collections.Counter(r["state"] for r in records) == {"SUCCEEDED": 10, "SOLD_OUT": 10}
        books = item.books()
        assert (books["orders"], books["sold"], books["free"], books["buyers"]) == (10, 10, 0, 10)
        # The last of them by seq are those who go without (rule 18), though batches are what they are: here only that
        # each hears the truth, for good.
        for (user, key), record in zip(keys.items(), records):
            replay = s.buy(item, user, key)
            assert replay.code == ("SUCCEEDED" if record["state"] == "SUCCEEDED" else "SOLD_OUT"), replay


def test_twice_the_stock_posted_straight_to_the_queue():
    """Rules 2 and 18: events that nobody reserved a unit for. PostgreSQL admits the total; Redis learns nothing."""
    with System(record=True) as s:
        item = s.item(stock=200)
        before = item.books()
        item.publish(*(item.event(user) for user in range(1, 401)))
        item.await_settled()
        assert verdicts(s) == {("COMPLETED", ""): 200, ("REJECTED", "PG_STOCK_EXHAUSTED"): 200}
        books = item.books()
        assert (books["orders"], books["sold"], books["ledger"], books["inbox"], books["outbox"]) == (200, 200, 201, 400, 400)
        assert {k: books[k] for k in ("free", "pending", "buyers", "seq")} == {k: before[k] for k in ("free", "pending", "buyers", "seq")}
        # The audit would rightly say that these orders are invented (I5, I6).
        invented = s.ctl("audit", *item.flags, "--json", check=False)
        assert invented.returncode == 1 and "BROKEN" in s.ctl("audit", *item.flags, check=False).stdout
        item.audited = True
