"""Rows that cannot be used: why, how many, what to do about them, and setting them aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.errors import InputError, option
from unswayed.events.databases import quiet_connection
from unswayed.events.sources import OpenLog, named, quoted
from unswayed.storage import temporary_folder, whole_file

_QUARANTINE_FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}


@dataclass(frozen=True, slots=True)
class OnBadRows:
    """What to do with rows that cannot be used: refuse the log, drop them, or set them aside."""

    action: str = "error"
    quarantine: Path | None = None

    @classmethod
    def parsed(cls, choice: OnBadRows | str) -> OnBadRows:
        """Return the choice that a text names: ``error``, ``drop`` or ``quarantine=FILE``."""
        if isinstance(choice, OnBadRows):
            return choice
        word, _, path = choice.partition("=")
        if word == "quarantine" and path:
            if Path(path).suffix not in _QUARANTINE_FORMATS:
                raise InputError(
                    f"bad rows cannot be written to {path}; end its name in "
                    f"{', '.join(_QUARANTINE_FORMATS)}."
                )
            return cls("quarantine", Path(path))
        if word in ("error", "drop") and not path:
            return cls(word)
        raise InputError(
            f"{option('--on-bad-rows')} is error, drop or quarantine=FILE, not {choice!r}."
        )

    @property
    def keeps_going(self) -> bool:
        """Whether the rest of the log is used."""
        return self.action != "error"

    @property
    def format(self) -> str:
        """The format of the quarantine file, as DuckDB names it."""
        return _QUARANTINE_FORMATS[self.quarantine.suffix] if self.quarantine else ""

    def refuse(self, reasons: Mapping[str, int], n_rows: int, *, first: int) -> NoReturn:
        """Reject a log with bad rows; ``first`` is the number of the first of them, from 1."""
        listed = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.items())
        raise InputError(
            f"{sum(reasons.values()):,} of {n_rows:,} rows cannot be used ({listed}); the first is "
            f"row {first:,}. Fix them, or use {option('--on-bad-rows', 'drop')} or "
            f"{option('--on-bad-rows', 'quarantine=FILE')}."
        )


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """What a part of a log knows of its bad rows.

    ``first`` is the number of the first of them in the part, from 1. The rows, and the lines that
    no parser reads, are there only if they are to be set aside.
    """

    first: int | None = None
    rows: pa.Table | None = None
    lines: pa.Table | None = None


def left_out(log: OpenLog, choice: OnBadRows) -> LeftOut:
    """Return what is left out of a part that has bad rows."""
    if not choice.keeps_going:
        return LeftOut(first=first_bad_row(log))
    if choice.quarantine is None:
        return LeftOut()
    return LeftOut(
        rows=log.connection.sql(_rows_sql(log)).to_arrow_table(),
        lines=log.connection.sql(_LINES_SQL).to_arrow_table() if log.n_broken else None,
    )


def write_quarantine(log: OpenLog, choice: OnBadRows) -> None:
    """Write the bad rows of a log in their order, then the lines that no parser reads."""
    lines = f"UNION ALL BY NAME ({_LINES_SQL})" if log.n_broken else ""
    _copy(log.connection, f"{_rows_sql(log)} {lines}", choice)


def write_parts(tables: Iterable[pa.Table], choice: OnBadRows) -> None:
    """Write the rows and lines of parts, in the order given; one table at a time is in memory."""
    with temporary_folder() as folder, quiet_connection() as connection:
        paths = []
        for number, table in enumerate(tables):
            paths.append(str(folder / f"{number}.parquet"))
            pq.write_table(table, paths[-1])
        listed = ", ".join(map(quoted, paths))
        _copy(connection, f"FROM read_parquet([{listed}], union_by_name = true)", choice)


def first_bad_row(log: OpenLog) -> int | None:
    """Return the number of the first bad row in the log, from 1, headers not counted."""
    ((number,),) = log.connection.sql(
        """
        SELECT min(number) FROM (SELECT row_number() OVER () AS number, reason FROM log)
        WHERE reason IS NOT NULL
        """
    ).fetchall()
    return None if number is None else int(number)


_LINES_SQL = """
    SELECT any_value(error_message) AS reason, any_value(csv_line) AS line
    FROM reject_errors GROUP BY file_id, line ORDER BY file_id, reject_errors.line
"""


def _rows_sql(log: OpenLog) -> str:
    columns = [name for name in log.connection.sql("FROM log").columns if name != "reason"]
    return f"SELECT reason, {', '.join(map(named, columns))} FROM log WHERE reason IS NOT NULL"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, choice: OnBadRows) -> None:
    assert choice.quarantine is not None
    with whole_file(choice.quarantine) as draft:
        options = f"FORMAT {choice.format}, USE_TMP_FILE false"
        try:
            connection.sql(f"COPY ({query}) TO {quoted(str(draft))} ({options})")
        except duckdb.IOException as error:
            raise OSError(str(error).splitlines()[0]) from error
