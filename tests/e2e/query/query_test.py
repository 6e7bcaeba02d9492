"""query-api on real Redis and PostgreSQL, beside the real seckill-api and order-worker. Rules by number: rules.md."""
import datetime
import os
import socket
import subprocess
import sys
import threading
import time
import uuid

import jwt
import pytest
import requests

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import openapi  # noqa: E402
from services import PrivatePostgres, PrivateRedis, wait_for  # noqa: E402

BIN = os.environ["SECKILL_BIN_DIR"]
KEY = b"a development key of 32 bytes or more"
ITEM = "/v1/activities/1001/skus/2001"


class Program:
    def __init__(self, stack, name, *flags):
        self.name, self.stack, self.flags = name, stack, flags
        self.ports_file = f"{stack.dir}/{name}.ports"
        self.start()

    def start(self):
        if os.path.exists(self.ports_file):
            os.unlink(self.ports_file)
        self.log = open(f"{self.stack.dir}/{self.name}.log", "ab")
        self.process = subprocess.Popen(
            [f"{BIN}/{self.name}", "--config", self.stack.config, "--ports-file", self.ports_file, *self.flags],
            stderr=self.log)
        wait_for(f"{self.name}'s ports", lambda: self.alive() and os.path.exists(self.ports_file))
        self.ports = dict(pair.split("=") for pair in open(self.ports_file).read().split())

    def alive(self):
        assert self.process.poll() is None, open(self.log.name).read()[-3000:]
        return True

    def url(self, port, path):
        return f"http://127.0.0.1:{self.ports[port]}{path}"

    def ready(self):
        return requests.get(self.url("admin", "/readyz"), timeout=30)

    def metric(self, name):
        total = 0
        for line in requests.get(self.url("admin", "/metrics"), timeout=30).text.splitlines():
            if line.startswith(name + "{") or line.startswith(name + " "):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def end(self):
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(30)
        self.log.close()
        return status


class Stack:
    def __enter__(self):
        self.redis, self.pg = PrivateRedis().start(), PrivatePostgres().start()
        self.dir = self.redis.dir
        self.programs = {}
        with open(f"{self.dir}/key", "wb") as f:
            f.write(KEY)
        self.config = f"{self.dir}/seckill.yaml"
        with open(self.config, "w") as f:
            f.write(f"redis:\n  url: \"{self.redis.url}\"\npg:\n  conninfo: \"{self.pg.conninfo}\"\n"
                    f"auth:\n  keys: \"dev=HS256:{self.dir}/key\"\ndrain:\n  endpoints: 0\n"
                    + "".join(f"{part}:\n  listen: 127.0.0.1:0\n  admin_listen: 127.0.0.1:0\n" for part in ("api", "query"))
                    + "worker:\n  admin_listen: 127.0.0.1:0\n")
        self.ctl("migrate")
        self.new_item(1001, 2001, 100)
        return self

    def __exit__(self, *exc):
        for p in self.programs.values():
            p.end()
        self.redis.stop()
        self.pg.stop()

    def ctl(self, *words):
        subprocess.run([f"{BIN}/seckillctl", "--config", self.config, *words], check=True, stdout=subprocess.DEVNULL)

    def new_item(self, activity, sku, stock):
        item = ["--activity", str(activity), "--sku", str(sku)]
        self.ctl("activity", "create", *item, "--stock", str(stock), "--starts", "-1s", "--ends", "+1h")
        self.ctl("stock", "warm", *item)
        self.ctl("activity", "open", *item)

    def run(self, name, *flags):
        self.programs[name] = Program(self, name, *flags)
        return self.programs[name]

    def stop(self, name):
        assert self.programs.pop(name).end() == 0


@pytest.fixture(scope="module")
def stack():
    with Stack() as s:
        s.run("query-api")
        s.run("seckill-api")
        for p in s.programs.values():
            wait_for(f"{p.name} to be ready", lambda: p.ready().status_code == 200)
        yield s


@pytest.fixture
def query(stack):
    return stack.programs["query-api"]


def token(user, **claims):
    now = int(time.time())
    return jwt.encode({"sub": str(user), "iss": "seckill", "aud": "seckill", "iat": now, "exp": now + 600, **claims}, KEY,
                      algorithm="HS256", headers={"kid": "dev"})


def bearer(user):
    return {"Authorization": f"Bearer {token(user)}"}


