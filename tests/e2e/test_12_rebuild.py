"""Issue 5, epoch and rebuild: Redis flushed, restarted empty, rolled back; the worker killed at each step. Rules 2, 7, 33–37."""
import json
import shutil
import uuid

import client
import pytest
from private_rocketmq import ON_STREAMS
from services import wait_for
from system import FULL, GROUP, System

KILLED = 128 + 9
SHORT = {"queue.lease": "1s", "worker.lease_margin": "250ms", "worker.recover_after": "500ms", "worker.recover_interval": "200ms"}
# Each step of a rebuild (src/app/rebuild.c): before it, after it, with its answer lost.
PLACES = ["rebuild_after_take", "rebuild_after_begin", "rebuild_after_drain", "rebuild_after_count", "rebuild_after_restore",
          "rebuild_before_end", "rebuild_after_end", "rebuild_after_finish"]


def buy_all(s, item, users, accept=(202,)):
    """{user: (key, order id)} of those who got one."""
    got = {}
    for user in users:
        key = str(uuid.uuid4())
        answer = s.buy(item, user, key)
        assert answer.status in accept, answer
        if answer.status == 202:
            got[user] = key, answer.json["order_id"]
    return got


def epoch(item):
    return item.scalar("SELECT epoch FROM seckill_inventory WHERE ITEM")


def rebuilt(item, above):
    """The item is open again at a higher epoch than that, in both stores."""
    def look():
        r = item.system.redis_client
        now = item.scalar("SELECT max(epoch) FROM rebuilds WHERE ITEM AND finished_at IS NOT NULL")
        meta = r.hmget(item.key("meta"), "epoch", "rebuild")
        return now and now > above and now == epoch(item) and meta == [str(now).encode(), None] and now
    return wait_for(f"item {item.activity} to be rebuilt", look, 60)


def report(s, item):
    """As an API does; the last rebuild was long ago."""
    s.sql("UPDATE seckill_inventory SET epoch_at = epoch_at - interval '1 minute' WHERE activity_id = %s", item.activity)
    s.redis_client.sadd("sec:suspect", f"{item.activity}:{item.sku}")


def holds(s, item, bought):
    """Rule 36: whoever has an order is told so, with any key, and buys no second one."""
    for user, (_, order) in bought.items():
        answer = s.buy(item, user)
        assert answer.code == "DUPLICATE_ORDER", answer
        assert answer.json["order_id"] == order


def sell_out(s, item, first, n):
    """n buyers at once, from that user id on; the 202s among the answers."""
    answers = client.all_at_once(s.api.ports["api"], [s.order_request(item, u) for u in range(first, first + n)])
    assert all(a.status in (202, 409) for a in answers), answers
    return sum(a.status == 202 for a in answers)


@ON_STREAMS  # rocketmq/test_lost.py: there the queue still has them
def test_flushed_mid_sale():
    """Rules 33, 34b, 36: never oversold, nobody buys twice; an order of before that is cancelled gives its unit back once."""
    with System(SHORT) as s:
        item = s.item(stock=30)
        bought = buy_all(s, item, range(1, 11))
        item.await_settled()
        s.worker.signal(19)  # SIGSTOP: what is reserved now is in Redis alone
        lost = buy_all(s, item, range(11, 16))
        s.redis_client.flushall()
        answer = s.buy(item, 99)
        assert answer.status == 503 and int(answer.headers["retry-after"]) > 0, answer
        s.worker.signal(18)
        assert rebuilt(item, 1) == 2
        assert item.books()["free"] == 20 and item.books()["buyers"] == 10
        assert s.redis_client.smembers("sec:items") == {f"{item.activity}:{item.sku}".encode()}
        holds(s, item, bought)
        again = buy_all(s, item, [11])  # lost, and free to compete again
        assert sell_out(s, item, 100, 60) == 19
        item.await_settled()
        assert item.orders() == 30 and s.buy(item, 500).code == "SOLD_OUT"
        # an order of epoch 1, cancelled in epoch 2
        key, order = bought[3]
        assert s.cancel(item, 3, key).status == 202
        wait_for("the unit", lambda: item.books()["free"] == 1)
        item.await_settled()
        assert item.books()["free"] == 1 and item.orders() == 29
        assert s.state(item, 3, key).json["reason"] == "CANCELLED"
        buy_all(s, item, [501])
        item.await_settled()
        assert item.orders() == 30 and item.books()["free"] == 0
        assert set(lost) - set(again) and s.worker.metric('seckill_rebuild_total{outcome="done"}') == 1


