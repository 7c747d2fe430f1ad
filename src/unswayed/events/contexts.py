"""Rows that ask for a decision: their contexts, labelled as in the log a policy came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from unswayed.events.column_sql import context_sql
from unswayed.events.columns import Columns
from unswayed.events.labels import Label
from unswayed.events.sources import Source, opened
from unswayed.memory import ROW_BYTES, MemoryBudget

#: Ours: estimated bytes per value of a row that is written back.
_VALUE_BYTES = 30


@dataclass(frozen=True, slots=True)
class ContextRows:
    """All columns of some rows, and the context of each; None where a part is missing."""

    rows: pa.Table
    contexts: list[Label | None]


def read_contexts(
    source: Source,
    *,
    columns: Sequence[str],
    bins: Mapping[str, tuple[float, ...]],
    memory: int | None = None,
) -> ContextRows:
    """Return the rows of a file or table with their contexts, in the order of the file.

    ``memory`` is how many bytes they may take; by default three quarters of what is free.
    """
    wanted = Columns(context=tuple(columns))
    budget = MemoryBudget.of(memory)
    with opened(source, wanted, contexts_only=True, memory=budget) as log:
        ((n_rows,),) = log.connection.sql("SELECT count(*) FROM raw").fetchall()
        n_bytes = n_rows * (ROW_BYTES + _VALUE_BYTES * len(log.types))
        budget.check(n_bytes, f"{log.name} with {n_rows:,} rows")
        edges = {column: edges for column, edges in bins.items() if column in columns}
        context = context_sql(log.types, columns, edges)
        found = log.connection.sql(f"SELECT {context} AS context FROM raw").to_arrow_table()
        rows = log.connection.sql("FROM raw").to_arrow_table()
    return ContextRows(rows, found["context"].to_pylist())