def get(query, path, user=None):
    """Every answer is held to docs/openapi.yaml."""
    return openapi.check(requests.get(query.url("query", path), headers=bearer(user) if user else {}, timeout=30))


def buy(stack, user, key=None, sku=2001):
    key = key or str(uuid.uuid4())

    def post():
        return requests.post(stack.programs["seckill-api"].url("api", "/v1/orders"), timeout=30,
                             json={"activity_id": 1001, "sku_id": sku},
                             headers={**bearer(user), "Idempotency-Key": key})
    # 503: it connects again after a test that took Redis away; the same key may try again
    r = wait_for("an answer", lambda: (lambda r: [r] if r.status_code != 503 else None)(post()))[0]
    assert openapi.check(r).status_code == 202, r.text
    return key, r


def settled(stack, user, key):
    """Waits until Redis, too, has the outcome: until then an answer may come from either store."""
    record = f"sec:{{1001:2001}}:reservation:{user}:{key}"
    wait_for("the outcome", lambda: int(stack.redis.connect().hget(record, "rank") or 0) >= 3)


def serves_again(query):
    """Each loop has its own connection to Redis; the kernel spreads new clients over the loops."""
    wait_for("every loop to have Redis again", lambda: all(get(query, ITEM).status_code == 200 for _ in range(30)))


def problem(r, status, code):
    assert (r.status_code, r.json()["code"]) == (status, code), r.text
    assert r.headers["Content-Type"] == "application/problem+json"
    assert r.headers["Cache-Control"] == "no-store"
    return r


def without_ids(r):
    return {k: v for k, v in r.json().items() if k != "request_id"}, r.status_code, \
        {k: v for k, v in r.headers.items() if k != "Date"}


# ---------------------------------------------------------------- no worker yet: requests stay open


def test_a_request_just_accepted(stack, query):
    key, accepted = buy(stack, 7)
    r = get(query, accepted.headers["Location"], 7)
    assert r.status_code == 200 and r.headers["Cache-Control"] == "no-store"
    body = r.json()
    at = datetime.datetime.fromisoformat(body.pop("created_at").replace("Z", "+00:00"))
    assert abs(at.timestamp() - time.time()) < 30
    assert body == {"request_id": key, "activity_id": 1001, "sku_id": 2001, "state": "QUEUED", "version": 1,
                    "reservation_id": accepted.json()["reservation_id"], "order_id": accepted.json()["order_id"]}
    assert isinstance(body["order_id"], str)


def test_somebody_elses_request_looks_like_none(stack, query):
    key, _ = buy(stack, 8)
    theirs = problem(get(query, f"{ITEM}/requests/{key}", 9), 404, "NOT_FOUND")
    none = problem(get(query, f"{ITEM}/requests/{uuid.uuid4()}", 9), 404, "NOT_FOUND")
    assert without_ids(theirs) == without_ids(none)


def test_who_is_asking(stack, query):
    key, _ = buy(stack, 10)
    for path in f"{ITEM}/requests/{key}", "/v1/orders/1":
        assert get(query, path).status_code == 401
        for bad in "", "Bearer", "Bearer x.y.z", f"Basic {token(10)}", f"Bearer {token(10, aud='else')}":
            r = requests.get(query.url("query", path), headers={"Authorization": bad}, timeout=30)
            assert (r.status_code, r.headers["WWW-Authenticate"]) == (401, "Bearer"), bad


def test_arguments(stack, query):
    for path in ("/v1/activities/0/skus/1/requests/" + str(uuid.uuid4()), f"{ITEM}/requests/x", "/v1/orders/0", "/v1/orders/-1",
                 "/v1/orders/9223372036854775808", "/v1/orders/0x1", "/v1/orders/01", "/v1/activities/a/skus/1"):
        problem(get(query, path, 7), 400, "INVALID_ARGUMENT")
    for path in "/v1/orders", "/v1/activities/1001", f"{ITEM}/requests", "/":
        assert get(query, path, 7).status_code == 404
    for path in f"{ITEM}/requests/{uuid.uuid4()}", "/v1/orders/1", ITEM:
        for method in "POST", "PUT", "DELETE":
            r = requests.request(method, query.url("query", path), headers=bearer(7), timeout=30)
            assert (r.status_code, r.headers["Allow"]) == (405, "GET, HEAD")


