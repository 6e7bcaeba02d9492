"""Around a sale on RocketMQ: what is on the wire, as an official client sees it, and whatever is killed or stopped, wherever.
The audit after each."""
import json
import signal
import uuid

import client
from sale import KILLED, SHORT, System, await_ready, settle_and_audit, through, wait_for
from system import FULL

ROUNDS = 3 if FULL else 1
DUPLICATES = 'seckill_mq_process_duration_seconds_count{outcome="duplicate"}'


def test_an_official_client_reads_what_we_publish_and_we_read_what_it_publishes(mq):
    """Section 4 of the design: body, tag, keys, properties, id. Rule 16: the inbox's key is the transport's no more than
    the group is."""
    with System(queue=mq) as s:
        item = s.item(stock=10)
        key, trace = str(uuid.uuid4()), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with client.Connection(s.api.ports["api"]) as c:
            c.send(s.order_request(item, 7, key, traceparent=trace))
            assert c.answer().status == 202
        message, = s.consumed(1)
        event = json.loads(message["body"])
        record = item.record(7, key)
        assert {k: str(event[k]) for k in ("message_id", "reservation_id", "order_id", "request_id", "user_id")} == {
            **{k: record[k] for k in ("message_id", "reservation_id", "order_id")}, "request_id": key, "user_id": "7"}
        assert message["id"] == "01" + event["message_id"].replace("-", "").upper()
        assert message["tag"] == "ORDER_CREATE_REQUESTED"
        assert set(message["keys"]) == {event["message_id"], event["message_key"], key}
        assert event["message_key"] == f"{item.activity}:{item.sku}:{event['reservation_id']}"
        assert event["trace"]["traceparent"] == message["properties"]["traceparent"]
        assert trace[:36] == event["trace"]["traceparent"][:36]
        item.await_settled()
        # The same one again, by another's hand, is the same one.
        item.publish(message["body"])
        settle_and_audit(item, 1)
        assert s.worker.metric(DUPLICATES) == 1
        other = s.item(stock=10)
        other.publish(other.event(8))
        other.await_settled()
        assert other.orders() == 1
        assert s.sql("SELECT DISTINCT consumer_group FROM consumer_inbox") == [("seckill-order-create-v1",)]
        other.audited = True  # nobody reserved that one


WORKER_PLACES = ["after_receive:2", "before_place", "after_commit", "after_settle:2", "before_mark_settled", "after_ack"]


def test_order_worker_at_its_places(mq):
    """Rules 1, 9 and 16: before and after each step that lasts. One life after the other, so that what one held comes back
    while the next ones die."""
    with System(SHORT, queue=mq) as s:
        item = s.item(stock=400)
        s.worker.terminate()
        bought = 0
        for place in WORKER_PLACES * ROUNDS:
            try:
                s.worker.start_with(place)
            except RuntimeError:  # it is there before it is ready
                pass
            s.storm(item, 20, "--rate", 100, "--first-user", bought + 1)
            bought += 20
            assert s.worker.await_end() == KILLED, place
        s.worker.start_with()
        settle_and_audit(item, bought)


def test_order_worker_in_recovery_and_quarantine(mq, faults):
    """Rules 24, 28 and 29: events that never reached the broker, and the worker dies while it publishes them; then with one
    that is none, stored but not acknowledged."""
    s = System(SHORT, queue=mq)
    link, = through(faults, mq, s.api)
    with s:
        item = s.item(stock=40)
        s.worker.terminate()
        item.publish("{no JSON")
        with link.down():
            for user in range(1, 11):
                assert s.buy(item, user).status == 202
            for place in ("quarantine_stored", "recover_after_claim", "recover_after_publish:3"):
                try:
                    s.worker.start_with(place)
                except RuntimeError:
                    pass
                assert s.worker.await_end() == KILLED, place
        s.worker.start_with()
        settle_and_audit(item, 10)
        assert s.sql("SELECT message_id, convert_from(body, 'UTF8') FROM dead_letters") == [(None, "{no JSON")]


API_PLACES = ["before_hold:5", "after_hold:9", "before_publish:5", "after_publish:9", "before_mark:9"]


def test_seckill_api_at_its_places(mq):
    """Rules 1 and 13: what was held and not published is found by recovery; what was published is not published twice over
    in effect. An answer that was lost is asked for again with the same key."""
    with System(SHORT, queue=mq) as s:
        items = []
        for place in API_PLACES * ROUNDS:
            item = s.item(stock=30)
            items.append(item)
            assert s.api.terminate() == 0
            s.api.start_with(place)
            storm = s.storm(item, 40, "--rate", 200, background=True)
            assert s.api.await_end() == KILLED, place
            s.api.start_with()
            s.storm_end(storm)
        for item in items:
            settle_and_audit(item, 30)


def test_seckill_api_before_it_takes_a_unit_back(mq, faults):
    """Rules 1 and 8: strict, refused for certain, and then it dies: recovery sells it to the one who holds it."""
    s = System({**SHORT, "api.publish_refused": "strict", "api.publish_timeout": "1s"}, queue=mq)
    link, = through(faults, mq, s.api)
    with s:
        item = s.item(stock=1)
        s.api.terminate()
        s.api.start_with("before_release")
        link.disable()
        with client.Connection(s.api.ports["api"]) as c:
            c.send(s.order_request(item, 7))
            try:
                raise AssertionError(c.answer())
            except (client.Closed, OSError):
                pass
        assert s.api.await_end() == KILLED
        link.enable()
        s.api.start_with()
        assert s.buy(item, 8).code == "SOLD_OUT"
        settle_and_audit(item, 1)


def test_order_worker_stops_and_goes_on_under_load(mq):
    """SIGTERM: what was handed out is finished and acknowledged, what was not goes back at once, not when its lease ends."""
    with System({"rocketmq.lease": "60s", "rocketmq.poll": "1s"}, queue=mq) as s:
        item = s.item(stock=600)
        storm = s.storm(item, 700, "--rate", 100, background=True)
        for place in (50, 250, 450):
            wait_for("orders", lambda n=place: item.orders() >= n, 60)
            s.worker.signal(signal.SIGTERM)
            assert s.worker.await_end() == 0
            s.worker.start()
            # What that life did is not delivered to this one.
            assert s.worker.metric(DUPLICATES) == 0
        s.storm_end(storm)
        settle_and_audit(item, 600, timeout=40)  # with a lease of 60 s
        assert s.worker.metric(DUPLICATES) == 0


def test_all_at_once_under_a_storm(mq):
    with System(SHORT, queue=mq) as s:
        item = s.item(stock=150)
        storm = s.storm(item, 400, "--rate", 200, background=True)
        wait_for("the sale", lambda: item.books()["seq"] > 60)
        for program in s.programs:
            program.signal(signal.SIGTERM)
        for program in s.programs:
            assert program.await_end() == 0
            program.start()
        s.storm_end(storm)
        settle_and_audit(item, 150)
        await_ready(s.api, s.worker)
