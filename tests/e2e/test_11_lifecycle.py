"""Issue 5, order lifecycle: cancel, pay and expiry on the whole system, the audit after each. failures.md 1 and 9; rules 4, 7,
27, 31."""
import json
import threading
import time
import uuid

import client
from services import wait_for
from system import System


def bought(s, item, user):
    """(key, order id) of an order that is there."""
    key = str(uuid.uuid4())
    answer = s.buy(item, user, key)
    assert answer.status == 202, answer
    await_state(s, item, user, key, "SUCCEEDED")
    return key, answer.json["order_id"]


def await_state(s, item, user, key, state):
    return wait_for(f"{state} of user {user}", lambda: (a := s.state(item, user, key)).code == state and a)


def status(s, user, order_id):
    answer = s.order(user, order_id)
    return answer.json["status"] if answer.status == 200 else None


def test_bought_and_paid():
    """Rule 27: a PAID order cannot be cancelled; a second payment is refunded; the same payment again is the same payment."""
    with System(record=True) as s:
        item = s.item(stock=3)
        key, order = bought(s, item, 7)
        answer = s.pay(item, 7, key, order, "pay-1")
        assert answer.status == 202, answer
        assert answer.json["payment_id"] == "pay-1" and answer.json["order_id"] == order
        wait_for("the payment", lambda: status(s, 7, order) == "PAID")
        assert s.pay(item, 7, key, order, "pay-1").status == 202
        assert s.pay(item, 7, key, order, "pay-2").status == 202
        wait_for("the refund", lambda: s.sql("SELECT payment_id, reason FROM refunds") == [("pay-2", "ALREADY_PAID")])
        asked = s.cancel(item, 7, key)
        assert asked.status == 202 and asked.json["cancel"] == "REQUESTED", asked
        item.await_settled()
        wait_for("the cancel's end", lambda: s.sql(
            "SELECT result, last_error_code FROM consumer_inbox WHERE command = 'ORDER_CANCEL_REQUESTED'") == [("REFUSED", "PAID")])
        assert status(s, 7, order) == "PAID" and s.state(item, 7, key).code == "SUCCEEDED"
        wait_for("the refusal to be told", lambda: s.state(item, 7, key).json.get("cancel") == "REFUSED")
        s.redis_client.rename(item.key(f"reservation:7:{key}"), "elsewhere")  # PostgreSQL tells the same
        told = s.state(item, 7, key).json
        s.redis_client.rename("elsewhere", item.key(f"reservation:7:{key}"))
        assert told["state"] == "SUCCEEDED" and told["cancel"] == "REFUSED", told
        assert item.orders() == 1 and item.books()["free"] == 2


class Instances:
    """Two seckill-apis whose hints refuse everybody: what ends a hint, and who hears of it."""

    def __init__(self, s, item):
        self.s, self.item = s, item
        self.both = [s.api, s.program("api").start()]
        self.seen = {}

    def ask(self, program, user):
        return self.s.buy(self.item, user, api=program)

    def await_hints(self, user):
        """Until each refuses a stranger without Redis. From then on nobody asks them anything: a hint that nobody probes is
        renewed by nothing, and ended by nothing but news."""
        for program in self.both:
            wait_for("the hint", lambda p=program: self.s.hinted(self.item, user, p))
        self.seen = {p: (p.metric("seckill_hint_ended_total"), p.metric("seckill_hint_probes_total")) for p in self.both}

    def await_news(self):
        for program in self.both:
            wait_for("the news of the unit", lambda p=program: p.metric("seckill_hint_ended_total") > self.seen[p][0])

    def probed(self, program):
        """Let through by the backstop."""
        return program.metric("seckill_hint_probes_total") > self.seen[program][1]


# One loop an instance: its hint is the one that is looked at.
ONE_LOOP = {"api.loops": "1"}


