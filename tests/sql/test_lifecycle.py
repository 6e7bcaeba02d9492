"""Cancel, pay, expire, parked commands and the item's total (rules 4, 17, 25, 27, 31)."""
import glob

import psycopg
import pytest

from lifecycle import MINUTE, UNPAID_MS, Life, now_ms
from sale import CREATED, KNOWN, REJECTED, ident
from services import SOURCE, PrivateBouncer

def placed(life, total=5, **fields):
    life.item(total)
    m = life.message(**fields)
    assert life.place([m])[0].outcome == CREATED
    return m


# -- cancel


def test_rule27_a_cancelled_order_gives_its_unit_back_once(life):
    m = placed(life, total=1)
    c = life.cancel(m)
    assert c[:5] == ("CANCELLED", "", True, m.order, m.reservation) and c.outbox
    assert life.status(m) == ("CANCELLED", "CANCELLED")
    assert life.ledger(m) == [("ORDER", -1), ("CANCEL", 1)]
    assert life.words(m) == [("CANCELLED", "CANCELLED", True, m.order)]
    assert life.sold() == 0 and life.audit() == 0
    books = life.books()
    for _ in range(2):
        again = life.cancel(m)
        assert again[:4] == ("CANCELLED", "", False, m.order) and again.outbox is None
    assert life.books() == books
    assert life.find(m) == ("CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED")


def test_the_unit_is_bought_again_even_by_the_canceller(life):
    """Scenario 1: exactly one more sale."""
    m = placed(life, total=1)
    assert life.place([life.message()])[0].reason == "PG_STOCK_EXHAUSTED"
    life.cancel(m)
    again = life.message(user=m.user)
    assert life.place([again])[0].outcome == CREATED
    assert life.place([life.message()])[0].reason == "PG_STOCK_EXHAUSTED"
    assert life.audit() == 1
    assert life.cancel(m).result == "CANCELLED"  # a repeat: the first order's, not this one's
    assert life.status(again) == ("CREATED", None)


def test_the_order_message_once_more_tells_the_cancelled_order(life):
    m = placed(life)
    life.cancel(m)
    r = life.place([m])[0]
    assert (r.outcome, r.state, r.reason, r.give_back) == (KNOWN, "CANCELLED", "CANCELLED", True)
    assert life.void(m) == (False, "COMPLETED", "CANCELLED", "CANCELLED", m.order, True)


def test_already_over(life):
    m = placed(life)
    assert life.expire() == [m.order]
    for fresh in (True, False):
        c = life.cancel(m)
        assert c[:4] == ("ALREADY", "EXPIRED", fresh, m.order) and c.outbox is None
    assert life.ledger(m) == [("ORDER", -1), ("EXPIRE", 1)]
    assert life.find(m) == ("CANCELLED", "EXPIRED", "CLOSED", "ALREADY")


def test_rule27_a_paid_order_cannot_be_cancelled(life):
    m = placed(life)
    assert life.pay(life.payment(m)).result == "PAID"
    for fresh in (True, False):
        assert life.cancel(m)[:4] == ("REFUSED", "PAID", fresh, m.order)
    assert life.status(m) == ("PAID", None) and life.sold() == 1
    assert life.find(m) == ("SUCCEEDED", "", "PAID", "REFUSED")
    assert life.words(m) == []


def test_nothing_to_cancel_where_the_reservation_ended_without_an_order(life):
    life.item(1)
    m, bought, full = life.messages(3)
    life.void(m)
    assert life.place([bought, full])[1].reason == "PG_STOCK_EXHAUSTED"
    for fresh in (True, False):
        assert life.cancel(m)[:4] == ("NOTHING", "VOID", fresh, None)
        assert life.cancel(full)[:4] == ("NOTHING", "PG_STOCK_EXHAUSTED", fresh, None)
    assert life.find(m) == ("FAILED", "VOID", None, "NOTHING")
    assert life.sold() == 1


