"""Failures 14: a Redis Cluster of three masters, resharding while it sells. MOVED and ASK are followed; the item of the slot in
motion answers 503 meanwhile; nothing is lost."""
import shutil

import pytest
from services import wait_for
from system import FULL, System
from topologies import PrivateCluster

SHORT = {"queue.lease": "1s", "worker.lease_margin": "250ms", "worker.recover_after": "500ms", "worker.recover_interval": "200ms",
         "redis.slot_timeout": "30ms"}


def test_items_of_every_master_are_sold():
    """No CROSSSLOT: each script's keys are one item's. The catalogue, the news and the instance numbers have slots of their own."""
    with System(SHORT, redis=PrivateCluster()) as s:
        items = [s.item(stock=20, activity=a) for a in s.redis.activities().values()]
        for item in items:
            s.storm(item, 30, "--rate", 300)
        for item in items:
            item.await_settled()
            assert item.orders() == 20
        refused = s.buy(items[0], 1)
        assert refused.code == "SOLD_OUT", refused


def redirects(program, kind):
    return sum(v for k, v in program.metrics().items() if k.startswith("seckill_redis_redirects_total") and f'kind="{kind}"' in k)


def test_an_item_in_motion_is_unavailable_and_nothing_is_lost():
    """Each step of a move by itself. What exists is read on whichever side it is; a call with a key that is nowhere is refused
    (TRYAGAIN), and so is every hold. A request that is known is answered all the while."""
    with System(SHORT, redis=PrivateCluster()) as s:
        item = s.item(stock=10)
        key = "0198c1f0-6a3b-7c4d-8e5f-0123456789ab"
        assert s.buy(item, 1, key).status == 202
        item.await_settled()
        slot = s.redis.slot(item.key("meta"))
        to = next(n for n in s.redis.nodes if n is not s.redis.owner(slot))
        from_ = s.redis.begin_move(slot, to)
        for where in ("source", "target"):
            refused = s.buy(item, 2)
            assert refused.status == 503 and "retry-after" in refused.headers, (where, refused)
            assert s.state(item, 1, key).code == "SUCCEEDED", where
            again = s.buy(item, 1, key)
            assert again.headers["idempotent-replayed"] == "true" and again.code == "SUCCEEDED", (where, again)
            if where == "source":
                s.redis.move_keys(slot, from_, to)
        assert redirects(s.api, "ask") > 0 and redirects(s.query, "ask") > 0  # followed, to be refused there and to be answered
        # The order of the commands says who is asked first: whoever knows nothing of it still sends to the source.
        s.redis.end_move(slot, to)
        assert s.buy(item, 2).status == 202
        assert redirects(s.api, "moved") > 0
        item.await_settled()
        assert item.orders() == 2


@pytest.mark.parametrize("slots", [1000, 5461] if FULL else [1000])
def test_resharding_in_the_middle_of_a_sale(slots):
    """Slots go round all three masters, those of the items that are being sold among them, as redis-cli moves them."""
    with System({**SHORT, "worker.batch_max": 8}, redis=PrivateCluster()) as s:
        items = [s.item(stock=150, activity=a) for a in s.redis.activities().values()]
        storms = [s.storm(item, 200, "--rate", 40, background=True) for item in items]
        wait_for("each item to sell", lambda: all(item.books()["seq"] >= 10 for item in items))
        a, b, c = s.redis.nodes
        for from_, to in ((a, b), (b, c), (c, a)):
            s.redis.move(slots, to, from_)
        for item in items:  # each of them at least once
            slot = s.redis.slot(item.key("meta"))
            from_ = s.redis.owner(slot)
            to = next(n for n in s.redis.nodes if n is not from_)
            s.redis.begin_move(slot, to)
            s.redis.move_keys(slot, from_, to)
            s.redis.end_move(slot, to)
        for item, storm in zip(items, storms):
            s.storm_end(storm)
            s.storm(item, 200, "--rate", 400)
            item.await_settled()
            assert item.orders() == 150
        assert redirects(s.api, "moved") + redirects(s.worker, "moved") > 0


