"""docs/openapi.yaml says every (status, code) that each endpoint can send, and nothing else; what a running system sends
is what it says."""
import json
import os
import re
import signal
import sys
import uuid

import pytest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, f"{SOURCE}/tests/support")
import client  # noqa: E402
import openapi  # noqa: E402
from services import wait_for  # noqa: E402
from system import System  # noqa: E402

POST = ("post", "/v1/orders")
CANCEL = ("post", "/v1/activities/{activity_id}/skus/{sku_id}/requests/{request_id}/cancel")
PAY = ("post", "/v1/payments")
REQUEST = ("get", "/v1/activities/{activity_id}/skus/{sku_id}/requests/{request_id}")
ORDER = ("get", "/v1/orders/{order_id}")
ITEM = ("get", "/v1/activities/{activity_id}/skus/{sku_id}")

# Any port may answer so before it knows which endpoint is meant, or whatever the endpoint says.
ANY = {"BAD_REQUEST", "METHOD_NOT_ALLOWED", "REQUEST_TIMEOUT", "CONTENT_TOO_LARGE", "URI_TOO_LONG", "HEADERS_TOO_LARGE",
       "INTERNAL_ERROR", "NOT_IMPLEMENTED", "VERSION_NOT_SUPPORTED"}
LOOK = ANY | {"INVALID_ARGUMENT", "NOT_FOUND", "OVERLOADED", "DEPENDENCY_UNAVAILABLE"}
SENT = {
    POST: ANY | {"INVALID_JSON", "INVALID_ARGUMENT", "UNAUTHENTICATED", "NOT_FOUND", "SOLD_OUT", "DUPLICATE_ORDER", "NOT_OPEN",
                 "ENDED", "REQUEST_CLOSED", "UNSUPPORTED_MEDIA_TYPE", "IDEMPOTENCY_KEY_REUSED", "OVERLOADED",
                 "DEPENDENCY_UNAVAILABLE", "PAUSED", "DRAINING", "TIMEOUT"},
    CANCEL: LOOK | {"UNAUTHENTICATED", "REQUEST_CLOSED", "DRAINING", "TIMEOUT"},
    PAY: LOOK | {"INVALID_JSON", "UNAUTHENTICATED", "UNSUPPORTED_MEDIA_TYPE", "DRAINING", "TIMEOUT"},
    REQUEST: LOOK | {"UNAUTHENTICATED"},
    ORDER: LOOK | {"UNAUTHENTICATED"},
    ITEM: LOOK,
}
GOOD = {POST: 202, CANCEL: 202, PAY: 202, REQUEST: 200, ORDER: 200, ITEM: 200}
NEVER = {"FORBIDDEN", "RATE_LIMITED"}  # reserved


def answers():
    """{code: (status, Retry-After or 0)} of the one table."""
    with open(f"{SOURCE}/src/core/verdict_answer.c") as f:
        rows = re.findall(r'\[ANSWER_\w+\] =\s*\{(\d+),\s*"(\w+)",\s*"[^"]*",\s*(true|false),\s*(\d+)\}', f.read())
    assert len(rows) > 20
    return {code: (int(status), int(after)) for status, code, _, after in rows}


ANSWERS = answers()
ERRORS = {code for code, (status, _) in ANSWERS.items() if status >= 400}


def documented(endpoint):
    op = openapi.document()["paths"][endpoint[1]][endpoint[0]]
    pairs = set()
    for status, response in op["responses"].items():
        response = openapi.resolve(response)
        codes = {c for c in re.findall(r"`([A-Z_]+)`", response["description"]) if c in ERRORS}
        assert int(status) < 400 or codes, f"{endpoint}: {status} names no code"
        after = {ANSWERS[c][1] for c in codes if ANSWERS[c][0] == int(status)}
        assert ("Retry-After" in response.get("headers", {})) == (any(after) or (endpoint, status) == (REQUEST, "200")), \
            f"{endpoint}: {status} and Retry-After"
        # A description may also tell of a code that another status has.
        pairs |= {(int(status), c) for c in codes if ANSWERS[c][0] == int(status)} or {(int(status), "")}
    return pairs


