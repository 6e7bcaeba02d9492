"""Issue 5, operators: what they change by hand is shown first, done with --yes, obeys the rules, and is recorded. Rules 25, 27,
28, 30."""
import json
import uuid

from services import wait_for
from system import System
from test_11_lifecycle import bought, status


def order(s, *words, rc=0):
    done = s.ctl("order", *map(str, words), "--json", check=False)
    assert done.returncode == rc, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def reservation(s, verb, item, user, key, *words, rc=0):
    done = s.ctl("reservation", verb, *item.flags, "--user", str(user), "--request", key, *words, "--json", check=False)
    assert done.returncode == rc, f"{verb} {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def actions(s, action):
    """Newest last."""
    return s.sql("SELECT outcome, detail, login, operator, finished_at >= at FROM operator_actions WHERE action = %s "
                 "ORDER BY action_id", action)


def held(s, item, user):
    """The key of a reservation whose message nobody takes: there is no worker."""
    key = str(uuid.uuid4())
    assert s.buy(item, user, key).status == 202
    return key


def lose(s, item):
    """The queue hands out and forgets what it has: as a broker that lost it."""
    r, events = s.redis_client, item.key("events")
    for _, messages in r.xreadgroup("seckill-order-create-v1", "nobody", {events: ">"}):
        r.xack(events, "seckill-order-create-v1", *(name for name, _ in messages))


def test_an_order_is_cancelled_by_hand():
    """Rule 27's command by another hand: the unit is on sale again at once, also with no worker; PAID stays."""
    with System(record=True) as s:
        item = s.item(stock=2)
        _, first = bought(s, item, 7)
        paid_key, paid = bought(s, item, 8)
        item.await_settled()
        assert s.pay(item, 8, paid_key, paid).status == 202
        wait_for("the payment", lambda: status(s, 8, paid) == "PAID")
        item.await_settled()
        books = item.books()
        assert order(s, "cancel", first)["outcome"] == "PLANNED"
        assert order(s, "cancel", paid, rc=1)["outcome"] == "REFUSED"
        assert item.books() == books and not actions(s, "order cancel")  # a dry run leaves nothing

        assert s.worker.terminate() == 0
        told = order(s, "cancel", first, "--yes")
        assert (told["outcome"], told["status"]) == ("DONE", "CANCELLED")
        assert item.books()["free"] == 1 and item.books()["unsettled"] == 0
        assert order(s, "cancel", first, "--yes")["outcome"] == "NOTHING"
        told = order(s, "cancel", paid, "--yes", rc=1)
        assert (told["outcome"], told["status"], told["why"]) == ("REFUSED", "PAID", "PAID")
        recorded = actions(s, "order cancel")
        assert [row[0] for row in recorded] == ["DONE", "NOTHING", "REFUSED"]
        assert recorded[0][1]["order_id"] == first and recorded[0][1]["was"] == "CREATED"
        assert "@" in recorded[0][2] and recorded[0][3] == "seckill" and all(row[4] for row in recorded)
        listed = json.loads(s.ctl("actions", "list", "--limit", "1", "--json").stdout)
        assert [(a["action"], a["outcome"]) for a in listed] == [("order cancel", "REFUSED")]

        s.worker.start()
        bought(s, item, 9)
        item.await_settled()
        assert item.orders() == 2 and item.books()["free"] == 0


def test_a_cancel_that_redis_does_not_hear_is_told_by_the_worker():
    """PostgreSQL decides; the relay tells Redis."""
    with System(record=True) as s:
        item = s.item(stock=1)
        _, number = bought(s, item, 7)
        item.await_settled()
        done = s.ctl("order", "cancel", number, "--yes", "--redis.url=unix:///nowhere", "--json")
        assert json.loads(done.stdout)["outcome"] == "DONE" and "the worker will" in done.stderr
        wait_for("the unit", lambda: item.books()["free"] == 1)
        done = s.ctl("order", "cancel", number, "--yes", "--pg.conninfo=host=/nowhere", check=False)
        assert done.returncode == 1 and "PostgreSQL" in done.stderr


