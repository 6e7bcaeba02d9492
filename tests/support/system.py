"""A whole seckill on this machine, for the end-to-end tests: a private Redis and PostgreSQL and the three programs,
each of which can be killed, stopped and started again.

    with System() as s:                       # everything is up
        item = s.item(stock=10)               # created, warmed, opened
        answer = s.buy(item, user=7)
        …                                     # leaving it: every item is audited, each program must end with 0 on
                                              # SIGTERM, and no log may hold a sanitizer's report

On RocketMQ: System(queue=a PrivateRocketmq), or whatever `default_queue` is. The broker may be shared: each System has a
topic and groups of its own there, so that it finds nothing of another's.
"""
import contextlib
import hashlib
import hmac
import itertools
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import jwt

import client
from history import History, Observed, now_us
from oracle import Oracle
from private_rocketmq import Refused
from services import SOURCE, PrivateBouncer, PrivatePostgres, PrivateRedis, Server, wait_for

BIN = os.environ.get("SECKILL_BIN_DIR") or f"{SOURCE}/build/dev/bin"
RELEASE_BIN = os.environ.get("SECKILL_RELEASE_BIN_DIR") or BIN
if not os.path.exists(f"{RELEASE_BIN}/seckillctl"):
    RELEASE_BIN = BIN
GROUP = "seckill-order-create-v1"
FULL = bool(os.environ.get("SECKILL_FULL"))
PROGRAMS = {"api": "seckill-api", "worker": "order-worker", "query": "query-api"}
REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:", "panic")
PARTS = tuple(PROGRAMS)

default_queue = None  # of a System that is not told: a PrivateRocketmq; None: Redis Streams
_names = itertools.count(1)

# Under sanitizers, beside other work, on two cores, the product's budgets are not what is tested.
PATIENT = {"api.submit_timeout": "5s", "api.hold_timeout": "2s", "api.hold_target": "5s", "query.timeout": "5s",
           "query.pg_timeout": "4s", "api.command_timeout": "5s", "redis.reply_timeout": "2s", "redis.slot_timeout": "2s", "redis.stall_timeout": "5s"}
# As far as a broker started with fast=True lets them go.
ROCKETMQ = {"rocketmq.lease": "3s", "rocketmq.poll": "1s"}


