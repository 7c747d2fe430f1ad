"""Rows of an SQL query on DuckDB, SQLite or PostgreSQL, as an Arrow table."""

from __future__ import annotations

import decimal
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa

from unswayed.errors import InputError
from unswayed.events.connection import quiet_connection

#: Rows fetched at a time.
_BATCH = 50_000

SCHEMES = ("duckdb", "sqlite", "postgresql", "postgres")


def is_database(address: str) -> bool:
    """Whether an address names a database, such as ``sqlite:///shop.db``."""
    return urlsplit(address).scheme in SCHEMES


def query_rows(address: str, query: str) -> pa.Table:
    """Return the rows of a query.

    Parameters
    ----------
    address
        ``duckdb:///file.db`` (``duckdb://`` for none), ``sqlite:///file.db`` or
        ``postgresql://user@host/database``. Files are opened for reading only.
    query
        One SELECT.
    """
    scheme = urlsplit(address).scheme
    try:
        match scheme:
            case "duckdb":
                return _duckdb_rows(_path_of(address), query)
            case "sqlite":
                return _sqlite_rows(_path_of(address), query)
            case _:
                return _postgresql_rows(address, query)
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


def _duckdb_rows(path: str, query: str) -> pa.Table:
    with quiet_connection(path or ":memory:", read_only=bool(path)) as connection:
        return connection.sql(query).to_arrow_table()


def _sqlite_rows(path: str, query: str) -> pa.Table:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        cursor = connection.execute(query)
        return _as_table([column[0] for column in cursor.description or ()], _batches(cursor))
    finally:
        connection.close()


def _postgresql_rows(address: str, query: str) -> pa.Table:
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
                return _as_table(names, _batches(cursor))
    except psycopg.Error as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise InputError(f"the query on postgresql failed: {first}") from error


def _batches(cursor: Any) -> Iterator[Sequence[Sequence[object]]]:
    while rows := cursor.fetchmany(_BATCH):
        yield rows


def _as_table(names: list[str], batches: Iterator[Sequence[Sequence[object]]]) -> pa.Table:
    if not names:
        raise InputError("the query returns no rows to read; it must be a SELECT.")
    columns: list[list[pa.Array]] = [[] for _ in names]
    for rows in batches:
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.append(_as_array(values))
    return pa.Table.from_arrays([_joined(column) for column in columns], names=names)


def _as_array(values: Sequence[object]) -> pa.Array:
    try:
        return pa.array([_plain(value) for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a column of mixed types is text
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
