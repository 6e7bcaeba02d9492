"""reserve.lua: its answers, the order of its checks, and races. Rules 1, 7, 13, 15."""
import json
import threading

import pytest
from sale import HOUR, Buyer

CREATED, REPLAY, DUPLICATE, SOLD_OUT, NO_ITEM, TOO_LATE, NOT_OPEN, ENDED, PAUSED, BEHIND = range(10)


@pytest.mark.parametrize("stream", [True, False])
def test_a_unit_is_taken(sale, stream):
    sale.open(10)
    b, before, seq = Buyer(7), sale.now(), sale.seq()
    a = sale.reserve(b, stream=stream)
    assert (a.code, a.epoch, a.seq) == (CREATED, 1, seq + 1) and sale.seq() == seq + 1
    assert sale.stock() == 9
    assert sale.buyers() == {"7": b.packed}
    assert sale.waiting() == [b.member]
    record = sale.record(b)
    assert before <= int(record.pop("created_at_ms")) == a.us // 1000 <= sale.now()
    expected = dict(reservation_id=b.reservation, order_id=b.order, message_id=b.message, epoch="1", seq=str(a.seq),
                    status="MQ_SENT" if stream else "RESERVED")  # rule 1
    if stream:
        assert sale.r.xrange(sale.key("events"))[0][0] == a.rest
        expected["queue_id"] = a.rest
        event = json.loads(sale.events()[0])
        assert event == {"message_id": "m", "trace": {}, "epoch": 1, "seq": a.seq}
    else:
        assert a.rest == "" and sale.events() == []
    assert record == expected


def test_a_refusal_writes_nothing(sale):
    sale.open(1)
    winner = Buyer(1)
    assert sale.reserve(winner).code == CREATED
    before = sale.everything()
    assert sale.reserve(Buyer(2)).code == SOLD_OUT
    assert sale.reserve(winner).code == REPLAY
    assert sale.reserve(Buyer(1)).code == DUPLICATE
    assert sale.reserve(Buyer(3), deadline=sale.now() - 1).code == TOO_LATE
    assert sale.everything() == before


@pytest.mark.parametrize("state,starts,ends,code", [
    ("OPEN", -HOUR, HOUR, CREATED),
    ("PAUSED", -HOUR, HOUR, PAUSED),
    ("CLOSED", -HOUR, HOUR, ENDED),
    ("OPEN", HOUR, 2 * HOUR, NOT_OPEN),
    ("PAUSED", HOUR, 2 * HOUR, NOT_OPEN),  # the window comes first
    ("OPEN", -2 * HOUR, -HOUR, ENDED),
    ("PAUSED", -2 * HOUR, -HOUR, ENDED),
    ("CLOSED", HOUR, 2 * HOUR, NOT_OPEN),
])
def test_window_and_state(sale, state, starts, ends, code):
    now = sale.now()
    sale.warm(5, starts=now + starts, ends=now + ends, expires=now + 3 * HOUR)
    if state != "PAUSED":
        assert sale.control(state).code == 0
    before = sale.everything()
    assert sale.reserve(Buyer(1)).code == code
    if code != CREATED:
        assert sale.everything() == before


def test_the_window_opens_and_closes_by_redis_time(sale):
    for span in (40, 400, 4000):  # ms: one that this machine does not sleep through
        sale.r.flushdb()
        starts = sale.now() + span
        sale.open(10, starts=starts, ends=starts + span, expires=starts + HOUR)
        sale.r.set(sale.key("stock"), 10**6, keepttl=True)
        seen, user = [], 0
        while ENDED not in seen:
            user += 1
            a = sale.reserve(Buyer(user))
            if a.code == CREATED:
                assert starts <= a.us // 1000 < starts + span
            if a.code not in seen[-1:]:
                seen.append(a.code)
        assert seen == [code for code in (NOT_OPEN, CREATED, ENDED) if code in seen]
        if len(seen) == 3:
            return
    assert seen == [NOT_OPEN, CREATED, ENDED]