def test_what_cannot_be_recorded_is_not_done():
    with System(record=True) as s:
        item = s.item(stock=1)
        _, number = bought(s, item, 7)
        item.await_settled()
        s.sql("ALTER TABLE operator_actions RENAME TO elsewhere")
        done = s.ctl("order", "cancel", number, "--yes", check=False)
        assert done.returncode == 1 and "nothing was done" in done.stderr
        assert status(s, 7, number) == "CREATED"
        s.sql("ALTER TABLE elsewhere RENAME TO operator_actions")


def test_a_reservation_is_released_through_the_tombstone():
    """Rules 25, 28, 30: not while the queue has it; then its message can never become an order, and the unit is sold to
    somebody else."""
    with System(record=True) as s:
        item = s.item(stock=2)
        ordered, _ = bought(s, item, 7)
        item.await_settled()
        assert s.worker.terminate() == 0
        key = held(s, item, 8)
        event = json.loads(item.published(2)[-1])
        told = reservation(s, "release", item, 8, key, "--yes", rc=1)
        assert (told["outcome"], told["why"]) == ("REFUSED", "IN_QUEUE")
        lose(s, item)
        shown = reservation(s, "show", item, 8, key)
        assert (shown["redis_status"], shown["inbox_status"]) == ("MQ_SENT", "")
        books = item.books()
        assert reservation(s, "release", item, 8, key)["outcome"] == "PLANNED"
        assert item.books() == books
        told = reservation(s, "release", item, 8, key, "--yes")
        assert told["outcome"] == "DONE"
        assert (told["redis_status"], told["redis_state"], told["inbox_reason"]) == ("RELEASED", "FAILED", "VOID")
        assert item.books()["free"] == 1 and item.books()["pending"] == 0
        assert reservation(s, "release", item, 8, key, "--yes")["outcome"] == "NOTHING"
        told = reservation(s, "release", item, 7, ordered, "--yes", rc=1)
        assert (told["outcome"], told["why"]) == ("REFUSED", "COMPLETED")
        assert [row[0] for row in actions(s, "reservation release")] == ["REFUSED", "DONE", "NOTHING", "REFUSED"]

        item.publish(json.dumps(event))  # it comes after all
        s.worker.start()
        item.await_settled()
        assert item.orders() == 1 and s.state(item, 8, key).code == "FAILED"
        bought(s, item, 9)


def test_a_message_in_quarantine_is_given_up_by_hand():
    """Rule 25: void takes over what is quarantined."""
    with System(record=True) as s:
        item = s.item(stock=1)
        assert s.worker.terminate() == 0
        key = held(s, item, 7)
        event = json.loads(item.published(1)[-1])
        s.sql("SELECT seckill_quarantine(%s, %s, %s, %s, %s, 7, %s, '1-0', '{}', 'a test', 9)", *item.args, event["message_id"],
              key, event["reservation_id"], event["order_id"])
        told = reservation(s, "release", item, 7, key, "--yes")
        assert (told["outcome"], told["redis_reason"]) == ("DONE", "GIVEN_UP")
        assert item.books()["free"] == 1
        s.worker.start()
        item.await_settled()


def test_what_is_not_known_is_not_released():
    with System(record=True) as s:
        item = s.item(stock=1)
        key = str(uuid.uuid4())
        done = s.ctl("reservation", "show", *item.flags, "--user", "7", "--request", key, check=False)
        assert done.returncode == 1 and "knows this request" in done.stderr
        told = reservation(s, "release", item, 7, key, "--yes")
        assert (told["outcome"], told["why"]) == ("NOTHING", "NO_RECORD")
        for words in (["--user", "7", "--request", "x"], ["--user", "0", "--request", key], ["--user", "7"]):
            assert s.ctl("reservation", "release", *item.flags, *words, check=False).returncode == 2
        assert s.ctl("order", "cancel", check=False).returncode == 2
        assert s.ctl("order", "cancel", "4711", check=False).returncode == 1
