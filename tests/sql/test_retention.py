"""Retention (architecture 7): what is over goes in small batches, what may still be needed is not touched."""
import itertools

import pytest

from sale import ident

HOUR = 3_600_000
DAY = 24 * HOUR
TABLES = ("outbox", "consumer_inbox", "stock_ledger", "consumer_attempt_log", "suspect_runs", "dead_letters", "parked_commands",
          "reconciliation_runs", "operator_actions", "rebuilds", "reconcile_items")


class Shop:
    """Items with a life in the past, and rows of every kind dated into it."""

    def __init__(self, life):
        self.life, self.c = life, life.c
        # Other tests' items are nobody's business here.
        self.c.execute("UPDATE activities SET purged_at = clock_timestamp() WHERE purged_at IS NULL")

    def item(self, ended_days, total=50):
        """An item that began two days before its keys were over, `ended_days` ago."""
        self.life.item(total)
        item = (self.life.activity, self.life.sku)
        self.c.execute("INSERT INTO activities (activity_id, sku_id, starts_at, ends_at, expires_at, created_at) "
                       "SELECT %s, %s, t - interval '2 days', t - interval '1 day', t, t - interval '2 days' "
                       "FROM (SELECT clock_timestamp() - %s * interval '1 day' AS t) n", (*item, ended_days))
        return item

    def fill(self, n=6):
        """Orders, one of them cancelled, a dead letter, a parked command that ran, attempts, suspects, and what people did."""
        messages = self.life.messages(n)
        self.life.place(messages)
        self.life.cancel(messages[0])
        late = self.life.message()
        self.life.cancels([late])
        self.life.place([late])
        self.life.unclaim()
        self.life.sweep()
        self.life.cancels([late])
        gone = self.life.message()
        self.life.quarantine(gone)
        ids = [m.message for m in (*messages, gone)]
        self.c.execute("SELECT seckill_count_attempts(%s, 'boom')", (ids,))
        for m in ids:
            self.c.execute("SELECT seckill_suspect_begin(%s, 'life')", (m,))
        item = (self.life.activity, self.life.sku)
        self.c.execute("INSERT INTO reconciliation_runs (activity_id, sku_id, outcome) VALUES (%s, %s, 'CLEAN')", item)
        self.c.execute("INSERT INTO operator_actions (action, activity_id, sku_id) VALUES ('look', %s, %s)", item)
        for epoch in (2, 3):
            self.c.execute("INSERT INTO rebuilds (activity_id, sku_id, epoch, life, reason) VALUES (%s, %s, %s, 'life', 'lost')", (*item, epoch))
        self.c.execute("INSERT INTO reconcile_items (activity_id, sku_id) VALUES (%s, %s)", item)
        self.c.execute("UPDATE outbox SET settled_at = clock_timestamp(), published_at = clock_timestamp() WHERE (activity_id, sku_id) = (%s, %s)", item)
        return messages

    def age(self, item):
        """Moves all of the item's rows into its life."""
        at = "(SELECT created_at + interval '1 hour' FROM activities WHERE (activity_id, sku_id) = (%s, %s))"
        for table, columns in (("outbox", ["created_at"]), ("consumer_inbox", ["received_at"]), ("stock_ledger", ["at"]),
                               ("dead_letters", ["created_at"]), ("parked_commands", ["parked_at"]),
                               ("reconciliation_runs", ["started_at"]), ("operator_actions", ["at"])):
            for column in columns:
                self.c.execute(f"UPDATE {table} SET {column} = {at} WHERE (activity_id, sku_id) = (%s, %s)", item * 2)
        self.c.execute(f"UPDATE consumer_inbox SET processed_at = {at} WHERE (activity_id, sku_id) = (%s, %s) AND processed_at IS NOT NULL",
                       item * 2)

    def counts(self, item):
        of_messages = "SELECT message_id FROM consumer_inbox WHERE (activity_id, sku_id) = (%s, %s)"
        result = {}
        for table in TABLES:
            if table in ("consumer_attempt_log", "suspect_runs"):
                sql = f"SELECT count(*) FROM {table} WHERE message_id IN ({of_messages})"
            else:
                sql = f"SELECT count(*) FROM {table} WHERE (activity_id, sku_id) = (%s, %s)"
            result[table] = self.c.execute(sql, item).fetchone()[0]
        return result

    def retain(self, after_ms=DAY, most=1000, results=True, connection=None):
        return dict((connection or self.c).execute("SELECT * FROM seckill_retain(%s, %s, %s)", (after_ms, most, results)).fetchall())

    def retain_all(self, **options):
        """Until nothing is left to do; all that went, and how many calls that took."""
        total, calls = {}, 0
        while found := self.retain(**options):
            calls += 1
            assert calls < 500
            for table, n in found.items():
                total[table] = total.get(table, 0) + n
        return total, calls

    def purged(self, item):
        return self.c.execute("SELECT purged_at IS NOT NULL FROM activities WHERE (activity_id, sku_id) = (%s, %s)", item).fetchone()[0]


