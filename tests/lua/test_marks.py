"""mark.lua, claim.lua, republished.lua: the moves between hold and settle. Rules 1, 28."""
import pytest
from sale import Buyer

STATUS = ["RESERVED", "MQ_SENT", "MQ_PENDING", "ORDERED", "RELEASED"]


def with_status(sale, status):
    sale.open(5)
    b = Buyer(1)
    sale.reserve(b, stream=False)
    sale.r.hset(sale.record_key(b), "status", status)
    return b


@pytest.mark.parametrize("status", STATUS)
@pytest.mark.parametrize("to", ["MQ_SENT", "MQ_PENDING"])
def test_mark_never_touches_what_is_settled(sale, status, to):
    b = with_status(sale, status)
    before = sale.everything()
    settled = status in ("ORDERED", "RELEASED")
    assert sale.mark(b, to).code == (1 if settled else 0)
    if settled:
        assert sale.everything() == before
    else:
        assert sale.record(b)["status"] == to


@pytest.mark.parametrize("to", ["RESERVED", "ORDERED", "RELEASED", ""])
def test_mark_knows_two_marks(sale, to):
    b = with_status(sale, "RESERVED")
    before = sale.everything()
    with pytest.raises(Exception, match="no such mark"):
        sale.mark(b, to)
    assert sale.everything() == before


@pytest.mark.parametrize("status", STATUS)
def test_claim(sale, status):
    b = with_status(sale, status)
    before = sale.everything()
    a = sale.claim(b)
    if status in ("ORDERED", "RELEASED"):
        assert a.code == 1 and sale.everything() == before
        return
    assert a.code == 0 and a.record == sale.record(b)
    assert a.record["status"] == "MQ_PENDING" and "republished" not in a.record


def test_claim_needs_its_own_epoch(sale):
    b = with_status(sale, "MQ_SENT")
    sale.r.hset(sale.key("meta"), "epoch", 2)
    before = sale.everything()
    assert sale.claim(b).code == 1
    assert sale.everything() == before
    sale.r.delete(sale.key("meta"))
    assert sale.claim(b).code == 1


@pytest.mark.parametrize("status,after", [("RESERVED", "RESERVED"), ("MQ_SENT", "MQ_SENT"), ("MQ_PENDING", "MQ_SENT"),
                                          ("ORDERED", None), ("RELEASED", None)])
def test_republished_notes_the_newest(sale, status, after):
    """Rule 28 looks at the newest publish."""
    b = with_status(sale, status)
    before = sale.everything()
    a = sale.republished(b, "5-1")
    if after is None:
        assert a.code == 1 and sale.everything() == before
    else:
        assert a.code == 0
        assert sale.record(b)["status"] == after and sale.record(b)["queue_id"] == "5-1"
        # Only those that were accepted count (rule 30 does not begin with refused ones).
        assert sale.record(b)["republished"] == "1"
        sale.claim(b)
        sale.republished(b, "")
        assert sale.record(b)["republished"] == "2" and sale.record(b)["queue_id"] == "5-1"


@pytest.mark.parametrize("call", [lambda s, b: s.mark(b, "MQ_PENDING"), lambda s, b: s.claim(b),
                                  lambda s, b: s.republished(b, "1-1")])
def test_another_reservation_or_none_is_left_alone(sale, call):
    b = with_status(sale, "RESERVED")
    before = sale.everything()
    assert call(sale, Buyer(1, b.request)).code == 1
    assert call(sale, Buyer(2)).code == 1
    assert sale.everything() == before


@pytest.mark.parametrize("status", STATUS)
def test_a_refused_cancel_is_noted(sale, status):
    """Rule 27."""
    b = with_status(sale, status)
    before = sale.everything()
    released = status == "RELEASED"
    assert sale.refuse(b).code == (1 if released else 0)
    assert sale.record(b).get("cancel") == (None if released else "REFUSED")
    if released:
        assert sale.everything() == before
    before = sale.everything()
    assert sale.refuse(Buyer(1, b.request)).code == 1 and sale.refuse(Buyer(2)).code == 1
    assert sale.everything() == before


def test_a_claimed_one_is_settled_as_any(sale):
    sale.open(5)
    b = Buyer(1)
    sale.reserve(b)
    sale.claim(b)
    assert sale.succeed(b).rest == "0"
    assert sale.claim(b).code == 1
