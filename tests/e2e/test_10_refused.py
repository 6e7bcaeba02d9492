"""A queue that is not the store's and says no: what the buyer is told, what becomes of the unit, what readiness and the
start say. No broker is needed for that: nobody listens at its address, or somebody who denies. Rules 1, 8, 13, 14."""
import json
import signal
import socket
import struct
import threading

import pytest

import client
from services import wait_for
from system import System

KEY = "0198c1f0-6a3b-7c4d-8e5f-0123456789ab"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Denying:
    """A gRPC server that answers each call with UNAUTHENTICATED."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)  # ends accept
        self.socket.close()

    def serve(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=[connection], daemon=True).start()

    @staticmethod
    def talk(connection):
        def frame(kind, flags, stream, payload=b""):
            connection.sendall(struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload)

        def literal(name, value):  # HPACK: not indexed, no Huffman code
            return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

        denied = b"\x88" + literal(b"content-type", b"application/grpc") + literal(b"grpc-status", b"16")
        with connection, connection.makefile("rb") as f:
            try:
                f.read(24)
                frame(4, 0, 0)
                while head := f.read(9):
                    n, kind, flags, stream = int.from_bytes(head[:3], "big"), *struct.unpack(">BBI", head[3:])
                    f.read(n)
                    if kind == 4 and not flags & 1:  # SETTINGS
                        frame(4, 1, 0)
                    elif kind == 1:  # HEADERS: the answer is a trailer only
                        frame(1, 4 | 1, stream, denied)
            except (OSError, struct.error):
                pass


class Refused(System):
    """Only seckill-api, which waits for its queue with being started. It serves all the same."""

    def __init__(self, mode, endpoint=None, **settings):
        super().__init__(parts=("api",), settings={
            "queue.kind": "rocketmq", "rocketmq.endpoints": endpoint or f"127.0.0.1:{free_port()}",
            "api.publish_refused": mode, "api.publish_timeout": "300ms", "rocketmq.send_timeout": "1s", **settings})
        self.api.ready = self.listening

    def listening(self):
        try:
            text = open(f"{self.api.dir}/ports", encoding="ascii").read()
            self.api.ports = {k: int(v) for k, v in (p.split("=") for p in text.split())}
            # a hold works, and the instance number is there
            why = json.loads(client.get(self.api.ports["admin"], "/readyz").body)
            return not {"redis", "order_ids"} & {c["check"] for c in why.get("failed", [])}
        except (OSError, client.Closed):
            return False

    def item(self, stock, **kw):  # pylint: disable=arguments-differ
        item = super().item(stock, **kw)
        item.audited = True  # what is held here is ordered by nobody
        return item

    def free(self, item):
        return int(self.redis_client.get(item.key("stock")))

    def queue_check(self):
        answer = self.api.get("/readyz")
        body = json.loads(answer.body)
        lists = {k: [c["check"] for c in body.get(k, [])] for k in ("failed", "degraded")}
        return answer.status, lists


def test_recover_goes_on_selling():
    with Refused("recover") as s:
        item = s.item(stock=5)
        answer = s.buy(item, 7, KEY)
        assert answer.status == 202 and answer.json["state"] == "QUEUED", answer
        wait_for("the mark", lambda: item.record(7, KEY)["status"] == "MQ_PENDING")
        assert s.free(item) == 4
        replay = s.buy(item, 7, KEY)
        assert replay.status == 202 and replay.headers["idempotent-replayed"] == "true"
        assert s.queue_check() == (200, {"failed": [], "degraded": ["queue"]})
        assert s.api.metric('seckill_reservation_publish_total{result="refused"}') == 1


def test_a_start_in_recover_waits_for_an_unreachable_queue_only_so_long():
    """Restarted while the broker is away an instance sells; whoever started it must not take it for dead."""
    with Refused("recover") as s:
        s.item(stock=1)
        wait_for("the start", lambda: s.api.get("/startupz").status == 200)
        waiting, (going,) = s.api.logged("waiting for the queue"), s.api.logged("starting without the queue")
        assert waiting and "no proxy tells a route" in going["why"]
        assert s.queue_check() == (200, {"failed": [], "degraded": ["queue"]})


@pytest.mark.parametrize("mode,denies", [("recover", True), ("strict", False)])
def test_a_start_waits_as_long_as_it_has_to(mode, denies):
    """For what somebody has to put right; and in `strict`, which sells nothing without the queue, in any case."""
    with Denying() as nobody, Refused(mode, nobody.endpoint if denies else None) as s:
        # Said each 5 s: the fourth time is later than an unreachable queue is waited for in `recover`.
        waiting = wait_for("the start to wait", lambda: (w := s.api.logged("waiting for the queue"))[3:] and w, 60)
        assert ("refuses us" if denies else "no proxy tells a route") in waiting[-1]["why"]
        assert s.api.get("/startupz").status == 503
        assert not s.api.logged("starting without the queue")


def test_strict_gives_the_unit_back():
    with Refused("strict") as s:
        item = s.item(stock=1)
        for _ in range(3):  # rule 8: the same key may compete again
            answer = s.buy(item, 7, KEY)
            assert answer.status == 503 and answer.code == "DEPENDENCY_UNAVAILABLE", answer
            assert int(answer.headers["retry-after"]) >= 1
            assert item.record(7, KEY) == {} and s.free(item) == 1
        assert s.redis_client.hlen(item.key("buyers")) == s.redis_client.zcard(item.key("pending")) == 0
        assert s.queue_check() == (503, {"failed": ["queue"], "degraded": []})
        assert s.api.metric('seckill_reservation_released_total{result="released"}') == 3
        assert s.api.metric("seckill_reservation_created_total") == 0


@pytest.mark.parametrize("point,mode", [("before_publish", "recover"), ("after_publish", "recover"), ("before_mark", "recover"),
                                        ("after_mark", "recover"), ("before_publish", "strict"), ("before_release", "strict")])
def test_a_death_between_hold_and_answer(point, mode):
    """The unit stays held for recovery to find; the same key tells."""
    with Refused(mode) as s:
        item = s.item(stock=2)
        assert s.api.terminate() == 0
        s.api.start_with(point)
        with client.Connection(s.api.ports["api"]) as c:
            c.send(s.order_request(item, 7, KEY))
            if point.endswith("_mark"):  # the buyer is told first
                try:
                    assert c.answer().status == 202
                except client.Closed:
                    pass
            else:
                with pytest.raises((client.Closed, OSError)):
                    c.answer()
        assert s.api.await_end() == 128 + signal.SIGKILL
        assert item.record(7, KEY)["status"] == ("MQ_PENDING" if point == "after_mark" else "RESERVED") and s.free(item) == 1
        s.api.start_with()
        answer = s.buy(item, 7, KEY)
        assert answer.status == 202 and answer.headers["idempotent-replayed"] == "true"
        assert s.free(item) == 1


def dies_asked(s, item):
    """Whoever asks hears nothing."""
    with client.Connection(s.api.ports["api"]) as c:
        c.send(s.order_request(item, 7, KEY))
        with pytest.raises((client.Closed, OSError)):
            c.answer()
    assert s.api.await_end() == 128 + signal.SIGKILL


def test_a_death_around_what_strict_takes_back():
    """Rule 8. Released, and nobody was told: the key competes again. And a replay that meets a unit which is perhaps being
    taken back dies before it pins it: the next one pins it and is told."""
    with Refused("strict") as s:
        item = s.item(stock=1)
        assert s.api.terminate() == 0
        s.api.start_with("after_release")
        dies_asked(s, item)
        assert item.record(7, KEY) == {} and s.free(item) == 1
        for point in ("before_publish", "before_pin"):
            s.api.start_with(point)
            dies_asked(s, item)
            assert item.record(7, KEY)["status"] == "RESERVED" and s.free(item) == 0
        s.api.start_with()
        answer = s.buy(item, 7, KEY)
        assert answer.status == 202 and answer.headers["idempotent-replayed"] == "true"
        assert item.record(7, KEY)["status"] == "MQ_PENDING"


def test_the_operator_hears_why():
    with Refused("recover") as s:
        done = s.ctl("queue", "check", "--wait", "1s", check=False)
        assert done.returncode == 1 and "the queue cannot be used" in done.stderr
        done = s.ctl("queue", "check", "--topic", "seckill-order-events", check=False)
        assert done.returncode == 2 and "orders' own" in done.stderr
        done = s.ctl("queue", "show", "--json", check=False)
        assert done.returncode == 1
        done = s.ctl("--rocketmq.access_key=a", "queue", "check", check=False)
        assert done.returncode == 2 and "go together" in done.stderr
