"""What we publish, as the broker and an official client see it; and what becomes of it while the broker dies."""
import json
import os
import subprocess
import tempfile

import pytest

from private_rocketmq import LONG, PrivateRocketmq
from services import wait_for

PROBE = os.path.join(os.environ["SECKILL_BIN_DIR"], "..", "test", "producer_probe")


class Probe:
    """producer_probe under the hand of the test."""

    def __init__(self, mq, topic, **options):
        words = {"endpoints": mq.endpoints, "namesrv": mq.namesrv, "topic": topic, "refresh_us": 500000, "heartbeat_us": 500000,
                 **options}
        self.log = tempfile.TemporaryFile("w+")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen([PROBE, *(f"{k}={v}" for k, v in words.items())], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.logged()
        return json.loads(line)

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def publish(self, count=1, at_once=64, deadline_ms=5000, first=None):
        """Of each event number its result."""
        words = f"publish {count} {at_once} {deadline_ms}" + (f" {first}" if first is not None else "")
        return {int(n): rc for n, rc in self.ask(words)["results"].items()}

    def state(self):
        return self.ask("state")

    def metric(self, name):
        return self.ask(f"metric {name}")["value"]

    def await_ready(self):
        wait_for("the producer", lambda: self.state()["ready"], 60)
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            assert self.ask("close") == {"closed": "OK"}
            assert self.process.wait(20) == 0, self.logged()
        else:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


def uuid(n):
    return f"00000000-0000-7000-8000-{n:012d}"


def broker_id(n):
    return "01" + uuid(3 * n).replace("-", "").upper()


def test_an_official_client_reads_it(mq, oracle):
    mq.topic("read")
    mq.group("read-g")
    with Probe(mq, "read") as probe:
        assert set(probe.await_ready().publish(20).values()) == {"OK"}
    got = {m["id"]: m for m in oracle.consume("read", "read-g", 20)}
    assert set(got) == {broker_id(n) for n in range(20)}
    for n in range(20):
        m = got[broker_id(n)]
        body = json.loads(m["body"])
        assert body["message_id"] == uuid(3 * n) and body["order_id"] in (100000 + n, str(100000 + n))
        assert m["tag"] == "ORDER_CREATE_REQUESTED"
        assert set(m["keys"]) == {uuid(3 * n), f"1001:2001:{uuid(3 * n + 2)}", uuid(3 * n + 1)}  # in no order
        assert m["properties"]["traceparent"] == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        assert m["properties"]["sk_origin_topic"] == "read"
        assert m["attempt"] == 1


def test_the_same_event_twice_has_one_id(mq, oracle):
    mq.topic("twice")
    mq.group("twice-g")
    with Probe(mq, "twice") as probe:
        probe.await_ready()
        assert probe.publish(first=7) == {7: "OK"}
        assert probe.publish(first=7) == {7: "OK"}
    assert [m["id"] for m in oracle.consume("twice", "twice-g", 2)] == [broker_id(7)] * 2


def test_many_at_once(mq):
    mq.topic("many")
    with Probe(mq, "many", request_us=60000000) as probe:  # a busy machine's broker takes seconds
        results = probe.await_ready().publish(2000, 300, 60000)
        assert set(results.values()) == {"OK"} and len(results) == 2000
        assert probe.metric("seckill_mq_publish_retries_total") == 0
        assert probe.metric("seckill_mq_publish_odd_receipts_total") == 0


def test_a_missing_topic_is_complained_of_until_it_is_made(mq):
    with Probe(mq, "not-yet") as probe:
        complaint = wait_for("the complaint", lambda: probe.state()["complaint"])
        assert 'topic "not-yet"' in complaint and f"mqadmin updateTopic -n {mq.namesrv}" in complaint
        assert not probe.state()["ready"]
        assert probe.publish() == {0: "ERR_UNAVAIL"}
        mq.topic("not-yet")
        probe.await_ready()
        assert probe.state()["complaint"] is None
        assert set(probe.publish(3).values()) == {"OK"}


def test_a_topic_of_another_type(mq):
    mq.topic("ordered:FIFO")
    with Probe(mq, "ordered") as probe:
        assert probe.await_ready().publish() == {0: "ERR_UNAVAIL"}
        assert 'topic "ordered"' in probe.state()["complaint"] and "NORMAL" in probe.state()["complaint"]


def test_tls(mq):
    mq.topic("tls")
    with Probe(mq, "tls", ca_file=mq.ca_file) as probe:
        assert set(probe.await_ready().publish(5).values()) == {"OK"}


def test_a_server_that_the_ca_does_not_vouch_for(mq, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=another", "-keyout", tmp_path / "k", "-out", tmp_path / "another.pem"], check=True, capture_output=True)
    with Probe(mq, mq.default_topic, ca_file=tmp_path / "another.pem") as probe:
        assert "no proxy tells a route" in wait_for("the complaint", lambda: probe.state()["complaint"])
        assert not probe.state()["ready"]


def test_nothing_accepted_is_lost_when_the_broker_dies(mq, oracle):
    """kill -9 under load: what was accepted is there afterwards, what was refused is not, the rest is either."""
    mq.topic("dies")
    mq.group("dies-g")
    with Probe(mq, "dies") as probe:
        probe.await_ready()
        results = probe.publish(200)
        probe.process.stdin.write("publish 800 32 1000\n")
        probe.process.stdin.flush()
        wait_for("some of them to be stored", lambda: mq.lag("dies-g", "dies") > 250)
        mq.kill()
        told = probe.process.stdout.readline()
        assert told, probe.logged()
        results.update({int(n): rc for n, rc in json.loads(told)["results"].items()})
        mq.again()
        wait_for("a send that works", lambda: "OK" in probe.publish(1).values(), 60)
    accepted = {broker_id(n) for n, rc in results.items() if rc == "OK"}
    refused = {broker_id(n) for n, rc in results.items() if rc not in ("OK", "ERR_UNCERTAIN")}
    assert accepted and refused, results
    got = set()
    wait_for("all that was accepted", lambda: got.update(m["id"] for m in oracle.consume("dies", "dies-g", 1000, timeout=10)) or
             accepted <= got, 90)
    assert not refused & got


def test_a_broker_that_stands_still_is_unknown(mq, oracle):
    mq.topic("stands")
    mq.group("stands-g")
    with Probe(mq, "stands") as probe:
        probe.await_ready()
        mq.freeze()
        try:
            assert probe.publish(10, 10, 500) == {n: "ERR_UNCERTAIN" for n in range(10)}
        finally:
            mq.thaw()
        # The same again, with the same ids, as recovery does.
        wait_for("a send that works", lambda: set(probe.publish(10, 10, 2000, first=0).values()) == {"OK"}, 60)
    got = [m["id"] for m in oracle.consume("stands", "stands-g", 10, timeout=30)]
    assert set(got) == {broker_id(n) for n in range(10)}


@pytest.mark.parametrize("shape,version", [("auth", "5.5.0"), pytest.param("cluster", "5.5.0", marks=LONG), pytest.param("auth", "5.3.3", marks=LONG),
                                           pytest.param("cluster", "5.3.3", marks=LONG)])
def test_other_shapes(shape, version):
    with PrivateRocketmq(version=version, auth=shape == "auth", cluster=shape == "cluster", fast=True) as mq:
        keys = {"access_key": mq.access_key, "secret_key": open(mq.secret_key_file).read()} if shape == "auth" else {}
        with Probe(mq, mq.default_topic, request_us=60000000, **keys) as probe:
            assert set(probe.await_ready().publish(100, deadline_ms=60000).values()) == {"OK"}
            assert probe.state()["complaint"] is None
        if shape != "auth":
            return
        for wrong in ({"access_key": mq.access_key, "secret_key": "wrong"}, {"access_key": "nobody", "secret_key": "x"}, {}):
            with Probe(mq, mq.default_topic, **wrong) as probe:
                complaint = wait_for("the complaint", lambda: probe.state()["complaint"])
                assert "refuses us" in complaint and "wrong" not in complaint.split("refuses us")[0]
                assert not probe.state()["ready"]
                assert probe.metric("seckill_mq_complaints") == 1