@pytest.fixture
def shop(life):
    yield Shop(life)
    life.item(1)  # the audit at the end is of an item that still has its rows


def filled(shop, ended_days, n=6):
    item = shop.item(ended_days)
    messages = shop.fill(n)
    shop.age(item)
    return item, messages


def test_what_is_over_goes_and_orders_stay(shop):
    item, messages = filled(shop, ended_days=9)
    before = shop.counts(item)
    assert all(before.values()), before
    gone, _ = shop.retain_all()
    assert {k: v for k, v in gone.items() if k != "activities"} == before and gone["activities"] == 1
    assert not any(shop.counts(item).values()) and shop.purged(item)
    assert shop.c.execute("SELECT count(*) FROM orders WHERE (activity_id, sku_id) = (%s, %s)", item).fetchone()[0] == len(messages) + 1
    # and a message that comes again, years later, still meets its order
    shop.life.activity, shop.life.sku = item
    assert shop.life.place([messages[1]])[0].state == "SUCCEEDED"


def test_live_items_are_never_touched(shop):
    """Not while the keys may be there, not within retention.after, whatever the rows' own age; nor what is another item's."""
    live, _ = filled(shop, ended_days=-1)
    recent, _ = filled(shop, ended_days=0.5)
    before = shop.counts(live), shop.counts(recent)
    shop.c.execute("UPDATE outbox SET created_at = created_at - interval '300 days' WHERE (activity_id, sku_id) = (%s, %s)", live)
    assert shop.retain_all() == ({}, 0)
    over, _ = filled(shop, ended_days=2)
    shop.retain_all()
    assert shop.purged(over) and not any(shop.counts(over).values())
    assert (shop.counts(live), shop.counts(recent)) == before
    assert not shop.purged(live) and not shop.purged(recent)


def test_batches_are_small(shop):
    item, _ = filled(shop, ended_days=9, n=40)
    total = sum(v for k, v in shop.counts(item).items() if k not in ("consumer_attempt_log", "suspect_runs"))
    calls = 0
    while found := shop.retain(most=7):
        calls += 1
        rows = sum(v for k, v in found.items() if k not in ("consumer_attempt_log", "suspect_runs", "activities"))
        assert rows <= 8, found  # a dead letter brings its inbox row
    assert calls >= total // 8 and shop.purged(item)


@pytest.mark.parametrize("column", ["settled_at", "published_at"])
def test_what_still_has_to_be_told_holds_its_item_up(shop, column):
    item, messages = filled(shop, ended_days=9)
    other, _ = filled(shop, ended_days=8)
    shop.c.execute(f"UPDATE outbox SET {column} = NULL WHERE message_id = %s AND event_type = 'ORDER_CREATED'", (messages[2].message,))
    shop.retain_all()
    assert shop.counts(item)["outbox"] == 1 and shop.counts(item)["consumer_inbox"] > 0 and not shop.purged(item)
    assert shop.purged(other), "another item does not wait for it"
    if column == "published_at":
        shop.retain_all(results=False)  # nobody is told: nothing to wait for
    else:
        shop.c.execute("UPDATE outbox SET settled_at = clock_timestamp() WHERE settled_at IS NULL")
        shop.retain_all()
    assert shop.purged(item) and not any(shop.counts(item).values())


