"""Issue 5, reconciliation on the whole system, the audit after each: rules 3, 7, 40; I5; failures.md 22."""
import json
import os
import signal
import subprocess
import threading
import uuid

from services import PrivatePostgres, wait_for
from system import System

QUICK = {"reconcile.interval": "300ms", "reconcile.rate": 20000}


def bought(s, item, users):
    """{user: (key, order_id)} of orders that are there."""
    got = {}
    for user in users:
        key = str(uuid.uuid4())
        answer = s.buy(item, user, key)
        assert answer.status == 202, answer
        got[user] = (key, answer.json["order_id"])
    wait_for("the orders", lambda: item.orders() >= len(got))
    item.await_settled()
    return got


def run_of(s, item):
    """(outcome, findings, detail) of the last stretch of rounds."""
    rows = s.sql("SELECT outcome, detail FROM reconciliation_runs WHERE (activity_id, sku_id) = (%s, %s) "
                 "ORDER BY run_id DESC LIMIT 1", *item.args)
    return (rows[0][0], rows[0][1]["findings"], rows[0][1]) if rows else (None, [], {})


def await_finding(s, item, kind):
    def found():
        return next((f for f in run_of(s, item)[1] if f["kind"] == kind), None)
    return wait_for(f"{kind} of {item.activity}", found)


def ever_found(s, item, kind):
    """Findings of that kind, in whatever stretch."""
    rows = s.sql("SELECT detail -> 'findings' FROM reconciliation_runs WHERE (activity_id, sku_id) = (%s, %s) ORDER BY run_id",
                 *item.args)
    return [f for row in rows for f in row[0] if f["kind"] == kind]


def await_clean(s, item):
    """Complete rounds from now on, without a finding."""
    before = s.worker.metric("seckill_reconcile_rounds_total")

    def clean():
        outcome, _, detail = run_of(s, item)
        return (outcome == "CLEAN" and detail["unsure"] == 0
                and s.worker.metric("seckill_reconcile_rounds_total") > before + 2 * len(s.items))
    wait_for(f"a clean round over {item.activity}", clean)


def discrepancy(s, kind):
    return s.worker.metrics()[f'seckill_inventory_discrepancy{{kind="{kind}"}}']


def test_units_stolen_and_invented():
    """Rule 40: one that is missing is told and not put back; ones that nobody can have are taken away."""
    with System(QUICK) as s:
        item = s.item(stock=10)
        bought(s, item, range(1, 4))
        await_clean(s, item)
        s.redis_client.decr(item.key("stock"))
        finding = await_finding(s, item, "FREE_LOW")
        assert finding["units"] == 1 and "mended" not in finding
        wait_for("the metric", lambda: discrepancy(s, "FREE_LOW") == 1)
        assert item.books()["free"] == 6
        assert s.worker.logged("stock discrepancy")[0]["kind"] == "FREE_LOW"
        s.redis_client.incr(item.key("stock"))
        await_clean(s, item)
        assert discrepancy(s, "FREE_LOW") == 0
        s.redis_client.incrby(item.key("stock"), 3)
        wait_for("the units to be taken away", lambda: item.books()["free"] == 7)
        await_clean(s, item)
        told = ever_found(s, item, "FREE_HIGH")
        assert [f["units"] for f in told] == [3] and told[0]["mended"] == "LOWERED"
        bought(s, item, range(4, 11))
        assert s.buy(item, 11).code == "SOLD_OUT" and item.orders() == 10


def test_a_buyers_entry_removed():
    """Rules 5, 40: the reservation is named, its entry comes back, and the buyer does not buy twice."""
    with System(QUICK) as s:
        item = s.item(stock=10)
        got = bought(s, item, range(1, 4))
        await_clean(s, item)
        entry = s.redis_client.hget(item.key("buyers"), 2).decode()
        s.redis_client.hdel(item.key("buyers"), 2)
        wait_for("the entry", lambda: s.redis_client.hget(item.key("buyers"), 2))
        assert s.redis_client.hget(item.key("buyers"), 2).decode() == entry
        told = ever_found(s, item, "BUYER")
        await_clean(s, item)
        told = ever_found(s, item, "BUYER")
        assert told and {(f["reservation_id"], f["user_id"], f["order_id"]) for f in told} == {
            (entry.split()[0], 2, got[2][1])}
        again = s.buy(item, 2)
        assert again.code == "DUPLICATE_ORDER"
        assert item.orders() == 3 and item.books()["free"] == 7


