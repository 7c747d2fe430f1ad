"""SQL that turns the columns of a log into labels and numbers, and edges for bins of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events.columns import ONE_CONTEXT, SEPARATOR, Columns, bin_labels
from unswayed.events.sources import OpenLog, Source, named, opened, quoted

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_LARGE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
_FLOATS = ("FLOAT", "DOUBLE", "DECIMAL")


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


def context_sql(
    types: Mapping[str, str], columns: Sequence[str], edges: Mapping[str, Sequence[float]]
) -> str:
    """Return SQL for the context: one column as it is, several as text, their parts escaped.

    Without a column all rows have the same context.
    """
    if not columns:
        return quoted(ONE_CONTEXT)
    if len(columns) == 1:
        (column,) = columns
        is_binned = column in edges
        return bin_sql(column, edges[column]) if is_binned else label_sql(types, column, "context")
    parts = [
        bin_sql(column, edges[column])
        if column in edges
        else f"({label_sql(types, column, 'context')})::VARCHAR"
        for column in columns
    ]
    return f" || {quoted(SEPARATOR)} || ".join(
        rf"replace(replace({part}, '\', '\\'), '{SEPARATOR}', '\{SEPARATOR}')" for part in parts
    )


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


def bin_sql(column: str, edges: Sequence[float]) -> str:
    """Return SQL for the label of a value's bin; NULL for what is not a finite number."""
    number = f"try_cast({named(column)} AS DOUBLE)"
    labels = [quoted(label) for label in bin_labels(column, edges)]
    cases = " ".join(
        f"WHEN {number} < {edge!r}::DOUBLE THEN {label}"
        for edge, label in zip(edges, labels, strict=False)
    )
    return f"CASE WHEN NOT isfinite({number}) THEN NULL {cases} ELSE {labels[-1]} END"


#: Each user votes with this many of their own quantiles. Ours: fine enough for a hundred bins of
#: a log with few users, and an eighth of a megabyte a thousand users.
VOTES_PER_USER = 16

#: Columns that name a user in ``read_numbers``: both halves of a hash of the label.
_USER_KEY = ("lower", "upper")


def robust_edges(log: OpenLog, column: str, n_bins: int) -> tuple[float, ...]:
    """Return the inner edges of bins that hold equal shares of the users' votes.

    Every user has the same weight, ``VOTES_PER_USER`` quantiles of their own values, however often
    they came. Replacing a share alpha of the users moves the level of an edge by at most
    alpha among the good users' votes, whatever the coalition does. Equal edges are merged, so a
    column with few distinct values gets fewer bins.
    """
    user = label_sql(log.types, log.columns.user, "user")
    numbers = f'(SELECT {user} AS "user", {_number(column)} AS number FROM raw)'
    votes = _votes(log.connection, numbers, "number", ['"user"'])
    if not len(votes):
        return edges_at([], column)
    ranks = edge_ranks(len(votes), n_bins)
    return edges_at(np.partition(votes, ranks)[ranks].tolist(), column)


def edge_ranks(n_votes: int, n_bins: int) -> list[int]:
    """Return which of the votes, in ascending order, are edges: the quantiles k/n_bins.

    >>> edge_ranks(10, 4)
    [2, 4, 7]
    """
    return [-(-n_votes * cut // n_bins) - 1 for cut in range(1, n_bins)]


def edges_at(votes: Sequence[float], column: str) -> tuple[float, ...]:
    """Return the votes at the given ranks; refuse a column without values."""
    if not votes:
        raise InputError(
            f"column {column!r} holds no numbers, so it cannot be cut into bins; leave it out of "
            f"{option('--context-bins', python='Columns(bins=…)')}."
        )
    return tuple(sorted({vote + 0.0 for vote in votes}))  # turns -0.0 into 0.0


def read_numbers(source: Source, columns: Columns, *, name: str, keep_broken: bool) -> pa.Table:
    """Return the columns to be cut, as numbers, and hashes that identify their users.

    The columns are named by their position among ``columns.bins``.
    """
    wanted = Columns(context=tuple(columns.bins))
    with opened(source, wanted, contexts_only=True, name=name, keep_broken=keep_broken) as log:
        if columns.user not in log.types:
            columns.found_in(list(log.types), where=name)  # says what is missing
        user = label_sql(log.types, columns.user, "user")
        numbers = [
            f'{_number(column)} AS "{position}"' for position, column in enumerate(columns.bins)
        ]
        keys = [f'md5_number_{half}("user"::VARCHAR) AS "{half}"' for half in _USER_KEY]
        places = ", ".join(f'"{position}"' for position in range(len(numbers)))
        return log.connection.sql(
            f"""
            SELECT {", ".join(keys)}, {places}
            FROM (SELECT {user} AS "user", {", ".join(numbers)} FROM raw) WHERE "user" IS NOT NULL
            """
        ).to_arrow_table()


def votes_on(connection: duckdb.DuckDBPyConnection, table: str, position: int) -> FloatArray:
    """Return the votes of users on one column of what ``read_numbers`` returned, ascending."""
    return np.sort(_votes(connection, table, f'"{position}"', [f'"{key}"' for key in _USER_KEY]))


def _number(column: str) -> str:
    return f"try_cast({named(column)} AS DOUBLE)"


def _votes(
    connection: duckdb.DuckDBPyConnection, table: str, number: str, user: Sequence[str]
) -> FloatArray:
    levels = [(2 * vote + 1) / (2 * VOTES_PER_USER) for vote in range(VOTES_PER_USER)]
    found = connection.sql(
        f"""
        SELECT unnest(quantile_disc({number}, {levels})) AS vote FROM {table}
        WHERE isfinite({number}) AND {user[0]} IS NOT NULL GROUP BY {", ".join(user)}
        """
    ).to_arrow_table()
    votes: npt.NDArray[Any] = np.from_dlpack(found["vote"].combine_chunks())  # without pandas
    return votes
