"""SQL that turns the columns of a log into labels and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unswayed.errors import InputError, option
from unswayed.events.columns import ONE_CONTEXT, SEPARATOR, bin_labels
from unswayed.events.sources import OpenLog, named, quoted

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
        return f"CASE WHEN isfinite({name}::DOUBLE) THEN {name}::DOUBLE END"
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