def test_a_broken_item_is_paused_alone():
    """Its neighbour sells all the while; told, and open again by the operator's hand."""
    with System(QUICK) as s:
        item, neighbour = s.item(stock=50), s.item(stock=50)
        bought(s, item, range(1, 3))
        stop, answers = threading.Event(), []

        def sell():
            user = 1000
            while not stop.is_set() and user < 1050:
                user += 1
                answers.append(s.buy(neighbour, user).status)
        seller = threading.Thread(target=sell)
        seller.start()
        free = s.redis_client.get(item.key("stock"))
        s.redis_client.pipeline().delete(item.key("stock")).rpush(item.key("stock"), "broken").execute()  # never without it
        finding = await_finding(s, item, "BROKEN")
        assert finding["key"] == "stock"
        assert s.redis_client.hget(item.key("meta"), "state") == b"PAUSED"
        assert s.redis_client.hget(neighbour.key("meta"), "state") == b"OPEN"
        expires = int(s.redis_client.hget(item.key("meta"), "expires_ms"))
        s.redis_client.pipeline().set(item.key("stock"), free, pxat=expires).execute()
        assert s.buy(item, 77).code == "PAUSED"
        await_clean(s, item)
        s.ctl("activity", "open", *item.flags)
        bought(s, item, [77])
        stop.set()
        seller.join()
        assert set(answers) == {202}
        assert run_of(s, neighbour)[0] == "CLEAN"


def test_selling_at_full_speed_is_no_discrepancy():
    """Rule 40: what is on its way is counted, never told. Orders, refusals, cancels while rounds go on."""
    with System({**QUICK, "reconcile.interval": "100ms"}) as s:
        item = s.item(stock=300)
        process = s.storm(item, 1200, background=True)
        user, freed = 5000, []

        def rounds():
            return s.worker.metric("seckill_reconcile_rounds_total")
        while rounds() < 6 and user < 7000:
            user += 1
            key = str(uuid.uuid4())
            if s.buy(item, user, key).status == 202:
                freed.append(user)
                s.cancel(item, user, key)
        s.storm_end(process)
        item.histories.clear()  # the storm is not all that was bought
        item.await_settled()
        await_clean(s, item)
        assert rounds() >= 6 and freed
        assert s.sql("SELECT detail FROM reconciliation_runs WHERE outcome <> 'CLEAN'") == []
        assert s.worker.logged("stock discrepancy") == []


def test_settled_in_postgresql_only():
    """An outbox row that says settled, and a Redis that never heard of it: settled once more."""
    with System(QUICK) as s:
        item = s.item(stock=5)
        got = bought(s, item, [1, 2])
        key = got[1][0]
        record = s.redis_client.hgetall(item.key(f"reservation:1:{key}"))
        entry = s.redis_client.hget(item.key("buyers"), 1)
        assert s.cancel(item, 1, key).status == 202
        wait_for("the unit", lambda: item.books()["free"] == 4)
        item.await_settled()
        # Redis as it was before, which a snapshot of this one item would be
        s.redis_client.hset(item.key(f"reservation:1:{key}"), mapping=record)
        s.redis_client.hdel(item.key(f"reservation:1:{key}"), "reason")
        s.redis_client.hset(item.key("buyers"), 1, entry)
        s.redis_client.decr(item.key("stock"))
        wait_for("the unit again", lambda: item.books()["free"] == 4)
        await_clean(s, item)
        told = ever_found(s, item, "SETTLE")
        assert told and told[0]["user_id"] == 1 and told[0]["reservation_id"] == record[b"reservation_id"].decode()
        assert s.state(item, 1, key).code == "CANCELLED"



