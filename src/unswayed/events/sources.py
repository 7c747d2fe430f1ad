"""Open a log from any source as a table that DuckDB can scan."""

from __future__ import annotations

import csv
import decimal
import json
import os
import re
import sqlite3
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote, urlsplit

import duckdb
import fsspec
import pyarrow
import pyarrow as pa
import pyarrow.parquet

from unswayed import memory
from unswayed.errors import InputError, option
from unswayed.events.columns import Columns, check_repeats
from unswayed.storage import temporary_folder

#: File formats by suffix; text formats may also end in ".gz".
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_DELIMITERS = ",\t;|"

#: Characters that make a path a pattern, for fsspec and DuckDB.
_MARKS = re.compile(r"[*?[]")

#: Exceptions raised by damaged files.
_UNREADABLE = (
    *(OSError, ValueError, TypeError, EOFError, RecursionError),
    *(zlib.error, pyarrow.ArrowException),
)

_HEADER_BYTES = 1 << 20  # Ours: maximum length of a header line in bytes
_FORMAT_BYTES = 256  # Bytes that hold the first key of a JSON document


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format, in the order of their names.

    ``paths`` are passed to DuckDB: local paths, or addresses of a registered file system.
    """

    name: str
    format: str
    paths: tuple[str, ...]
    file_system: Any

    @property
    def is_local(self) -> bool:
        """Whether the files lie on this machine's own disks."""
        return "file" in _protocols(self.file_system)

    def opened(self, position: int = 0) -> IO[bytes]:
        """Open one of the files for reading, decompressed if it is gzipped."""
        path = self.paths[position]
        packed = "gzip" if path.endswith(".gz") else None
        return cast("IO[bytes]", self.file_system.open(path, "rb", compression=packed))


def find_files(path: str) -> Files:
    """Return the files of a path, a folder or a pattern such as ``logs/2026-*.parquet``.

    Any address supported by fsspec is valid. Subfolders are searched, too; names that begin with
    "." or "_" are skipped, since other programs use them for metadata.
    """
    try:
        file_system, root = fsspec.core.url_to_fs(path)
        missing = f"there is no file {path}; check the path."
        if _MARKS.search(root) and not file_system.exists(root):
            missing = f"no file matches {path}; check the pattern."
            found = file_system.glob(root)
        elif file_system.isdir(root):
            missing = f"the folder {path} holds no files; check the path."
            hidden = re.compile(r"(^|/)[._]")
            found = [
                name for name in file_system.find(root) if not hidden.search(name[len(root) :])
            ]
        else:
            found = [root] if file_system.exists(root) else []
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"cannot look for {path}: {error}.") from error
    if not found:
        raise InputError(missing)
    by_format: dict[str, list[str]] = {}
    for name in sorted(found):
        if (kind := _format_of(name)) is not None:
            by_format.setdefault(kind, []).append(name)
    if not by_format:
        raise InputError(
            f"the format of {path} cannot be recognised by its name; the known endings are "
            f"{', '.join(FORMATS)}, and .gz after those of text."
        )
    if len(by_format) > 1:
        raise InputError(
            f"{path} holds files of several formats ({', '.join(sorted(by_format))}); name those "
            "of one format, for instance with a pattern such as 'folder/*.parquet'."
        )
    kind, names = by_format.popitem()
    return Files(path, kind, tuple(names), file_system)


