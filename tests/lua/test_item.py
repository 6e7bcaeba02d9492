"""warm, control, item, listed, records, pending, slot, probe. Rules 7, 33, 34, 38."""
import time

import pytest
from sale import NAMES, Buyer


def test_warm_makes_a_paused_item_with_its_stream(sale):
    a = sale.warm(10, epoch=3)
    assert (a.code, a.epoch, a.seq) == (0, 3, 0)
    meta = sale.r.hgetall(sale.key("meta"))
    assert meta.pop("expires_ms") == str(sale.expires) and meta.pop("starts_ms") < meta.pop("ends_ms")
    assert meta == dict(epoch="3", seq="0", state="PAUSED", total="10")
    assert sale.stock() == 10
    (group,) = sale.r.xinfo_groups(sale.key("events"))
    assert group["name"] == "g" and group["last-delivered-id"] == "0-0"
    assert sale.reserve(Buyer(1)).code == 8


@pytest.mark.parametrize("there", NAMES)
def test_warm_never_touches_what_is_there(sale, there):
    sale.r.set(sale.key(there), "x")  # of whatever type
    before = sale.everything()
    assert sale.warm(10).code == 1
    assert sale.everything() == before


def test_warm_does_not_reset_a_live_item(sale):
    sale.open(10)
    sale.reserve(Buyer(1))
    before = sale.everything()
    assert sale.warm(99, epoch=5).code == 1
    assert sale.everything() == before


@pytest.mark.parametrize("args", [["0", "5"], ["x", "5"], ["1", "-5"], ["1", "five"]])
def test_warm_refuses_nonsense(sale, args):
    now = sale.now()
    with pytest.raises(Exception, match="whole numbers"):
        sale.run("warm", sale.keys(*NAMES), [*args, now, now, now, "g"])
    with pytest.raises(Exception, match="13 digits"):
        sale.run("warm", sale.keys(*NAMES), ["1", "5", "0", now, now, "g"])
    assert sale.r.dbsize() == 0


@pytest.mark.parametrize("path", [["OPEN"], ["CLOSED"], ["OPEN", "PAUSED", "OPEN", "CLOSED"], ["PAUSED"]])
def test_control(connect, sale, path):
    sale.warm(10)
    news = connect().pubsub()
    news.subscribe("sec:news")
    news.get_message(timeout=5)
    state, seq = "PAUSED", 0
    for to in path:
        a = sale.control(to)
        seq += to != state
        assert (a.code, a.seq) == (0, seq)  # rule 7
        if to != state:
            assert news.get_message(timeout=5)["data"] == f"{sale.item} 1 {seq}"
        state = to
        assert sale.r.hget(sale.key("meta"), "state") == to
    assert news.get_message(timeout=0.02) is None
    news.close()


def test_closed_is_final(sale):
    sale.open(10)
    sale.control("CLOSED")
    before = sale.everything()
    assert [sale.control(to).code for to in ("OPEN", "PAUSED", "CLOSED")] == [2, 2, 0]
    assert sale.everything() == before


def test_control_of_nothing(sale):
    assert sale.control("OPEN").code == 1
    with pytest.raises(Exception, match="no such state"):
        sale.control("HALF")
    assert sale.r.dbsize() == 0


def test_item(sale):
    assert sale.item_state().code == 1
    sale.open(10)
    for u in (1, 2, 3):
        b = Buyer(u)
        sale.reserve(b)
    sale.succeed(b)
    state, starts, ends, expires, *numbers = sale.item_state().words
    assert state == "OPEN" and int(starts) < int(ends) < int(expires) == sale.expires
    assert [int(n) for n in numbers] == [10, 7, 3, 2, 0]


def test_listed(sale):
    """Rule 34: without a catalogue everything counts as listed (503, not 404)."""
    def listed(item):
        return sale.run("listed", ["sec:items"], [item]).code
    assert listed("1:1") == 0
    sale.r.sadd("sec:items", "1:1")
    assert listed("1:1") == 0 and listed("1:2") == 1


def test_records(sale):
    sale.open(5)
    a, b = Buyer(1), Buyer(2)
    sale.reserve(a)
    sale.reserve(b)
    assert sale.records(a, Buyer(3), b) == [sale.record(a), {}, sale.record(b)]
    # One that cannot be read harms no other.
    bad, torn = Buyer(4), Buyer(5)
    sale.r.set(sale.record_key(bad), "x")
    sale.r.hset(sale.record_key(torn), "status", "a\nb")
    assert sale.records(bad, a, torn, b) == [None, sale.record(a), None, sale.record(b)]


def test_pending_oldest_first(sale):
    sale.open(50)
    buyers = [Buyer(u) for u in range(1, 11)]
    for i, b in enumerate(buyers):
        sale.reserve(b)
        sale.r.zadd(sale.key("pending"), {b.member: 1000 + i})
    total, *words = sale.pending(1005).words
    assert total == "10" and words[::2] == [b.member for b in buyers[:5]]  # created before, not at
    assert words[1::2] == ["1000", "1001", "1002", "1003", "1004"]
    assert sale.pending(1005, offset=3, most=1).words[1:] == [buyers[3].member, "1003"]
    assert sale.pending(1000).words == ["10"]
    sale.succeed(buyers[0])
    assert sale.pending(1002).words == ["9", buyers[1].member, "1001"]
    sale.r.zadd(sale.key("pending"), {"no such thing": 5, "x": 6})
    assert sale.pending(1002).words == ["11", "!", "5", "!", "6", buyers[1].member, "1001"]


# --- slot (rule 38) ---

def test_slot_is_held_renewed_and_refused(sale):
    a = sale.slot("me", 1000, 60000)
    assert a.code == 0 and a.rest == "0"
    assert sale.slot("me", 2000, 60000).rest == "0"
    refused = sale.slot("other", 5000, 60000)
    assert refused.code == 1 and int(refused.rest) > sale.now()
    assert sale.r.hget("sec:slot:{7}", "nonce") == "me"
    assert sale.slot("other", 5000, 60000, number=8).code == 0


def test_the_next_owner_learns_how_far_the_ids_went(sale):
    sale.slot("me", 1000, 60000)
    sale.slot("me", 3000, 60000)
    sale.slot("me", 2000, 0)  # given back; the highest stays the highest
    assert sale.slot("other", 500, 60000).rest == "3000"
    assert sale.slot("other", 9000, 0).rest == "3000"  # its own ids do not raise its floor
    assert sale.slot("third", 1, 60000).rest == "9000"


def test_an_expired_lease_is_free_and_not_forgotten(sale):
    sale.slot("me", 7000, 30)
    until = int(sale.r.hget("sec:slot:{7}", "until_ms"))
    while True:
        a = sale.slot("other", 1, 60000)
        if a.code == 0:
            break
        assert a.us // 1000 < until
        time.sleep(0.002)
    assert a.us // 1000 >= until and a.rest == "7000"
    assert sale.slot("me", 7001, 60000).code == 1
    assert sale.r.pttl("sec:slot:{7}") == -1  # whoever comes next, whenever, must learn it


def test_a_slot_never_falls_back(sale):
    """An owner whose clock is behind the one before keeps that one's floor for the next."""
    sale.slot("a", 9000, 0)
    sale.slot("b", 5000, 0)
    assert sale.slot("c", 1, 60000).rest == "9000"


def test_probe(sale):
    assert sale.run("probe", ["sec:probe"], []).code == 0
    assert 0 < sale.r.pttl("sec:probe") <= 60000