def test_rule27_a_cancel_before_its_order_is_parked(life):
    life.item(1)
    m = life.message()
    for _ in range(2):
        assert life.cancel(m)[:4] == ("PARKED", "", True, None)
    assert life.books() == (0, 0, 1, 0, 0), "nothing else"
    assert life.parked() == (1, 0) and life.sweep() == []
    life.place([m])
    assert life.sweep() == [("ORDER_CANCEL_REQUESTED", life.cancel_id(m), False)]
    assert life.sweep() == [], "claimed"
    life.unclaim()
    assert len(life.sweep()) == 1, "a worker that died is followed by another"
    assert life.cancel(m).result == "CANCELLED"
    assert life.parked() == (0, 1)
    life.unclaim()
    assert life.sweep() == []
    assert life.cancel(m)[:3] == ("CANCELLED", "", False)
    assert life.audit() == 0


def test_rule27_a_parked_cancel_ends_with_its_void(life):
    life.item(1)
    m = life.message()
    life.cancel(m)
    life.void(m)
    assert len(life.sweep()) == 1
    assert life.cancel(m)[:2] == ("NOTHING", "VOID")
    assert life.parked() == (0, 1)


def test_rule25_a_quarantined_order_has_no_outcome_yet(life):
    life.item(1)
    m = life.message()
    life.quarantine(m)
    assert life.cancel(m).result == "PARKED"
    assert life.pay(life.payment(m)).result == "PARKED"
    assert life.sweep() == []
    life.void(m, "GIVEN_UP")
    assert len(life.sweep()) == 2
    assert life.cancel(m)[:2] == ("NOTHING", "GIVEN_UP")


def test_rule25_a_quarantined_command_is_left_alone(life):
    m = placed(life)
    c = m._replace(message=life.cancel_id(m))
    assert life.quarantine(c) is True
    assert life.cancel(m).result == "QUARANTINED"
    assert life.status(m) == ("CREATED", None)
    letter = life.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", c.message)
    life.c.execute("SELECT * FROM seckill_replay(%s)", (letter,))
    assert life.cancel(m).result == "CANCELLED"
    assert life.quarantine(c) is False
    p = life.payment(m)
    assert life.quarantine(m._replace(message=p.message)) is True
    assert life.pay(p).result == "QUARANTINED"
    assert life.refund(p) is None


def test_rule27_what_the_queue_may_have_lost_is_parked_once(life):
    """Only what nobody knows; it runs as a parked one does, and a payment counts from then on: its order does not expire."""
    m = placed(life)
    known, p = life.message(), life.payment(m)
    life.place([known])
    assert life.cancel(known).result == "CANCELLED"
    assert life.park([m, known], [p]) == 2 and life.park([m, known], [p]) == 0
    assert life.parked() == (2, 0) and life.refund(p) == ("ACCEPTED", None) and life.expire() == []
    assert sorted(life.sweep()) == [("ORDER_CANCEL_REQUESTED", life.cancel_id(m), False), ("ORDER_PAY_REQUESTED", p.message, False)]
    assert life.pay(p).result == "PAID" and life.cancel(m).result == "REFUSED"
    assert life.parked() == (0, 2) and life.park([m], [p]) == 0 and life.audit() == 1
    # Its payment id is another payment's: nothing is left of it, as if it had come by the queue.
    other = life.message()
    life.place([other])
    assert life.park([], [p._replace(user=other.user, request=other.request, message=ident())]) == 0
    assert life.parked() == (0, 2) and life.audit() == 2


def test_given_up_after_a_long_wait(life):
    """A reservation that was lost has no outcome, ever: still an answer, and the money back."""
    life.item(1)
    m = life.message()
    p = life.payment(m)
    assert life.cancel(m).result == "PARKED" and life.pay(p).result == "PARKED"
    assert life.sweep() == []
    life.c.execute("UPDATE parked_commands SET parked_at = parked_at - interval '2 hours' WHERE activity_id = %s", (life.activity,))
    assert sorted(life.sweep()) == [("ORDER_CANCEL_REQUESTED", life.cancel_id(m), True), ("ORDER_PAY_REQUESTED", p.message, True)]
    for fresh in (True, False):
        assert life.cancel(m, give_up=True)[:3] == ("NOTHING", "NO_OUTCOME", fresh)
    assert life.pay(p).result == "PARKED", "that a command ended is no outcome"
    for fresh in (True, False):
        assert life.pay(p, give_up=True)[:3] == ("REFUNDED", "NO_OUTCOME", fresh)
    assert life.refund(p) == ("REFUNDED", "NO_OUTCOME")
    assert life.place([m])[0].outcome == CREATED  # after all: unpaid, it expires
    assert life.expire() == [m.order]


