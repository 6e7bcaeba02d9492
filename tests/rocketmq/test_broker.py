"""The private broker is one: what is confirmed stays, what is dead is kept, and an official client gets what it sent."""
import socket
import ssl

import pytest

from private_rocketmq import LONG, Refused
from services import wait_for


def letters(*bodies):
    return [{"body": b} for b in bodies]


def test_an_official_client_gets_what_it_sent(mq, oracle):
    mq.topic("whole")
    mq.group("whole-g")
    sent = [{"body": f"body {i} ü", "tag": f"tag{i}", "keys": f"key{i}", "properties": {"a": str(i), "seckill_b": "1:2"}}
            for i in range(5)]
    ids = oracle.produce("whole", sent)
    got = {m["id"]: m for m in oracle.consume("whole", "whole-g", 5)}
    assert len(set(ids)) == 5 and set(got) == set(ids)
    for i, one in zip(ids, sent):
        assert got[i]["body"] == one["body"] and got[i]["tag"] == one["tag"] and got[i]["keys"] == [one["keys"]]
        assert one["properties"].items() <= got[i]["properties"].items()
        assert got[i]["attempt"] == 1


def test_lag_and_age(mq, oracle):
    mq.topic("late")
    mq.group("late-g")
    assert (mq.lag("late-g", "late"), mq.oldest_ms("late-g", "late")) == (0, 0)
    oracle.produce("late", letters("a", "b", "c"))
    wait_for("the offsets", lambda: mq.lag("late-g", "late") == 3)
    first = wait_for("some age", lambda: mq.oldest_ms("late-g", "late"))
    wait_for("a greater age", lambda: mq.oldest_ms("late-g", "late") > first)
    assert len(oracle.consume("late", "late-g", 3)) == 3
    wait_for("nothing left", lambda: mq.lag("late-g", "late") == 0 and mq.oldest_ms("late-g", "late") == 0)


def test_tls_is_on_the_same_port(mq):
    context = ssl.create_default_context(cafile=mq.ca_file)
    context.set_alpn_protocols(["h2"])
    host, port = mq.endpoints.split(":")
    for name in ("localhost", host):
        with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=name) as connection:
            assert (connection.version(), connection.selected_alpn_protocol()) == ("TLSv1.3", "h2")
    with pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(socket.create_connection((host, int(port))), server_hostname="elsewhere")


def test_what_is_not_made_is_not_there(mq):
    with pytest.raises(Refused) as e:
        mq.send("never-made", "x")
    assert e.value.code in (40402, 40014)
    with pytest.raises(Refused) as e:
        mq.remoting(303, topic="never-made", group="late-g")
    assert e.value.code == 17


def test_dead_letters_go_where_the_topic_was_before(mq, oracle):
    """The topic %DLQ%one-try is there from the start, so that its reader never meets a miss."""
    mq.topic("dying")
    message, = oracle.produce("dying", [{"body": "x", "keys": "k", "tag": "t", "properties": {"a": "b"}}])
    # One try more than its retries, each left to run out; then the next receive buries it.
    tries = oracle.consume("dying", "one-try", 2, lease_s=1, ack=False)
    assert [(m["id"], m["attempt"]) for m in tries] == [(message, 1), (message, 2)]

    def buried():
        assert oracle.consume("dying", "one-try", 1, lease_s=1, ack=False, timeout=3) == []
        return mq.lag("undertaker", "%DLQ%one-try") == 1
    wait_for("its burial", buried)
    dead, = oracle.consume("%DLQ%one-try", "undertaker", 1)
    assert dead["id"] == message and dead["body"] == "x" and dead["keys"] == ["k"] and dead["properties"]["a"] == "b"


@LONG  # test_producer.py kills it under load
def test_kill_9_keeps_what_was_confirmed(mq, oracle):
    mq.topic("kept")
    mq.group("kept-g")
    ids = oracle.produce("kept", letters(*map(str, range(50))))
    before = mq.endpoints, mq.broker
    mq.kill()
    with pytest.raises(ConnectionError):
        mq.send("kept", "x")
    mq.again()
    assert (mq.endpoints, mq.broker) == before
    assert {m["id"] for m in oracle.consume("kept", "kept-g", 50)} == set(ids)


def test_frozen_it_answers_nobody(mq):
    mq.topic("cold")
    mq.freeze()
    try:
        with pytest.raises(ConnectionError):
            mq.wire("send", mq.endpoints.rpartition(":")[2], "cold", "x", timeout_s=1)
    finally:
        mq.thaw()
    assert mq.send("cold", "x")


@LONG  # e2e/rocketmq/test_faults.py sells what a wiped one lost
def test_wiped_it_knows_nothing_and_works(mq, oracle):
    oracle.produce(mq.default_topic, letters("a", "b"))
    mq.topic("gone")
    wait_for("the offsets", lambda: mq.lag(mq.default_group, mq.default_topic) == 2)
    mq.wipe()
    assert mq.lag(mq.default_group, mq.default_topic) == 0
    with pytest.raises(Refused):
        mq.send("gone", "x")
    message, = oracle.produce(mq.default_topic, letters("c"))
    assert [m["id"] for m in oracle.consume(mq.default_topic, mq.default_group, 1)] == [message]
