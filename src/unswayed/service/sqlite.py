"""SQLite as the embedded store: a write-ahead log, synced at every commit."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unswayed.errors import InputError, option
from unswayed.service.database import Connection, Database, Row, StoreError, make_tables

#: Ours: how long to wait for another process that writes; commits take milliseconds.
_BUSY_SECONDS = 10.0

#: Ours: rows in one statement; SQLite takes 32,766 values in all.
_MOST_ROWS = 256


class SqliteDatabase(Database):
    """A database in one file."""

    def __init__(self, path: str) -> None:
        if not path:
            raise InputError(f"{option('--store')} names no file; give sqlite:///shop.db.")
        self.path = Path(path).absolute()

    def connect(self) -> SqliteConnection:
        """Open the file, which must be there: a lost one is not replaced by an empty one."""
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
            return SqliteConnection(connection, self.path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}") from error

    def create(self, *, migrates: bool = False) -> None:
        """Make the file and its tables; other users of the machine cannot read it."""
        try:
            # Only if it is new: closing a handle of a file gives up the locks that SQLite has on
            # it in this process, and others would write where it writes.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise InputError(f"cannot write the store {self.path}: {error.strerror}.") from error
        try:
            with self.connected() as connection, connection.transaction():
                make_tables(connection, bytes_type="BLOB", number_type="REAL", migrates=migrates)
        except StoreError as error:
            raise InputError(f"the store cannot be used: {error}.") from error

    @contextmanager
    def learner_lock(self) -> Iterator[bool]:
        """Hold the file beside the database that only one learner can hold."""
        handle = os.open(f"{self.path}.learner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            yield False
            return
        try:
            yield True
        finally:
            os.close(handle)


class SqliteConnection(Connection):
    """A connection that notices when its file was taken away."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._inode = path.stat().st_ino

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a statement."""
        try:
            cursor = self._connection.execute(sql, parameters)
            while rows := cursor.fetchmany(_MOST_ROWS):
                yield from rows
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def begin_reading(self) -> None:
        """Begin a transaction that sees the write-ahead log as it is now."""
        self.execute("BEGIN")
        self.execute("SELECT COUNT(*) FROM sqlite_master")

    def damage(self) -> list[str]:
        """Return what SQLite finds wrong with its file."""
        rows = self.execute("PRAGMA integrity_check(5)")
        return [f"the file is damaged: {row[0]}." for row in rows if row[0] != "ok"]

    def insert_new(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> list[bool]:
        """Insert many rows in a statement, and one by one only where some are there already.

        Each statement gives up the interpreter's lock and has to get it back from busy threads.
        """
        into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        row_sql = f"({', '.join('?' * len(columns))})"
        found: list[bool] = []
        try:
            execute = self._connection.execute
            while len(found) < len(rows):
                left = rows[len(found) :]
                # In powers of two, so that few statements are compiled, and kept.
                part = left[: min(1 << len(left).bit_length() - 1, _MOST_ROWS)]
                execute("SAVEPOINT these")
                values = [value for row in part for value in row]
                sql = f"{into}{', '.join([row_sql] * len(part))} ON CONFLICT DO NOTHING"
                if execute(sql, values).rowcount == len(part):
                    found += [True] * len(part)
                else:
                    execute("ROLLBACK TO these")
                    sql = f"{into}{row_sql} ON CONFLICT DO NOTHING"
                    found += [execute(sql, row).rowcount == 1 for row in part]
                execute("RELEASE these")
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error
        return found

    def rows_of(
        self, table: str, keys: Sequence[str], wanted: Sequence[str], values: Sequence[Row]
    ) -> list[Row | None]:
        """Look the keys up one by one."""
        sql = (
            f"SELECT {', '.join(wanted)} FROM {table} WHERE "
            f"{' AND '.join(f'{key} = ?' for key in keys)}"
        )
        try:
            execute = self._connection.execute
            return [execute(sql, value).fetchone() for value in values]
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def begin(self) -> None:
        """Begin a transaction that writes, waiting for other processes that do."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit and sync, if the file is still the one that was opened."""
        try:
            is_there = self._path.stat().st_ino == self._inode
        except OSError as error:
            self.rollback()
            raise StoreError(f"{self._path}: {error.strerror}") from error
        if not is_there:
            self.rollback()
            raise StoreError(f"{self._path} was replaced by another file")
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if SQLite has not done so already."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        with suppress(sqlite3.Error):
            self._connection.close()
