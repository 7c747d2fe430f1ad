"""From a log to events: labels become codes, unusable rows are counted and reported."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed import memory
from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events.attributes import UNKNOWN_VALUE, AttributeColumn, Categories
from unswayed.events.columns import ONE_CONTEXT, SEPARATOR, Columns, bin_labels, check_bad_rows
from unswayed.events.events import LARGEST_REWARD, Events
from unswayed.events.hashing import labels_of_column, ordered_users
from unswayed.events.labels import Label, Labels
from unswayed.events.sources import OpenLog, Source, named, opened, quoted
from unswayed.events.thinning import TOLERANCE
from unswayed.memory import CELL_BYTES, CONTEXT_BYTES, ROW_BYTES, USER_BYTES, check_fits

_BATCH = 1 << 20  # Ours: rows per batch; each batch encodes all users known so far again
_ATTRIBUTE_BYTES = 40  # Ours: estimated bytes of an event, encoded and in the linear model


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source, size and columns of a log that was read.

    ``bad_rows`` counts the rows that were left out by reason; ``first_bad`` is the number of the
    first one, counted from 1, if bad rows are to be rejected.
    """

    source: str
    n_rows: int
    columns: Columns
    bad_rows: dict[str, int] = field(default_factory=dict)
    first_time: str | None = None
    last_time: str | None = None
    first_bad: int | None = None

    @classmethod
    def joined(cls, source: str, parts: Sequence[Provenance]) -> Provenance:
        """Return the provenance of a log from that of its parts, in their order."""
        bad_rows: Counter[str] = Counter()
        for part in parts:
            bad_rows.update(part.bad_rows)
        starts = itertools.accumulate((part.n_rows for part in parts), initial=0)
        bad = [
            start + part.first_bad
            for start, part in zip(starts, parts, strict=False)
            if part.first_bad is not None
        ]
        firsts = [part.first_time for part in parts if part.first_time is not None]
        lasts = [part.last_time for part in parts if part.last_time is not None]
        return replace(
            parts[0],
            source=source,
            n_rows=sum(part.n_rows for part in parts),
            bad_rows=dict(sorted(bad_rows.items())),
            first_time=min(firsts, default=None),
            last_time=max(lasts, default=None),
            first_bad=min(bad, default=None),
        )

    @property
    def bins(self) -> dict[str, tuple[float, ...]]:
        """The inner edges of the binned columns."""
        return self.columns.edges

    @property
    def n_events(self) -> int:
        """Number of rows that were not left out."""
        return self.n_rows - sum(self.bad_rows.values())

    def check_usable(self) -> None:
        """Reject a log without usable rows, or with bad rows if these must be rejected."""
        if self.n_rows == 0:
            raise InputError(f"{self.source} has no rows; nothing can be learned from it.")
        if self.first_bad is not None:
            listed = "; ".join(f"{count:,}: {reason}" for reason, count in self.bad_rows.items())
            raise InputError(
                f"{self.n_rows - self.n_events:,} of {self.n_rows:,} rows cannot be used "
                f"({listed}); the first is row {self.first_bad:,}. Fix them, or use "
                f"{option('--on-bad-rows', 'drop')}."
            )
        if not self.n_events:
            raise InputError(
                f"none of the {self.n_rows:,} rows of {self.source} can be used: {self.bad_rows}."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the provenance as plain JSON values."""
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
        """Return the provenance that ``to_json`` wrote."""
        try:
            return cls(
                str(value["source"]),
                int(value["rows"]),
                Columns(**value["columns"], bins=value.get("bins", {})),
                dict(value["bad_rows"]),
                value["first_time"],
                value["last_time"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"the record of a log is damaged: {error}.") from error


@dataclass(frozen=True, slots=True)
class Reading:
    """Events, and the log that they were read from.

    ``times`` are seconds, one per event and NaN where missing, if they were requested and the log
    has them. ``attributes`` holds the columns named as features, one value per event.
    """

    events: Events
    provenance: Provenance
    times: FloatArray | None = None
    attributes: Mapping[str, AttributeColumn] = field(default_factory=dict)

    def placed(self, place: Place) -> Reading:
        """Return the events with contexts from ``place``; events that it drops are bad rows."""
        events, bad_rows = place(self.events, self.attributes), self.provenance.bad_rows
        if n_left_out := len(self.events) - len(events):
            bad_rows = dict(sorted((bad_rows | {UNKNOWN_VALUE: n_left_out}).items()))
        return replace(self, events=events, provenance=replace(self.provenance, bad_rows=bad_rows))


#: A function that assigns events to leaves by their attributes; the leaves become the contexts.
Place = Callable[[Events, Mapping[str, AttributeColumn]], Events]


def read_events(
    source: Source,
    *,
    columns: Columns | None = None,
    query: str | None = None,
    on_bad_rows: str = "error",
    name: str | None = None,
    is_part: bool = False,
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
        What to do with rows that lack a user, context or action, or a finite reward: "error" or
        "drop".
    name
        What to call the source in reports and errors.
    is_part
        Whether this is one part of a larger log. Then bad rows are reported, not rejected, and
        there may be no others.
    with_times
        Whether to return the times of the events, too.
    is_dated
        Whether events must have a time, which they then carry. Rows without one, and with one in
        the future, cannot be used.

    Notes ----- Contexts and actions are coded in the order of their labels, users in the order of a
    hash of their labels. So codes depend on the set of labels alone, and not on the order of the
    rows or the way a log is cut into files. A log that needs more than three quarters of the free
    memory is rejected before its arrays are made.

    Examples
    --------
    >>> log = pa.table(
    ...     {"user": ["u", "v"], "context": [7, 7], "action": [True, False], "reward": [1, 0]}
    ... )
    >>> events = read_events(log).events
    >>> list(events.context_labels), list(events.action_labels), len(events)
    ([7], [False, True], 2)
    """
    check_bad_rows(on_bad_rows)
    is_dropped = on_bad_rows == "drop"
    columns = columns or Columns()
    with opened(source, columns, query=query, keep_broken=is_dropped, name=name) as log:
        log = replace(log, columns=replace(log.columns, bins=_edges(log)))
        if is_dated and log.columns.time is None:
            raise InputError(
                f"{option('--half-life')} needs the time of every event, and {log.name} has no "
                f"column 'time'; name it with {option('--time-column', python='Columns.time')}."
            )
        has_times = (with_times or is_dated) and log.columns.time is not None
        _create_view(log, may_be_words=is_part, has_times=has_times, is_dated=is_dated)
        reading = _scan(log, has_times=has_times, is_dropped=is_dropped)
        if not is_part:
            reading.provenance.check_usable()
        if is_dated:
            return replace(reading, events=replace(reading.events, times=reading.times))
        return reading


def _edges(log: OpenLog) -> dict[str, tuple[float, ...]]:
    """Return the inner edges of the bins of each binned column."""
    return {
        column: robust_edges(log, column, bins) if isinstance(bins, int) else bins
        for column, bins in log.columns.bins.items()
    }


def read_edges(source: Source, columns: Columns, *, keep_broken: bool) -> Columns:
    """Return the columns with the edges of their bins, for logs that are read in parts."""
    if not columns.bins:
        return columns
    with opened(source, columns, keep_broken=keep_broken) as log:
        return replace(columns, bins=_edges(log))


def _create_view(log: OpenLog, *, may_be_words: bool, has_times: bool, is_dated: bool) -> None:
    """Create the view ``log`` (user, context, action, reward, propensity, moment, reason).

    Its rows without a reason are the view ``good``, by conditions that DuckDB can push down.
    """
    columns = log.columns
    attributes = "".join(
        f", {attribute_sql(log.types, name)} AS {attribute}"
        for name, attribute in zip(columns.features, _attribute_names(columns), strict=True)
    )
    context = context_sql(log.types, columns.context, columns.edges)
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
        checks["time is in the future"] = f"moment > {time.time() + TOLERANCE!r}"
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
    """Return names for the feature columns of the view, where their own names may be in use."""
    return [f"attribute_{place}" for place in range(len(columns.features))]


def _scan(log: OpenLog, *, has_times: bool, is_dropped: bool) -> Reading:
    """Read the rows: encode usable ones as codes and numbers, and count the others by reason."""
    contexts, actions = _labels(log, "context"), _labels(log, "action")
    # A file whose header has a wrong row count has been rejected by now, so allocations are safe.
    ((n_rows,),) = log.connection.sql("SELECT count(*) FROM raw").fetchall()
    needed = n_rows * (ROW_BYTES + _ATTRIBUTE_BYTES * len(log.columns.features)) + len(contexts) * (
        CONTEXT_BYTES + len(actions) * CELL_BYTES
    )
    size = (
        f"{log.name} with {n_rows:,} rows, {len(contexts):,} contexts and {len(actions):,} actions"
    )
    usable = memory.usable_bytes()
    check_fits(needed, usable, size)
    types: dict[str, Any] = {  # the narrowest integers for the codes
        "context_code": np.min_scalar_type(-len(contexts) - 1),
        "action_code": np.min_scalar_type(-len(actions) - 1),
        "reward": np.float64,
    }
    types |= {"propensity": np.float64} if log.columns.propensity is not None else {}
    types |= {"moment": np.float64} if has_times else {}
    pieces: dict[str, list[Any]] = {name: [np.empty(0, kind)] for name, kind in types.items()}
    texts: dict[str, list[pa.Array]] = {name: [] for name in _attribute_names(log.columns)}
    batches = log.connection.sql(
        f"""
        SELECT "user", {", ".join((*pieces, *texts))} FROM good
        JOIN context_codes USING (context) JOIN action_codes USING ("action")
        """
    ).to_arrow_reader(_BATCH)
    # With many users, encoding them here is cheaper than a second pass and a join.
    # DuckDB reads the next rows meanwhile.
    known, user_codes = None, [np.empty(0, np.int32)]
    for batch in batches:
        known, codes = _encoded(known, batch.column("user"))
        user_codes.append(codes)
        for name, found in pieces.items():  # to_numpy would import pandas
            found.append(np.array(np.from_dlpack(batch.column(name)), types[name]))
        for name, collected in texts.items():
            collected.append(_with_codes(batch.column(name)))
        check_fits(needed + len(known) * USER_BYTES, usable, f"{size}, and so many users,")
    user_labels, places = ordered_users(known)
    columns = {name: np.concatenate(pieces.pop(name)) for name in types}
    events = Events(
        places[np.concatenate(user_codes)],
        columns["context_code"],
        columns["action_code"],
        columns["reward"],
        user_labels,
        contexts,
        actions,
        columns.get("propensity"),
    )
    n_good = len(events)
    bad_rows: dict[str, int] = {}
    firsts: tuple[int, ...] = ()
    if n_good < n_rows:  # some labels may occur only in bad rows
        events = events.with_used_labels()
        number = "0" if is_dropped else "row_number() OVER ()"
        reasons = log.connection.sql(
            f"""
            SELECT reason, count(*), min(number) FROM (SELECT reason, {number} AS number FROM log)
            WHERE reason IS NOT NULL GROUP BY reason
            """
        )
        names, counts, firsts = zip(*reasons.fetchall(), strict=True)
        bad_rows = dict(zip(names, counts, strict=True))
    if log.n_broken:
        bad_rows["line is broken"] = log.n_broken
    first_bad = None if is_dropped else min(firsts, default=None)
    n_rows = n_good + sum(bad_rows.values())
    bad_rows = dict(sorted(bad_rows.items()))
    first_time = last_time = None
    if log.columns.time is not None:
        moment = named(log.columns.time)
        query = f"SELECT min({moment})::VARCHAR, max({moment})::VARCHAR FROM raw"
        ((first_time, last_time),) = log.connection.sql(query).fetchall()
    return Reading(
        events,
        Provenance(log.name, n_rows, log.columns, bad_rows, first_time, last_time, first_bad),
        times=columns.get("moment"),
        attributes={
            name: _attribute(pa.chunked_array(collected), is_typed=log.is_typed)
            for name, collected in zip(log.columns.features, texts.values(), strict=True)
            if n_good
        },
    )


def _with_codes(column: Any) -> Any:
    """Dictionary-encode a column of strings; return other columns unchanged."""
    return column.dictionary_encode() if pa.types.is_string(column.type) else column


def _attribute(column: pa.ChunkedArray, *, is_typed: bool = True) -> AttributeColumn:
    """Convert a column of numbers or encoded texts to NumPy."""
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    if pa.types.is_dictionary(whole.type):
        # Levels are sorted by text, so that the order of rows does not matter.
        texts = np.array(whole.dictionary.to_pylist(), dtype=np.object_)
        order = np.argsort(texts)
        places = np.empty(len(order) + 1, np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        places[-1] = -1
        codes = np.asarray(np.from_dlpack(whole.indices.cast(pa.int32()).fill_null(-1)))
        return Categories(places[codes], tuple(texts[order].tolist()), not is_typed)
    return np.array(np.from_dlpack(whole.fill_null(np.nan)), dtype=np.float64)


def _encoded(known: pa.Array | None, column: pa.Array) -> tuple[pa.Array, npt.NDArray[Any]]:
    """Return the known values with new ones of a column appended, and the code of each row."""
    found = column.dictionary_encode()
    if known is None:
        return found.dictionary, np.from_dlpack(found.indices)
    both = pa.chunked_array([known, found.dictionary]).dictionary_encode().chunk(1)
    return both.dictionary, np.from_dlpack(both.indices)[np.from_dlpack(found.indices)]


def _labels(log: OpenLog, column: str) -> Labels:
    """Return the labels of a column, and create the table of their codes."""
    log.connection.sql(
        f"""
        CREATE TEMP TABLE {column}_codes AS
        SELECT "{column}", (row_number() OVER (ORDER BY "{column}") - 1)::INTEGER AS {column}_code
        FROM (SELECT DISTINCT "{column}" FROM log WHERE "{column}" IS NOT NULL)
        """
    )
    known = log.connection.sql(f'SELECT "{column}" FROM {column}_codes ORDER BY {column}_code')
    return labels_of_column(known.to_arrow_table()[0])


_VALUE_BYTES = 30  # Ours: estimated bytes per value of a row that is written back


def read_contexts(
    source: Source, *, columns: Sequence[str], bins: Mapping[str, Sequence[float]]
) -> tuple[pa.Table, list[Label | None]]:
    """Return the rows of a file or table, and their contexts, which are None if a part is missing.

    ``bins`` are the inner edges of binned columns.
    """
    with opened(source, Columns(context=tuple(columns)), contexts_only=True) as log:
        rows = _whole_rows(log)
        edges = {column: edges for column, edges in bins.items() if column in columns}
        context = context_sql(log.types, columns, edges)
        contexts = log.connection.sql(f"SELECT {context} AS context FROM raw").to_arrow_table()
    return rows, contexts["context"].to_pylist()


def read_attributes(
    source: Source, *, are_numbers: Mapping[str, bool]
) -> tuple[pa.Table, dict[str, AttributeColumn]]:
    """Return the rows of a file or table, and some of their columns as numbers or categories."""
    with opened(source, Columns(features=tuple(are_numbers)), contexts_only=True) as log:
        rows = _whole_rows(log)
        _check_numbers(log, [name for name, is_number in are_numbers.items() if is_number])
        listed = ", ".join(
            f"{attribute_sql(log.types, name, is_number=is_number)} AS {named(name)}"
            for name, is_number in are_numbers.items()
        )
        found = log.connection.sql(f"SELECT {listed} FROM raw").to_arrow_table()
    return rows, {name: _attribute(_with_codes(found[name])) for name in are_numbers}


def _whole_rows(log: OpenLog) -> pa.Table:
    """Return all columns of all rows; raise if they do not fit into memory."""
    ((n_rows,),) = log.connection.sql("SELECT count(*) FROM raw").fetchall()
    n_bytes = n_rows * (ROW_BYTES + _VALUE_BYTES * len(log.types))
    check_fits(n_bytes, memory.usable_bytes(), f"{log.name} with {n_rows:,} rows")
    return log.connection.sql("FROM raw").to_arrow_table()


def _check_numbers(log: OpenLog, columns: Sequence[str]) -> None:
    """Raise if a feature that must be numeric has other values."""
    for column in columns:
        text = f"{named(column)}::VARCHAR"
        wrong = log.connection.sql(
            f"SELECT {text} FROM raw WHERE {text} <> '' AND try_cast({text} AS DOUBLE) IS NULL "
            "LIMIT 1"
        ).fetchall()
        if wrong:
            raise InputError(
                f"{log.name}: feature {column!r} is {wrong[0][0]!r} in a row, and the policy was "
                "learned from numbers; correct it, or leave it empty where it is missing."
            )


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_LARGE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
_FLOATS = ("FLOAT", "DOUBLE", "DECIMAL")

#: Ours: each user votes with this many quantiles of their own values, enough for a hundred bins of
#: a log with few users; a thousand users take an eighth of a megabyte.
VOTES_PER_USER = 16


def label_sql(types: Mapping[str, str], column: str, role: str) -> str:
    """Return SQL for a column as labels: integers, numbers, booleans, or text for the rest."""
    kind, name = types[column], named(column)
    is_nested = kind.endswith(("]", ")")) and not kind.startswith(("DECIMAL", "ENUM"))
    if is_nested or kind == "BLOB":
        raise InputError(
            f"column {column!r} holds {_in_words(kind)}, which cannot name a {role}; make it text "
            "or a number."
        )
    if kind.split("(")[0] in _FLOATS:
        return f"CASE WHEN isfinite({name}::DOUBLE) THEN {name}::DOUBLE + 0.0 END"
    if kind in _INTEGERS:
        return f"{name}::BIGINT"
    if kind == "JSON":
        return f"({name} ->> '$')"
    return name if kind == "BOOLEAN" else f"{name}::VARCHAR"


def is_numeric(kind: str) -> bool:
    """Whether a type of DuckDB holds numbers."""
    return kind.split("(")[0] in (*_INTEGERS, *_FLOATS, *_LARGE_INTEGERS)


def attribute_sql(types: Mapping[str, str], column: str, *, is_number: bool | None = None) -> str:
    """Return SQL for an attribute as DOUBLE or VARCHAR, by the column's type unless given."""
    kind = types[column]
    if is_number is None:
        is_number = is_numeric(kind)
        if kind.startswith(("DATE", "TIME")):
            raise InputError(
                f"feature {column!r} contains times, which hardly repeat; make it an attribute "
                "that does, such as the hour, the weekday or an age."
            )
    if is_number:
        return f"try_cast({named(column)} AS DOUBLE)"
    return f"({label_sql(types, column, 'feature')})::VARCHAR"


def context_sql(
    types: Mapping[str, str], columns: Sequence[str], edges: Mapping[str, Sequence[float]]
) -> str:
    """Return SQL for the context: one column unchanged, several joined as text, with escapes.

    Without a column all rows have the same context.
    """
    if not columns:
        return quoted(ONE_CONTEXT)
    labels = [
        _bin_sql(column, edges[column]) if column in edges else label_sql(types, column, "context")
        for column in columns
    ]
    if len(labels) == 1:
        return labels[0]
    parts = [f"({label})::VARCHAR" for label in labels]
    return f" || {quoted(SEPARATOR)} || ".join(
        rf"replace(replace({part}, '\', '\\'), '{SEPARATOR}', '\{SEPARATOR}')" for part in parts
    )


def _bin_sql(column: str, edges: Sequence[float]) -> str:
    """Return SQL for the label of a value's bin; NULL for values that are not finite numbers."""
    number = f"try_cast({named(column)} AS DOUBLE)"
    labels = [quoted(label) for label in bin_labels(column, edges)]
    cases = " ".join(
        f"WHEN {number} < {edge!r}::DOUBLE THEN {label}"
        for edge, label in zip(edges, labels, strict=False)
    )
    is_number = f"coalesce(isfinite({number}), false)"
    return f"CASE WHEN NOT {is_number} THEN NULL {cases} ELSE {labels[-1]} END"


def robust_edges(log: OpenLog, column: str, n_bins: int) -> tuple[float, ...]:
    """Return the inner edges of bins that hold equal shares of the users' votes.

    Every user casts the same number of votes, ``VOTES_PER_USER`` quantiles of their own values,
    whatever their number of events. If a share alpha of the users collude, the quantile level of an
    edge among the good users' votes changes by at most alpha, whatever the colluders do. Equal
    edges are merged, so a column with few distinct values gets fewer bins.
    """
    levels = [(2 * vote + 1) / (2 * VOTES_PER_USER) for vote in range(VOTES_PER_USER)]
    user, number = label_sql(log.types, log.columns.user, "user"), named(column)
    found = log.connection.sql(
        f"""
        SELECT unnest(quantile_disc(number, {levels})) AS vote
        FROM (SELECT {user} AS voter, try_cast({number} AS DOUBLE) AS number FROM raw)
        WHERE isfinite(number) AND voter IS NOT NULL GROUP BY voter
        """
    ).to_arrow_table()
    votes = np.sort(found["vote"].to_numpy())
    if not len(votes):
        raise InputError(
            f"column {column!r} holds no numbers, so it cannot be cut into bins; leave it out of "
            f"{option('--context-bins', python='bins=…')}."
        )
    ranks = [-(-len(votes) * cut // n_bins) - 1 for cut in range(1, n_bins)]
    return tuple(sorted({vote + 0.0 for vote in votes[ranks].tolist()}))  # -0.0 becomes 0.0


def seconds_sql(log: OpenLog, column: str) -> str:
    """Return SQL for a column of times as seconds; NaN for invalid values.

    Dates and times are converted; numbers stay as they are; text may contain either.
    """
    kind, name = log.types[column], named(column)
    if is_numeric(kind):
        seconds = f"{name}::DOUBLE"
    elif kind.startswith(("TIMESTAMP", "DATE")):
        seconds = f"epoch({name}::TIMESTAMP)"
    else:
        text = f"{name}::VARCHAR"
        seconds = f"coalesce(epoch(try_cast({text} AS TIMESTAMP)), try_cast({text} AS DOUBLE))"
    return f"coalesce({seconds}, 'nan'::DOUBLE)"


def number_sql(log: OpenLog, column: str, role: str, *, may_be_words: bool = False) -> str:
    """Return SQL for a column as numbers, NULL if invalid; reject a text column without numbers.

    With ``may_be_words`` such a column is accepted: it may be one part of a larger log.
    """
    kind, name = log.types[column], named(column)
    if is_numeric(kind) or kind == "BOOLEAN":
        return f"{name}::DOUBLE"
    if kind in ("VARCHAR", "JSON", "NULL", '"NULL"'):
        text = name if kind == "VARCHAR" else f"({name} ->> '$')"
        if may_be_words:
            return f"try_cast({text} AS DOUBLE)"
        ((is_all_words,),) = log.connection.sql(
            f"SELECT count(*) > 0 AND count(try_cast({text} AS DOUBLE)) = 0 "
            f"FROM raw WHERE {name} IS NOT NULL"
        ).fetchall()
        if not is_all_words:
            return f"try_cast({text} AS DOUBLE)"
    raise InputError(
        f"column {column!r} holds {_in_words(kind)}, and the {role} must be a number; name the "
        f"right column with {option(f'--{role}-column', python=role)}."
    )


def _in_words(kind: str) -> str:
    """Return a readable name of a DuckDB type.

    >>> _in_words("VARCHAR"), _in_words("INTEGER[]"), _in_words("TIMESTAMP WITH TIME ZONE")
    ('text', 'lists', 'times')
    """
    if kind.endswith("]"):
        return "lists"
    if kind.startswith(("STRUCT", "MAP", "UNION")):
        return "nested values"
    names = {"VARCHAR": "text", "JSON": "text", "BLOB": "bytes", "DATE": "dates", "TIME": "times"}
    return next((name for start, name in names.items() if kind.startswith(start)), "no numbers")
