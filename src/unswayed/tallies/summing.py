"""Grouping entries by user and cell, and sums that do not depend on the order of the entries.

All loops run over ranges of users, in threads. What they find for a user does not depend on the
ranges, so neither do the results.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled

IntArray = npt.NDArray[np.int64]
KeyArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]
Result = TypeVar("Result")

#: Rows up to this length are sorted by insertion. Ours: above it numpy's sort is faster.
_SHORT = 48

#: Ours: ranges that users are cut into, or one for each core if there are more. Every range looks
#: at all entries once, so more would cost more; fewer would leave cores idle at the end.
_RANGES = 4

#: Ours: fewer entries are worked on in one range, without threads.
_FEW_ENTRIES = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Entries by user and cell.

    Attributes
    ----------
    starts
        Shape (n_users + 1,); where each user's keys begin.
    keys
        Shape (n,); ``cell << 32 | position``, ascending within each user. So a key says which entry
        it stands for, and equal cells keep the order of the entries.
    indptr
        Shape (n_users + 1,); where each user's groups begin.
    cells
        Shape (n_groups,); the cell of each group.
    """

    starts: IntArray
    keys: KeyArray
    indptr: IntArray
    cells: npt.NDArray[np.int32]


def grouped(users: npt.NDArray[np.int32], cells: npt.NDArray[np.int32], n_users: int) -> Grouping:
    """Group entries: a counting sort by user and short sorts within rows make it linear."""
    starts = _row_starts(users, n_users)
    keys = np.empty(len(users), np.uint64)
    indptr = np.empty(n_users + 1, np.int64)
    indptr[0] = 0
    in_ranges(_sort_keys, starts, users, cells, keys, indptr)
    np.cumsum(indptr, out=indptr)
    out_cells = np.empty(indptr[-1], np.int32)
    in_ranges(_fill_cells, starts, keys, indptr, out_cells)
    return Grouping(starts, keys, indptr, out_cells)