def test_head(stack, query):
    r = requests.head(query.url("query", ITEM), timeout=30)
    assert (r.status_code, r.text) == (200, "") and int(r.headers["Content-Length"]) > 50


def test_an_item(stack, query):
    r = get(query, ITEM)
    assert r.status_code == 200 and r.headers["Cache-Control"] == "public, max-age=1"
    body = r.json()
    assert (body["state"], body["total"], body["activity_id"], body["sku_id"]) == ("OPEN", 100, 1001, 2001)
    assert body["free_about"] in (90, 100)
    assert abs(body["server_time_ms"] / 1000 - time.time()) < 60
    assert body["starts_at"] < datetime.datetime.utcnow().isoformat() < body["ends_at"]
    problem(get(query, "/v1/activities/1001/skus/9"), 404, "NOT_FOUND")


def test_an_item_that_redis_lost_is_not_absent(stack, query):
    """Rule 34: listed without meta; and nobody's request of it is "not found" (never 404 after a 202)."""
    r = stack.redis.connect()
    stack.new_item(1001, 66, 10)
    key, _ = buy(stack, 66, sku=66)
    for k in r.keys("sec:{1001:66}:*"):
        r.delete(k)
    lost = "/v1/activities/1001/skus/66"
    wait_for("the cached view to age", lambda: get(query, lost).status_code == 503)
    problem(get(query, lost), 503, "DEPENDENCY_UNAVAILABLE")
    problem(get(query, f"{lost}/requests/{key}", 66), 503, "DEPENDENCY_UNAVAILABLE")
    r.srem("sec:items", "1001:66")
    wait_for("the cached view to age", lambda: get(query, lost).status_code == 404)


def test_a_hundred_ask_for_one_item(stack, query):
    """Coalesced and cached for 200 ms: the store hears of few of them."""
    before = stack.redis.connect().info("commandstats")["cmdstat_evalsha"]["calls"]
    session = requests.Session()
    began = time.monotonic()
    for _ in range(100):
        assert session.get(query.url("query", ITEM), timeout=30).status_code == 200
    asked = stack.redis.connect().info("commandstats")["cmdstat_evalsha"]["calls"] - before
    loops = os.cpu_count()
    # readiness probes, instance lease and hints of the other program run beside it: hence the slack
    assert asked <= ((time.monotonic() - began) / 0.2 + 1) * loops + 20


# ---------------------------------------------------------------- with the worker


def test_an_order_is_seen(stack, query):
    stack.run("order-worker")
    key, accepted = buy(stack, 20)
    path = f"{ITEM}/requests/{key}"
    body = wait_for("the order", lambda: (lambda b: b if b["version"] >= 3 else None)(get(query, path, 20).json()))
    assert (body["state"], body["version"], "reason" in body) == ("SUCCEEDED", 3, False)
    order = get(query, f"/v1/orders/{body['order_id']}", 20)
    assert order.status_code == 200 and order.headers["Cache-Control"] == "no-store"
    order = order.json()
    assert order.pop("created_at") and order.pop("updated_at")
    assert order == {"order_id": accepted.json()["order_id"], "activity_id": 1001, "sku_id": 2001, "request_id": key,
                     "reservation_id": accepted.json()["reservation_id"], "status": "CREATED"}
    theirs = problem(get(query, f"/v1/orders/{body['order_id']}", 21), 404, "NOT_FOUND")
    none = problem(get(query, "/v1/orders/9223372036854775807", 21), 404, "NOT_FOUND")
    assert without_ids(theirs) == without_ids(none)


def test_postgresql_tells_what_redis_has_not_heard(stack, query):
    """The record in Redis is open for longer than query.fallback_after: the outcome comes from PostgreSQL."""
    key, accepted = buy(stack, 30)
    path = f"{ITEM}/requests/{key}"
    settled(stack, 30, key)
    record = f"sec:{{1001:2001}}:reservation:30:{key}"
    r = stack.redis.connect()
    r.hdel(record, "state", "reason", "rank")
    r.hset(record, mapping={"status": "MQ_SENT", "created_at_ms": int(time.time() * 1000) + 5000})
    assert get(query, path, 30).json()["state"] == "QUEUED"  # as if just made: not yet
    r.hset(record, "created_at_ms", int(time.time() * 1000) - 2500)
    body = get(query, path, 30).json()
    assert (body["state"], body["order_id"]) == ("SUCCEEDED", accepted.json()["order_id"])
    r.delete(record)  # rolled back, or expired
    body = get(query, path, 30).json()
    assert (body["state"], body["order_id"], body["reservation_id"]) == (
        "SUCCEEDED", accepted.json()["order_id"], accepted.json()["reservation_id"])
    assert abs(datetime.datetime.fromisoformat(body["created_at"].replace("Z", "+00:00")).timestamp() - time.time()) < 60


