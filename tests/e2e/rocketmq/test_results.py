"""The result topic on RocketMQ, as an official client reads it (docs/results.md); and a worker without the topic."""
import json
import uuid

from oracle import Oracle
from sale import System, settle_and_audit, wait_for

RESULTS = {"results.enabled": "true", "results.interval": "50ms"}


def told(s, item):
    return item.scalar("SELECT count(*) FROM outbox WHERE ITEM AND published_at IS NULL") == 0


def test_an_official_client_reads_the_results(mq):
    """Rule 9: each outcome, under one id."""
    with System(RESULTS, queue=mq) as s:
        item = s.item(stock=5)
        s.ctl("queue", "check")
        keys = {user: str(uuid.uuid4()) for user in (1, 2)}
        for user, key in keys.items():
            assert s.buy(item, user, key).status == 202
        settle_and_audit(item, 2)
        assert s.cancel(item, 2, keys[2]).status == 202
        wait_for("the cancel", lambda: s.state(item, 2, keys[2]).code == "CANCELLED")
        item.await_settled()
        wait_for("the results to be told", lambda: told(s, item))
        messages = Oracle(mq).consume(s.results_topic, s.reader, 3)
        results = [(m, json.loads(m["body"])) for m in messages]
        assert sorted((r["user_id"], r["state"]) for _, r in results) == [(1, "SUCCEEDED"), (2, "CANCELLED"), (2, "SUCCEEDED")]
        assert len({m["id"] for m, _ in results}) == 3 == len({r["result_id"] for _, r in results})
        for m, r in results:
            assert m["tag"] == r["event_type"]
            assert set(m["keys"]) == {r["message_id"], f"{item.activity}:{item.sku}:{r['reservation_id']}", r["request_id"]}
        assert s.worker.metric('seckill_mq_publish_total{queue="results",result="accepted"}') == 3


def test_without_its_topic_the_worker_works(mq):
    """It says what is missing, and nobody waits; made later, it is told everything."""
    with System({**RESULTS, "rocketmq.results_topic": f"late-{uuid.uuid4()}", "rocketmq.route_refresh": "1s"}, queue=mq) as s:
        topic = s.settings["rocketmq.results_topic"]
        done = s.ctl("queue", "check", "--wait", "2s", check=False)
        assert done.returncode == 1 and topic in done.stderr and "mqadmin updateTopic" in done.stderr, done
        item = s.item(stock=5)
        assert s.buy(item, 1).status == 202
        settle_and_audit(item, 1)
        ready = s.worker.get("/readyz")
        assert ready.status == 200 and topic in ready.body.decode(), ready
        assert not told(s, item)
        mq.topic(topic)
        wait_for("the result to be told", lambda: told(s, item), 60)