@pytest.mark.parametrize("endpoint", SENT, ids=lambda e: e[1])
def test_every_pair_is_documented(endpoint):
    assert documented(endpoint) == {(ANSWERS[c][0], c) for c in SENT[endpoint]} | {(GOOD[endpoint], "")}


def test_every_code_has_its_place():
    assert set(openapi.document()["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]) == ERRORS
    assert set().union(*SENT.values()) | NEVER == ERRORS
    states = open(f"{SOURCE}/src/core/verdict.c").read()
    schemas = openapi.document()["components"]["schemas"]
    assert set(schemas["State"]["enum"]) == set(re.findall(r'\[VERDICT_\w+\] = \{STR\("(\w+)"\)', states))
    assert set(schemas["Reason"]["enum"]) == set(re.findall(r'\[REASON_\w+\] = \{STR\("(\w+)"\)', states))


# --- what a running system sends ---

class Seen:
    """An answer as openapi.check wants it; that of a request that is no HTTP belongs to the path that it should have had."""

    def __init__(self, method, path, answer):
        self.request = self
        self.method, self.path_url = method, path
        self.status_code, self.content = answer.status, answer.body
        self.headers = {k.title(): v for k, v in answer.headers.items()}
        self.headers["WWW-Authenticate"] = self.headers.pop("Www-Authenticate", None)
        if self.headers["WWW-Authenticate"] is None:
            del self.headers["WWW-Authenticate"]

    def json(self):
        return json.loads(self.content)


@pytest.fixture(scope="module")
def system():
    with System({"api.loops": 1, "query.loops": 1, "api.max_inflight": 1, "api.max_commands": 1, "api.command_timeout": "2s", "query.max_inflight": 1, "api.submit_timeout": "3s",
                 "api.hold_timeout": "1s", "query.timeout": "2s", "query.pg_timeout": "1500ms", "redis.reply_timeout": "1s",
                 "http.header_timeout": "1s", "api.hint": "false"}) as s:
        yield s


class Sender:
    def __init__(self, system):
        self.system = system
        self.pairs = set()

    def _check(self, endpoint, port, data, path, expect):
        with client.Connection(port) as c:
            c.send(data)
            answer = c.answer()
        what = (answer.status, answer.json.get("code", ""))
        assert what == expect, answer
        openapi.check(Seen(endpoint[0].upper(), path, answer))
        self.pairs.add((endpoint, *what))
        return answer

    def buy(self, expect, item=None, user=7, key=None, body=None, raw=None, **headers):
        fields = {"Authorization": f"Bearer {self.system.token(user)}", "Idempotency-Key": key or str(uuid.uuid4()),
                  "Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        data = raw or client.request("POST", "/v1/orders", fields, item.body if body is None else body)
        return self._check(POST, self.system.api.ports["api"], data, "/v1/orders", expect)

    def cancel(self, expect, path, user=7, body=b"", raw=None):
        headers = {"Authorization": f"Bearer {self.system.token(user)}"} if user else {}
        data = raw or client.request("POST", path, headers, body)
        return self._check(CANCEL, self.system.api.ports["api"], data, path, expect)

    def pay(self, expect, body=b"", authorization=None, kind="application/json", raw=None):
        headers = {"Authorization": authorization or self.system.signature(body), "Content-Type": kind}
        data = raw or client.request("POST", "/v1/payments", headers, body)
        return self._check(PAY, self.system.api.ports["api"], data, "/v1/payments", expect)

    def get(self, endpoint, expect, path, user=7, raw=None):
        headers = {"Authorization": f"Bearer {self.system.token(user)}"} if user else {}
        data = raw or client.request("GET", path, headers)
        return self._check(endpoint, self.system.query.ports["query"], data, path, expect)


def http_refusals(method, path):
    """Requests that no endpoint sees."""
    return [
        ((400, "BAD_REQUEST"), f"{method} {path} HTTP/1.1\r\n\r\n"),
        ((413, "CONTENT_TOO_LARGE"), f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n\r\n"),
        ((414, "URI_TOO_LONG"), f"{method} {path}?{'x' * 9000} HTTP/1.1\r\nHost: x\r\n\r\n"),
        ((431, "HEADERS_TOO_LARGE"), f"{method} {path} HTTP/1.1\r\nHost: x\r\nA: {'x' * 9000}\r\n\r\n"),
        ((501, "NOT_IMPLEMENTED"), f"{method} {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"),
        ((505, "VERSION_NOT_SUPPORTED"), f"{method} {path} HTTP/2.0\r\nHost: x\r\n\r\n"),
        ((408, "REQUEST_TIMEOUT"), f"{method} {path} HTTP/1.1\r\nHost:"),
    ]


def test_answers_are_as_documented(system):
    s = Sender(system)
    redis = system.redis_client
    item = system.item(stock=2)
    other = system.item(stock=10)
    key = str(uuid.uuid4())
    path = f"/v1/activities/{item.activity}/skus/{item.sku}"

    # POST /v1/orders
    s.buy((202, ""), item, key=key)
    item.await_settled()
    replay = s.buy((202, ""), item, key=key)
    assert replay.headers["idempotent-replayed"] == "true" and replay.json["state"] == "SUCCEEDED"
    s.buy((409, "DUPLICATE_ORDER"), item)
    s.buy((202, ""), other, key=key)  # rule 19: the worker finds that the key has an order of another item
    other.await_settled()
    s.buy((422, "IDEMPOTENCY_KEY_REUSED"), other, key=key)
    s.buy((202, ""), item, user=8)
    s.buy((409, "SOLD_OUT"), item, user=9)
    item.await_settled()

    s.buy((400, "INVALID_JSON"), body=b"{")
    s.buy((400, "INVALID_ARGUMENT"), body=b'{"activity_id":1}')
    s.buy((400, "INVALID_ARGUMENT"), item, key="1")
    s.buy((401, "UNAUTHENTICATED"), item, Authorization="Bearer x")
    s.buy((404, "NOT_FOUND"), body=b'{"activity_id":1,"sku_id":1}')
    s.buy((405, "METHOD_NOT_ALLOWED"), raw=client.request("PUT", "/v1/orders"))
    s.buy((415, "UNSUPPORTED_MEDIA_TYPE"), item, Content_Type="text/plain")
    for expect, raw in http_refusals("POST", "/v1/orders"):
        s.buy(expect, raw=raw.encode())

    later = system.item(stock=1, starts="+1h", ends="+2h")
    s.buy((409, "NOT_OPEN"), later)
    paused = system.item(stock=1, opened=False)
    s.buy((503, "PAUSED"), paused)
    system.ctl("activity", "close", *paused.flags)
    s.buy((409, "ENDED"), paused)
    closed = system.item(stock=1)
    lost = str(uuid.uuid4())
    redis.hset(closed.key(f"reservation:7:{lost}"), mapping={
        "reservation_id": str(uuid.uuid4()), "order_id": "5", "message_id": str(uuid.uuid4()), "status": "RELEASED",
        "epoch": 1, "seq": 1, "created_at_ms": 1, "state": "FAILED", "reason": "VOID", "rank": 3})
    s.buy((409, "REQUEST_CLOSED"), closed, key=lost)
    s.cancel((409, "REQUEST_CLOSED"), f"/v1/activities/{closed.activity}/skus/{closed.sku}/requests/{lost}/cancel")
    redis.delete(closed.key(f"reservation:7:{lost}"))
    half = system.item(stock=1)
    system.worker.signal(19)  # it would rebuild the item
    meta = redis.dump(half.key("meta"))
    redis.delete(half.key("meta"))
    s.buy((503, "DEPENDENCY_UNAVAILABLE"), half)
    s.get(ITEM, (503, "DEPENDENCY_UNAVAILABLE"), f"/v1/activities/{half.activity}/skus/{half.sku}", user=None)
    redis.restore(half.key("meta"), 0, meta)
    stock = redis.get(half.key("stock"))
    redis.delete(half.key("stock"))
    redis.lpush(half.key("stock"), "1")
    s.buy((500, "INTERNAL_ERROR"), half)
    wait_for("the view of the item to be read again", lambda: client.get(
        system.query.ports["query"], f"/v1/activities/{half.activity}/skus/{half.sku}").status == 500)
    s.get(ITEM, (500, "INTERNAL_ERROR"), f"/v1/activities/{half.activity}/skus/{half.sku}", user=None)
    redis.delete(half.key("stock"))
    redis.set(half.key("stock"), stock)
    redis.pexpireat(half.key("stock"), int(redis.hget(half.key("meta"), "expires_ms")))
    redis.pexpireat(half.key("meta"), int(redis.hget(half.key("meta"), "expires_ms")))
    system.worker.signal(18)

    # the look-ups
    order_id = s.get(REQUEST, (200, ""), f"{path}/requests/{key}").json["order_id"]
    s.get(ORDER, (200, ""), f"/v1/orders/{order_id}")
    s.get(ITEM, (200, ""), path, user=None)
    s.get(REQUEST, (400, "INVALID_ARGUMENT"), f"{path}/requests/1")
    s.get(REQUEST, (400, "INVALID_ARGUMENT"), f"{path}/requests/{key}?t=1")
    s.get(REQUEST, (404, "NOT_FOUND"), f"{path}/requests/{key}", user=9)
    s.get(REQUEST, (401, "UNAUTHENTICATED"), f"{path}/requests/{key}", user=None)
    s.get(ORDER, (400, "INVALID_ARGUMENT"), "/v1/orders/0")
    s.get(ORDER, (404, "NOT_FOUND"), f"/v1/orders/{order_id}", user=9)
    s.get(ORDER, (401, "UNAUTHENTICATED"), f"/v1/orders/{order_id}", user=None)
    s.get(ITEM, (400, "INVALID_ARGUMENT"), "/v1/activities/0/skus/1", user=None)
    s.get(ITEM, (404, "NOT_FOUND"), "/v1/activities/1/skus/1", user=None)
    for endpoint, target in ((REQUEST, f"{path}/requests/{key}"), (ORDER, f"/v1/orders/{order_id}"), (ITEM, path)):
        s.get(endpoint, (405, "METHOD_NOT_ALLOWED"), target, raw=client.request("DELETE", target))
        for expect, raw in http_refusals("GET", target):
            s.get(endpoint, expect, target, raw=raw.encode())

    commands(system, s, item, other, half)
    stores_away(system, s, closed, order_id, f"{path}/requests/{key}")
    left = {(e, *p) for e in SENT for p in documented(e)} - s.pairs
    assert left == {(POST, 503, "DRAINING"), (CANCEL, 503, "DRAINING"), (PAY, 503, "DRAINING"), (CANCEL, 504, "TIMEOUT"),
                    (PAY, 504, "TIMEOUT"), (REQUEST, 500, "INTERNAL_ERROR"), (ORDER, 500, "INTERNAL_ERROR")}, left


def commands(system, s, item, other, half):
    redis = system.redis_client
    key = str(uuid.uuid4())
    path = f"/v1/activities/{other.activity}/skus/{other.sku}/requests/{key}/cancel"
    order = s.buy((202, ""), other, user=20, key=key).json["order_id"]
    other.await_settled()
    body = system.payment(other, 20, key, order)
    s.cancel((202, ""), path, user=20)
    s.pay((202, ""), body)
    other.await_settled()
    s.cancel((400, "INVALID_ARGUMENT"), path, user=20, body=b"{}")
    s.cancel((401, "UNAUTHENTICATED"), path, user=None)
    s.cancel((404, "NOT_FOUND"), path, user=21)
    s.pay((400, "INVALID_JSON"), b"{")
    s.pay((400, "INVALID_ARGUMENT"), b"{}")
    s.pay((401, "UNAUTHENTICATED"), body, authorization="Bearer x")
    s.pay((404, "NOT_FOUND"), system.payment(other, 20, key, 1))
    s.pay((415, "UNSUPPORTED_MEDIA_TYPE"), body, kind="text/plain")
    spoiled = str(uuid.uuid4())
    redis.hset(half.key(f"reservation:7:{spoiled}"), "status", "?")
    s.cancel((500, "INTERNAL_ERROR"), f"/v1/activities/{half.activity}/skus/{half.sku}/requests/{spoiled}/cancel")
    s.pay((500, "INTERNAL_ERROR"), system.payment(half, 7, spoiled, 1))
    redis.delete(half.key(f"reservation:7:{spoiled}"))
    for endpoint, target, send in ((CANCEL, path, s.cancel), (PAY, "/v1/payments", None)):
        method = client.request("GET", target)
        def raw(expect, data):
            return s.cancel(expect, target, raw=data) if send else s.pay(expect, raw=data)
        raw((405, "METHOD_NOT_ALLOWED"), method)
        for expect, data in http_refusals("POST", target):
            raw(expect, data.encode())


def stores_away(system, s, item, order_id, request):
    """Both stores are silent. Each program may work on one request at a time; the second hears OVERLOADED."""
    servers = (system.redis, system.pg)
    key = str(uuid.uuid4())
    view = f"/v1/activities/{item.activity}/skus/{item.sku}"
    for server in servers:
        os.kill(server.pid, signal.SIGSTOP)
        for child in children(server.pid):
            os.kill(child, signal.SIGSTOP)
    try:
        with client.Connection(system.api.ports["api"]) as first:
            first.send(system.order_request(item, 11, key))
            wait_for("the first to be in flight", lambda: system.api.metric("seckill_http_inflight_requests") == 1)
            s.buy((429, "OVERLOADED"), item, user=12)
            answer = first.answer()
            assert (answer.status, answer.code) == (504, "TIMEOUT")
            s.pairs.add((POST, 504, "TIMEOUT"))
        cancel = request + "/cancel"
        body = system.payment(item, 7, key, order_id)
        for endpoint, target, headers, sent, again in (
                (CANCEL, cancel, {"Authorization": f"Bearer {system.token(7)}"}, b"", lambda e: s.cancel(e, cancel)),
                (PAY, "/v1/payments", {"Authorization": system.signature(body), "Content-Type": "application/json"}, body,
                 lambda e: s.pay(e, body))):
            with client.Connection(system.api.ports["api"]) as first:
                first.send(client.request("POST", target, headers, sent))
                wait_for("the first to be in flight", lambda: system.api.metric("seckill_http_inflight_requests") == 1)
                again((429, "OVERLOADED"))
                answer = first.answer()
                assert (answer.status, answer.code) == (503, "DEPENDENCY_UNAVAILABLE")
                openapi.check(Seen("POST", target, answer))
                s.pairs.add((endpoint, 503, "DEPENDENCY_UNAVAILABLE"))
        for endpoint, target in ((REQUEST, request), (ORDER, f"/v1/orders/{order_id}"), (ITEM, view)):
            with client.Connection(system.query.ports["query"]) as first:
                first.send(client.request("GET", target, {"Authorization": f"Bearer {system.token(7)}"}))
                wait_for("the first to be in flight", lambda: system.query.metric("seckill_http_inflight_requests") == 1)
                s.get(endpoint, (429, "OVERLOADED"), target)
                answer = first.answer()
                assert (answer.status, answer.code) == (503, "DEPENDENCY_UNAVAILABLE")
                openapi.check(Seen("GET", target, answer))
                s.pairs.add((endpoint, 503, "DEPENDENCY_UNAVAILABLE"))
    finally:
        for server in servers:
            for child in children(server.pid):
                os.kill(child, signal.SIGCONT)
            os.kill(server.pid, signal.SIGCONT)
    # What was not known is found out with the same key. Nothing was taken: the call was too late by Redis's own clock.
    wait_for("Redis to be back", lambda: system.api.get("/readyz").status == 200)
    s.buy((202, ""), item, user=11, key=key)
    item.await_settled()


def children(pid):
    return [int(p) for p in open(f"/proc/{pid}/task/{pid}/children").read().split()]
