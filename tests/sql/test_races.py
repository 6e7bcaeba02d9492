"""The order function against itself and others, on real connections."""
import random
import threading

import psycopg
import pytest

from sale import CREATED, KNOWN, REJECTED
from services import PrivateBouncer, wait_for


def run(functions):
    """All at once; the first exception is raised again."""
    barrier = threading.Barrier(len(functions))
    errors = []

    def body(f):
        try:
            barrier.wait()
            f()
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=body, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("first", ["order", "void"])
def test_order_and_void_race_500_times_each_direction(sale, database, first):
    """Failure 17, issue 8: exactly one of them exists, and the unit is counted once."""
    sale.item(1000)
    ms = sale.messages(500)
    outcomes = {}

    def order(connection):
        for m in ms:
            gate.wait()
            outcomes[m.message, "order"] = sale.place([m], connection)[0]

    def void(connection):
        for m in ms:
            gate.wait()
            outcomes[m.message, "void"] = sale.void(m, connection=connection)

    gate = threading.Barrier(2)
    with database.connect() as a, database.connect() as b:
        pair = [lambda: order(a), lambda: void(b)]
        run(pair if first == "order" else pair[::-1])
    ordered = 0
    for m in ms:
        placed, voided = outcomes[m.message, "order"], outcomes[m.message, "void"]
        if placed.outcome == CREATED:
            ordered += 1
            assert voided == (False, "COMPLETED", "SUCCEEDED", "", m.order, False)
        else:
            assert (placed.outcome, placed.state, placed.reason, placed.give_back) == (KNOWN, "FAILED", "VOID", True)
            assert voided[:4] == (True, "REJECTED", "FAILED", "VOID")
    assert sale.audit() == ordered
    assert sale.scalar("SELECT count(*) FROM outbox WHERE activity_id = %s", sale.activity) == 500


