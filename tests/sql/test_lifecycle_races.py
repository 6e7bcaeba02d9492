"""The lifecycle's functions against one another, on real connections (rules 3, 17, 27, 31; failures 9, 17)."""
import itertools
import random
import threading

import psycopg
import pytest

from sale import CREATED, KNOWN, ident
from services import wait_for
from test_races import run


@pytest.fixture
def two(database):
    with database.connect() as a, database.connect() as b:
        yield a, b


def waits(life, connection):
    return life.scalar("SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
                       connection.info.backend_pid)


class Beside:
    """A call on b beside the open transaction of a: inside of the with block it waits, or is through; a ends with the block,
    and then the call has its result."""

    def __init__(self, life, a, b, call, end="COMMIT"):
        self.life, self.a, self.b, self.end = life, a, b, end
        self.got, self.errors = [], []
        self.thread = threading.Thread(target=self._body, args=(call,))

    def _body(self, call):
        try:
            self.got.append(call(self.b))
        except BaseException as e:  # noqa: BLE001
            self.errors.append(e)

    def __enter__(self):
        self.thread.start()
        wait_for("the call to wait or to end", lambda: self.got or self.errors or waits(self.life, self.b))
        self.waited = not self.got and not self.errors
        return self

    def __exit__(self, *failed):
        self.a.execute(self.end)
        self.thread.join()
        if self.errors and not any(failed):
            raise self.errors[0]

    @property
    def result(self):
        return self.got[0]


def overlap(life, two, first, second, end="COMMIT"):
    """first in an open transaction; second until it waits or is through; then the end. Both results, and whether it waited."""
    a, b = two
    a.execute("BEGIN")
    one = first(a)
    with Beside(life, a, b, second, end) as other:
        pass
    return one, other.result, other.waited


class Ends:
    """The ways an order can go, on a connection, each with what it says when it did it."""

    def __init__(self, life, m):
        self.life, self.m = life, m
        self.p = life.payment(m)
        self.again = life.message(user=m.user)

    def cancel(self, c):
        return self.life.cancel(self.m, c).result == "CANCELLED"

    def pay(self, c):
        return self.life.pay(self.p, c).result == "PAID"

    def expire(self, c):
        return self.life.expire(c) == [self.m.order]

    def void(self, c):
        return self.life.void(self.m, connection=c)[0]

    def place(self, c):
        return self.life.until_placed([self.again], c)[self.again.message].outcome == CREATED

    def same(self, c):
        return self.life.place([self.m], c)[0].outcome == CREATED


ENDS = ["cancel", "pay", "expire"]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("first,second", itertools.product(ENDS, ENDS))
def test_an_order_ends_once_whoever_comes_second(life, two, first, second, end):
    """At the forced point: the first has done everything but commit."""
    life.item(2)
    m = life.message()
    life.place([m])
    e = Ends(life, m)
    one, other, waited = overlap(life, two, getattr(e, first), getattr(e, second), end)
    assert one
    # an order in hand is skipped by expire; a command waits for it
    assert waited == (second != "expire")
    if second == "expire":
        assert not other
    elif first == second == "pay" and end == "COMMIT" or first == second == "cancel" and end == "COMMIT":
        assert other, "the same message: the same result"
    else:
        assert other == (end == "ROLLBACK")
    if end == "ROLLBACK" and second == "expire":
        assert life.expire() == [m.order]
    back = [k for k, d in life.ledger(m) if d > 0]
    paid = life.status(m)[0] == "PAID"
    assert len(back) == (0 if paid else 1)
    refund = life.refund(e.p)
    assert refund is None or (refund[0] == "APPLIED") == paid
    assert life.audit() == paid


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("kind", ["cancel", "pay"])
def test_rule27_parked_while_it_is_run(life, two, kind, end):
    """The queue had not lost it: parking waits for its end, and leaves nothing that the sweep would find again and again."""
    life.item(2)
    m = life.message()
    life.place([m])
    e = Ends(life, m)
    lost = ([m], []) if kind == "cancel" else ([], [e.p])
    one, parked, waited = overlap(life, two, getattr(e, kind), lambda c: life.park(*lost, connection=c), end)
    assert one and waited and parked == (end == "ROLLBACK")
    assert life.parked() == ((0, 0) if end == "COMMIT" else (1, 0))
    assert getattr(e, kind)(life.c)
    assert life.parked() == ((0, 0) if end == "COMMIT" else (0, 1)) and life.audit() == (kind == "pay")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("first", ENDS)
def test_the_buyer_again_waits_for_the_end_of_the_old_order(life, two, first, end):
    life.item(2)
    m = life.message()
    life.place([m])
    e = Ends(life, m)
    _, bought, waited = overlap(life, two, getattr(e, first), e.place, end)
    assert waited
    assert bought == (first != "pay" and end == "COMMIT")
    assert life.audit() == 1


