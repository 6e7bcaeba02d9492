"""The steps of a rebuild (rules 2, 7, 35, 36): each is done once, in order, at its epoch only."""
import pytest
import redis as redis_client
from sale import HOUR, NAMES, Buyer

STEPS = ["rebuild_begin", "rebuild_restore", "rebuild_end"]


class Rebuild:
    def __init__(self, sale, epoch=2, total=10, after="OPEN"):
        self.sale, self.epoch, self.total, self.after = sale, epoch, total, after
        self.expires = sale.now() + 2 * HOUR

    def begin(self):
        now = self.sale.now()
        return self.sale.run("rebuild_begin", self.sale.keys("meta", "stock", "buyers", "pending"),
                             [self.sale.item, self.epoch, self.total, now - HOUR, now + HOUR, self.expires, self.after])

    def restore(self, step, *rows):
        """Rows: (kind, Buyer)."""
        return self.sale.run("rebuild_restore", self.sale.keys("meta", "buyers", "pending") + [self.sale.record_key(b) for _, b in rows],
                             [self.epoch, step, *(f"{kind} {b.reservation} {b.order} {b.message} 1700000000000" for kind, b in rows)])

    def end(self, step, free, total=None):
        return self.sale.run("rebuild_end", self.sale.keys(*NAMES, "results"),
                             [self.sale.item, self.epoch, step, self.total if total is None else total, free, "g"])


def all_of(sale):
    return {k: v[1] for k, v in sale.everything().items()}


@pytest.mark.parametrize("there", [False, True])
def test_from_nothing_and_from_what_is_there(sale, there):
    """Rule 36: each who holds a unit has record, buyers entry and, without an outcome, a place in pending; nobody else has."""
    ordered, waits, gone = Buyer(1), Buyer(2), Buyer(3)
    if there:
        sale.open(10)
        for b in (ordered, waits, gone):
            sale.reserve(b)
    x = Rebuild(sale)
    a = x.begin()
    assert (a.code, a.epoch, a.seq, a.rest) == (0, 2, 0, "1" if there else "0")
    assert sale.reserve(Buyer(9)).code == 8  # PAUSED: 503
    assert sale.run("item", sale.keys("meta", "stock", "buyers", "pending"), []).words[-1] == "1"
    assert x.restore(1, ("O", ordered)).code == 0
    assert x.restore(2, ("L", waits)).code == 0
    a = x.end(3, 8)
    assert (a.code, a.seq) == (0, 1) and sale.stock() == 8  # rule 7
    assert set(sale.r.hgetall(sale.key("buyers"))) == {"1", "2"} and sale.waiting() == [waits.member]
    r = sale.record(ordered)
    assert (r["status"], r["state"], r["rank"], r["epoch"]) == ("ORDERED", "SUCCEEDED", "3", "2")
    r = sale.record(waits)
    assert (r["reservation_id"], r["message_id"], r["epoch"], r["seq"]) == (waits.reservation, waits.message, "2", "0")
    assert sale.reserve(Buyer(9)).code == 0 and sale.reserve(Buyer(1)).code == 2
    for key in sale.r.keys(f"sec:{{{sale.item}}}:*"):
        if "reservation" not in key or key in (sale.record_key(ordered), sale.record_key(waits)):
            assert sale.r.pexpiretime(key) == x.expires, key


def test_each_step_once(sale):
    """Rule 35: what arrives twice, late, out of order or of another epoch changes nothing."""
    a, b = Buyer(1), Buyer(2)
    x = Rebuild(sale)
    assert x.restore(1, ("O", a)).code == 1 and x.end(1, 5).code == 1 and not sale.everything()
    assert x.begin().code == 0 and x.begin().code == 0
    assert x.restore(2, ("O", b)).code == 1  # the first is missing
    assert x.restore(1, ("O", a)).code == 0
    assert x.restore(2, ("O", b)).code == 0
    before = all_of(sale)
    assert x.restore(1).code == 0 and all_of(sale) == before  # it would have emptied buyers
    assert x.end(2, 5).code == 1 and x.end(4, 5).code == 1
    assert Rebuild(sale, epoch=1).begin().code == 1
    newer = Rebuild(sale, epoch=3)
    assert newer.begin().code == 0
    for late in (x.begin, lambda: x.restore(1, ("O", b)), lambda: x.restore(3, ("O", a)), lambda: x.end(3, 5)):
        before = all_of(sale)
        assert late().code == 1 and all_of(sale) == before
    assert newer.restore(1, ("O", a)).code == 0 and newer.end(2, 9).code == 0
    before = all_of(sale)
    for late in (newer.begin, lambda: newer.restore(1), lambda: newer.end(2, 9), x.begin):
        assert late().code == 1 and all_of(sale) == before


