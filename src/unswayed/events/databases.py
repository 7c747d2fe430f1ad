"""Rows of an SQL query on DuckDB, SQLite or PostgreSQL, as an Arrow table."""

from __future__ import annotations

import decimal
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import duckdb
import pyarrow as pa

from unswayed import memory
from unswayed.errors import InputError

#: Rows fetched at a time.
_BATCH = 50_000

SCHEMES = ("duckdb", "sqlite", "postgresql", "postgres")


def is_database(address: str) -> bool:
    """Whether an address names a database, such as ``sqlite:///shop.db``."""
    return urlsplit(address).scheme in SCHEMES


def query_rows(address: str, query: str) -> pa.Table:
    """Return the rows of a query, or refuse them when they do not fit into memory.

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
        if scheme == "duckdb":
            path = _path_of(address)
            with duckdb.connect(path or ":memory:", read_only=bool(path)) as connection:
                reader = connection.sql(query).to_arrow_reader(_BATCH)
                return pa.Table.from_batches(_fitting(reader), reader.schema)
        if scheme == "sqlite":
            return _sqlite_rows(_path_of(address), query)
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


def _sqlite_rows(path: str, query: str) -> pa.Table:
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    try:
        cursor = connection.execute(query)
        return _fetched(cursor, [column[0] for column in cursor.description or ()])
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
                return _fetched(cursor, [column.name for column in cursor.description or ()])
    except psycopg.Error as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise InputError(f"the query on postgresql failed: {first}") from error


def _fetched(cursor: Any, names: list[str]) -> pa.Table:
    """Return the rows of a cursor; each column gets the type of its values."""
    if not names:
        raise InputError("the query returns no rows to read; it must be a SELECT.")
    batches = iter(lambda: cursor.fetchmany(_BATCH), [])
    tables = (
        pa.table([_as_array(values) for values in zip(*rows, strict=True)], names=names)
        for rows in batches
    )
    columns = zip(*(table.columns for table in _fitting(tables)), strict=True)
    joined = [_joined([chunk for part in parts for chunk in part.chunks]) for parts in columns]
    return pa.table(joined or [pa.nulls(0)] * len(names), names=names)


def _fitting(pieces: Any) -> Iterator[Any]:
    """Yield Arrow tables or batches while all of them together fit into memory."""
    usable = memory.usable_bytes()
    n_bytes = 0
    for piece in pieces:
        n_bytes += piece.nbytes + len(piece) * memory.ROW_BYTES
        memory.check_fits(n_bytes, usable, "the query's result")
        yield piece


def _as_array(values: Sequence[object]) -> pa.Array:
    try:
        return pa.array([_plain(value) for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # a column of mixed types is text
        return pa.array([None if value is None else str(value) for value in values])


def _plain(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return float(value)
    return str(value) if isinstance(value, uuid.UUID) else value


def _joined(arrays: list[pa.Array]) -> pa.ChunkedArray:
    types = {array.type for array in arrays} - {pa.null()}
    target = next(iter(types), pa.null())
    if len(types) > 1:
        target = pa.float64() if types <= {pa.int64(), pa.float64()} else pa.string()
    return pa.chunked_array([array.cast(target) for array in arrays], type=target)
