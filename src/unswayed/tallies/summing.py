"""Sums over the entries of groups that do not depend on the order of the entries.

All loops run over ranges of users, in threads. A user's results do not depend on how users are
divided into ranges.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled

_RANGES = 4  # Ours: minimum number of row ranges for threads, so that no core is idle at the end
_FEW_ENTRIES = 1 << 17  # Ours: minimum number of entries for multithreading
_SHORT_ROW = 64  # Ours: rows with at most this many entries are sorted by insertion

#: A key has a cell in its upper bits and a position within the user's row in these lower ones.
_PLACE_BITS = 32
_PLACE = (1 << _PLACE_BITS) - 1


_NOTHING = np.empty(0)


class Sums(NamedTuple):
    """Sums by user and cell."""

    indptr: IntArray  # shape (n_users + 1,): where each user's groups begin
    cells: npt.NDArray[np.int32]  # shape (n_groups,): ascending within each user
    sizes: FloatArray  # shape (n_groups,): number of entries
    sums: FloatArray  # shape (n_columns, n_groups)
    remainders: list[FloatArray]  # rounding errors of the sums; empty if there are none


def grouped_sums(
    users: npt.NDArray[np.int32],
    cells: npt.NDArray[np.int32],
    values: FloatArray,
    *,
    n_columns: int,
    n_users: int,
) -> Sums:
    """Sum columns over the entries of each user and cell, and return the rounding errors too.

    ``users`` and ``cells``, shape (n,), are the user and the cell of each entry; ``values``, shape
    (n, n_columns), is what is summed. If there are twice as many columns, the second half are
    remainders: each summand is then a float plus a smaller one.

    Entries are first grouped by user; all other steps work on rows that fit into the cache. Sums
    are carried as pairs of floats (Dekker's double-double with Knuth's exact addition). They are
    exact, and therefore the same for every order and every grouping of the values, as long as the
    values of one entry span fewer than about 2^100 units of their last place. This fails only if
    the rewards of a user in a cell differ wildly in magnitude.
    """
    starts = np.zeros(n_users + 1, np.int64)
    np.cumsum(np.bincount(users, minlength=n_users), out=starts[1:])
    keys, by_user = np.empty(len(users), np.int64), np.empty_like(values)
    _scatter(users, cells, values, starts, starts[:-1].copy(), keys, by_user)
    indptr = np.zeros(n_users + 1, np.int64)
    _in_ranges(_sort_rows, starts, keys, indptr)
    np.cumsum(indptr, out=indptr)
    n_groups = indptr[-1]
    cells, sizes = np.empty(n_groups, np.int32), np.empty(n_groups)
    sums, remainders = np.empty((n_columns, n_groups)), np.zeros((n_columns, n_groups))
    is_rounded = np.zeros(n_columns, np.bool_)
    outputs = (indptr, cells, sizes, sums, remainders)
    _in_ranges(_fill_sums, starts, keys, by_user, is_rounded, *outputs)
    kept = [
        rest if rounded else _NOTHING for rest, rounded in zip(remainders, is_rounded, strict=True)
    ]
    return Sums(indptr, cells, sizes, sums, kept)


def _in_ranges(function: Callable[..., None], starts: IntArray, *arguments: Any) -> None:
    """Call ``function(first, last, starts, *arguments)`` for ranges of rows, in threads.

    Ranges have about as many entries each; ``function`` must not hold the GIL for long.
    """
    n_rows, n_entries, n_cores = len(starts) - 1, int(starts[-1]), os.cpu_count() or 1
    if n_entries <= _FEW_ENTRIES:
        function(0, n_rows, starts, *arguments)
        return
    n_ranges = max(_RANGES, n_cores)
    inner = np.searchsorted(starts, [n_entries * cut // n_ranges for cut in range(1, n_ranges)])
    ranges = itertools.pairwise([0, *inner.tolist(), n_rows])
    with ThreadPoolExecutor(max_workers=n_cores) as pool:
        list(pool.map(lambda ends: function(*ends, starts, *arguments), ranges))


@compiled
def _scatter(
    users: npt.NDArray[np.int32],
    cells: npt.NDArray[np.int32],
    values: FloatArray,
    starts: IntArray,
    cursor: IntArray,
    keys: IntArray,
    by_user: FloatArray,
) -> None:
    """Write entries by user, in their order; ``cursor`` is each user's next position."""
    for entry in range(len(users)):
        user = users[entry]
        place = cursor[user]
        cursor[user] = place + 1
        keys[place] = (np.int64(cells[entry]) << _PLACE_BITS) | (place - starts[user])
        for column in range(values.shape[1]):
            by_user[place, column] = values[entry, column]