# --- the total, mid-sale ---

def set_total(s, item, to, *words, rc=0):
    done = s.ctl("stock", "set-total", *item.flags, "--total", str(to), "--json", *words, check=False)
    assert done.returncode == rc, f"{to}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def totals(s, item):
    return (item.scalar("SELECT total_stock FROM seckill_inventory WHERE ITEM"),
            int(s.redis_client.hget(item.key("meta"), "total")))


def test_total_raised_and_lowered_under_load():
    """Rules 7, 40: what is added is sold at once; what is free can be taken away; nothing is oversold; it is recorded."""
    with System(QUICK) as s:
        item = s.item(stock=60)
        process = s.storm(item, 400, background=True)
        wait_for("the first orders", lambda: item.orders() > 5)
        assert set_total(s, item, 90)["outcome"] == "PLANNED" and totals(s, item) == (60, 60)
        told = set_total(s, item, 90, "--yes")
        assert (told["outcome"], told["total"], told["redis_total"]) == ("DONE", 90, 90)
        s.storm_end(process)
        s.storm(item, 100, "--first-user", 100000)  # the first ones' hints are over, if it was sold out before
        item.await_settled()
        assert item.orders() == 90 and item.books()["free"] == 0
        told = set_total(s, item, 80, "--yes", rc=1)
        assert told["outcome"] == "REFUSED" and totals(s, item) == (90, 90)

        other = s.item(stock=300)
        process = s.storm(other, 150, background=True)
        wait_for("the first orders", lambda: other.orders() > 5)
        told = set_total(s, other, 200, "--yes")
        assert told["outcome"] == "DONE" and totals(s, other) == (200, 200)
        s.storm_end(process)
        other.await_settled()
        assert other.orders() == 150 and other.books()["free"] == 50
        assert set_total(s, other, 200, "--yes")["outcome"] == "NOTHING"
        recorded = s.sql("SELECT outcome FROM operator_actions WHERE action = 'stock set-total' ORDER BY action_id")
        assert [row[0] for row in recorded] == ["DONE", "REFUSED", "DONE", "NOTHING"]
        await_clean(s, item)
        await_clean(s, other)
        assert s.sql("SELECT detail FROM reconciliation_runs WHERE outcome <> 'CLEAN'") == []


def test_a_change_of_the_total_that_died_is_finished():
    """Between the two stores, up and down: Redis's is the lower one, it is told, and the second run finishes."""
    with System(QUICK) as s:
        item = s.item(stock=10)
        bought(s, item, range(1, 4))
        for to, point, between in ((15, "total_raised_in_pg", (15, 10)), (8, "total_lowered_in_redis", (15, 8))):
            env = {**os.environ, "SECKILL_CRASHPOINT": point}
            done = subprocess.run([f"{s.bin_dir}/seckillctl", "--config", s.config, "stock", "set-total", *item.flags, "--total",
                                   str(to), "--yes"], env=env, capture_output=True, text=True, timeout=60)
            assert done.returncode == -signal.SIGKILL, done
            assert totals(s, item) == between
            assert "mended" not in await_finding(s, item, "TOTAL")  # raising it is the operator's
            assert totals(s, item) == between
            assert set_total(s, item, to, "--yes")["outcome"] == "DONE"
            assert totals(s, item) == (to, to)
            await_clean(s, item)
        bought(s, item, range(4, 9))
        assert s.buy(item, 9).code == "SOLD_OUT" and item.orders() == 8
        recorded = s.sql("SELECT outcome FROM operator_actions WHERE action = 'stock set-total' ORDER BY action_id")
        assert [row[0] for row in recorded] == ["STARTED", "DONE", "STARTED", "DONE"]


# --- by an operator ---