def test_restarted_empty():
    """Rule 34: Redis comes back without its data while items are on sale: each is rebuilt, and the catalogue is whole before."""
    with System(SHORT) as s:
        items = [s.item(stock=5) for _ in range(3)]
        bought = [buy_all(s, item, range(1, 4)) for item in items]
        for item in items:
            item.await_settled()
        s.redis.kill()
        shutil.rmtree(f"{s.redis.dir}/appendonlydir")
        s.redis.start()
        for item, had in zip(items, bought):
            rebuilt(item, 1)
            holds(s, item, had)
            assert sell_out(s, item, 10, 8) == 2
            item.await_settled()
            assert item.orders() == 5
        assert s.redis_client.scard("sec:items") == 3


def aof_kept(s):
    """What Redis has on its disk now, to be put back later."""
    s.redis.kill()
    kept = f"{s.dir}/aof"
    shutil.copytree(f"{s.redis.dir}/appendonlydir", kept)
    s.redis.start()

    def restore():
        s.redis.kill()
        shutil.rmtree(f"{s.redis.dir}/appendonlydir")
        shutil.copytree(kept, f"{s.redis.dir}/appendonlydir")
        s.redis.start()
    return restore


def test_rolled_back():
    """Rules 2, 3, 34b, 36: an older state of Redis comes back. What PostgreSQL knows is restored, what waits survives, what
    ended meanwhile is told its end and has no effect on the stock."""
    with System(SHORT) as s:
        item = s.item(stock=20)
        bought = buy_all(s, item, range(1, 4))
        item.await_settled()
        s.worker.signal(19)
        waiting = buy_all(s, item, range(4, 8))  # in the snapshot they wait, in the queue and in pending
        restore = aof_kept(s)
        s.worker.signal(18)
        item.await_settled()
        bought.update(buy_all(s, item, range(8, 12)))
        item.await_settled()
        assert s.cancel(item, 5, waiting[5][0]).status == 202
        wait_for("the cancel", lambda: item.orders() == 10)
        item.await_settled()
        s.worker.terminate()
        restore()
        assert item.books()["pending"] == 4 and item.record(5, waiting[5][0])["status"] == "MQ_SENT"
        s.worker.start()
        rebuilt(item, 1)
        item.await_settled()
        b = item.books()
        assert (b["free"], b["buyers"], b["pending"]) == (10, 10, 0), b
        holds(s, item, {u: x for u, x in {**bought, **waiting}.items() if u != 5})
        assert item.record(5, waiting[5][0])["status"] == "RELEASED"
        assert s.state(item, 5, waiting[5][0]).json["reason"] == "CANCELLED"
        buy_all(s, item, [5])  # with a new key
        assert sell_out(s, item, 100, 30) == 9
        item.await_settled()
        assert item.orders() == 20


