"""How many points must be replaced before another group's trimmed mean is the largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.estimators.trimming import sort_within_groups

NO_RIVAL = -1
"""Marker for a leader that no rival can overtake."""

ROUNDING_FACTOR = 8.0
"""Ours: a sum of n points errs by at most n·u·Σ|x| (u the unit roundoff). A window's mean is a
difference of two such sums, and the estimator errs as much again; 8 is twice what these need."""


@dataclass(frozen=True, slots=True, eq=False)
class TrimmedFlips:
    """What it takes to change the largest trimmed mean of each row; shapes ``(n_rows,)``.

    Attributes
    ----------
    fewest
        No fewer replaced or removed points let another group win; certified.
    enough
        This many replaced points let ``rivals`` win; equal to ``fewest`` but for ties within
        rounding errors. 0 where no rival can be made to win.
    rivals
        The column that wins then, or ``NO_RIVAL``.
    from_leader, from_rival
        How ``enough`` is spent: the largest points of the leader are replaced by very small ones,
        the smallest points of the rival by very large ones.
    """

    fewest: IntArray
    enough: IntArray
    rivals: IntArray
    from_leader: IntArray
    from_rival: IntArray


def trimmed_flips(
    values: FloatArray,
    groups: IntArray,
    *,
    n_zeros: IntArray,
    n_cut: IntArray,
    leaders: IntArray,
    is_known: BoolArray,
    margins: FloatArray | None = None,
) -> TrimmedFlips:
    """Count the points that must be replaced before a leader's trimmed mean is overtaken.

    Parameters
    ----------
    values, groups
        Shape ``(n_values,)``: points, and their group ``row * n_columns + column``.
    n_zeros, n_cut
        Shape ``(n_rows, n_columns)``: further points that are zero and not stored, and how many
        points are trimmed at each end.
    leaders
        Shape ``(n_rows,)``: the column with the largest trimmed mean, of equal ones the first.
    is_known
        Shape ``(n_rows, n_columns)``: whether the column takes part. A column with points that does
        not take part does so once one of its points was replaced.
    margins
        Shape ``(n_rows,)``: by how much the difference of two trimmed means of a row may be off
        besides; ``fewest`` holds for all such differences. Zero by default.

    Notes
    -----
    Guarantee: exact. Let x be a group's n points in order and c its cut. Whatever k ≤ c points are
    replaced by, the j-th smallest of the new points is at most the (j+k)-th smallest of the old
    ones. So the trimmed mean is at most the mean of ranks c+k … n−c+k, and replacing the k smallest
    points by very large ones attains it. With k > c there is no bound. Downwards alike. The groups
    of a row share no point, so the budget is split over leader and rival, and every split is tried.
    Removing points does less: it shifts the lower rank by as much and the upper rank by less,
    because c falls by at most one for each point removed.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    >>> two = np.zeros((1, 2), np.int64)
    >>> flips = trimmed_flips(
    ...     points, np.repeat([0, 1], 5), n_zeros=two, n_cut=two + 1,
    ...     leaders=np.array([0]), is_known=two == 0,
    ... )  # one at each end: means 7 and 3; replacing one moves each by 1, two by any amount
    >>> flips.fewest.tolist(), flips.enough.tolist()
    ([2], [2])
    """
    is_stored = values != 0.0
    ordered, starts = sort_within_groups(values[is_stored], groups[is_stored], n_cut.size)
    n_points = np.bincount(groups, minlength=n_cut.size) + n_zeros.ravel()
    counts = np.zeros((len(leaders), 5), np.int64)
    _count_flips(
        ordered,
        starts,
        n_points.reshape(n_cut.shape),
        n_cut.astype(np.int64),
        leaders.astype(np.int64),
        is_known,
        np.zeros(len(leaders)) if margins is None else margins,
        counts,
    )
    return TrimmedFlips(*(np.ascontiguousarray(column) for column in counts.T))


@compiled
def _count_flips(
    ordered: FloatArray,
    starts: IntArray,
    n_points: IntArray,
    n_cut: IntArray,
    leaders: IntArray,
    is_known: BoolArray,
    margins: FloatArray,
    counts: IntArray,
) -> None:
    """Fill the columns of ``counts`` with the fields of ``TrimmedFlips``, row by row."""
    n_rows, n_columns = n_points.shape
    for row in range(n_rows):
        leader = leaders[row]
        group = row * n_columns + leader
        falls, slack = _windows(
            ordered[starts[group] : starts[group + 1]],
            n_points[row, leader],
            n_cut[row, leader],
            -1,
        )
        # Replacing the whole group takes the leader out, whatever the rivals are.
        counts[row, 0] = n_points[row, leader]
        counts[row, 2] = NO_RIVAL
        for column in range(n_columns):
            if column == leader or n_points[row, column] == 0:
                continue
            group = row * n_columns + column
            rises, more = _windows(
                ordered[starts[group] : starts[group + 1]],
                n_points[row, column],
                n_cut[row, column],
                1,
            )
            first = 0 if is_known[row, column] else 1
            tolerance = slack + more
            # A tie may go either way; without any rounding error it still is one.
            at_most = -tolerance - margins[row] - np.finfo(np.float64).tiny
            lowest, _ = _cheapest_split(falls, rises, first, at_most)
            counts[row, 0] = min(counts[row, 0], max(lowest, 1))
            total, fallen = _cheapest_split(falls, rises, first, tolerance)
            if counts[row, 2] == NO_RIVAL or total < counts[row, 1]:
                counts[row, 1] = total
                counts[row, 2] = column
                counts[row, 3] = fallen
                counts[row, 4] = total - fallen


@compiled
def _windows(stored: FloatArray, n: int, cut: int, side: int) -> tuple[FloatArray, float]:
    """Return the trimmed mean after k = 0 … cut + 1 replacements towards a side, and its error.

    ``stored`` holds the group's points that are not zero, ascending.
    """
    sums = np.zeros(stored.size + 1)
    size = 0.0
    for j in range(stored.size):
        sums[j + 1] = sums[j] + stored[j]
        size += abs(stored[j])
    n_negative = int(np.searchsorted(stored, 0.0))
    n_zero = n - stored.size
    n_kept = n - 2 * cut
    means = np.empty(cut + 2)
    for k in range(cut + 1):
        low = _ranks_to_stored(cut + side * k, n_negative, n_zero)
        high = _ranks_to_stored(n - cut + side * k, n_negative, n_zero)
        means[k] = (sums[high] - sums[low]) / n_kept
    means[cut + 1] = side * np.inf
    return means, ROUNDING_FACTOR * n * np.finfo(np.float64).eps * size / n_kept


@compiled
def _ranks_to_stored(rank: int, n_negative: int, n_zero: int) -> int:
    """Return how many stored points are among the ``rank`` smallest of stored and zeros."""
    return min(rank, n_negative) + max(0, rank - n_negative - n_zero)


@compiled
def _cheapest_split(
    falls: FloatArray, rises: FloatArray, first: int, tolerance: float
) -> tuple[int, int]:
    """Return the fewest replacements with rise > fall + tolerance, and those in the leader."""
    best, fallen = falls.size + rises.size, 0
    rise = rises.size - 1
    for fall in range(falls.size):
        # The lower the leader, the less the rival must rise.
        while rise > first and rises[rise - 1] > falls[fall] + tolerance:
            rise -= 1
        if rises[rise] > falls[fall] + tolerance and fall + rise < best:
            best, fallen = fall + rise, fall
    return best, fallen
