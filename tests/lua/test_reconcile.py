"""inspect.lua, held.lua, mend.lua, lower.lua, total.lua: what reconciliation sees and does. Rules 5, 7, 40."""
import pytest
from sale import Buyer

KEYS = ("meta", "stock", "buyers", "pending")


def sold(sale, total=5, n=2):
    sale.open(total)
    buyers = [Buyer(u) for u in range(1, n + 1)]
    for b in buyers:
        sale.reserve(b)
    return buyers


def news(sale):
    p = sale.r.pubsub()
    p.subscribe("sec:news")
    assert p.get_message(timeout=5)["type"] == "subscribe"
    return p


def heard(p):
    message = p.get_message(timeout=5)
    return message and message["data"]


# --- inspect ---

def test_a_sound_item_is_told_and_left_alone(sale):
    sold(sale)
    before = sale.everything()
    answer = sale.inspect()
    assert answer.code == 0 and answer.rest == sale.item_state().rest
    assert sale.everything() == before


def test_no_item_and_half_of_one(sale):
    assert sale.inspect().code == 1
    sold(sale)
    sale.r.delete(sale.key("stock"))
    assert sale.inspect().code == 1  # lost, not broken: the rebuild's
    assert sale.r.hget(sale.key("meta"), "state") == "OPEN"


@pytest.mark.parametrize("key", ["stock", "buyers", "pending"])
@pytest.mark.parametrize("wrong", ["string", "list", "hash", "zset"])
def test_a_key_of_another_type_pauses_the_item(sale, key, wrong):
    """Rule 40: it alone, once, and it is told (rule 7)."""
    sold(sale)
    if sale.r.type(sale.key(key)) == wrong:
        return
    sale.r.delete(sale.key(key))
    {"string": lambda k: sale.r.set(k, "x"), "list": lambda k: sale.r.rpush(k, "x"), "hash": lambda k: sale.r.hset(k, "f", "v"),
     "zset": lambda k: sale.r.zadd(k, {"x": 1})}[wrong](sale.key(key))
    p, seq = news(sale), sale.seq()
    answer = sale.inspect()
    assert (answer.code, answer.words) == (2, [key, "1"])
    assert sale.r.hget(sale.key("meta"), "state") == "PAUSED" and sale.seq() == seq + 1
    assert heard(p) == f"{sale.item} 1 {seq + 1}"
    before = sale.everything()
    assert sale.inspect().words == [key, "0"]
    assert sale.everything() == before


@pytest.mark.parametrize("field", ["epoch", "seq", "state", "starts_ms", "ends_ms", "expires_ms", "total"])
@pytest.mark.parametrize("value", ["x", "-1", None])
def test_an_unreadable_meta_pauses_the_item(sale, field, value):
    sold(sale)
    if value is None:
        sale.r.hdel(sale.key("meta"), field)
    else:
        sale.r.hset(sale.key("meta"), field, value)
    answer = sale.inspect()
    assert (answer.code, answer.words) == (2, ["meta", "1"])
    assert sale.r.hget(sale.key("meta"), "state") == "PAUSED"


def test_stock_must_be_a_number(sale):
    sold(sale)
    sale.r.set(sale.key("stock"), "3.5")
    assert sale.inspect().words == ["stock", "1"]
    sale.r.set(sale.key("stock"), "-1")  # wrong, but it can be read: nothing is sold of it
    assert sale.inspect().code == 0


def test_a_meta_that_is_no_hash_cannot_be_paused(sale):
    sold(sale)
    sale.r.delete(sale.key("meta"))
    sale.r.set(sale.key("meta"), "x")
    before = sale.everything()
    assert sale.inspect().words == ["meta", "0"]
    assert sale.everything() == before


# --- held ---

def test_held(sale):
    a, b = sold(sale)
    sale.succeed(b)
    gone, broken = Buyer(3), Buyer(4)
    sale.r.set(sale.record_key(broken), "x")
    sale.r.hset(sale.key("buyers"), "4", "nonsense")
    before = sale.everything()
    first, second, third, fourth = sale.held(a, b, gone, broken)
    assert sale.everything() == before
    assert first[:2] == ("1", a.packed) and "status MQ_SENT" in first[2]
    assert second[:2] == ("0", b.packed) and "status ORDERED" in second[2]
    assert third == ("0", "- - -", "")
    assert fourth == ("0", "! ! !", "!")


# --- mend ---

def test_a_lost_entry_comes_back(sale):
    """Rule 5: who holds a unit is among the buyers. With the item's end, and told (rule 7)."""
    a, b = sold(sale)
    sale.succeed(a)
    sale.r.delete(sale.key("buyers"))
    p, seq, stock = news(sale), sale.seq(), sale.stock()
    assert sale.mend(a).code == 0 and sale.mend(b).code == 0
    assert sale.buyers() == {"1": a.packed, "2": b.packed}
    assert sale.r.execute_command("PEXPIRETIME", sale.key("buyers")) == sale.expires
    assert sale.seq() == seq + 2 and heard(p) == f"{sale.item} 1 {seq + 1}"
    assert sale.stock() == stock
    before = sale.everything()
    assert sale.mend(a).code == 1
    assert sale.everything() == before


