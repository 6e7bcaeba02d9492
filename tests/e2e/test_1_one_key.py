"""Issue 3, number 1: one key is one unit, one buyer is one order, and nobody's clicking costs another's unit."""
import uuid

from system import System


def ids(answer):
    return tuple(answer.json.get(k) for k in ("request_id", "reservation_id", "order_id"))


def test_a_thousand_at_once_with_one_key():
    """Rules 1 and 19: one unit, one reservation, one order, the same answer."""
    with System(record=True) as system:
        item = system.item(stock=10)
        key = str(uuid.uuid4())
        answers = system.crowd(item, [(7, key)] * 1000)
        assert {a.status for a in answers} == {202}
        assert len({ids(a) for a in answers}) == 1
        assert sum("idempotent-replayed" not in a.headers for a in answers) == 1
        item.await_settled()
        books = item.books()
        assert (books["orders"], books["sold"], books["inbox"], books["outbox"], books["free"], books["buyers"]) == (1, 1, 1, 1, 9, 1)
        # What the answer said is what there is.
        assert system.sql("SELECT request_id::text, reservation_id::text, order_id::text, user_id FROM orders") == [
            (*ids(answers[0]), 7)]
        late = system.buy(item, 7, key)
        assert (late.status, late.code, ids(late)) == (202, "SUCCEEDED", ids(answers[0]))
        assert late.headers["idempotent-replayed"] == "true"


def test_a_thousand_keys_of_one_user():
    """One order; every other key hears of it, never "sold out"."""
    with System(record=True) as system:
        item = system.item(stock=10)
        keys = [str(uuid.uuid4()) for _ in range(1000)]
        answers = system.crowd(item, [(7, key) for key in keys], limit=500)
        won = [a for a in answers if a.status == 202]
        assert len(won) == 1
        others = [a for a in answers if a is not won[0]]
        assert {(a.status, a.code) for a in others} == {(409, "DUPLICATE_ORDER")}
        assert {ids(a) for a in others} == {ids(won[0])}
        item.await_settled()
        assert item.books()["orders"] == 1 and item.books()["free"] == 9


def test_ten_units_one_who_clicks_fifty_times_and_nine_others():
    with System(record=True) as system:
        item = system.item(stock=10)
        users = [1] * 30 + list(range(2, 11)) + [1] * 20
        answers = system.crowd(item, [(user, str(uuid.uuid4())) for user in users])
        assert [a.status for a in answers[30:39]] == [202] * 9
        assert sum(a.status == 202 for a in answers[:30] + answers[39:]) == 1
        item.await_settled()
        assert system.sql("SELECT user_id FROM orders ORDER BY user_id") == [(u,) for u in range(1, 11)]
        # The one who holds a unit is told so although nothing is left; a newcomer hears that nothing is.
        assert system.buy(item, 1).code == "DUPLICATE_ORDER"
        assert system.buy(item, 11).code == "SOLD_OUT"
