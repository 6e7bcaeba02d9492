"""Issue 5, what an accepted request is told when the stores lost it: rules 34, 34a, 34c, 37."""
import base64
import hashlib
import hmac
import json
import shutil
import struct
import uuid

import pytest

import client
from services import wait_for
from system import Item, System


def token(s, item, user, key, epoch=1, secret=None):
    """As docs/api.md says that it is made."""
    text = b"loc-v1:" + struct.pack(">qqqq", user, item.activity, item.sku, epoch) + uuid.UUID(key).bytes
    mac = hmac.new((secret or s.location_secret).encode(), text, hashlib.sha256).digest()[:16]
    return f"{epoch}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def accepted(s, item, user):
    """(key, Location)."""
    key = str(uuid.uuid4())
    answer = s.buy(item, user, key)
    assert answer.status == 202, answer
    return key, answer.headers["location"]


def reported(s, item):
    return s.redis_client.sismember("sec:suspect", f"{item.activity}:{item.sku}")


def test_the_location():
    """It is the one that anybody with the secret makes, of each 202 alike; it is not needed while the request is known, and it
    must be whole."""
    with System() as s:
        item = s.item(stock=2)
        key, location = accepted(s, item, 7)
        path, _, query = location.partition("?")
        assert query == f"t={token(s, item, 7, key)}", location
        again = s.buy(item, 7, key)
        assert again.status == 202 and again.headers["idempotent-replayed"] == "true" and again.headers["location"] == location
        item.await_settled()
        for target in (location, path, f"{path}?", f"{path}?x=1&{query}&y", f"{path}?t2=1", location.replace(query, f"t={token(s, item, 8, key)}")):
            told = s.follow(target, 7)
            assert told.status == 200 and told.code == "SUCCEEDED", (target, told)
        for bad in ("t=", "t=1", "t=1.", f"{query}x", query[:-1], f"{query}&{query}", f"t=0{query[2:]}", f"t=%31{query[3:]}"):
            told = s.follow(f"{path}?{bad}", 7)
            assert told.status == 400 and told.code == "INVALID_ARGUMENT" and "token" in told.json["detail"], (bad, told)
        asked = s.cancel(item, 7, key)
        assert asked.status == 202 and asked.headers["location"] == location, asked
        item.await_settled()


def test_lost_records():
    """Rules 34c, 37. A record is lost: QUEUED and a report, of its epoch; LOST_RESERVATION, max_hold after the epoch moved; and
    404 only to who proves nothing."""
    with System({"worker.max_hold": "2m"}) as s:
        item = s.item(stock=2)
        s.worker.terminate()
        key, location = accepted(s, item, 7)
        path = location.partition("?")[0]
        s.redis_client.rename(item.key(f"reservation:7:{key}"), "elsewhere")

        told = s.follow(location, 7)
        assert told.status == 200 and told.json == {"request_id": key, "activity_id": item.activity, "sku_id": item.sku,
                                                    "state": "QUEUED", "version": 1}, told
        assert told.headers["retry-after"] == "1" and told.headers["cache-control"] == "no-store"
        wait_for("the report", lambda: reported(s, item))
        assert s.query.metric('seckill_suspect_reports_total{why="nowhere"}') >= 1

        # Nobody else is told anything, and nobody who made one up.
        s.redis_client.delete("sec:suspect")
        other = str(uuid.uuid4())
        for user, target in ((7, path), (8, location), (7, f"{path}?t={token(s, item, 8, key)}"),
                             (7, f"{path}?t={token(s, item, 7, key, secret='x' * 64)}"),
                             (7, f"{path}?t={token(s, item, 7, other)}"),
                             (7, f"{path.replace(key, other)}?t={token(s, item, 7, key)}")):
            told = s.follow(target, user)
            assert told.status == 404 and "retry-after" not in told.headers, (target, told)
        assert not reported(s, item)

        # The item is rebuilt: until max_hold is over the message may still come.
        s.sql("UPDATE seckill_inventory SET epoch = 2")
        told = s.follow(location, 7)
        assert told.status == 200 and told.code == "QUEUED" and told.headers["retry-after"] == "1", told
        s.sql("INSERT INTO rebuilds (activity_id, sku_id, epoch, life, reason, finished_at, lost_after) VALUES (%s, %s, 2, 'test', "
              "'lost', clock_timestamp(), clock_timestamp() + interval '1 hour')", *item.args)
        assert s.follow(location, 7).code == "QUEUED"
        s.sql("UPDATE rebuilds SET lost_after = clock_timestamp()")
        told = s.follow(location, 7)
        assert told.status == 200 and (told.code, told.json["reason"], told.json["version"]) == ("FAILED", "LOST_RESERVATION", 3), told
        assert "retry-after" not in told.headers
        assert s.follow(path, 7).status == 404
        assert not reported(s, item)

        # It was not lost after all: what a store knows is told, whatever the token says.
        s.sql("DELETE FROM rebuilds")
        s.sql("UPDATE seckill_inventory SET epoch = 1")
        s.redis_client.rename("elsewhere", item.key(f"reservation:7:{key}"))
        s.worker.start()
        item.await_settled()
        assert s.follow(location, 7).code == "SUCCEEDED"