def test_a_cancelled_unit_is_bought_again_on_every_instance():
    """Rules 4, 5, 7, 10; failures.md 1. Stock 10, a hundred buyers at once, one cancels: one more sale, on either instance, whose
    hints had refused everybody: the news of it end them, no probe."""
    with System(ONE_LOOP, record=True) as s:
        item = s.item(stock=10)
        instances = Instances(s, item)
        first, other = instances.both
        keys = {user: str(uuid.uuid4()) for user in range(1, 101)}
        answers = s.crowd(item, keys)
        winners = [u for u, a in zip(keys, answers) if a.status == 202]
        losers = [u for u in keys if u not in winners]
        assert len(winners) == 10 and all(a.status in (202, 409) for a in answers)
        item.await_settled()
        holder, key = winners[0], keys[winners[0]]
        for here, there in ((other, first), (first, other)):
            instances.await_hints(losers.pop())
            # by the instance that will not sell it
            assert s.cancel(item, holder, key, there).status == 202
            instances.await_news()
            buyer = losers.pop()
            got, refused = instances.ask(here, buyer), instances.ask(there, losers.pop())
            assert (got.status, refused.code) == (202, "SOLD_OUT"), (got, refused)
            assert not instances.probed(here) and not instances.probed(there)
            item.await_settled()
            assert item.orders() == 10 and item.books()["free"] == 0
            assert s.state(item, holder, key).json["reason"] == "CANCELLED"
            holder, key = buyer, got.json["request_id"]
        item.audit()
        assert other.terminate() == 0


def test_a_closed_unit_is_bought_again_on_every_instance():
    """Rules 4, 7, 31: as above, when it was not paid in time."""
    with System({**ONE_LOOP, "order.unpaid": "8s"}, record=True) as s:
        item = s.item(stock=2)
        instances = Instances(s, item)
        for user in (1, 2):
            bought(s, item, user)
        instances.await_hints(3)
        instances.await_news()
        item.await_settled()
        wait_for("both to be closed", lambda: item.books()["free"] == 2)
        for user, program in enumerate(instances.both, 4):
            assert instances.ask(program, user).status == 202
            assert not instances.probed(program)
        item.await_settled()
        assert item.orders() == 2
        item.audit()
        assert instances.both[1].terminate() == 0


def test_the_canceller_buys_again():
    """Rules 5, 12: with a new key; the old one tells what became of it."""
    with System(record=True) as s:
        item = s.item(stock=1)
        key, order = bought(s, item, 1)
        assert s.buy(item, 1).code == "DUPLICATE_ORDER"
        assert s.cancel(item, 1, key).status == 202
        await_state(s, item, 1, key, "CANCELLED")
        closed = s.cancel(item, 1, key)
        assert (closed.status, closed.code, closed.json["state"], closed.json["reason"]) == (
            409, "REQUEST_CLOSED", "CANCELLED", "CANCELLED")
        assert s.buy(item, 1, key).code == "REQUEST_CLOSED"
        again, second = bought(s, item, 1)
        assert again != key and second != order and status(s, 1, order) == "CANCELLED"
        # Late money for the first order does not touch the second.
        assert s.pay(item, 1, key, order, "late").status == 202
        wait_for("the refund", lambda: s.sql("SELECT reason FROM refunds") == [("CANCELLED",)])
        assert status(s, 1, second) == "CREATED" and item.books()["free"] == 0


def test_expiry_and_a_late_payment():
    """Rule 31; failures.md 9: A's order expires, B buys, A's payment arrives: refunded, stock untouched."""
    with System({"order.unpaid": "2s"}, record=True) as s:
        item = s.item(stock=1)
        key, order = bought(s, item, 1)
        assert s.buy(item, 2).code == "SOLD_OUT"
        closed = await_state(s, item, 1, key, "CANCELLED")
        assert closed.json["reason"] == "EXPIRED" and status(s, 1, order) == "CLOSED"
        wait_for("the unit on sale", lambda: item.books()["free"] == 1)
        other, second = bought(s, item, 2)
        assert s.pay(item, 2, other, second).status == 202
        wait_for("B's payment", lambda: status(s, 2, second) == "PAID")
        assert s.pay(item, 1, key, order, "late").status == 202
        wait_for("A's refund", lambda: s.sql("SELECT payment_id, reason FROM refunds") == [("late", "EXPIRED")])
        assert status(s, 1, order) == "CLOSED" and item.books()["free"] == 0 and item.orders() == 1


