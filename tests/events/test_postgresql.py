"""A real PostgreSQL server on loopback; scripts/install-system-packages installs it."""

import numpy as np
import psycopg
import pytest

from tests.events.logs import account, random_log, rows
from unswayed.errors import InputError
from unswayed.events import read_events


def test_a_query_on_postgresql_is_read(postgresql: str, rng: np.random.Generator) -> None:
    table = random_log(rng)
    with psycopg.connect(postgresql) as connection:
        connection.execute(
            'CREATE TABLE plays ("user" text, context text, action text, reward float8, p numeric)'
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO plays VALUES (%s, %s, %s, %s, 0.25)",
                [tuple(row.values()) for row in table.to_pylist()],
            )
    query = 'SELECT "user", context, action, reward, p AS propensity FROM plays'
    events = read_events(postgresql, query=query).events
    assert account(events) == rows(table)
    assert events.propensities is not None
    assert set(events.propensities) == {0.25}


def test_a_bad_query_on_postgresql_is_reported_in_one_sentence(postgresql: str) -> None:
    with pytest.raises(InputError, match="query on postgresql failed") as caught:
        read_events(postgresql, query="SELECT * FROM nothing_here")
    assert "\n" not in str(caught.value)


def test_a_query_cannot_write(postgresql: str) -> None:
    with pytest.raises(InputError, match="query on postgresql failed"):
        read_events(postgresql, query="CREATE TABLE sneaky (x int)")


def test_an_unreachable_server_is_an_input_error() -> None:
    with pytest.raises(InputError, match="query on postgresql failed"):
        read_events("postgresql://127.0.0.1:1/none?connect_timeout=2", query="SELECT 1")