@ON_STREAMS
def test_survivors():
    """Rule 36: reservations that wait without an outcome keep their unit and their place over a rebuild. Rule 37: so their
    messages make orders also after max_hold, and those of reservations that were lost do not."""
    with System({**SHORT, "worker.rebuild_drain": "0s", "worker.max_hold": "2s", "worker.recover_after": "1m"}) as s:
        item = s.item(stock=10)
        events = item.key("events")
        buy_all(s, item, range(1, 4))
        item.await_settled()
        s.worker.signal(19)
        waiting = buy_all(s, item, range(4, 8))
        bodies = [e[1][b"b"].decode() for e in s.redis_client.xrange(events)][-4:]
        s.redis_client.xgroup_setid(events, GROUP, "$")  # the queue has passed them, as if it had lost them
        for user in (6, 7):  # and Redis has lost two of the reservations
            s.redis_client.delete(item.key(f"reservation:{user}:{waiting[user][0]}"))
            s.redis_client.zrem(item.key("pending"), f"{user}:{waiting[user][0]}")
        report(s, item)
        s.worker.signal(18)
        rebuilt(item, 1)
        assert item.scalar("SELECT live FROM rebuilds WHERE ITEM") == 2
        assert item.books()["free"] == 5 and item.books()["pending"] == 2
        assert s.buy(item, 4).code == "DUPLICATE_ORDER" and s.buy(item, 4).json["order_id"] == waiting[4][1]
        wait_for("max_hold", lambda: item.scalar("SELECT lost_after < clock_timestamp() FROM rebuilds WHERE ITEM"))
        item.publish(*bodies)
        wait_for("their ends", lambda: item.books()["inbox"] == 7)
        item.await_settled()
        assert item.orders() == 5 and item.books()["free"] == 5
        for user in (4, 5):
            assert s.state(item, user, waiting[user][0]).code == "SUCCEEDED"
        for user in (6, 7):
            told = s.state(item, user, waiting[user][0]).json
            assert (told["state"], told["reason"]) == ("FAILED", "LOST_RESERVATION"), told
        assert s.redis_client.scard("sec:suspect") == 0


def told(s, location, user):
    answer = s.follow(location, user)
    return answer.json["state"], answer.json.get("reason")


def test_what_was_told_as_lost_stays_lost():
    """Rule 37, I7: neither a second loss nor an older state of Redis gives back what its buyer was told to be lost; a survivor of the
    first is lost by neither. The same key may be used again, and what it was told before is not told of that (rule 19)."""
    lost = ("FAILED", "LOST_RESERVATION")
    with System({**SHORT, "worker.rebuild_drain": "0s", "worker.max_hold": "2s", "worker.recover_after": "1m",
                 "query.fallback_after": "0s"}) as s:
        item = s.item(stock=10)
        s.worker.signal(19)
        locations, keys = {}, {}
        for user in (1, 2, 3):
            keys[user] = str(uuid.uuid4())
            locations[user] = s.buy(item, user, keys[user]).headers["location"]
        s.redis_client.xgroup_setid(item.key("events"), GROUP, "$")  # the queue has lost their messages
        for user in (2, 3):
            s.redis_client.zrem(item.key("pending"), f"{user}:{keys[user]}")
        s.redis_client.delete(*(item.key(f"reservation:{user}:{keys[user]}") for user in (2, 3)))
        report(s, item)
        s.worker.signal(18)
        rebuilt(item, 1)  # the first is found, the others are not
        wait_for("max_hold", lambda: told(s, locations[2], 2) == lost and told(s, locations[3], 3) == lost)
        assert told(s, locations[1], 1)[0] == "PROCESSING"
        s.worker.signal(19)
        s.redis_client.flushall()
        assert told(s, locations[1], 1)[0] == "PROCESSING" and told(s, locations[2], 2) == lost
        s.worker.signal(18)
        rebuilt(item, 2)
        assert item.scalar("SELECT max(live) FILTER (WHERE epoch = 3) FROM rebuilds WHERE ITEM") == 1
        assert told(s, locations[1], 1)[0] == "PROCESSING" and told(s, locations[2], 2) == lost
        s.worker.signal(19)
        assert s.buy(item, 3, keys[3]).status == 202
        assert told(s, locations[3], 3)[0] == "QUEUED"
        s.worker.signal(18)
        wait_for("the order", lambda: told(s, locations[3], 3)[0] == "SUCCEEDED")
        assert told(s, locations[2], 2) == lost and told(s, locations[1], 1)[0] == "PROCESSING"
        s.worker.terminate()
        s.worker.settings = {"worker.recover_after": "200ms", "worker.max_hold": "10m"}
        s.worker.start()  # recovery finds the survivor, and publishes it again
        wait_for("the survivor's order", lambda: told(s, locations[1], 1)[0] == "SUCCEEDED")
        item.await_settled()
        assert item.orders() == 2 and item.books()["free"] == 8


