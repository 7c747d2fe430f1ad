"""Decisions for the rows of a file or table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unswayed.arrays import IntArray
from unswayed.errors import InputError, option
from unswayed.policy.policy import Policy

if TYPE_CHECKING:
    import pyarrow as pa


def is_table(value: object) -> bool:
    """Whether a value is a table of pandas, Polars or pyarrow, and not a list of contexts."""
    return hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns")


def read_codes(
    policy: Policy,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    memory: int | None = None,
) -> tuple[pa.Table, IntArray]:
    """Return the rows of a file or table, and the codes of their contexts; −1 if unknown.

    Without columns, those are read that the policy was learned from, cut into the same bins.
    """
    from unswayed.events import read_contexts  # the database is slow to import

    partition = policy.partition
    if partition is None:
        learned_from, bins = policy.context_columns
        found = read_contexts(source, columns=columns or learned_from, bins=bins, memory=memory)
        return found.rows, policy.context_labels.codes(found.contexts)
    if columns is not None:
        raise InputError(
            f"{option('--column', python='columns')} is for policies with context columns; this "
            f"one reads the features {', '.join(partition.names)}."
        )
    numbers = {feature.name: feature.is_number for feature in partition.features}
    found = read_contexts(source, columns=partition.names, numbers=numbers, memory=memory)
    if not len(found.rows):
        return found.rows, np.zeros(0, np.int64)
    return found.rows, partition.leaves(found.attributes)
