"""Sums over the entries of groups that do not depend on the order of the entries.

All loops run over ranges of users, in threads. Results for a user do not
depend on the ranges.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled

#: Ours: minimum number of row ranges for threads, so that no core is idle at the end.
_RANGES = 4

#: Ours: minimum number of entries for multithreading.
_FEW_ENTRIES = 1 << 17

#: Ours: rows with more entries than this are sorted by merging instead of insertion.
_SHORT_ROW = 32


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Entries by user and cell.

    Attributes
    ----------
    starts
        Shape (n_users + 1,); where each user's entries begin.
    entry_cells
        Shape (n,); the cell of each entry, ascending within each user. Equal cells keep the order
        in which the entries came.
    positions
        Shape (n,); where each entry was before.
    indptr
        Shape (n_users + 1,); where each user's groups begin.
    cells
        Shape (n_groups,); the cell of each group.
    """

    starts: IntArray
    entry_cells: npt.NDArray[np.int32]
    positions: npt.NDArray[np.uint32]
    indptr: IntArray
    cells: npt.NDArray[np.int32]


def grouped(
    users: npt.NDArray[np.int32],
    cells: npt.NDArray[np.int32],
    n_users: int,
) -> Grouping:
    """Group entries: a counting sort by user, and short sorts within rows.

    Parameters
    ----------
    users, cells
        Shape (n,); of each entry.
    n_users
        How many users there are.
    """
    starts = np.zeros(n_users + 1, np.int64)
    np.cumsum(np.bincount(users, minlength=n_users), out=starts[1:])
    entry_cells, positions = np.empty_like(cells), np.empty(len(cells), np.uint32)
    _scatter(users, cells, starts[:-1].copy(), entry_cells, positions)
    indptr = np.zeros(n_users + 1, np.int64)
    in_ranges(_sort_rows, starts, entry_cells, positions, indptr)
    np.cumsum(indptr, out=indptr)
    out_cells = np.empty(indptr[-1], np.int32)
    in_ranges(_fill_cells, starts, entry_cells, indptr, out_cells)
    return Grouping(starts, entry_cells, positions, indptr, out_cells)


def in_ranges(function: Callable[..., None], starts: IntArray, *arguments: Any) -> None:
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
    cursor: IntArray,
    out_cells: npt.NDArray[np.int32],
    out_positions: npt.NDArray[np.uint32],
) -> None:
    """Write entries by user, in their order; ``cursor`` says where each user's go on."""
    for entry in range(len(users)):
        place = cursor[users[entry]]
        cursor[users[entry]] = place + 1
        out_cells[place] = cells[entry]
        out_positions[place] = entry


@compiled
def _sort_rows(
    first: int,
    last: int,
    starts: IntArray,
    cells: npt.NDArray[np.int32],
    positions: npt.NDArray[np.uint32],
    indptr: IntArray,
) -> None:
    """Sort the entries of some users by cell where they are, and count each user's groups.

    Equal cells keep their order.
    """
    for user in range(first, last):
        begin, end = starts[user], starts[user + 1]
        if end - begin > _SHORT_ROW:
            order = np.argsort(cells[begin:end], kind="mergesort")
            cells[begin:end] = cells[begin:end][order]
            positions[begin:end] = positions[begin:end][order]
        else:
            for entry in range(begin + 1, end):
                cell, position, place = cells[entry], positions[entry], entry
                while place > begin and cells[place - 1] > cell:
                    cells[place], positions[place] = cells[place - 1], positions[place - 1]
                    place -= 1
                cells[place], positions[place] = cell, position
        previous = np.int32(-1)
        for entry in range(begin, end):
            indptr[user + 1] += cells[entry] != previous
            previous = cells[entry]


@compiled
def _fill_cells(
    first: int,
    last: int,
    starts: IntArray,
    entry_cells: npt.NDArray[np.int32],
    indptr: IntArray,
    cells: npt.NDArray[np.int32],
) -> None:
    """Fill in the cell of each group."""
    group = indptr[first] - 1
    for user in range(first, last):
        previous = np.int32(-1)
        for entry in range(starts[user], starts[user + 1]):
            if entry_cells[entry] != previous:
                group += 1
                previous = entry_cells[entry]
                cells[group] = previous


def grouped_sums(
    grouping: Grouping, values: FloatArray, remainders: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of each group's values, and its rounding error.

    Parameters
    ----------
    grouping
        The entries.
    values, remainders
        Shape (n,); summands, each a float and a smaller one (its remainder). ``remainders`` may
        be empty, which means zeros.

    Notes
    -----
    Sums are carried as pairs of floats (Dekker's double-double with Knuth's exact addition). They
    are exact, and therefore the same for every order and every grouping of the values, as long as
    the values of one entry span fewer than about 2^100 units of their last place: always, unless a
    user mixes rewards of wildly different magnitude in one cell.
    """
    sums, lows = np.empty((2, len(grouping.cells)))
    in_ranges(
        _fill_sums,
        grouping.starts,
        grouping.entry_cells,
        grouping.positions,
        grouping.indptr,
        values,
        remainders,
        sums,
        lows,
    )
    return sums, lows


@compiled
def _fill_sums(
    first: int,
    last: int,
    starts: IntArray,
    entry_cells: CellArray,
    positions: npt.NDArray[np.uint32],
    indptr: IntArray,
    values: FloatArray,
    remainders: FloatArray,
    sums: FloatArray,
    lows: FloatArray,
) -> None:
    """Fill in the sum and the remainder of each group."""
    has_low = len(remainders) > 0
    group = indptr[first] - 1
    for user in range(first, last):
        previous = -1
        for entry in range(starts[user], starts[user + 1]):
            value = values[positions[entry]]
            low = remainders[positions[entry]] if has_low else 0.0
            if entry_cells[entry] != previous:
                group += 1
                previous = entry_cells[entry]
                sums[group] = value
                lows[group] = low
                continue
            sums[group], lows[group] = _pair_sum(sums[group], lows[group], value, low)


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
    """Return the sum of the entries of each cell; as ``numpy.bincount``, which holds the GIL."""
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
    """Return the sum of two numbers, each a float and a smaller one, in the same form."""
    total, error = _two_sum(high, value)
    small, tail = _two_sum(low, rest)
    total, error = _two_sum(total, error + small)
    return _two_sum(total, error + tail)


@compiled
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """Return a + b rounded, and exactly what the rounding lost (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)
