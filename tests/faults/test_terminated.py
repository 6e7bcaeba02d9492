"""failures.md, the first row of the matrix, inside the transactions: pg_terminate_backend at each table that they write, and at
the commit itself. The same ids run again, and what was begun left nothing. Rules 16–20: infrastructure is nobody's own failure."""
import uuid

import pytest

from faults import TIMES
from services import wait_for
from system import System

# What each writes, in its order; the commit is a trigger that waits for it.
INBOX, OUTCOME = "BEFORE INSERT ON consumer_inbox", "BEFORE UPDATE ON consumer_inbox"
ENDED = ["AFTER UPDATE ON orders", "AFTER INSERT ON stock_ledger", "BEFORE INSERT ON outbox", "AFTER UPDATE ON seckill_inventory",
         "AFTER INSERT ON outbox DEFERRABLE INITIALLY DEFERRED"]
STEPS = {"placed": [INBOX, "AFTER INSERT ON orders", *ENDED[1:]], "cancelled": [INBOX, OUTCOME, *ENDED], "closed": ENDED}


class Terminator:
    """Ends the backend that is the first to get there; a sequence counts even what is rolled back."""

    def __init__(self, s, step):
        self.s, self.step = s, step
        constraint = "CONSTRAINT" if "DEFERRED" in step else ""
        s.sql(f"""CREATE SEQUENCE terminated;
            CREATE FUNCTION terminate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('terminated') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); END IF;
                RETURN NEW; END $$;
            CREATE {constraint} TRIGGER terminate {step} FOR EACH ROW EXECUTE FUNCTION terminate()""")
        self.table = step.split(" ON ")[1].split()[0]

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc):
        again = self.s.sql("SELECT last_value FROM terminated")[0][0]
        self.s.sql(f"DROP TRIGGER terminate ON {self.table}; DROP FUNCTION terminate; DROP SEQUENCE terminated")
        assert kind or again >= 2, f"nobody got there again: {self.step}"


@pytest.mark.parametrize("way", STEPS)
def test_a_backend_is_terminated(way):
    with System({"worker.recover_after": "1s", "worker.recover_interval": "200ms"}) as s:
        for _ in range(TIMES["terminated"]):
            for step in STEPS[way]:
                item = s.item(stock=8)
                if way == "placed":
                    with Terminator(s, step):
                        s.storm(item, 12)
                        item.await_settled(30)
                    assert item.orders() == 8, step
                else:
                    keys = {user: str(uuid.uuid4()) for user in range(1, 7)}
                    for user, key in keys.items():
                        assert s.buy(item, user, key).status == 202
                    item.await_settled()
                    if way == "closed":
                        s.worker.terminate()
                        s.sql(f"UPDATE orders SET created_at = created_at - interval '1 hour' WHERE activity_id = {item.activity}")
                    with Terminator(s, step):
                        if way == "closed":
                            s.worker.start()
                        else:
                            for user, key in keys.items():
                                assert s.cancel(item, user, key).status == 202
                        wait_for(f"the ends, through {step}", lambda i=item: i.orders() == 0)
                        item.await_settled(30)
                    assert item.books()["free"] == 8, step
                item.audit()
        print(f"made {len(STEPS[way]) * TIMES['terminated']} backends terminated")
        assert s.sql("SELECT count(*) FROM consumer_attempt_log") == [(0,)]
        assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]
