"""Scenarios of failures.md that have no other place: docs/reliability.md lists them all."""
import collections
import threading
import uuid

import client
from faultproxy import script
from faults import Linked, inventory_held, settle_and_audit
from services import wait_for
from system import PATIENT, System


def redis_ms(s):
    seconds, micros = s.redis_client.time()
    return seconds * 1000 + micros // 1000


def test_before_the_start_and_after_the_end():
    """Scenario 2; rule 15. A thousand requests just before the start, then one after the other over the start and over the end:
    what is answered agrees with Redis's clock, read before and after."""
    with System() as s:
        for soon in (3, 12, 48):  # as long as this machine needs for a thousand
            item = s.item(stock=5000, starts=f"+{soon}s", ends=f"+{soon + 3}s")
            starts, ends = (int(s.redis_client.hget(item.key("meta"), k)) for k in ("starts_ms", "ends_ms"))
            early = client.all_at_once(s.api.ports["api"], [s.order_request(item, user) for user in range(1, 1001)], limit=200)
            if redis_ms(s) < starts:
                break
        assert collections.Counter(a.code for a in early) == {"NOT_OPEN": 1000}
        assert item.books()["free"] == 5000 and item.books()["seq"] == 1
        seen, user = collections.Counter(), 5000
        with client.Connection(s.api.ports["api"]) as c:
            while not seen["ENDED"]:
                user += 1
                before = redis_ms(s)
                c.send(s.order_request(item, user))
                code, after = c.answer().code, redis_ms(s)
                seen[code] += 1
                possible = {"NOT_OPEN": before < starts, "QUEUED": after >= starts and before < ends, "ENDED": after >= ends}
                assert possible.get(code), (code, before - starts, after - ends)
        print(dict(seen))
        assert seen["QUEUED"] > 0 and seen["NOT_OPEN"] > 0
        settle_and_audit(item, seen["QUEUED"])


def test_scripts_are_flushed():
    """Scenario 7. SCRIPT FLUSH every 200 ms under load: no client notices, and each connection loads once for each flush at
    most."""
    with System() as s:
        item = s.item(stock=400)
        flushes, over = [0], threading.Event()

        def flush():
            r = s.redis.connect()
            while not over.wait(0.2):
                r.script_flush()
                flushes[0] += 1
        flusher = threading.Thread(target=flush)
        flusher.start()
        try:
            totals = s.storm(item, 600, "--rate", 300)
        finally:
            over.set()
            flusher.join()
        item.await_settled()
        assert flushes[0] >= 5
        assert totals["retries"] == 0, totals
        connections = s.api.metric("seckill_redis_active_connections")
        scripts = 12  # at most so many are used on a connection
        assert s.api.metric("seckill_redis_script_reloads_total") <= (flushes[0] + 1) * connections * scripts
        settle_and_audit(item, 400)


def test_a_hold_that_arrives_late_takes_no_unit():
    """Scenario 21; rule 15. Held back in the network until long after the buyer was told 504."""
    with Linked({**PATIENT, "api.submit_timeout": "400ms", "api.hold_timeout": "300ms", "redis.stall_timeout": "60s"}) as l:
        s, link = l.system, l.link("api", "redis")
        item = s.item(stock=5)
        assert s.buy(item, 1).status == 202
        arrived = link.drop_reply("resp", script("reserve"), count=0, percent=0)
        with link.toxic("latency", stream="upstream", latency=3000):
            answer = s.buy(item, 2)
            assert answer.status == 504, answer
            assert item.books()["free"] == 4
            arrived.wait_for(matched=1)
        wait_for("it to be heard and refused", lambda: s.api.metric("seckill_redis_late_replies_total") >= 1)
        assert item.books()["free"] == 4 and item.books()["seq"] == 2
        wait_for("the link", lambda: s.buy(item, 2, str(uuid.uuid4())).status == 202)
        settle_and_audit(item, 2)


def test_several_workers_share_one_hot_item():
    """Scenario 16, on streams: all of them work, and none has its half more than the average, while PostgreSQL is what is slow."""
    small = {"worker.receive_max": 4, "worker.workers": 4, "worker.queue": 4, "worker.batch_max": 4}
    with System(small) as s:
        workers = [s.worker, *(s.program("worker") for _ in range(2))]
        item = s.item(stock=1500)
        for worker in workers[1:]:
            worker.start()
        s.sql("""CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$;
                 CREATE TRIGGER slow BEFORE INSERT ON consumer_inbox FOR EACH STATEMENT EXECUTE FUNCTION slow()""")
        with inventory_held(s):
            s.storm(item, 1500)
            wait_for("all to have something", lambda: all(w.metric("seckill_mq_inflight_messages") > 0 for w in workers))
        item.await_settled()
        made = [int(w.metric("seckill_order_created_total")) for w in workers]
        print(made)
        assert sum(made) == 1500 and max(made) <= 1.5 * 1500 / len(workers)
        settle_and_audit(item, 1500)

