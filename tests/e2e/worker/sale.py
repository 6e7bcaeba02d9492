"""One item on private servers, and order-worker as a real process. Reservations are made by lua/reserve.lua directly, so
that neither seckill-api nor its speed is part of these tests."""
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid

SOURCE = os.environ.get("SECKILL_SOURCE_DIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BIN = os.environ["SECKILL_BIN_DIR"]
sys.path.insert(0, f"{SOURCE}/tests/support")
from services import wait_for  # noqa: E402

GROUP = "seckill-order-create-v1"
RESERVE = open(f"{SOURCE}/lua/reserve.lua").read()


class Sale:
    """An item of its own on the shared servers."""

    next_sku = 1

    def __init__(self, postgres, redis_server, stock):
        self.postgres, self.redis_server, self.stock = postgres, redis_server, stock
        self.sku = Sale.next_sku
        Sale.next_sku += 1
        self.activity = 1001
        self.tag = f"sec:{{{self.activity}:{self.sku}}}:"
        self.redis = redis_server.connect(decode_responses=True)
        self.env = dict(os.environ, SECKILL_REDIS_URL=redis_server.url, SECKILL_PG_CONNINFO=postgres.conninfo,
                        ASAN_OPTIONS="abort_on_error=0:disable_coredump=1")
        self.ctl("migrate")
        self.ctl("activity", "create", *self.item, "--stock", str(stock), "--starts", "-1s", "--ends", "+1h")
        self.ctl("stock", "warm", *self.item)
        self.ctl("activity", "open", *self.item)
        self.sql = postgres.connect()
        self.users = {}

    @property
    def item(self):
        return ["--activity", str(self.activity), "--sku", str(self.sku)]

    def ctl(self, *args):
        subprocess.run([f"{BIN}/seckillctl", *args], env=self.env, check=True, stdout=subprocess.DEVNULL)

    def close(self):
        """Takes the item out of the catalogue: the next test's worker does not see it."""
        self.redis.srem("sec:items", f"{self.activity}:{self.sku}")
        self.sql.close()

    def body(self, user, ids, order_id):
        now = time.time()
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%06dZ" % (now % 1 * 1e6)
        text = json.dumps({
            "message_id": ids["message_id"], "message_key": f"{self.activity}:{self.sku}:{ids['reservation_id']}",
            "request_id": ids["request_id"], "reservation_id": ids["reservation_id"], "activity_id": self.activity,
            "sku_id": self.sku, "user_id": user, "order_id": str(order_id), "schema_version": 1, "created_at": created,
            "retry_count": 0, "trace": {"traceparent": "", "tracestate": ""}}, separators=(",", ":"))
        return text[:-1]  # reserve closes it

    def reserve(self, users):
        sha = self.redis.script_load(RESERVE)
        pipe = self.redis.pipeline(transaction=False)
        for user in users:
            ids = {k: str(uuid.uuid4()) for k in ("message_id", "request_id", "reservation_id")}
            order_id = self.sku * 10**9 + user
            self.users[user] = ids
            keys = [self.tag + k for k in ("meta", "stock", "buyers", f"reservation:{user}:{ids['request_id']}", "pending",
                                           "events")]
            pipe.evalsha(sha, 6, *keys, user, ids["request_id"], ids["reservation_id"], order_id, ids["message_id"], 0, 0, 0,
                         self.body(user, ids, order_id))
        for answer in pipe.execute():
            assert answer.startswith("0 "), answer

    def one(self, query, *args):
        return self.sql.execute(query, args).fetchone()[0]

    def orders(self):
        return self.one("SELECT count(*) FROM orders WHERE sku_id = %s AND status = 'CREATED'", self.sku)

    def dead_letters(self):
        return self.one("SELECT count(*) FROM dead_letters WHERE sku_id = %s", self.sku)

    def record(self, user):
        return self.redis.hgetall(f"{self.tag}reservation:{user}:{self.users[user]['request_id']}")

    def pending(self):
        return self.redis.zcard(self.tag + "pending")

    def unacked(self):
        groups = [g for g in self.redis.xinfo_groups(self.tag + "events") if g["name"] == GROUP]
        waiting = self.redis.xrange(self.tag + "events", f"({groups[0]['last-delivered-id']}", count=1)
        return groups[0]["pending"] + len(waiting)

    def unsettled(self):
        return self.one("SELECT count(*) FROM outbox WHERE sku_id = %s AND settled_at IS NULL", self.sku)

    def wait_settled(self, timeout=40):
        wait_for("everything to be settled",
                 lambda: self.pending() == 0 and self.unacked() == 0 and self.unsettled() == 0, timeout)

    def audit(self, orders, dead=0):
        """Exactly these orders, the unit counts of both sides, the ledger, and what each buyer sees."""
        assert self.orders() == orders
        assert self.one("SELECT sold_stock FROM seckill_inventory WHERE sku_id = %s", self.sku) == orders
        assert self.one("SELECT coalesce(max(n), 1) FROM (SELECT count(*) AS n FROM orders WHERE sku_id = %s AND status IN "
                        "('CREATED', 'PAYING', 'PAID') GROUP BY user_id) AS x", self.sku) == 1
        assert self.one("SELECT count(*) FROM stock_ledger WHERE sku_id = %s AND kind = 'ORDER'", self.sku) == orders
        assert self.one("SELECT count(*) FROM outbox WHERE sku_id = %s AND event_type = 'ORDER_CREATED'",
                        self.sku) == orders
        assert int(self.redis.get(self.tag + "stock")) + orders + dead == self.stock
        assert self.dead_letters() == dead
        states = [self.record(user).get("state") for user in self.users]
        assert states.count("SUCCEEDED") == orders, {s: states.count(s) for s in states}


class Worker:
    def __init__(self, sale, crashpoint=None, **settings):
        self.dir = sale.redis_server.dir
        self.log_path = f"{self.dir}/worker.log"
        self.ports = f"{self.dir}/worker.ports"
        if os.path.exists(self.ports):
            os.unlink(self.ports)
        settings = {"worker.admin_listen": "127.0.0.1:0", "drain.endpoints": "0", "queue.lease": "1s",
                    "worker.lease_margin": "250ms", **settings}
        env = dict(sale.env)
        if crashpoint:
            env["SECKILL_CRASHPOINT"] = crashpoint
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [f"{BIN}/order-worker", "--ports-file", self.ports, *(f"--{k}={v}" for k, v in settings.items())],
            env=env, stderr=self.log)

    def admin(self, path):
        wait_for("the admin port", lambda: os.path.exists(self.ports))
        port = int(open(self.ports).read().split("admin=")[1])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def metric(self, name):
        for line in self.admin("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None

    def wait_dead(self, timeout=30):
        return self.process.wait(timeout)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self, timeout=40):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.kill()
        self.log.close()
        if exc[0]:
            print(open(self.log_path).read()[-4000:])