def test_a_master_that_dies_takes_only_its_own_items_along():
    """Its slots are nobody's until it is back; items elsewhere sell on (cluster-require-full-coverage no)."""
    with System(SHORT, redis=PrivateCluster(**{"cluster-require-full-coverage": "no"})) as s:
        catalogue = s.redis.owner(s.redis.slot("sec:items"))
        (dead, lost), (_, other) = [(node, s.item(stock=10, activity=a)) for node, a in s.redis.activities().items()
                                    if node is not catalogue]
        assert s.buy(lost, 1).status == 202
        lost.await_settled()
        dead.kill()
        for user in range(1, 6):
            wait_for("the other item to be sold", lambda u=user: s.buy(other, u).status == 202)
        wait_for("its orders", lambda: other.orders() == 5)
        refused = s.buy(lost, 2)
        assert refused.status in (503, 504), refused
        dead.start()
        wait_for("the item to be sold again", lambda: s.buy(lost, 2).status == 202)
        lost.await_settled()
        other.await_settled()
        assert lost.orders() == 2


def bought(s, item, users):
    """{user: order id}: each is accepted."""
    answers = {user: s.buy(item, user) for user in users}
    assert all(a.status == 202 for a in answers.values()), answers
    return {user: a.json["order_id"] for user, a in answers.items()}


def epoch(item):
    return item.scalar("SELECT epoch FROM seckill_inventory WHERE ITEM")


def await_rebuilt(item, above=1):
    r = item.system.redis_client
    wait_for(f"item {item.activity} to be rebuilt", lambda: epoch(item) > above and
             r.hmget(item.key("meta"), "epoch", "rebuild") == [str(epoch(item)).encode(), None], 60)


def sells_out(s, item, had, first):
    """Whoever has an order is told so, and exactly the rest is sold."""
    for user, order in had.items():
        answer = s.buy(item, user)
        assert answer.code == "DUPLICATE_ORDER" and answer.json["order_id"] == order, answer
    taken = sum(a.status == 202 for a in (s.buy(item, user) for user in range(first, first + item.stock)))
    assert taken == item.stock - len(had)
    item.await_settled()
    assert item.orders() == item.stock


def test_a_master_that_lost_its_data_has_its_own_items_rebuilt_alone():
    """Rules 34 to 36: flushed, or back as it was some writes ago (a failover to a replica that was behind), one with the catalogue
    and one without. The items of the other masters are sold on, in their epoch."""
    with System(SHORT, redis=PrivateCluster()) as s:
        catalogue = s.redis.owner(s.redis.slot("sec:items"))
        at = s.redis.activities()
        others = [node for node in at if node is not catalogue]
        items = {node: s.item(stock=12, activity=at[node]) for node in (catalogue, *others)}
        had = {node: bought(s, item, range(1, 5)) for node, item in items.items()}
        for item in items.values():
            item.await_settled()
        flushed, went_back = others
        flushed.connect().flushall()
        await_rebuilt(items[flushed])
        assert [epoch(items[n]) for n in (catalogue, went_back)] == [1, 1]

        went_back.kill()
        kept = f"{s.dir}/aof"
        shutil.copytree(f"{went_back.dir}/appendonlydir", kept)
        went_back.start()
        wait_for("it to be served again", lambda: s.buy(items[went_back], 1).code == "DUPLICATE_ORDER")
        had[went_back].update(bought(s, items[went_back], range(5, 8)))
        items[went_back].await_settled()
        went_back.kill()
        shutil.rmtree(f"{went_back.dir}/appendonlydir")
        shutil.copytree(kept, f"{went_back.dir}/appendonlydir")
        went_back.start()
        await_rebuilt(items[went_back])
        assert [epoch(items[n]) for n in (catalogue, flushed)] == [1, 2]

        catalogue.connect().flushall()
        await_rebuilt(items[catalogue])
        assert [epoch(items[n]) for n in others] == [2, 2]
        wait_for("the catalogue", lambda: s.redis_client.scard("sec:items") == 3)
        for node, item in items.items():
            sells_out(s, item, had[node], 100)


def test_reconciliation_looks_at_every_master():
    """Rule 40: a buyers entry that is gone comes back, units that appear are taken away, wherever the item is."""
    with System({**SHORT, "reconcile.interval": "200ms"}, redis=PrivateCluster()) as s:
        items = [s.item(stock=10, activity=a) for a in s.redis.activities().values()]
        for item in items:
            bought(s, item, range(1, 4))
        for item in items:
            item.await_settled()
            s.redis_client.hdel(item.key("buyers"), 2)
            s.redis_client.incrby(item.key("stock"), 3)
        for item in items:
            wait_for("its books to be right", lambda i=item: (i.books()["buyers"], i.books()["free"]) == (3, 7), 60)
            assert s.buy(item, 2).code == "DUPLICATE_ORDER"
