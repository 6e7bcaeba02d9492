"""seckill on a real RocketMQ: the hold, the publish and what the buyer hears when the broker hangs. Rules 1, 8, 13, 14."""
import itertools
import signal

import pytest

import client
from private_rocketmq import PrivateRocketmq
from services import wait_for
from system import System

KEY = "0198c1f0-6a3b-7c4d-8e5f-0123456789ab"
numbers = itertools.count(1)


def settings(mq, **more):
    """A topic and groups of the test's own: it leaves messages to nobody."""
    n = next(numbers)
    mq.topic(f"orders-{n}")
    mq.group(f"create-{n}:16", f"dead-{n}:1000")
    return {**mq.settings(), "rocketmq.topic": f"orders-{n}", "rocketmq.group": f"create-{n}", "rocketmq.dead_group": f"dead-{n}",
            "rocketmq.lease": "3s", "worker.recover_after": "2s", **more}


def published(system, result):
    return system.api.metric(f'seckill_reservation_publish_total{{result="{result}"}}')


def test_a_sale(mq):
    with System(settings(mq)) as s:
        item = s.item(stock=20)
        for user in range(1, 31):
            assert s.buy(item, user).status == (202 if user <= 20 else 409)
        item.await_settled()
        assert item.orders() == 20
        assert published(s, "accepted") == 20
        for program in (s.api, s.worker):
            assert program.get("/readyz").status == 200
        done = s.ctl("queue", "show")
        assert done.stdout.split()[:4] == ["items", "waiting", "in_hand", "oldest_age_ms"] and "all" in done.stdout
        s.ctl("queue", "check", "--topic", "seckill-probe")


@pytest.mark.parametrize("mode", ["recover", "strict"])
def test_the_broker_hangs(mq, mode):
    """Unknown in both modes: 202, MQ_PENDING; recovery publishes it again, and one order comes of it. A drain meanwhile
    waits for the publish."""
    with System(settings(mq, **{"api.publish_refused": mode, "api.publish_timeout": "500ms", "rocketmq.send_timeout": "3s",
                                "worker.recover_after": "20s"})) as s:
        item = s.item(stock=5)
        assert s.buy(item, 6).status == 202  # the proxy knows the topic
        item.await_settled()
        mq.freeze()
        try:
            answer = s.buy(item, 7, KEY)
            assert answer.status == 202 and answer.json["state"] == "QUEUED"
            early = s.api.metric("seckill_reservation_answered_early_total")
            assert early >= 1 if mode == "recover" else early == 0
            s.api.signal(signal.SIGTERM)
            assert s.api.await_end() == 0
            assert item.record(7, KEY)["status"] == "MQ_PENDING"
        finally:
            mq.thaw()
        s.api.start()
        replay = s.buy(item, 7, KEY)
        assert replay.status == 202 and replay.headers["idempotent-replayed"] == "true"
        item.await_settled(120)
        assert item.orders() == 2


def test_a_refusal_in_strict_while_another_asks(mq):
    """Rules 7, 8, 14: the broker's word is no, so the only unit is back, and whoever heard SOLD_OUT meanwhile gets it."""
    own = settings(mq, **{"api.publish_refused": "strict"})
    with System(own, parts=("api",)) as s:
        item = s.item(stock=1)
        item.audited = True  # nobody orders
        assert s.ctl("queue", "check").returncode == 0
        s.api.terminate()
        s.api.settings["rocketmq.topic"] = "no-such-topic"
        s.api.ready = lambda: listening(s.api)
        s.api.start()
        for _ in range(2):
            answer = s.buy(item, 7, KEY)
            assert answer.status == 503 and answer.code == "DEPENDENCY_UNAVAILABLE"
            assert item.record(7, KEY) == {} and s.redis_client.get(item.key("stock")) == b"1"
        wait_for("the start to say what mends it",
                 lambda: any("mqadmin updateTopic" in (line["why"] or "") for line in s.api.logged("waiting for the queue")))
        assert s.api.get("/startupz").status == 503
        wait_for("readiness to say it", lambda: b"no-such-topic" in s.api.get("/readyz").body)
        assert s.api.get("/readyz").status == 503


def listening(program):
    try:
        with open(f"{program.dir}/ports", encoding="ascii") as f:
            program.ports = {k: int(v) for k, v in (p.split("=") for p in f.read().split())}
        return b"order_ids" not in client.get(program.ports["admin"], "/readyz").body
    except (OSError, client.Closed):
        return False


def test_wrong_credentials_are_said():
    """At the start, in readiness and to the operator; and the right ones work."""
    with PrivateRocketmq(fast=True, auth=True) as mq:
        with System({**mq.settings(), "api.publish_refused": "strict"}, parts=("api",)) as s:
            assert s.ctl("queue", "check", "--topic", "seckill-probe").returncode == 0
            s.api.terminate()
            wrong = f"{s.dir}/wrong.secret"
            with open(wrong, "w", encoding="ascii") as f:
                f.write("not-the-secret\n")
            s.api.settings["rocketmq.secret_key_file"] = wrong
            s.api.ready = lambda: listening(s.api)
            s.api.start()
            wait_for("the start to say what is wrong",
                     lambda: any("refuses us" in (line["why"] or "") for line in s.api.logged("waiting for the queue")))
            # a readiness result is used for a moment
            wait_for("readiness to say it", lambda: b"refuses us" in s.api.get("/readyz").body)
            assert s.api.get("/readyz").status == 503
            assert s.api.get("/startupz").status == 503
            done = s.ctl(f"--rocketmq.secret_key_file={wrong}", "queue", "check", check=False)
            assert done.returncode == 1 and "refuses us" in done.stderr
            assert "not-the-secret" not in s.api.log() + done.stderr
