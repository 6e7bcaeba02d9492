"""order-worker as a process, on a real Redis and a real PostgreSQL: killed at each of its named places, drained, cut off
from its database, stopped and continued."""
import signal
import time

import pytest

from sale import Sale, Worker, wait_for
from services import postgres, redis_server  # noqa: F401


@pytest.fixture
def sale(postgres, redis_server):  # noqa: F811
    made = []

    def make(stock):
        made.append(Sale(postgres, redis_server, stock))
        return made[-1]

    yield make
    for s in made:
        s.close()


def finish(s, orders, dead=0, **settings):
    """A healthy life brings everything to its end and drains cleanly."""
    with Worker(s, **settings) as w:
        wait_for("every order", lambda: s.orders() == orders, 60)
        if dead == 0:
            s.wait_settled()
        assert w.terminate() == 0
    s.audit(orders, dead)


def test_all_are_ordered_and_the_drain_is_clean(sale):
    s = sale(1000)
    s.reserve(range(1, 1001))
    with Worker(s) as w:
        wait_for("every order", lambda: s.orders() == 1000, 60)
        s.wait_settled()
        assert w.admin("/startupz")[0] == 200 and w.admin("/readyz")[0] == 200
        assert w.metric("seckill_order_created_total") == 1000
        assert w.metric("seckill_mq_inflight_messages") == 0
        assert w.terminate() == 0
    s.audit(1000)
    # The clean end leaves no consumer behind.
    assert s.redis.xinfo_consumers(s.tag + "events", "seckill-order-create-v1") == []


@pytest.mark.parametrize("point", ["after_receive", "before_place", "after_commit", "after_settle", "after_ack",
                                   "before_mark_settled"])
@pytest.mark.parametrize("time_reached", [1, 3])
def test_killed_on_the_way(sale, point, time_reached):
    s = sale(200)
    s.reserve(range(1, 151))
    small = {"worker.batch_max": 16, "worker.receive_max": 16, "worker.workers": 16, "worker.queue": 16}
    with Worker(s, crashpoint=f"{point}:{time_reached}", **small) as w:
        s.reserve(range(151, 201))
        if not (point == "before_mark_settled" and time_reached > 1):  # marks are coalesced: there may be one only
            assert w.wait_dead() == -signal.SIGKILL
    finish(s, 200)


@pytest.mark.parametrize("point", ["recover_after_claim", "recover_after_publish"])
def test_killed_while_recovering(sale, point):
    s = sale(20)
    s.reserve(range(1, 21))
    for entry, _ in s.redis.xrange(s.tag + "events"):
        s.redis.xdel(s.tag + "events", entry)  # the queue lost what it had confirmed
    fast = {"worker.recover_after": "300ms", "worker.recover_interval": "100ms", "worker.poll": "200ms"}
    with Worker(s, crashpoint=point, **fast) as w:
        assert w.wait_dead() == -signal.SIGKILL
    finish(s, 20, **fast)


def test_killed_in_the_relay(sale):
    s = sale(50)
    s.reserve(range(1, 51))
    with Worker(s, crashpoint="after_commit") as w:
        assert w.wait_dead() == -signal.SIGKILL
    with Worker(s, crashpoint="relay_after_settle") as w:
        assert w.wait_dead() == -signal.SIGKILL
    finish(s, 50)


def test_killed_after_a_quarantine(sale):
    """Stored, not acked: the redelivery finds it there, and it is stored once (rule 24)."""
    s = sale(10)
    s.reserve(range(1, 6))
    s.redis.xadd(s.tag + "events", {"b": "{nonsense"})
    with Worker(s, crashpoint="quarantine_stored") as w:
        assert w.wait_dead() == -signal.SIGKILL
    with Worker(s) as w:
        wait_for("every order", lambda: s.orders() == 5)
        s.wait_settled()
        assert w.terminate() == 0
    assert s.one("SELECT count(*) FROM dead_letters WHERE reason = 'not JSON'") == 1


def test_a_message_that_aborts_the_worker_every_time(sale):
    """Rule 23: quarantined in the end, its neighbours all ordered, and new ones meanwhile."""
    s = sale(200)
    s.reserve(range(1, 101))
    deaths = 0
    end = time.monotonic() + 150
    while s.dead_letters() == 0:
        assert time.monotonic() < end
        with Worker(s, crashpoint="place_message:42", **{"queue.lease": "500ms", "worker.lease_margin": "150ms"}) as w:
            wait_for("the death or the quarantine", lambda: w.process.poll() is not None or s.dead_letters(), 40)
            if s.dead_letters():
                wait_for("the neighbours", lambda: s.orders() == len(s.users) - 1, 40)
                assert w.terminate() == 0
                break
            deaths += 1
        s.reserve([100 + deaths])
    assert 5 <= deaths <= 30
    assert s.orders() == len(s.users) - 1
    assert s.one("SELECT status FROM consumer_inbox WHERE message_id = %s", s.users[42]["message_id"]) == "QUARANTINED"
    s.audit(len(s.users) - 1, dead=1)


