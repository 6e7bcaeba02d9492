"""Issue 5, projection and retention on the whole system, the audit after each: the result topic (rule 9), and what is taken
away when an item is long over."""
import datetime
import json
import re
import subprocess
import uuid

import pytest

from services import SOURCE, wait_for
from system import System

KILLED = 128 + 9
SOON = {"results.enabled": "true", "results.interval": "20ms", "worker.recover_after": "1s", "worker.recover_interval": "200ms", "queue.lease": "2s"}


def told(s, item):
    """Everything on the item's result stream."""
    return [result for _, fields in s.redis_client.xrange(item.key("results")) for result in json.loads(fields[b"b"])]


def outbox(item):
    return {str(r[0]): r[1:] for r in item.system.sql(
        "SELECT outbox_id, event_type, message_id::text, state, reason, user_id FROM outbox WHERE (activity_id, sku_id) = (%s, %s)", *item.args)}


def await_told(s, item, timeout=30):
    """Until nothing is unpublished: then each row of the outbox is on the stream, word for word, and nothing else."""
    wait_for("all results to be told", lambda: item.scalar(
        "SELECT count(*) FROM outbox WHERE ITEM AND (settled_at IS NULL OR published_at IS NULL)") == 0, timeout)
    rows, results = outbox(item), told(s, item)
    assert {r["result_id"] for r in results} == set(rows)
    for r in results:
        event, message, state, reason, user = rows[r["result_id"]]
        assert (r["event_type"], r["message_id"], r["state"], r["reason"], r["user_id"]) == (event, message, state, reason, user)
        assert r["version"] == (4 if state == "CANCELLED" else 3) and r["schema_version"] == 1
    return results


def bought(s, item, *users):
    keys = {user: str(uuid.uuid4()) for user in users}
    orders = {}
    for user, key in keys.items():
        answer = s.buy(item, user, key)
        assert answer.status == 202, answer
        orders[user] = answer.json["order_id"]
    item.await_settled()
    return keys, orders


def documented_reader():
    with open(f"{SOURCE}/docs/results.md", encoding="utf-8") as f:
        return re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)


def test_the_documented_reader_gets_what_became_of_each():
    with System(SOON) as s:
        item = s.item(stock=3)
        keys, orders = bought(s, item, 1, 2, 3)
        assert s.cancel(item, 2, keys[2]).status == 202
        wait_for("the cancel", lambda: s.state(item, 2, keys[2]).code == "CANCELLED")
        item.await_settled()
        await_told(s, item)
        done = subprocess.run(["/usr/bin/python3", "-c", documented_reader(), s.redis.url, *map(str, item.args)],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=60)
        lines = [line.split() for line in done.stdout.splitlines()]
        assert ["SUCCEEDED", "1", orders[1]] in lines and ["SUCCEEDED", "3", orders[3]] in lines
        assert lines[-1] == ["CANCELLED", "2", orders[2]] or ["CANCELLED", "2", orders[2]] in lines
        ends = s.redis_client.pexpiretime(item.key("results")) if hasattr(s.redis_client, "pexpiretime") else s.redis_client.execute_command(
            "PEXPIRETIME", item.key("results"))
        assert ends >= int(s.redis_client.hget(item.key("meta"), "expires_ms"))
        assert s.worker.metric("seckill_results_published_total") == 4


@pytest.mark.parametrize("place,twice", [
    # told at once after its settle
    ("after_settle", False), ("before_tell", False), ("after_tell", True), ("before_mark_settled", True),
    # a cancel, looked for in the outbox
    ("after_publish_results", True), ("before_mark_published", True)])
def test_a_worker_that_dies_tells_it_again_and_skips_nothing(place, twice):
    """Rule 9: at least once, with the same result_id."""
    with System(SOON) as s:
        item = s.item(stock=20)
        looked_for = place in ("after_publish_results", "before_mark_published")
        s.worker.terminate()
        s.worker.start_with(place)
        keys = {user: str(uuid.uuid4()) for user in range(1, 11)}
        for user, key in keys.items():
            assert s.buy(item, user, key).status == 202
            assert not looked_for or s.cancel(item, user, key).status == 202
        assert s.worker.await_end() == KILLED
        s.worker.start_with()
        item.await_settled()
        n = 20 if looked_for else 10
        wait_for("all outcomes", lambda: item.scalar("SELECT count(*) FROM outbox WHERE ITEM") == n)
        results = await_told(s, item)
        assert len({r["result_id"] for r in results}) == n
        assert not twice or len(results) > n, "nothing was told twice"


