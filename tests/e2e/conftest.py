"""With SECKILL_QUEUE=rocketmq these tests run on a real RocketMQ, with --full on the older version, too."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import system  # noqa: E402
from private_rocketmq import VERSIONS, PrivateRocketmq  # noqa: E402

# Beside rocketmq/test_lost.py these show little that is new, and take minutes.
FULL_ON_ROCKETMQ = {"test_12_rebuild.py", "test_13_token.py", "test_14_reconcile.py"}

if os.environ.get("SECKILL_QUEUE") == "rocketmq":
    def pytest_collection_modifyitems(items):
        for item in items:
            if item.path.name in FULL_ON_ROCKETMQ and not system.FULL:
                item.add_marker(pytest.mark.skip(reason="scripts/test --full"))

    @pytest.fixture(scope="session", autouse=True, params=VERSIONS)
    def queue(request):
        with PrivateRocketmq(version=request.param, fast=True) as mq:
            system.default_queue = mq
            yield mq
            system.default_queue = None
