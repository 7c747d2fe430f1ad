"""Rows that ask for a decision: their contexts, labelled as in the log a policy came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from unswayed.events.attributes import AttributeColumn, AttributeReader, attribute_sql
from unswayed.events.column_sql import context_sql
from unswayed.events.columns import Columns
from unswayed.events.labels import Label
from unswayed.events.sources import Source, opened
from unswayed.memory import ROW_BYTES, MemoryBudget

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
