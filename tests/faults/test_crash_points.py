"""failures.md, the first row of the matrix: kill -9 at every named place (base/crashpoint.h), each in a sale of its own that
is brought there, then the program's restart, then the audit. Rules 1, 6, 9, 16, 23–25, 27, 28, 30: what is done around each of
these places may be done again, and nothing that was promised is lost.

Each way below leads a sale to some places. dies() arms the place, and at its end the program has died there and is up again."""
import concurrent.futures
import contextlib
import time
import uuid

import client
import pytest
from crashpoints import points
from faults import TIER, TIMES, inventory_held
from services import wait_for
from system import GROUP, System

KILLED, ABORTED = 128 + 9, 128 + 6
STOCK, BUYERS = 20, 24
SHORT = {"queue.lease": "1s", "worker.lease_margin": "300ms", "worker.recover_after": "500ms", "worker.recover_interval": "200ms",
         "api.instance_lease": "2s", "worker.tx_budget": "300ms", "worker.batch_max": "4"}


class Sale:
    """One item, and a program that is to die at a place."""

    def __init__(self, system, part, point):
        self.s, self.program, self.point = system, getattr(system, part), point
        self.item = system.item(stock=STOCK)

    @contextlib.contextmanager
    def dies(self, **settings):
        """settings: of this life only."""
        usual = self.program.settings
        self.program.settings = {**usual, **settings}
        if self.program.tether:
            assert self.program.terminate() == 0
        self._begin(self.point)
        yield
        assert self.program.await_end() == (ABORTED if "_message" in self.point else KILLED), self.point
        self.program.settings = usual
        self._begin(None)

    def _begin(self, point):
        try:
            self.program.start_with(point)
        except RuntimeError:  # it is there before it is ready
            assert point

    def down(self):
        assert self.program.terminate() == 0

    def storm(self):
        return self.s.storm(self.item, BUYERS, background=True)

    def sold(self):
        """A whole sale that nothing happens to."""
        self.s.storm_end(self.storm())
        self.item.await_settled()

    def bought(self, users):
        """{user: key}, held but not ordered yet."""
        keys = {user: str(uuid.uuid4()) for user in users}
        for user, key in keys.items():
            assert self.s.buy(self.item, user, key).status == 202
        return keys

    def asked(self, ask):
        """A command (a cancel, a payment), asked for until it is taken, or over: as by a client whose connection is cut."""
        def taken():
            try:
                answer = ask()
                return answer.status == 202 or answer.code == "REQUEST_CLOSED"
            except (OSError, client.Closed):
                return False
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with self.dies():
                asking = pool.submit(wait_for, "the command to be taken", taken, 60)
            asking.result()


# --- the ways ---

def selling(sale):
    with sale.dies():
        storm = sale.storm()
    sale.s.storm_end(storm)


def selling_to_few(sale):
    """Rule 23: a message that aborts the process, here for once."""
    with sale.dies():
        sale.bought(range(1, 8))


def slowly(sale):
    """Messages wait, are prolonged, are given back."""
    with inventory_held(sale.s):
        with sale.dies():
            storm = sale.storm()
    sale.s.storm_end(storm)


def renewing(sale):
    """The instance number's lease: at a start, or when it is renewed."""
    with sale.dies():
        pass
    sale.sold()


def swept(sale):
    """Rule 9: what is not marked is settled again by the relay."""
    sale.sold()
    sale.down()
    sale.s.sql(f"UPDATE outbox SET settled_at = NULL WHERE activity_id = {sale.item.activity}")
    with sale.dies():
        pass


def told_late(sale):
    """Rule 9: what the result topic is not known to have is looked for in the outbox."""
    sale.sold()
    sale.down()
    sale.s.sql(f"UPDATE outbox SET published_at = NULL WHERE activity_id = {sale.item.activity}")
    with sale.dies():
        pass
    wait_for("the results to be told", lambda: sale.item.scalar("SELECT count(*) FROM outbox WHERE ITEM AND published_at IS NULL") == 0)


def lost(sale):
    """Rule 28: the queue loses what it had, and has passed it."""
    sale.down()
    sale.bought(range(1, 6))
    sale.s.redis_client.xtrim(sale.item.key("events"), maxlen=0, approximate=False)
    sale.bought(range(6, 9))
    with sale.dies():
        pass


def given_up(sale):
    """Rule 30: lost, and older than max_hold when it is looked for."""
    with sale.dies(**{"worker.recover_after": "2s", "worker.max_hold": "1s"}):
        sale.s.worker.signal(19)
        sale.bought(range(1, 4))
        sale.s.redis_client.xtrim(sale.item.key("events"), maxlen=0, approximate=False)
        sale.bought(range(4, 6))
        sale.s.worker.signal(18)


def undecodable(sale):
    with sale.dies():
        sale.item.publish("{no JSON")
    sale.sold()


def at_fault(sale):
    """Rule 20: a message's own failure is counted."""
    sale.s.sql("""CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '22023'; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.user_id = 5) EXECUTE FUNCTION refuse()""")
    with sale.dies():
        sale.bought(range(1, 10))
    sale.s.sql("DROP TRIGGER refuse ON orders; DROP FUNCTION refuse")


def suspected(sale):
    """Rule 23: delivered six times without an outcome: alone, and marked first."""
    sale.down()
    sale.bought(range(1, 4))
    r, stream = sale.s.redis_client, sale.item.key("events")
    ids = [i for _, messages in r.xreadgroup(GROUP, "ghost", {stream: ">"}, count=10) for i, _ in messages]
    r.xclaim(stream, GROUP, "ghost", 0, ids, idle=60_000, retrycount=6)
    with sale.dies():
        pass


