"""PostgreSQL as the store of a service on several hosts."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

try:
    import psycopg
except ImportError as error:  # pragma: no cover  # tested in an environment without it
    from unswayed.errors import InputError

    raise InputError(
        "a PostgreSQL store needs a driver: install unswayed with the extra 'postgresql'."
    ) from error

from unswayed.errors import InputError
from unswayed.service.database import Connection, Database, Row, StoreError, make_tables

_CONNECT_SECONDS = 5  # Ours: how long connecting may take; a request waits for it
_STATEMENT_MS = 30_000  # Ours: longer statements are cancelled, and the request gets status 503
_LOCK_SECONDS = 0.5  # Ours: seconds between attempts to take the learner's lock
_CREATING, _LEARNING = 7_283_001, 7_283_002  # Ids of advisory locks


class PostgresqlDatabase(Database):
    """A database on a server."""

    def __init__(self, url: str) -> None:  # the checks of SQLite's file do not apply
        self.url = url

    def connect(self) -> PostgresqlConnection:
        """Open a connection whose commits wait until they are on the server's disk."""
        options = f"-c synchronous_commit=on -c statement_timeout={_STATEMENT_MS}"
        with _errors():
            return PostgresqlConnection(
                psycopg.connect(
                    self.url, connect_timeout=_CONNECT_SECONDS, autocommit=True, options=options
                )
            )

    def create(self, *, migrates: bool = False) -> None:
        """Create the tables; servers that start at the same time take turns."""
        with self.connected() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(?)", _CREATING)
            types = {"bytes": "BYTEA", "number": "DOUBLE PRECISION"}
            make_tables(connection, types, migrates=migrates)

    @contextmanager
    def learner_lock(self) -> Iterator[None]:
        """Hold the learner's lock, which one database session has at a time."""
        with self.connected() as connection:
            while not connection.execute("SELECT pg_try_advisory_lock(?)", _LEARNING)[0][0]:
                time.sleep(_LOCK_SECONDS)
            yield


class PostgresqlConnection(Connection):
    """A connection to a server."""

    _connection: psycopg.Connection[Any]  # type: ignore[assignment]
    _begin = "BEGIN"
    _begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def check_file(self) -> None:
        """Do nothing: the server checks its own files."""

    def damage(self) -> list[str]:
        """Return nothing: PostgreSQL checks its files itself."""
        return []

    def execute(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""
        with _errors():
            statement = cast("Any", sql.replace("?", "%s"))
            cursor = self._connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def stream(self, sql: str, *values: Any) -> Generator[Row]:
        """Yield the rows of a statement from a cursor of the server."""
        with _errors(), self._connection.cursor(name="stream") as cursor:
            cursor.execute(cast("Any", sql.replace("?", "%s")), values or None)
            yield from cursor


@contextmanager
def _errors() -> Iterator[None]:
    """Convert errors of the driver; only their first line, since others may contain a password."""
    try:
        yield
    except psycopg.Error as error:
        text = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, psycopg.DataError):
            # The caller sent a character that PostgreSQL cannot store as text.
            raise InputError(f"a name cannot be used: {text}.") from error
        raise StoreError(text) from error