def test_a_refused_request_has_its_reason(stack, query):
    """A tombstone in PostgreSQL (void): FAILED, whatever Redis has; ids that nobody kept are left out."""
    key = str(uuid.uuid4())
    with stack.pg.connect() as c:
        c.execute("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id,"
                  " sku_id, status, last_error_code, processed_at) VALUES ('seckill-order-create-v1', gen_random_uuid(), %s,"
                  " gen_random_uuid(), 31, 1001, 2001, 'REJECTED', 'PG_STOCK_EXHAUSTED', now())", (key,))
    body = get(query, f"{ITEM}/requests/{key}", 31).json()
    assert body == {"request_id": key, "activity_id": 1001, "sku_id": 2001, "state": "SOLD_OUT",
                    "reason": "PG_STOCK_EXHAUSTED", "version": 3}


# ---------------------------------------------------------------- stores away


def test_redis_away(stack, query):
    """PostgreSQL alone answers what it knows; unknown is never 404."""
    key, accepted = buy(stack, 40)
    path = f"{ITEM}/requests/{key}"
    settled(stack, 40, key)
    stack.redis.down()
    try:
        # the view of the item may still be fresh
        wait_for("the cached view to age", lambda: get(query, ITEM).status_code == 503)
        assert get(query, path, 40).json()["state"] == "SUCCEEDED"
        assert get(query, f"/v1/orders/{accepted.json()['order_id']}", 40).status_code == 200
        problem(get(query, f"{ITEM}/requests/{uuid.uuid4()}", 40), 503, "DEPENDENCY_UNAVAILABLE")
        r = query.ready()
        assert r.status_code == 200
        assert "redis: ERR_" in r.json()["degraded"][0]["why"] and "postgresql: ok" in r.json()["degraded"][0]["why"]
        assert query.metric('seckill_query_store_up{store="redis"}') == 0
    finally:
        stack.redis.start()
    serves_again(query)


def test_postgresql_away(stack, query):
    """Redis alone answers what it has; absent there is 503, since PostgreSQL might know."""
    key, accepted = buy(stack, 50)
    path = f"{ITEM}/requests/{key}"
    settled(stack, 50, key)
    stack.pg.down()
    try:
        assert get(query, path, 50).json()["state"] == "SUCCEEDED"
        assert get(query, ITEM).status_code == 200
        problem(get(query, f"/v1/orders/{accepted.json()['order_id']}", 50), 503, "DEPENDENCY_UNAVAILABLE")
        problem(get(query, f"{ITEM}/requests/{uuid.uuid4()}", 50), 503, "DEPENDENCY_UNAVAILABLE")
        record = f"sec:{{1001:2001}}:reservation:50:{key}"
        stack.redis.connect().hdel(record, "state", "reason", "rank")
        stack.redis.connect().hset(record, "created_at_ms", 1000000000000)
        assert get(query, path, 50).json()["state"] == "QUEUED"  # old and open: Redis's word is all there is
        assert query.ready().status_code == 200
        stack.redis.down()
        try:
            wait_for("both to be missed", lambda: query.ready().status_code == 503)
            assert "redis" in query.ready().json()["failed"][0]["why"]
            problem(get(query, path, 50), 503, "DEPENDENCY_UNAVAILABLE")
        finally:
            stack.redis.start()
    finally:
        stack.pg.start()
    wait_for("both to be back", lambda: "degraded" not in query.ready().json())
    serves_again(query)
    assert get(query, path, 50).json()["state"] == "SUCCEEDED"