def test_a_storm_asks_the_location():
    """Until each acceptance is final; and what is no query-api it tells."""
    with System() as s:
        item = s.item(stock=5)
        told = s.storm(item, 20, "--query", f"http://127.0.0.1:{s.query.ports['query']}")["states"]
        assert told.pop("asked") >= 5
        assert told == {"followed": 5, "passed_over": 0, "final": 5, "waiting": 0, "missing": 0, "malformed": 0}
        with open(item.histories[-1]) as f:
            states = [line for line in map(json.loads, f) if line["type"] == "state"]
        ends = [line for line in states if line["state"] == "SUCCEEDED"]
        assert len(ends) == 5 and all(line["status"] == 200 and line["since"] <= line["t"] for line in states), states
        assert item.audit("--sold-out")["counts"]["told"] == len(states)

        other = s.item(stock=2)
        done = s.ctl("storm", *other.flags, "--buyers", "2", "--api", f"http://127.0.0.1:{s.api.ports['api']}", "--json",
                     "--query", f"http://127.0.0.1:{s.query.ports['admin']}", check=False)
        assert done.returncode == 1 and "accepted requests were not found (404)" in done.stderr
        assert json.loads(done.stdout)["states"]["missing"] == 2
        other.unrecorded = True


def test_a_404_is_broken_whatever_was_rebuilt_since():
    """Rule 34c: who shows the token is never told 404; I3 sees it, also where an epoch went between."""
    with System() as s:
        item = s.item(stock=5)
        s.storm(item, 5)
        item.await_settled()
        item.audit()
        s.ctl("rebuild", "run", *item.flags, "--yes")
        item.audit()
        with open(item.histories[-1]) as f:
            won = next(line for line in map(json.loads, f) if line["type"] == "ok")
        missing = {**{k: won[k] for k in ("user", "key", "activity", "sku")}, "t": won["t"] + 2, "since": won["t"] + 1, "type": "state",
                   "status": 404}
        with open(item.histories[-1], "a") as f:
            f.write(json.dumps(missing) + "\n")
        done = s.ctl("audit", *item.flags, *item._history(), "--wait", "30s", "--json", check=False)
        assert done.returncode == 1
        assert [c["offenders"] for c in json.loads(done.stdout)["checks"] if c["result"] == "broken"] == [
            [f"user {won['user']}, request {won['key']}: was accepted, and not found later (404)"]]


def test_secrets_change_without_a_gap():
    """The new one is believed everywhere before it signs anywhere; without a secret there are no tokens."""
    with System(parts=("api", "query")) as s:
        files = {}
        for name, lines in (("both", ["n" * 64, s.location_secret]), ("new", ["n" * 64]), ("bad", ["short"])):
            files[name] = f"{s.dir}/{name}.secret"
            with open(files[name], "w") as f:
                f.write("\n".join(lines) + "\n")
        item = s.item(stock=2)
        key, location = accepted(s, item, 7)
        s.redis_client.rename(item.key(f"reservation:7:{key}"), "elsewhere")
        for name, status in (("both", 200), ("new", 404)):
            query = s.program("query", **{"location.secret_file": files[name]})
            query.start()
            assert s.follow(location, 7, query).status == status
            assert s.follow(f"{location.partition('?')[0]}?t={token(s, item, 7, key, secret='n' * 64)}", 7, query).status == 200
        s.redis_client.rename("elsewhere", item.key(f"reservation:7:{key}"))

        none = s.program("api", **{"location.secret_file": ""})
        none.start()
        with client.Connection(none.ports["api"]) as c:
            c.send(s.order_request(item, 8))
            assert "?" not in c.answer().headers["location"]
        for name in ("bad", "missing"):
            failed = s.program("api", **{"location.secret_file": files.get(name, f"{s.dir}/nowhere")})
            with pytest.raises(RuntimeError):
                failed.start()
            assert failed.await_end() == 1
            failed.status = 0  # as it should
            assert any("location.secret_file" in line["why"] for line in failed.logged("no usable secret for location tokens"))
        item.audited = True  # nobody placed the orders