def test_checks_come_in_order(sale):
    """Each request meets the earlier of two reasons."""
    sale.open(1)
    holder = Buyer(1)
    assert sale.reserve(holder).code == CREATED
    past = sale.now() - 1
    assert sale.reserve(holder, deadline=past).code == TOO_LATE  # before replay
    assert sale.reserve(Buyer(1)).code == DUPLICATE  # before sold out
    sale.control("PAUSED")
    assert sale.reserve(holder).code == REPLAY  # before paused
    assert sale.reserve(Buyer(1)).code == DUPLICATE
    assert sale.reserve(Buyer(2)).code == PAUSED  # before sold out
    sale.control("CLOSED")
    assert sale.reserve(Buyer(2)).code == ENDED
    sale.r.delete(sale.key("meta"))
    assert sale.reserve(holder).code == REPLAY  # before no item
    assert sale.reserve(Buyer(1)).code == DUPLICATE
    assert sale.reserve(Buyer(2)).code == NO_ITEM


@pytest.mark.parametrize("lost", ["meta", "stock", "events"])
def test_half_an_item_sells_nothing(sale, lost):
    """Rule 34: what Redis lost is not made up again, without an expiry, by the next buyer."""
    sale.open(5)
    sale.r.delete(sale.key(lost))
    before = sale.everything()
    assert sale.reserve(Buyer(1)).code == NO_ITEM
    assert sale.everything() == before


def test_deadline(sale):
    """Rule 15: a delayed call cannot take a unit for somebody who left."""
    sale.open(5)
    assert sale.reserve(Buyer(1), deadline=sale.now() - 1).code == TOO_LATE
    assert sale.stock() == 5
    b = Buyer(2)
    assert sale.reserve(b, deadline=sale.now() - 1).code == TOO_LATE
    assert sale.reserve(b, deadline=sale.now() + 1000).code == CREATED  # once more, the same ids
    assert sale.reserve(Buyer(3), deadline=0).code == CREATED


def test_a_replay_tells_the_same(sale):
    """Rule 13: the caller sees its own reservation id in a replay of its own try."""
    sale.open(5)
    b = Buyer(1)
    first = sale.reserve(b)
    again = sale.reserve(b)
    assert again.code == REPLAY and again.seq == first.seq
    assert again.record == sale.record(b)
    assert again.record["reservation_id"] == b.reservation
    old = b.reservation
    assert sale.reserve(b.renew()).record["reservation_id"] == old  # a client's later try, with new ids
    assert sale.stock() == 4 and len(sale.events()) == 1


def test_a_duplicate_hears_of_its_own(sale):
    sale.open(1)
    b = Buyer(1)
    sale.reserve(b)
    a = sale.reserve(Buyer(1))
    assert a.code == DUPLICATE and a.rest == b.packed  # not "sold out"


def test_another_user_with_the_same_key_is_another_request(sale):
    sale.open(5)
    a = Buyer(1)
    b = Buyer(2, request=a.request)
    assert sale.reserve(a).code == CREATED and sale.reserve(b).code == CREATED
    assert sale.stock() == 3


@pytest.mark.parametrize("stock,code", [("0", SOLD_OUT), ("-3", SOLD_OUT), ("1", CREATED), ("100000", CREATED)])
def test_stock_values(sale, stock, code):
    sale.open(5)
    sale.r.set(sale.key("stock"), stock, keepttl=True)
    assert sale.reserve(Buyer(1)).code == code


@pytest.mark.parametrize("stock", ["1.5", "5x", "9 ", "7\n"])
def test_a_stock_that_is_no_number_changes_nothing(sale, stock):
    sale.open(5)
    sale.r.set(sale.key("stock"), stock, keepttl=True)
    before = sale.everything()
    with pytest.raises(Exception, match="whole number"):
        sale.reserve(Buyer(1))
    assert sale.everything() == before


# --- races ---

