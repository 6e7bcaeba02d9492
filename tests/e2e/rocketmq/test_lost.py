"""What the stores lose while RocketMQ is the queue: Redis, the broker, both (failures 6 and 22; rules 27, 34 to 37). The audit
after each; one broker for all."""
import json
import shutil
import uuid

from sale import SHORT, System, await_ready, settle_and_audit, wait_for
from test_faults import publish_result

QUICK = {**SHORT, "worker.recover_unknown_age": "5s"}


def buy_all(s, item, users):
    """{user: (key, order id)}: each is accepted."""
    got = {}
    for user in users:
        key = str(uuid.uuid4())
        answer = s.buy(item, user, key)
        assert answer.status == 202, answer
        got[user] = key, answer.json["order_id"]
    return got


def rebuilt(item, above=1):
    def look():
        meta = item.system.redis_client.hmget(item.key("meta"), "epoch", "rebuild")
        now = item.scalar("SELECT max(epoch) FROM rebuilds WHERE ITEM AND finished_at IS NOT NULL")
        return now and now > above and meta == [str(now).encode(), None] and now
    return wait_for(f"item {item.activity} to be rebuilt", look, 60)


def holds(s, item, bought):
    for user, (_, order) in bought.items():
        answer = s.buy(item, user)
        assert answer.code == "DUPLICATE_ORDER" and answer.json["order_id"] == order, answer


def sell_out(s, item, first, n):
    answers = s.crowd(item, {user: str(uuid.uuid4()) for user in range(first, first + n)})
    assert all(a.status in (202, 409) for a in answers), answers
    return sum(a.status == 202 for a in answers)


def remembered(s, item):
    return s.redis_client.hlen(item.key("commands"))


def orders_in(messages, users):
    """The ids of those that make orders."""
    bodies = [json.loads(m["body"]) for m in messages]
    return {b["message_id"] for b in bodies if "command" not in b and b["user_id"] in users}


def test_a_broker_that_lost_what_it_had_confirmed(mq):
    """failures.md 6; rules 27, 28 and 30. Orders are found by recovery and sent again, with the same message id. Cancels and
    payments that were answered 202, which nobody sends again, are carried out from what Redis remembers, of an order that was lost
    with its cancel, too. The programs see their topic vanish and come back without a restart."""
    with System({**QUICK, "worker.recover_unknown_age": "30s"}, queue=mq) as s:
        item = s.item(stock=20)
        bought = buy_all(s, item, range(1, 4))
        item.await_settled()
        s.worker.terminate()
        lost = range(4, 16)
        bought.update(buy_all(s, item, lost))
        for user in (1, 4, 1):  # the same command again is the same message
            assert s.cancel(item, user, bought[user][0]).status == 202
        assert s.pay(item, 2, *bought[2], payment_id="kept").status == 202
        wait_for("the broker's word", lambda: publish_result(s.api, "accepted") == 15)
        ids = orders_in(s.consumed(19), lost)
        assert len(ids) == 12 and remembered(s, item) == 3
        mq.wipe()
        s.make_topics()
        s.worker.start()
        wait_for("both cancels", lambda: item.scalar("SELECT count(*) FROM orders WHERE ITEM AND status = 'CANCELLED'") == 2, 90)
        wait_for("the payment", lambda: item.scalar("SELECT count(*) FROM orders WHERE ITEM AND status = 'PAID'") == 1)
        settle_and_audit(item, 13)
        assert orders_in(s.consumed(12), lost) == ids
        assert s.worker.metric("seckill_recover_commands_total") == 3 and remembered(s, item) == 0
        assert s.state(item, 1, bought[1][0]).json["reason"] == "CANCELLED"
        # What is not lost is forgotten with its turn.
        assert s.cancel(item, 3, bought[3][0]).status == 202
        settle_and_audit(item, 12)
        wait_for("it to be forgotten", lambda: remembered(s, item) == 0)
        assert s.worker.metric("seckill_recover_commands_total") == 3
        await_ready(s.api, s.worker)