def redis_state(s, name):
    """Keeps what Redis has on its disk; Redis is down."""
    shutil.copytree(f"{s.redis.dir}/appendonlydir", f"{s.dir}/{name}")


def redis_back_to(s, name):
    shutil.rmtree(f"{s.redis.dir}/appendonlydir")
    shutil.copytree(f"{s.dir}/{name}", f"{s.redis.dir}/appendonlydir")


def await_connected(s, item, user):
    """The first answer after an outage that is not "no connection"; the key may be asked again."""
    key = str(uuid.uuid4())
    behind = s.api.metric("seckill_store_behind_total")
    return wait_for("an answer of Redis", lambda: (a := s.buy(item, user, key)).status != 503
                    and a or s.api.metric("seckill_store_behind_total") > behind and a)


def test_redis_went_back():
    """Rule 34a. Redis comes back without its last writes: not a unit is sold there, and the workers are told; with them it
    sells on, as after any restart."""
    with System({"api.instance_id": "5", "api.loops": "1", "worker.recover_after": "60s"}) as s:
        item = s.item(stock=20)
        other = s.item(stock=20)
        s.worker.terminate()
        first = [accepted(s, item, user) for user in (1, 2)]
        s.redis.down()
        redis_state(s, "older")
        s.redis.start()
        assert await_connected(s, item, 3).status == 202  # a harmless restart
        last = accepted(s, item, 4)
        s.redis.kill()
        redis_state(s, "newest")
        s.redis.start()
        assert await_connected(s, item, 5).status == 202  # … and a crash: the AOF has it all
        last = accepted(s, item, 6)
        assert s.api.metric("seckill_store_behind_total") == 0
        s.redis.kill()
        shutil.rmtree(f"{s.dir}/newest")
        redis_state(s, "newest")

        redis_back_to(s, "older")
        s.redis.start()
        sold = s.redis_client.get(item.key("stock"))
        told = await_connected(s, item, 7)
        assert told.status == 503 and told.code == "DEPENDENCY_UNAVAILABLE" and told.headers["retry-after"] == "1", told
        for user in (7, 8, 4):
            assert s.buy(item, user).code == "DEPENDENCY_UNAVAILABLE"
        assert s.redis_client.get(item.key("stock")) == sold
        wait_for("the report", lambda: reported(s, item))
        assert s.api.metric('seckill_suspect_reports_total{why="behind"}') >= 1
        # Another item, of which nothing was lost, is sold; and who was told 202 is not told 404.
        assert s.buy(other, 9).status == 202 and not reported(s, other)
        told = s.follow(last[1], 6)
        assert told.status == 200 and told.code == "QUEUED" and told.headers["retry-after"] == "1", told
        assert s.follow(first[0][1], 1).code == "QUEUED"

        s.redis.kill()
        redis_back_to(s, "newest")
        s.redis.start()
        assert await_connected(s, item, 7).status == 202
        s.worker.start()
        item.await_settled()
        assert item.orders() == 7
        assert s.follow(last[1], 6).code == "SUCCEEDED"
        other.audited = True  # its buyer was sold a unit in the time that was undone


def test_no_catalogue():
    """Rule 34. Without `sec:items` nothing is sold, however whole the item is; what is not listed is 404, what is listed and
    has no meta 503."""
    with System() as s:
        item = s.item(stock=5)
        s.item(stock=5)
        s.worker.terminate()  # it would list them again (34b)
        assert accepted(s, item, 1)
        s.redis_client.rename("sec:items", "elsewhere")
        wait_for("the sale to stop", lambda: s.buy(item, 2).code == "DEPENDENCY_UNAVAILABLE")
        free = s.redis_client.get(item.key("stock"))
        assert s.buy(item, 3).headers["retry-after"] == "1" and s.api.metric("seckill_catalogue_missing") == 1
        assert s.redis_client.get(item.key("stock")) == free
        assert s.api.metric('seckill_admission_rejected_total{reason="no_catalogue"}') >= 2
        s.redis_client.rename("elsewhere", "sec:items")
        wait_for("the sale to go on", lambda: s.buy(item, 4).status == 202)
        assert s.api.metric("seckill_catalogue_missing") == 0
        s.redis_client.sadd("sec:items", "77:1")
        assert s.buy(Item(s, 77, 1, 0), 5).status == 503
        s.redis_client.srem("sec:items", "77:1")
        assert s.buy(Item(s, 77, 1, 0), 5).status == 404
        s.worker.start()
