"""failures.md, matrix: the server acted and its reply never arrives; scenarios 11 and 13. Rules 13, 14, 16: the same ids again,
one unit, one order. What follows is an end of the connection, or silence."""
import random

import pytest
from faultproxy import script
from faults import SEED, SHORT, TIMES, Linked, sell_out_and_audit, settle_and_audit
from system import System

# What is lost → on which link, in which protocol, what matches. One message at a time, so that there are many of each.
LOST = {
    "hold": ("api", "redis", "resp", script("reserve")),
    "order": ("worker", "pg", "pgsql", "seckill_place"),
    "settle": ("worker", "redis", "resp", script("settle")),
    "ack": ("worker", "redis", "resp", "XACK"),
}
# Here repeating is what is tested; how much of it there may be: test_links.py.
EAGER = {"worker.batch_max": "1", "worker.retry_floor": "100000", "api.retry_floor": "100000", "redis.backoff_max": "20ms",
         "worker.breaker_cooldown": "50ms"}
STOCK = 500


@pytest.mark.parametrize("what", LOST)
def test_replies_are_lost(what):
    part, store, protocol, match = LOST[what]
    with Linked(EAGER) as l:
        link, lost = l.link(part, store), 0
        while lost < TIMES["lost replies"]:
            item = l.system.item(stock=STOCK)
            with link.drop_reply(protocol, match, then="close", count=0, percent=30) as toxic:
                l.system.storm(item, STOCK + 40)
                item.await_settled(60)
                dropped = toxic.stats["dropped"]
            assert dropped > 0
            lost += dropped
            sell_out_and_audit(item, STOCK)
        print(f"made {lost} replies lost after {what}")


@pytest.mark.parametrize("what", ["hold", "order"])
def test_silence_follows(what):
    """The connection stays, and nothing comes any more: the deadline ends the wait, and the call is repeated elsewhere or later."""
    part, store, protocol, match = LOST[what]
    with Linked({**EAGER, "redis.stall_timeout": "300ms", "api.hold_timeout": "200ms"}) as l:
        item = l.system.item(stock=50)
        with l.link(part, store).drop_reply(protocol, match, nth=3, count=5, then="swallow") as toxic:
            l.system.storm(item, 60, "--rate", 60)
            toxic.wait_for(dropped=1)
        sell_out_and_audit(item, 50)


def test_delivered_a_hundred_times():
    """Rules 1, 9, 16: a hundred messages a hundred times each change nothing after the first time."""
    rng = random.Random(SEED)
    with System({**SHORT, "queue.trim_interval": "10m"}) as s:
        for _ in range(TIMES["deliveries"] // 10_000):
            item = s.item(stock=100)
            s.storm(item, 100)
            item.await_settled()
            before, again = item.books(), item.published(100) * 99
            rng.shuffle(again)
            item.publish(*again)
            item.await_settled()
            assert item.books() == before
            settle_and_audit(item, 100)
        print(f"made {TIMES['deliveries']} deliveries")
