"""The store: its tables, and SQLite as the embedded database.

SQL is written once, with ``?`` for parameters; ``postgresql.py`` overrides the differences.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from unswayed.errors import InputError, option

#: Increase when tables or their contents change, and add the migration below. Format 4 added
#: attributes to decisions, and features to settings.
SCHEMA_VERSION = "4"

_MIGRATES_FROM = ("2", "3")  # Formats that can be migrated; missing tables are created in any case

#: The columns of each table: its primary key, and the others. ``{bytes}`` and ``{number}`` stand
#: for the database's own types.
_TABLES = {
    "meta": ("name TEXT", "value TEXT"),
    "campaigns": (
        "name TEXT",
        "settings TEXT, state TEXT, created_ms BIGINT, plan BIGINT, policy BIGINT",
    ),
    "plans": (
        "campaign TEXT, version BIGINT",
        "created_ms BIGINT, reason TEXT, policy BIGINT, plan TEXT",
    ),
    "policies": ("campaign TEXT, version BIGINT", "created_ms BIGINT, job TEXT, policy TEXT"),
    "keys": ("id TEXT", "campaign TEXT, role TEXT, hash TEXT, created_ms BIGINT"),
    "decisions": ("", "campaign TEXT, first_ms BIGINT, last_ms BIGINT, n BIGINT, records {bytes}"),
    "asked": ("campaign TEXT, key TEXT", "time_ms BIGINT, record {bytes}"),
    "rewards": (
        "campaign TEXT, decision {bytes}, reward_id TEXT",
        "value {number}, received_ms BIGINT, record {bytes}",
    ),
    "activations": ("campaign TEXT, decision {bytes}", "received_ms BIGINT, record {bytes}"),
    "counts": (
        "campaign TEXT, context TEXT, mode TEXT, writer TEXT",
        "decisions BIGINT, rewards BIGINT, matches BIGINT",
    ),
    "jobs": (
        "id TEXT",
        "campaign TEXT, state TEXT, step TEXT, created_ms BIGINT, alive_ms BIGINT, result TEXT",
    ),
    "reports": ("campaign TEXT, day TEXT", "created_ms BIGINT, report TEXT"),
    "forgotten": ("campaign TEXT, pseudonym TEXT", "before_ms BIGINT"),
}

_INDEXES = (("decisions", "first_ms"), ("asked", "time_ms"))


def _names(columns: str) -> tuple[str, ...]:
    return tuple(column.split()[0] for column in columns.split(", ") if column)


#: The columns of each table, those of its key first, and the number of key columns.
COLUMNS = {table: _names(key) + _names(others) for table, (key, others) in _TABLES.items()}
_N_KEYS = {table: len(_names(key)) for table, (key, _) in _TABLES.items()}

#: Tables whose rows are deleted with their campaign.
OF_CAMPAIGNS = tuple(table for table, columns in COLUMNS.items() if "campaign" in columns)

Row = tuple[Any, ...]


class StoreError(InputError):
    """The database cannot be reached or written; the transaction was rolled back."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store cannot be used: {reason}.")


