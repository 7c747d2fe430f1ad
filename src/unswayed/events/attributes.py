"""Attributes of events: numbers and categories, one column each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


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


def attribute_sql(types: Mapping[str, str], column: str, *, is_number: bool | None = None) -> str:
    """Return SQL for an attribute as DOUBLE or VARCHAR; its type decides which, unless given."""
    from unswayed.events.column_sql import is_numeric, label_sql
    from unswayed.events.sources import named

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


class AttributeReader:
    """Collects columns that come in batches of rows."""

    def __init__(self) -> None:
        self._pieces: list[list[pa.Array]] = []

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add some rows."""
        import pyarrow as pa

        self._pieces.append(
            [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in columns]
        )

    def columns(self, names: Sequence[str]) -> dict[str, AttributeColumn]:
        """Return all rows, one column per name."""
        return {
            name: _joined([pieces[place] for pieces in self._pieces])
            for place, name in enumerate(names)
        }


def _joined(pieces: Sequence[pa.Array]) -> AttributeColumn:
    import pyarrow as pa

    whole = pa.chunked_array(pieces).unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    if pa.types.is_dictionary(whole.type):
        # In the order of the texts, so that the order of the rows does not matter.
        texts = np.array(whole.dictionary.to_pylist(), dtype=np.object_)
        order = np.argsort(texts)
        places = np.empty(len(order) + 1, np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        places[-1] = -1
        codes = np.asarray(np.from_dlpack(whole.indices.cast(pa.int32()).fill_null(-1)))
        return Categories(places[codes], tuple(texts[order].tolist()))
    return np.array(np.from_dlpack(whole.fill_null(np.nan)), dtype=np.float64)


def plain_text(value: Any) -> str | None:
    """Return the text of a category's value as a log writes it; None if it is missing."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)