def grouped_sums(
    grouping: Grouping, values: FloatArray, remainders: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of each group's values, and what rounding that sum left over.

    Parameters
    ----------
    grouping
        The entries.
    values, remainders
        Shape (n,); what to add, each the sum of a float and a smaller one. ``remainders`` may be
        empty, which means zeros.

    Notes
    -----
    Sums are carried as pairs of floats (Dekker's double-double with Knuth's exact addition). They
    are exact, and therefore the same for every order and every grouping of the values, as long as
    the values of one entry span fewer than about 2^100 units of their last place: always, unless a
    user mixes rewards of wildly different magnitude in one cell.
    """
    sums, lows = np.empty((2, len(grouping.cells)))
    in_ranges(
        _fill_sums, grouping.starts, grouping.keys, grouping.indptr, values, remainders, sums, lows
    )
    return sums, lows


def event_sums(
    grouping: Grouping, rewards: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return counts, sums and squares of unweighted events, and the remainders of the latter two.

    The same as three calls of ``grouped_sums``, in one pass over keys and rewards; remainders are
    empty if all of them are zero. Of rewards of zero and one the squares are the rewards, and their
    sums one array.
    """
    n_groups, nothing = len(grouping.cells), np.empty(0)
    counts, sums = np.empty(n_groups), np.empty(n_groups)
    squares = nothing if _are_binary(rewards) else np.empty(n_groups)

    def filled(*lows: FloatArray) -> bool:
        found = in_ranges(
            _fill_event_sums,
            grouping.starts,
            grouping.keys,
            grouping.indptr,
            rewards,
            counts,
            sums,
            squares,
            *lows,
        )
        return any(found)

    if not filled(nothing, nothing):  # as with all rewards that are small whole numbers
        return counts, sums, squares if len(squares) else sums, nothing, nothing
    lows = np.empty((2, n_groups))
    filled(*lows)
    return counts, sums, squares, *lows


def in_ranges(function: Callable[..., Result], starts: IntArray, *arguments: Any) -> list[Result]:
    """Return ``function(first, last, starts, *arguments)`` for ranges of rows, run in threads.

    Ranges have about as many entries each; ``function`` must not hold the GIL for long.
    """
    n_rows, n_entries = len(starts) - 1, int(starts[-1])
    n_threads = os.cpu_count() or 1
    n_ranges = max(_RANGES, n_threads) if n_entries > _FEW_ENTRIES else 1
    inner = np.searchsorted(starts, np.arange(1, n_ranges) * (n_entries / n_ranges))
    ranges = list(itertools.pairwise([0, *inner.tolist(), n_rows]))
    if n_ranges == 1:
        return [function(0, n_rows, starts, *arguments)]
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        return list(pool.map(lambda ends: function(*ends, starts, *arguments), ranges))


@compiled
def _row_starts(users: npt.NDArray[np.int32], n_users: int) -> IntArray:
    """Return where the entries of each user begin once they are sorted by user."""
    starts = np.zeros(n_users + 1, np.int64)
    for user in users:
        starts[user + 1] += 1
    for user in range(n_users):
        starts[user + 1] += starts[user]
    return starts


@compiled
def _sort_keys(
    first: int,
    last: int,
    starts: IntArray,
    users: npt.NDArray[np.int32],
    cells: npt.NDArray[np.int32],
    keys: KeyArray,
    indptr: IntArray,
) -> None:
    """Fill in the keys of a range of users, and in ``indptr`` how many groups each user has."""
    cursor = starts[first:last].copy()
    n_users = np.uint32(last - first)
    for position in range(len(users)):
        place = np.uint32(users[position] - first)
        if place < n_users:  # one comparison: users before the range became very large
            key = (np.uint64(cells[position]) << np.uint64(32)) | np.uint64(position)
            keys[cursor[place]] = key
            cursor[place] += 1
    for user in range(first, last):
        row = keys[starts[user] : starts[user + 1]]
        if len(row) > _SHORT:
            row.sort()
        else:
            for end in range(1, len(row)):
                key = row[end]
                gap = end
                while gap > 0 and row[gap - 1] > key:
                    row[gap] = row[gap - 1]
                    gap -= 1
                row[gap] = key
        n_distinct = min(len(row), 1)
        for end in range(1, len(row)):
            n_distinct += (row[end] >> np.uint64(32)) != (row[end - 1] >> np.uint64(32))
        indptr[user + 1] = n_distinct


@compiled
def _fill_cells(
    first: int,
    last: int,
    starts: IntArray,
    keys: KeyArray,
    indptr: IntArray,
    cells: npt.NDArray[np.int32],
) -> None:
    """Fill in the cell of each group."""
    entry = indptr[first] - 1
    for user in range(first, last):
        previous = np.int64(-1)
        for place in range(starts[user], starts[user + 1]):
            cell = np.int64(keys[place] >> np.uint64(32))
            if cell != previous:
                entry += 1
                cells[entry] = cell
                previous = cell


@compiled
def _fill_sums(
    first: int,
    last: int,
    starts: IntArray,
    keys: KeyArray,
    indptr: IntArray,
    values: FloatArray,
    remainders: FloatArray,
    sums: FloatArray,
    lows: FloatArray,
) -> None:
    """Fill in the sum and the remainder of each group."""
    has_low = len(remainders) > 0
    entry = indptr[first] - 1
    for user in range(first, last):
        previous = np.int64(-1)
        for place in range(starts[user], starts[user + 1]):
            cell = np.int64(keys[place] >> np.uint64(32))
            position = np.int64(keys[place] & np.uint64(0xFFFFFFFF))
            value = values[position]
            low = remainders[position] if has_low else 0.0
            if cell != previous:
                entry += 1
                previous = cell
                sums[entry] = value
                lows[entry] = low
                continue
            sums[entry], lows[entry] = _pair_sum(sums[entry], lows[entry], value, low)


@compiled
def _fill_event_sums(
    first: int,
    last: int,
    starts: IntArray,
    keys: KeyArray,
    indptr: IntArray,
    rewards: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray,
    sum_lows: FloatArray,
    square_lows: FloatArray,
) -> bool:
    """Fill in what ``event_sums`` returns; return whether there is any remainder."""
    is_squared, is_kept, is_any = len(squares) > 0, len(sum_lows) > 0, False
    entry = indptr[first] - 1
    sum_low, square_low = 0.0, 0.0
    for user in range(first, last):
        previous = np.int64(-1)
        for place in range(starts[user], starts[user + 1]):
            cell = np.int64(keys[place] >> np.uint64(32))
            reward = rewards[np.int64(keys[place] & np.uint64(0xFFFFFFFF))]
            if cell != previous:
                entry += 1
                previous = cell
                counts[entry] = 1.0
                sums[entry] = reward
                sum_low, square_low = 0.0, 0.0
                if is_squared:
                    squares[entry] = reward * reward
            else:
                counts[entry] += 1.0
                sums[entry], sum_low = _pair_sum(sums[entry], sum_low, reward, 0.0)
                if is_squared:
                    squares[entry], square_low = _pair_sum(
                        squares[entry], square_low, reward * reward, 0.0
                    )
            if is_kept:
                sum_lows[entry], square_lows[entry] = sum_low, square_low
            is_any = is_any or sum_low != 0.0 or square_low != 0.0
    return is_any


@compiled
def _are_binary(rewards: FloatArray) -> bool:
    """Return whether all rewards are zero or one, which are their own squares."""
    are_own_squares = True
    for reward in rewards:  # to the end, without a branch: most logs are binary
        are_own_squares &= reward * reward == reward
    return are_own_squares


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