_BUSY_SECONDS = 10.0  # Ours: how long to wait for another process's write
_OLDEST_SQLITE = (3, 35)  # The first version with RETURNING
_MOST_ROWS = 256  # Ours: rows per statement; SQLite takes 32,766 values in all


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
        """Open the file; raise ``StoreError`` if it is missing, instead of creating it."""
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
            # An existing file is not opened here: closing any handle of a file releases the locks
            # that SQLite holds on it in this process.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise InputError(f"cannot write the store {self.path}: {error.strerror}.") from error
        with self.connected() as connection, connection.transaction():
            make_tables(connection, {"bytes": "BLOB", "number": "REAL"}, migrates=migrates)

    @contextmanager
    def learner_lock(self) -> Iterator[None]:
        """Hold the learner's lock, which one process has at a time and which ends with it."""
        handle = os.open(f"{self.path}.learner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield a connection, and close it afterwards."""
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

    def execute(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def stream(self, sql: str, *values: Any) -> Generator[Row]:
        """Yield the rows of a statement without loading them all; use it within ``reading``."""
        try:
            yield from self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def damage(self) -> list[str]:
        """Return problems that the database's own integrity check finds."""
        rows = self.execute("PRAGMA integrity_check(5)")
        return [f"the file is damaged: {row[0]}." for row in rows if row[0] != "ok"]

    def select(self, table: str, columns: str = "", more: str = "", **equal: Any) -> list[Row]:
        """Return columns, by default all, of the rows that have the values of ``equal``.

        ``more`` is appended to the statement.
        """
        columns = columns or ", ".join(COLUMNS[table])
        where = " AND ".join(f"{name} = ?" for name in equal) or "TRUE"
        return self.execute(f"SELECT {columns} FROM {table} WHERE {where} {more}", *equal.values())

    def meta(self, name: str) -> str | None:
        """Return a value of the table ``meta``, or None."""
        rows = self.select("meta", "value", name=name)
        return str(rows[0][0]) if rows else None

    def insert(self, table: str, rows: Sequence[Row], more: str = "") -> list[Row]:
        """Insert whole rows, many per statement, and return the results.

        ``more`` is appended to each statement.
        """
        found: list[Row] = []
        for start in range(0, len(rows), _MOST_ROWS):
            part = rows[start : start + _MOST_ROWS]
            into = f"{table} ({', '.join(COLUMNS[table])})"
            sql = f"INSERT INTO {into} VALUES {_marks(part)} {more}"
            found += self.execute(sql, *chain.from_iterable(part))
        return found

    def insert_new(self, table: str, rows: Sequence[Row]) -> list[bool]:
        """Insert the rows whose key is new, and return for each row whether it was inserted.

        Of several rows with the same key, the first is inserted.
        """
        n_keys = _N_KEYS[table]
        first: dict[Row, int] = {}
        for number, row in enumerate(rows):
            first.setdefault(row[:n_keys], number)
        # Always in the same order: otherwise two servers that insert the same rows could deadlock.
        ordered = [rows[first[key]] for key in sorted(first)]
        more = f"ON CONFLICT DO NOTHING RETURNING {', '.join(COLUMNS[table][:n_keys])}"
        inserted = {first[key] for key in self.insert(table, ordered, more)}
        return [number in inserted for number in range(len(rows))]

    def same_keys(self, table: str, rows: Sequence[Row]) -> list[Row | None]:
        """Return the stored row with the key of each given row, None if there is none."""
        columns, n_keys = COLUMNS[table], _N_KEYS[table]
        stored = ", ".join(f"it.{name}" for name in columns)
        matching = " AND ".join(f"it.{columns[n]} = asked.column{n + 1}" for n in range(n_keys))
        keys = [row[:n_keys] for row in rows]
        found: dict[Row, Row] = {}
        for start in range(0, len(keys), _MOST_ROWS):
            part = keys[start : start + _MOST_ROWS]
            asked = f"(VALUES {_marks(part)}) asked"
            sql = f"SELECT {stored} FROM {asked} JOIN {table} it ON {matching}"
            for row in self.execute(sql, *chain.from_iterable(part)):
                found[row[:n_keys]] = row
        return [found.get(key) for key in keys]

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
        """Commit and sync the changes made inside, or roll all of them back; other writers wait."""
        self.execute(self._begin)
        try:
            yield
            self.check_file()
            self.execute("COMMIT")
        except BaseException:
            with suppress(StoreError):  # a lost connection has rolled it back
                self.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read a snapshot of the store."""
        self.execute(self._begin_reading)
        try:
            yield
        finally:
            with suppress(StoreError):
                self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""
        self._connection.close()


def _marks(rows: Sequence[Row]) -> str:
    """Return SQL placeholders for the values of rows."""
    return ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(rows))


def make_tables(connection: Connection, types: Mapping[str, str], *, migrates: bool) -> None:
    """Create missing tables; reject a store of another format."""
    for table, (key, others) in _TABLES.items():
        columns = [f"{column} NOT NULL" for column in f"{key}, {others}".strip(", ").split(", ")]
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(_names(key))})")
        sql = f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})"
        connection.execute(sql.format_map(types))
        if table == "meta":
            connection.insert_new("meta", [("schema", SCHEMA_VERSION), ("change", "0")])
            format_of(connection, is_older_good=migrates)
    for table, column in _INDEXES:
        name = f"{table}_by_time"
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {table} (campaign, {column})")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", SCHEMA_VERSION)


def format_of(connection: Connection, *, is_older_good: bool = False) -> str:
    """Return the format of a store, or raise an error if it cannot be used."""
    found = connection.meta("schema")
    if found is None:
        raise InputError("this is not a store of unswayed; name another one.")
    if found == SCHEMA_VERSION or (is_older_good and found in _MIGRATES_FROM):
        return found
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
    """Return the database at an address: ``sqlite:///FILE`` or ``postgresql://…``."""
    if url.startswith("sqlite:///"):
        return Database(url)
    if url.startswith(("postgresql://", "postgres://")):
        from unswayed.service.postgresql import PostgresqlDatabase

        return PostgresqlDatabase(url)
    raise InputError(
        f"{option('--store')} is {url!r}; give sqlite:///FILE or postgresql://USER@HOST/DATABASE."
    )