def test_nobody_touches_another_buyers_order(life):
    m = placed(life)
    other = life.message()
    life.place([other])
    thief = life.message(order=m.order)
    robber = life.message(reservation=m.reservation)
    mine = m._replace(user=other.user)
    named = life.message(user=other.user, request=other.request, order=m.order, reservation=m.reservation)
    for x in (thief, robber, mine, named):
        ids = [ident()]
        for fresh in (True, False):
            assert life.cancel(x, ids=ids)[:4] == ("REFUSED", "FOREIGN", fresh, None)
    p = life.payment(thief)
    for fresh in (True, False):
        assert life.pay(p)[:4] == ("REFUNDED", "FOREIGN", fresh, None)
    assert life.status(m) == life.status(other) == ("CREATED", None)
    assert life.audit() == 2


def test_the_same_message_id_with_another_content_is_refused(life):
    m = placed(life)
    other = life.message()
    life.place([other])
    life.cancel(m)
    assert life.cancel(other, ids=[life.cancel_id(m)])[:4] == ("REFUSED", "FOREIGN", False, None)
    assert life.status(other) == ("CREATED", None)


def test_the_same_request_of_another_item_is_another_request(life):
    m = placed(life)
    first = life.activity
    life.item(5)
    reused = life.message(user=m.user, request=m.request)
    assert life.cancel(reused).result == "PARKED"
    assert life.place([reused])[0].reason == "IDEMPOTENCY_KEY_REUSED"
    assert life.cancel(reused)[:2] == ("NOTHING", "IDEMPOTENCY_KEY_REUSED")
    life.activity = first
    assert life.status(m) == ("CREATED", None)


def test_rule19_the_second_reservation_of_a_key_cancels_the_order_that_stands_for_it(life):
    m = placed(life)
    second = life.message(user=m.user, request=m.request)
    assert life.cancel(second).result == "PARKED"
    p = life.payment(second)
    assert life.pay(p).result == "PARKED"
    assert life.place([second])[0].other_order == m.order
    assert len(life.sweep()) == 2
    assert life.cancel(second)[:4] == ("CANCELLED", "", True, m.order)
    assert life.cancel(m)[:4] == ("ALREADY", "CANCELLED", True, m.order)
    assert life.pay(p)[:2] == ("REFUNDED", "CANCELLED")
    assert life.audit() == 0


def test_unknown_item_is_an_own_failure(life):
    """Rule 20."""
    m = placed(life)
    known = life.activity
    life.activity = 999_999_999
    for call in (lambda: life.cancel(m), lambda: life.pay(life.payment(m)),
                 lambda: life.total(5)):
        with pytest.raises(psycopg.Error) as e:
            call()
        assert e.value.sqlstate == "SK002"
    assert life.expire() == []
    life.activity = known


def test_rule17_a_batch_of_everything(life):
    life.item(8)
    ms = life.messages(6)
    paid, fresh, expired, voided, early, second = ms
    life.place([expired])
    life.expire()
    life.place([paid, fresh, second])
    life.pay(life.payment(paid))
    life.void(voided)
    twice = fresh
    batch = [paid, fresh, expired, voided, early, twice, second]
    expected = ["REFUSED", "CANCELLED", "ALREADY", "NOTHING", "PARKED", "CANCELLED", "CANCELLED"]
    first = life.cancels(batch)
    assert [c.result for c in first] == expected
    assert [c.fresh for c in first] == [True] * 5 + [False, True]
    assert [bool(c.outbox) for c in first] == [False, True, False, False, False, False, True]
    books = life.books()
    again = life.cancels(batch[::-1])
    assert [c.result for c in again[::-1]] == expected
    assert not any(c.outbox for c in again)
    assert life.books() == books
    assert life.audit() == 1