def test_pay_and_expire_at_once():
    """failures.md 9: whoever comes first; each order is paid, or closed and its payment refunded, and the unit counts once."""
    with System({"order.unpaid": "3s"}, record=True) as s:
        item = s.item(stock=40)
        orders = {user: bought(s, item, user) for user in range(1, 41)}
        first = s.sql("SELECT extract(epoch FROM min(created_at))::float8 FROM orders")[0][0]
        time.sleep(max(0.0, first + 3 + 2 - 0.3 - time.time()))  # the sweep begins about now

        def pay(users):
            for user in users:
                key, order = orders[user]
                assert s.pay(item, user, key, order, f"p{user}").status == 202
        threads = [threading.Thread(target=pay, args=(range(n, 41, 4),)) for n in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        item.await_settled()
        wait_for("each payment's end", lambda: s.sql("SELECT count(*) FROM payments WHERE status <> 'ACCEPTED'") == [(40,)])
        wait_for("no order unpaid", lambda: s.sql("SELECT count(*) FROM orders WHERE status = 'CREATED'") == [(0,)])
        paid, closed, refunds = s.sql("""SELECT (SELECT count(*) FROM orders WHERE status = 'PAID'),
            (SELECT count(*) FROM orders WHERE status = 'CLOSED'), (SELECT count(*) FROM refunds)""")[0]
        print(f"{paid} paid, {closed} closed")
        assert paid + closed == 40 and refunds == closed
        item.await_settled()
        assert item.books()["free"] == closed


def test_cancels_before_their_orders():
    """Rule 27: parked while the order is not there, run when it is."""
    with System(record=True) as s:
        item = s.item(stock=5)
        s.worker.terminate()
        keys = {user: str(uuid.uuid4()) for user in range(1, 4)}
        for user, key in keys.items():
            answer = s.buy(item, user, key)
            assert answer.status == 202
            asked = s.cancel(item, user, key)
            assert asked.status == 202 and asked.code == "QUEUED", asked
        # The order events come after their commands: as if they had been published again.
        bodies = item.published(6)
        if not s.mq:
            s.redis_client.xtrim(item.key("events"), maxlen=0)
            item.publish(*[b for b in bodies if b"ORDER_CANCEL" in b])
        s.worker.start()
        if not s.mq:
            wait_for("parked", lambda: s.sql("SELECT count(*) FROM parked_commands WHERE done_at IS NULL") == [(3,)])
            item.publish(*[b for b in bodies if b"ORDER_CANCEL" not in b])
        for user, key in keys.items():
            await_state(s, item, user, key, "CANCELLED")
        item.await_settled()
        assert s.sql("SELECT count(*) FROM parked_commands WHERE done_at IS NULL") == [(0,)]
        assert item.orders() == 0 and item.books()["free"] == 5


def test_what_is_refused():
    with System(record=True) as s:
        item = s.item(stock=2)
        key, order = bought(s, item, 1)
        unknown = str(uuid.uuid4())
        assert s.cancel(item, 1, unknown).code == "NOT_FOUND"
        assert s.cancel(item, 2, key).code == "NOT_FOUND"  # somebody else's
        assert s.cancel(item, 1, "x").code == "INVALID_ARGUMENT"
        with client.Connection(s.api.ports["api"]) as c:
            path = f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{key}/cancel"
            assert c.ask("POST", path, {}, b"").code == "UNAUTHENTICATED"
            assert c.ask("POST", path, {"Authorization": f"Bearer {s.token(1)}"}, b"{}").code == "INVALID_ARGUMENT"
            assert c.ask("GET", path, {}).status == 405
            absent = f"/v1/activities/{item.activity}/skus/9/requests/{key}/cancel"
            assert c.ask("POST", absent, {"Authorization": f"Bearer {s.token(1)}"}, b"").code == "NOT_FOUND"

        body = s.payment(item, 1, key, order)
        now = time.time()

        def pay(authorization, sent=body, kind="application/json"):
            with client.Connection(s.api.ports["api"]) as c:
                answer = c.ask("POST", "/v1/payments", {"Content-Type": kind, **({"Authorization": authorization} if authorization
                                                                                else {})}, sent)
                return answer
        good = s.signature(body)
        for authorization in (None, "", f"Bearer {s.token(1)}", s.signature(body, secret="x" * 64), s.signature(body + b" "),
                              s.signature(body, at=now - 400), s.signature(body, at=now + 400), good[:-1], good + "0",
                              good.replace("t=", "t=0"), good.replace("v1", "v2"), good + ",v1=" + "0" * 64,
                              good.upper()):
            answer = pay(authorization)
            assert answer.code == "UNAUTHENTICATED", (authorization, answer)
            assert answer.headers["www-authenticate"] == "Seckill-HMAC-SHA256"
        assert pay(good, kind="text/plain").code == "UNSUPPORTED_MEDIA_TYPE"
        for sent, code in ((b"{", "INVALID_JSON"), (body[:-1] + b',"x":1}', "INVALID_JSON"), (b"{}", "INVALID_ARGUMENT"),
                           (s.payment(item, 1, key, order, "cancel" + key), "INVALID_ARGUMENT"),
                           (s.payment(item, 0, key, order), "INVALID_ARGUMENT"),
                           (s.payment(item, 1, "k", order), "INVALID_ARGUMENT")):
            assert pay(s.signature(sent), sent).code == code, sent
        assert s.pay(item, 1, key, int(order) + 1).code == "NOT_FOUND"  # not this request's order
        nowhere = type(item)(s, item.activity, 9, 0)
        assert s.pay(nowhere, 1, key, order).code == "NOT_FOUND"
        # The money of a request that nobody knows: taken, and refunded when it is given up.
        assert s.pay(item, 5, unknown, 77, "lost").status == 202
        wait_for("parked", lambda: s.sql("SELECT count(*) FROM parked_commands") == [(1,)])
        assert s.sql("SELECT count(*) FROM payments") == [(1,)] and status(s, 1, order) == "CREATED"
        item.await_settled()


def test_money_under_anothers_id_is_told():
    """Both payments are one command, so the second is never a new one; but somebody has to hear of it."""
    with System(record=True) as s:
        item = s.item(stock=2)
        (first, order), (second, other) = bought(s, item, 1), bought(s, item, 2)
        assert s.pay(item, 1, first, order, "p").status == 202
        wait_for("the first one", lambda: status(s, 1, order) == "PAID")
        refused = 'seckill_order_commands_total{command="pay",result="refused"}'
        assert s.worker.metric(refused) == 0
        assert s.pay(item, 1, first, order, "p").status == 202  # the same again is nothing to tell
        assert s.pay(item, 2, second, other, "p").status == 202
        wait_for("the second one", lambda: s.worker.metric(refused) == 1)
        assert status(s, 2, other) == "CREATED" and s.sql("SELECT count(*) FROM payments") == [(1,)]
        told, = [line for line in s.worker.logged("command processed") if line["level"] == "warn"]
        assert (told["payment_id"], told["user_id"], told["reason"]) == ("p", 2, "PAYMENT_ID_REUSED")
        item.await_settled()


def test_redis_away():
    """Rule 27: never 202 then."""
    with System({"api.command_timeout": "500ms", "redis.reply_timeout": "200ms"}, record=True) as s:
        item = s.item(stock=2)
        key, order = bought(s, item, 1)
        item.await_settled()
        s.redis.down()
        for answer in (s.cancel(item, 1, key), s.pay(item, 1, key, order)):
            assert answer.status in (503, 504), answer
        s.redis.start()
        wait_for("the cancel to be taken", lambda: s.cancel(item, 1, key).status == 202)
        await_state(s, item, 1, key, "CANCELLED")


def test_the_operators_commands():
    """seckillctl pay, as the payment provider; order show."""
    with System(record=True) as s:
        item = s.item(stock=1)
        key, order = bought(s, item, 1)
        pay = ["pay", *item.flags, "--user", "1", "--request", key, "--order", order, "--payment", "ctl-1", "--json", "--api",
               f"127.0.0.1:{s.api.ports['api']}"]
        assert json.loads(s.ctl(*pay).stdout) == {"payment_id": "ctl-1", "order_id": order, "state": "ACCEPTED"}
        wait_for("the payment", lambda: status(s, 1, order) == "PAID")
        shown = json.loads(s.ctl("order", "show", order, "--json").stdout)
        assert (shown["order_id"], shown["status"], shown["request_id"]) == (order, "PAID", key)
        assert s.ctl("order", "show", "1", check=False).returncode == 1
        assert s.ctl("order", "show", "x", check=False).returncode == 2
        pay[pay.index(order)] = "5"  # not this request's order
        done = s.ctl(*pay, check=False)
        assert done.returncode == 1 and "NOT_FOUND" in done.stderr, done
        pay[pay.index("ctl-1")] = "cancel"
        assert s.ctl(*pay, check=False).returncode == 2
