"""I11: the metrics tell what really happened, by the fault proxy's own count; and an audit of all that I1–I11 ask for, after
faults. Rules 16 and 32."""
from faultproxy import script
from faults import Linked
from services import wait_for

# One message at a time, so that each lost answer is one transaction's; and none is given up because the machine is busy.
SETTINGS = {"worker.batch_max": "1", "worker.tx_budget": "20s", "worker.retry_floor": "1000", "worker.breaker_cooldown": "50ms"}


def test_each_lost_commit_is_counted():
    """The answer of COMMIT is lost five times: five unknown commits, and every unit sold once."""
    with Linked(SETTINGS) as l:
        s, link = l.system, l.link("worker", "pg")
        item = s.item(stock=40)
        with link.drop_reply("pgsql", "seckill_place", nth=5, count=5, then="close") as toxic:
            s.storm(item, 60)
            toxic.wait_for(dropped=5)
            s.note_fault("answers of COMMIT dropped")
            item.await_settled(60)
            dropped = toxic.stats["dropped"]
        s.observed.injected("seckill_pg_commit_unknown_total", dropped, "answers of COMMIT dropped by the fault proxy",
                            program="order-worker")
        told = item.audit("--sold-out", "--strict")
        assert {c["id"]: c["result"] for c in told["checks"]} == {c["id"]: "ok" for c in told["checks"]}
        assert told["counts"]["orders"] == 40
        assert s.worker.metric("seckill_order_created_total") == 40, "also those that only the inbox told of"


def test_each_lost_hold_is_counted():
    """The answer of reserve is lost: asked again with the same ids (rule 13), which takes no second unit."""
    with Linked({"api.retry_floor": "1000", "redis.backoff_max": "20ms"}) as l:
        s, link = l.system, l.link("api", "redis")
        item = s.item(stock=10)
        with link.drop_reply("resp", script("reserve"), nth=3, count=1, then="close") as toxic:
            for user in range(1, 13):
                assert s.buy(item, user).status in (202, 409)
            toxic.wait_for(dropped=1)
        wait_for("the end of it", lambda: item.orders() == 10)
        s.observed.injected("seckill_hold_retries_total", 1, "an answer of reserve dropped by the fault proxy", program="seckill-api")
        s.observed.injected("seckill_hold_unknown_total", 0, "and the second try answered", program="seckill-api")
        item.audit("--sold-out", "--strict")
