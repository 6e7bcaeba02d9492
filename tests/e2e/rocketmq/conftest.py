import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from faultproxy import FaultProxy  # noqa: E402
from private_rocketmq import VERSIONS, PrivateRocketmq  # noqa: E402


@pytest.fixture(scope="session", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="session")
def broker(version):
    with PrivateRocketmq(version=version, fast=True) as server:
        yield server


@pytest.fixture
def mq(broker):
    """One for all tests: each System has its own topic."""
    yield broker
    if not all(part.alive() for part in broker.parts):  # the test failed while it was down
        broker.again()


@pytest.fixture
def faults():
    with FaultProxy(seed=4) as proxy:
        yield proxy
