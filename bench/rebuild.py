#!/usr/bin/python3
"""How long an item with many orders takes to come back (docs/performance.md).

    bench/rebuild.py [ORDERS] [--bin DIR]      default 100,000; programs from build/release/bin

The orders are made by the order function, in batches, without a queue. Then Redis is flushed, and again while everything of the
item is there (rebuild run), which also settles all outbox rows again. A line each, in seconds, from the log of the worker."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
bin_dir = sys.argv[sys.argv.index("--bin") + 1] if "--bin" in sys.argv else f"{HERE}/../build/release/bin"
os.environ.setdefault("SECKILL_BIN_DIR", bin_dir)
sys.path.insert(0, f"{HERE}/../tests/support")
from services import wait_for  # noqa: E402
from system import System  # noqa: E402

ORDERS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100000
PLACE = """SELECT count(*) FROM seckill_place(%(a)s, %(s)s,
    (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, %(n)s::integer)), (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, %(n)s::integer)),
    (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, %(n)s::integer)), (SELECT array_agg(i) FROM generate_series(%(f)s::bigint, %(f)s::bigint + %(n)s::bigint - 1) i),
    (SELECT array_agg(i + 1000000000) FROM generate_series(%(f)s::bigint, %(f)s::bigint + %(n)s::bigint - 1) i),
    (SELECT array_agg(1700000000000::bigint) FROM generate_series(1, %(n)s::integer)), (SELECT array_agg(1::bigint) FROM generate_series(1, %(n)s::integer)),
    (SELECT array_agg(0::bigint) FROM generate_series(1, %(n)s::integer)))"""


def cpu(server):
    """Seconds of it and its children."""
    ticks = 0
    for pid in server.processes():
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            fields = f.read().rsplit(") ", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def over(s, n):
    return wait_for("the rebuild", lambda: (d := s.worker.logged("rebuild over")) and len(d) >= n and d[-1], 300)


with System(parts=("worker",), bin_dir=bin_dir) as s:
    item = s.item(stock=ORDERS + 1000)
    item.audited = True  # its keys were never there
    s.worker.terminate()
    for first in range(1, ORDERS + 1, 500):
        s._pg or s.sql("SELECT 1")
        s._pg.execute(PLACE, {"a": item.activity, "s": item.sku, "n": min(500, ORDERS + 1 - first), "f": first})
    s.sql("UPDATE outbox SET settled_at = clock_timestamp(), published_at = clock_timestamp()")
    s.sql("ANALYZE")
    before = {"Redis": cpu(s.redis), "PostgreSQL": cpu(s.pg), "order-worker": 0}
    s.redis_client.flushall()
    s.worker.start()
    for n, what in ((1, "Redis flushed"), (2, "nothing lost")):
        if n == 2:
            s.ctl("rebuild", "run", *item.flags, "--yes", "--wait", "5m", timeout=400)
        done = over(s, n)
        assert done["outcome"] == "done" and done["orders"] == ORDERS, done
        print(f"{ORDERS} orders, {what}: {done['took_ms'] / 1000:.2f} s, counted after {done['counted_ms'] / 1000:.2f} s")
        now = {"Redis": cpu(s.redis), "PostgreSQL": cpu(s.pg), "order-worker": cpu(s.worker)}
        print("    CPU: " + ", ".join(f"{k} {now[k] - before[k]:.2f} s" for k in now))
        before = now
        assert item.books()["buyers"] == ORDERS and item.books()["free"] == 1000
