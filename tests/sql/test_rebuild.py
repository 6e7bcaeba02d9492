"""A rebuild's functions: who may do it, who holds a unit, what is lost. Rules 35, 36, 37."""
import uuid

import pytest
from sale import CREATED, KNOWN


@pytest.fixture
def item(sale):
    sale.item(10)
    sale.c.execute("UPDATE seckill_inventory SET warmed_at = clock_timestamp() WHERE activity_id = %s", (sale.activity,))
    sale.c.execute("INSERT INTO activities (activity_id, sku_id, starts_at, ends_at, expires_at, opened_at) VALUES (%s, %s, "
                   "clock_timestamp(), clock_timestamp() + interval '1 hour', clock_timestamp() + interval '1 day', clock_timestamp())",
                   (sale.activity, sale.sku))
    return sale


def take(s, epoch, life="me", hold_ms=600000):
    return s.c.execute("SELECT result, epoch, total, state FROM seckill_rebuild_take(%s, %s, %s, %s, 'lost', %s)",
                       (s.activity, s.sku, epoch, life, hold_ms)).fetchone()


def keep(s, epoch, *messages):
    columns = [list(c) for c in zip(*((m.reservation, m.message, m.request, m.user, m.order, m.created_ms, m.epoch)
                                      for m in messages))] or [[]] * 7
    return s.scalar("SELECT seckill_rebuild_keep(%s, %s, %s, %s::uuid[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], "
                    "%s::bigint[], %s::bigint[])", s.activity, s.sku, epoch, *columns)


def count(s, epoch):
    return s.c.execute("SELECT * FROM seckill_rebuild_count(%s, %s, %s)", (s.activity, s.sku, epoch)).fetchone()


def page(s, epoch, after=uuid.UUID(int=0), most=100):
    return s.c.execute("SELECT reservation_id, ordered FROM seckill_rebuild_page(%s, %s, %s, %s, %s)",
                       (s.activity, s.sku, epoch, after, most)).fetchall()


def finish(s, epoch):
    return s.scalar("SELECT seckill_rebuild_finish(%s, %s, %s)", s.activity, s.sku, epoch)


def test_one_at_a_time(item):
    """Rule 35: compare-and-set; somebody without a sign of life for three seconds is followed by the next, who takes along what
    was kept; whoever is followed can do nothing more."""
    waits = item.message()
    assert take(item, 1) == ("TAKEN", 2, 10, "OPEN")
    assert take(item, 1, "another")[0] == "MOVED" and take(item, 2, "another")[0] == "BUSY"
    assert keep(item, 2, waits) and keep(item, 2, waits)
    item.c.execute("UPDATE rebuilds SET beat_at = beat_at - interval '4 seconds' WHERE activity_id = %s", (item.activity,))
    assert take(item, 2, "another")[:2] == ("TAKEN", 3)
    assert not keep(item, 2, item.message()) and count(item, 2) is None and page(item, 2) == [] and not finish(item, 2)
    assert item.scalar("SELECT seckill_rebuild_resettle(%s, %s, 2, 0)", item.activity, item.sku) == -1
    assert count(item, 3) == (10, 0, 1) and page(item, 3) == [(waits.reservation, False)]
    assert finish(item, 3) and finish(item, 3)
    # what the last one kept comes along also when it came to its end: Redis may have lost everything meanwhile
    assert take(item, 3)[:2] == ("TAKEN", 4) and count(item, 4) == (10, 0, 1)
    item.place([waits])
    assert finish(item, 4) and take(item, 4)[:2] == ("TAKEN", 5) and count(item, 5) == (10, 1, 0)


def test_who_holds_a_unit(item):
    """Rule 36: the active orders, and the kept ones without an outcome; also counted anew."""
    ordered, cancelled, voided, away, waits, again = item.messages(6)
    item.place([ordered, cancelled])
    item.cancel(cancelled)
    item.void(voided)
    assert item.quarantine(away)
    again = again._replace(user=ordered.user, request=ordered.request)  # rule 19: it will end with that order
    take(item, 1)
    assert keep(item, 2, ordered, cancelled, voided, away, waits, again)
    for _ in range(2):
        assert count(item, 2) == (10, 1, 2)
    assert dict(page(item, 2)) == {ordered.reservation: True, away.reservation: False, waits.reservation: False}
    first = page(item, 2, most=2)
    assert len(first) == 2 and len(page(item, 2, first[-1][0])) == 1
    item.place([waits])
    assert count(item, 2) == (10, 2, 1)


def test_all_rows_are_to_be_settled_again(item):
    """Rule 36: of this item, and of no other."""
    item.place(item.messages(3))
    mine = item.activity
    item.item(5).place(item.messages(2))
    item.c.execute("UPDATE outbox SET settled_at = clock_timestamp()")
    other, item.activity = item.activity, mine
    take(item, 1)
    step = 0
    while True:
        step = item.scalar("SELECT seckill_rebuild_resettle(%s, %s, 2, %s)", item.activity, item.sku, step)
        if step == 0:
            break
    unsettled = "SELECT count(*) FROM outbox WHERE activity_id = %s AND settled_at IS NULL"
    assert item.scalar(unsettled, mine) == 3 and item.scalar(unsettled, other) == 0
    item.c.execute("UPDATE outbox SET settled_at = clock_timestamp()")


