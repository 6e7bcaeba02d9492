import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from services import postgres  # noqa: E402, F401

from lifecycle import Life  # noqa: E402
from sale import Sale  # noqa: E402


@pytest.fixture(scope="session")
def database(postgres):  # noqa: F811
    return postgres.load_schema()


@pytest.fixture
def sale(database):
    with database.connect() as connection:
        yield Sale(database, connection)


@pytest.fixture
def life(database):
    with database.connect() as connection:
        connection.execute("DELETE FROM parked_commands WHERE done_at IS NULL")  # the sweep is of all items
        one = Life(database, connection)
        yield one
        one.audit()
