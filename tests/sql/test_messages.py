"""Void, quarantine, replay, attempts, suspects, outbox, reads (rules 9, 20, 23–25)."""
import uuid

import psycopg
import pytest

from sale import CREATED, KNOWN, QUARANTINED, ident


def test_void_of_an_unknown_message(sale):
    sale.item(5)
    m = sale.message()
    assert sale.void(m) == (True, "REJECTED", "FAILED", "VOID", None, True)
    assert sale.void(m) == (False, "REJECTED", "FAILED", "VOID", None, True)
    assert sale.inbox(m) == ("REJECTED", "VOID", None)
    assert sale.scalar("SELECT count(*) FROM outbox WHERE message_id = %s AND give_back AND state = 'FAILED'", m.message) == 1
    r = sale.place([m])[0]
    assert (r.outcome, r.state, r.reason, r.give_back) == (KNOWN, "FAILED", "VOID", True)
    assert sale.audit() == 0


def test_void_obeys_what_is_there(sale):
    sale.item(1)
    a, b = sale.messages(2)
    sale.place([a, b])
    assert sale.void(a) == (False, "COMPLETED", "SUCCEEDED", "", a.order, False)
    assert sale.void(b) == (False, "REJECTED", "SOLD_OUT", "PG_STOCK_EXHAUSTED", None, False)
    assert sale.audit() == 1


def test_an_order_whose_inbox_row_is_gone_is_not_voided(sale):
    sale.item(1)
    m = sale.message()
    sale.place([m])
    sale.c.execute("DELETE FROM consumer_inbox WHERE message_id = %s", (m.message,))
    assert sale.void(m) == (False, "COMPLETED", "SUCCEEDED", "", m.order, False)
    assert sale.audit() == 1


def test_rule25_quarantine_then_void(sale):
    sale.item(5)
    m = sale.message()
    assert sale.quarantine(m) is True
    assert sale.quarantine(m) is True
    assert sale.scalar("SELECT count(*) FROM dead_letters WHERE message_id = %s", m.message) == 1
    assert sale.void(m, "GIVEN_UP")[:4] == (True, "REJECTED", "FAILED", "GIVEN_UP")
    assert sale.scalar("SELECT voided_at IS NOT NULL FROM dead_letters WHERE message_id = %s", m.message)
    letter = sale.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", m.message)
    assert sale.c.execute("SELECT * FROM seckill_replay(%s)", (letter,)).fetchall() == []
    assert sale.audit() == 0


def test_rule25_replay_gives_a_new_life(sale):
    sale.item(5)
    m = sale.message()
    for _ in range(8):
        sale.c.execute("SELECT seckill_count_attempts(%s, 'boom')", ([m.message],))
    sale.quarantine(m, b'{"a":1}')
    assert sale.place([m])[0].outcome == QUARANTINED
    letter = sale.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", m.message)
    row = sale.c.execute("SELECT message_id, activity_id, sku_id, body FROM seckill_replay(%s)", (letter,)).fetchone()
    assert row == (m.message, sale.activity, sale.sku, b'{"a":1}')
    assert sale.c.execute("SELECT * FROM seckill_replay(%s)", (letter,)).fetchall() == []
    assert sale.c.execute("SELECT generation, attempts FROM consumer_attempt_log WHERE message_id = %s", (m.message,)).fetchone() == (2, 0)
    assert sale.place([m])[0].outcome == CREATED
    assert sale.audit() == 1
    assert sale.quarantine(m) is False  # settled: just ack


def test_a_replayed_message_can_be_quarantined_again(sale):
    sale.item(5)
    m = sale.message()
    sale.quarantine(m)
    generation = "SELECT generation, attempts FROM consumer_attempt_log WHERE message_id = %s"
    letter = sale.scalar("SELECT dead_letter_id FROM dead_letters WHERE message_id = %s", m.message)
    sale.c.execute("SELECT * FROM seckill_replay(%s)", (letter,))
    # put away without a failure of its own: its second life all the same
    assert sale.c.execute(generation, (m.message,)).fetchone() == (2, 0)
    assert sale.quarantine(m) is True
    assert sale.scalar("SELECT count(*) FROM dead_letters WHERE message_id = %s", m.message) == 2


def test_rule24_undecodable_is_kept_once_by_its_broker_id(sale):
    sale.item(5)
    put = "SELECT seckill_quarantine(%s, %s, NULL, NULL, NULL, 0, 0, %s, %s, 'no JSON', 1)"
    for _ in range(2):
        assert sale.scalar(put, sale.activity, sale.sku, "5-1", b"\x00\xff")
    assert sale.scalar(put, sale.activity, 77, "5-1", b"other stream")
    assert sale.scalar("SELECT count(*) FROM dead_letters WHERE activity_id = %s", sale.activity) == 2
    assert sale.scalar("SELECT body FROM dead_letters WHERE activity_id = %s AND sku_id = 2001", sale.activity) == b"\x00\xff"