def test_a_harmless_restart_is_no_loss():
    """Rule 34: with AOF `always` nothing that was answered is lost, and no rebuild begins, also after kill -9."""
    with System(SHORT) as s:
        item = s.item(stock=10)
        bought = buy_all(s, item, range(1, 5))
        for _ in range(2):
            s.redis.kill()
            s.redis.start()
            seen = s.worker.metric("seckill_epoch_looks_total")
            wait_for("three looks", lambda n=seen: s.worker.metric("seckill_epoch_looks_total") >= n + 3)
        item.await_settled()
        assert epoch(item) == 1 and s.sql("SELECT count(*) FROM rebuilds") == [(0,)]
        holds(s, item, bought)


@pytest.mark.parametrize("state", ["PAUSED", "CLOSED"])
def test_what_operators_decided_stays(state):
    """A rebuild does not open what was paused or closed."""
    with System(SHORT) as s:
        item = s.item(stock=3)
        buy_all(s, item, [1])
        item.await_settled()
        s.ctl("activity", {"PAUSED": "pause", "CLOSED": "close"}[state], *item.flags)
        s.redis_client.flushall()
        rebuilt(item, 1)
        assert s.redis_client.hget(item.key("meta"), "state").decode() == state
        assert s.buy(item, 2).code == {"PAUSED": "PAUSED", "CLOSED": "ENDED"}[state]
        assert item.books()["free"] == 2


@ON_STREAMS
def test_the_worker_dies_at_each_step():
    """Rule 35: another attempt is another epoch; nothing is lost or doubled, wherever the one before ended."""
    with System({**SHORT, "worker.recover_after": "5s"}) as s:
        for place in [*PLACES, "rebuild_after_keep", "rebuild_after_resettle"] * (5 if FULL else 1):
            item = s.item(stock=12)
            bought = buy_all(s, item, range(1, 7))
            item.await_settled()
            s.worker.terminate()
            kept = place in ("rebuild_after_keep", "rebuild_after_resettle")
            if kept:  # something is left of the item, and somebody waits
                buy_all(s, item, range(7, 9))
                s.redis_client.xgroup_setid(item.key("events"), GROUP, "$")  # recovery finds them, after the rebuild
                report(s, item)
            else:
                s.redis_client.flushall()
            try:
                s.worker.start_with(place)
            except RuntimeError:
                pass
            assert s.worker.await_end() == KILLED, place
            s.worker.start_with()
            rebuilt(item, 1)
            item.await_settled()
            holds(s, item, bought)
            n = 4 if kept else 6
            assert sell_out(s, item, 100, 20) == n, place
            item.await_settled()
            assert item.orders() == 12 and item.books()["free"] == 0, place
            item.audit()
            item.audited = True


def test_two_workers_rebuild_once():
    """Rule 35: both see it, one of them does it."""
    with System(SHORT) as s:
        other = s.program("worker")
        other.start()
        items = [s.item(stock=4) for _ in range(4)]
        for item in items:
            buy_all(s, item, [1, 2])
            item.await_settled()
        s.redis_client.flushall()
        for item in items:
            assert rebuilt(item, 1) == 2
            assert sell_out(s, item, 10, 6) == 2
            item.await_settled()
        done = 'seckill_rebuild_total{outcome="done"}'
        assert s.worker.metric(done) + other.metric(done) == 4
        assert other.terminate() == 0


