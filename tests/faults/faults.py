"""What the fault tests have in common: how often each fault is made (failures.md's matrix), the seed, links that fail.

Three tiers: "ci" each time, "full" with SECKILL_FULL (scripts/test --full), "record" with SECKILL_FAULTS=record (record.py,
which notes what was run in docs/reliability.md). What is chosen at random follows from SECKILL_SEED."""
import contextlib
import os

from faultproxy import FaultProxy
from system import System

TIERS = ("ci", "full", "record")
TIER = os.environ.get("SECKILL_FAULTS") or ("full" if os.environ.get("SECKILL_FULL") else "ci")
SEED = int(os.environ.get("SECKILL_SEED", "1"))

# fault: (ci, full, record). The last is a part, for one seed (record.py): what the design asks for comes together in 2 to 10 of them.
_TIMES = {
    "crash points": (1, 5, 25),
    "terminated": (1, 5, 50),
    "random kills": (0, 60, 200),  # of each program; 0: e2e makes them each time
    "redis kills": (0, 20, 100),
    "pg stops": (0, 20, 100),
    "flushes": (0, 10, 34),
    "failovers": (0, 5, 20),
    "promotions": (0, 10, 30),
    "lost replies": (500, 10_000, 50_000),  # of each kind
    "deliveries": (10_000, 100_000, 250_000),
    "links": (20, 160, 320),
    "bad dependency": (1, 10, 50),
    "stalls": (3, 30, 250),
    "clock jumps": (10, 60, 300),
    "limits": (1, 5, 25),
    "rolling restarts": (3, 30, 250),
    "slow clients": (500, 5_000, 5_000),
}
TIMES = {fault: counts[TIERS.index(TIER)] for fault, counts in _TIMES.items()}

# What is lost is looked for soon, and what a dead worker held comes back soon.
SHORT = {"queue.lease": "1s", "worker.lease_margin": "300ms", "worker.recover_after": "1s", "worker.recover_interval": "200ms",
         "api.instance_lease": "2s"}


class Linked:
    """A System whose programs reach Redis and PostgreSQL through a fault proxy each: link("worker", "pg")."""

    def __init__(self, settings=None, seed=None, **more):
        self.faults = FaultProxy(SEED if seed is None else seed)
        self.settings, self.more = {**SHORT, **(settings or {})}, {"record": True, **more}
        self.links = {}

    def __enter__(self):
        self.faults.start()
        self.system = System(self.settings, **self.more)
        upstream = {"redis": f"unix:{self.system.redis.socket}", "pg": f"unix:{self.system.pg.dir}/.s.PGSQL.5432"}
        for program in self.system.programs:
            for store in ("redis",) if program.part == "api" else ("redis", "pg"):
                link = self.links[program.part, store] = self.faults.add(f"{program.part}-{store}", upstream[store])
                if store == "redis":
                    program.settings["redis.url"] = f"redis://{link}"
                else:
                    program.settings["pg.conninfo"] = f"host={link.host} port={link.port} user=seckill dbname=postgres"
        try:
            self.system.__enter__()
        except BaseException:
            self.faults.stop()
            raise
        return self

    def __exit__(self, *exc):
        try:
            self.faults.reset()
            return self.system.__exit__(*exc)
        finally:
            self.faults.stop()

    def link(self, part, store):
        return self.links[part, store]


@contextlib.contextmanager
def inventory_held(s):
    """Somebody holds the rows of the inventory: until the end of the block every transaction that sells or gives back waits."""
    with s.pg.connect(options="-c idle_in_transaction_session_timeout=0") as c:
        c.execute("BEGIN")
        c.execute("SELECT FROM seckill_inventory FOR UPDATE")
        yield
        c.execute("COMMIT")


def settle_and_audit(item, orders=None):
    item.await_settled(30)  # I10
    item.audit()
    if orders is not None:
        assert item.orders() == orders


def sell_out_and_audit(item, stock):
    """I10: whoever gave up during the fault is replaced, and then everything is sold."""
    item.await_settled(30)
    for _ in range(3):
        left = stock - item.orders()
        if left:
            item.system.storm(item, left + 10)
            item.await_settled(30)
    settle_and_audit(item, stock)