def test_what_is_settled_now_is_told_and_marked_in_one():
    """Decision 0017: no order's outbox row is written a third time, and nobody looks for it."""
    with System({**SOON, "results.interval": "60s", "worker.relay_after": "60s"}) as s:
        item = s.item(stock=20)
        bought(s, item, *range(1, 21))
        results = await_told(s, item, 10)
        assert len(results) == 20
        assert item.scalar("SELECT count(*) FROM outbox WHERE ITEM AND claimed_at IS NOT NULL") == 0
        assert item.scalar("SELECT count(*) FROM outbox WHERE ITEM AND published_at IS DISTINCT FROM settled_at") == 0
        # What is said is what the outbox says, to the moment or nearly.
        rows = {str(i): ms for i, ms in s.sql(
            "SELECT outbox_id, (extract(epoch FROM created_at) * 1000)::bigint FROM outbox WHERE (activity_id, sku_id) = (%s, %s)", *item.args)}
        for r in results:
            decided = datetime.datetime.fromisoformat(r["decided_at"].replace("Z", "+00:00")).timestamp() * 1000
            assert abs(decided - rows[r["result_id"]]) < 10_000


def test_an_outage_of_the_topic_delays_nothing():
    """The item's stream cannot be written: orders, settles and acks go on; then everything is told."""
    with System(SOON) as s:
        item, other = s.item(stock=10), s.item(stock=10)
        s.redis_client.set(item.key("results"), "in the way")
        keys, orders = bought(s, item, 1, 2, 3)
        bought(s, other, 1)
        await_told(s, other)
        assert s.pay(item, 1, keys[1], orders[1]).status == 202
        assert s.cancel(item, 2, keys[2]).status == 202
        wait_for("the cancel", lambda: s.state(item, 2, keys[2]).code == "CANCELLED")
        item.await_settled()
        wait_for("it to be seen", lambda: s.worker.metric("seckill_results_failures_total") > 0)
        assert s.worker.get("/readyz").status == 200
        assert s.redis_client.get(item.key("results")) == b"in the way"
        assert item.scalar("SELECT count(*) FROM outbox WHERE ITEM AND published_at IS NOT NULL") == 0
        s.redis_client.delete(item.key("results"))
        assert len(await_told(s, item)) >= 4


def test_without_results_nothing_is_told():
    with System({**SOON, "results.enabled": "false"}) as s:
        item = s.item(stock=1)
        bought(s, item, 1)
        assert not s.redis_client.exists(item.key("results"))
        assert item.scalar("SELECT count(*) FROM outbox WHERE ITEM AND published_at IS NULL") == 0, "nothing waits for nobody"
        assert "seckill_results_unpublished" not in s.worker.metrics()


RETENTION = {**SOON, "retention.after": "1s", "retention.strays": "1s", "retention.interval": "10ms", "retention.idle": "50ms", "retention.batch": "7"}
TABLES = ("outbox", "consumer_inbox", "stock_ledger")


def counts(s, item):
    return {t: item.scalar(f"SELECT count(*) FROM {t} WHERE ITEM") for t in TABLES}


def end(s, item):
    """Its keys are over now, as far as PostgreSQL knows."""
    s.sql("UPDATE activities SET created_at = created_at - interval '2 hours', starts_at = clock_timestamp() - interval '1 hour', "
          "ends_at = clock_timestamp() - interval '1 second', expires_at = clock_timestamp() "
          "WHERE (activity_id, sku_id) = (%s, %s) RETURNING 1", *item.args)


@pytest.mark.parametrize("place", [None, "after_retain:2"])
def test_what_is_long_over_goes_and_nothing_else(place):
    """A live item's rows are never touched; a death in between changes nothing."""
    with System(RETENTION) as s:
        over, live = s.item(stock=30), s.item(stock=30)
        for item in (over, live):
            bought(s, item, *range(1, 21))
            await_told(s, item)
            item.audit()
        before = counts(s, live)
        if place:
            s.worker.terminate()
            s.worker.start_with(place)
        end(s, over)
        if place:
            assert s.worker.await_end() == KILLED
            s.worker.start_with()
        wait_for("the item's books to go", lambda: over.scalar("SELECT purged_at IS NOT NULL FROM activities WHERE ITEM"))
        assert counts(s, over) == dict.fromkeys(TABLES, 0)
        assert over.orders() == 20, "orders stay"
        assert counts(s, live) == before
        if not place:
            wait_for("it to be counted", lambda: s.worker.metric("seckill_retention_items_total") == 1)
            assert s.worker.metric("seckill_retention_rows_total") >= 60
        # the sale beside it goes on
        bought(s, live, 21)
        live.audit()
