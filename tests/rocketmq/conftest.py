import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from oracle import Oracle  # noqa: E402
from private_rocketmq import PrivateRocketmq  # noqa: E402


@pytest.fixture(scope="module")
def mq():
    with PrivateRocketmq(fast=True, topics=("%DLQ%one-try:NORMAL:1",), groups=("one-try:1", "undertaker:1000")) as server:
        yield server


@pytest.fixture
def oracle(mq):
    return Oracle(mq)
