"""failures.md, matrix: the server acted and its reply never arrives; scenarios 11 and 13. Rules 13, 14, 16: the same ids again,
one unit, one order. What follows is an end of the connection, or silence."""
import time

import pytest

from faultproxy import script
from faults import TIMES, Linked, settle_and_audit

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
            began = time.monotonic()
            item = l.system.item(stock=STOCK)
            with link.drop_reply(protocol, match, then="close", count=0, percent=30) as toxic:
                l.system.storm(item, STOCK + 40)
                print(f"stormed after {time.monotonic() - began:.1f} s")
                item.await_settled(60)
                dropped = toxic.stats["dropped"]
            assert dropped > 0
            lost += dropped
            print(f"{dropped} after {time.monotonic() - began:.1f} s")
            settle_and_audit(item, STOCK)
        print(f"{what}: {lost} replies lost")


@pytest.mark.parametrize("what", ["hold", "order"])
def test_silence_follows(what):
    """The connection stays, and nothing comes any more: the deadline ends the wait, and the call is repeated elsewhere or later."""
    part, store, protocol, match = LOST[what]
    with Linked({**EAGER, "redis.stall_timeout": "300ms", "api.hold_timeout": "200ms"}) as l:
        item = l.system.item(stock=50)
        with l.link(part, store).drop_reply(protocol, match, nth=3, count=5, then="swallow") as toxic:
            l.system.storm(item, 60, "--rate", 60)
            toxic.wait_for(dropped=1)
        settle_and_audit(item, 50)