def reconcile(s, verb, item, *words, rc=0):
    done = s.ctl("reconcile", verb, *item.flags, "--json", *words, check=False)
    assert done.returncode == rc, f"{verb} {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_reconcile_run_and_show():
    """Only shown without --yes; then two rounds at once, and mended although reconcile.mend is false; recorded."""
    with System({"reconcile.interval": "1h", "reconcile.mend": "false"}) as s:
        item = s.item(stock=5)
        got = bought(s, item, [1, 2])
        s.redis_client.hdel(item.key("buyers"), 2)
        assert reconcile(s, "show", item) == [] and reconcile(s, "run", item) == []
        assert s.sql("SELECT count(*) FROM reconcile_items") == [(0,)]
        found = {f["kind"]: f for f in reconcile(s, "run", item, "--yes", rc=1)}
        assert set(found) == {"BUYER", "FREE_LOW"}
        assert (found["BUYER"]["user_id"], found["BUYER"]["order_id"], found["BUYER"]["mended"]) == ("2", got[2][1], "MENDED")
        assert reconcile(s, "show", item) == list(found.values())
        assert [f["outcome"] for f in reconcile(s, "run", item, "--yes")] == ["CLEAN"]
        recorded = s.sql("SELECT outcome FROM operator_actions WHERE action = 'reconcile run' ORDER BY action_id")
        assert [row[0] for row in recorded] == ["DONE", "DONE"]
        assert s.worker.terminate() == 0
        assert reconcile(s, "run", item, "--yes", "--wait", "1s", rc=3)[0]["outcome"] == "CLEAN"
        s.worker.start()


# --- kill -9 ---

def lose_order(s, user):
    """PostgreSQL never had it: what a promoted standby lacks, by hand."""
    message, reservation = s.sql("SELECT message_id, reservation_id FROM orders WHERE user_id = %s", user)[0]
    s.sql("UPDATE seckill_inventory i SET sold_stock = sold_stock - 1 FROM orders o WHERE o.user_id = %s "
          "AND (i.activity_id, i.sku_id) = (o.activity_id, o.sku_id)", user)
    s.sql("DELETE FROM outbox WHERE message_id = %s", message)
    s.sql("DELETE FROM consumer_inbox WHERE message_id = %s", message)
    s.sql("DELETE FROM stock_ledger WHERE reservation_id = %s", reservation)
    s.sql("DELETE FROM orders WHERE user_id = %s", user)
    s.sql("UPDATE reconcile_items SET walked_timeline = 0")


def test_killed_while_it_mends():
    """Whatever was done is done once; the next life goes on, when the dead one's lease is over."""
    with System(QUICK) as s:
        item = s.item(stock=5)
        got = bought(s, item, [1, 2, 3])
        await_clean(s, item)

        def dies_at(point, wrong):
            assert s.worker.terminate() == 0
            wrong()
            for armed in (point, None):
                s.sql("UPDATE reconcile_items SET beat_at = '-infinity'")
                s.worker.start_with(armed)
                if armed:
                    assert s.worker.await_end() == 128 + signal.SIGKILL

        entry = s.redis_client.hget(item.key("buyers"), 2)
        dies_at("reconcile_after_mend", lambda: s.redis_client.hdel(item.key("buyers"), 2))
        assert s.redis_client.hget(item.key("buyers"), 2) == entry
        await_clean(s, item)
        dies_at("reconcile_after_publish", lambda: lose_order(s, 3))
        wait_for("the order", lambda: item.orders() == 3)
        assert s.sql("SELECT order_id::text FROM orders WHERE user_id = 3") == [(got[3][1],)]
        item.await_settled()
        await_clean(s, item)


# --- PostgreSQL fails over ---

def test_an_order_that_cannot_be_placed_again():
    """Rule 3: its buyer hears FAILED/LOST_ORDER after SUCCEEDED, for the place that it had is lost, too: a raise of the total.
    Redis's total follows PostgreSQL's down, and the books of both agree."""
    with System(QUICK) as s:
        item = s.item(stock=1)
        first = bought(s, item, [1])
        assert set_total(s, item, 2, "--yes")["outcome"] == "DONE"
        key, _ = bought(s, item, [2])[2]
        await_clean(s, item)
        assert s.worker.terminate() == 0
        lose_order(s, 2)
        s.sql("UPDATE seckill_inventory SET total_stock = 1")
        s.sql("DELETE FROM stock_ledger WHERE kind = 'TOTAL' AND ctid <> (SELECT min(ctid) FROM stock_ledger WHERE kind = 'TOTAL')")
        s.sql("UPDATE reconcile_items SET beat_at = '-infinity'")
        s.worker.start()
        wait_for("the answer", lambda: s.state(item, 2, key).json.get("reason") == "LOST_ORDER")
        assert s.state(item, 2, key).code == "FAILED" and s.worker.logged("order lost: it could not be placed again")
        await_clean(s, item)
        assert totals(s, item) == (1, 1) and item.books()["free"] == 0 and item.orders() == 1
        assert s.state(item, 1, first[1][0]).code == "SUCCEEDED"


