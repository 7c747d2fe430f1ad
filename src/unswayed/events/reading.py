"""From a log to events: labels become codes, rows that cannot be used are counted and named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events.attributes import AttributeColumn, AttributeReader, attribute_sql
from unswayed.events.column_sql import (
    context_sql,
    label_sql,
    number_sql,
    robust_edges,
    seconds_sql,
)
from unswayed.events.columns import Columns
from unswayed.events.databases import quiet_connection
from unswayed.events.events import LARGEST_REWARD, Events
from unswayed.events.hashing import labels_of_column, ordered_users
from unswayed.events.labels import Label, Labels
from unswayed.events.sources import OpenLog, Source, named, opened, quoted
from unswayed.events.thinning import latest_possible
from unswayed.memory import CELL_BYTES, CONTEXT_BYTES, ROW_BYTES, USER_BYTES, MemoryBudget
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
    """The bad rows of one part of a log.

    ``first`` is the number of the first of them in the part, from 1. The rows, and the lines that
    no parser reads, are there only if they are to be set aside.
    """

    first: int | None = None
    rows: pa.Table | None = None
    lines: pa.Table | None = None


def left_out(log: OpenLog, choice: OnBadRows) -> LeftOut:
    """Collect the bad rows of a part."""
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


#: Ours: rows that come from DuckDB at a time; the known users are hashed again for each batch.
_BATCH = 1 << 20

#: Ours: estimated bytes per attribute of an event, encoded and as the linear model reads it.
_ATTRIBUTE_BYTES = 40


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source, size and columns of a log that was read.

    ``bad_rows`` counts the rows that were left out by reason; ``bins`` holds the inner edges of the
    binned columns.
    """

    source: str
    n_rows: int
    columns: Columns
    bad_rows: dict[str, int] = field(default_factory=dict)
    bins: dict[str, tuple[float, ...]] = field(default_factory=dict)
    first_time: str | None = None
    last_time: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "source": self.source,
            "rows": self.n_rows,
            "columns": self.columns.to_json(),
            "bad_rows": self.bad_rows,
            "bins": {column: list(edges) for column, edges in self.bins.items()},
            "first_time": self.first_time,
            "last_time": self.last_time,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Provenance:
        """Return what ``to_json`` wrote."""
        try:
            names = dict(value["columns"])
            return cls(
                str(value["source"]),
                int(value["rows"]),
                Columns(**{**names, "context": tuple(names["context"])}),
                dict(value["bad_rows"]),
                {column: tuple(edges) for column, edges in value["bins"].items()},
                value["first_time"],
                value["last_time"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"what is written of a log is damaged: {error}.") from error


@dataclass(frozen=True, slots=True)
class Reading:
    """Events, and what they were read from; of a part of a log also what was left out.

    ``times`` are seconds, one for each event and NaN where there is none, if they were asked for
    and the log has them. ``attributes`` holds the columns named as features, one value per event.
    """

    events: Events
    provenance: Provenance
    left_out: LeftOut | None = None
    times: FloatArray | None = None
    attributes: Mapping[str, AttributeColumn] = field(default_factory=dict)


def read_events(
    source: Source,
    *,
    columns: Columns | None = None,
    query: str | None = None,
    on_bad_rows: OnBadRows | str = "error",
    bins: dict[str, tuple[float, ...]] | None = None,
    name: str | None = None,
    is_part: bool = False,
    memory: int | None = None,
    with_times: bool = False,
    is_dated: bool = False,
) -> Reading:
    """Read a log.

    Parameters
    ----------
    source
        A path, folder or pattern of Parquet, CSV, TSV or JSON-lines files; a database address; or
        a table of pyarrow, Polars or pandas.
    columns
        Where to find user, context, action and reward; columns of those names by default.
    query
        What to read from a database.
    on_bad_rows
        What to do with rows that lack a user, context or action, or a finite reward: "error",
        "drop" or "quarantine=FILE".
    bins
        Inner edges of binned context columns that are fixed already, for instance by the log of
        another day.
    name
        What to call the source in reports and errors.
    is_part
        Whether this is one part of a larger log. Then bad rows are reported, not rejected
        or written, and there may be no others.
    memory
        Bytes that learning from the log may take; by default three quarters of what is free. A log
        that needs more is refused before its arrays are made.
    with_times
        Whether to return the times of the events, too.
    is_dated
        Whether events must have a time, which they then carry. Rows without one, and with one in
        the future, cannot be used.

    Notes
    -----
    Contexts and actions are coded in the order of their labels, users in the order of a hash of
    theirs. So codes depend on the set of labels alone, and not on the order of the rows, the number
    of threads or the way a log is cut into files.

    Examples
    --------
    >>> import pyarrow
    >>> log = pyarrow.table(
    ...     {"user": ["u", "v"], "context": [7, 7], "action": [True, False], "reward": [1, 0]}
    ... )
    >>> events = read_events(log).events
    >>> list(events.context_labels), list(events.action_labels), len(events)
    ([7], [False, True], 2)
    """
    choice = OnBadRows.parsed(on_bad_rows)
    budget = MemoryBudget.of(memory)
    with opened(
        source,
        columns or Columns(),
        query=query,
        keep_broken=choice.keeps_going,
        name=name,
        memory=budget,
    ) as log:
        edges = _settled_edges(log, bins or {})
        if is_dated and log.columns.time is None:
            raise InputError(
                f"{option('--half-life')} needs the time of every event, and {log.name} has no "
                f"column 'time'; name it with {option('--time-column', python='Columns.time')}."
            )
        has_times = (with_times or is_dated) and log.columns.time is not None
        _create_view(log, edges, may_be_words=is_part, has_times=has_times, is_dated=is_dated)
        reading = _scan(log, budget, edges, has_times=has_times)
        reasons = reading.provenance.bad_rows
        if is_part:
            return replace(reading, left_out=left_out(log, choice) if reasons else None)
        first_bad = first_bad_row(log) if reasons and not choice.keeps_going else None
        check_usable(reading.provenance, choice, first_bad=first_bad)
        if choice.quarantine is not None and reasons:
            write_quarantine(log, choice)
        if is_dated:
            return replace(reading, events=replace(reading.events, times=reading.times))
        return reading


def check_usable(provenance: Provenance, choice: OnBadRows, *, first_bad: int | None) -> None:
    """Reject a log without usable rows, or with bad ones that were not allowed.

    ``first_bad`` is the number of the first bad row, from 1.
    """
    reasons, n_rows = provenance.bad_rows, provenance.n_rows
    if n_rows == 0:
        raise InputError(f"{provenance.source} has no rows; nothing can be learned from it.")
    if reasons and not choice.keeps_going:
        choice.refuse(reasons, n_rows, first=first_bad or 1)
    if sum(reasons.values()) == n_rows:
        raise InputError(
            f"none of the {n_rows:,} rows of {provenance.source} can be used: {reasons}."
        )


def _settled_edges(
    log: OpenLog, given: dict[str, tuple[float, ...]]
) -> dict[str, tuple[float, ...]]:
    return {
        column: given[column] if column in given else robust_edges(log, column, n_bins)
        for column, n_bins in log.columns.bins.items()
    }


def _create_view(
    log: OpenLog,
    edges: dict[str, tuple[float, ...]],
    *,
    may_be_words: bool,
    has_times: bool,
    is_dated: bool,
) -> None:
    """Create the view ``log`` (user, context, action, reward, propensity, moment, reason).

    Its rows without a reason are the view ``good``, by conditions that DuckDB can push down.
    """
    columns = log.columns
    attributes = "".join(
        f", {attribute_sql(log.types, name)} AS {attribute}"
        for name, attribute in zip(columns.features, _attribute_names(columns), strict=True)
    )
    context = context_sql(log.types, columns.context, edges)
    reward = number_sql(log, columns.reward, "reward", may_be_words=may_be_words)
    checks = {
        "user is missing": '"user" IS NULL',
        "context is missing": "context IS NULL",
        "action is missing": '"action" IS NULL',
        "reward is missing or not a number": "reward IS NULL",
        "reward is not finite": "NOT isfinite(reward)",
        f"reward is beyond ±{LARGEST_REWARD:g}": f"abs(reward) > {LARGEST_REWARD!r}",
    }
    propensity = "1.0"
    if columns.propensity is not None:
        propensity = number_sql(log, columns.propensity, "propensity", may_be_words=may_be_words)
        checks["propensity is not in (0, 1]"] = (
            "propensity IS NULL OR NOT (propensity > 0 AND propensity <= 1)"
        )
    moment = seconds_sql(log, columns.time) if has_times and columns.time else "0.0"
    if is_dated:
        checks["time is missing or not a time"] = "NOT isfinite(moment)"
        checks["time is in the future"] = f"moment > {latest_possible()!r}"
    cases = " ".join(f"WHEN {test} THEN {quoted(reason)}" for reason, test in checks.items())
    log.connection.sql(
        f"""
        CREATE TEMP VIEW log AS SELECT *, CASE {cases} END AS reason FROM (
            SELECT * RENAME (u AS "user", a AS "action") FROM (
                SELECT {label_sql(log.types, columns.user, "user")} AS u, {context} AS context,
                    {label_sql(log.types, columns.action, "action")} AS a, {reward} AS reward,
                    {propensity} AS propensity, {moment} AS moment{attributes}
                FROM raw
            )
        )
        """
    )
    tests = " AND ".join(f"NOT ({test})" for test in checks.values())
    log.connection.sql(f"CREATE TEMP VIEW good AS SELECT * EXCLUDE reason FROM log WHERE {tests}")


def _attribute_names(columns: Columns) -> list[str]:
    """Return what the features are called in the view, where their own names may be taken."""
    return [f"attribute_{place}" for place in range(len(columns.features))]


def _time_range(log: OpenLog) -> tuple[str | None, str | None]:
    if log.columns.time is None:
        return None, None
    time = named(log.columns.time)
    (found,) = log.connection.sql(
        f"SELECT min({time})::VARCHAR, max({time})::VARCHAR FROM raw"
    ).fetchall()
    return found[0], found[1]


def _scan(
    log: OpenLog, budget: MemoryBudget, edges: dict[str, tuple[float, ...]], *, has_times: bool
) -> Reading:
    """Read the rows: usable ones become codes and numbers, the others are counted by reason."""
    log.connection.sql(
        "CREATE TEMP TABLE grouped AS SELECT context, count(*) AS n FROM log GROUP BY context"
    )
    ((n_rows,),) = log.connection.sql("SELECT coalesce(sum(n), 0)::BIGINT FROM grouped").fetchall()
    n_contexts = _create_code_table(log, "context", "grouped")
    n_actions = _create_code_table(log, "action", "log")
    needed = n_rows * (ROW_BYTES + _ATTRIBUTE_BYTES * len(log.columns.features)) + n_contexts * (
        CONTEXT_BYTES + n_actions * CELL_BYTES
    )
    size = f"{log.name} with {n_rows:,} rows, {n_contexts:,} contexts and {n_actions:,} actions"
    budget.check(needed, size)
    labels = {name: _coded_labels(log, name) for name in ("context", "action")}
    # The rows were counted by reading them, so a header that lies about them allocates nothing.
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.empty(n_rows, _narrowest(len(known))) for name, known in labels.items()
    }
    columns["reward"] = np.empty(n_rows)
    if log.columns.propensity is not None:
        columns["propensity"] = np.empty(n_rows)
    if has_times:
        columns["moment"] = np.empty(n_rows)
    numbers = [name for name in columns if name not in labels]
    attributes, collected = _attribute_names(log.columns), AttributeReader()
    selected = ", ".join([*(f'{name}_code AS "{name}"' for name in labels), *numbers, *attributes])
    batches = log.connection.sql(
        f"""
        SELECT "user", {selected} FROM good
        JOIN context_codes USING (context) JOIN action_codes USING ("action")
        """
    ).to_arrow_reader(_BATCH)
    # There are many users: encoding them here costs less than a pass that finds them and a join.
    # DuckDB reads the next rows meanwhile.
    known, users = None, np.empty(n_rows, np.int32)
    n_good = 0
    for batch in batches:
        rows = slice(n_good, n_good + len(batch))
        known, users[rows] = _encoded(known, batch.column("user"))
        for name, array in columns.items():
            array[rows] = np.from_dlpack(batch.column(name))  # to_numpy would import pandas
        if attributes:
            collected.add([batch.column(name) for name in attributes])
        n_good += len(batch)
        budget.check(needed + len(known) * USER_BYTES, f"{size}, and so many users,")
    user_labels, places = ordered_users(known)
    for first in range(0, n_good, _BATCH):  # in place, without a copy of all
        rows = slice(first, min(first + _BATCH, n_good))
        users[rows] = places[users[rows]]
    columns = {
        name: array[:n_good].copy() if n_good < n_rows else array
        for name, array in ({"user": users} | columns).items()
    }
    events = Events(
        columns["user"],
        columns["context"],
        columns["action"],
        columns["reward"],
        user_labels,
        labels["context"],
        labels["action"],
        columns.get("propensity"),
    )
    bad_rows = {}
    if n_good < n_rows:  # some labels may occur in bad rows only
        events, bad_rows = events.with_used_labels(), _bad_rows(log)
    if log.n_broken:
        bad_rows["line is broken"] = log.n_broken
    n_rows = n_good + sum(bad_rows.values())
    bad_rows = dict(sorted(bad_rows.items()))
    return Reading(
        events,
        Provenance(log.name, n_rows, log.columns, bad_rows, edges, *_time_range(log)),
        times=columns.get("moment"),
        attributes=collected.columns(log.columns.features) if n_good else {},
    )


