#!/usr/bin/python3
"""Figures, not a test: what results cost an order, how soon a buyer reads what was decided, how soon a unit that came back is sold.

    bench/projection.py [results|read|again]… [--rounds N] [--orders N] [--bin DIR] [--queue KIND]

results  a backlog of so many accepted requests, then one order-worker: CPU µs per order of worker, Redis and PostgreSQL, with
         results.enabled and without, by turns, until everything is settled (and published). On RocketMQ the broker's CPU too, and
         first a round that is not counted: a JVM's first messages cost five times as much
read     orders at 50 a second; from the commit (at the latest: orders.created_at, when the transaction began) to the first GET that
         says SUCCEEDED, asked every 2 ms
again    stock 1, two seckill-apis whose hints refuse everybody; from the cancel's commit (as above) to the 202 of a stranger on
         either instance, asked every millisecond

A private Redis (AOF always) and PostgreSQL (fsync), release programs. One line of JSON a figure. Other programs' CPU is told with it.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import threading
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, f"{ROOT}/tests/support")
import client  # noqa: E402
from private_rocketmq import PrivateRocketmq  # noqa: E402
from services import wait_for  # noqa: E402
from system import System  # noqa: E402

# Asked all the time and charged to PostgreSQL: by short indexes.
SOLD = "SELECT sold_stock FROM seckill_inventory WHERE ITEM"
LEFT = ("SELECT (SELECT count(*) FROM outbox WHERE settled_at IS NULL) + "
        "(SELECT count(*) FROM outbox WHERE settled_at IS NOT NULL AND published_at IS NULL)")

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pids):
    """User and system time of these processes and of their children that ended."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                fields = f.read().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
        except OSError:
            pass
    return total / TICKS


