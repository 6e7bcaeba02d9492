"""settle.lua, progress.lua, release.lua. Rules 2–8."""
import random
import threading

import pytest
from sale import Buyer

SETTLED, IGNORED, LATER, UNREADABLE = "0", "1", "2", "3"

SUCCEEDED = dict(state="SUCCEEDED")
SOLD_OUT = dict(state="SOLD_OUT", reason="PG_STOCK_EXHAUSTED")
COLLISION = dict(state="REJECTED", reason="ID_COLLISION", back=True)
VOID = dict(state="FAILED", reason="VOID", back=True)
LOST_ORDER = dict(state="FAILED", reason="LOST_ORDER", back=True)
CANCELLED = dict(state="CANCELLED", reason="CANCELLED", rank=4, back=True)
EXPIRED = dict(state="CANCELLED", reason="EXPIRED", rank=4, back=True)
PROCESSING = dict(state="PROCESSING", rank=2)


def bought(sale, user=1, **how):
    b = Buyer(user)
    assert sale.reserve(b, **how).code == 0
    return b


@pytest.mark.parametrize("verdict,status,stock,holds", [
    (SUCCEEDED, "ORDERED", 4, True),
    (SOLD_OUT, "RELEASED", 4, False),  # rule 4: that unit never existed
    (COLLISION, "RELEASED", 5, False),
    (VOID, "RELEASED", 5, False),
    (CANCELLED, "RELEASED", 5, False),  # rule 3: taken from any lower rank
])
@pytest.mark.parametrize("stream", [True, False])
def test_each_verdict_once(sale, verdict, status, stock, holds, stream):
    sale.open(5)
    b = bought(sale, stream=stream)
    seq = sale.seq()
    a = sale.settle(dict(b=b, **verdict))
    assert (a.code, a.rest) == (0, SETTLED)
    record = sale.record(b)
    assert record["status"] == status and record["state"] == verdict["state"]
    assert record.get("reason", "") == verdict.get("reason", "")
    assert record["rank"] == str(verdict.get("rank", 3))
    assert record["reservation_id"] == b.reservation and record["order_id"] == b.order
    assert sale.stock() == stock
    assert sale.buyers() == ({"1": b.packed} if holds else {})
    assert sale.waiting() == []
    assert a.seq == sale.seq() == (seq if holds else seq + 1)  # rule 7
    before = sale.everything()
    assert sale.settle(dict(b=b, **verdict)).rest == IGNORED
    assert sale.everything() == before


def test_a_released_key_tells_its_reason_and_a_new_one_may_compete(sale):
    sale.open(1)
    b = bought(sale)
    sale.settle(dict(b=b, **VOID))
    assert sale.reserve(b).record["reason"] == "VOID"
    assert sale.reserve(Buyer(1)).code == 0


RANK = {"PROCESSING": 2, "SUCCEEDED": 3, "SOLD_OUT": 3, "REJECTED": 3, "FAILED": 3, "CANCELLED": 4}


@pytest.mark.parametrize("first", [SUCCEEDED, SOLD_OUT, COLLISION, VOID, CANCELLED])
@pytest.mark.parametrize("second", [PROCESSING, SUCCEEDED, SOLD_OUT, COLLISION, VOID, LOST_ORDER, CANCELLED, EXPIRED])
@pytest.mark.parametrize("together", [False, True])
def test_a_higher_rank_wins_at_equal_rank_the_first(sale, first, second, together):
    """Rule 3, for each pair, in two calls and in one."""
    sale.open(5)
    b = bought(sale)
    if together:
        a = sale.settle(dict(b=b, **first), dict(b=b, **second)).rest
        assert a[0] == SETTLED
        a = a[1]
    else:
        sale.settle(dict(b=b, **first))
        a = sale.settle(dict(b=b, **second)).rest
    wins = RANK[second["state"]] > RANK[first["state"]] or (first is SUCCEEDED and second is LOST_ORDER)
    assert a == (SETTLED if wins else IGNORED)
    last = second if wins else first
    assert sale.record(b)["state"] == last["state"]
    ordered = last is SUCCEEDED
    assert sale.record(b)["status"] == ("ORDERED" if ordered else "RELEASED")  # rule 1: RELEASED is final
    assert (sale.buyers() == {}) == (not ordered)
    # The unit comes back once at most, and never after PG_STOCK_EXHAUSTED (rule 4).
    gone = ordered or first is SOLD_OUT or last is SOLD_OUT
    assert sale.stock() == (4 if gone else 5)