def test_two_cancels_of_one_order_in_one_call(life):
    m = placed(life)
    a, b = life.cancels([m, m], ids=[ident(), ident()])
    assert (a.result, b[:2]) == ("CANCELLED", ("ALREADY", "CANCELLED"))
    assert life.audit() == 0


# -- pay


def test_rule27_a_payment_pays_its_order(life):
    m = placed(life, total=1)
    p = life.payment(m)
    assert life.pay(p) == ("PAID", "", True, m.order)
    books = life.books()
    for _ in range(2):
        assert life.pay(p) == ("PAID", "", False, m.order)
    assert life.pay(p._replace(accepted_ms=p.accepted_ms + 5)) == ("PAID", "", False, m.order), "tried again later: the same payment"
    assert life.books() == books
    assert life.status(m) == ("PAID", None) and life.refund(p) == ("APPLIED", None)
    assert life.expire() == [] and life.audit() == 1
    assert life.find(m) == ("SUCCEEDED", "", "PAID", None)


def test_without_a_reservation_too(life):
    """A payment names item, user, request and order."""
    m = placed(life)
    assert life.pay(life.payment(m, reservation=None)).result == "PAID"
    n = life.message()
    p = life.payment(n, reservation=None)
    assert life.pay(p).result == "PARKED"
    life.place([n])
    assert [s[1] for s in life.sweep()] == [p.message]
    assert life.pay(p).result == "PAID"


def test_one_payment_id_is_one_payment(life):
    m = placed(life)
    other = life.message()
    life.place([other])
    p = life.payment(m)
    life.pay(p)
    for fresh in (True, False):
        for forged in (life.payment(other, payment=p.payment), life.payment(other, payment=p.payment, message=p.message),
                       p._replace(order=other.order), p._replace(user=other.user), p._replace(request=ident())):
            assert life.pay(forged)[:2] == ("REFUSED", "PAYMENT_ID_REUSED")
    assert life.status(other) == ("CREATED", None)
    assert life.pay(p)[:2] == ("PAID", "")
    again = p._replace(message=ident())  # another message of the same payment
    assert life.pay(again) == ("PAID", "", True, m.order)
    assert life.pay(again) == ("PAID", "", False, m.order)
    assert life.scalar("SELECT count(*) FROM payments WHERE activity_id = %s", life.activity) == 1


def test_a_parked_payments_id_is_taken(life):
    life.item(2)
    m, other = life.messages(2)
    p = life.payment(m)
    assert life.pay(p)[:3] == ("PARKED", "", True)
    life.place([other])
    assert life.pay(life.payment(other, payment=p.payment, message=p.message))[:2] == ("REFUSED", "PAYMENT_ID_REUSED")
    assert life.parked() == (1, 0) and life.status(other) == ("CREATED", None)
    life.place([m])
    assert life.pay(p).result == "PAID"
    assert life.parked() == (0, 1)


def test_the_second_payment_of_an_order_is_refunded(life):
    m = placed(life)
    a, b, c = (life.payment(m) for _ in range(3))
    life.pay(a)
    for fresh in (True, False):
        assert life.pay(b) == ("REFUNDED", "ALREADY_PAID", fresh, m.order)
    assert life.refund(b) == ("REFUNDED", "ALREADY_PAID")
    n = life.message()
    life.place([n])
    early, late = life.payment(n, 1_700_000_000_000), life.payment(n, 1_700_000_000_001)
    assert [r.result for r in life.pays([late, c, early])] == ["REFUNDED", "REFUNDED", "PAID"]
    assert life.sold() == 2