def test_a_stalled_postgresql_costs_no_thread_and_no_lie(stack, query):
    """Many reads behind two stuck connections: each is answered within the budget; more than query.pg_queue are refused at
    once; the Redis path goes on beside them."""
    key, _ = buy(stack, 60)
    with stack.pg.connect() as c:
        c.execute("BEGIN")
        c.execute("LOCK TABLE consumer_inbox, orders IN ACCESS EXCLUSIVE MODE")
        answers, threads = [], []

        def ask(n):
            r = get(query, f"{ITEM}/requests/{uuid.uuid4()}" if n % 2 else f"/v1/orders/{4711 + n}", 61)
            answers.append(r.status_code)
        for n in range(40):
            threads.append(threading.Thread(target=ask, args=(n,)))
            threads[-1].start()
        assert get(query, f"{ITEM}/requests/{key}", 60).status_code == 200
        for t in threads:
            t.join()
        c.execute("ROLLBACK")
    assert set(answers) == {503}
    wait_for("the reads to end", lambda: query.metric("seckill_query_pg_queued") + query.metric("seckill_query_pg_running") == 0)
    wait_for("PostgreSQL to answer", lambda: get(query, "/v1/orders/4711", 61).status_code == 404)


# ---------------------------------------------------------------- the end


def test_drain(stack, query):
    """SIGTERM: every request that was sent is answered, no reset, exit status 0."""
    key, _ = buy(stack, 70)
    path = f"{ITEM}/requests/{key}"
    settled(stack, 70, key)
    stop, bad, good = threading.Event(), [], []

    def poll():
        session = requests.Session()
        session.headers.update(bearer(70))
        while not stop.is_set():
            try:
                r = session.get(query.url("query", path), timeout=30)
                good.append(r.status_code)
                if r.headers.get("Connection") == "close":
                    return
            except requests.ConnectionError as e:
                if "Connection refused" not in str(e):
                    bad.append(e)
                return
    threads = [threading.Thread(target=poll) for _ in range(8)]
    for t in threads:
        t.start()
    wait_for("some traffic", lambda: len(good) > 50)
    status = query.end()
    stop.set()
    for t in threads:
        t.join()
    assert (status, bad, set(good)) == (0, [], {200})
    assert b"ERROR: " not in open(query.log.name, "rb").read()  # no sanitizer's report
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(query.ports["query"])), 1)
    query.start()
    wait_for("it to be ready again", lambda: query.ready().status_code == 200)


def test_drain_with_reads_under_way(stack, query):
    """SIGTERM while PostgreSQL hangs: the askers are answered within their budget, and the process ends."""
    answers = []
    with stack.pg.connect() as c:
        c.execute("BEGIN")
        c.execute("LOCK TABLE consumer_inbox, orders IN ACCESS EXCLUSIVE MODE")
        threads = [threading.Thread(target=lambda: answers.append(get(query, "/v1/orders/4711", 80).status_code))
                   for _ in range(8)]
        for t in threads:
            t.start()
        wait_for("a read", lambda: query.metric("seckill_query_pg_running") > 0)
        status = query.end()
        for t in threads:
            t.join()
        c.execute("ROLLBACK")
    assert status == 0 and set(answers) == {503}
    assert b"ERROR: " not in open(query.log.name, "rb").read()
    query.start()
    wait_for("it to be ready again", lambda: query.ready().status_code == 200)


def test_starts_before_its_stores(stack):
    """It listens, says that it is not there yet, and is once a store has come."""
    stack.redis.down()
    stack.pg.down()
    other = Program(stack, "query-api", "--log.instance=other")
    try:
        assert requests.get(other.url("admin", "/livez"), timeout=30).status_code == 200
        assert requests.get(other.url("admin", "/startupz"), timeout=30).status_code == 503
        assert other.ready().status_code == 503
        problem(get(other, ITEM), 503, "DEPENDENCY_UNAVAILABLE")
        stack.pg.start()
        wait_for("it to have started",
                 lambda: requests.get(other.url("admin", "/startupz"), timeout=30).status_code == 200)
        wait_for("it to be ready", lambda: other.ready().status_code == 200)  # a check is remembered for 200 ms
    finally:
        stack.redis.start()
        if not stack.pg.tether:
            stack.pg.start()
        assert other.end() == 0


def test_refuses_to_start(stack):
    """Without keys, with a word that is not understood, with an address that is none."""
    for flags, status in (["--auth.keys="], 1), (["frobnicate"], 2), (["--query.listen=256.1.1.1:1"], 1):
        done = subprocess.run([f"{BIN}/query-api", "--config", stack.config, *flags], capture_output=True, timeout=30)
        assert done.returncode == status and done.stderr, (flags, done)
        assert b"ERROR: " not in done.stderr
