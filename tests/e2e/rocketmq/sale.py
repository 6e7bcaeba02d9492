"""What the tests of this directory have in common."""
import client
from services import wait_for
from system import System

KILLED = 128 + 9
# What is lost is looked for soon, what a dead worker held comes back soon.
SHORT = {"worker.recover_after": "1s", "worker.recover_interval": "200ms", "rocketmq.lease": "2s", "rocketmq.heartbeat": "1s",
         "rocketmq.route_refresh": "1s", "api.instance_lease": "2s"}


def through(faults, mq, *programs, upstream=None):
    """Those reach the broker (or what stands before it) through a fault proxy of each one's own; a list of them. Before their
    start: the broker tells its own address, so that has to be mapped."""
    made = []
    for program in programs:
        proxy = faults.add(program.part, upstream or mq.endpoints)
        program.settings.update({"rocketmq.endpoints": proxy, "rocketmq.endpoint_map": f"{mq.endpoints}={proxy}"})
        made.append(proxy)
    return made


def listening(program):
    """To be a program's ready(), where it is not to become ready: it answers, and could take an order but for its queue."""
    try:
        with open(f"{program.dir}/ports", encoding="ascii") as f:
            program.ports = {k: int(v) for k, v in (p.split("=") for p in f.read().split())}
        body = client.get(program.ports["admin"], "/readyz").body
        return b"order_ids" not in body and b'"redis"' not in body
    except (OSError, client.Closed):
        return False


def settle_and_audit(item, orders, timeout=60):
    item.await_settled(timeout)
    item.audit()
    assert item.orders() == orders


def await_ready(*programs, timeout=60):
    for program in programs:
        wait_for(f"{program.part} to be ready", lambda p=program: p.get("/readyz").status == 200, timeout)


__all__ = ["KILLED", "SHORT", "System", "await_ready", "listening", "settle_and_audit", "through", "wait_for"]