@pytest.mark.parametrize("how", ["CANCELLED", "EXPIRED"])
def test_a_late_payment_is_refunded_and_the_stock_untouched(life, how):
    m = placed(life)
    if how == "CANCELLED":
        life.cancel(m)
    else:
        life.expire()
    p = life.payment(m)
    books = life.books()
    for fresh in (True, False):
        assert life.pay(p) == ("REFUNDED", how, fresh, m.order)
    assert life.refund(p) == ("REFUNDED", how)
    assert life.scalar("SELECT count(*) FROM refunds WHERE payment_id = %s", p.payment) == 1
    assert life.books()[:4] == books[:4] and life.sold() == 0
    assert life.status(m)[1] == how


def test_a_payment_of_what_never_became_an_order_is_refunded(life):
    life.item(1)
    m = life.message()
    life.void(m)
    p = life.payment(m)
    for fresh in (True, False):
        assert life.pay(p) == ("REFUNDED", "VOID", fresh, None)
    assert life.refund(p) == ("REFUNDED", "VOID")


def test_rule27_a_payment_before_its_order_is_parked(life):
    life.item(1)
    m = life.message()
    p = life.payment(m, accepted_ms=2_000)
    assert life.pay(p) == ("PARKED", "", True, None)
    assert life.pay(p._replace(accepted_ms=1_000)).result == "PARKED"
    assert life.pay(p._replace(accepted_ms=9_000)).result == "PARKED"
    assert life.refund(p) == ("ACCEPTED", None)
    assert life.scalar("SELECT extract(epoch FROM accepted_at) FROM payments WHERE payment_id = %s", p.payment) == 1
    assert life.sold() == 0
    life.place([m])
    assert life.sweep() == [("ORDER_PAY_REQUESTED", p.message, False)]
    assert life.pay(p) == ("PAID", "", True, m.order)
    assert life.parked() == (0, 1)
    for _ in range(2):
        assert life.pay(p) == ("PAID", "", False, m.order)


def test_rule27_cancel_and_payment_parked_for_the_same_order(life):
    """Whichever is run first is the one that counts."""
    for first in ("pay", "cancel"):
        life.item(1)
        m = life.message()
        p = life.payment(m)
        life.cancel(m)
        life.pay(p)
        life.place([m])
        assert len(life.sweep()) == 2
        if first == "pay":
            assert (life.pay(p).result, life.cancel(m).result) == ("PAID", "REFUSED")
        else:
            assert (life.cancel(m).result, life.pay(p)[:2]) == ("CANCELLED", ("REFUNDED", "CANCELLED"))
        life.audit()


def test_a_batch_of_payments(life):
    life.item(8)
    a, b, c, early = life.messages(4)
    life.place([a, b, c])
    life.cancel(b)
    ps = [life.payment(m) for m in (a, b, c, early)]
    batch = ps + [ps[0], ps[3], ps[2]._replace(order=7)]
    expected = ["PAID", "REFUNDED", "PAID", "PARKED", "PAID", "PARKED", "REFUSED"]
    first = life.pays(batch)
    assert [r.result for r in first] == expected
    assert [r.fresh for r in first[:6]] == [True] * 4 + [False] * 2
    books = life.books()
    assert [r.result for r in life.pays(batch[::-1])[::-1][1:6]] == expected[1:6]
    assert life.books() == books
    assert life.audit() == 2


# -- expire


def test_expire_closes_the_unpaid_the_oldest_first(life):
    life.item(10)
    ms = life.messages(5)
    for m in ms:
        life.place([m])
    life.pay(life.payment(ms[0]))
    assert life.expire(before_ms=now_ms() - MINUTE) == []
    assert sorted(life.expire(most=2)) == [ms[1].order, ms[2].order]
    assert sorted(life.expire()) == [ms[3].order, ms[4].order]
    assert life.expire() == []
    assert life.status(ms[1]) == ("CLOSED", "EXPIRED")
    assert life.words(ms[1]) == [("CANCELLED", "EXPIRED", True, ms[1].order)]
    assert life.find(ms[1]) == ("CANCELLED", "EXPIRED", "CLOSED", None)
    assert life.audit() == 1


