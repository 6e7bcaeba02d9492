"""With SECKILL_QUEUE=rocketmq these tests run on a real RocketMQ, with --full on the older version, too."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import system  # noqa: E402
from private_rocketmq import VERSIONS, PrivateRocketmq  # noqa: E402

if os.environ.get("SECKILL_QUEUE") == "rocketmq":
    @pytest.fixture(scope="session", autouse=True, params=VERSIONS)
    def queue(request):
        with PrivateRocketmq(version=request.param, fast=True) as mq:
            system.default_queue = mq
            yield mq
            system.default_queue = None
