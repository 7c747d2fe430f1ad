"""Grouping entries by user and cell, and sums that do not depend on the order of the entries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled

IntArray = npt.NDArray[np.int64]
KeyArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]

#: Rows up to this length are sorted by insertion. Ours: above it numpy's sort is faster.
_SHORT = 48


@compiled
def sorted_keys(
    users: npt.NDArray[np.int32], cells: npt.NDArray[np.int32], n_users: int
) -> tuple[IntArray, KeyArray]:
    """Return where each user's keys begin, and the keys, ascending within each user.

    A key is ``cell << 32 | position``: it says which entry it stands for, and equal cells keep the
    order of the entries. A counting sort by user and short sorts within rows make it linear.
    """
    starts = np.zeros(n_users + 1, np.int64)
    for user in users:
        starts[user + 1] += 1
    for user in range(n_users):
        starts[user + 1] += starts[user]
    keys = np.empty(len(users), np.uint64)
    cursor = starts[:-1].copy()
    for position in range(len(users)):
        user = users[position]
        keys[cursor[user]] = (np.uint64(cells[position]) << np.uint64(32)) | np.uint64(position)
        cursor[user] += 1
    for user in range(n_users):
        row = keys[starts[user] : starts[user + 1]]
        if len(row) > _SHORT:
            row.sort()
            continue
        for last in range(1, len(row)):
            key = row[last]
            place = last
            while place > 0 and row[place - 1] > key:
                row[place] = row[place - 1]
                place -= 1
            row[place] = key
    return starts, keys


@compiled
def grouped_cells(starts: IntArray, keys: KeyArray) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """Return the rows' beginnings and cells once equal cells of a user are one entry."""
    indptr = np.zeros(len(starts), np.int64)
    for user in range(len(starts) - 1):
        previous = np.int64(-1)
        n_distinct = 0
        for place in range(starts[user], starts[user + 1]):
            cell = np.int64(keys[place] >> np.uint64(32))
            n_distinct += cell != previous
            previous = cell
        indptr[user + 1] = indptr[user] + n_distinct
    cells = np.empty(indptr[-1], np.int32)
    entry = -1
    for user in range(len(starts) - 1):
        previous = np.int64(-1)
        for place in range(starts[user], starts[user + 1]):
            cell = np.int64(keys[place] >> np.uint64(32))
            if cell != previous:
                entry += 1
                cells[entry] = cell
            previous = cell
    return indptr, cells


@compiled
def grouped_sums(
    starts: IntArray, keys: KeyArray, n_entries: int, values: FloatArray, remainders: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of each entry's values, and what rounding that sum left over.

    Parameters
    ----------
    starts, keys
        As ``sorted_keys`` gives them.
    n_entries
        Number of entries after grouping.
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
    sums = np.zeros(n_entries)
    lows = np.zeros(n_entries)
    has_low = len(remainders) > 0
    entry = -1
    for user in range(len(starts) - 1):
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
    return sums, lows


@compiled
def event_sums(
    starts: IntArray, keys: KeyArray, n_entries: int, rewards: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return counts, sums and squares of unweighted events, and the remainders of the latter two.

    The same as three calls of ``grouped_sums``, in one pass over keys and rewards.
    """
    counts = np.zeros(n_entries)
    sums = np.zeros(n_entries)
    squares = np.zeros(n_entries)
    sum_lows = np.zeros(n_entries)
    square_lows = np.zeros(n_entries)
    entry = -1
    for user in range(len(starts) - 1):
        previous = np.int64(-1)
        for place in range(starts[user], starts[user + 1]):
            cell = np.int64(keys[place] >> np.uint64(32))
            reward = rewards[np.int64(keys[place] & np.uint64(0xFFFFFFFF))]
            if cell != previous:
                entry += 1
                previous = cell
                counts[entry] = 1.0
                sums[entry] = reward
                squares[entry] = reward * reward
                continue
            counts[entry] += 1.0
            sums[entry], sum_lows[entry] = _pair_sum(sums[entry], sum_lows[entry], reward, 0.0)
            squares[entry], square_lows[entry] = _pair_sum(
                squares[entry], square_lows[entry], reward * reward, 0.0
            )
    return counts, sums, squares, sum_lows, square_lows


@compiled
def row_sums(indptr: IntArray, values: FloatArray) -> FloatArray:
    """Return the sum of the entries of each row; shape (n_rows,)."""
    totals = np.zeros(len(indptr) - 1)
    for row in range(len(totals)):
        for entry in range(indptr[row], indptr[row + 1]):
            totals[row] += values[entry]
    return totals


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