def with_standby():
    """A System whose programs look for whichever of its PostgreSQL and a second one takes writes; neither runs yet."""
    standby = PrivatePostgres()
    s = System(QUICK)
    s.settings["pg.conninfo"] = (f"host={s.pg.dir},{standby.dir} user=seckill dbname=postgres "
                                 "target_session_attrs=read-write connect_timeout=2")
    return s, standby


def fail_over(s, standby):
    primary, s.pg = s.pg, standby
    primary.kill()
    primary.stop()
    standby.promote()


def test_a_synchronous_standby_is_promoted():
    """It has every order that was committed: nothing is placed again, and the timeline's walk finds nothing."""
    s, standby = with_standby()
    try:
        with s:
            standby.follow(s.pg).start()
            s.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            s.sql("SELECT pg_reload_conf()")
            wait_for("the standby", lambda: s.sql("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
            item = s.item(stock=100)
            storm = s.storm(item, 200, "--rate", 400, background=True)
            wait_for("orders", lambda: item.orders() >= 30)
            fail_over(s, standby)
            s.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
            s.sql("SELECT pg_reload_conf()")
            s.storm_end(storm)
            item.await_settled(30)
            wait_for("the walk", lambda: s.sql("SELECT walked_timeline FROM reconcile_items") == [(2,)])
            assert s.worker.metric("seckill_reconcile_republished_total") == 0
            assert item.orders() == 100
            await_clean(s, item)
    finally:
        standby.stop()


def test_a_standby_that_lacks_the_last_orders_is_promoted():
    """failures.md 22: they are found through Redis, and placed again with the same ids; nothing is sold twice meanwhile. A cancel
    that the standby lacks is carried out again."""
    s, standby = with_standby()
    try:
        with s:
            standby.follow(s.pg).start()
            item = s.item(stock=10)
            first = bought(s, item, range(1, 4))
            await_clean(s, item)
            wait_for("the first walk", lambda: s.sql("SELECT walked_timeline FROM reconcile_items") == [(1,)])
            with standby.connect() as c:
                wait_for("the standby", lambda: c.execute("SELECT count(*) FROM orders").fetchone()[0] == 3
                         and c.execute("SELECT walked_timeline FROM reconcile_items").fetchone() == (1,))
            standby.cut_off()
            last = bought(s, item, range(4, 8))
            assert s.cancel(item, 2, first[2][0]).status == 202
            wait_for("the cancel to be told", lambda: s.state(item, 2, first[2][0]).code == "CANCELLED")
            fail_over(s, standby)
            wait_for("the orders", lambda: s.sql("SELECT count(*) FROM orders") == [(7,)])
            assert dict(s.sql("SELECT user_id, order_id::text FROM orders")) == {
                u: order for u, (_, order) in {**first, **last}.items()}
            wait_for("the cancel", lambda: item.orders() == 6)
            for user, (key, _) in last.items():
                assert s.state(item, user, key).code == "SUCCEEDED"
            item.await_settled()
            wait_for("the walk", lambda: s.sql("SELECT walked_timeline FROM reconcile_items") == [(2,)])
            assert s.worker.metric("seckill_reconcile_republished_total") >= 4
            bought(s, item, range(8, 12))
            assert s.buy(item, 12).code == "SOLD_OUT" and item.orders() == 10
            await_clean(s, item)
    finally:
        standby.stop()