@compiled
def _sort_rows(first: int, last: int, starts: IntArray, keys: IntArray, indptr: IntArray) -> None:
    """Sort the keys of some users, and count each user's groups; equal cells keep their order."""
    for user in range(first, last):
        begin, end = starts[user], starts[user + 1]
        if end - begin > _SHORT_ROW:
            keys[begin:end].sort()
        else:
            for entry in range(begin + 1, end):
                key, place = keys[entry], entry
                while place > begin and keys[place - 1] > key:
                    keys[place] = keys[place - 1]
                    place -= 1
                keys[place] = key
        previous = -1
        for entry in range(begin, end):
            cell = keys[entry] >> _PLACE_BITS
            indptr[user + 1] += cell != previous
            previous = cell


@compiled
def _fill_sums(
    first: int,
    last: int,
    starts: IntArray,
    keys: IntArray,
    values: FloatArray,
    is_rounded: BoolArray,
    indptr: IntArray,
    cells: npt.NDArray[np.int32],
    sizes: FloatArray,
    sums: FloatArray,
    remainders: FloatArray,
) -> None:
    """Fill in the cell, the size, the sums and the remainders of each group of some users.

    ``remainders`` starts as zeros; zeros are not written, so their pages take no memory.
    """
    n_columns = len(sums)
    has_low = values.shape[1] > n_columns
    group = indptr[first]
    for user in range(first, last):
        begin = starts[user]
        while begin < starts[user + 1]:
            cell, end = keys[begin] >> _PLACE_BITS, begin + 1
            while end < starts[user + 1] and keys[end] >> _PLACE_BITS == cell:
                end += 1
            cells[group], sizes[group] = cell, end - begin
            for column in range(n_columns):
                high = low = 0.0
                for entry in range(begin, end):
                    place = starts[user] + (keys[entry] & _PLACE)
                    value = values[place, column]
                    rest = values[place, n_columns + column] if has_low else 0.0
                    if entry == begin:
                        high, low = value, rest
                    else:
                        high, low = _pair_sum(high, low, value, rest)
                sums[column, group] = high
                if low != 0.0:
                    remainders[column, group] = low
                    is_rounded[column] = True
            begin = end
            group += 1


@compiled
def row_sums(indptr: IntArray, values: FloatArray) -> FloatArray:
    """Return the sum of the entries of each row; shape (n_rows,)."""
    totals = np.zeros(len(indptr) - 1)
    for row in range(len(totals)):
        for entry in range(indptr[row], indptr[row + 1]):
            totals[row] += values[entry]
    return totals


@compiled
def cell_sums(cells: npt.NDArray[np.int32], values: FloatArray, n_cells: int) -> FloatArray:
    """Return the sum of the entries of each cell, like ``numpy.bincount`` but without the GIL."""
    totals = np.zeros(n_cells)
    for entry in range(len(cells)):
        totals[cells[entry]] += values[entry]
    return totals


@compiled
def cell_entries(cells: npt.NDArray[np.int32], n_cells: int) -> IntArray:
    """Return how many entries each cell has."""
    numbers = np.zeros(n_cells, np.int64)
    for cell in cells:
        numbers[cell] += 1
    return numbers


@compiled
def _pair_sum(high: float, low: float, value: float, rest: float) -> tuple[float, float]:
    """Return the sum of two double-double numbers, each a float and a small remainder."""
    total, error = _two_sum(high, value)
    small, tail = _two_sum(low, rest)
    total, error = _two_sum(total, error + small)
    return _two_sum(total, error + tail)


@compiled
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """Return a + b rounded, and its exact rounding error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)