def _encoded(known: pa.Array | None, column: pa.Array) -> tuple[pa.Array, npt.NDArray[Any]]:
    """Return the distinct values of a column after those known, and the code of each row."""
    found = column.dictionary_encode()
    if known is None:
        return found.dictionary, np.from_dlpack(found.indices)
    both = pa.chunked_array([known, found.dictionary]).dictionary_encode().chunk(1)
    return both.dictionary, np.from_dlpack(both.indices)[np.from_dlpack(found.indices)]


def _bad_rows(log: OpenLog) -> dict[str, int]:
    """Count the bad rows by reason."""
    return dict(
        log.connection.sql(
            "SELECT reason, count(*) FROM log WHERE reason IS NOT NULL GROUP BY reason"
        ).fetchall()
    )


def _create_code_table(log: OpenLog, column: str, table: str) -> int:
    """Create the table of a column's labels and codes, and return how many there are."""
    log.connection.sql(
        f"""
        CREATE TEMP TABLE {column}_codes AS
        SELECT "{column}", (row_number() OVER (ORDER BY "{column}") - 1)::INTEGER AS {column}_code
        FROM (SELECT DISTINCT "{column}" FROM {table} WHERE "{column}" IS NOT NULL)
        """
    )
    ((n_labels,),) = log.connection.sql(f"SELECT count(*) FROM {column}_codes").fetchall()
    return int(n_labels)


