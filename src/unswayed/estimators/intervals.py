"""Intervals for a mean when some of the points may be bad.

If the range or the standard deviation of the good points is known, they are valid in finite samples
without further assumptions; otherwise they use a normal approximation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.estimators.trimming import check_failure_probability, sort_within_groups

FEWEST_GOOD = 5  # Ours: fewer good points have no normal approximation

# Ours: the fourth-moment count (Σd²)²/Σd⁴ of points that carry the variance must reach this. For
# zero-inflated log-normal points (2 to 20 % of them non-zero, log-scale deviation 1) and a stated
# level of 98 %, at least 97.7 % of 1,000 intervals covered the mean; at a log-scale deviation of
# 1.5, 92.5 % did.
FEWEST_CARRIERS = 3.0


class Intervals(NamedTuple):
    """Ends of intervals, each of shape ``(n_groups,)``; infinite where there is no bound."""

    low: FloatArray
    high: FloatArray


def mean_intervals(
    values: FloatArray,
    groups: IntArray,
    n_groups: int,
    *,
    n_bad: IntArray,
    failure_probability: float,
) -> Intervals:
    """Return an interval for the expected value of the good points of each group.

    ``values`` and ``groups``, shape ``(n_values,)``, are the points and their groups; ``n_bad``,
    shape ``(n_groups,)``, is the number of points of each group that may be bad.
    ``failure_probability`` applies to each group.

    Assumption: the normal approximation. Good points are independent with a common mean (variances
    may differ), and there are enough of them for Student's t, widened for skewness (Johnson 1978).
    It fails if a few good points in a thousand are far larger than the rest.
    ``bounded_mean_intervals`` makes no such assumption, but needs a known range or standard
    deviation.

    Guarantee, under the assumption: whichever n − k points are the good ones, the returned interval
    contains the interval computed from them alone. Their mean is between the mean of the n − k
    smallest and that of the n − k largest points, and their sum of squares is at most that of all
    points. So bad points can widen the interval without limit, but cannot make it miss the mean.

    The paper has no intervals.

    >>> points, groups = np.random.default_rng(0).normal(size=400), np.zeros(400, np.int64)
    >>> points[:40] = 2.0
    >>> low, high = mean_intervals(
    ...     points, groups, 1, n_bad=np.array([50]), failure_probability=0.1
    ... )
    >>> bool(-0.5 < low[0] < 0 < high[0] < 0.7)
    True
    """
    delta = check_failure_probability(failure_probability)
    ordered, starts = sort_within_groups(values, groups, n_groups)
    n_good = np.maximum(np.diff(starts) - n_bad, 0)
    quantiles = special.stdtrit(np.maximum(n_good - 1, 1), 1.0 - delta / 2.0)
    return Intervals(*_free_intervals(ordered, starts, n_bad, quantiles))


@compiled
def _free_intervals(
    ordered: FloatArray, starts: IntArray, n_bad: IntArray, quantiles: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest interval that contains those of all subsets of n − k points."""
    n_groups = n_bad.size
    low, high = np.full(n_groups, -np.inf), np.full(n_groups, np.inf)
    for g in range(n_groups):
        points = ordered[starts[g] : starts[g + 1]]
        n = points.size
        good = n - n_bad[g]
        if good < FEWEST_GOOD:
            continue
        origin = points[n // 2]  # a point near the mean, for precision
        smallest, largest, total = 0.0, 0.0, 0.0
        for j in range(n):
            d = points[j] - origin
            total += d
            if j < good:
                smallest += d
            if j >= n - good:
                largest += d
        mean = total / n
        second, third, fourth = 0.0, 0.0, 0.0
        scale = max(points[n - 1] - origin, origin - points[0])
        if scale <= 0.0:
            continue
        for j in range(n):
            d = (points[j] - origin - mean) / scale
            second += d * d
            third += d * d * d
            fourth += d * d * d * d
        if second * second < FEWEST_CARRIERS * fourth:
            continue
        error = scale * np.sqrt(second / (good - 1) / good)
        skewness = third / n / (second / n) ** 1.5
        z = quantiles[g]
        correction = (1.0 + 2.0 * z * z) / (6.0 * np.sqrt(good)) * skewness
        low[g] = origin + smallest / good - error * (z + max(-correction, 0.0))
        high[g] = origin + largest / good + error * (z + max(correction, 0.0))
    return low, high


N_BETS = 9  # Ours: number of averaged betting strategies, for deviations down to 1/250 of the range
# Ours: the bets are tuned to these shares of outliers among the bad points
WILD_SHARES = (0.0, 0.25, 1.0)
# Ours: bisection steps, for a millionth of the sampling error; ends are rounded outwards
STEPS = 20
TOGETHER = 16  # Number of factors per logarithm, because logarithms are slow
FARTHEST = 1e12  # Ours: interval ends beyond this many deviations count as infinite
# Ours: cap on factors that keeps products finite; a lower cap only widens intervals
LARGEST_FACTOR = 1e9


def bounded_mean_intervals(
    values: FloatArray,
    groups: IntArray,
    n_groups: int,
    *,
    n_bad: IntArray,
    failure_probability: float,
    value_range: tuple[float, float] | None = None,
    deviation: float | None = None,
) -> Intervals:
    """Return an interval for the expected value of good points with a known range or deviation.

    An interval is infinite if a group without a range may be half bad, or if its points contradict
    the given bounds. Parameters are those of ``mean_intervals``; ``value_range``, the smallest and
    the largest value that a good point can have; and ``deviation``, its largest standard deviation.
    At least one of the two is required.

    Guarantee: if the good points of a group are independent, have the same mean μ and respect the
    range or the deviation (they need not be identically distributed), the interval is valid in
    finite samples, whatever the bad points are. The proof in docs/guarantee.md uses the bets of
    Waudby-Smith and Ramdas (2024) and Catoni (2012).

    Width: about the distance between the means of the n − k smallest and the n − k largest points,
    which no method can avoid if any distribution within the range is possible, plus sqrt(2
    log(1/δ)) standard errors at each end. With a deviation τ, an outlier counts at most log 2, so a
    share α of outliers adds about 1.2·τ·sqrt(α).

    >>> clicks = np.random.default_rng(0).binomial(10, 0.3, size=1000) / 10
    >>> groups, n_bad = np.zeros(1000, np.int64), np.array([100])
    >>> low, high = bounded_mean_intervals(
    ...     clicks, groups, 1, n_bad=n_bad, failure_probability=0.1, value_range=(0.0, 1.0)
    ... )
    >>> bool(0.24 < low[0] < 0.3 < high[0] < 0.36)
    True
    """
    delta = check_failure_probability(failure_probability)
    if value_range is None and deviation is None:
        raise InputError(
            "a mean has no bound without a range or a deviation of the points; give one of them."
        )
    ordered, starts = sort_within_groups(values, groups, n_groups)
    low, high = np.full(n_groups, -np.inf), np.full(n_groups, np.inf)
    # Intersect the intervals from the range and from the deviation.
    level = math.log(2.0 / delta * (1 + (value_range is not None and deviation is not None)))
    if value_range is not None:
        first, span = value_range[0], value_range[1] - value_range[0]
        units = np.clip((ordered - first) / span, 0.0, 1.0)
        mirrored = _mirrored(units, starts, 1.0)
        high = first + span * _range_ends(units, starts, n_bad, level)
        low = first + span * (1.0 - _range_ends(mirrored, starts, n_bad, level))
    if deviation is not None:
        units = ordered / deviation
        high = np.minimum(high, deviation * _deviation_ends(units, starts, n_bad, level))
        mirrored = _mirrored(units, starts, 0.0)
        low = np.maximum(low, -deviation * _deviation_ends(mirrored, starts, n_bad, level))
    # Where the ends cross there are more bad points than stated, so there is no bound.
    is_empty = low > high
    first, last = (-np.inf, np.inf) if value_range is None else value_range
    return Intervals(np.where(is_empty, first, low), np.where(is_empty, last, high))


def _mirrored(ordered: FloatArray, starts: IntArray, top: float) -> FloatArray:
    """Return top − x for all points x, in ascending order within groups."""
    places = np.repeat(starts[:-1] + starts[1:] - 1, np.diff(starts)) - np.arange(ordered.size)
    return top - ordered[places]


@compiled
def _range_ends(ordered: FloatArray, starts: IntArray, n_bad: IntArray, level: float) -> FloatArray:
    """Return the smallest mean of points in [0, 1] that is rejected as too large, or one."""
    ends = np.ones(starts.size - 1)
    needed = level + np.log(N_BETS)
    bets = np.empty(N_BETS)
    for g in range(ends.size):
        n_good = starts[g + 1] - starts[g] - n_bad[g]
        if n_good < 1:
            continue
        points = ordered[starts[g + 1] - n_good : starts[g + 1]]
        bets[0] = 1.0
        for j in range(1, N_BETS):
            bets[j] = np.sqrt(8.0 * needed / n_good) * 2.0 ** (j - 1)
        mean = points.mean()
        low, high = mean, min(mean + np.sqrt(needed / (2.0 * n_good)), 1.0)
        if high < 1.0 and not _beats_range(points, bets, high, needed):
            low, high = high, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2.0
            if _beats_range(points, bets, middle, needed):
                high = middle
            else:
                low = middle
        ends[g] = high
    return ends


@compiled
def _beats_range(points: FloatArray, bets: FloatArray, m: float, needed: float) -> bool:
    """Return whether bets that the mean is below m gain enough to reject m.

    A bet is valid if no point can make its capital negative. More bets become valid as m grows, so
    the result is monotone in m.
    """
    total = 0.0
    for bet in bets:
        if bet * (1.0 - m) > 1.0:
            continue
        gain = 0.0
        for first in range(0, points.size, TOGETHER):
            product = 1.0
            for i in range(first, min(first + TOGETHER, points.size)):
                product *= 1.0 + bet * (m - points[i])
            if product <= 0.0:
                gain = -np.inf
                break
            gain += np.log(product)
        if gain > needed:
            return True
        total += np.exp(gain - needed)
    return total > 1.0


@compiled
def _deviation_ends(
    ordered: FloatArray, starts: IntArray, n_bad: IntArray, level: float
) -> FloatArray:
    """Return the smallest mean that is rejected as too large, if the standard deviation is one."""
    ends = np.full(starts.size - 1, np.inf)
    needed = level + np.log(N_BETS)
    bets = np.empty(N_BETS)
    for g in range(ends.size):
        points = ordered[starts[g] : starts[g + 1]]
        k = n_bad[g]
        n_good = points.size - k
        if n_good <= k:
            continue
        for i in range(len(WILD_SHARES)):
            best = np.sqrt(2.0 * (needed + WILD_SHARES[i] * k * np.log(2.0)) / n_good)
            for j in range(3):
                bets[3 * i + j] = best * 2.0 ** (j - 1)
        # Search outwards from the middle, doubling the step, until the end is bracketed.
        low = high = points[points.size // 2]
        step = 1.0
        if _beats_deviation(points, k, bets, low, needed):
            while _beats_deviation(points, k, bets, low, needed) and step < FARTHEST:
                low, high, step = low - step, low, 2.0 * step
        else:
            while not _beats_deviation(points, k, bets, high, needed) and step < FARTHEST:
                low, high, step = high, high + step, 2.0 * step
            if step >= FARTHEST:
                continue
        for _ in range(STEPS):
            middle = (low + high) / 2.0
            if _beats_deviation(points, k, bets, middle, needed):
                high = middle
            else:
                low = middle
        ends[g] = high
    return ends


@compiled
def _beats_deviation(points: FloatArray, k: int, bets: FloatArray, m: float, needed: float) -> bool:
    """Return whether bets that the mean is below m gain enough to reject m."""
    total = 0.0
    for bet in bets:
        fee = np.exp(-0.5 * bet * bet)
        gain = 0.0
        for first in range(0, points.size, TOGETHER):
            product = 1.0
            for i in range(first, min(first + TOGETHER, points.size)):
                y = max(bet * (m - points[i]), -1.0)
                factor = min(1.0 + y + 0.5 * y * y, LARGEST_FACTOR) * fee
                if i >= k or factor < 1.0:  # the k smallest may be bad
                    product *= factor
            gain += np.log(product)
        if gain > needed:
            return True
        total += np.exp(gain - needed)
    return total > 1.0