def test_rules24_25_many_are_put_away_at_once(sale):
    """Known, settled, new, undecodable and twice the same, in one call: each as alone."""
    sale.item(5)
    settled, fresh, nil = sale.message(), sale.message(), uuid.UUID(int=0)
    sale.place([settled])
    rows = [(settled.message, settled.request, settled.reservation, 1, settled.order, "1-0", b"{}"),
            (nil, nil, nil, 0, 0, "2-0", b"\x00"), (nil, nil, nil, 0, 0, "3-0", b""), (nil, nil, nil, 0, 0, "2-0", b"\x00"),
            (fresh.message, fresh.request, fresh.reservation, 2, fresh.order, "4-0", b"{}"),
            (fresh.message, fresh.request, fresh.reservation, 2, fresh.order, "5-0", b"{}")]
    columns = [list(c) for c in zip(*rows)]
    for _ in range(2):
        found = sale.c.execute(
            "SELECT ord, stored FROM seckill_quarantine_all(%s, %s, %s::uuid[], %s::uuid[], %s::uuid[], %s, %s, %s, %s, %s, "
            "%s::int[])", ([sale.activity] * 6, [sale.sku] * 6, *columns, ["broken"] * 6, [1] * 6)).fetchall()
        assert sorted(found) == [(1, False), (2, True), (3, True), (4, True), (5, True), (6, True)]
    assert sale.scalar("SELECT count(*) FROM dead_letters WHERE activity_id = %s", sale.activity) == 3
    assert sale.scalar("SELECT status FROM consumer_inbox WHERE message_id = %s", fresh.message) == "QUARANTINED"


def test_attempts_are_counted_per_message(sale):
    a, b, c = (ident() for _ in range(3))
    count = "SELECT attempts FROM seckill_count_attempts(%s, %s) ORDER BY ord"
    assert sale.c.execute(count, ([a, b], "decode")).fetchall() == [(1,), (1,)]
    assert sale.c.execute(count, ([b, a, b], "decode")).fetchall() == [(2,), (2,), (2,)]
    assert sale.c.execute("SELECT attempts FROM seckill_attempts(%s) ORDER BY ord", ([c, b],)).fetchall() == [(0,), (2,)]


def test_rule23_only_lives_that_ended_uncleared_count(sale):
    m = ident()
    lives = [str(ident()) for _ in range(5)]

    def begin(life):
        return sale.scalar("SELECT seckill_suspect_begin(%s, %s)", m, life)

    def dies(life):
        sale.c.execute("UPDATE worker_lives SET beat_at = clock_timestamp() - interval '11 seconds' WHERE life = %s", (life,))

    assert begin(lives[0]) == 0
    assert begin(lives[1]) == 0  # the first is still alive
    dies(lives[0])
    assert begin(lives[2]) == 1
    assert begin(lives[2]) == 1  # again in the same life: its own run does not count
    dies(lives[1])
    sale.c.execute("SELECT seckill_suspect_clear(%s, %s)", ([m], lives[2]))
    dies(lives[2])
    assert begin(lives[3]) == 2  # cleared before it ended
    sale.c.execute("SELECT seckill_beat(%s)", (lives[1],))
    assert begin(lives[4]) == 1
    sale.c.execute("DELETE FROM worker_lives WHERE life = %s", (lives[3],))
    assert begin(lives[4]) == 2  # a life that nobody knows any more has ended


def test_rule26_the_fleet_is_as_old_as_its_oldest_live_worker(sale):
    sale.c.execute("DELETE FROM worker_lives")

    def beat(life, age_ms):
        return sale.scalar("SELECT seckill_beat(%s, %s)", life, age_ms)

    assert beat("a", 0) == 0
    assert 60_000 <= beat("b", 60_000) < 70_000
    assert 60_000 <= beat("a", 5) < 70_000
    sale.c.execute("UPDATE worker_lives SET beat_at = clock_timestamp() - interval '11 seconds' WHERE life = 'b'")
    assert 1 <= beat("a", 1) < 10_000  # b is dead: its messages come back with their leases
    assert beat("a", 0) == 0
    sale.c.execute("SELECT seckill_beat('c')")  # a worker of the version before says nothing of it
    assert beat("a", 0) == 0