def _coded_labels(log: OpenLog, column: str) -> Labels:
    """Return the labels of a column in the order of their codes."""
    relation = log.connection.sql(f'SELECT "{column}" FROM {column}_codes ORDER BY {column}_code')
    return labels_of_column(relation.to_arrow_table()[0])


def _narrowest(n_labels: int) -> npt.DTypeLike:
    """Convert codes to the narrowest integer type that holds them."""
    return next(kind for kind in (np.int8, np.int16, np.int32) if n_labels <= np.iinfo(kind).max)


#: Ours: estimated bytes per value of a row that is written back.
_VALUE_BYTES = 30


@dataclass(frozen=True, slots=True)
class ContextRows:
    """All columns of some rows, and the context of each; None where a part is missing.

    ``attributes`` holds features instead, if they were asked for.
    """

    rows: pa.Table
    contexts: list[Label | None]
    attributes: Mapping[str, AttributeColumn] = field(default_factory=dict)


def read_contexts(
    source: Source,
    *,
    columns: Sequence[str],
    bins: Mapping[str, tuple[float, ...]] | None = None,
    numbers: Mapping[str, bool] | None = None,
    memory: int | None = None,
) -> ContextRows:
    """Return the rows of a file or table with their contexts, in the order of the file.

    With ``numbers`` the columns are features, and it says which of them are numbers. ``memory`` is
    how many bytes they may take; by default three quarters of what is free.
    """
    wanted = Columns(context=tuple(columns))
    budget = MemoryBudget.of(memory)
    with opened(source, wanted, contexts_only=True, memory=budget) as log:
        ((n_rows,),) = log.connection.sql("SELECT count(*) FROM raw").fetchall()
        n_bytes = n_rows * (ROW_BYTES + _VALUE_BYTES * len(log.types))
        budget.check(n_bytes, f"{log.name} with {n_rows:,} rows")
        if numbers is not None:
            selected = [attribute_sql(log.types, name, is_number=numbers[name]) for name in columns]
            names = [f"attribute_{place}" for place in range(len(columns))]
            listed = ", ".join(
                f"{sql} AS {name}" for sql, name in zip(selected, names, strict=True)
            )
            reader = AttributeReader()
            for batch in log.connection.sql(f"SELECT {listed} FROM raw").to_arrow_reader():
                reader.add(batch.columns)
            rows = log.connection.sql("FROM raw").to_arrow_table()
            return ContextRows(rows, [], reader.columns(columns))
        edges = {column: edges for column, edges in (bins or {}).items() if column in columns}
        context = context_sql(log.types, columns, edges)
        found = log.connection.sql(f"SELECT {context} AS context FROM raw").to_arrow_table()
        rows = log.connection.sql("FROM raw").to_arrow_table()
    return ContextRows(rows, found["context"].to_pylist())
