"""Which means the good points of a group can have, whichever points are the bad ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.compiled import compiled
from unswayed.estimators.results import FloatArray, IntArray
from unswayed.estimators.trimming import sort_within_groups


@dataclass(frozen=True, slots=True, eq=False)
class MeanRanges:
    """Ranges of means; every array has shape ``(n_groups,)``, NaN for a group without points.

    Attributes
    ----------
    low, high
        The smallest and the largest mean of the points that are left when at most ``n_bad`` are
        taken away.
    standard_errors
        Of the mean of all points.
    """

    low: FloatArray
    high: FloatArray
    standard_errors: FloatArray


def mean_ranges(
    values: FloatArray, groups: IntArray, n_groups: int, *, n_bad: IntArray, n_zeros: IntArray
) -> MeanRanges:
    """Return, for every group, the range of means that its good points can have.

    Parameters
    ----------
    values, groups
        Shape ``(n_values,)``: points, and their group.
    n_bad
        Shape ``(n_groups,)``: how many points of each group may be bad.
    n_zeros
        Shape ``(n_groups,)``: further points that are zero and were not stored.

    Notes
    -----
    Guarantee: if at most ``n_bad`` points are bad, the mean of the good ones lies in the range;
    no narrower range has this property. Points at the ends widen it, so clip them to what good
    points can be first.

    Examples
    --------
    >>> points, groups = np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64)
    >>> result = mean_ranges(points, groups, 1, n_bad=np.array([1]), n_zeros=np.array([2]))
    >>> result.low, result.high
    (array([0.75]), array([1.5]))
    """
    is_stored = values != 0.0
    ordered, starts = sort_within_groups(values[is_stored], groups[is_stored], n_groups)
    n_points = np.bincount(groups, minlength=n_groups) + n_zeros
    n_kept = np.maximum(n_points - n_bad, np.minimum(n_points, 1))
    return MeanRanges(*_ranges(ordered, starts, n_points, n_kept))


@compiled
def _ranges(
    ordered: FloatArray, starts: IntArray, n_points: IntArray, n_kept: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Average the ``n_kept`` smallest and largest points; zeros sit between the signs."""
    n_groups = n_points.size
    low = np.full(n_groups, np.nan)
    high = np.full(n_groups, np.nan)
    errors = np.full(n_groups, np.nan)
    for g in range(n_groups):
        n, kept = n_points[g], n_kept[g]
        if n == 0:
            continue
        stored = ordered[starts[g] : starts[g + 1]]
        n_negative = np.searchsorted(stored, 0.0)
        n_zero = n - stored.size
        smallest, largest, total = 0.0, 0.0, 0.0
        for j in range(stored.size):
            rank = j if j < n_negative else j + n_zero
            total += stored[j]
            if rank < kept:
                smallest += stored[j]
            if rank >= n - kept:
                largest += stored[j]
        low[g], high[g] = smallest / kept, largest / kept
        mean = total / n
        square = n_zero * mean * mean
        for j in range(stored.size):
            square += (stored[j] - mean) ** 2
        errors[g] = np.sqrt(square / max(n - 1, 1) / n)
    return low, high, errors
