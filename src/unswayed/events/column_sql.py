"""SQL that turns the columns of a log into labels, numbers and bins of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unswayed.errors import InputError, option
from unswayed.events.columns import ONE_CONTEXT, SEPARATOR, bin_labels
from unswayed.events.sources import OpenLog, named, quoted

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_LARGE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
_FLOATS = ("FLOAT", "DOUBLE", "DECIMAL")

#: Each user votes with this many of their own quantiles. Ours: fine enough for a hundred bins of
#: a log with few users, and an eighth of a megabyte a thousand users.
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
    """Return SQL for an attribute as DOUBLE or VARCHAR; its type decides which, unless given."""
    kind = types[column]
    if is_number is None:
        is_number = is_numeric(kind)
        if kind.startswith(("DATE", "TIME")):
            raise InputError(
                f"feature {column!r} holds times, and every time is new; make it an attribute that "
                "comes back, such as the hour, the weekday or an age."
            )
    if is_number:
        return f"try_cast({named(column)} AS DOUBLE)"
    return f"({label_sql(types, column, 'feature')})::VARCHAR"


def context_sql(
    types: Mapping[str, str], columns: Sequence[str], edges: Mapping[str, Sequence[float]]
) -> str:
    """Return SQL for the context: one column as it is, several as text, their parts escaped.

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
    """Return SQL for the label of a value's bin; NULL for what is not a finite number."""
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

    Every user has the same weight, ``VOTES_PER_USER`` quantiles of their own values, however often
    they came. Replacing a share alpha of the users moves the level of an edge by at most
    alpha among the good users' votes, whatever the coalition does. Equal edges are merged, so a
    column with few distinct values gets fewer bins.
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
    """Return SQL for a column of times as seconds; NaN where it holds none.

    Dates and times are dates and times; numbers stay as they are; text may be either.
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
    """Return SQL for a column as numbers, NULL where it holds none; refuse a column of words.

    With ``may_be_words`` text need hold no number at all, as in one part of a larger log.
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
    """Return what the values of a type of DuckDB are called elsewhere.

    >>> _in_words("VARCHAR"), _in_words("INTEGER[]"), _in_words("TIMESTAMP WITH TIME ZONE")
    ('text', 'lists', 'times')
    """
    if kind.endswith("]"):
        return "lists"
    if kind.startswith(("STRUCT", "MAP", "UNION")):
        return "nested values"
    names = {"VARCHAR": "text", "JSON": "text", "BLOB": "bytes", "DATE": "dates", "TIME": "times"}
    return next((name for start, name in names.items() if kind.startswith(start)), "no numbers")