def test_a_parked_command_that_still_waits_holds_its_item_up(shop):
    item, _ = filled(shop, ended_days=9)
    early = shop.life.message()
    shop.life.activity, shop.life.sku = item
    shop.life.cancels([early])
    shop.age(item)
    shop.retain_all()
    assert shop.counts(item)["parked_commands"] == 1 and not shop.purged(item)
    shop.life.cancels([early], give_up=True)
    shop.age(item)
    shop.retain_all()
    assert shop.purged(item)


def test_two_workers_take_different_items(shop):
    first, _ = filled(shop, ended_days=9)
    second, _ = filled(shop, ended_days=8)
    with shop.life.database.connect() as other, other.transaction():
        shop.retain(most=3, connection=other)
        shop.retain_all()
        assert shop.purged(second) and not shop.purged(first)
    shop.retain_all()
    assert shop.purged(first)


def test_it_reads_by_brin(shop):
    for table, column in (("outbox", "created_at"), ("consumer_inbox", "processed_at"), ("stock_ledger", "at"), ("parked_commands", "parked_at")):
        with shop.c.transaction():
            shop.c.execute("SET LOCAL enable_seqscan = off")
            plan = "\n".join(r[0] for r in shop.c.execute(
                f"EXPLAIN SELECT ctid FROM {table} WHERE {column} >= now() - interval '2 days' AND {column} < now() - interval '1 day' "
                "AND activity_id = 1 AND sku_id = 2 LIMIT 10"))
        assert f"idx_{table}_{column}" in plan, plan


def test_strays_go_by_age_and_never_beside_a_live_item(shop):
    strays = itertools.count()
    m = ident()

    def stray():
        shop.c.execute("SELECT seckill_quarantine(0, 0, NULL, NULL, NULL, 0, 0, %s, 'x', 'no JSON', 1)", (f"stray-{ident()}-{next(strays)}",))
        shop.c.execute("SELECT seckill_count_attempts(%s, 'boom')", ([m],))
        shop.c.execute("SELECT seckill_suspect_begin(%s, 'gone')", (m,))
        shop.c.execute("INSERT INTO operator_actions (action) VALUES ('look')")
        shop.c.execute("UPDATE dead_letters SET created_at = created_at - interval '40 days' WHERE activity_id = 0")
        shop.c.execute("UPDATE consumer_attempt_log SET last_at = last_at - interval '40 days' WHERE message_id = %s", (m,))
        shop.c.execute("UPDATE suspect_runs SET started_at = started_at - interval '40 days' WHERE message_id = %s", (m,))
        shop.c.execute("UPDATE operator_actions SET at = at - interval '40 days' WHERE activity_id IS NULL")
        shop.c.execute("UPDATE worker_lives SET beat_at = beat_at - interval '40 days' WHERE life = 'gone'")

    def go(days, most=100):
        return dict(shop.c.execute("SELECT * FROM seckill_retain_strays(%s, %s)", (days * DAY, most)).fetchall())

    go(0, 10_000)
    stray()
    assert go(41) == {}
    live = shop.item(ended_days=-1)
    shop.c.execute("UPDATE activities SET created_at = created_at - interval '50 days' WHERE (activity_id, sku_id) = (%s, %s)", live)
    assert go(30) == {"worker_lives": 1}, "they may be the live item's; a life is nobody's"
    shop.c.execute("UPDATE activities SET created_at = clock_timestamp() WHERE (activity_id, sku_id) = (%s, %s)", live)
    assert go(30) == {"dead_letters": 1, "consumer_attempt_log": 1, "suspect_runs": 1, "operator_actions": 1}
    assert go(30) == {}
