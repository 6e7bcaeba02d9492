"""What the broker gives up, and what never works: rules 22 to 25."""
import json

from sale import KILLED, SHORT, System, settle_and_audit, wait_for
from system import FULL


def break_placing(s, user):
    """Each order of that user fails by its own fault."""
    s.sql(f"""CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.user_id = {user} THEN RAISE EXCEPTION 'refused' USING ERRCODE = '22000'; END IF; RETURN NEW; END $$""")
    s.sql("CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()")


def mend_placing(s):
    s.sql("DROP TRIGGER refuse ON orders")


def test_what_the_broker_moved_to_its_dead_letter_queue_is_sold(mq):
    """Rule 22: two workers died with it, so the broker gives it up. It never failed by its own fault: it is published again
    and becomes an order."""
    with System({**SHORT, "worker.recover_after": "60s"}, queue=mq) as s:
        s.make_topics(retries=1)
        item = s.item(stock=5)
        s.worker.terminate()
        assert s.buy(item, 7).status == 202
        for _ in range(2):
            try:
                s.worker.start_with("after_receive")
            except RuntimeError:
                pass
            assert s.worker.await_end() == KILLED
        s.worker.start_with()
        wait_for("what the broker gave up", lambda: s.worker.metric("seckill_mq_returned_total") >= 1, 60)
        settle_and_audit(item, 1)
        assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]


def test_what_fails_by_its_own_fault_is_quarantined_and_replayed(mq):
    """Rules 22 and 25: max_attempts own failures and no more; its neighbours are sold; the operator sees it, mends what was
    wrong, and replays it. Behind it one that nobody can read: rule 24."""
    attempts = 8 if FULL else 3
    with System({**SHORT, "worker.max_attempts": attempts, "worker.redelivery_base": "50ms", "worker.redelivery_max": "100ms",
                 "worker.recover_after": "60s"}, queue=mq) as s:
        item = s.item(stock=30)
        break_placing(s, 13)
        for user in range(1, 21):
            assert s.buy(item, user).status == 202
        item.publish("{no JSON")
        wait_for("the quarantine", lambda: s.sql("SELECT count(*) FROM dead_letters WHERE user_id = 13") == [(1,)], 120)
        wait_for("the neighbours", lambda: item.orders() == 19)
        assert s.sql("SELECT attempts FROM consumer_attempt_log") == [(attempts,)]
        wait_for("the unreadable one", lambda: s.sql("SELECT count(*) FROM dead_letters") == [(2,)])
        letters = {str(letter["user_id"]): str(letter["id"]) for letter in json.loads(s.ctl("dead-letters", "list", "--json").stdout)}
        assert letters.keys() == {"13", "None"}
        assert "no JSON" in s.ctl("dead-letters", "show", letters["None"]).stdout
        mend_placing(s)
        s.ctl("dead-letters", "replay", letters["13"])
        settle_and_audit(item, 20)