def test_the_entry_of_a_released_one_goes(sale):
    a, b = sold(sale)
    sale.cancel(a)
    sale.r.hset(sale.key("buyers"), "1", a.packed)
    assert sale.mend(a).code == 0
    assert sale.buyers() == {"2": b.packed}
    assert sale.mend(a).code == 1


def test_an_entry_of_another_reservation_stays(sale):
    """Bought again with another key: the old record has no say."""
    a, _ = sold(sale)
    sale.cancel(a)
    again = Buyer(1)
    sale.reserve(again)
    before = sale.everything()
    assert sale.mend(a).code == 1
    assert sale.everything() == before


def test_what_is_unsettled_waits(sale):
    a, b = sold(sale)
    created = sale.r.zscore(sale.key("pending"), a.member)
    sale.r.zrem(sale.key("pending"), a.member, b.member)
    seq = sale.seq()
    assert sale.mend(a).code == 0
    assert sale.waiting() == [a.member] and sale.r.zscore(sale.key("pending"), a.member) == created
    assert sale.r.execute_command("PEXPIRETIME", sale.key("pending")) == sale.expires
    assert sale.seq() == seq  # buyers are as they were


def test_mend_leaves_what_it_does_not_know(sale):
    a, b = sold(sale)
    sale.r.hdel(sale.key("buyers"), "1", "2")
    sale.r.hset(sale.record_key(a), "epoch", "7")
    sale.r.delete(sale.record_key(b))
    before = sale.everything()
    assert sale.mend(a).code == 1 and sale.mend(b).code == 1
    a.reservation = b.reservation
    assert sale.mend(a).code == 1
    assert sale.everything() == before


# --- lower ---

def test_invented_units_are_taken_away(sale):
    sold(sale, total=5)
    sale.r.incrby(sale.key("stock"), 3)
    p, seq = news(sale), sale.seq()
    assert sale.lower().words == ["3", "5"]
    assert sale.stock() == 3 and sale.seq() == seq + 1 and heard(p) == f"{sale.item} 1 {seq + 1}"
    before = sale.everything()
    assert sale.lower().words == ["0", "5"]
    assert sale.everything() == before


@pytest.mark.parametrize("stock, taken, left", [(0, 0, 0), (2, 0, 2), (3, 0, 3), (4, 1, 3), (-2, 0, -2)])
def test_stock_is_only_ever_lowered(sale, stock, taken, left):
    """Rule 40: a unit that is missing is not put back."""
    sold(sale, total=5)
    sale.r.set(sale.key("stock"), stock)
    assert sale.lower().words == [str(taken), "5"] and sale.stock() == left


def test_the_total_follows_postgresqls_down(sale):
    """What is held stays held; what was missing is not taken once more; another's change is not undone."""
    sold(sale, total=5, n=3)
    assert sale.lower(4, 2).words == ["0", "5"] and sale.lower(5, 7).words == ["0", "5"]
    sale.r.decr(sale.key("stock"))
    seq = sale.seq()
    assert sale.lower(5, 4).words == ["0", "4"] and sale.stock() == 1 and sale.seq() == seq + 1
    assert sale.lower(4, 1).words == ["1", "1"] and sale.stock() == 0
    before = sale.everything()
    assert sale.lower(1, 1).words == ["0", "1"]
    assert sale.everything() == before


# --- total ---

def test_total_up_and_down(sale):
    sold(sale, total=5)
    p, seq = news(sale), sale.seq()
    assert sale.total(5, 8).words == ["8", "6"]
    assert (sale.stock(), sale.r.hget(sale.key("meta"), "total"), sale.seq()) == (6, "8", seq + 1)
    assert heard(p) == f"{sale.item} 1 {seq + 1}"
    assert sale.total(8, 2).code == 0 and sale.stock() == 0
    before = sale.everything()
    assert (sale.total(2, 1).code, sale.total(5, 9).code) == (2, 3)  # fewer are free; somebody else changed it
    assert sale.total(5, 2).code == 0  # it is so already: the second run of a command that died
    assert sale.everything() == before


def test_total_of_nothing(sale):
    assert sale.total(1, 2).code == 1
    sold(sale)
    with pytest.raises(Exception, match="whole number"):
        sale.total(5, "x")


# --- a rebuild under way ---

def test_what_is_being_rebuilt_is_left_alone(sale):
    """Rule 35: its books are half written; the rebuild decides on them."""
    a, _ = sold(sale)
    sale.r.hset(sale.key("meta"), "rebuild", "1")
    sale.r.hdel(sale.key("buyers"), "1")
    sale.r.incr(sale.key("stock"))
    before = sale.everything()
    assert [x.code for x in (sale.inspect(), sale.mend(a), sale.lower(5, 4), sale.total(5, 9))] == [1, 1, 1, 1]
    assert sale.everything() == before