def test_redis_is_flushed_and_the_queue_has_what_was_sold(mq):
    """Rules 33, 34b, 36, 37: what Redis alone knew is in the queue, too: it becomes orders in the rebuild's drain, nobody buys twice
    and nothing is oversold. A cancel that was accepted before is carried out by its message."""
    with System(QUICK, queue=mq) as s:
        item = s.item(stock=30)
        bought = buy_all(s, item, range(1, 11))
        item.await_settled()
        s.worker.signal(19)
        bought.update(buy_all(s, item, range(11, 16)))
        assert s.cancel(item, 1, bought[1][0]).status == 202
        wait_for("the broker's word", lambda: publish_result(s.api, "accepted") == 15)
        s.redis_client.flushall()
        answer = s.buy(item, 99)
        assert answer.status == 503 and int(answer.headers["retry-after"]) > 0, answer
        s.worker.signal(18)
        rebuilt(item)
        wait_for("the orders that were in the queue", lambda: item.ordered(range(11, 16)) == 5)
        item.await_settled()
        del bought[1]
        holds(s, item, bought)
        assert item.orders() == 14 and item.books()["free"] == 16
        assert sell_out(s, item, 100, 40) == 16
        settle_and_audit(item, 30)


def test_broker_and_redis_are_lost_together(mq):
    """Rule 37: nothing is left of what waited: it is told as lost after max_hold and its units are sold; what PostgreSQL knew
    stays. Messages of the old epoch that turn up then make no order."""
    with System({**QUICK, "worker.max_hold": "3s", "worker.rebuild_drain": "1s"}, queue=mq) as s:
        item = s.item(stock=12)
        bought = buy_all(s, item, range(1, 6))
        item.await_settled()
        s.worker.terminate()
        lost = {}
        for user in range(6, 9):
            answer = s.buy(item, user)
            assert answer.status == 202
            lost[user] = answer.headers["location"]
        wait_for("the broker's word", lambda: publish_result(s.api, "accepted") == 8)
        bodies = [m["body"] for m in s.consumed(8) if json.loads(m["body"])["user_id"] in lost]
        assert len(bodies) == 3
        mq.wipe()
        s.make_topics()
        s.redis_client.flushall()
        s.worker.start()
        rebuilt(item)
        holds(s, item, bought)
        assert item.books()["free"] == 7
        for user, location in lost.items():
            told = wait_for("its end to be told", lambda u=user, where=location: (a := s.follow(where, u)).code == "FAILED" and a)
            assert told.json["reason"] == "LOST_RESERVATION", told
        item.publish(*bodies)
        wait_for("them to be refused", lambda: item.scalar(
            "SELECT count(*) FROM consumer_inbox WHERE ITEM AND status = 'REJECTED'") == 3)
        item.await_settled()
        assert item.orders() == 5 and item.books()["free"] == 7
        assert s.buy(item, 6).status == 202  # with a new key
        assert sell_out(s, item, 100, 20) == 6
        settle_and_audit(item, 12)


def test_redis_comes_back_as_it_was_before(mq):
    """Rules 2, 3, 34b, 36: rolled back to when some still waited, with RocketMQ further on."""
    with System(QUICK, queue=mq) as s:
        item = s.item(stock=20)
        bought = buy_all(s, item, range(1, 4))
        item.await_settled()
        s.worker.signal(19)
        bought.update(buy_all(s, item, range(4, 8)))
        assert s.cancel(item, 4, bought[4][0]).status == 202
        wait_for("the broker's word", lambda: publish_result(s.api, "accepted") == 7)
        s.redis.kill()
        kept = f"{s.dir}/aof"
        shutil.copytree(f"{s.redis.dir}/appendonlydir", kept)
        s.redis.start()
        s.worker.signal(18)
        wait_for("the cancel", lambda: item.scalar("SELECT count(*) FROM orders WHERE ITEM AND status = 'CANCELLED'") == 1)
        item.await_settled()
        bought.update(buy_all(s, item, range(8, 12)))
        item.await_settled()
        s.worker.terminate()
        s.redis.kill()
        shutil.rmtree(f"{s.redis.dir}/appendonlydir")
        shutil.copytree(kept, f"{s.redis.dir}/appendonlydir")
        s.redis.start()
        assert item.books()["pending"] == 4 and remembered(s, item) == 1
        s.worker.start()
        rebuilt(item)
        item.await_settled()
        key, _ = bought.pop(4)
        assert (item.orders(), item.books()["free"]) == (10, 10)
        holds(s, item, bought)
        assert s.state(item, 4, key).json["reason"] == "CANCELLED"
        wait_for("the command to be forgotten", lambda: remembered(s, item) == 0)
        assert sell_out(s, item, 100, 30) == 10
        settle_and_audit(item, 20)