def test_no_such_reservation_is_done(sale):
    """Rule 2."""
    sale.open(5)
    b = bought(sale)
    before = sale.everything()
    for row in (dict(b=Buyer(2), **SUCCEEDED), dict(b=Buyer(1), **VOID), dict(b=Buyer(1, b.request), **VOID)):
        assert sale.settle(row).rest == IGNORED
        assert sale.everything() == before


def test_what_is_settled_or_gone_leaves_pending(sale):
    """Rule 2: it removes the reservation from pending, also where there is nothing else to do; and an entry that names one whose record
    is gone with its unit, or its buyer could never buy again."""
    sale.open(5)
    gone, ended, other = bought(sale, 1), bought(sale, 2), bought(sale, 3)
    sale.r.delete(sale.record_key(gone))
    sale.succeed(ended)
    sale.r.zadd(sale.key("pending"), {ended.member: 5})
    stock, seq = sale.stock(), sale.seq()
    rows = [dict(b=gone, **VOID), dict(b=ended, **SUCCEEDED), dict(b=Buyer(3, other.request), **VOID),
            dict(b=other, **PROCESSING)]
    assert sale.settle(*rows).rest == SETTLED + IGNORED * 3
    assert sale.waiting() == [other.member]  # another reservation than the row's: it still waits
    assert (sale.stock(), sale.seq(), sorted(sale.buyers())) == (stock + 1, seq + 1, ["2", "3"])
    assert sale.settle(*rows).rest == IGNORED * 4 and sale.stock() == stock + 1
    assert not sale.r.exists(sale.record_key(gone))


def test_a_broken_record_harms_no_other(sale):
    sale.open(5)
    a, bad, b = bought(sale, 1), bought(sale, 2), bought(sale, 3)
    sale.r.delete(sale.record_key(bad))
    sale.r.set(sale.record_key(bad), "x")
    assert sale.settle(dict(b=a, **SUCCEEDED), dict(b=bad, **VOID), dict(b=b, **VOID)).rest == SETTLED + UNREADABLE + SETTLED
    assert sale.record(a)["status"] == "ORDERED" and sale.record(b)["status"] == "RELEASED"
    assert sale.r.get(sale.record_key(bad)) == "x" and sale.waiting() == [bad.member]
    c = bought(sale, 4)
    assert sale.progress(bad, c).rest == "1" and sale.record(c)["state"] == "PROCESSING"


def test_another_epoch_is_later(sale):
    """Rule 2: during a rebuild the outbox row stays unsettled, also of what is not there."""
    sale.open(5)
    old, new, gone = bought(sale, 1), bought(sale, 2), Buyer(3)
    sale.r.hset(sale.key("meta"), mapping={"epoch": 2, "rebuild": 2})
    sale.r.hset(sale.record_key(new), "epoch", 2)  # a survivor
    before = sale.everything()
    a = sale.settle(dict(b=old, **VOID), dict(b=new, **SUCCEEDED), dict(b=gone, **VOID))
    assert a.rest == LATER * 3 and a.epoch == 2 and sale.everything() == before


def test_what_a_rebuild_did_not_find(sale):
    """Rule 36: it is told its end, and no unit comes back for it."""
    sale.open(5)
    old, new = bought(sale, 1), bought(sale, 2)
    sale.r.hset(sale.key("meta"), "epoch", 2)
    sale.r.hset(sale.record_key(new), "epoch", 2)  # a survivor
    assert sale.settle(dict(b=old, **VOID), dict(b=new, **SUCCEEDED)).rest == SETTLED * 2
    assert sale.record(old)["status"] == "RELEASED" and sale.record(old)["state"] == "FAILED"
    assert sale.stock() == 3
    assert sale.record(new)["status"] == "ORDERED" and sale.waiting() == []


