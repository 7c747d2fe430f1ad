"""Rows of an SQL query on DuckDB, SQLite or PostgreSQL, as an Arrow table."""

from __future__ import annotations

import decimal
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import duckdb
import pyarrow as pa

from unswayed.errors import InputError
from unswayed.memory import ROW_BYTES, MemoryBudget

#: A table or a batch of rows.
Piece = TypeVar("Piece", bound=Any)

#: Rows fetched at a time.
_BATCH = 50_000

SCHEMES = ("duckdb", "sqlite", "postgresql", "postgres")


@contextmanager
def quiet_connection(
    path: str = ":memory:", *, read_only: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection without a progress bar, and close it."""
    with duckdb.connect(path, read_only=read_only) as connection:
        with suppress(duckdb.InvalidInputException):  # Jupyter without ipywidgets has no bar to set
            connection.sql("SET enable_progress_bar = false")
        yield connection


def is_database(address: str) -> bool:
    """Whether an address names a database, such as ``sqlite:///shop.db``."""
    return urlsplit(address).scheme in SCHEMES


def query_rows(address: str, query: str, memory: MemoryBudget) -> pa.Table:
    """Return the rows of a query, or refuse them when they do not fit into the budget.

    Parameters
    ----------
    address
        ``duckdb:///file.db`` (``duckdb://`` for none), ``sqlite:///file.db`` or
        ``postgresql://user@host/database``. Files are opened for reading only.
    query
        One SELECT.
    memory
        What the rows may take.
    """
    scheme = urlsplit(address).scheme
    try:
        match scheme:
            case "duckdb":
                return _duckdb_rows(_path_of(address), query, memory)
            case "sqlite":
                return _sqlite_rows(_path_of(address), query, memory)
            case _:
                return _postgresql_rows(address, query, memory)
    except (duckdb.Error, sqlite3.Error) as error:
        raise InputError(f"the query on {scheme} failed: {str(error).splitlines()[0]}") from error


def _path_of(address: str) -> str:
    path = address.split("://", 1)[1].removeprefix("/")
    if path and not Path(path).is_file():
        raise InputError(
            f"there is no database file {path}; a path that begins at the root is written with "
            "four slashes, sqlite:////data/shop.db."
        )
    return path


def _duckdb_rows(path: str, query: str, memory: MemoryBudget) -> pa.Table:
    with quiet_connection(path or ":memory:", read_only=bool(path)) as connection:
        reader = connection.sql(query).to_arrow_reader(_BATCH)
        return pa.Table.from_batches(_within(memory, reader), reader.schema)


def _sqlite_rows(path: str, query: str, memory: MemoryBudget) -> pa.Table:
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    try:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description or ()]
        return _as_table(names, _batches(cursor), memory)
    finally:
        connection.close()


def _postgresql_rows(address: str, query: str, memory: MemoryBudget) -> pa.Table:
    try:
        import psycopg
    except ImportError as error:
        raise InputError(
            "reading from PostgreSQL needs psycopg; install it with "
            "pip install 'unswayed[postgresql]'."
        ) from error
    try:
        with psycopg.connect(address) as connection:
            connection.read_only = True
            # A named cursor stays on the server, so rows arrive batch by batch.
            with connection.cursor(name="unswayed") as cursor:
                cursor.execute(query.encode())
                names = [column.name for column in cursor.description or ()]
                return _as_table(names, _batches(cursor), memory)
    except psycopg.Error as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise InputError(f"the query on postgresql failed: {first}") from error


def _batches(cursor: Any) -> Iterator[Sequence[Sequence[object]]]:
    while rows := cursor.fetchmany(_BATCH):
        yield rows


def _within(memory: MemoryBudget, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield Arrow batches while the total memory they need fits the budget."""
    n_bytes = n_rows = 0
    for piece in pieces:
        n_bytes, n_rows = n_bytes + piece.nbytes, n_rows + len(piece)
        memory.check(n_bytes + n_rows * ROW_BYTES, "the query's result")
        yield piece


def _as_table(
    names: list[str], batches: Iterator[Sequence[Sequence[object]]], memory: MemoryBudget
) -> pa.Table:
    if not names:
        raise InputError("the query returns no rows to read; it must be a SELECT.")
    columns: list[list[pa.Array]] = [[] for _ in names]
    tables = (
        pa.table([_as_array(values) for values in zip(*rows, strict=True)], names=names)
        for rows in batches
    )
    for table in _within(memory, tables):
        for column, found in zip(columns, table.columns, strict=True):
            column.extend(found.chunks)
    return pa.Table.from_arrays([_joined(column) for column in columns], names=names)


def _as_array(values: Sequence[object]) -> pa.Array:
    try:
        return pa.array([_plain(value) for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # a column of mixed types is text
        return pa.array([None if value is None else str(value) for value in values])


def _joined(arrays: list[pa.Array]) -> pa.ChunkedArray:
    types = {array.type for array in arrays} - {pa.null()}
    if len(types) > 1:
        are_numbers = types <= {pa.int64(), pa.float64()}
        target = pa.float64() if are_numbers else pa.string()
    else:
        target = next(iter(types), pa.null())
    return pa.chunked_array([array.cast(target) for array in arrays], type=target)


def _plain(value: object) -> object:
    match value:
        case decimal.Decimal():
            return float(value)
        case uuid.UUID():
            return str(value)
        case _:
            return value