def test_rule31_a_payment_accepted_in_time_holds_its_order(life):
    """It was parked, and only its turn has not come."""
    life.item(3)
    intime, late, none = ms = life.messages(3)
    p = life.payment(intime)
    q = life.payment(late, accepted_ms=now_ms() + UNPAID_MS + MINUTE)
    life.pays([p, q])
    life.place(ms)
    assert sorted(life.expire()) == [late.order, none.order]
    assert life.expire() == []
    assert life.pay(p).result == "PAID"
    assert life.pay(q)[:2] == ("REFUNDED", "EXPIRED")
    assert life.audit() == 1


def test_several_workers_share_the_unpaid(life, database):
    life.item(20)
    life.place(life.messages(12))
    with database.connect() as a, database.connect() as b:
        a.execute("BEGIN")
        one = life.expire(a, most=5)
        # The inventory row is a's until it ends: b takes orders, and waits there only.
        b.execute("SET lock_timeout = '100ms'")
        b.execute("BEGIN")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            life.expire(b, most=20)
        b.execute("ROLLBACK")
        a.execute("COMMIT")
        two = life.expire(b, most=20)
    assert len(one) == 5 and len(two) == 7 and not set(one) & set(two)
    assert life.audit() == 0


@pytest.fixture
def fresh(database):
    """A life in tables that were empty when this session made its plans, and have no statistics since."""
    with database.connect() as c:
        c.execute("CREATE DATABASE fresh")
    try:
        with psycopg.connect(database.conninfo.replace("dbname=postgres", "dbname=fresh"), autocommit=True,
                             prepare_threshold=None) as c:
            for path in sorted(glob.glob(f"{SOURCE}/sql/[0-9]*.sql")):
                c.execute(open(path).read())
            for (table,) in c.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace").fetchall():
                c.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            yield Life(database, c)
    finally:
        with database.connect() as c:
            c.execute("DROP DATABASE fresh WITH (FORCE)")


def test_nothing_walks_what_is_over(fresh):
    """Beside thousands of paid orders, their commands and payments, each call reads a few rows."""
    life = fresh.item(5000)

    def everything(n):
        paid, early, left = (life.messages(n) for _ in range(3))
        ps = [life.payment(m) for m in paid + early]
        life.cancels(left[:1])
        life.place(paid + left)
        life.pays(ps)
        life.place(early)
        assert len(life.sweep(most=200)) == n + 1
        life.pays(ps[n:])
        life.cancels(paid[:1] + left[:1])
        assert len(life.expire(most=200)) == n - 1
        life.cancels(left)
        life.find(paid[0])

    everything(3)
    for _ in range(8):
        everything(150)
        life.c.execute("VACUUM orders, payments, parked_commands")

    def fetched():
        life.c.execute("SELECT pg_stat_force_next_flush()")
        return dict(life.c.execute("SELECT relname, idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables WHERE relname IN "
                                   "('orders', 'consumer_inbox', 'payments', 'refunds', 'parked_commands', 'stock_ledger', 'outbox')").fetchall())

    before = fetched()
    everything(3)
    after = fetched()
    assert {t: after[t] - before[t] for t in after if after[t] - before[t] > 150} == {}
    life.c.execute("ANALYZE")
    life.audit()


# -- total


def test_the_total_is_raised_and_lowered_and_never_below_what_is_sold(life):
    life.item(2)

    ms = life.messages(4)
    life.place(ms[:2])
    assert life.place([ms[2]])[0].reason == "PG_STOCK_EXHAUSTED"
    for result in ("CHANGED", "SAME"):
        assert life.total(3) == (result, 3, 2)
    assert life.place([ms[3]])[0].outcome == CREATED
    for _ in range(2):
        assert life.total(2) == ("BELOW_SOLD", 3, 3)
    life.cancel(ms[0])
    for result in ("CHANGED", "SAME"):
        assert life.total(2) == (result, 2, 2)
    assert life.place([life.message()])[0].outcome == REJECTED
    assert life.total(-1)[0] == "BELOW_SOLD"
    assert life.audit() == 2