def test_without_meta_it_is_later(sale):
    sale.open(5)
    old = bought(sale, 1)
    sale.r.delete(sale.key("meta"))
    assert sale.settle(dict(b=old, **VOID)).rest == LATER


def test_without_stock_it_is_later(sale):
    sale.open(5)
    b = bought(sale)
    sale.r.delete(sale.key("stock"))
    before = sale.everything()
    assert sale.settle(dict(b=b, **VOID)).rest == LATER
    assert sale.everything() == before


def test_cancelled_and_bought_again_an_old_release_changes_nothing(sale):
    """Rule 5: buyers is removed only if its value is this reservation."""
    sale.open(5)
    first = bought(sale)
    sale.succeed(first)
    sale.cancel(first)
    second = bought(sale)
    before = sale.everything()
    for late in (VOID, CANCELLED, EXPIRED, LOST_ORDER, SOLD_OUT):
        assert sale.settle(dict(b=first, **late)).rest == IGNORED
        assert sale.everything() == before
    # Even a release that has not been seen yet leaves the new holder alone.
    sale.r.hset(sale.key("buyers"), "1", second.packed)
    sale.r.hset(sale.record_key(first), mapping=dict(status="ORDERED", state="SUCCEEDED", rank=3))
    assert sale.cancel(first).rest == SETTLED
    assert sale.buyers() == {"1": second.packed}
    assert sale.record(second)["status"] == "MQ_SENT" and second.member in sale.waiting()


# --- rule 5: ONE_USER_ONE_ORDER ---

def two_of_one_user(sale):
    """The user has an active order in PostgreSQL that Redis's buyers forgot; the same user gets a second unit."""
    first = bought(sale)
    sale.succeed(first)
    sale.r.hdel(sale.key("buyers"), "1")
    return first, bought(sale)


ONE = dict(state="REJECTED", reason="ONE_USER_ONE_ORDER", back=True)


def test_one_user_one_order_gives_buyers_the_existing_order(sale):
    sale.open(5)
    first, second = two_of_one_user(sale)
    assert sale.settle(dict(b=second, other=first, **ONE)).rest == SETTLED
    assert sale.buyers() == {"1": first.packed}
    assert sale.stock() == 4
    record = sale.record(second)
    assert record["status"] == "RELEASED" and record["reason"] == "ONE_USER_ONE_ORDER"
    assert record["order_id"] == first.order and record["reservation_id"] == first.reservation
    assert sale.record(first)["status"] == "ORDERED"
    # Cancelled later, the user may buy again.
    sale.cancel(first)
    assert sale.buyers() == {} and sale.stock() == 5
    assert sale.reserve(Buyer(1)).code == 0


def test_one_user_one_order_whose_order_redis_lost(sale):
    """Rules 4, 5: an order of a message whose reservation a rebuild did not find. Its buyer came again, and the unit of that stays with
    the entry: nobody else is sold it. When the order ends, unit and entry do, once, and its buyer may buy again."""
    sale.open(5)
    second = bought(sale)
    first = Buyer(1)
    assert sale.settle(dict(b=second, other=first, **ONE)).rest == SETTLED
    assert sale.buyers() == {"1": first.packed} and sale.stock() == 4
    assert sale.record(second)["status"] == "RELEASED"
    before = sale.everything()
    assert sale.settle(dict(b=first, state="SUCCEEDED")).rest == IGNORED and sale.everything() == before
    seq = sale.seq()
    for rest in (SETTLED, IGNORED):
        assert sale.cancel(first).rest == rest
        assert sale.buyers() == {} and sale.stock() == 5
    assert sale.seq() == seq + 1  # rule 7
    assert sale.reserve(Buyer(1)).code == 0


def test_one_user_one_order_whose_order_was_released_removes_the_entry(sale):
    sale.open(5)
    first, second = two_of_one_user(sale)
    sale.cancel(first)
    assert sale.settle(dict(b=second, other=first, **ONE)).rest == SETTLED
    assert sale.buyers() == {} and sale.stock() == 5