@pytest.mark.parametrize("second", ENDS)
def test_an_end_beside_the_buyers_next_order(life, two, second):
    """The next order is refused, or waits; it never ends instead of the first one."""
    life.item(2)
    m = life.message()
    life.place([m])
    e = Ends(life, m)
    bought, ended, _ = overlap(life, two, e.place, getattr(e, second))
    assert not bought and ended
    life.audit()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("command", ["cancel", "pay"])
@pytest.mark.parametrize("outcome", ["same", "void"])
def test_rule27_an_outcome_in_flight_is_none_yet(life, two, command, outcome, end):
    """The command does not wait for it: parked, and run when it is there."""
    life.item(2)
    m = life.message()
    e = Ends(life, m)
    _, done, waited = overlap(life, two, getattr(e, outcome), getattr(e, command), end)
    assert not done and not waited and life.parked() == (1, 0)
    if end == "ROLLBACK":
        assert life.sweep() == []
        getattr(e, outcome)(life.c)
    assert len(life.sweep()) == 1
    assert getattr(e, command)(life.c) == (outcome == "same")
    assert life.parked() == (0, 1)
    if command == "pay" and outcome == "void":
        assert life.refund(e.p) == ("REFUNDED", "VOID")


@pytest.mark.parametrize("second", ["same", "void"])
@pytest.mark.parametrize("command", ["cancel", "pay"])
def test_rule27_an_outcome_beside_a_command_that_is_being_parked(life, two, command, second):
    life.item(2)
    m = life.message()
    e = Ends(life, m)
    done, other, waited = overlap(life, two, getattr(e, command), getattr(e, second))
    assert not done and other and not waited
    assert len(life.sweep()) == 1
    assert getattr(e, command)(life.c) == (second == "same")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("command", ["cancel", "pay"])
def test_the_same_command_twice_at_once(life, two, command, end):
    """Delivered and swept at once: one of them, and both say the same."""
    for parked in (False, True):
        life.item(2)
        m = life.message()
        e = Ends(life, m)
        if parked:
            getattr(e, command)(life.c)
        life.place([m])
        if parked:
            assert len(life.sweep()) == 1
        one, other, waited = overlap(life, two, getattr(e, command), getattr(e, command), end)
        assert one and other and waited
        assert life.parked() == (0, int(parked))
        life.audit()


def test_two_sweeps_share_the_parked(life, two):
    life.item(20)
    ms = life.messages(8)
    life.cancels(ms)
    life.place(ms)
    a, b = two
    b.execute("SET lock_timeout = '5s'")
    a.execute("BEGIN")
    one = life.sweep(a, most=3)
    other = life.sweep(b)
    a.execute("COMMIT")
    assert len(one) == 3 and len(other) == 5 and not {s[1] for s in one} & {s[1] for s in other}
    assert {c.result for c in life.cancels(ms)} == {"CANCELLED"}