def test_the_total_is_changed_by_who_saw_it(life):
    """Rule 7. Of two at the same time one does it; a rebuild in between brings back what was lowered in Redis, so it is nothing here."""
    life.item(5)
    assert life.total(3, seen=4) == ("ANOTHER", 5, 0)
    assert life.total(3, seen=5) == ("CHANGED", 3, 0)
    assert life.total(3, seen=5) == ("SAME", 3, 0)  # its answer was lost
    assert life.total(4, seen=5) == ("ANOTHER", 3, 0) and life.total(4, epoch=2) == ("ANOTHER", 3, 0)
    life.audit()


# -- the whole


def test_scenario_9_expired_sold_to_another_and_paid_late(life):
    """Stock 1: A's order expires, B buys, A's payment arrives → A refunded, stock untouched."""
    a = placed(life, total=1)
    b = life.message()
    assert life.place([life.message()])[0].reason == "PG_STOCK_EXHAUSTED"
    assert life.expire() == [a.order]
    assert life.place([b])[0].outcome == CREATED
    pa, pb = life.payment(a), life.payment(b)
    assert life.pay(pa)[:2] == ("REFUNDED", "EXPIRED")
    assert life.pay(pb).result == "PAID"
    assert life.sold() == 1 and life.audit() == 1
    assert (life.status(a)[0], life.status(b)[0]) == ("CLOSED", "PAID")
    assert life.expire() == [] and life.cancel(b)[:2] == ("REFUSED", "PAID")


def test_a_command_of_an_order_whose_inbox_row_is_gone(life):
    """Retention took the message's row; the order is there."""
    m = placed(life)
    life.c.execute("DELETE FROM consumer_inbox WHERE message_id = %s", (m.message,))
    assert life.cancel(m).result == "CANCELLED"
    # and back, for the audit
    life.place([m])
    life.c.execute("DELETE FROM outbox WHERE reservation_id = %s AND event_type = 'RESERVATION_SETTLED'", (m.reservation,))


def test_a_commands_row_is_not_a_messages_outcome(life):
    """What reads the inbox for order messages does not see commands."""
    life.item(1)
    m = life.message()
    life.void(m)
    p = life.payment(m)
    life.pay(p)
    life.cancel(m)
    assert life.find(m)[:3] == ("FAILED", "VOID", None)
    assert life.c.execute("SELECT * FROM seckill_inbox(%s)", ([p.message, life.cancel_id(m)],)).fetchall() == []
    assert life.inbox(m._replace(message=p.message)) == ("REJECTED", "VOID", None)


def test_behind_pgbouncer_in_transaction_mode(life, database):
    life.item(40)
    with PrivateBouncer(database, default_pool_size=1) as bouncer:
        a, b = (psycopg.connect(bouncer.conninfo, autocommit=True, prepare_threshold=None) for _ in range(2))
        for x, y in ((a, b), (b, a)):
            ms = life.messages(4)
            assert life.cancel(ms[3], x).result == "PARKED"
            life.place(ms, y)
            assert life.pay(life.payment(ms[0]), x).result == "PAID"
            assert life.cancel(ms[1], y).result == "CANCELLED"
            assert len(life.sweep(x)) == 1
            assert life.cancel(ms[3], y).result == "CANCELLED"
            assert life.expire(x) == [ms[2].order]
        a.close()
        b.close()
    assert life.audit() == 2


# --- commands that fail by their own fault (rule 20) ---

def failed(life, *commands, most=3):
    return life.scalar("SELECT seckill_parked_failed(%s, 'boom', %s)", list(commands), most)


