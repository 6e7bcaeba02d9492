import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from services import postgres  # noqa: E402, F401

from sale import Sale  # noqa: E402


@pytest.fixture(scope="session")
def database(postgres):  # noqa: F811
    return postgres.load_schema()


@pytest.fixture
def sale(database):
    with database.connect() as connection:
        yield Sale(database, connection)
