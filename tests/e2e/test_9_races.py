"""Issue 3, number 9: receiving, cancelling, closing and draining race, twenty times for each program. Runs on the TSan build
too (label tsan): no report, exit status 0 each time, and nothing is lost."""
import os
import random
import subprocess
import time

from system import RELEASE_BIN, System

ROUNDS = int(os.environ.get("SECKILL_RACE_ROUNDS", "20"))


def buyers(s, item, n):
    """A storm in the background: its requests meet a draining API, a dying connection, a fresh instance."""
    return subprocess.Popen([f"{RELEASE_BIN}/seckillctl", "--config", s.config, "storm", *item.flags, "--buyers", str(n),
                             "--connections", "16", "--api", f"http://127.0.0.1:{s.api.ports['api']}", "--limit", "60s"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_drain_at_any_moment():
    rng = random.Random(9)
    with System(env={"TSAN_OPTIONS": "exitcode=99"}) as s:
        item = s.item(stock=100000)
        for _ in range(ROUNDS):
            storm = buyers(s, item, 300)
            try:
                time.sleep(rng.uniform(0, 0.15))  # the moment is the test's input: every one must be good
                programs = [s.worker, s.api, s.query]
                rng.shuffle(programs)
                for program in programs:
                    assert program.terminate() == 0, program.part
                for program in programs:
                    program.start()
            finally:
                storm.kill()
                storm.wait()
        item.await_settled()
        item.audit()