def storm(connect, sale, buyers, threads=16):
    """Each buyer once, from many connections at the same time."""
    answers, work, lock = [], list(buyers), threading.Lock()
    start = threading.Barrier(threads)

    def run():
        client = connect()
        sha = sale.shas["reserve"]
        start.wait()
        while True:
            with lock:
                if not work:
                    return
                b = work.pop()
            keys, args = sale.reserve_call(b)
            text = client.evalsha(sha, len(keys), *keys, *args)
            with lock:
                answers.append((b, int(text.split(" ", 1)[0]), text))
    pool = [threading.Thread(target=run) for _ in range(threads)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    return answers


def count(answers, code):
    return sum(c == code for _, c, _ in answers)


def test_stock_is_sold_exactly_once(connect, sale):
    sale.open(100)
    answers = storm(connect, sale, [Buyer(u) for u in range(1, 1001)])
    assert count(answers, CREATED) == 100 and count(answers, SOLD_OUT) == 900
    assert sale.stock() == 0 and len(sale.buyers()) == 100 and len(sale.events()) == 100
    seqs = sorted(json.loads(e)["seq"] for e in sale.events())
    assert seqs == list(range(seqs[0], seqs[0] + 100))  # rule 7: each take is one step


def test_one_key_a_thousand_times_is_one_unit(connect, sale):
    sale.open(10)
    key = Buyer(5)
    tries = [Buyer(5, key.request) for _ in range(1000)]
    answers = storm(connect, sale, tries)
    assert count(answers, CREATED) == 1 and count(answers, REPLAY) == 999
    (winner,) = [b for b, c, _ in answers if c == CREATED]
    assert all(winner.reservation in text for _, c, text in answers if c == REPLAY)
    assert sale.stock() == 9


def test_a_thousand_keys_of_one_user_are_one_unit(connect, sale):
    sale.open(10)
    answers = storm(connect, sale, [Buyer(5) for _ in range(1000)])
    assert count(answers, CREATED) == 1 and count(answers, DUPLICATE) == 999
    (winner,) = [b for b, c, _ in answers if c == CREATED]
    assert all(winner.packed in text for _, c, text in answers if c == DUPLICATE)


def test_one_who_clicks_fifty_times_takes_nobodys_unit(connect, sale):
    sale.open(10)
    answers = storm(connect, sale, [Buyer(1) for _ in range(50)] + [Buyer(u) for u in range(2, 11)])
    assert count(answers, CREATED) == 10 and len(sale.buyers()) == 10


@pytest.mark.parametrize("stream", [True, False])
def test_rule_34a_a_store_that_went_back(sale, stream):
    """Whatever would be answered else, but for too late: nothing of it can be believed. Nothing is written."""
    sale.open(10)
    first, second = Buyer(1), Buyer(2)
    assert sale.reserve(first, stream=stream).code == CREATED
    assert sale.reserve(second, stream=stream).code == CREATED
    seq, before = sale.seq(), sale.everything()

    def ask(b, *seen, witness=None, **how):
        return sale.reserve(b, stream=stream, seen=seen, witness=witness, **how).code

    for b in (Buyer(3), first, Buyer(1)):
        assert ask(b, 1, seq + 1) == BEHIND
        assert ask(b, 2, 0) == BEHIND
        assert ask(b, 10, 0) == BEHIND  # as numbers
        assert ask(b, 1, seq, witness=Buyer(9)) == BEHIND
        assert ask(b, 1, 0, witness=Buyer(9)) == BEHIND
        assert ask(b, 1, seq + 1, deadline=sale.now() - 1) == TOO_LATE
    sale.control("PAUSED")
    assert ask(Buyer(3), 1, seq + 2) == BEHIND and ask(Buyer(3), 1, seq) == PAUSED
    sale.control("OPEN")
    assert sale.everything().keys() == before.keys()

    # As much as was heard, or more, and all that was confirmed: it sells.
    assert ask(first, 1, sale.seq()) == REPLAY
    assert ask(Buyer(3), 1, sale.seq()) == CREATED
    assert ask(Buyer(4), 1, 1, witness=second) == CREATED
    assert ask(Buyer(5), 1, 1, witness=first) == CREATED
    # Rebuilt: a newer epoch has its own numbers and its own records.
    sale.r.hset(sale.key("meta"), mapping=dict(epoch=12, seq=0))
    assert ask(Buyer(6), 2, 900) == CREATED
    assert ask(Buyer(7), 2, 900, witness=Buyer(9)) == CREATED
    # Without an item there is no item, whatever was heard.
    sale.r.delete(sale.key("meta"))
    assert ask(Buyer(8), 12, 900, witness=Buyer(9)) == NO_ITEM
