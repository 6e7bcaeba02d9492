"""Issue 3, number 5: whatever is killed, wherever it is, the audit is clean after its restart and nothing is stuck."""
import random
import threading
import uuid

import client
import pytest
from services import wait_for
from system import FULL, System

KILLED = 128 + 9
ABORTED = 128 + 6
SHORT = {"queue.lease": "1s", "worker.lease_margin": "250ms", "worker.recover_after": "500ms", "worker.recover_interval": "200ms",
         "api.instance_lease": "2s"}
ROUNDS = 3 if FULL else 1


def sold_to(item, n):
    """Waits until n units were taken: a place in the sale that is the same whatever the machine's speed is."""
    wait_for(f"{n} units to be taken", lambda: item.books()["seq"] >= n)


def settle_and_audit(item):
    item.await_settled(30)  # I10
    item.audit()


# After which of the places (and how often reached) the worker dies; several: one life after the other.
WORKER_PLACES = [["after_receive:2"], ["before_place"], ["before_place:4"], ["after_commit"], ["after_commit:3"],
                 ["after_settle:2"], ["before_mark_settled"], ["after_ack"], ["after_ack:3"],
                 ["after_commit:2", "relay_after_settle"]]


def test_order_worker_at_ten_places():
    """Rules 1, 9 and 16: before and after each step that lasts."""
    with System(SHORT, record=True) as s:
        for places in WORKER_PLACES * ROUNDS:
            item = s.item(stock=100)
            s.worker.terminate()
            s.worker.start_with(places[0])
            storm = s.storm(item, 150, "--rate", 600, background=True)
            for place, following in zip(places, [*places[1:], None]):
                assert s.worker.await_end() == KILLED, place
                try:
                    s.worker.start_with(following)
                except RuntimeError:  # it is there before it is ready
                    assert following
            s.storm_end(storm)
            settle_and_audit(item)
            assert item.orders() == 100, places
        assert s.worker.starts >= 20


def test_order_worker_in_recovery():
    """Rules 1 and 28: events that the queue lost, and the worker dies while it publishes them again."""
    with System(SHORT, record=True) as s:
        item = s.item(stock=100)
        s.worker.terminate()
        for user in range(1, 21):
            assert s.buy(item, user).status == 202
        s.redis_client.xtrim(item.key("events"), maxlen=0, approximate=False)
        # What stands behind the last that was delivered is left alone: these are delivered, and so those were passed.
        for user in range(21, 31):
            assert s.buy(item, user).status == 202
        for place in ("recover_after_claim", "recover_after_publish:3"):
            try:
                s.worker.start_with(place)
            except RuntimeError:
                pass
            assert s.worker.await_end() == KILLED, place
        s.worker.start_with()
        settle_and_audit(item)
        assert item.orders() == 30


def test_order_worker_while_it_quarantines():
    """Rule 24: stored, but not acknowledged: once more is no second dead letter."""
    with System(SHORT, record=True) as s:
        item = s.item(stock=10)
        s.worker.terminate()
        s.worker.start_with("quarantine_stored")
        item.publish("{no JSON")
        assert s.worker.await_end() == KILLED
        s.worker.start_with()
        assert s.buy(item, 1).status == 202
        settle_and_audit(item)
        assert s.sql("SELECT message_id, convert_from(body, 'UTF8') FROM dead_letters") == [(None, "{no JSON")]


API_PLACES = ["before_hold", "before_hold:40", "after_hold", "after_hold:9", "after_hold:80", 1, 17, 40, 77, 95]


def test_seckill_api_at_ten_places():
    """Around the hold, and at any time. An answer that was lost is asked for again with the same key."""
    with System(SHORT, record=True) as s:
        for place in API_PLACES * ROUNDS:
            item = s.item(stock=100)
            named = isinstance(place, str)
            if named:
                assert s.api.terminate() == 0
                s.api.start_with(place)
            storm = s.storm(item, 200, "--rate", 800, background=True)
            if named:
                assert s.api.await_end() == KILLED, place
            else:
                sold_to(item, place)
                s.api.kill()
            s.api.start_with()
            s.storm_end(storm)
            settle_and_audit(item)


