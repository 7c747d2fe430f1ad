"""Opening a log wherever it lies, as a table that DuckDB can scan."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from unswayed.errors import InputError, option
from unswayed.events.columns import Columns, check_repeats
from unswayed.events.databases import is_database, query_rows, quiet_connection
from unswayed.events.files import (
    Files,
    find_files,
    named,
    named_columns,
    quoted,
    register,
    relation_sql,
)
from unswayed.memory import MemoryBudget
from unswayed.storage import temporary_folder

#: Beyond this DuckDB spills to disk. Ours: with the arrays of 20M events it keeps us below 3 GB.
MEMORY_LIMIT = 10**9

#: Ours: of a small budget DuckDB gets a third, and never less than it needs to work at all.
_DUCKDB_SHARE = 3
_DUCKDB_BYTES = 10**8

#: What DuckDB takes JSON text for that looks like it.
_LOOKS_LIKE = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")

#: A path, an address, or anything that hands out Arrow: pyarrow, Polars and pandas tables.
Source = str | os.PathLike[str] | Any


#: Given the columns there are and where: the columns settled, and the names of those to keep.
Settle = Callable[[Sequence[str], str], tuple[Columns, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class OpenLog:
    """A log as the view ``raw`` of a connection, its columns settled.

    ``n_broken`` counts lines that the parser could not read and set aside in ``reject_errors``.
    """

    connection: duckdb.DuckDBPyConnection
    name: str
    columns: Columns
    types: dict[str, str]
    n_broken: int


@contextmanager
def opened(
    source: Source,
    columns: Columns,
    *,
    query: str | None = None,
    keep_broken: bool = False,
    contexts_only: bool = False,
    name: str | None = None,
    memory: MemoryBudget | None = None,
) -> Iterator[OpenLog]:
    """Open a log, and close it afterwards; errors of DuckDB become one sentence.

    With ``contexts_only`` the rows need no more than the context columns, and all columns stay.
    """
    with temporary_folder() as spill, quiet_connection() as connection:
        connection.sql(f"SET temp_directory = {quoted(str(spill))}")
        budget = memory or MemoryBudget.of(None)
        share = max(min(MEMORY_LIMIT, budget.n_bytes // _DUCKDB_SHARE), _DUCKDB_BYTES)
        connection.sql(f"SET memory_limit = '{share}B'")
        name = name or _name_of(source, query)

        def settle(names: Sequence[str], where: str) -> tuple[Columns, Sequence[str]]:
            if contexts_only:
                return columns.contexts_found_in(names, where=where), names
            settled = columns.found_in(names, where=where)
            return settled, settled.needed

        try:
            yield _open(
                connection,
                source,
                settle,
                name,
                query=query,
                keep_broken=keep_broken,
                memory=budget,
            )
        except duckdb.Error as error:
            raise InputError(_explained(name, error)) from error
        except (pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error) as error:
            raise InputError(damaged_file(name, str(error) or type(error).__name__)) from error


def _open(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    settle: Settle,
    name: str,
    *,
    query: str | None,
    keep_broken: bool,
    memory: MemoryBudget,
) -> OpenLog:
    if isinstance(source, str | os.PathLike):
        address = os.fspath(source)
        if is_database(address):
            if query is None:
                raise InputError(
                    f"{name} is a database; say what to read with {option('--query')}: SELECT …"
                )
            return _open_arrow(connection, query_rows(address, query, memory), settle, name)
        if query is not None:
            raise InputError(
                f"{option('--query')} needs a database address such as sqlite:///{address}."
            )
        return _open_files(connection, find_files(address), settle, keep_broken=keep_broken)
    if not hasattr(source, "__arrow_c_stream__"):
        raise InputError(
            f"a log is a path, a database or a table of pyarrow, Polars or pandas, not {name}."
        )
    return _open_arrow(connection, pa.table(source), settle, name)


def _open_arrow(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, settle: Settle, name: str
) -> OpenLog:
    settled, needed = settle(table.column_names, name)
    connection.register("raw", table.select(list(needed)))
    return _described(connection, name, settled, n_broken=0)


def _open_files(
    connection: duckdb.DuckDBPyConnection, files: Files, settle: Settle, *, keep_broken: bool
) -> OpenLog:
    register(connection, files)
    check_repeats(named_columns(files), where=files.name)
    scan = relation_sql(files, keep_broken=keep_broken)
    found = connection.sql(f"FROM {scan}")
    names = found.columns
    if files.format == "json" and names == ["json"]:
        names = []
    settled, chosen = settle(names, files.name)
    if files.format == "json":
        types = dict(zip(names, map(str, found.types), strict=False))
        # Text stays text: what looks like a date in one file may not in the next.
        as_written = {
            name: "VARCHAR" if types[name] in _LOOKS_LIKE else types[name] for name in chosen
        }
        scan = relation_sql(files, keep_broken=keep_broken, types=as_written)
    needed = ", ".join(map(named, chosen))
    if files.format == "parquet":  # cheap to scan several times, column by column
        connection.sql(f"CREATE TEMP VIEW raw AS SELECT {needed} FROM {scan}")
        return _described(connection, files.name, settled, n_broken=0)
    connection.sql(f"CREATE TEMP TABLE raw AS SELECT {needed} FROM {scan}")
    n_broken = 0
    if files.format == "csv" and keep_broken:
        lines = connection.sql("SELECT DISTINCT file_id, line FROM reject_errors").fetchall()
        n_broken = len(lines)
    return _described(connection, files.name, settled, n_broken=n_broken)


def _described(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Columns, *, n_broken: int
) -> OpenLog:
    relation = connection.sql("FROM raw")
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    return OpenLog(connection, name, columns, types, n_broken)


def _name_of(source: Source, query: str | None) -> str:
    if not isinstance(source, str | os.PathLike):
        return f"the {type(source).__name__}"
    address = os.fspath(source)
    # An address may hold a password.
    return "the query's result" if query is not None and is_database(address) else address


def _explained(name: str, error: duckdb.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].split("Error: ", 1)[-1]
    if text.startswith("CSV Error"):
        found = next((line for line in lines if line.startswith("Expected Number")), "")
        return (
            f"{name} has a broken line ({text.removeprefix('CSV Error on ')}. {found}). Fix it, "
            f"or leave such lines out with {option('--on-bad-rows', 'drop')}."
        )
    if "Malformed JSON" in text:
        return (
            f"{name}: {text} Fix it, or leave such lines out with "
            f"{option('--on-bad-rows', 'drop')}."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"{name} does not fit in memory or claims to be larger than it can be: {text}"
    return damaged_file(name, text)


def damaged_file(name: str, reason: str) -> str:
    """Return the sentence for a file that cannot be read."""
    first = reason.strip().partition("\n")[0].rstrip(".")
    return f"cannot read {name}: it is damaged or cut short, or not what its name says ({first})."
