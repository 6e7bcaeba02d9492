"""The order function: architecture 5 "The order transaction", rules 16–20."""
import random
import threading

import psycopg
import pytest

from sale import AGAIN, CREATED, KNOWN, QUARANTINED, REJECTED, ident


def test_batch_is_placed(sale):
    sale.item(100)
    ms = sale.messages(64)
    rs = sale.place(ms)
    assert all(r[:4] == (CREATED, "SUCCEEDED", "", False) for r in rs)
    assert len({r.outbox for r in rs}) == 64
    for m, r in zip(ms, rs):
        assert sale.scalar("SELECT message_id FROM outbox WHERE outbox_id = %s", r.outbox) == m.message
        assert sale.inbox(m) == ("COMPLETED", None, m.order)
    assert sale.audit() == 64
    assert sale.scalar("SELECT seq FROM seckill_inventory WHERE activity_id = %s", sale.activity) == max(m.seq for m in ms)


def test_single_message_and_probe(sale):
    """Rule 21: the probe is an empty call; it fails where nothing could be written."""
    sale.item(1)
    assert sale.place([]) == []
    assert sale.place(sale.messages(1))[0].outcome == CREATED
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        with sale.c.transaction():
            sale.c.execute("SET TRANSACTION READ ONLY")
            sale.place([])


