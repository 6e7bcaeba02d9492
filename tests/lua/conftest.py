import os
import sys

import pytest
import redis

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
from sale import Sale  # noqa: E402
from services import PrivateRedis  # noqa: E402


@pytest.fixture(scope="session")
def server():
    with PrivateRedis() as private:
        yield private


@pytest.fixture
def connect(server):
    made = []

    def make():
        made.append(redis.Redis(unix_socket_path=server.socket, decode_responses=True))
        return made[-1]
    yield make
    for client in made:
        client.close()


@pytest.fixture
def sale(connect):
    client = connect()
    client.flushall()
    return Sale(client)