def test_void_waits_for_an_order_in_flight_and_obeys_it(sale, database):
    sale.item(1)
    m = sale.message()
    with database.connect() as a, database.connect() as b:
        a.execute("BEGIN")
        sale.place([m], a)
        got = []
        t = threading.Thread(target=lambda: got.append(sale.void(m, connection=b)))
        t.start()
        wait_for("the void to wait", lambda: sale.scalar("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        a.execute("COMMIT")
        t.join()
    assert got[0][0] is False and got[0][4] == m.order
    assert sale.audit() == 1


def test_order_waits_for_a_void_in_flight_and_sees_its_row(sale, database):
    """Why the outcomes of others are read by a statement of their own."""
    sale.item(2)
    m, n = sale.messages(2)
    with database.connect() as a, database.connect() as b:
        a.execute("BEGIN")
        sale.void(m, connection=a)
        got = []
        t = threading.Thread(target=lambda: got.append(sale.place([m, n], b)))
        t.start()
        wait_for("the order to wait", lambda: sale.scalar("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        a.execute("COMMIT")
        t.join()
    assert [(r.outcome, r.state) for r in got[0]] == [(KNOWN, "FAILED"), (CREATED, "SUCCEEDED")]
    assert sale.audit() == 1


def test_overlapping_shuffled_batches_from_four_connections(sale, database):
    """Every message goes through every connection, in batches of any order: totals exact, one outcome a message."""
    sale.item(300)
    ms = sale.messages(400)
    ms += [sale.message(user=m.user) for m in random.Random(1).sample(ms, 60)]
    ms += [sale.message(user=m.user, request=m.request) for m in random.Random(2).sample(ms[:400], 60)]
    seen = [{} for _ in range(4)]

    def lane(i, connection):
        mine = random.Random(i).sample(ms, len(ms))
        at = 0
        while at < len(mine):
            n = random.Random(i * 1000 + at).randint(1, 48)
            seen[i].update(sale.until_placed(mine[at:at + n], connection))
            at += n

    connections = [database.connect() for _ in range(4)]
    run([lambda i=i, c=c: lane(i, c) for i, c in enumerate(connections)])
    for c in connections:
        c.close()
    assert sale.audit() == 300
    for m in ms:
        ends = [s[m.message] for s in seen]
        assert len({(e.state, e.reason, e.give_back, e.other_order) for e in ends}) == 1
        assert sum(e.outcome != KNOWN or e.outbox is not None for e in ends) == 1
    assert getattr(sale, "deadlocks", 0) == 0, "the lock order of rule 17"


def test_hot_item_is_sold_exactly_once_per_unit(sale, database):
    """Six connections, distinct messages, twice the stock."""
    sale.item(500)
    ms = sale.messages(1000)
    results = []

    def lane(i, connection):
        mine = ms[i::6]
        for at in range(0, len(mine), 16):
            results.extend(sale.until_placed(mine[at:at + 16], connection).values())

    connections = [database.connect() for _ in range(6)]
    run([lambda i=i, c=c: lane(i, c) for i, c in enumerate(connections)])
    for c in connections:
        c.close()
    assert sum(r.outcome == CREATED for r in results) == 500
    assert sum(r.outcome == REJECTED and r.state == "SOLD_OUT" for r in results) == 500
    assert sale.audit() == 500


def test_one_message_from_eight_connections_at_once(sale, database):
    sale.item(50)
    connections = [database.connect() for _ in range(8)]
    for _ in range(25):
        m = sale.message()
        got = []
        run([lambda c=c: got.append(sale.place([m], c)[0]) for c in connections])
        assert sorted(r.outcome for r in got) == [CREATED] + [KNOWN] * 7
        assert {r.state for r in got} == {"SUCCEEDED"}
    for c in connections:
        c.close()
    assert sale.audit() == 25


def test_one_buyer_from_eight_connections_at_once(sale, database):
    sale.item(50)
    connections = [database.connect() for _ in range(8)]
    for _ in range(25):
        user = sale.message().user
        got = []
        run([lambda c=c: got.append(sale.place([sale.message(user=user)], c)[0]) for c in connections])
        assert sorted(r.outcome for r in got) == [CREATED] + [REJECTED] * 7
        assert {r.reason for r in got} == {"", "ONE_USER_ONE_ORDER"}
        assert len({r.other_order for r in got if r.other_order}) == 1
    for c in connections:
        c.close()
    assert sale.audit() == 25


def test_killed_backends_and_the_same_ids_again_converge(sale, database):
    """COMMIT unknown: the backend dies at any moment of the call; the rerun finds out what happened (failure 11)."""
    sale.item(200)
    killed = 0
    rng = random.Random(5)
    for _ in range(40):
        batch = sale.messages(8)
        with database.connect() as victim:
            pid = victim.info.backend_pid
            hit = threading.Timer(rng.uniform(0, 0.004), lambda: sale.c.execute("SELECT pg_terminate_backend(%s)", (pid,)))
            hit.start()
            try:
                sale.place(batch, victim)
            except psycopg.OperationalError:
                killed += 1
            hit.join()
        with database.connect() as other:
            rs = sale.place(batch, other)
        assert {r.state for r in rs} <= {"SUCCEEDED", "SOLD_OUT"}
        assert all(r.outcome in (CREATED, KNOWN, REJECTED) for r in rs)
    assert killed > 0
    assert sale.audit() == 200


def test_statement_timeout_leaves_nothing(sale, database):
    sale.item(5)
    m = sale.message()
    with database.connect() as holder, database.connect() as waiter:
        holder.execute("BEGIN")
        holder.execute("SELECT 1 FROM seckill_inventory WHERE activity_id = %s FOR UPDATE", (sale.activity,))
        waiter.execute("SET statement_timeout = '50ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            sale.place([m], waiter)
        holder.execute("ROLLBACK")
        assert sale.inbox(m) is None
        assert sale.place([m], waiter)[0].outcome == CREATED
    assert sale.audit() == 1


def test_two_items_do_not_wait_for_each_other(sale, database):
    sale.item(5)
    hot = sale.activity
    with database.connect() as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT 1 FROM seckill_inventory WHERE activity_id = %s FOR UPDATE", (hot,))
        sale.item(5)
        sale.c.execute("SET lock_timeout = '1s'")
        assert sale.place(sale.messages(2))[0].outcome == CREATED
        holder.execute("ROLLBACK")


def test_behind_pgbouncer_in_transaction_mode(sale, database):
    """Failure 15: unnamed statements, no SET, no session locks; more clients than server connections."""
    sale.item(300)
    ms = sale.messages(480)
    with PrivateBouncer(database, default_pool_size=3) as bouncer:
        connections = [psycopg.connect(bouncer.conninfo, autocommit=True, prepare_threshold=None) for _ in range(8)]
        results = {}

        def lane(i, connection):
            mine = ms[i::8]
            for at in range(0, len(mine), 12):
                results.update(sale.until_placed(mine[at:at + 12], connection))

        run([lambda i=i, c=c: lane(i, c) for i, c in enumerate(connections)])
        for c in connections:
            c.close()
    assert sum(r.outcome == CREATED for r in results.values()) == 300
    assert sale.audit() == 300