def test_rule20_a_parked_command_that_fails_too_often_is_put_away(life):
    life.item(5)
    bad, good = life.messages(2)
    life.cancels([bad, good])
    ids = [life.cancel_id(m) for m in (bad, good)]
    assert [failed(life, ids[0]) for _ in range(3)] == [0, 0, 1]
    assert failed(life, ids[0]) == 0, "once"
    assert life.parked() == (1, 1)
    assert life.c.execute("SELECT status, command FROM consumer_inbox WHERE message_id = %s", (ids[0],)).fetchone() == (
        "QUARANTINED", "ORDER_CANCEL_REQUESTED")
    assert life.c.execute("SELECT body, deliveries, user_id FROM dead_letters WHERE message_id = %s", (ids[0],)).fetchone() == (
        b"cancel", 3, bad.user)
    life.place([bad, good])
    life.unclaim()
    assert [row[1] for row in life.sweep()] == [ids[1]], "it is swept no more"
    assert life.cancel(bad).result == "QUARANTINED"
    # replayed: a new life, with its failures forgotten; the order is there now
    letter = life.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", ids[0])
    assert life.c.execute("SELECT message_id FROM seckill_replay(%s)", (letter,)).fetchone() == (ids[0],)
    assert life.c.execute("SELECT generation, attempts FROM consumer_attempt_log WHERE message_id = %s", (ids[0],)).fetchone() == (2, 0)
    assert life.cancel(bad).result == "CANCELLED"
    assert life.cancel(good).result == "CANCELLED"


def test_rule25_a_replayed_command_can_be_parked_again(life):
    life.item(5)
    m = life.message()
    life.cancel(m)
    command = life.cancel_id(m)
    assert failed(life, command, most=1) == 1
    letter = life.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", command)
    life.c.execute("SELECT * FROM seckill_replay(%s)", (letter,))
    assert life.cancel(m).result == "PARKED" and life.parked() == (1, 0)
    life.place([m])
    assert [row[1] for row in life.sweep()] == [command]
    assert life.cancel(m).result == "CANCELLED"


def test_a_quarantined_payment_names_no_reservation(life):
    """It could not be stored before, and came back for ever."""
    life.item(5)
    m = life.message()
    p = life.payment(m)
    put = ("SELECT stored FROM seckill_quarantine_all(%s, %s, %s::uuid[], %s::uuid[], %s::uuid[], %s, %s, %s, %s, %s, %s::int[], %s)",
           ([life.activity], [life.sku], [p.message], [p.request], ["00000000-0000-0000-0000-000000000000"], [p.user], [p.order], ["1-0"], [b"pay"],
            ["broken"], [8], ["ORDER_PAY_REQUESTED"]))
    assert life.c.execute(*put).fetchall() == [(True,)]
    assert life.c.execute("SELECT status, command, result FROM consumer_inbox WHERE message_id = %s", (p.message,)).fetchone() == (
        "QUARANTINED", "ORDER_PAY_REQUESTED", None)
    assert life.find(m) is None, "it is no order message"
    assert life.pay(p).result == "QUARANTINED"
    letter = life.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", p.message)
    life.c.execute("SELECT * FROM seckill_replay(%s)", (letter,))
    life.place([m])
    assert life.pay(p).result == "PAID"


def test_rule20_attempts_of_commands_are_counted_by_generation(life):
    """consumer_attempt_log: own failures only, of whatever message; a replay begins at 0."""
    m = life.message()
    life.item(5)
    for n in (1, 2, 3):
        assert life.scalar("SELECT attempts FROM seckill_count_attempts(%s, %s)", [m.message], f"kind {n}") == n
    row = "SELECT generation, attempts, last_error_kind, consumer_group, last_at >= first_at FROM consumer_attempt_log WHERE message_id = %s"
    assert life.c.execute(row, (m.message,)).fetchone() == (1, 3, "kind 3", "seckill-order-create-v1", True)
    life.quarantine(m)
    letter = life.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", m.message)
    life.c.execute("SELECT * FROM seckill_replay(%s)", (letter,))
    assert life.c.execute(row, (m.message,)).fetchone()[:2] == (2, 0)
    # what settles by itself (an order, a void) counts nothing
    voided = life.message()
    life.place([m])
    life.void(voided)
    assert life.c.execute("SELECT attempts FROM seckill_attempts(%s) ORDER BY ord", ([m.message, voided.message],)).fetchall() == [(0,), (0,)]
