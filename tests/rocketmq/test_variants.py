"""The other shapes: with users; with --full also with the broker in a process of its own (which e2e/rocketmq/test_shapes.py
sells through each time), and the older version."""
import pytest

from oracle import Oracle
from private_rocketmq import LONG, VERSIONS, PrivateRocketmq, Refused
from services import wait_for


@pytest.mark.parametrize("version", VERSIONS)
def test_users(version):
    with PrivateRocketmq(version=version, auth=True, fast=True) as mq:
        message, = Oracle(mq).produce(mq.default_topic, [{"body": "x"}])
        assert [m["id"] for m in Oracle(mq).consume(mq.default_topic, mq.default_group, 1)] == [message]
        for name, secret in (("seckill", "wrong"), ("nobody", "wrong"), ("", "")):
            with pytest.raises(Refused) as e:
                mq.send(mq.default_topic, "x", user=name, secret=secret)
            assert e.value.code == 40100
            with pytest.raises(RuntimeError, match="failed to fetch"):
                Oracle(mq, name, secret).produce(mq.default_topic, [{"body": "x"}])
        # Ours may do what it must, lag and age (of retries, too) included, and no more.
        ours = {"user": "seckill"}
        mq.remoting(208, consumerGroup=mq.default_group, topic=mq.default_topic, **ours)
        mq.remoting(303, group=mq.default_group, topic=mq.default_topic, **ours)
        with pytest.raises(Refused) as e:
            mq.remoting(303, group=mq.default_group, topic=f"%RETRY%{mq.default_group}_{mq.default_topic}", **ours)
        assert e.value.code == 17  # allowed, but not there
        with pytest.raises(Refused) as e:
            mq.remoting(208, consumerGroup=mq.default_group, topic=mq.default_topic, user="seckill", secret="wrong")
        assert e.value.code == 16
        mq.topic("not-ours")
        with pytest.raises(Refused) as e:
            mq.send("not-ours", "x", **ours)
        assert e.value.code == 40100
        mq.user("theirs", "their-secret", "Topic:not-ours")
        assert mq.send("not-ours", "x", user="theirs", secret="their-secret")


@LONG
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_of_its_own(version):
    with PrivateRocketmq(version=version, cluster=True, fast=True) as mq:
        oracle = Oracle(mq)
        ids = oracle.produce(mq.default_topic, [{"body": str(i)} for i in range(10)])
        proxy = mq.proxy_part.pid
        mq.kill()
        mq.again()
        assert mq.proxy_part.pid == proxy and mq.proxy_part.alive()
        assert {m["id"] for m in oracle.consume(mq.default_topic, mq.default_group, 10)} == set(ids)
        mq.kill_proxy()
        mq.again()
        message, = oracle.produce(mq.default_topic, [{"body": "x"}])
        assert message in [m["id"] for m in oracle.consume(mq.default_topic, mq.default_group, 1)]


@LONG
@pytest.mark.parametrize("version", VERSIONS)
def test_an_orderly_restart(version):
    with PrivateRocketmq(version=version) as mq:
        ids = {mq.send(mq.default_topic, str(i)) for i in range(5)}
        mq.restart_proxy()
        assert {m["id"] for m in Oracle(mq).consume(mq.default_topic, mq.default_group, 5)} == ids
        wait_for("nothing left", lambda: mq.lag(mq.default_group, mq.default_topic) == 0)
