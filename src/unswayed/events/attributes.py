"""Attributes of events: numbers and categories, one column each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """A column of texts: ``codes`` into ``levels``, −1 where a value is missing."""

    codes: npt.NDArray[np.int32]
    levels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: BoolArray | IntArray) -> Categories:
        return Categories(self.codes[rows], self.levels)


#: Why events are left out that a partition has no leaf for.
UNKNOWN_VALUE = "an attribute has a value that no leaf knows"

#: Numbers, NaN where one is missing; or categories.
AttributeColumn = FloatArray | Categories


def plain_text(value: Any) -> str | None:
    """Return the text of a category's value as a log writes it; None if it is missing."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)
