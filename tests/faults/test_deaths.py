"""kill -9 of each program at any moment under load, Redis (AOF always) killed, PostgreSQL stopped as by a power cut: many in one
sale, one after the other; what dies and how far the sale is then follows from the seed. Few of each, alone and at named
places, in each run: e2e/test_5_kill.py."""
import random

import pytest
from faults import SEED, SHORT, TIMES, sell_out_and_audit
from services import wait_for
from system import System

IN_A_SALE = 12
BUYERS = 60


def fell(s, victim):
    server = getattr(s, victim)
    if victim == "pg":
        server.stop_immediately()
    else:
        server.kill()
    server.start()


def victims(rng):
    who = [part for part, fault in (("api", "random kills"), ("worker", "random kills"), ("query", "random kills"),
                                    ("redis", "redis kills"), ("pg", "pg stops")) for _ in range(TIMES[fault])]
    rng.shuffle(who)
    return who


def test_deaths_at_any_moment():
    rng = random.Random(SEED)
    who = victims(rng)
    if not who:
        pytest.skip("in each run: e2e/test_5_kill.py")
    with System(SHORT, record=True) as s:
        while who:
            stock = IN_A_SALE * BUYERS // 2  # half of the deaths are after the last unit, with orders on their way
            item = s.item(stock=stock)
            for victim in who[:IN_A_SALE]:
                before, further = item.books()["seq"], rng.randrange(BUYERS * 2 // 3)
                storm = s.storm(item, BUYERS, "--rate", 400, background=True)
                wait_for("the sale to go on", lambda: item.books()["free"] == 0 or item.books()["seq"] >= before + further)
                fell(s, victim)
                s.storm_end(storm)
                print(f"made 1 × {victim}")
            del who[:IN_A_SALE]
            sell_out_and_audit(item, stock)