def test_one_user_one_order_released_in_the_same_call(sale):
    sale.open(5)
    first, second = two_of_one_user(sale)
    assert sale.settle(dict(b=first, **CANCELLED), dict(b=second, other=first, **ONE)).rest == SETTLED * 2
    assert sale.buyers() == {} and sale.stock() == 5


def test_one_user_one_order_leaves_a_third_holder_alone(sale):
    sale.open(5)
    first, second = two_of_one_user(sale)
    third = Buyer(1)
    sale.r.hset(sale.key("buyers"), "1", third.packed)
    sale.settle(dict(b=second, other=first, **ONE))
    assert sale.buyers() == {"1": third.packed}


def test_the_same_keys_earlier_order_is_what_the_record_shows(sale):
    """Rules 5, 19: Redis forgot the request; its second reservation ends as the first order. The unit that it took here is that order's
    now, which took none here: free + held = total, also when that order is cancelled."""
    sale.open(5)
    second = bought(sale)
    first = Buyer(1, second.request)
    a = sale.settle(dict(b=second, state="SUCCEEDED", back=True, other=first))
    assert a.rest == SETTLED
    record = sale.record(second)
    assert record["status"] == "ORDERED" and record["reservation_id"] == first.reservation
    assert record["order_id"] == first.order
    assert sale.buyers() == {"1": first.packed} and sale.stock() == 4
    before = sale.everything()
    assert sale.settle(dict(b=second, state="SUCCEEDED", back=True, other=first)).rest == IGNORED  # once
    assert sale.everything() == before
    assert sale.cancel(first).rest == SETTLED
    assert sale.buyers() == {} and sale.stock() == 5 and sale.record(first)["status"] == "RELEASED"


def test_the_same_keys_earlier_order_that_is_cancelled(sale):
    sale.open(5)
    second = bought(sale)
    first = Buyer(1, second.request)
    sale.settle(dict(b=second, other=first, **CANCELLED))
    record = sale.record(second)
    assert record["status"] == "RELEASED" and record["state"] == "CANCELLED" and record["order_id"] == first.order
    assert sale.buyers() == {} and sale.stock() == 5


# --- many rows, news ---

def test_many_rows_are_one_step_and_one_message(connect, sale):
    """Rule 7: one seq + 1 and one PUBLISH per call that changed buyers or raised stock."""
    sale.open(200)
    news = connect().pubsub()
    news.subscribe("sec:news")
    assert news.get_message(timeout=5)["type"] == "subscribe"
    buyers = [bought(sale, u) for u in range(1, 101)]
    seq = sale.seq()
    assert sale.settle(*[dict(b=b, **SUCCEEDED) for b in buyers]).rest == SETTLED * 100
    assert sale.seq() == seq
    rows = [dict(b=b, **(CANCELLED if i % 2 else SUCCEEDED)) for i, b in enumerate(buyers)]
    a = sale.settle(*rows)
    assert a.rest == (IGNORED + SETTLED) * 50
    assert a.seq == sale.seq() == seq + 1 and sale.stock() == 150 and len(sale.buyers()) == 50
    assert news.get_message(timeout=5)["data"] == f"{sale.item} 1 {seq + 1}"
    assert news.get_message(timeout=0.05) is None
    news.close()


def test_the_largest_batch(sale):
    sale.open(300)
    buyers = [bought(sale, u) for u in range(1, 257)]
    assert sale.settle(*[dict(b=b, **VOID) for b in buyers]).rest == SETTLED * 256
    assert sale.stock() == 300 and sale.buyers() == {} and sale.waiting() == []


