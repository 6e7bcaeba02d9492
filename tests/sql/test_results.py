"""The result topic's side of the outbox (rule 9): what is told is settled, is told until it is marked, and is found by its
state and never by its id."""
import pytest

from sale import CREATED


class Topic:
    def __init__(self, sale):
        self.sale, self.c = sale, sale.c

    def settle(self, *messages):
        ids = [r[0] for r in self.c.execute("SELECT outbox_id FROM outbox WHERE message_id = ANY (%s) AND settled_at IS NULL",
                                            ([m.message for m in messages],)).fetchall()]
        self.c.execute("SELECT seckill_mark_settled(%s)", (ids,))
        return ids

    def take(self, most=1000, claim_ms=0, connection=None):
        """This item's outbox ids."""
        rows = (connection or self.c).execute(
            "SELECT outbox_id, activity_id FROM seckill_unpublished(%s, %s)", (claim_ms, most)).fetchall()
        return [r[0] for r in rows if r[1] == self.sale.activity]

    def mark(self, ids):
        return self.c.execute("SELECT seckill_mark_published(%s)", (ids,)).fetchone()[0]

    def backlog(self, most=100_000):
        return self.c.execute("SELECT waiting, oldest_ms FROM seckill_unpublished_backlog(%s)", (most,)).fetchone()


@pytest.fixture
def topic(sale):
    sale.c.execute("UPDATE outbox SET published_at = clock_timestamp() WHERE published_at IS NULL AND settled_at IS NOT NULL")
    return Topic(sale.item(10))


def test_only_what_is_settled_and_only_until_it_is_marked(topic):
    a, b = topic.sale.messages(2)
    assert [r.outcome for r in topic.sale.place([a, b])] == [CREATED] * 2
    assert topic.take() == [] and topic.backlog() == (0, 0)
    told = topic.settle(a)
    assert topic.take() == told
    assert topic.take() == told, "not marked: told again"
    assert topic.backlog()[0] == 1
    assert topic.mark(told) == 1 and topic.mark(told) == 0
    assert topic.take() == [] and topic.backlog() == (0, 0)
    assert topic.take() == [] and topic.settle(b) == topic.take()


def test_rule9_a_row_that_commits_late_with_a_lower_id_is_told(topic):
    """Two workers: one takes its outbox id first and commits last, when the other's is published long since."""
    late, early = topic.sale.messages(2)
    with topic.sale.database.connect() as slow, topic.sale.database.connect() as quick:
        with slow.transaction():
            topic.sale.place([late], connection=slow)
            low = slow.execute("SELECT outbox_id FROM outbox WHERE message_id = %s", (late.message,)).fetchone()[0]
            # Of another item: that transaction has the inventory row of this one.
            first = topic.sale.activity
            topic.sale.item(10).place([early], connection=quick)
            told = topic.settle(early)
            assert told[0] > low
            assert topic.take() == told and topic.mark(told) == 1 and topic.take() == []
    topic.sale.activity = first
    assert topic.settle(late) == [low] == topic.take()


def test_a_claim_keeps_others_away_for_a_while(topic):
    m = topic.sale.message()
    topic.sale.place([m])
    told = topic.settle(m)
    assert topic.take(claim_ms=60_000) == told
    assert topic.take(claim_ms=60_000) == []
    topic.c.execute("UPDATE outbox SET claimed_at = claimed_at - interval '61 seconds' WHERE outbox_id = ANY (%s)", (told,))
    assert topic.take(claim_ms=60_000) == told


def test_a_locked_row_is_passed_over(topic):
    a, b = topic.sale.messages(2)
    topic.sale.place([a, b])
    first, second = topic.settle(a), topic.settle(b)
    with topic.sale.database.connect() as other, other.transaction():
        other.execute("SELECT 1 FROM outbox WHERE outbox_id = ANY (%s) FOR UPDATE", (first,))
        assert topic.take() == second
    assert topic.take() == sorted(first + second)


def test_the_backlog_is_counted_up_to_a_bound(topic):
    messages = topic.sale.messages(5)
    topic.sale.place(messages)
    topic.settle(*messages)
    topic.c.execute("UPDATE outbox SET created_at = created_at - interval '1 hour' WHERE message_id = %s", (messages[3].message,))
    waiting, oldest_ms = topic.backlog()
    assert waiting == 5 and 3_600_000 <= oldest_ms < 3_700_000
    assert topic.backlog(3)[0] == 3


def test_it_reads_by_its_own_index(topic):
    plan = "\n".join(r[0] for r in topic.c.execute(
        "EXPLAIN SELECT outbox_id FROM outbox WHERE settled_at IS NOT NULL AND published_at IS NULL ORDER BY created_at LIMIT 10"))
    assert "idx_outbox_unpublished" in plan
