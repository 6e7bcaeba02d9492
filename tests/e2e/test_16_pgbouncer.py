"""Failures 15: every program behind PgBouncer in transaction mode, with fewer server connections than clients."""
import uuid

from services import wait_for
from system import FULL, System

POOL = 3
SHORT = {"queue.lease": "1s", "worker.lease_margin": "250ms", "worker.recover_after": "500ms", "worker.recover_interval": "200ms"}


def behind(**settings):
    return System({**SHORT, **settings}, bouncer={"default_pool_size": POOL})


def backends(s):
    """The server connections of our programs, PostgreSQL's own view."""
    return s.sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")[0][0]


def test_a_sale_with_its_cancels_and_payments():
    with behind() as s:
        item = s.item(stock=200)
        s.storm(item, 400, "--rate", 800)
        item.await_settled()
        assert item.orders() == 200 and 1 <= backends(s) <= POOL
        item = s.item(stock=2)
        keys = {user: str(uuid.uuid4()) for user in (1, 2)}
        orders = {user: s.buy(item, user, key).json["order_id"] for user, key in keys.items()}
        item.await_settled()
        assert s.pay(item, 1, keys[1], orders[1]).status == 202
        assert s.cancel(item, 2, keys[2]).status == 202
        wait_for("the payment", lambda: s.order(1, orders[1]).json["status"] == "PAID")
        wait_for("the cancel", lambda: s.state(item, 2, keys[2]).code == "CANCELLED")
        wait_for("the unit to be bought", lambda: s.buy(item, 3).status == 202)
        item.await_settled()
        assert item.orders() == 2 and backends(s) <= POOL


def test_it_is_killed_while_it_sells():
    """What was on its way is unknown: asked again with the same ids (rules 16, 19), never doubled, never lost."""
    with behind() as s:
        for place in (1, 60, 140) * (5 if FULL else 1):
            item = s.item(stock=200)
            storm = s.storm(item, 300, "--rate", 400, background=True)
            wait_for(f"{place} orders", lambda n=place, i=item: i.orders() >= n)
            told = len(s.worker.logged("cannot connect to PostgreSQL"))
            s.bouncer.kill()
            wait_for("the worker to notice", lambda n=told: len(s.worker.logged("cannot connect to PostgreSQL")) > n)
            s.bouncer.start()
            s.storm_end(storm)
            item.await_settled(30)
            assert item.orders() == 200
            item.audit()


def test_migrate_wants_postgresql_itself():
    """A session's lock would stay behind on a connection that somebody else gets."""
    with behind() as s:
        refused = s.ctl("migrate", check=False)
        assert refused.returncode == 1 and "pooler" in refused.stderr, refused
        assert s.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
        assert "applied" in s.ctl(f"--pg.conninfo={s.pg.conninfo}", "migrate").stdout