def test_a_cancel_run_while_the_sweep_claims_it(life, two):
    life.item(2)
    m = life.message()
    life.cancel(m)
    life.place([m])
    claimed, done, waited = overlap(life, two, life.sweep, lambda c: life.cancel(m, c).result)
    assert len(claimed) == 1 and done == "CANCELLED" and waited
    assert life.sweep() == [] and life.parked() == (0, 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_scenario_17_cancel_expire_pay_void_and_the_next_order_race_100_times(life, database, seed):
    """Exactly one unit comes back, or none and the order is paid."""
    life.item(1000)
    rng = random.Random(seed)
    names = ["cancel", "pay", "expire", "void", "place", "same", "cancel", "expire"]
    connections = [database.connect() for _ in names]
    seen = {"PAID": 0, "CANCELLED": 0, "CLOSED": 0}
    for _ in range(100):
        m = life.message()
        life.place([m])
        e = Ends(life, m)
        did = {}
        rng.shuffle(names)

        def act(i, name, c, e=e, did=did):
            did[i, name] = getattr(e, name)(c)

        run([lambda i=i, n=n, c=c: act(i, n, c) for i, (n, c) in enumerate(zip(names, connections))])
        status, reason = life.status(m)
        # expire may have closed the buyer's next order, too
        back = [k for k, d in life.ledger(m) if d > 0]
        assert len(back) == (status != "PAID")
        assert sum(v for (_, n), v in did.items() if n == "void") == 0, "an order is never voided"
        seen[status] += 1
        refund = life.refund(e.p)
        assert (refund[0] == "APPLIED") == (status == "PAID")
        assert refund[1] == (None if status == "PAID" else reason)
        assert sum(v for (_, n), v in did.items() if n == "pay") == (status == "PAID")
    for c in connections:
        c.close()
    assert all(seen.values()), seen


def test_place_void_cancel_and_payment_of_a_message_race_100_times(life, database):
    """From before the order on: whatever comes first, each has an answer in the end and the unit is counted once."""
    life.item(1000)
    connections = [database.connect() for _ in range(5)]
    rng = random.Random(3)
    seen = set()
    for _ in range(100):
        m = life.message()
        e = Ends(life, m)
        names = ["same", "void", "cancel", "pay", "same"]
        rng.shuffle(names)
        run([lambda n=n, c=c: getattr(e, n)(c) for n, c in zip(names, connections)])
        life.unclaim()
        for command, message, given_up in life.sweep():
            assert not given_up
            if message == e.p.message:
                life.pay(e.p)
            else:
                life.cancel(m)
        state, reason, status, cancel = life.find(m)
        refund = life.refund(e.p)
        assert (status, cancel, refund) in {
            (None, "NOTHING", ("REFUNDED", "VOID")), ("CANCELLED", "CANCELLED", ("REFUNDED", "CANCELLED")),
            ("PAID", "REFUSED", ("APPLIED", None))}
        assert state == {None: "FAILED", "CANCELLED": "CANCELLED", "PAID": "SUCCEEDED"}[status]
        seen.add(status)
    for c in connections:
        c.close()
    life.unclaim()
    assert life.sweep() == [] and life.parked()[0] == 0
    life.audit()
    assert None in seen and len(seen) > 1


def test_scenario_9_pay_and_expire_in_the_same_instant(life, database):
    life.item(1)
    with database.connect() as a, database.connect() as b:
        for _ in range(100):
            m = life.message()
            assert life.place([m])[0].outcome == CREATED
            e = Ends(life, m)
            got = {}
            run([lambda: got.update(pay=e.pay(a)), lambda: got.update(expire=e.expire(b))])
            if not got["pay"]:
                assert got["expire"] and life.refund(e.p) == ("REFUNDED", "EXPIRED")
            else:
                assert not got["expire"] and life.status(m)[0] == "PAID"
                life.total(life.sold() + 1)
    life.audit()


@pytest.mark.parametrize("command", ["cancel", "pay"])
@pytest.mark.parametrize("held", range(6))
def test_rule17_orders_are_locked_by_user(life, two, command, held):
    """The one that is held stops the call: those of lower users it has by then, those of higher ones it has not."""
    life.item(6)
    ms = life.messages(6)
    life.place(ms)
    batch = random.Random(held).sample(ms, 6)
    a, b = two
    a.execute("BEGIN")
    a.execute("SELECT 1 FROM orders WHERE order_id = %s FOR UPDATE", (ms[held].order,))
    payments = [life.payment(m) for m in batch]
    with Beside(life, a, b, lambda c: life.cancels(batch, c) if command == "cancel" else life.pays(payments, c)) as call:
        assert call.waited
        free = [r[0] for r in life.c.execute("SELECT order_id FROM orders WHERE order_id = ANY (%s) FOR UPDATE SKIP LOCKED",
                                             ([m.order for m in ms],)).fetchall()]
        assert sorted(free) == [m.order for m in ms[held + 1:]]
        assert life.scalar("SELECT count(*) FROM (SELECT 1 FROM seckill_inventory WHERE activity_id = %s FOR UPDATE SKIP LOCKED) f",
                           life.activity) == 1, "the inventory row comes last"
    assert {r.result for r in call.result} == {"CANCELLED" if command == "cancel" else "PAID"}


@pytest.mark.parametrize("held", range(5))
def test_rule17_inbox_rows_are_inserted_by_message(life, two, held):
    life.item(6)
    ms = life.messages(5)
    life.place(ms)
    ids = sorted(ident() for _ in ms)
    batch = random.Random(held).sample(ids, 5)
    a, b = two
    a.execute("BEGIN")
    life.cancels(ms[:1], a, ids=[ids[held]])
    life.c.execute("SET lock_timeout = '50ms'")

    def inserted(message):
        """Whether nobody has such a row in hand."""
        life.c.execute("BEGIN")
        try:
            life.c.execute("INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, "
                           "sku_id, status) VALUES ('seckill-order-create-v1', %s, %s, %s, 1, 1, 1, 'QUARANTINED')",
                           (message, ident(), ident()))
            return True
        except psycopg.errors.LockNotAvailable:
            return False
        finally:
            life.c.execute("ROLLBACK")

    with Beside(life, a, b, lambda c: life.cancels(ms, c, ids=batch), "ROLLBACK") as call:
        assert call.waited
        assert [inserted(m) for m in ids] == [i > held for i in range(5)]
    life.c.execute("RESET lock_timeout")
    assert {r.result for r in call.result} == {"CANCELLED"}


@pytest.mark.parametrize("command", ["cancel", "pay"])
def test_rule17_an_order_that_comes_after_the_locks_is_left_to_the_sweep(life, two, command):
    """To lock it now, out of its turn, could close a circle; to act on it without is worse."""
    life.item(6)
    ms = life.messages(2)
    life.place(ms[:1])
    payments = [life.payment(m) for m in ms]

    def call(c):
        return [r.result for r in (life.cancels(ms, c) if command == "cancel" else life.pays(payments, c))]

    done = "CANCELLED" if command == "cancel" else "PAID"
    a, b = two
    a.execute("BEGIN")
    a.execute("SELECT 1 FROM orders WHERE order_id = %s FOR UPDATE", (ms[0].order,))
    with Beside(life, a, b, call) as beside:
        assert beside.waited
        life.place(ms[1:])
    assert beside.result == [done, "PARKED"]
    assert len(life.sweep()) == 1
    assert call(life.c) == [done, done]


def test_rule17_a_thousand_mixed_calls_over_few_orders_do_not_deadlock(life, database):
    """Batches in any order, of every kind, from six connections; the total moves meanwhile."""
    life.item(30)
    rng = random.Random(17)
    buyers = [life.message().user for _ in range(6)]
    ms = [life.message(user=rng.choice(buyers)) for _ in range(24)]
    payments = [life.payment(m) for m in ms for _ in range(2)]
    deadlocks = []
    counted = {}
    others = {}  # further commands' ids, and of what
    lock = threading.Lock()

    def lane(i, c):
        mine = random.Random(i)
        for _ in range(170):
            some = mine.sample(ms, mine.randint(1, 8))
            kind = mine.choice(["place", "cancel", "pay", "expire", "void", "sweep", "total"])
            try:
                if kind == "place":
                    life.place(some, c)
                elif kind == "cancel":
                    # under the ids of rule 27, or as if each were another command: those lock
                    ids = [ident() for _ in some]
                    others.update(zip(ids, some))
                    life.cancels(some, c, ids=mine.choice([None, ids]))
                elif kind == "pay":
                    life.pays(mine.sample(payments, mine.randint(1, 8)), c)
                elif kind == "expire":
                    life.expire(c, most=mine.randint(1, 4))
                elif kind == "void" and mine.random() < 0.1:
                    life.void(some[0], connection=c)
                elif kind == "sweep":
                    life.sweep(c)
                else:
                    life.total(mine.randint(0, 40), connection=c)
            except psycopg.errors.DeadlockDetected as e:
                deadlocks.append((kind, str(e)))
            with lock:
                counted[kind] = counted.get(kind, 0) + 1

    connections = [database.connect() for _ in range(6)]
    run([lambda i=i, c=c: lane(i, c) for i, c in enumerate(connections)])
    for c in connections:
        c.close()
    assert deadlocks == []
    assert sum(counted.values()) >= 1000
    life.audit()
    # and in the end everything has an outcome
    for m in ms:
        life.void(m)
    life.unclaim()
    for command, message, given_up in life.sweep(most=10_000):
        if message in others:
            assert life.cancel(others[message], ids=[message]).result in ("CANCELLED", "ALREADY", "REFUSED", "NOTHING")
    assert {r.result for r in life.cancels(ms)} <= {"CANCELLED", "ALREADY", "REFUSED", "NOTHING"}
    assert {r.result for r in life.pays(payments)} <= {"PAID", "REFUNDED"}
    assert life.parked()[0] == 0
    life.audit()


def test_killed_backends_and_the_same_commands_again_converge(life, database):
    """COMMIT unknown: the rerun finds out what happened (failure 11)."""
    life.item(400)
    rng = random.Random(5)
    killed = 0
    for _ in range(30):
        ms = life.messages(8)
        life.place(ms)
        ps = [life.payment(m) for m in ms]

        def call(c):
            life.cancels(ms[:4], c)
            life.pays(ps[2:], c)
            life.expire(c, most=1)

        with database.connect() as victim:
            pid = victim.info.backend_pid
            hit = threading.Timer(rng.uniform(0, 0.012), lambda: life.c.execute("SELECT pg_terminate_backend(%s)", (pid,)))
            hit.start()
            try:
                call(victim)
            except psycopg.OperationalError:
                killed += 1
            hit.join()
        assert {r.result for r in life.cancels(ms[:4])} == {"CANCELLED"}
        assert [r.result for r in life.pays(ps[2:])] == ["REFUNDED"] * 2 + ["PAID"] * 4
    assert killed > 0
    assert life.place([life.message()])[0].outcome != KNOWN