def cancelled(sale):
    keys = sale.bought(range(1, 6))
    sale.item.await_settled()
    sale.asked(lambda: sale.s.cancel(sale.item, 3, keys[3]))
    wait_for("the cancel", lambda: sale.item.orders() == 4)


def paid(sale):
    key = str(uuid.uuid4())
    order = sale.s.buy(sale.item, 7, key).json["order_id"]
    sale.item.await_settled()
    sale.asked(lambda: sale.s.pay(sale.item, 7, key, order, f"pay-{sale.item.activity}"))
    wait_for("the payment", lambda: sale.s.sql("SELECT status FROM orders WHERE order_id = %s", int(order)) == [("PAID",)])


def forgotten(sale):
    """Rule 27: the queue loses a command that it had accepted."""
    keys = sale.bought(range(1, 6))
    sale.item.await_settled()
    sale.down()
    assert sale.s.cancel(sale.item, 3, keys[3]).status == 202
    sale.s.redis_client.xgroup_setid(sale.item.key("events"), GROUP, "$")
    with sale.dies():
        pass
    wait_for("the cancel", lambda: sale.item.orders() == 4)


def expired(sale):
    sale.bought(range(1, 6))
    sale.item.await_settled()
    sale.down()
    wait_for("them to be due", lambda: sale.item.scalar("SELECT now() - max(created_at) > '3500 ms' FROM orders WHERE ITEM"))
    usual = sale.program.settings
    sale.program.settings = {**usual, "order.unpaid": "1s"}
    with sale.dies():
        pass
    wait_for("their end", lambda: sale.item.orders() == 0)
    sale.program.settings = usual


def draining(sale):
    with sale.dies():
        storm = sale.storm()
        wait_for("a sale", lambda: sale.item.books()["seq"] > 1)
        sale.program.signal(15)
    sale.s.storm_end(storm)


# Place → the program, and the ways that lead there; ":2" is for the second time, of a message: for that user's. On the way to a broker: test_10_refused.py,
# e2e/rocketmq/test_sale.py; of a rebuild: where it is tested.
PLACES = [
    ("api", "before_hold:7", [selling]), ("api", "after_hold:7", [selling]),
    ("api", "before_instance_lease", [renewing]), ("api", "after_instance_lease:2", [renewing]),
    ("api", "before_command_publish", [cancelled, paid]), ("api", "after_command_publish", [cancelled, paid]),
    ("api", "drain_asked", [draining]), ("api", "drain_begun", [draining]), ("api", "drained", [draining]),
    ("worker", "after_receive", [selling]), ("worker", "before_place", [selling]), ("worker", "after_place", [selling]),
    ("worker", "after_commit", [selling]), ("worker", "before_settle", [selling, swept]), ("worker", "after_settle", [selling]),
    ("worker", "before_ack", [selling]), ("worker", "after_ack", [selling]),
    ("worker", "before_mark_settled", [selling, swept]), ("worker", "after_mark_settled", [selling, swept]),
    ("worker", "before_tell", [selling]), ("worker", "after_tell", [selling]),
    ("worker", "after_publish_results", [told_late]), ("worker", "before_mark_published", [told_late]),
    ("worker", "before_progress", [slowly]), ("worker", "after_progress", [slowly]),
    ("worker", "before_extend", [slowly]), ("worker", "after_extend", [slowly]),
    ("worker", "before_retry_later", [slowly]), ("worker", "after_retry_later", [slowly]),
    ("worker", "relay_after_read", [swept]), ("worker", "relay_after_settle", [swept]),
    ("worker", "recover_before_claim", [lost]), ("worker", "recover_after_claim", [lost]),
    ("worker", "recover_after_publish:2", [lost]), ("worker", "recover_after_note", [lost]),
    ("worker", "recover_before_void", [given_up]), ("worker", "recover_after_void", [given_up]),
    ("worker", "before_quarantine", [undecodable]), ("worker", "quarantine_stored", [undecodable]),
    ("worker", "before_count_attempts", [at_fault]), ("worker", "suspect_marked", [suspected]),
    ("worker", "before_command", [cancelled, paid]), ("worker", "after_command", [cancelled, paid]),
    ("worker", "place_message:5", [selling_to_few]), ("worker", "command_message:3", [cancelled]),
    ("worker", "remembered_before_park", [forgotten]), ("worker", "remembered_after_park", [forgotten]),
    ("worker", "before_expire", [expired]), ("worker", "after_expire", [expired]), ("worker", "expire_after_settle", [expired]),
    ("worker", "worker_drain_asked", [draining]), ("worker", "worker_drain_begun", [draining]),
    ("worker", "worker_drain_idle", [draining]), ("worker", "worker_drained", [draining]),
]


def test_each_place_exists():
    known = points()
    assert [p for _, p, _ in PLACES if p.split(":")[0] not in known] == []


def settle_and_audit_all(items):
    while items:
        item = items.pop()
        item.await_settled(30)  # I10
        item.audit()


@pytest.mark.parametrize("part", ["api", "worker"])
def test_killed_at_each_place(part):
    rows = [(point, way) for p, point, ways in PLACES if p == part for way in (ways[:1] if TIER == "ci" else ways)]
    with System(SHORT) as s:
        for _ in range(TIMES["crash points"]):
            unsettled = []
            for point, way in rows:
                began = time.monotonic()
                # What a death during a sale left goes on while others sell; the other ways make a state of their own.
                if way is not selling:
                    settle_and_audit_all(unsettled)
                sale = Sale(s, part, point)
                way(sale)
                unsettled.append(sale.item)
                print(f"{point} {way.__name__}: {time.monotonic() - began:.1f} s")
            settle_and_audit_all(unsettled)
        print(f"made {len(rows) * TIMES['crash points']} deaths at named places")
