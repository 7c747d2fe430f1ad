"""Sparse rows of users, whatever their entries hold: one way to choose users and entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, IntArray


class UserRows:
    """One sparse row a user: ``cells`` of its entries, ascending, and columns of numbers.

    Row i has the entries from ``indptr[i]`` up to ``indptr[i + 1]``. A subclass is a dataclass and
    names its ``columns``, arrays with one number for each entry; a column may be left empty.
    """

    __slots__ = ()

    columns: ClassVar[tuple[str, ...]]

    if TYPE_CHECKING:
        indptr: IntArray
        cells: npt.NDArray[np.int32]

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return len(self.indptr) - 1

    def of_range(self, first: int, last: int) -> Self:
        """Return the rows of the users from ``first`` up to ``last``, as views."""
        start, stop = self.indptr[first], self.indptr[last]
        return self._chosen(self.indptr[first : last + 1] - start, slice(start, stop))

    def of_users(self, users: IntArray) -> Self:
        """Return the rows of some users, given by their codes."""
        return self._chosen(*entries_of(self.indptr, users))

    def of_entries(self, is_kept: BoolArray) -> Self:
        """Return the same users with some of their entries."""
        return self._chosen(np.concatenate([[0], np.cumsum(is_kept)])[self.indptr], is_kept)

    def _chosen(self, indptr: IntArray, entries: Any) -> Self:
        columns = {name: getattr(self, name) for name in ("cells", *self.columns)}
        chosen = {name: old[entries] if len(old) else old for name, old in columns.items()}
        return replace(self, indptr=indptr, **chosen)  # type: ignore[type-var]  # a dataclass


Rows = TypeVar("Rows", bound=UserRows)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the users of several parts, one part after the other; the same columns are filled."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("cells", *parts[0].columns)
    }
    return replace(parts[0], indptr=_starts(lengths), **columns)  # type: ignore[type-var]


def entry_users(indptr: IntArray) -> IntArray:
    """Return the user of each entry; shape (n_entries,)."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def entries_of(indptr: IntArray, users: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of some users: where each begins among them, and which entries they are."""
    lengths = np.diff(indptr)[users]
    starts = _starts(lengths)
    first = np.repeat(indptr[users] - starts[:-1], lengths)
    return starts, first + np.arange(starts[-1])


def _starts(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