def test_rule9_unsettled_rows_are_claimed_and_marked(sale, database):
    sale.item(10)
    sale.c.execute("UPDATE outbox SET settled_at = clock_timestamp() WHERE settled_at IS NULL")
    ms = sale.messages(6)
    rs = sale.place(ms)
    take = "SELECT outbox_id FROM seckill_unsettled(0, %s)"
    first = {r[0] for r in sale.c.execute(take, (4,)).fetchall()}
    second = {r[0] for r in sale.c.execute(take, (4,)).fetchall()}
    assert len(first) == 4 and len(second) == 2 and not first & second
    assert first | second == {r.outbox for r in rs}
    assert sale.c.execute(take, (4,)).fetchall() == []
    assert sale.scalar("SELECT seckill_mark_settled(%s)", list(first)) == 4
    assert sale.scalar("SELECT seckill_mark_settled(%s)", list(first)) == 0
    sale.c.execute("UPDATE outbox SET claimed_at = claimed_at - interval '1 second' WHERE claimed_at IS NOT NULL")
    assert {r[0] for r in sale.c.execute(take, (9,)).fetchall()} == second
    assert sale.c.execute("SELECT outbox_id FROM seckill_unsettled(60000, 9)").fetchall() == []


def test_rule9_locked_rows_are_skipped(sale, database):
    sale.item(10)
    sale.c.execute("UPDATE outbox SET settled_at = clock_timestamp() WHERE settled_at IS NULL")
    rs = sale.place(sale.messages(3))
    with database.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM outbox WHERE outbox_id = %s FOR UPDATE", (rs[0].outbox,))
        got = {r[0] for r in sale.c.execute("SELECT outbox_id FROM seckill_unsettled(0, 9)").fetchall()}
        other.execute("ROLLBACK")
    assert got == {r.outbox for r in rs[1:]}


def test_find_request_prefers_the_row_with_an_order(sale):
    """Rule 19."""
    sale.item(5)
    a = sale.message()
    b = sale.message(user=a.user, request=a.request)
    find = "SELECT message_id, status, state, reason, inbox_order_id, order_id, order_status FROM seckill_find_request(%s, %s, %s, %s)"
    key = (sale.activity, sale.sku, a.user, a.request)
    assert sale.c.execute(find, key).fetchall() == []
    sale.void(b)
    assert sale.c.execute(find, key).fetchall() == [(b.message, "REJECTED", "FAILED", "VOID", None, None, None)]
    sale.place([a])
    assert sale.c.execute(find, key).fetchall() == [(a.message, "COMPLETED", "SUCCEEDED", "", a.order, a.order, "CREATED")]
    # only the owner's, only this item's
    assert sale.c.execute(find, (sale.activity, sale.sku, a.user + 1, a.request)).fetchall() == []
    assert sale.c.execute(find, (sale.activity, sale.sku + 1, a.user, a.request)).fetchall() == []
    # the inbox row fell to retention: the order tells
    sale.c.execute("DELETE FROM consumer_inbox WHERE user_id = %s", (a.user,))
    assert sale.c.execute(find, key).fetchall() == [(None, None, None, None, None, a.order, "CREATED")]


def test_a_reservation_gives_back_at_most_one_unit(sale):
    sale.item(5)
    m = sale.message()
    sale.place([m])
    sale.cancel(m)
    with pytest.raises(psycopg.errors.UniqueViolation):
        sale.c.execute("INSERT INTO stock_ledger VALUES (%s, %s, %s, %s, clock_timestamp(), 1, 'EXPIRE')",
                       (m.reservation, sale.activity, sale.sku, m.order))


def test_lookups_use_indexes_whatever_the_statistics_say(sale):
    """A table that was empty when the plan was made must not be scanned when it is large."""
    plans = sale.c.execute(
        "SET enable_seqscan = off; EXPLAIN SELECT * FROM inbox_verdict WHERE consumer_group = 'seckill-order-create-v1' "
        "AND message_id = gen_random_uuid()")
    plans.nextset()
    text = "\n".join(r[0] for r in plans.fetchall())
    sale.c.execute("RESET enable_seqscan")
    assert "Seq Scan" not in text and "orders_pkey" in text


def test_the_sweep_does_not_walk_what_is_settled(sale):
    """It runs every 200 ms beside millions of settled rows, with a plan made when the table was empty."""
    sale.item(3000)
    for _ in range(12):
        rs = sale.place(sale.messages(250))
        sale.c.execute("SELECT seckill_mark_settled(%s)", ([r.outbox for r in rs],))
    left = sale.messages(3)
    sale.item(5)
    expected = {r.outbox for r in sale.place(left)}

    def fetched():
        sale.c.execute("SELECT pg_stat_force_next_flush()")
        return sale.scalar("SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'outbox'")

    before = fetched()
    got = {r[0] for r in sale.c.execute("SELECT outbox_id FROM seckill_unsettled(0, 100)").fetchall()}
    assert expected <= got
    assert fetched() - before <= 4 * len(got)
