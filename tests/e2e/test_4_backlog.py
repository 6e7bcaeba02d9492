"""Issue 3, number 4: what the worker holds is bounded by its slots, whatever waits; an outage of PostgreSQL harms nothing."""
import contextlib
import os
import signal
import threading
import time
import uuid

from client import all_at_once
from services import wait_for
from system import FULL, GROUP, RELEASE_BIN, System


class Sampler:
    """Calls look() every few milliseconds beside the test."""

    def __init__(self, look, pause=0.005):
        self.look, self.pause = look, pause
        self.samples, self.failed = [], None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self.over.wait(self.pause):
                self.samples.append(self.look())
        except Exception as e:  # pylint: disable=broad-except
            self.failed = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()
        if exc[0] is None and self.failed:
            raise self.failed


def slow_down(s, seconds):
    """Each call of the order function takes so much longer. The probe, a call without messages, does not."""
    signature = ("p_activity bigint, p_sku bigint, p_message uuid[], p_request uuid[], p_reservation uuid[], p_user bigint[], "
                 "p_order bigint[], p_created_ms bigint[], p_epoch bigint[], p_seq bigint[]")
    names = ", ".join(word.split()[0] for word in signature.split(", "))
    s.sql("ALTER FUNCTION seckill_place RENAME TO seckill_place_fast")
    s.sql(f"""CREATE FUNCTION seckill_place({signature})
        RETURNS TABLE (ord integer, outcome integer, state text, reason text, give_back boolean, other_order_id bigint,
            other_reservation_id uuid, other_request_id uuid, outbox_id bigint, step_us bigint[])
        LANGUAGE plpgsql VOLATILE AS $$ BEGIN
            IF cardinality(p_message) > 0 THEN PERFORM pg_sleep({seconds}); END IF;
            RETURN QUERY SELECT * FROM seckill_place_fast({names}); END $$""")


def speed_up(s):
    s.sql("DROP FUNCTION seckill_place")
    s.sql("ALTER FUNCTION seckill_place_fast RENAME TO seckill_place")


def post_again(s, item, total):
    """Fills the stream up to total messages with copies of what is in it."""
    r = s.redis_client
    bodies = [fields[b"b"] for _, fields in r.xrange(item.key("events"))]
    missing = total - len(bodies)
    while missing > 0:
        pipe = r.pipeline(transaction=False)
        for body in bodies[:missing]:
            pipe.xadd(item.key("events"), {"b": body})
        missing -= len(pipe.execute())


def test_slots_bound_what_is_in_flight_and_memory_does_not_follow_the_backlog():
    """8 workers + 16 queued: 24. A hundred thousand messages wait, PostgreSQL is ten times slower than it is."""
    settings = {"worker.workers": 8, "worker.queue": 16}
    with System(settings, bin_dir=RELEASE_BIN) as s:
        real = 100_000 if FULL else 5_000
        item = s.item(stock=real)
        # What the memory is with everything in use, but nothing waiting.
        s.storm(item, 200, "--seed", 41)
        item.await_settled()
        s.worker.down()
        s.storm(item, real - 200, "--seed", 42)
        post_again(s, item, 100_000)
        slow_down(s, 0.03)
        s.worker.start()
        threads, memory = s.worker.proc("Threads"), s.worker.proc("VmRSS")
        r = s.redis.connect()
        pending = lambda: r.xpending(item.key("events"), GROUP)["pending"]  # noqa: E731
        look = lambda: (pending(), s.worker.proc("Threads"), s.worker.proc("VmRSS"))  # noqa: E731
        with Sampler(look) as seen:
            done = lambda: 100_000 - item.backlog()[0]  # noqa: E731
            wait_for("the slow worker to get somewhere", lambda: done() > 3000, 60)
            # Between two batches it may have nothing.
            in_flight = wait_for("work in hand", lambda: s.worker.metric("seckill_mq_inflight_messages"))
        assert item.backlog()[0] > 50_000, "PostgreSQL was not slow"
        assert in_flight <= 24
        most = max(p for p, _, _ in seen.samples)
        assert 8 < most <= 24, f"{most} in flight"
        # Beside them those that ask PostgreSQL to give up a statement (pg_cancel.c).
        assert threads <= max(t for _, t, _ in seen.samples) <= threads + 4
        grown = max(m for _, _, m in seen.samples) - memory
        assert grown < 8 * 1024, f"{grown} kB more with a backlog of 100,000"
        speed_up(s)
        # The rest with more slots.
        assert s.worker.terminate() == 0
        s.worker.settings = {"worker.workers": 32, "worker.queue": 64}
        s.worker.start()
        item.await_settled(120)
        assert item.orders() == real
        item.audit()


def outage(take_away, bring_back, seconds):
    """Rules 20, 21 and 29: an outage is nobody's own failure; nothing is received while it lasts. For more than ten leases
    (failures.md 18)."""
    with System({"worker.recover_after": "2s", "worker.workers": 32, "worker.queue": 64, "queue.lease": "5s",
                 "worker.lease_margin": "1s"}) as s, contextlib.ExitStack() as at_end:
        at_end.callback(lambda: s.pg.tether and bring_back(s))  # also after a failure: what is stopped cannot end
        item = s.item(stock=400)
        for user in range(1, 101):
            assert s.buy(item, user).status == 202
        item.await_settled()
        take_away(s)
        down_at = time.monotonic()
        # Selling goes on; nobody hears of it.
        keys = {user: str(uuid.uuid4()) for user in range(101, 401)}
        answers = all_at_once(s.api.ports["api"], [s.order_request(item, u, k) for u, k in keys.items()], limit=50)
        assert [a.status for a in answers] == [202] * 300
        wait_for("the breaker", lambda: s.worker.metric("seckill_pg_breaker_open") == 1)
        wait_for("the worker to be unready", lambda: s.worker.get("/readyz").status == 503)
        waiting = item.backlog()[0]
        answer = s.state(item, 400, keys[400])
        assert (answer.status, answer.json["state"]) in ((200, "QUEUED"), (200, "PROCESSING")), answer
        while time.monotonic() < down_at + seconds:
            time.sleep(0.25)  # the length of the outage is what is tested
            assert s.worker.alive() and s.worker.get("/livez").status == 200 and s.api.get("/readyz").status == 200
        assert item.backlog()[0] == waiting > 0
        assert s.worker.metric("seckill_mq_dlq_messages_total") == 0
        bring_back(s)
        item.await_settled(30)  # I10
        assert s.sql("SELECT count(*) FROM consumer_attempt_log") == [(0,)]
        assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]
        assert item.orders() == 400
        wait_for("readiness", lambda: s.worker.get("/readyz").status == 200)
        for user, key in list(keys.items())[::30]:
            assert s.state(item, user, key).json["state"] == "SUCCEEDED"


def test_postgresql_away_for_a_minute():
    outage(lambda s: s.pg.kill(), lambda s: s.pg.tether or s.pg.start(), 60)


def test_postgresql_there_but_silent():
    """Connections hang instead of failing: no connect ends, no answer comes."""
    stopped = []

    def stop(s):
        stopped.extend(s.pg.processes())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    def go_on(_):
        while stopped:
            try:
                os.kill(stopped.pop(), signal.SIGCONT)
            except ProcessLookupError:
                pass

    outage(stop, go_on, 20 if FULL else 6)
