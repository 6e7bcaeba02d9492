"""What happens to brokers, proxies and the links to them, under load. However often a message is on the wire, it counts once;
the audit after each."""
import itertools
import os
import signal
import uuid

import client
from sale import SHORT, System, await_ready, listening, settle_and_audit, through, wait_for
from services import Server
from system import FULL


def publish_result(program, result):
    return program.metric(f'seckill_reservation_publish_total{{result="{result}"}}')


def test_the_broker_is_killed_under_load_and_strict_sells_nothing_meanwhile(mq):
    """In LOCAL mode the proxy with it. Rules 1, 8, 14, 28 and 31. Beside it a second seckill-api in strict mode: 503 means
    that the unit is back, and the same key may compete again."""
    with System(SHORT, queue=mq) as s:
        strict = s.program("api", **{"api.publish_refused": "strict", "api.publish_timeout": "1s"})
        strict.start()
        item, other = s.item(stock=300), s.item(stock=1)
        storm = s.storm(item, 400, "--rate", 80, background=True)
        wait_for("some orders", lambda: item.orders() >= 40)
        mq.kill()
        key = str(uuid.uuid4())

        def refused():
            """What was on the wire at that moment is unknown, and what nobody can be asked about is held: that is 202."""
            with client.Connection(strict.ports["api"]) as c:
                c.send(s.order_request(other, 7, key))
                return c.answer()
        for _ in range(2):
            answer = refused()
            assert (answer.status, answer.code) == (503, "DEPENDENCY_UNAVAILABLE"), answer
            assert other.record(7, key) == {} and other.books()["free"] == 1
        wait_for("strict to be unready", lambda: strict.get("/readyz").status == 503)
        assert s.api.get("/readyz").status == 200
        wait_for("the worker to say so", lambda: s.worker.get("/readyz").status == 503)
        mq.again()
        await_ready(strict, s.worker)
        assert refused().status == 202
        s.storm_end(storm)
        settle_and_audit(other, 1)
        settle_and_audit(item, 300)
        assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]


def test_the_reply_of_a_send_is_lost(mq, faults):
    """failures.md 4; rule 14: the broker has stored it and nobody hears so. The unit stays held, the next buyer is refused,
    and the first gets one order."""
    s = System({**SHORT, "worker.recover_after": "60s"}, queue=mq)
    link, = through(faults, mq, s.api)
    with s:
        item = s.item(stock=1)
        key = str(uuid.uuid4())
        with link.drop_reply("http2", "SendMessage", count=0) as lost:
            answer = s.buy(item, 7, key)
            assert (answer.status, answer.code) == (202, "QUEUED")
            assert s.buy(item, 8).code == "SOLD_OUT"
            lost.wait_for(dropped=1)
            wait_for("its end", lambda: publish_result(s.api, "unknown") == 1)
            item.await_settled()
        assert s.state(item, 7, key).json["state"] == "SUCCEEDED"
        settle_and_audit(item, 1)
        assert s.worker.metric("seckill_recover_republished_total") == 0


def test_half_of_all_replies_to_sends_are_lost(mq, faults):
    """The matrix's row: each is stored, and unknown here; no unit is given back for it, and none becomes two orders."""
    s = System({**SHORT, "rocketmq.send_timeout": "400ms"}, queue=mq)
    link, = through(faults, mq, s.api)
    with s:
        lost = 0
        while lost < (2_000 if FULL else 500):
            item = s.item(stock=200)
            with link.drop_reply("http2", "SendMessage", count=0, percent=50) as toxic:
                s.storm(item, 240, "--rate", 200)
                item.await_settled(60)
                dropped = toxic.stats["dropped"]
            assert dropped > 0
            lost += dropped
            settle_and_audit(item, 200)
        print(f"{lost} replies lost")


def test_a_worker_sleeps_longer_than_its_lease(mq):
    """failures.md 5 and 20. Some of what it holds is committed while it sleeps, some was not begun; all of it belongs to
    another when it wakes up, and acks with handles that are no more."""
    with System({**SHORT, "worker.workers": 8, "worker.queue": 32}, queue=mq) as s:
        item = s.item(stock=60)
        s.worker.terminate()
        for user in range(1, 41):
            assert s.buy(item, user).status == 202
        s.sql("BEGIN")
        s.sql("SELECT FROM seckill_inventory FOR UPDATE")
        s.worker.start()
        wait_for("messages in hand", lambda: s.worker.metric("seckill_mq_inflight_messages") >= 16)
        s.worker.signal(signal.SIGSTOP)
        try:
            s.sql("COMMIT")
            second = s.program("worker")
            second.start()
            wait_for("the other one to have its messages", lambda: second.metric("seckill_mq_redelivered_total") > 0, 60)
            wait_for("all orders", lambda: item.orders() == 40, 60)
        finally:
            s.worker.signal(signal.SIGCONT)
        settle_and_audit(item, 40)


def kinds(program):
    return {k: v for k, v in program.metrics().items() if k.startswith("seckill_mq_complaints") and v}