def relation_sql(files: Files, *, keep_broken: bool, types: Mapping[str, str] | None = None) -> str:
    """Return SQL that reads the files; ``keep_broken`` sets broken lines aside and continues.

    ``types`` are those of the columns to read from JSON lines, once they are known.
    """
    addresses = [_MARKS.sub(r"[\g<0>]", path) for path in files.paths]
    if not files.is_local:
        protocol = _protocols(files.file_system)[0]
        addresses = [f"{protocol}://{path.lstrip('/')}" for path in files.paths]
    paths = "[" + ", ".join(map(quoted, addresses)) + "]"
    union = "union_by_name = true" if len(files.paths) > 1 else "union_by_name = false"
    match files.format:
        case "parquet":
            return f"read_parquet({paths}, {union})"
        case "json":
            broken = f"ignore_errors = {str(keep_broken).lower()}"
            # Types are inferred from every line: the first lines may not be representative.
            settled = "sample_size = -1"
            if types is not None:
                listed = (f"{quoted(name)}: {quoted(kind)}" for name, kind in types.items())
                settled = f"columns = {{{', '.join(listed)}}}"
            return f"read_json({paths}, format = 'newline_delimited', {settled}, {broken})"
        case _:
            # Text stays text: "007" is not 7, and the first lines of a file do not decide a type.
            header, delimiter = csv_header(files)
            for position, path in enumerate(files.paths):
                if csv_header(files, position) != (header, delimiter):
                    raise InputError(
                        f"{path} and {files.paths[0]} have different columns, or order them "
                        "differently; give them the same first line."
                    )
            columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in header)
            rejects = ", store_rejects = true, rejects_limit = 0" if keep_broken else ""
            dialect = f"delim = {quoted(delimiter)}, quote = '\"', escape = '\"'"
            return (
                f"read_csv({paths}, auto_detect = false, header = true, {dialect}, "
                f"columns = {{{columns}}}{rejects})"
            )


def named_columns(files: Files) -> Sequence[str]:
    """Return the column names of the first file, repeats kept; none if it cannot be parsed."""
    if files.format == "csv":
        return csv_header(files)[0]
    try:
        with files.opened() as file:
            if files.format == "parquet":
                return list(pyarrow.parquet.read_schema(file).names)
            return [
                name for name, _ in json.loads(file.readline() or b"{}", object_pairs_hook=list)
            ]
    except _UNREADABLE:  # DuckDB will report the error better
        return []


