"""Files that hold a log: finding them, telling their format, and naming them to DuckDB."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, cast

import duckdb
import fsspec
import pyarrow
import pyarrow.parquet

from unswayed.errors import InputError

#: What a file's name ends in, and what is inside. ".gz" may follow the text formats.
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

#: What damaged files of all formats raise.
_UNREADABLE = (
    *(OSError, ValueError, TypeError, EOFError, RecursionError),
    *(zlib.error, pyarrow.ArrowException),
)

#: Ours: bytes of a line of column names at most.
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format, in the order of their names.

    ``paths`` are what DuckDB is given: local paths, or addresses of a registered file system.
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
        """Open one of the files for reading, unpacked when it is gzipped."""
        path = self.paths[position]
        packed = "gzip" if path.endswith(".gz") else None
        return cast("IO[bytes]", self.file_system.open(path, "rb", compression=packed))


def find_files(path: str) -> Files:
    """Return the files of a path, a folder or a pattern such as ``logs/2026-*.parquet``.

    Any address that fsspec knows will do. A folder is searched with all folders inside it; names
    that begin with "." or "_" are left out, as other programs keep their notes there.
    """
    try:
        file_system, root = fsspec.core.url_to_fs(path)
        missing = f"there is no file {path}; check the path."
        if any(mark in root for mark in "*?["):
            found = file_system.glob(root)
            missing = f"no file matches {path}; check the pattern."
        elif file_system.isdir(root):
            missing = f"the folder {path} holds no files; check the path."
            found = [
                name
                for name in file_system.find(root)
                if not any(part[0] in "._" for part in name[len(root) :].split("/") if part)
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
    """Return SQL that reads the files; ``keep_broken`` sets broken lines aside and goes on.

    ``types`` are those of the columns to read from JSON lines, once they are known.
    """
    paths = "[" + ", ".join(map(quoted, _addresses(files))) + "]"
    union = "union_by_name = true" if len(files.paths) > 1 else "union_by_name = false"
    match files.format:
        case "parquet":
            return f"read_parquet({paths}, {union})"
        case "json":
            broken = f"ignore_errors = {str(keep_broken).lower()}"
            # Types are settled from every line: the first ones may not speak for the rest.
            settled = "sample_size = -1"
            if types is not None:
                listed = (f"{quoted(name)}: {quoted(kind)}" for name, kind in types.items())
                settled = f"columns = {{{', '.join(listed)}}}"
            return f"read_json({paths}, format = 'newline_delimited', {settled}, {broken})"
        case _:
            # Text stays text: "007" is not 7, and a file's first lines do not decide a type.
            header, delimiter = csv_header(files)
            for position, path in enumerate(files.paths):
                if csv_header(files, position) != (header, delimiter):
                    raise InputError(
                        f"{path} and {files.paths[0]} have different columns, or order them "
                        "differently; give them the same first line."
                    )
            columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in header)
            rejects = ", store_rejects = true, rejects_limit = 0" if keep_broken else ""
            return (
                f"read_csv({paths}, auto_detect = false, header = true, delim = "
                f"{quoted(delimiter)}, quote = '\"', escape = '\"', "
                f"columns = {{{columns}}}{rejects})"
            )


def named_columns(files: Files) -> Sequence[str]:
    """Return the column names as the first file writes them, repeats kept; none if it is odd."""
    try:
        match files.format:
            case "parquet":
                with files.opened() as file:
                    return list(pyarrow.parquet.read_schema(file).names)
            case "json":
                with files.opened() as file:
                    first: list[tuple[str, object]] = json.loads(
                        file.readline() or b"{}", object_pairs_hook=list
                    )
                return [name for name, _ in first]
            case _:
                return csv_header(files)[0]
    except _UNREADABLE:  # DuckDB says better what is wrong
        return []


def csv_header(files: Files, position: int = 0) -> tuple[list[str], str]:
    """Return the names in the first line of a text table, and what separates them."""
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


def register(connection: duckdb.DuckDBPyConnection, files: Files) -> None:
    """Let DuckDB open files that are not on local disks."""
    if not files.is_local:
        connection.register_filesystem(files.file_system)


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def named(column: str) -> str:
    """Return a column's name as an SQL identifier."""
    return '"' + column.replace('"', '""') + '"'


def _addresses(files: Files) -> list[str]:
    if files.is_local:
        return list(files.paths)
    return [f"{_protocols(files.file_system)[0]}://{path.lstrip('/')}" for path in files.paths]


def _protocols(file_system: Any) -> tuple[str, ...]:
    protocol = file_system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _format_of(path: str) -> str | None:
    name = path.lower()
    inner = name.removesuffix(".gz")
    kind = next((kind for ending, kind in FORMATS.items() if inner.endswith(ending)), None)
    return None if kind == "parquet" and inner != name else kind