def test_the_links_are_cut_and_go_silent_under_load(mq, faults):
    """Telemetry, long polls, sends and acks share a connection: reset, then cut off without a word (half-open), then the
    settings' answer alone is lost. The consumer goes on within seconds of each."""
    s = System({**SHORT, "rocketmq.lease": "5s"}, queue=mq, record=True)
    to_api, to_worker = through(faults, mq, s.api, s.worker)
    with s:
        item = s.item(stock=1000)
        storm = s.storm(item, 500, "--rate", 50, background=True)
        buyers = itertools.count(1)

        def goes_on(what):
            users = [next(buyers) for _ in range(20)]
            for user in users:
                assert s.buy(item, user).status == 202
            wait_for(f"orders after {what}", lambda: item.ordered(users) == 20, 30)
        goes_on("the start")
        for _ in range(3):
            with to_worker.toxic("reset_peer", timeout=0), to_api.toxic("reset_peer", timeout=0):
                wait_for("nothing to be connected", lambda: s.worker.metric("seckill_grpc_reconnects_total") > 0)
            goes_on("a reset")
        missed = s.worker.metric("seckill_mq_heartbeats_missed_total")
        with to_worker.toxic("blackhole"):
            wait_for("missed heartbeats", lambda: s.worker.metric("seckill_mq_heartbeats_missed_total") >= missed + 2)
        goes_on("silence")
        with to_worker.drop_reply("http2", "Telemetry", count=1) as lost:
            to_worker.disable()
            to_worker.enable()
            lost.wait_for(matched=1)
            goes_on("an answer that is lost")
        s.storm_end(storm)
        settle_and_audit(item, 500 + next(buyers) - 1)
        assert not kinds(s.api) and not kinds(s.worker)
        await_ready(s.api, s.worker)


class Nginx(Server):
    """gRPC's other proxies do as this one does: a GOAWAY after so many calls of a connection."""

    def __init__(self, upstream, calls):
        super().__init__()
        self.upstream, self.calls, self.listen = upstream, calls, f"unix:{self.dir}/sock"

    def command(self):
        with open(f"{self.dir}/nginx.conf", "w", encoding="ascii") as f:
            f.write(f"""daemon off; master_process off; pid {self.dir}/pid; error_log stderr warn;
                events {{ worker_connections 256; }}
                http {{ access_log off; client_body_temp_path {self.dir}/body; proxy_temp_path {self.dir}/proxy;
                  fastcgi_temp_path {self.dir}/fastcgi; uwsgi_temp_path {self.dir}/uwsgi; scgi_temp_path {self.dir}/scgi;
                  upstream mq {{ server {self.upstream}; keepalive 64; }}
                  server {{ listen {self.listen} http2; keepalive_requests {self.calls};
                    client_max_body_size 0; client_body_timeout 1h; grpc_read_timeout 1h; grpc_send_timeout 1h;
                    location / {{ grpc_pass grpc://mq; }} }} }}""")
        return ["/usr/sbin/nginx", "-p", self.dir, "-c", f"{self.dir}/nginx.conf", "-e", "stderr"]

    def ready(self):
        return os.path.exists(f"{self.dir}/sock")


def test_goaway_after_every_twenty_calls(mq, faults):
    """What was not begun is sent again, what was goes on where it is; nobody notices."""
    with Nginx(mq.endpoints, calls=20) as nginx:
        s = System({**SHORT, "rocketmq.send_timeout": "20s", "worker.recover_after": "60s"}, queue=mq)  # a cold JVM is slow
        links = through(faults, mq, s.api, s.worker, upstream=nginx.listen)
        counters = [link.toxic("latency", latency=0) for link in links]
        with s:
            item = s.item(stock=200)
            s.storm(item, 250, "--rate", 100)
            settle_and_audit(item, 200)
            assert publish_result(s.api, "accepted") == 200
            assert s.api.metric("seckill_grpc_reconnects_total") == 0
            for counter in counters:
                assert counter.stats["connections"] >= 3


def test_topic_and_groups_are_missing_and_come(mq):
    """Readiness, log, metric and the operator's commands name what is missing and the command that makes it; no restart is
    needed then."""
    s = System({**SHORT, "api.publish_refused": "strict"}, queue=mq, make_topics=False)
    for program in (s.api, s.worker):
        program.ready = lambda p=program: listening(p)
    with s:
        for program in (s.api, s.worker):
            wait_for("it to be said", lambda p=program: b"mqadmin updateTopic" in p.get("/readyz").body)
            assert program.get("/readyz").status == 503 and program.get("/startupz").status == 503
            assert kinds(program)['seckill_mq_complaints{kind="topic"}'] >= 1
            wait_for("the log", lambda p=program: any(s.topic in (line["why"] or "") for line in p.logged("waiting for the queue")))
        s.mq.topic(s.topic)
        await_ready(s.api)
        wait_for("the group to be missed", lambda: b"mqadmin updateSubGroup" in s.worker.get("/readyz").body, 60)
        assert s.worker.get("/readyz").status == 503 and kinds(s.worker)['seckill_mq_complaints{kind="group"}'] >= 1
        s.make_topics()
        await_ready(s.api, s.worker)
        item = s.item(stock=5)
        for user in range(1, 7):
            assert s.buy(item, user).status == (202 if user <= 5 else 409)
        settle_and_audit(item, 5)
        assert not kinds(s.api) and not kinds(s.worker)


def test_the_broker_asks_for_fewer_polls(mq):
    """42900 to each long poll that would have to wait: a pause, not a storm, and whatever comes is received."""
    with System(SHORT, queue=mq) as s:
        item = s.item(stock=50)
        mq.remoting(25, "popPollingSize=-1\n")
        try:
            wait_for("a refusal", lambda: s.worker.metric("seckill_mq_throttled_total") > 0)
            s.storm(item, 60, "--rate", 50)
            item.await_settled()
            polls = s.worker.metric("seckill_grpc_calls_total")
            began = s.worker.metric("seckill_mq_throttled_total")
            wait_for("more refusals", lambda: s.worker.metric("seckill_mq_throttled_total") >= began + 3)
            assert s.worker.metric("seckill_grpc_calls_total") < polls + 200
        finally:
            mq.remoting(25, "popPollingSize=1024\n")
        settle_and_audit(item, 50)


