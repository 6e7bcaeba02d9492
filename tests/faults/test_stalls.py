"""failures.md, matrix: a worker sleeps for longer than its leases (scenario 20), wall clocks jump. Rule 15: Redis's clock alone
decides what is too late; leases and deadlines go by the monotonic clock."""
import glob
import random
import signal
import time

from faults import SEED, SHORT, TIER, TIMES, inventory_held, sell_out_and_audit
from services import wait_for
from system import RELEASE_BIN, System

LEASE_S = 1


def repeated(worker):
    """Deliveries that were not the first of their message."""
    return sum(v for k, v in worker.metrics().items() if k.startswith("seckill_mq_delivery_attempt{") and '"1"' not in k)


def test_a_worker_sleeps():
    """Scenario 20; 1.5 to 10 leases. Another one has its messages meanwhile, and it wakes up with what it held."""
    rng = random.Random(SEED)
    with System({**SHORT, "worker.workers": 16, "worker.queue": 16}) as s:  # neither can hold all
        other = s.program("worker")
        other.start()
        for _ in range(TIMES["stalls"]):
            item = s.item(stock=100)
            sleeper, awake = rng.sample([s.worker, other], 2)
            with inventory_held(s):
                storm = s.storm(item, 120, background=True)
                wait_for("messages in its hand", lambda w=sleeper: w.metric("seckill_mq_inflight_messages") > 0)
                again = repeated(awake)
                sleeper.signal(signal.SIGSTOP)
            try:
                time.sleep(rng.uniform(1.5, 3 if TIER == "ci" else 10) * LEASE_S)  # how long it sleeps
                wait_for("its messages elsewhere", lambda w=awake, n=again: repeated(w) > n)
            finally:
                sleeper.signal(signal.SIGCONT)
            s.storm_end(storm)
            sell_out_and_audit(item, 100)
        print(f"made {TIMES['stalls']} sleeps beyond the lease")
        assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]


def test_clocks_jump():
    """The programs' wall clocks, forward and back, each for itself, and right again. Order ids only go upwards: a seckill-api
    whose clock went back has none (503) until it has caught up, or is started again. Nothing is lost, nothing doubled."""
    library, = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    rng = random.Random(SEED)
    with System(SHORT, bin_dir=RELEASE_BIN) as s:
        clocks = {}
        for program in s.programs:
            program.down()
            clocks[program] = f"{program.dir}/clock"
            program.env.update({"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": clocks[program], "FAKETIME_NO_CACHE": "1",
                                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"})
            jump(clocks[program], 0)
            program.start()
        for n in range(TIMES["clock jumps"] // 2):
            item = s.item(stock=100)
            storm = s.storm(item, 300, "--rate", 150, background=True)  # a token of the future is refused
            wait_for("orders", lambda i=item: i.orders() > 10)
            program = s.programs[n % 2] if TIER == "ci" else rng.choice(s.programs)
            sold = item.orders()
            seconds = rng.choice([-600, -60, -5, -1, 1, 5, 60, 600])
            jump(clocks[program], seconds)
            if seconds > 0:
                wait_for("sales", lambda i=item, n=sold: i.orders() > n + 5)
            else:
                time.sleep(0.5)  # how long it is wrong
            jump(clocks[program], 0)
            if program is s.api and seconds > 1:
                wait_for("it to say so", lambda: b"behind the last order id" in s.api.get("/readyz").body)
                program.restart()
            s.storm_end(storm)
            print(f"{program.part} {seconds:+d} s: {item.orders()} orders")
            sell_out_and_audit(item, 100)
        print(f"made {TIMES['clock jumps'] // 2 * 2} clock jumps")
        ids = [row[0] for row in s.sql("SELECT order_id FROM orders")]
        assert len(ids) == len(set(ids)) == 100 * (TIMES["clock jumps"] // 2)


def jump(path, seconds):
    with open(path, "w", encoding="ascii") as f:
        f.write(f"{seconds:+d}s\n")
