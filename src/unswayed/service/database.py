"""The store: its tables, and SQLite as the embedded database.

SQL is written once, with ``?`` for parameters; ``postgresql.py`` overrides what differs there.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unswayed.errors import InputError, option

#: Increase when tables or what is in them change, and add the migration below. Since format 4
#: decisions may hold attributes, and settings features.
SCHEMA_VERSION = "4"

#: Formats that can be migrated; missing tables are created in any case.
_MIGRATES_FROM = ("2", "3")

#: ``{bytes}`` and ``{number}`` stand for the database's own types.
TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS campaigns (
        name TEXT PRIMARY KEY, settings TEXT NOT NULL, state TEXT NOT NULL,
        created_ms BIGINT NOT NULL, plan BIGINT NOT NULL, policy BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS plans (
        campaign TEXT NOT NULL, version BIGINT NOT NULL, created_ms BIGINT NOT NULL,
        reason TEXT NOT NULL, policy BIGINT NOT NULL, plan TEXT NOT NULL,
        PRIMARY KEY (campaign, version))""",
    """CREATE TABLE IF NOT EXISTS policies (
        campaign TEXT NOT NULL, version BIGINT NOT NULL, created_ms BIGINT NOT NULL,
        job TEXT NOT NULL, policy TEXT NOT NULL, PRIMARY KEY (campaign, version))""",
    """CREATE TABLE IF NOT EXISTS keys (
        id TEXT PRIMARY KEY, campaign TEXT NOT NULL, role TEXT NOT NULL, hash TEXT NOT NULL,
        created_ms BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS decisions (
        campaign TEXT NOT NULL, first_ms BIGINT NOT NULL, last_ms BIGINT NOT NULL,
        n BIGINT NOT NULL, records {bytes} NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS decisions_by_time ON decisions (campaign, first_ms)",
    """CREATE TABLE IF NOT EXISTS asked (
        campaign TEXT NOT NULL, key TEXT NOT NULL, time_ms BIGINT NOT NULL,
        record {bytes} NOT NULL, PRIMARY KEY (campaign, key))""",
    "CREATE INDEX IF NOT EXISTS asked_by_time ON asked (campaign, time_ms)",
    """CREATE TABLE IF NOT EXISTS rewards (
        campaign TEXT NOT NULL, decision {bytes} NOT NULL, reward_id TEXT NOT NULL,
        value {number} NOT NULL, received_ms BIGINT NOT NULL, record {bytes} NOT NULL,
        PRIMARY KEY (campaign, decision, reward_id))""",
    """CREATE TABLE IF NOT EXISTS activations (
        campaign TEXT NOT NULL, decision {bytes} NOT NULL, received_ms BIGINT NOT NULL,
        record {bytes} NOT NULL, PRIMARY KEY (campaign, decision))""",
    """CREATE TABLE IF NOT EXISTS counts (
        campaign TEXT NOT NULL, context TEXT NOT NULL, mode TEXT NOT NULL, writer TEXT NOT NULL,
        decisions BIGINT NOT NULL, rewards BIGINT NOT NULL, matches BIGINT NOT NULL,
        PRIMARY KEY (campaign, context, mode, writer))""",
    """CREATE TABLE IF NOT EXISTS jobs (
        id TEXT PRIMARY KEY, campaign TEXT NOT NULL, state TEXT NOT NULL, step TEXT NOT NULL,
        created_ms BIGINT NOT NULL, alive_ms BIGINT NOT NULL, result TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS reports (
        campaign TEXT NOT NULL, day TEXT NOT NULL, created_ms BIGINT NOT NULL,
        report TEXT NOT NULL, PRIMARY KEY (campaign, day))""",
    """CREATE TABLE IF NOT EXISTS forgotten (
        campaign TEXT NOT NULL, pseudonym TEXT NOT NULL, before_ms BIGINT NOT NULL,
        PRIMARY KEY (campaign, pseudonym))""",
)

_MADE = [statement.split(maxsplit=6) for statement in TABLES if "TABLE" in statement]

#: The columns of each table.
COLUMNS = {words[5]: tuple(re.findall(r"(\w+) (?:TEXT|BIGINT|{\w+})", words[6])) for words in _MADE}

#: Their primary keys.
_KEYS = {
    words[5]: (found[1] or found[2]).split(", ")
    for words in _MADE
    if (found := re.search(r"(?:(\w+) TEXT )?PRIMARY KEY(?: \(([^)]*)\))?", words[6]))
}

#: Tables whose rows are deleted with their campaign.
OF_CAMPAIGNS = tuple(table for table, columns in COLUMNS.items() if "campaign" in columns)

Row = tuple[Any, ...]


class StoreError(InputError):
    """The database cannot be reached or written; the transaction was rolled back."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store cannot be used: {reason}.")


