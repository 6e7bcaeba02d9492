"""A master, its replica and a Sentinel: the programs find the master, and the next one."""
import os
import signal

import pytest
from services import wait_for
from system import FULL, System
from topologies import PrivateSentinel

SHORT = {"queue.lease": "1s", "worker.lease_margin": "250ms", "worker.recover_after": "500ms", "worker.recover_interval": "200ms",
         "redis.slot_timeout": "30ms"}


def pause(s, number):
    for program in s.programs:
        os.kill(program.pid, number)


def failover(s, how):
    """The replica becomes the master. It has everything: nobody writes before the old one is none any more."""
    old = s.redis.master
    pause(s, signal.SIGSTOP)
    try:
        wait_for("the replica to be in step", s.redis.in_step)
        if how == "kill":
            old.kill()
        else:
            s.redis.ask("SENTINEL", "FAILOVER", "sale")
            wait_for("the old master to be a replica", lambda: old.role() == "slave")
    finally:
        pause(s, signal.SIGCONT)
    s.redis.await_other_master(old)
    return old


@pytest.mark.parametrize("how", ["kill", "asked"])
def test_failover_in_the_middle_of_a_sale(how):
    """Clients follow the new master by themselves; whatever is not known to be done is asked again with the same ids."""
    with System(SHORT, redis=PrivateSentinel()) as s:
        for place in (20, 60, 100) if FULL else (60,):
            item = s.item(stock=300)
            storm = s.storm(item, 200, "--rate", 100, background=True)
            wait_for(f"{place} units to be taken", lambda n=place, i=item: i.books()["seq"] >= n)
            old = failover(s, how)
            s.storm_end(storm)
            s.storm(item, 300, "--rate", 600)
            item.await_settled()
            item.audit()
            assert item.orders() >= 200
            if how == "kill" and FULL:
                old.start()
                wait_for("the old master to be a replica", s.redis.in_step)


def test_a_failover_that_loses_writes_is_rebuilt():
    """Killed while it sells: what the replica lacks is noticed, and made again from PostgreSQL (rules 34, 36). PostgreSQL admits no
    more than there are meanwhile (rules 17, 18)."""
    with System(SHORT, redis=PrivateSentinel()) as s:
        item = s.item(stock=100)
        storm = s.storm(item, 400, "--rate", 100, background=True)
        wait_for("units to be taken", lambda: item.books()["seq"] >= 30)
        s.redis.cut()
        behind = item.books()["seq"]
        wait_for("more to be taken, which the replica will not know", lambda: item.books()["seq"] >= behind + 20)
        old = s.redis.master
        old.kill()
        s.redis.await_other_master(old)
        s.storm_end(storm)
        wait_for("the rebuild", lambda: item.scalar("SELECT epoch FROM seckill_inventory WHERE ITEM") > 1)
        wait_for("the sale to go on", lambda: s.redis_client.hget(item.key("meta"), "state") == b"OPEN")
        s.storm(item, 400, "--rate", 800)
        item.await_settled()
        item.audit()
        assert item.orders() <= 100


def test_a_master_that_becomes_a_replica_without_a_word():
    """REPLICAOF by hand tells no client: whoever writes hears READONLY, whoever only reads asks for the ROLE. Both leave."""
    with System({**SHORT, "redis.stall_timeout": "500ms"}, redis=PrivateSentinel()) as s:
        item = s.item(stock=100)
        key = "0198c1f0-6a3b-7c4d-8e5f-0123456789ab"
        assert s.buy(item, 1, key).status == 202
        item.await_settled()
        wait_for("the replica to be in step", s.redis.in_step)
        old, new = s.redis.master, s.redis.replica
        s.redis.sentinel.down()
        connections = s.query.metric("seckill_redis_reconnects_total")
        new.connect().execute_command("REPLICAOF", "NO", "ONE")
        old.connect().execute_command("REPLICAOF", "127.0.0.1", new.port)
        refused = s.buy(item, 2)
        assert refused.status == 503, refused
        wait_for("the reader to leave", lambda: s.query.metric("seckill_redis_reconnects_total") > connections)
        s.redis.sentinel.watch(new.port)
        wait_for("the sale to go on", lambda: s.buy(item, 2).status == 202)
        wait_for("the reader to be back", lambda: s.state(item, 1, key).code == "SUCCEEDED")
        s.redis_client.connection_pool.disconnect()  # ours heard nothing, either
        item.await_settled()