def test_an_operator_asks():
    """rebuild plan tells, rebuild run does it and is recorded; without --yes nothing happens. A harmless rebuild changes no
    figure."""
    with System(SHORT) as s:
        item = s.item(stock=5)
        bought = buy_all(s, item, [1, 2])
        item.await_settled()

        def plan(*what):
            return json.loads(s.ctl("rebuild", *(what or ("plan",)), *item.flags, "--json").stdout)
        told = plan()
        assert (told["finding"], told["epoch"], told["redis_epoch"], told["orders"], told["waiting"]) == ("good", 1, 1, 2, 0)
        assert plan("run")["outcome"] == "PLANNED" and s.sql("SELECT action FROM operator_actions WHERE action = 'rebuild run'") == []
        before = item.books()
        told = plan("run", "--yes")
        assert (told["outcome"], told["epoch"], told["redis_epoch"], told["last_reason"]) == ("DONE", 2, 2, "asked"), told
        assert (told["last_orders"], told["last_live"]) == (2, 0)
        assert s.sql("SELECT outcome FROM operator_actions WHERE action = 'rebuild run'") == [("DONE",)]
        item.await_settled()
        assert {**item.books(), "seq": 0} == {**before, "seq": 0}
        holds(s, item, bought)
        s.worker.signal(19)
        s.redis_client.delete(item.key("meta"))
        assert plan()["finding"] == "lost"
        s.worker.signal(18)
        rebuilt(item, 2)


def test_the_total_changes_while_it_is_rebuilt():
    """Rules 7, 36: what is free was counted with the new total, so Redis has it, too: an operator who runs the command again adds
    nothing twice. While it is rebuilt the command refuses."""
    with System({**SHORT, "queue.lease": "5s", "worker.rebuild_drain": "2s"}) as s:
        item = s.item(stock=5)
        buy_all(s, item, [1, 2])
        item.await_settled()
        s.worker.signal(19)
        buy_all(s, item, [3])
        s.redis_client.xreadgroup(GROUP, "elsewhere", {item.key("events"): ">"})  # so that the rebuild waits for it
        report(s, item)
        s.worker.signal(18)
        wait_for("the rebuild to begin", lambda: s.redis_client.hexists(item.key("meta"), "rebuild"))
        done = s.ctl("stock", "set-total", *item.flags, "--total", "9", "--yes", "--json", check=False)
        assert json.loads(done.stdout)["outcome"] == "REFUSED" and item.scalar("SELECT total_stock FROM seckill_inventory WHERE ITEM") == 5
        assert s.sql("SELECT result FROM seckill_set_total(%s, %s, 2, 5, 8)", *item.args) == [("CHANGED",)]
        rebuilt(item, 1)
        assert s.redis_client.hget(item.key("meta"), "total") == b"8" and item.books()["free"] == 5
        done = s.ctl("stock", "set-total", *item.flags, "--total", "8", "--yes", "--json")
        assert json.loads(done.stdout)["outcome"] == "NOTHING" and item.books()["free"] == 5
        assert sell_out(s, item, 100, 20) == 5
        item.await_settled()
        assert item.orders() == 8


@pytest.mark.parametrize("verb", ["pause", "close"])
def test_a_decision_while_a_rebuild_begins(verb):
    """A rebuild that has begun in PostgreSQL and not in Redis read what was decided before: the operator is not told that it is done
    until Redis was told at that epoch, too."""
    with System(SHORT) as s:
        item = s.item(stock=3)
        buy_all(s, item, [1])
        item.await_settled()
        s.worker.signal(19)
        taken = s.sql("SELECT result, epoch, state FROM seckill_rebuild_take(%s, %s, 1, 'elsewhere', 'lost', 600000)", *item.args)
        assert taken == [("TAKEN", 2, "OPEN")]
        done = s.ctl("activity", verb, *item.flags, check=False)
        assert done.returncode == 1 and "is being rebuilt" in done.stderr, done
        s.worker.signal(18)
        rebuilt(item, 2)
        s.ctl("activity", verb, *item.flags)
        assert s.buy(item, 2).code == {"pause": "PAUSED", "close": "ENDED"}[verb]