@pytest.mark.parametrize("over", [False, True])
def test_messages_of_an_older_epoch(item, over):
    """Rule 37: after max_hold those that no rebuild found are void, those that survived are not; before it nobody is."""
    survives, lost, known = item.messages(3)
    item.place([known])
    take(item, 1, hold_ms=0 if over else 600000)
    keep(item, 2, survives)
    count(item, 2)
    finish(item, 2)
    new = item.message(epoch=2, seq=4)
    results = item.place([survives, lost, known, new])
    assert [r.outcome for r in results] == [CREATED, KNOWN if over else CREATED, KNOWN, CREATED]
    assert (results[1].state, results[1].reason) == (("FAILED", "LOST_RESERVATION") if over else ("SUCCEEDED", ""))
    # rule 34b: the item's seq is that of its epoch alone
    assert item.scalar("SELECT seq FROM seckill_inventory WHERE activity_id = %s", item.activity) == 4
    item.audit()


def rebuild(s, epoch, *kept, hold_ms=600000):
    """A whole one, from that epoch to the next."""
    assert take(s, epoch, hold_ms=hold_ms)[0] == "TAKEN"
    assert keep(s, epoch + 1, *kept) and count(s, epoch + 1) and finish(s, epoch + 1)


def found(s, m):
    """What query-api hears of the request: (status, state, reason, order_id), or None."""
    return s.c.execute("SELECT status, state, reason, inbox_order_id FROM seckill_find_request(%s, %s, %s, %s)",
                       (s.activity, s.sku, m.user, m.request)).fetchone()


def lost_epoch(s, told=True):
    return s.scalar("SELECT seckill_lost_epoch(%s, %s, %s)", s.activity, s.sku, told)


def test_what_is_lost_stays_lost(item):
    """Rule 37: a second rebuild gives no time back to what the first one's had ended; and takes none from what came after that."""
    lost, later = item.message(), item.message(epoch=2)
    rebuild(item, 1, hold_ms=0)
    assert lost_epoch(item) == 2
    rebuild(item, 2)
    assert lost_epoch(item) == 2
    results = item.place([lost, later])
    assert [(r.state, r.reason) for r in results] == [("FAILED", "LOST_RESERVATION"), ("SUCCEEDED", "")]
    item.audit()


def test_a_survivor_of_one_rebuild_is_lost_by_none(item):
    """Rules 36, 37: it is held, known and makes an order, also when Redis was empty at the second."""
    survives = item.message()
    rebuild(item, 1, survives, hold_ms=0)
    assert found(item, survives) == ("KEPT", "PROCESSING", "", survives.order)
    rebuild(item, 2, hold_ms=0)
    assert found(item, survives)[0] == "KEPT"
    assert [r.outcome for r in item.place([survives])] == [CREATED]
    assert found(item, survives)[:2] == ("COMPLETED", "SUCCEEDED")
    item.audit()


def test_an_attempt_without_an_end_loses_nothing(item):
    """Rule 37: Redis may never have been closed at it, and sell on at the epoch before."""
    assert take(item, 1, hold_ms=0)[0] == "TAKEN"
    assert lost_epoch(item, told=False) == 0
    assert [r.outcome for r in item.place(item.messages(2))] == [CREATED, CREATED]


def test_no_order_of_what_is_told_as_lost(item):
    """Rule 37: the order function stops before buyers are told, by the time that a call may take."""
    rebuild(item, 1, hold_ms=600000)
    void, told = item.c.execute("SELECT extract(epoch FROM void_after - finished_at), extract(epoch FROM lost_after - finished_at) "
                                "FROM rebuilds WHERE activity_id = %s", (item.activity,)).fetchone()
    assert (void, told) == (585, 600)
    item.c.execute("UPDATE rebuilds SET void_after = clock_timestamp() WHERE activity_id = %s", (item.activity,))
    item.c.execute("UPDATE seckill_inventory SET lost_after = clock_timestamp() WHERE activity_id = %s", (item.activity,))
    assert lost_epoch(item) == 0 and lost_epoch(item, told=False) == 2
    lost = item.message()
    assert item.place([lost])[0].reason == "LOST_RESERVATION"


def test_an_old_state_brings_nothing_back(item):
    """Rule 37: Redis comes back with a reservation that was told as lost: it is void, and not kept."""
    lost, new = item.message(), item.message(epoch=2)
    rebuild(item, 1, hold_ms=0)
    take(item, 2)
    assert keep(item, 3, lost, new) and count(item, 3) == (10, 0, 1)
    assert item.inbox(lost)[:2] == ("REJECTED", "LOST_RESERVATION") and found(item, lost)[1] == "FAILED"
    assert dict(page(item, 3)) == {new.reservation: False}