def test_slow_rows_come_through_at_their_speed(sale):
    """Each row takes PostgreSQL 100 ms: orders come all the time, none goes round, none is taken for a suspect."""
    s = sale(200)
    s.sql.execute(f"""CREATE FUNCTION slow_{s.sku}() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN IF NEW.sku_id = {s.sku} THEN PERFORM pg_sleep(0.1); END IF; RETURN NEW; END'""")
    s.sql.execute(f"CREATE TRIGGER slow_{s.sku} BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION slow_{s.sku}()")
    try:
        s.reserve(range(1, 81))
        with Worker(s, **{"queue.lease": "10s", "worker.lease_margin": "2s"}) as w:
            wait_for("the first order", lambda: s.orders() > 0)
            end, seen = time.monotonic() + 90, [s.orders()]  # by looks, not by the clock: who looks stands still with the machine
            while seen[-1] < 80:
                assert time.monotonic() < end
                time.sleep(0.02)
                seen.append(s.orders())
            assert max(map(seen.count, seen)) < 75
            s.wait_settled()
            assert w.metric('seckill_mq_delivery_attempt{bucket="2-3"}') == 0
            assert w.metric("seckill_suspects_total") == 0
            assert w.metric("seckill_worker_batch_limit") < 16
            assert w.terminate() == 0
    finally:
        s.sql.execute(f"DROP FUNCTION slow_{s.sku} CASCADE")
    assert s.one("SELECT count(*) FROM consumer_attempt_log") == 0
    s.audit(80)


def test_healthy_ones_behind_garbage(sale):
    """Rule 24: what a bad deployment left behind is put away quickly, each once, and said once a second."""
    s = sale(100)
    pipe = s.redis.pipeline(transaction=False)
    for i in range(2000):
        pipe.xadd(s.tag + "events", {"b": f"garbage {i}"})
    pipe.execute()
    s.reserve(range(1, 6))
    with Worker(s) as w:
        said, began = w.log.tell(), time.monotonic()
        wait_for("the orders behind", lambda: s.orders() == 5)
        s.wait_settled()
        assert w.terminate() == 0
        log = open(w.log_path, encoding="utf-8")
        log.seek(said)
        assert log.read().count("message quarantined") <= 3 + time.monotonic() - began
    assert s.dead_letters() == 2000
    s.dead_letters = lambda: 0  # they hold no unit
    s.audit(5)


def test_terminated_under_load(sale):
    """What was in hand is finished, the rest is left to the next life; nothing is delivered twice."""
    s = sale(3000)
    s.reserve(range(1, 3001))
    with Worker(s) as w:
        wait_for("the first orders", lambda: s.orders() > 100)
        assert w.terminate() == 0
    done = s.orders()
    assert s.unsettled() == 0
    groups = s.redis.xinfo_groups(s.tag + "events")
    assert groups[0]["pending"] == 0, "everything received was acknowledged"
    assert done + s.pending() == 3000
    finish(s, 3000)


def test_the_drain_deadline(sale, postgres):  # noqa: F811
    """What cannot be finished in time is cancelled, goes unacked, and is ordered by the next life."""
    s = sale(50)
    with postgres.connect() as other:
        other.autocommit = False
        other.execute("SELECT FROM seckill_inventory WHERE sku_id = %s FOR UPDATE", [s.sku])
        s.reserve(range(1, 51))
        with Worker(s, **{"drain.worker": "300ms", "worker.tx_budget": "20s", "queue.lease": "30s",
                          "worker.lease_margin": "1s"}) as w:
            wait_for("messages in hand", lambda: w.metric("seckill_mq_inflight_messages") == 50)
            start = time.monotonic()
            assert w.terminate() == 0
            assert 0.3 <= time.monotonic() - start < 18  # worker.tx_budget
        other.rollback()
    assert s.unacked() == 50
    for message in s.redis.xpending_range(s.tag + "events", "seckill-order-create-v1", "-", "+", 100):
        # Its lease would end in 30 s: the test does not wait.
        s.redis.xclaim(s.tag + "events", "seckill-order-create-v1", message["consumer"], 0, [message["message_id"]],
                       idle=3600000)
    finish(s, 50)


def test_stopped_and_continued(sale):
    """SIGSTOP for longer than the lease, with another worker beside it."""
    s = sale(600)
    s.reserve(range(1, 301))
    with Worker(s, **{"worker.batch_max": 8}) as first:
        wait_for("the first orders", lambda: s.orders() > 20)
        first.process.send_signal(signal.SIGSTOP)
        s.reserve(range(301, 601))
        with Worker(s) as second:
            wait_for("every order", lambda: s.orders() == 600, 60)
            first.process.send_signal(signal.SIGCONT)
            s.wait_settled()
            assert first.terminate() == 0
            assert second.terminate() == 0
    s.audit(600)


def test_the_database_is_away(sale, postgres):  # noqa: F811
    """Nothing is quarantined, nothing counted, nothing received; everything is ordered after."""
    s = sale(500)
    s.reserve(range(1, 101))
    with Worker(s, **{"worker.workers": 32, "worker.queue": 64}) as w:
        wait_for("the first orders", lambda: s.orders() > 0)
        postgres.kill()
        s.reserve(range(101, 501))
        wait_for("the breaker to open", lambda: w.metric("seckill_pg_breaker_open") == 1)
        assert w.admin("/readyz")[0] == 503
        assert w.metric("seckill_mq_inflight_messages") <= 96
        postgres.start()
        s.sql = postgres.connect()
        wait_for("every order", lambda: s.orders() == 500, 60)
        s.wait_settled()
        assert s.one("SELECT count(*) FROM consumer_attempt_log") == 0
        assert w.terminate() == 0
    s.audit(500)


def test_redis_is_killed_and_comes_back(sale, redis_server):  # noqa: F811
    s = sale(2000)
    s.reserve(range(1, 2001))
    with Worker(s) as w:
        wait_for("the first orders", lambda: s.orders() > 50)
        redis_server.kill()
        redis_server.start()
        wait_for("every order", lambda: s.orders() == 2000, 60)
        s.wait_settled()
        assert w.terminate() == 0
    s.audit(2000)
