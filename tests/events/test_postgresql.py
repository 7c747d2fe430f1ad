"""A real PostgreSQL server on loopback; scripts/install-system-packages brings it."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.events.logs import account, random_log, rows
from unswayed.errors import InputError
from unswayed.events import read_events


def _command(name: str, *arguments: str) -> None:
    found = shutil.which(name) or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), name
    )
    # The server refuses to run as root.
    account_ = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run(
        [*account_, found, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/"
    )


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield the address of a fresh cluster, and stop it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="unswayed-pg-"))
    user = "postgres" if os.geteuid() == 0 else getpass.getuser()
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = str(folder / "data")
        _command("initdb", "-D", data, "-A", "trust", "-U", user, "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        _command("pg_ctl", "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://{user}@127.0.0.1:{port}/postgres"
        finally:
            _command("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_query_on_postgresql_is_read(server: str, rng: np.random.Generator) -> None:
    table = random_log(rng)
    with psycopg.connect(server) as connection:
        connection.execute(
            'CREATE TABLE plays ("user" text, context text, action text, reward float8, p numeric)'
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO plays VALUES (%s, %s, %s, %s, 0.25)",
                [tuple(row.values()) for row in table.to_pylist()],
            )
    query = 'SELECT "user", context, action, reward, p AS propensity FROM plays'
    events = read_events(server, query=query).events
    assert account(events) == rows(table)
    assert events.propensities is not None
    assert set(events.propensities) == {0.25}


def test_a_bad_query_on_postgresql_is_told_in_one_sentence(server: str) -> None:
    with pytest.raises(InputError, match="query on postgresql failed") as caught:
        read_events(server, query="SELECT * FROM nothing_here")
    assert "\n" not in str(caught.value)


def test_reading_cannot_write(server: str) -> None:
    with pytest.raises(InputError, match="query on postgresql failed"):
        read_events(server, query="CREATE TABLE sneaky (x int)")


def test_a_server_that_is_not_there_is_an_input_error() -> None:
    with pytest.raises(InputError, match="query on postgresql failed"):
        read_events("postgresql://127.0.0.1:1/none?connect_timeout=2", query="SELECT 1")
