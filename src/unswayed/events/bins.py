"""Bins of a numeric part of the context: what they are called, and which one a value is in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from unswayed.events.files import named, quoted


def bin_labels(column: str, edges: Sequence[float]) -> list[str]:
    """Return what the bins are called, one more than there are edges.

    >>> bin_labels("price", [9.5, 20.0])
    ['price<9.5', '9.5<=price<20', '20<=price']
    """
    shown = [f"{edge:.15g}" for edge in edges]
    between = [f"{low}<={column}<{high}" for low, high in itertools.pairwise(shown)]
    return [f"{column}<{shown[0]}", *between, f"{shown[-1]}<={column}"]


def bin_sql(column: str, edges: Sequence[float]) -> str:
    """Return SQL for the label of a value's bin; NULL for what is not a finite number."""
    number = f"try_cast({named(column)} AS DOUBLE)"
    labels = [quoted(label) for label in bin_labels(column, edges)]
    cases = " ".join(
        f"WHEN {number} < {edge!r}::DOUBLE THEN {label}"
        for edge, label in zip(edges, labels, strict=False)
    )
    return f"CASE WHEN NOT isfinite({number}) THEN NULL {cases} ELSE {labels[-1]} END"