class Program(Server):
    """One of ours. Its ports stay its ports over restarts."""

    def __init__(self, system, part, binary, settings, env):
        super().__init__()
        self.system, self.part, self.binary = system, part, binary
        self.settings, self.env = settings, env
        self.ports = {}
        self.status = None  # of the last end: exit status, or 128 + signal
        self.starts = 0

    def command(self):
        listen = {f"{self.part}.admin_listen": f"127.0.0.1:{self.ports.get('admin', 0)}"}
        if self.part != "worker":
            listen[f"{self.part}.listen"] = f"127.0.0.1:{self.ports.get(self.part, 0)}"
        if os.path.exists(f"{self.dir}/ports"):
            os.unlink(f"{self.dir}/ports")
        flags = [f"--{k}={v}" for k, v in {**listen, **self.settings}.items()]
        # The tether's pipe is not for logs.
        return ["env", *(f"{k}={v}" for k, v in self.env.items()), "bash", "-c", 'exec "$0" "$@" >&2', self.binary,
                "--config", self.system.config, "--ports-file", f"{self.dir}/ports", *flags]

    def start(self):
        self.status = None
        self.starts += 1
        self._observe({})  # it may die before it can be asked
        super().start()
        self.observe()
        return self

    def _observe(self, metrics, final=False):
        if self.system.observed:
            self.system.observed.metrics(PROGRAMS[self.part], f"{self.part}-{self.system.programs.index(self)}", self.starts,
                                         metrics, final)

    def observe(self, final=False):
        """Its metrics, for the audit."""
        if not self.system.observed:
            return
        try:
            metrics = self.metrics()
        except (OSError, client.Closed):
            wait_for(f"{self.part} to answer, or to end", lambda: not self.alive(), 30)
            return
        self._observe(metrics, final)

    def kill(self):
        self.system.note_fault(f"kill -9 {self.part}")
        super().kill()

    def ready(self):
        try:
            self.ports = {k: int(v) for k, v in (p.split("=") for p in open(f"{self.dir}/ports").read().split())}
            return client.get(self.ports["admin"], "/startupz").status == 200
        except (OSError, client.Closed):
            return False

    def start_with(self, crashpoint=None):
        """A life that ends at a named place (base/crashpoint.h), or one that does not."""
        self.env.pop("SECKILL_CRASHPOINT", None)
        if crashpoint:
            self.env["SECKILL_CRASHPOINT"] = crashpoint
        return self.start()

    def _ended(self):
        self.tether.stdin.close()
        self.tether.stdout.close()
        self.status = self.tether.wait(90)
        self.tether = None

    def alive(self):
        return self.tether is not None and self.tether.poll() is None

    def signal(self, number):
        if number != signal.SIGTERM:
            self.system.note_fault(f"{signal.Signals(number).name} to {self.part}")
        os.kill(self.pid, number)

    def await_end(self, timeout=60):
        """Waits for an end that comes by itself (a crash point, a signal sent before)."""
        wait_for(f"{self.part} to end", lambda: self.tether.poll() is not None, timeout)
        self._ended()
        return self.status

    def terminate(self, timeout=60):
        """SIGTERM; the exit status."""
        self.signal(signal.SIGTERM)
        return self.await_end(timeout)

    def log(self):
        with open(f"{self.dir}/log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def logged(self, msg):
        """The log's lines with this message."""
        found = []
        for line in self.log().splitlines():
            if line.startswith("{"):
                try:
                    fields = json.loads(line)
                except ValueError:
                    continue
                if fields.get("msg") == msg:
                    found.append(fields)
        return found

    def get(self, target, port="admin", headers=None):
        return client.get(self.ports[port], target, headers)

    def metrics(self):
        """{'name{label="x"}': value}"""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                values[name] = float(value)
        return values

    def metric(self, name):
        """The sum over all its labels; 0 when it is not there."""
        return sum(v for k, v in self.metrics().items() if k == name or k.startswith(name + "{"))

    def proc(self, field):
        """Of /proc/PID/status: VmRSS in kB, Threads, …"""
        for line in open(f"/proc/{self.pid}/status"):
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise KeyError(field)


class Item:
    def __init__(self, system, activity, sku, stock):
        self.system, self.activity, self.sku, self.stock = system, activity, sku, stock
        self.flags = ["--activity", str(activity), "--sku", str(sku)]
        self.body = json.dumps({"activity_id": activity, "sku_id": sku}).encode()
        self.args = (activity, sku)
        self.histories = []  # of storms
        self.unrecorded = False  # something was asked or published that no history has
        self.audited = False

    def key(self, name):
        return f"sec:{{{self.activity}:{self.sku}}}:{name}"

    def scalar(self, sql, *args):
        """One value; two parameters of the statement may be the item: `(activity_id, sku_id) = (%s, %s)` → ITEM."""
        sql = sql.replace("ITEM", f"(activity_id, sku_id) = ({self.activity}, {self.sku})")
        return self.system.sql(sql, *args)[0][0]

    def books(self):
        """What a redelivery may not change, on both sides."""
        row = self.system.sql(
            """SELECT (SELECT count(*) FROM orders WHERE i), (SELECT sum(sold_stock) FROM seckill_inventory WHERE i),
                      (SELECT count(*) FROM stock_ledger WHERE i), (SELECT count(*) FROM outbox WHERE i),
                      (SELECT count(*) FROM consumer_inbox WHERE i),
                      (SELECT count(*) FROM outbox WHERE i AND settled_at IS NULL)
            """.replace("WHERE i", f"WHERE (activity_id, sku_id) = ({self.activity}, {self.sku})"))[0]
        r = self.system.redis_client
        return dict(zip(("orders", "sold", "ledger", "outbox", "inbox", "unsettled"), row), free=int(r.get(self.key("stock"))),
                    pending=r.zcard(self.key("pending")), buyers=r.hlen(self.key("buyers")),
                    seq=int(r.hget(self.key("meta"), "seq")))

    def ordered(self, users):
        """How many of them have an active order."""
        return self.scalar("SELECT count(*) FROM orders WHERE ITEM AND status IN ('CREATED', 'PAYING', 'PAID')"
                           f" AND user_id IN ({', '.join(map(str, users))})")

    def orders(self):
        return self.scalar("SELECT count(*) FROM orders WHERE ITEM AND status IN ('CREATED', 'PAYING', 'PAID')")

    def record(self, user, key):
        raw = self.system.redis_client.hgetall(self.key(f"reservation:{user}:{key}"))
        return {k.decode(): v.decode() for k, v in raw.items()}

    def backlog(self):
        """(not delivered, delivered and not acknowledged). RocketMQ: of all items together; what a dead worker held is in
        neither until it comes back."""
        if self.system.mq:
            return self.system.lag(), self.system.in_hand()
        for group in self.system.redis_client.xinfo_groups(self.key("events")):
            return group["lag"], group["pending"]
        return self.system.redis_client.xlen(self.key("events")), 0

    def settled(self):
        # The queue first: what is acknowledged by then is in the books, if only as unsettled.
        if self.backlog() != (0, 0):
            return False
        b = self.books()
        return b["pending"] == 0 and b["unsettled"] == 0

    def await_settled(self, timeout=60):
        wait_for(f"item {self.activity} to settle", self.settled, timeout)

    def event(self, user, key=None, **fields):
        """An order event that nobody reserved a unit for, as text."""
        self.unrecorded = True
        reservation = str(uuid.uuid4())
        body = {"message_id": str(uuid.uuid4()), "message_key": f"{self.activity}:{self.sku}:{reservation}",
                "request_id": key or str(uuid.uuid4()), "reservation_id": reservation, "activity_id": self.activity,
                "sku_id": self.sku, "user_id": user, "order_id": next(self.system.order_ids), "schema_version": 1,
                "created_at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000000Z", "retry_count": 0,
                "trace": {"traceparent": "", "tracestate": ""}, "epoch": 1, "seq": 0, **fields}
        return json.dumps({k: v for k, v in body.items() if v is not None})

    def publish(self, *bodies):
        """Straight to the queue, past seckill-api."""
        self.unrecorded = True
        if self.system.mq:
            return self.system.produce(bodies)
        return [self.system.redis_client.xadd(self.key("events"), {"b": body}) for body in bodies]

    def published(self, count):
        """The bodies of the first messages in the queue, acknowledged or not."""
        if self.system.mq:
            return [m["body"] for m in self.system.consumed(count)]
        return [fields[b"b"] for _, fields in self.system.redis_client.xrange(self.key("events"), count=count)]

    def _history(self):
        """The words of --history: this item's storms; with System(record=True) all that anybody asked."""
        s = self.system
        parts = list(self.histories)
        if s.history and not self.unrecorded:
            parts = [s.history.path, *(h for item in s.items for h in item.histories)]
        if not parts:
            return []
        path = f"{s.dir}/history-of-{self.activity}.jsonl"
        with open(path, "wb") as whole:
            for part in parts:
                with open(part, "rb") as f:
                    shutil.copyfileobj(f, whole)
        return ["--history", path]

    def audit(self, *flags, wait="30s"):
        """Everything must hold. Returns the audit's JSON."""
        self.audited = True
        s = self.system
        if s.observed:
            self.await_settled()
            s.observe()
            flags = [*flags, "--metrics", s.observed.path]
        done = s.ctl("audit", *self.flags, "--wait", wait, "--json", *self._history(), *flags, check=False, timeout=300)
        assert done.returncode == 0, f"audit of {self.activity}:{self.sku}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


class System:
    """settings: for all programs ("worker.queue": 16); bin_dir: where they are; redis, pg: settings of the servers, redis also
    a server (topologies.py); bouncer: of a
    PgBouncer that the programs find instead of PostgreSQL; queue: a PrivateRocketmq; with make_topics the programs find their
    topic and groups. record: what buyers ask by buy(), crowd() and state() and what the programs' metrics tell is written down,
    so that the audits of its items have all of I1–I11 to look at."""

    def __init__(self, settings=None, bin_dir=BIN, redis=None, pg=None, parts=PARTS, patient=True,
                 env=None, queue=None, make_topics=True, bouncer=None, record=False):
        self.dir = tempfile.mkdtemp(prefix="sk-", dir="/tmp")
        self.bin_dir = bin_dir
        self.mq, self._make_topics = queue or default_queue, make_topics
        self.settings = {"drain.endpoints": "0s", **(PATIENT if patient else {}), **self._rocketmq(), **(settings or {})}
        self.redis = PrivateRedis(**(redis or {})) if redis is None or isinstance(redis, dict) else redis
        # As much is written for commits as in production, but nothing waits for this machine's disk at a checkpoint.
        self.pg = PrivatePostgres(deadlock_timeout="100ms", checkpoint_timeout="1h", **(pg or {}))
        self.bouncer = None if bouncer is None else PrivateBouncer(self.pg, **bouncer)
        self.config = f"{self.dir}/seckill.yaml"
        self.history = History(f"{self.dir}/history.jsonl") if record else None
        self.observed = Observed(f"{self.dir}/observed.jsonl") if record else None
        self.secret = secrets.token_bytes(32)
        self.payment_secret = secrets.token_hex(32)
        self.location_secret = secrets.token_hex(32)
        self.items = []
        self.order_ids = itertools.count(1 << 40)
        self._activities = itertools.count(1001)
        # A program that the test kills cannot report leaks at its end; the one that ends by itself must.
        self.env = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99",
                    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99", **(env or {})}
        self.programs = []
        for part in parts:
            setattr(self, part, self.program(part))
        self._pg = self._redis = self._pg_starts = None

    def program(self, part, **settings):
        """One more of them, not started."""
        made = Program(self, part, f"{self.bin_dir}/{PROGRAMS[part]}", settings, dict(self.env))
        self.programs.append(made)
        return made

    # --- what the audit reads ---

    def note_fault(self, what):
        if self.observed:
            self.observed.fault(what)

    def observe(self):
        """The metrics of all that run, when nothing is under way: their totals."""
        unrecorded = any(item.unrecorded for item in self.items)
        for program in self.programs:
            if program.tether and program.alive():
                program.observe(final=program.part != "api" or not unrecorded)

    # --- life ---

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self._tell()
            self.remove()
            raise

    def __exit__(self, kind, *exc):
        try:
            if kind is None:
                self.finish()
        except BaseException:
            kind = True
            raise
        finally:
            if kind is not None:
                self._tell()
            self.remove()

    def start(self):
        self.pg.make(f"{self.bin_dir}/seckillctl")
        with open(f"{self.dir}/jwt.key", "wb") as f:
            f.write(self.secret)
        with open(f"{self.dir}/payments.secret", "w") as f:
            f.write(self.payment_secret + "\n")
        with open(f"{self.dir}/location.secret", "w") as f:
            f.write(self.location_secret + "\n")
        settings = {"payments.secret_file": f"{self.dir}/payments.secret", "location.secret_file": f"{self.dir}/location.secret",
                    "redis.url": self.redis.url, "pg.conninfo": (self.bouncer or self.pg).conninfo,
                    "auth.keys": f"test=HS256:{self.dir}/jwt.key", "auth.issuer": "seckill-test",
                    "auth.audience": "seckill-test", **self.settings}
        with open(self.config, "w") as f:
            for section in sorted({k.split(".")[0] for k in settings}):
                f.write(f"{section}:\n")
                f.writelines(f"  {k.split('.', 1)[1]}: {json.dumps(str(v))}\n" for k, v in settings.items()
                             if k.startswith(section + "."))
        if self.mq and self._make_topics:
            self.make_topics()
        self.redis.start()
        self.pg.start()
        if self.bouncer:
            self.bouncer.start()
        for program in self.programs:
            program.start()
        return self

    def finish(self):
        """The end of a test that went well so far."""
        for item in self.items:
            if not item.audited:
                item.audit()
        for program in self.programs:
            if program.tether and program.alive():
                assert program.terminate() == 0, f"{program.part} ended with {program.status}"
            else:
                assert program.status == 0, f"{program.part} had ended with {program.status}"
        self.check_logs()

    def check_logs(self):
        for program in self.programs:
            log = program.log()
            for report in REPORTS:
                assert report not in log, f"{program.part}: {log[log.index(report):][:4000]}"

    def remove(self):
        """Everything goes, whatever state the test left it in."""
        for server in (*self.programs, *filter(None, [self.bouncer]), self.pg, self.redis):
            try:
                if server.tether:
                    for pid in server.processes():
                        os.kill(pid, signal.SIGCONT)
                server.stop()
            except Exception as e:  # pylint: disable=broad-except
                print(f"{type(server).__name__} did not stop: {e!r}")
                for pid in server.processes():
                    os.kill(pid, signal.SIGKILL)
                shutil.rmtree(server.dir, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def _tell(self):
        for program in self.programs:
            if os.path.exists(f"{program.dir}/log"):
                print(f"--- the end of {program.part}'s log (status {program.status})")
                print("\n".join(line[:600] for line in program.log().splitlines()[-40:]))

    # --- RocketMQ ---

    def _rocketmq(self):
        if not self.mq:
            return {}
        n = f"{os.getpid()}-{next(_names)}"
        self.topic, self.group, self.dead_group, self.reader = f"orders-{n}", f"create-{n}", f"dead-{n}", f"reader-{n}"
        self.results_topic = f"results-{n}"
        if self.mq.auth:  # ours may use no other
            self.topic, self.group, self.dead_group = self.mq.default_topic, self.mq.default_group, self.mq.dead_group
            self.results_topic = "seckill-order-results"
        return {**ROCKETMQ, **self.mq.settings(), "rocketmq.topic": self.topic, "rocketmq.group": self.group,
                "rocketmq.results_topic": self.results_topic,
                "rocketmq.dead_group": self.dead_group}

    def make_topics(self, retries=16):
        if not self.mq.auth:
            self.mq.topic(self.topic, self.results_topic, f"%DLQ%{self.group}:NORMAL:1")
            self.mq.group(f"{self.group}:{retries}", f"{self.dead_group}:1000", f"{self.reader}:1000")

    def lag(self):
        """Messages that were not handed out yet, those that came back among them."""
        waiting = self.mq.lag(self.group, self.topic)
        try:
            return waiting + self.mq.lag(self.group, f"%RETRY%{self.group}_{self.topic}")
        except Refused:  # nothing ever came back
            return waiting

    def in_hand(self):
        """Of the workers that are alive."""
        return sum(int(p.metric("seckill_mq_inflight_messages")) for p in self.programs
                   if p.part == "worker" and p.tether and p.alive())

    def produce(self, bodies, topic=None):
        """By an official client."""
        return Oracle(self.mq).produce(topic or self.topic, [{"body": b, "tag": "ORDER_CREATE_REQUESTED"} for b in bodies])

    def consumed(self, count):
        """What an official client in a group of its own gets."""
        return Oracle(self.mq).consume(self.topic, self.reader, count)

    # --- stores ---

    def sql(self, statement, *args):
        if self._pg is None or self._pg_starts != self.pg.pid:  # it was killed, maybe
            self._pg, self._pg_starts = self.pg.connect(), self.pg.pid
        cursor = self._pg.execute(statement, args or None)
        return cursor.fetchall() if cursor.description else []

    @property
    def redis_client(self):
        if self._redis is None:
            self._redis = self.redis.connect()
        return self._redis

    # --- the operator ---

    def ctl(self, *args, check=True, timeout=120):
        done = subprocess.run([f"{self.bin_dir}/seckillctl", "--config", self.config, *args], capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL)
        for report in REPORTS:
            assert report not in done.stderr, done.stderr
        assert not check or done.returncode == 0, f"seckillctl {args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def item(self, stock, starts="-1s", ends="+1h", opened=True, activity=None):
        item = Item(self, activity or next(self._activities), 2001, stock)
        self.ctl("activity", "create", *item.flags, "--stock", str(stock), "--starts", starts, "--ends", ends)
        self.ctl("stock", "warm", *item.flags)
        if opened:
            self.ctl("activity", "open", *item.flags)
        self.items.append(item)
        return item

    def storm(self, item, buyers, *flags, background=False, timeout=300):
        """The totals as JSON; with background, a Popen for storm_end."""
        path = f"{self.dir}/history-{item.activity}-{len(item.histories)}.jsonl"
        item.histories.append(path)
        command = [f"{self.bin_dir}/seckillctl", "--config", self.config, "storm", *item.flags, "--buyers", str(buyers), "--api",
                   f"http://127.0.0.1:{self.api.ports['api']}", "--history", path, "--json", *map(str, flags)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        return process if background else self.storm_end(process, timeout)

    @staticmethod
    def storm_end(process, timeout=300):
        out, err = process.communicate(timeout=timeout)
        assert process.returncode == 0, f"storm: {process.returncode}\n{out}\n{err}"
        return json.loads(out)

    # --- buyers ---

    def token(self, user, key=None, algorithm="HS256", headers=None, **claims):
        now = int(time.time())
        payload = {"sub": str(user), "iss": "seckill-test", "aud": "seckill-test", "iat": now - 1, "nbf": now - 1,
                   "exp": now + 3600, **claims}
        payload = {k: v for k, v in payload.items() if v is not None}
        return jwt.encode(payload, self.secret if key is None else key, algorithm=algorithm, headers=headers or {"kid": "test"})

    def order_request(self, item, user, key=None, token=None, **headers):
        """The bytes of POST /v1/orders; what becomes of them is in no history."""
        item.unrecorded = True
        return self._order_request(item, user, key, token, **headers)

    def _order_request(self, item, user, key=None, token=None, **headers):
        return client.request("POST", "/v1/orders", {
            "Authorization": f"Bearer {token or self.token(user)}", "Idempotency-Key": key or str(uuid.uuid4()),
            "Content-Type": "application/json", **headers}, item.body)

    def hinted(self, item, user, api):
        """Whether a hint refused that stranger without Redis. Several questions: one in 50 ms and loop is a probe."""
        before = api.metric("seckill_hint_refused_total")
        for _ in range(5):
            assert self.buy(item, user, api=api).code == "SOLD_OUT"
        return api.metric("seckill_hint_refused_total") > before

    def buy(self, item, user, key=None, connection=None, api=None):
        key = key or str(uuid.uuid4())
        if self.history:
            self.history.invoked(item, user, key)
        answer = None
        try:
            with contextlib.nullcontext(connection) if connection else client.Connection((api or self.api).ports["api"]) as c:
                c.send(self._order_request(item, user, key))
                answer = c.answer()
            return answer
        finally:
            if self.history:
                self.history.answered(item, user, key, answer)

    def crowd(self, item, keys, api=None, limit=1000):
        """All at once: {user: key}, or pairs of them. Their answers (or client.Closed), in the same order."""
        pairs = list(keys.items() if isinstance(keys, dict) else keys)
        tokens = {user: self.token(user) for user, _ in pairs}
        if self.history:
            for user, key in pairs:
                self.history.invoked(item, user, key)
        answers = client.all_at_once((api or self.api).ports["api"],
                                     [self._order_request(item, u, k, tokens[u]) for u, k in pairs], limit)
        if self.history:
            for (user, key), answer in zip(pairs, answers):
                self.history.answered(item, user, key, answer)
        return answers

    def cancel(self, item, user, key, api=None):
        with client.Connection((api or self.api).ports["api"]) as c:
            return c.ask("POST", f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{key}/cancel",
                         {"Authorization": f"Bearer {self.token(user)}"}, b"")

    def signature(self, body, at=None, secret=None):
        """The payment provider's credential (docs/api.md)."""
        at = int(time.time() if at is None else at)
        mac = hmac.new((secret or self.payment_secret).encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
        return f"Seckill-HMAC-SHA256 t={at},v1={mac}"

    def payment(self, item, user, key, order_id, payment_id=None):
        return json.dumps({"payment_id": payment_id or f"pay-{uuid.uuid4()}", "activity_id": item.activity, "sku_id": item.sku,
                           "user_id": user, "request_id": key, "order_id": str(order_id)}).encode()

    def pay(self, item, user, key, order_id, payment_id=None, body=None, **headers):
        body = body or self.payment(item, user, key, order_id, payment_id)
        with client.Connection(self.api.ports["api"]) as c:
            return c.ask("POST", "/v1/payments", {"Authorization": self.signature(body), "Content-Type": "application/json",
                                                  **headers}, body)

    def order(self, user, order_id):
        """The order of query-api."""
        return client.get(self.query.ports["query"], f"/v1/orders/{order_id}", {"Authorization": f"Bearer {self.token(user)}"})

    def state(self, item, user, key):
        """The answer of query-api."""
        return self.follow(f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{key}", user)

    def follow(self, location, user, query=None):
        """The answer of query-api to a Location."""
        since = now_us()
        answer = client.get((query or self.query).ports["query"], location, {"Authorization": f"Bearer {self.token(user)}"})
        asked = re.fullmatch(r"/v1/activities/(\d+)/skus/(\d+)/requests/([0-9a-f-]{36})(\?t=.*)?", location)
        if self.history and asked and (answer.status == 200 or asked[4]):  # without its token 404 says nothing
            self.history.told(Item(self, int(asked[1]), int(asked[2]), 0), user, asked[3], since, answer)
        return answer