def test_step_times_are_told(sale):
    sale.item(5)
    m = sale.message()
    steps = sale.c.execute("SELECT step_us FROM seckill_place(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                           (sale.activity, sale.sku, *([x] for x in m))).fetchone()[0]
    outbox = sale.scalar("SELECT outbox_id FROM outbox WHERE message_id = %s", m.message)
    assert len(steps) == 5 and all(s >= 0 for s in steps) and steps[4] == outbox


def test_rule16_inbox_holds_the_logical_group(sale):
    sale.item(5)
    m = sale.message()
    sale.place([m])
    assert sale.scalar("SELECT consumer_group FROM consumer_inbox WHERE message_id = %s", m.message) == "seckill-order-create-v1"


def test_unknown_item_is_an_own_failure(sale):
    """Rule 20: our own SQLSTATE class."""
    sale.activity = 999_999_999
    with pytest.raises(psycopg.Error) as e:
        sale.place(sale.messages(1))
    assert e.value.sqlstate == "SK002"


@pytest.mark.parametrize("field, value, sqlstate", [("user", 0, "23514"), ("order", -1, "23514"), ("request", None, "23502"),
                                                    ("created_ms", None, "23502")])
def test_rule20_bad_values_are_own_failures_and_leave_nothing(sale, field, value, sqlstate):
    sale.item(5)
    before = sale.books()
    with pytest.raises(psycopg.Error) as e:
        sale.place([sale.message(), sale.message(**{field: value})])
    assert e.value.sqlstate == sqlstate
    assert sale.books() == before


def test_delivered_100_times_changes_nothing(sale):
    sale.item(10)
    ms = sale.messages(16)
    first = sale.place(ms)
    assert sorted(r.state for r in first) == ["SOLD_OUT"] * 6 + ["SUCCEEDED"] * 10
    before = sale.books()
    for i in range(100):
        batch = random.Random(i).sample(ms, random.Random(i).randint(1, 16))
        for m, r in zip(batch, sale.place(batch)):
            f = first[ms.index(m)]
            assert (r.outcome, r.outbox) == (KNOWN, None)
            assert (r.state, r.reason, r.give_back) == (f.state, f.reason, f.give_back)
    assert sale.books() == before
    assert sale.audit() == 10


def test_same_message_twice_in_one_batch(sale):
    sale.item(10)
    a, b = sale.messages(2)
    rs = sale.place([a, b, a, a])
    assert [r.outcome for r in rs] == [CREATED, CREATED, KNOWN, KNOWN]
    assert [r.state for r in rs] == ["SUCCEEDED"] * 4
    assert [r.outbox is not None for r in rs] == [True, True, False, False]
    assert sale.audit() == 2


def test_same_rejected_message_twice_in_one_batch(sale):
    sale.item(1)
    a, b = sale.messages(2)
    rs = sale.place([b, a, b])
    assert [(r.outcome, r.state) for r in rs] == [(REJECTED, "SOLD_OUT"), (CREATED, "SUCCEEDED"), (KNOWN, "SOLD_OUT")]
    assert sale.audit() == 1


@pytest.mark.parametrize("together", [True, False])
class TestRule19:
    """Conflicts by name, whether the holder is in the same batch or in an earlier one."""

    def both(self, sale, first, second, together):
        """second's result, first being the holder."""
        if together:
            r = sale.place([second, first])
            assert r[1].outcome == CREATED
            return r[0]
        assert sale.place([first])[0].outcome == CREATED
        return sale.place([second])[0]

    def check(self, sale, second, result, orders=1):
        """The same again when it is redelivered."""
        again = sale.place([second])[0]
        assert again[1:7] == result[1:7] and again.outcome == KNOWN and again.outbox is None
        row = sale.c.execute("SELECT state, reason, give_back, other_order_id, other_reservation_id, other_request_id FROM outbox "
                             "WHERE outbox_id = %s", (result.outbox,)).fetchone()
        assert row == result[1:7]
        assert sale.audit() == orders

    def test_same_reservation_has_its_outcome(self, sale, together):
        sale.item(5)
        a = sale.message()
        b = sale.message(reservation=a.reservation, user=a.user, request=a.request, order=a.order)
        r = self.both(sale, a, b, together)
        assert r[:4] == (KNOWN, "SUCCEEDED", "", False) and r.other_order is None
        assert sale.inbox(b) == ("COMPLETED", None, a.order)
        self.check(sale, b, r)

    def test_same_reservation_under_another_order_id_names_the_order(self, sale, together):
        sale.item(5)
        a = sale.message()
        b = sale.message(reservation=a.reservation, user=a.user, request=a.request)
        r = self.both(sale, a, b, together)
        assert r[:4] == (KNOWN, "SUCCEEDED", "", False) and r.other_order == a.order
        self.check(sale, b, r)

    def test_same_reservation_of_another_buyer_is_a_collision(self, sale, together):
        sale.item(5)
        a = sale.message()
        b = sale.message(reservation=a.reservation)
        r = self.both(sale, a, b, together)
        assert r == (REJECTED, "REJECTED", "ID_COLLISION", True, None, None, None, r.outbox)
        self.check(sale, b, r)

    def test_same_key_same_item_gets_that_order_and_returns_its_own_unit(self, sale, together):
        sale.item(5)
        a = sale.message()
        b = sale.message(user=a.user, request=a.request)
        r = self.both(sale, a, b, together)
        assert r[:4] == (KNOWN, "SUCCEEDED", "", True)
        assert (r.other_order, r.other_reservation, r.other_request) == (a.order, a.reservation, a.request)
        assert sale.inbox(b) == ("COMPLETED", None, a.order)
        self.check(sale, b, r)

    def test_second_order_of_a_buyer(self, sale, together):
        sale.item(5)
        a = sale.message()
        b = sale.message(user=a.user)
        r = self.both(sale, a, b, together)
        assert r[:4] == (REJECTED, "REJECTED", "ONE_USER_ONE_ORDER", True)
        assert (r.other_order, r.other_reservation, r.other_request) == (a.order, a.reservation, a.request)
        self.check(sale, b, r)

    def test_order_id_collision(self, sale, together):
        sale.item(5)
        a = sale.message()
        a = a._replace(user=1 + a.user - 1)
        b = sale.message(order=a.order)
        r = self.both(sale, a, b, together)
        assert r == (REJECTED, "REJECTED", "ID_COLLISION", True, None, None, None, r.outbox)
        self.check(sale, b, r)

    def test_everything_alike_is_the_same_reservation(self, sale, together):
        """The order of the names: reservation before key before user before order id."""
        sale.item(5)
        a = sale.message()
        b = a._replace(message=ident(), seq=a.seq + 1)
        r = self.both(sale, a, b, together)
        assert r[:4] == (KNOWN, "SUCCEEDED", "", False)
        self.check(sale, b, r)


def test_rule19_same_key_on_another_item(sale):
    sale.item(5)
    a = sale.message()
    sale.place([a])
    sale.item(5)
    b = sale.message(user=a.user, request=a.request)
    r = sale.place([b])[0]
    assert r[:5] == (REJECTED, "REJECTED", "IDEMPOTENCY_KEY_REUSED", True, None)
    assert sale.audit() == 0
    # the unit is somebody else's
    assert sale.place(sale.messages(5))[4].outcome == CREATED
    assert sale.audit() == 5


def test_same_key_of_two_users_is_two_requests(sale):
    sale.item(5)
    a = sale.message()
    b = sale.message(request=a.request)
    assert [r.outcome for r in sale.place([a, b])] == [CREATED, CREATED]
    assert sale.audit() == 2


def test_rule19_conflicts_are_named_when_nothing_is_free(sale):
    """A buyer who has an order is never told "sold out"."""
    sale.item(1)
    a = sale.message()
    sale.place([a])
    own, key, other = sale.message(user=a.user), sale.message(user=a.user, request=a.request), sale.message()
    rs = sale.place([own, key, other])
    assert [(r.outcome, r.reason) for r in rs] == [(REJECTED, "ONE_USER_ONE_ORDER"), (KNOWN, ""), (REJECTED, "PG_STOCK_EXHAUSTED")]
    assert [r.give_back for r in rs] == [True, True, False]
    assert sale.audit() == 1


def test_rule18_twice_the_stock_sells_exactly_the_total(sale):
    sale.item(100)
    ms = sale.messages(200)
    rs = [r for i in range(0, 200, 32) for r in sale.place(ms[i:i + 32])]
    assert [r.outcome for r in rs] == [CREATED] * 100 + [REJECTED] * 100
    assert {(r.state, r.reason, r.give_back) for r in rs[100:]} == {("SOLD_OUT", "PG_STOCK_EXHAUSTED", False)}
    assert all(r.outbox for r in rs)
    assert sale.audit() == 100


def test_rule18_surplus_is_the_last_by_seq(sale):
    sale.item(5)
    ms = sale.messages(12)
    shuffled = random.Random(7).sample(ms, 12)
    rs = dict(zip(shuffled, sale.place(shuffled)))
    assert [rs[m].outcome for m in ms] == [CREATED] * 5 + [REJECTED] * 7
    assert sale.audit() == 5


def test_rule18_an_older_epoch_comes_first(sale):
    sale.item(1)
    new, old = sale.message(epoch=2, seq=1), sale.message(epoch=1, seq=900)
    assert [r.outcome for r in sale.place([new, old])] == [REJECTED, CREATED]


def test_rule18_a_place_freed_by_a_conflict_goes_to_the_next(sale):
    sale.item(3)
    a = sale.message()
    sale.place([a])
    twice = sale.message(user=a.user)      # conflicts with an order that is there
    b = sale.message()
    b2 = sale.message(user=b.user)         # conflicts within the batch
    c, d = sale.messages(2)
    rs = sale.place([twice, b, b2, c, d])
    assert [r.reason for r in rs] == ["ONE_USER_ONE_ORDER", "", "ONE_USER_ONE_ORDER", "", "PG_STOCK_EXHAUSTED"]
    assert sale.audit() == 3


def test_rule18_who_stood_behind_a_surplus_order_runs_again(sale):
    sale.item(1)
    a = sale.message()
    b = sale.message()
    b2 = sale.message(user=b.user)
    rs = sale.place([b, b2, a])
    assert [r.outcome for r in rs] == [REJECTED, AGAIN, CREATED]
    assert rs[1].outbox is None and sale.inbox(b2) is None
    assert sale.audit() == 1
    assert sale.place([b2])[0][:3] == (REJECTED, "SOLD_OUT", "PG_STOCK_EXHAUSTED")
    assert sale.audit() == 1


def test_rule18_nothing_free_is_decided_under_the_lock(sale, database):
    """The unlocked read says "nothing"; a cancel that commits meanwhile frees a place: it is sold."""
    sale.item(1)
    a, b = sale.messages(2)
    sale.place([a])
    with database.connect() as other:
        other.execute("BEGIN")
        other.execute("UPDATE seckill_inventory SET sold_stock = 0 WHERE activity_id = %s", (sale.activity,))
        other.execute("UPDATE orders SET status = 'CANCELLED' WHERE order_id = %s", (a.order,))
        other.execute("INSERT INTO stock_ledger VALUES (%s, %s, %s, %s, clock_timestamp(), 1, 'CANCEL')",
                      (a.reservation, sale.activity, sale.sku, a.order))
        got = []
        t = threading.Thread(target=lambda: got.append(sale.place([b])))
        t.start()
        wait_until_blocked(other, 1)
        other.execute("COMMIT")
        t.join()
    assert got[0][0].outcome == CREATED
    assert sale.audit() == 1


def wait_until_blocked(connection, n):
    from services import wait_for
    wait_for("a blocked backend", lambda: connection.execute(
        "SELECT count(*) >= %s FROM pg_stat_activity WHERE wait_event_type = 'Lock'", (n,)).fetchone()[0])


def test_cancelled_and_bought_again(sale):
    """The partial index lets a cancelled buyer buy again; a redelivery of the old message changes nothing."""
    sale.item(1)
    a = sale.message()
    sale.place([a])
    sale.cancel(a)
    assert sale.audit() == 0
    b = sale.message(user=a.user)
    assert sale.place([b])[0].outcome == CREATED
    r = sale.place([a])[0]
    assert (r.outcome, r.state, r.reason, r.give_back) == (KNOWN, "CANCELLED", "CANCELLED", True)
    assert sale.audit() == 1
    # the key of a cancelled order stays used
    c = sale.message(user=a.user, request=a.request)
    r = sale.place([c])[0]
    assert (r.outcome, r.state, r.give_back, r.other_order) == (KNOWN, "CANCELLED", True, a.order)
    assert sale.audit() == 1


def test_quarantined_message_is_left_alone(sale):
    sale.item(5)
    a = sale.message()
    assert sale.quarantine(a)
    rs = sale.place([a, sale.message()])
    assert [r.outcome for r in rs] == [QUARANTINED, CREATED]
    assert sale.audit() == 1


def test_holder_vanished_is_again_and_leaves_nothing(sale, database):
    """Rule 19: the conflicting row goes between the insert and the look at it. Forced: a unique index that the look
    does not know of stands in for the row."""
    sale.item(5)
    a, b = sale.messages(2)
    sale.place([a])
    with sale.c.transaction(force_rollback=True):
        sale.c.execute(f"CREATE UNIQUE INDEX ON orders (activity_id) WHERE activity_id = {sale.activity}")
        rs = sale.place([b])
        assert rs[0].outcome == AGAIN and rs[0].outbox is None and sale.inbox(b) is None
    assert sale.place([b])[0].outcome == CREATED
    assert sale.audit() == 2


def test_wrong_row_count_raises_and_leaves_nothing(sale):
    """Every row count means something: a lost outbox row is SK001 with the operation's name, not a silent order."""
    sale.item(5)
    before = sale.books()
    with pytest.raises(psycopg.Error) as e:
        with sale.c.transaction():
            sale.c.execute("CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
            sale.c.execute("CREATE TRIGGER t BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION drop_row()")
            sale.place(sale.messages(3))
    assert (e.value.sqlstate, e.value.diag.constraint_name) == ("SK001", "outbox")
    assert sale.books() == before


def test_total_is_the_last_barrier(sale):
    sale.item(3)
    with pytest.raises(psycopg.errors.CheckViolation):
        sale.c.execute("UPDATE seckill_inventory SET sold_stock = 4 WHERE activity_id = %s", (sale.activity,))
    with pytest.raises(psycopg.errors.CheckViolation):
        sale.c.execute("UPDATE seckill_inventory SET sold_stock = -1 WHERE activity_id = %s", (sale.activity,))


def test_total_lowered_below_the_sold_admits_nobody(sale):
    sale.item(3)
    ms = sale.messages(3)
    sale.place(ms)
    sale.c.execute("UPDATE seckill_inventory SET total_stock = 3 WHERE activity_id = %s", (sale.activity,))
    assert sale.place(sale.messages(2))[0].state == "SOLD_OUT"
    assert sale.audit() == 3


def test_the_hot_row_is_updated_in_place(sale):
    sale.item(1000)
    sale.c.execute("VACUUM seckill_inventory")
    before = sale.c.execute("SELECT pg_stat_get_tuples_updated(c), pg_stat_get_tuples_hot_updated(c) "
                            "FROM (SELECT 'seckill_inventory'::regclass::oid AS c) x").fetchone()
    for m in sale.messages(50):
        sale.place([m])
    sale.c.execute("SELECT pg_stat_force_next_flush()")
    after = sale.c.execute("SELECT pg_stat_get_tuples_updated(c), pg_stat_get_tuples_hot_updated(c) "
                           "FROM (SELECT 'seckill_inventory'::regclass::oid AS c) x").fetchone()
    updated, hot = after[0] - before[0], after[1] - before[1]
    assert updated >= 50 and hot >= updated * 0.9


def test_random_batches_against_a_model(sale):
    """Rule 18 and 19 in random batches: outcomes as a straightforward model says them."""
    for seed in range(60):
        rng = random.Random(seed)
        total = rng.randint(0, 8)
        sale.item(total)
        pool = []
        for _ in range(rng.randint(1, 24)):
            m = sale.message()
            if pool and rng.random() < 0.4:
                p = rng.choice(pool)
                m = rng.choice([p, m._replace(user=p.user), m._replace(user=p.user, request=p.request),
                                m._replace(user=p.user, request=p.request, reservation=p.reservation, order=p.order)])
            pool.append(m)
        done = {}
        active = {}
        for _ in range(6):
            batch = [rng.choice(pool) for _ in range(rng.randint(1, 12))]
            got = sale.place(batch)
            for m, r in zip(batch, got):
                if r.outcome == CREATED:
                    assert m.user not in active, seed
                    active[m.user] = m
            for m, r in zip(batch, got):
                if r.outcome == AGAIN:
                    continue
                if m.message in done:
                    assert r[1:7] == done[m.message][1:7], seed
                done[m.message] = r
                if r.reason == "ONE_USER_ONE_ORDER":
                    assert r.other_order == active[m.user].order, seed
            if any(r.reason == "PG_STOCK_EXHAUSTED" for r in got):
                assert len(active) == total, seed
        assert sale.audit() == len(active) <= total