#: Ours: how long to wait for another process that writes; commits take milliseconds.
_BUSY_SECONDS = 10.0

#: The first version with RETURNING.
_OLDEST_SQLITE = (3, 35)

#: Ours: rows in one statement; SQLite takes 32,766 values in all.
_MOST_ROWS = 256


class Database:
    """A database in one file: SQLite."""

    def __init__(self, url: str) -> None:
        path = url.removeprefix("sqlite:///")
        if not path:
            raise InputError(f"{option('--store')} names no file; give sqlite:///shop.db.")
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise InputError(
                f"this Python uses SQLite {sqlite3.sqlite_version}; the store needs 3.35 or later."
            )
        self.url = url
        self.path = Path(path).absolute()

    def connect(self) -> Connection:
        """Open the file, which must be there: a lost one is not replaced by an empty one.

        ``StoreError`` if that fails.
        """
        try:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            for pragma in ("journal_mode = WAL", "synchronous = FULL"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            return Connection(connection, self.path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}") from error

    def create(self, *, migrates: bool = False) -> None:
        """Create missing tables; migrate those of an older format if ``migrates``.

        Other users of the machine cannot read the file.
        """
        try:
            # Only if it is new: closing a handle of a file gives up the locks that SQLite has on
            # it in this process, and others would write where it writes.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise InputError(f"cannot write the store {self.path}: {error.strerror}.") from error
        with self.connected() as connection, connection.transaction():
            make_tables(connection, {"bytes": "BLOB", "number": "REAL"}, migrates=migrates)

    @contextmanager
    def learner_lock(self) -> Iterator[None]:
        """Hold the lock that one learner can hold at a time; it is released with the process."""
        handle = os.open(f"{self.path}.learner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Open a connection and close it."""
        connection = self.connect()
        try:
            yield connection
        finally:
            connection.close()


class Connection:
    """A connection to SQLite, used by one thread at a time.

    It detects that its file was removed or replaced.
    """

    _begin = "BEGIN IMMEDIATE"
    _begin_reading = "BEGIN"

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._file = path.stat()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Generator[Row]:
        """Yield the rows of a statement, few of them in memory at a time; within ``reading``."""
        try:
            yield from self._connection.execute(sql, parameters)
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def damage(self) -> list[str]:
        """Return problems that the database's own integrity check finds."""
        rows = self.execute("PRAGMA integrity_check(5)")
        return [f"the file is damaged: {row[0]}." for row in rows if row[0] != "ok"]

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], more: str = ""
    ) -> list[Row]:
        """Insert rows, many in a statement that ends with ``more``, and return what it returns."""
        found: list[Row] = []
        for start in range(0, len(rows), _MOST_ROWS):
            part = rows[start : start + _MOST_ROWS]
            sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {_marks(part)} {more}"
            found += self.execute(sql, [value for row in part for value in row])
        return found

    def insert_new(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> list[bool]:
        """Insert rows whose key is not there yet, and say for each whether it was inserted.

        Of repeated keys the first one is.
        """
        places = [columns.index(name) for name in _KEYS[table]]
        first: dict[Row, int] = {}
        for number, row in enumerate(rows):
            first.setdefault(tuple([row[place] for place in places]), number)
        # Always in one order: two servers that insert the same rows would wait for each other.
        ordered = [rows[first[key]] for key in sorted(first)]
        more = f"ON CONFLICT DO NOTHING RETURNING {', '.join(_KEYS[table])}"
        inserted = {first[key] for key in self.insert(table, columns, ordered, more)}
        return [number in inserted for number in range(len(rows))]

    def rows_of(
        self, table: str, keys: Sequence[str], wanted: Sequence[str], values: Sequence[Row]
    ) -> list[Row | None]:
        """Return the wanted columns of the row of each key, None where there is none."""
        named = ", ".join(f"it.{name}" for name in (*keys, *wanted))
        matching = " AND ".join(f"it.{key} = asked.column{n}" for n, key in enumerate(keys, 1))
        found: dict[Row, Row] = {}
        for start in range(0, len(values), _MOST_ROWS):
            part = values[start : start + _MOST_ROWS]
            sql = f"SELECT {named} FROM (VALUES {_marks(part)}) asked JOIN {table} it ON {matching}"
            for row in self.execute(sql, [value for key in part for value in key]):
                found[row[: len(keys)]] = row[len(keys) :]
        return [found.get(value) for value in values]

    def check_file(self) -> None:
        """Raise ``StoreError`` if the file is not the one that was opened."""
        try:
            is_same = os.path.samestat(self._path.stat(), self._file)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from error
        if not is_same:
            raise StoreError(f"{self._path} was replaced by another file")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit and sync what is done inside, or undo all of it; other writers wait."""
        self.execute(self._begin)
        try:
            yield
            self.check_file()
            self.execute("COMMIT")
        except BaseException:
            with suppress(StoreError):  # a lost connection has undone it
                self.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read the store as it is at one moment."""
        self.execute(self._begin_reading)
        try:
            yield
        finally:
            with suppress(StoreError):
                self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; a transaction that was not committed is undone."""
        self._connection.close()


def _marks(rows: Sequence[Row]) -> str:
    """Return the parameters of the values of rows."""
    return ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(rows))


def make_tables(connection: Connection, types: Mapping[str, str], *, migrates: bool) -> None:
    """Create missing tables; refuse those of another version."""
    connection.execute(TABLES[0])
    connection.insert_new("meta", ("name", "value"), [("schema", SCHEMA_VERSION), ("change", "0")])
    format_of(connection, is_older_good=migrates)
    for table in TABLES[1:]:
        connection.execute(table.format_map(types))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA_VERSION,))


def format_of(connection: Connection, *, is_older_good: bool = False) -> str:
    """Return the format of a store, or refuse it."""
    try:
        ((found,),) = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
    except ValueError as error:
        raise InputError("this is no store of unswayed; name another one.") from error
    if found == SCHEMA_VERSION or (is_older_good and found in _MIGRATES_FROM):
        return str(found)
    mend = (
        "run `unswayed store migrate` after a backup"
        if found in _MIGRATES_FROM
        else "serve it with the version that made it, or name a new store"
    )
    raise InputError(
        f"the store has format {found} and this version of unswayed writes format "
        f"{SCHEMA_VERSION}; {mend}."
    )


def opened(url: str) -> Database:
    """Return the database of an address: ``sqlite:///FILE`` or ``postgresql://…``."""
    if url.startswith("sqlite:///"):
        return Database(url)
    if url.startswith(("postgresql://", "postgres://")):
        from unswayed.service.postgresql import PostgresqlDatabase

        return PostgresqlDatabase(url)
    raise InputError(
        f"{option('--store')} is {url!r}; give sqlite:///FILE or postgresql://USER@HOST/DATABASE."
    )
