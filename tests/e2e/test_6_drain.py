"""Issue 3, number 6: SIGTERM under load. No client sees a reset; nothing that is not acknowledged is lost."""
import contextlib
import signal
import threading
import uuid

import client
from services import wait_for
from system import System


class Clients:
    """Threads that ask over and over, on connections they keep or on new ones each time, until the port is closed."""

    def __init__(self, port, make, n=12, keep=True):
        self.port, self.make, self.keep = port, make, keep
        self.answers, self.resets, self.unanswered, self.failed = [], [], [], []
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(n)]
        self.number = 0

    def _run(self, thread):
        n = 0
        try:
            while True:
                try:
                    c = client.Connection(self.port)
                except ConnectionRefusedError:
                    return
                except ConnectionResetError:
                    self.resets.append("at connect")
                    continue
                with c:
                    while True:
                        n += 1
                        data = self.make(thread * 100_000 + n)
                        try:
                            c.send(data)
                            self.answers.append(c.answer())
                        except client.Closed as end:
                            if end.reset:
                                self.resets.append(data[:60])
                            elif end.got:
                                self.failed.append(f"half an answer: {end.got!r}")
                            self.unanswered.append(data)
                            break
                        except (BrokenPipeError, ConnectionResetError):
                            self.resets.append(data[:60])
                            break
                        if self.answers[-1].closes or not self.keep:
                            break
        except Exception as e:  # pylint: disable=broad-except
            self.failed.append(repr(e))

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        for t in self.threads:
            t.join(60)

    def check(self):
        assert not self.failed, self.failed[:3]
        assert not self.resets, f"{len(self.resets)} resets: {self.resets[:3]}"


def drain(endpoints, keep, part="api"):
    with System({"drain.endpoints": endpoints}) as s:
        item = s.item(stock=100_000)
        program = getattr(s, part)
        if part == "api":
            make = lambda n: s.order_request(item, n)  # noqa: E731
        else:
            key = str(uuid.uuid4())
            assert s.buy(item, 7, key).status == 202
            target = f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{key}"
            data = client.request("GET", target, {"Authorization": f"Bearer {s.token(7)}"})
            make = lambda n: data  # noqa: E731
        with Clients(program.ports[part], make, keep=keep) as clients:
            wait_for("load", lambda: len(clients.answers) > 300 or clients.failed)
            program.signal(signal.SIGTERM)
            if endpoints != "0s":
                # Not ready at once, but still serving.
                before = len(clients.answers)
                wait_for("unreadiness", lambda: program.get("/readyz").status == 503)
                wait_for("answers meanwhile", lambda: len(clients.answers) > before + 20)
            assert program.await_end() == 0
        clients.check()
        good = {202} if part == "api" else {200}
        assert {a.status for a in clients.answers} <= good | {503}
        program.start()  # for the audit, and the end
        item.audit()


def test_seckill_api_kept_connections():
    drain("0s", keep=True)


def test_seckill_api_still_serves_while_the_balancers_look():
    drain("500ms", keep=True)


def test_seckill_api_new_connections():
    drain("300ms", keep=False)


def test_query_api():
    drain("300ms", keep=True, part="query")
    drain("0s", keep=False, part="query")


def test_order_worker_under_load():
    """What is in hand is finished and acknowledged; what is not received waits for the next."""
    with System() as s:
        item = s.item(stock=1500)
        storm = s.storm(item, 2000, "--rate", 700, background=True)
        for place in (50, 400, 800):
            wait_for("orders", lambda n=place: item.orders() >= n)
            assert s.worker.terminate() == 0
            assert item.backlog()[1] == 0, "received, but not acknowledged"
            s.worker.start()
        s.storm_end(storm)
        item.await_settled()
        assert item.orders() == 1500
        # Nothing had to be delivered twice.
        assert s.worker.metric('seckill_mq_reclaimed_total') == 0


def test_order_worker_whose_database_hangs():
    """The deadline passes: what is in hand stays unacknowledged, and the next worker does it."""
    with System({"drain.worker": "1s", "drain.after_cancel": "2s", "queue.lease": "1s", "worker.lease_margin": "250ms"}) as s:
        item = s.item(stock=200)
        with contextlib.ExitStack() as at_end:
            s.worker.signal(signal.SIGSTOP)
            at_end.callback(s.worker.signal, signal.SIGCONT)
            for user in range(1, 101):
                assert s.buy(item, user).status == 202
            s.sql("BEGIN")
            s.sql("SELECT FROM seckill_inventory FOR UPDATE")
        wait_for("messages in hand", lambda: s.worker.metric("seckill_mq_inflight_messages") > 0)
        assert s.worker.terminate() == 0
        assert item.orders() == 0
        assert item.backlog()[1] > 0
        s.sql("COMMIT")
        s.worker.start()
        item.await_settled()
        assert item.orders() == 100


def test_all_at_once_under_a_storm():
    with System({"drain.endpoints": "200ms"}) as s:
        item = s.item(stock=500)
        storm = s.storm(item, 1500, "--rate", 800, background=True)
        wait_for("the sale", lambda: item.books()["seq"] > 200)
        for program in s.programs:
            program.signal(signal.SIGTERM)
        for program in s.programs:
            assert program.await_end() == 0
            program.start()
        s.storm_end(storm)
        item.await_settled()
        assert item.orders() == 500