def csv_header(files: Files, position: int = 0) -> tuple[list[str], str]:
    """Return the names in the first line of a text table, and their separator."""
    path = files.paths[position]
    try:
        with files.opened(position) as file:
            line = file.readline(_HEADER_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"cannot read {path}: it is not text in UTF-8 ({error}). Save it as UTF-8, or give it "
            "the ending of its format."
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {error}.") from error
    if not line.strip():
        raise InputError(f"{path} is empty: it lacks even the line of column names.")
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(
            f"the first line of {path} cannot be read as column names: {error}; fix it."
        ) from error
    if len(line) >= _HEADER_BYTES:
        raise InputError(
            f"the first line of {path} is longer than {_HEADER_BYTES:,} bytes; it must hold the "
            "names of the columns."
        )
    return [name.strip() for name in names], delimiter


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def named(column: str) -> str:
    """Return a column's name as an SQL identifier."""
    return '"' + column.replace('"', '""') + '"'


def _protocols(file_system: Any) -> tuple[str, ...]:
    protocol = file_system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _format_of(path: str) -> str | None:
    name = path.lower()
    inner = name.removesuffix(".gz")
    kind = next((kind for ending, kind in FORMATS.items() if inner.endswith(ending)), None)
    return None if kind == "parquet" and inner != name else kind


#: Memory beyond which DuckDB spills to disk. Ours: with it, 20 million events take below 3 GB.
MEMORY_LIMIT = 10**9

# Ours: DuckDB gets at most a third of the free memory, but at least 100 MB
_DUCKDB_SHARE, _DUCKDB_BYTES = 3, 10**8

#: Types that DuckDB infers for JSON text that merely looks like them.
_LOOKS_LIKE = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")

#: A path, an address, or any object that exports Arrow: pyarrow, Polars and pandas tables.
Source = str | os.PathLike[str] | Any


@dataclass(frozen=True, slots=True)
class OpenLog:
    """A log as the view ``raw`` of a connection, with its columns resolved.

    ``n_broken`` counts lines that the parser could not read and set aside in ``reject_errors``.
    ``is_typed`` is False if all columns of the source are text.
    """

    connection: duckdb.DuckDBPyConnection
    name: str
    columns: Columns
    types: dict[str, str]
    n_broken: int = 0
    is_typed: bool = True


@contextmanager
def quiet_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection without a progress bar, and close it."""
    with duckdb.connect() as connection:
        # Jupyter without ipywidgets has no progress bar to turn off
        with suppress(duckdb.InvalidInputException):
            connection.sql("SET enable_progress_bar = false")
        yield connection


@contextmanager
def opened(
    source: Source,
    columns: Columns,
    *,
    query: str | None = None,
    keep_broken: bool = False,
    contexts_only: bool = False,
    name: str | None = None,
) -> Iterator[OpenLog]:
    """Open a log, and close it afterwards; errors of DuckDB become one sentence.

    With ``contexts_only`` only the context columns are required, and all columns are kept.
    """
    with temporary_folder() as spill, quiet_connection() as connection:
        connection.sql(f"SET temp_directory = {quoted(str(spill))}")
        share = max(min(MEMORY_LIMIT, memory.usable_bytes() // _DUCKDB_SHARE), _DUCKDB_BYTES)
        connection.sql(f"SET memory_limit = '{share}B'")
        name = name or _name_of(source)
        try:
            source = _queried(source, query)
            if isinstance(source, str | os.PathLike):
                files = find_files(os.fspath(source))
                yield _open_files(connection, files, columns, keep_broken, contexts_only)
            elif hasattr(source, "__arrow_c_stream__"):
                yield _open_arrow(connection, pa.table(source), columns, name, contexts_only)
            else:
                raise InputError(
                    "a log is a path, a database or a table of pyarrow, Polars or pandas, not "
                    f"{name}."
                )
        except duckdb.Error as error:
            raise InputError(_explained(name, error)) from error
        except (pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error) as error:
            raise InputError(damaged_file(name, str(error) or type(error).__name__)) from error


def _queried(source: Source, query: str | None) -> Source:
    """Return the rows of the query if the source is a database, and other sources unchanged."""
    is_path = isinstance(source, str | os.PathLike)
    if not is_path or not is_database(os.fspath(source)):
        if query is not None:
            raise InputError(
                f"{option('--query')} needs a database address such as sqlite:///shop.db."
            )
        return source
    if query is None:
        raise InputError(f"a database needs a query; give one with {option('--query')}: SELECT …")
    return query_rows(os.fspath(source), query)


def _open_arrow(
    connection: duckdb.DuckDBPyConnection,
    table: pa.Table,
    columns: Columns,
    name: str,
    contexts_only: bool,
) -> OpenLog:
    # pandas exports its index as a column of such a name unless it is a plain range.
    names = [column for column in table.column_names if not column.startswith("__index_level_")]
    found, needed = columns.settled(names, where=name, contexts_only=contexts_only)
    connection.register("raw", table.select(list(needed)))
    return OpenLog(connection, name, found, _types(connection.sql("FROM raw")))


def _open_files(
    connection: duckdb.DuckDBPyConnection,
    files: Files,
    columns: Columns,
    keep_broken: bool,
    contexts_only: bool,
) -> OpenLog:
    if files.format == "json":
        _check_is_log(files)
    if not files.is_local:
        connection.register_filesystem(files.file_system)
    check_repeats(named_columns(files), where=files.name)
    scan = relation_sql(files, keep_broken=keep_broken)
    types = _types(connection.sql(f"FROM {scan}"))
    names = [] if files.format == "json" and list(types) == ["json"] else list(types)
    found, chosen = columns.settled(names, where=files.name, contexts_only=contexts_only)
    if files.format == "json":
        # Text stays text: a value that looks like a date in one file may not do so in the next.
        types |= {name: "VARCHAR" for name in names if types[name] in _LOOKS_LIKE}
        as_written = {name: types[name] for name in chosen}
        scan = relation_sql(files, keep_broken=keep_broken, types=as_written)
    # Parquet is cheap to scan repeatedly, column by column.
    kind = "VIEW" if files.format == "parquet" else "TABLE"
    selected = ", ".join(map(named, chosen))
    connection.sql(f"CREATE TEMP {kind} raw AS SELECT {selected} FROM {scan}")
    n_broken = 0
    if files.format == "csv" and keep_broken:
        lines = connection.sql("SELECT DISTINCT file_id, line FROM reject_errors").fetchall()
        n_broken = len(lines)
    types = _types(connection.sql("FROM raw"))
    return OpenLog(connection, files.name, found, types, n_broken, files.format != "csv")


def _types(relation: duckdb.DuckDBPyRelation) -> dict[str, str]:
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _check_is_log(files: Files) -> None:
    """Reject one of our own JSON documents, such as a policy, given as a log."""
    with files.opened() as file:
        found = re.match(rb'\s*\{\s*"format":\s*"(unswayed-([\w-]+))"', file.read(_FORMAT_BYTES))
    if found is not None:
        kind = found[2].decode()
        raise InputError(
            f"{files.name} is {'an' if kind[0] in 'aeiou' else 'a'} {kind}, not a log; give the "
            "log, with one line for each event."
        )


def _name_of(source: Source) -> str:
    if not isinstance(source, str | os.PathLike):
        return f"the {type(source).__name__}"
    address = os.fspath(source)
    return "the query's result" if is_database(address) else address  # may contain a password


def _explained(name: str, error: duckdb.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text, drop = lines[0].split("Error: ", 1)[-1], option("--on-bad-rows", "drop")
    if text.startswith("CSV Error"):
        found = next((line for line in lines if line.startswith("Expected Number")), "")
        broken = f"{text.removeprefix('CSV Error on ')}. {found}"
        return f"{name} has a broken line ({broken}). Fix it, or leave such lines out with {drop}."
    if "Malformed JSON" in text:
        return f"{name}: {text} Fix it, or leave such lines out with {drop}."
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"{name} does not fit in memory or claims to be larger than it can be: {text}"
    return damaged_file(name, text)


def damaged_file(name: str, reason: str) -> str:
    """Return an error message for an unreadable file."""
    first = reason.strip().partition("\n")[0].rstrip(".")
    return f"cannot read {name}: it is damaged or cut short, or not what its name says ({first})."


_BATCH = 50_000  # Rows fetched at a time

SCHEMES = ("duckdb", "sqlite", "postgresql", "postgres")


def is_database(address: str) -> bool:
    """Whether an address names a database, such as ``sqlite:///shop.db``."""
    return urlsplit(address).scheme in SCHEMES


def query_rows(address: str, query: str) -> pa.Table:
    """Return the rows of one SELECT; raise if they do not fit into memory.

    Addresses are ``duckdb:///file.db`` (``duckdb://`` for none), ``sqlite:///file.db`` or
    ``postgresql://user@host/database``. Files are opened for reading only.
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
            f"there is no database file {path}; an absolute path is written with "
            "four slashes, sqlite:////data/shop.db."
        )
    return path


def _sqlite_rows(path: str, query: str) -> pa.Table:
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    try:
        return _fetched(connection.execute(query))
    finally:
        connection.close()


def _postgresql_rows(address: str, query: str) -> pa.Table:
    try:
        import psycopg
    except ImportError as error:
        raise InputError(
            "reading from PostgreSQL needs psycopg: install unswayed with the extra 'postgresql'."
        ) from error
    try:
        with psycopg.connect(address) as connection:
            connection.read_only = True
            # A named cursor stays on the server, so rows arrive batch by batch.
            with connection.cursor(name="unswayed") as cursor:
                cursor.execute(query.encode())
                return _fetched(cursor)
    except psycopg.Error as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise InputError(f"the query on postgresql failed: {first}") from error


def _fetched(cursor: Any) -> pa.Table:
    """Return the rows of a cursor; each column gets the type of its values."""
    names = [column[0] for column in cursor.description or ()]
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