def busy_s():
    with open("/proc/stat", encoding="ascii") as f:
        fields = list(map(int, f.readline().split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def say(what, **figures):
    print(json.dumps({"what": what, **figures}), flush=True)


def spread(values):
    return [round(f(values), 1) for f in (statistics.median, min, max)]


def percentiles(ms):
    ms = sorted(ms)
    return {"n": len(ms), **{f"p{p}_ms": round(ms[min(len(ms) - 1, len(ms) * p // 100)], 1) for p in (50, 90, 99)}, "max_ms": round(ms[-1], 1)}


def drain(a, enabled, mq):
    """CPU µs per order."""
    with System({"results.enabled": enabled, "worker.recover_after": "60s"}, bin_dir=a.bin, queue=mq) as s:
        item = s.item(stock=a.orders)
        s.worker.terminate()
        s.storm(item, a.orders, "--rate", 3000, "--connections", 64)
        n = int(s.redis_client.hlen(item.key("buyers")))
        servers = {"redis": lambda: [s.redis.pid], "postgresql": s.pg.processes}
        if mq:
            servers["broker"] = lambda: [part.pid for part in mq.parts]
        before = {k: cpu_s(v()) for k, v in servers.items()}
        began, others = time.monotonic(), busy_s()
        s.worker.start()
        committed = None
        while committed is None or item.scalar(LEFT) > 0:
            if committed is None and item.scalar(SOLD) == n:
                committed = time.monotonic() - began
            time.sleep(0.25)
        took = time.monotonic() - began
        used = {k: cpu_s(v()) - before[k] for k, v in servers.items()}
        used["worker"] = cpu_s([s.worker.pid])
        others = busy_s() - others - sum(used.values())
        item.await_settled()
        each = {k: v * 1e6 / n for k, v in used.items()}
        return {**each, "all": sum(each.values()), "all_but_broker": sum(v for k, v in each.items() if k != "broker"), "orders": n,
                "orders_per_s": n / (committed or took), "others_cores": others / took}


def results(a):
    found = {"true": [], "false": []}
    with PrivateRocketmq(fast=True) if a.queue == "rocketmq" else contextlib.nullcontext() as mq:
        if mq:
            drain(a, "true", mq)
        for n in range(2 * a.rounds):
            enabled = ("false", "true", "true", "false")[n % 4]
            found[enabled].append(drain(a, enabled, mq))
    for enabled, rounds in found.items():
        say("results", queue=a.queue, enabled=enabled, rounds=len(rounds), **{k: spread([r[k] for r in rounds]) for k in rounds[0]})
    for what in ("all", "all_but_broker") if a.queue == "rocketmq" else ("all",):
        on, off = (statistics.median(r[what] for r in found[k]) for k in ("true", "false"))
        say("results", queue=a.queue, of=what, ratio_cpu=round(on / off, 3))


def state_request(s, item, user, key):
    return client.request("GET", f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{key}",
                          {"Authorization": f"Bearer {s.token(user)}"})


def read(a):
    with System(bin_dir=a.bin, patient=False) as s:
        item = s.item(stock=100_000)
        answered, lock = {}, threading.Lock()

        def buyer(users):
            with client.Connection(s.api.ports["api"]) as api, client.Connection(s.query.ports["query"]) as query:
                for user, at in users:
                    time.sleep(max(0.0, at - time.monotonic()))
                    key = str(uuid.uuid4())
                    ask = state_request(s, item, user, key)
                    api.send(s.order_request(item, user, key))
                    if api.answer().status != 202:
                        continue
                    while True:
                        query.send(ask)
                        if query.answer().code == "SUCCEEDED":
                            break
                        time.sleep(0.002)
                    with lock:
                        answered[user] = time.time()

        n, threads = min(a.orders, 1500), 10
        begin = time.monotonic() + 0.5
        plan = [(u, begin + u / 50) for u in range(1, n + 1)]
        work = [threading.Thread(target=buyer, args=(plan[i::threads],)) for i in range(threads)]
        others, began = busy_s(), time.monotonic()
        for t in work:
            t.start()
        for t in work:
            t.join()
        others = (busy_s() - others) / (time.monotonic() - began)
        item.await_settled()
        created = dict(s.sql("SELECT user_id, extract(epoch FROM created_at)::float8 FROM orders"))
        say("read", **percentiles([(t - created[u]) * 1000 for u, t in answered.items()]), busy_cores=round(others, 2))


def again(a):
    with System({"api.loops": "1"}, bin_dir=a.bin, patient=False) as s:
        both = [s.api, s.program("api").start()]
        item = s.item(stock=1)
        user, took = 1, {0: [], 1: []}
        connections = [client.Connection(p.ports["api"]).__enter__() for p in both]

        def ask(i, buyer, key):
            connections[i].send(s.order_request(item, buyer, key))
            return connections[i].answer()

        key = str(uuid.uuid4())
        assert ask(0, user, key).status == 202
        for n in range(a.rounds * 20):
            wait_for("the order", lambda: s.state(item, user, key).code == "SUCCEEDED")
            for i in (0, 1):
                refused = both[i].metric("seckill_hint_refused_total")
                while both[i].metric("seckill_hint_refused_total") == refused:
                    ask(i, 10_000_000, str(uuid.uuid4()))
            assert s.cancel(item, user, key, both[0]).status == 202
            old, user, key = (user, key), user + 1, str(uuid.uuid4())
            while ask(n % 2, user, key).status != 202:
                time.sleep(0.001)
            bought = time.time()
            at = wait_for("the row", lambda: s.sql("SELECT extract(epoch FROM created_at)::float8 FROM outbox WHERE event_type = 'ORDER_CANCELLED' "
                                                   "AND user_id = %s", old[0]))[0][0]
            took[n % 2].append((bought - at) * 1000)
        for c in connections:
            c.__exit__(None, None, None)
        for i, name in ((0, "the canceller's instance"), (1, "the other instance")):
            say("again", on=name, **percentiles(took[i]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", nargs="*", choices=["results", "read", "again", []], default=[])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--orders", type=int, default=20_000)
    p.add_argument("--queue", choices=["redis_stream", "rocketmq"], default="redis_stream", help="of results (default: redis_stream)")
    p.add_argument("--bin", default=f"{ROOT}/build/release/bin")
    a = p.parse_args()
    for what in a.what or ["results", "read", "again"]:
        {"results": results, "read": read, "again": again}[what](a)


if __name__ == "__main__":
    main()