def test_query_api_at_ten_times():
    """A reader sees true states, or an end of the connection: never that a request was not made."""
    with System(SHORT, record=True) as s:
        item = s.item(stock=50)
        keys = {user: str(uuid.uuid4()) for user in range(1, 51)}
        for user, key in keys.items():
            assert s.buy(item, user, key).status == 202
        item.await_settled()
        seen, wrong, over = [], [], threading.Event()
        requests = [client.request("GET", f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{key}",
                                   {"Authorization": f"Bearer {s.token(user)}"}) for user, key in keys.items()]

        def read(n):
            rng = random.Random(n)
            while not over.is_set():
                try:
                    with client.Connection(s.query.ports["query"]) as c:
                        while not over.is_set():
                            c.send(rng.choice(requests))
                            answer = c.answer()
                            if answer.status == 200 and answer.json["state"] == "SUCCEEDED":
                                seen.append(n)
                            elif answer.status != 503:
                                wrong.append(answer)
                except (OSError, client.Closed):
                    over.wait(0.01)

        readers = [threading.Thread(target=read, args=(n,)) for n in range(4)]
        for reader in readers:
            reader.start()
        try:
            for _ in range(10 * ROUNDS):
                before = len(seen)
                wait_for("answers", lambda n=before: len(seen) > n + 50)
                s.query.kill()
                s.query.start()
        finally:
            over.set()
            for reader in readers:
                reader.join()
        assert not wrong, wrong[:3]


@pytest.mark.parametrize("store", ["redis", "pg"])
def test_a_store_under_load(store):
    """AOF always: what was confirmed is there after kill -9. PostgreSQL ends as after a power cut."""
    with System(SHORT, record=True) as s:
        for place in (5, 100, 250) * ROUNDS:
            item = s.item(stock=300)
            storm = s.storm(item, 600, "--rate", 600, background=True)
            sold_to(item, place)
            server = getattr(s, store)
            server.kill()
            server.start()
            s.storm_end(storm)
            settle_and_audit(item)


def test_a_message_that_aborts_the_worker_every_time():
    """Rules 23 and 25: with fewer and fewer neighbours, at last alone, then quarantined. Its neighbours are all ordered;
    replayed under a worker that can stand it, so is it."""
    with System(SHORT, record=True) as s:
        item = s.item(stock=100)
        s.worker.terminate()
        users = range(1, 81)
        keys = {user: str(uuid.uuid4()) for user in users}
        for user, key in keys.items():
            assert s.buy(item, user, key).status == 202
        deaths = 0

        def quarantined():
            """Supervises: whatever ended is started again."""
            nonlocal deaths
            if not s.worker.tether or not s.worker.alive():
                if s.worker.tether:
                    assert s.worker.await_end() == ABORTED
                    deaths += 1
                try:
                    s.worker.start_with("place_message:40")
                except RuntimeError:
                    pass
            return s.sql("SELECT user_id FROM consumer_inbox WHERE status = 'QUARANTINED'")

        assert wait_for("the quarantine", quarantined, 120) == [(40,)]
        assert 6 <= deaths <= 30, deaths
        wait_for("the neighbours", lambda: item.orders() == 79, 30)
        assert s.worker.alive()
        assert s.sql("SELECT count(*) FROM dead_letters WHERE user_id = 40") == [(1,)]
        assert s.sql("SELECT count(*) FROM consumer_attempt_log") == [(0,)]
        assert s.worker.terminate() == 0
        s.worker.start_with()
        letter = s.sql("SELECT dead_letter_id FROM dead_letters")[0][0]
        s.ctl("dead-letters", "replay", str(letter))
        settle_and_audit(item)
        assert item.orders() == 80
        assert item.record(40, keys[40])["state"] == "SUCCEEDED"