def test_releases_racing_a_hundred_times_give_back_one_unit(connect, sale):
    sale.open(5)
    b = bought(sale)
    sale.succeed(b)
    keys = {v["reason"]: sale.settle_call(dict(b=b, **v)) for v in (CANCELLED, EXPIRED, VOID, LOST_ORDER)}
    calls = list(keys.values()) * 25
    random.shuffle(calls)

    def run(part):
        client = connect()
        for k, args in part:
            client.evalsha(sale.shas["settle"], len(k), *k, *args)
    pool = [threading.Thread(target=run, args=(calls[i::8],)) for i in range(8)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    assert sale.stock() == 5 and sale.buyers() == {} and sale.record(b)["status"] == "RELEASED"


def test_nothing_leaks_in_a_random_walk(sale):
    """I5, on Redis alone: free + held = total after any sequence of reserves and settles; rule 4's units are gone."""
    rng = random.Random(4)
    sale.open(20)
    live, exhausted = [], 0
    for _ in range(1500):
        if rng.random() < 0.5:
            b = Buyer(rng.randint(1, 30))
            if sale.reserve(b).code == 0:
                live.append(b)
        elif live:
            b = rng.choice(live)
            v = rng.choice([SUCCEEDED, SUCCEEDED, SOLD_OUT, VOID, CANCELLED, EXPIRED, LOST_ORDER])
            held = sale.record(b)["status"] != "RELEASED"
            if sale.settle(dict(b=b, **v)).rest == SETTLED and v is SOLD_OUT and held:
                exhausted += 1
        holders = sale.buyers()
        assert sale.stock() + len(holders) + exhausted == 20
    for b in live:
        mine = sale.buyers().get(b.user) == b.packed
        assert mine == (sale.record(b)["status"] != "RELEASED")


# --- progress (rule 6) ---

def test_progress_raises_rank_one_to_two_and_nothing_else(sale):
    sale.open(5)
    waits, done, gone, other = bought(sale, 1), bought(sale, 2), Buyer(3), Buyer(4)
    sale.succeed(done)
    replaced = bought(sale, 4)
    other.request = replaced.request  # the same key, another reservation
    seq = sale.seq()
    a = sale.progress(waits, done, gone, other)
    assert a.code == 0 and a.rest == "1"
    assert sale.record(waits)["state"] == "PROCESSING" and sale.record(waits)["rank"] == "2"
    assert sale.record(waits)["status"] == "MQ_SENT" and waits.member in sale.waiting()
    assert sale.record(done)["state"] == "SUCCEEDED"
    assert sale.record(gone) == {}  # never creates one
    assert "state" not in sale.record(replaced)
    assert sale.seq() == seq
    assert sale.progress(waits).rest == "0"
    assert sale.succeed(waits).rest == SETTLED


# --- strict release (rule 8) ---

def test_a_strict_release_is_as_if_it_had_been_refused(sale):
    sale.open(5)
    before = {k: v for k, v in sale.everything().items() if not k.endswith("meta")}
    b = bought(sale, stream=False)
    seq = sale.seq()
    a = sale.release(b)
    assert (a.code, a.seq) == (0, seq + 1) and sale.seq() == seq + 1  # rule 7
    assert {k: v for k, v in sale.everything().items() if not k.endswith("meta")} == before
    assert sale.release(b).code == 1
    assert sale.reserve(b.renew(), stream=False).code == 0  # the same key competes again


@pytest.mark.parametrize("step", [
    lambda s, b: s.mark(b, "MQ_SENT"), lambda s, b: s.mark(b, "MQ_PENDING"), lambda s, b: s.claim(b),
    lambda s, b: s.succeed(b), lambda s, b: s.cancel(b), lambda s, b: s.r.hset(s.key("meta"), "epoch", 2),
])
def test_a_strict_release_only_from_reserved(sale, step):
    sale.open(5)
    b = bought(sale, stream=False)
    step(sale, b)
    before = sale.everything()
    assert sale.release(b).code == 1
    assert sale.everything() == before


def test_a_strict_release_of_another_reservation(sale):
    sale.open(5)
    b = bought(sale, stream=False)
    before = sale.everything()
    assert sale.release(Buyer(1, b.request)).code == 1
    assert sale.everything() == before


def test_a_strict_release_leaves_the_next_holder_alone(sale):
    """Rule 5: buyers is removed only if its value is this reservation."""
    sale.open(5)
    b, next_one = bought(sale, stream=False), Buyer(1)
    sale.r.hset(sale.key("buyers"), "1", next_one.packed)
    assert sale.release(b).code == 0
    assert sale.buyers() == {"1": next_one.packed} and sale.stock() == 5