def test_an_order_stands_before_a_reservation_of_the_same_buyer(sale):
    order, waits = Buyer(7), Buyer(7)
    x = Rebuild(sale)
    x.begin()
    assert x.restore(1, ("L", waits), ("O", order)).code == 0 and x.restore(2, ("L", waits)).code == 0
    assert sale.r.hget(sale.key("buyers"), "7").startswith(order.reservation)


def test_what_an_operator_wants_meanwhile(sale):
    x = Rebuild(sale)
    x.begin()
    assert sale.control("PAUSED").code == 0 and x.restore(1).code == 0 and x.end(2, 10).code == 0
    assert sale.r.hget(sale.key("meta"), "state") == "PAUSED"
    closed = Rebuild(sale, epoch=3, after="CLOSED")
    closed.begin()
    assert sale.control("OPEN").code == 2 and sale.reserve(Buyer(1)).code == 7


@pytest.mark.parametrize("key,step", [("meta", 0), ("meta", 1), ("meta", 2), ("buyers", 1), ("pending", 1), ("events", 2)])
def test_a_wrong_type_changes_nothing(sale, key, step):
    """What a step replaces anyway may be of any type; what it goes on with may not."""
    x = Rebuild(sale)
    if step:
        x.begin()
        x.restore(1, ("L", Buyer(1)))
    sale.r.delete(sale.key(key))
    sale.r.set(sale.key(key), "x")
    before = sale.everything()
    with pytest.raises(redis_client.ResponseError, match="WRONGTYPE"):
        [x.begin, lambda: x.restore(2, ("L", Buyer(2))), lambda: x.end(2, 5)][step]()
    assert sale.everything() == before


def test_a_record_of_another_type_or_of_another_reservation_is_replaced(sale):
    a, b = Buyer(1), Buyer(2)
    sale.r.set(sale.record_key(a), "x")
    sale.r.hset(sale.record_key(b), mapping={"reservation_id": "other", "reason": "VOID"})
    x = Rebuild(sale)
    x.begin()
    assert x.restore(1, ("O", a), ("L", b)).code == 0
    assert sale.record(a)["status"] == "ORDERED" and "reason" not in sale.record(b)


@pytest.mark.parametrize("args", [dict(epoch="0"), dict(epoch="x"), dict(total=-1), dict(after="open")])
def test_nonsense_is_refused(sale, args):
    with pytest.raises(redis_client.ResponseError, match="whole numbers|no such state"):
        Rebuild(sale, **args).begin()
    assert sale.r.dbsize() == 0


def test_what_strict_takes_back_is_no_survivor(sale):
    """Rules 8, 36: a hold that a rebuild counted is not taken away behind PostgreSQL's back: while it is rebuilt its unit would be
    counted as held, and given to nobody; afterwards the next rebuild would hold it for nobody."""
    sale.open(10)
    b = Buyer(1)
    sale.reserve(b, stream=False)
    assert sale.record(b)["status"] == "RESERVED"
    x = Rebuild(sale)
    x.begin()

    def release():
        return sale.run("release", sale.keys("meta", "stock", "buyers") + [sale.record_key(b), sale.key("pending")],
                        [sale.item, b.user, b.request, b.reservation]).code
    assert release() == 1 and x.restore(1, ("L", b)).code == 0
    assert release() == 1 and x.end(2, 9).code == 0
    assert release() == 1 and sale.record(b)["status"] == "MQ_PENDING"
    assert sale.stock() == 9 and sale.waiting() == [b.member]


def test_a_total_that_changed_meanwhile(sale):
    """Rules 7, 36: what is free was counted with the total that the item has afterwards; to raise it once more would sell units that
    nobody has."""
    x = Rebuild(sale, total=10)
    assert x.begin().code == 0
    assert sale.run("total", sale.keys("meta", "stock"), [sale.item, 10, 15]).code == 1
    assert x.restore(1).code == 0 and x.end(2, 15, total=15).code == 0
    assert sale.run("total", sale.keys("meta", "stock"), [sale.item, 10, 15]).words == ["15", "15"]
    assert sale.stock() == 15


@pytest.mark.parametrize("ms, later", [(1000, True), (3 * HOUR, False)])
def test_results_that_were_told_meanwhile(sale, ms, later):
    """Without the item nobody knows when it ends: its results last until then all the same, and longer if they were told late."""
    sale.r.xadd(sale.key("results"), {"b": "{}"})
    ends = sale.now() + ms
    sale.r.pexpireat(sale.key("results"), ends)
    x = Rebuild(sale)
    assert x.begin().code == 0 and x.restore(1).code == 0 and x.end(2, 10).code == 0
    assert sale.r.pexpiretime(sale.key("results")) == (x.expires if later else ends)
