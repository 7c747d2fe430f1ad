"""Attributes of events: numbers and categories, one column each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """A column of texts: ``codes`` into ``levels``, −1 where a value is missing.

    ``is_untyped`` is true if the source stores numbers as text, as CSV does.
    """

    codes: npt.NDArray[np.int32]
    levels: tuple[str, ...]
    is_untyped: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: BoolArray | IntArray) -> Categories:
        return replace(self, codes=self.codes[rows])

    def numbers(self) -> FloatArray:
        """Return the values as numbers; a non-numeric value raises ValueError."""
        return np.array([*map(float, self.levels), np.nan])[self.codes]


#: Reason for dropping events whose attributes match no leaf.
UNKNOWN_VALUE = "an attribute has a value that no leaf knows"

#: Numbers, with NaN for missing values; or categories.
AttributeColumn = FloatArray | Categories

#: A number in a source without types; ``007`` is not one, but a name.
_NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan", re.ASCII | re.IGNORECASE)


def typed(columns: Mapping[str, AttributeColumn]) -> dict[str, AttributeColumn]:
    """Convert columns of untyped sources to numbers if all of their values are numbers."""

    def is_number(column: AttributeColumn) -> bool:
        if not isinstance(column, Categories) or not column.is_untyped or not column.levels:
            return False
        return all(map(_NUMBER.fullmatch, column.levels))

    return {
        name: column.numbers() if isinstance(column, Categories) and is_number(column) else column
        for name, column in columns.items()
    }


def plain_text(value: Any) -> str | None:
    """Return the text of a category's value as a log writes it; None if it is missing."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)
