"""Stores that lose what they had confirmed, over and over: the tests of e2e, which run once each time."""
import os
import sys

import pytest
from faults import TIMES

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import test_12_rebuild  # noqa: E402
import test_14_reconcile  # noqa: E402
import test_17_sentinel  # noqa: E402

LOSSES = {
    "FLUSHALL mid-sale": (test_12_rebuild.test_flushed_mid_sale, "flushes"),
    "Redis restarted empty": (test_12_rebuild.test_restarted_empty, "flushes"),
    "Redis rolled back": (test_12_rebuild.test_rolled_back, "flushes"),
    "Redis failover with lost writes": (test_17_sentinel.test_a_failover_that_loses_writes_is_rebuilt, "failovers"),
    "promotion of an asynchronous standby": (test_14_reconcile.test_a_standby_that_lacks_the_last_orders_is_promoted, "promotions"),
    "promotion of a synchronous standby": (test_14_reconcile.test_a_synchronous_standby_is_promoted, "promotions"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_again_and_again(loss):
    run, fault = LOSSES[loss]
    if not TIMES[fault]:
        pytest.skip("in each run: e2e")
    for _ in range(TIMES[fault]):
        run()
        print(f"made 1 {loss}")
