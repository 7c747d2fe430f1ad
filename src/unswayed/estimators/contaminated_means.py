"""Intervals for a mean when some of the points may be bad: rewards of any kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.estimators.inputs import check_failure_probability
from unswayed.estimators.trimming import binomial_lower_quantiles, sort_within_groups

FEWEST_GOOD = 5
"""Ours: with fewer good points than this no normal approximation is attempted."""

FEWEST_CARRIERS = 3.0
"""Ours: the fourth-moment count (Σd²)²/Σd⁴ of points that carry the variance must reach this. Of
1,000 groups of zero-inflated log-normal points, 2 to 20 % of them not zero, deviation 1 in logs,
97.7 % or more were covered where .98 was stated; 92.5 % or more at a deviation of 1.5."""

TAIL_RATIO = 4.0
"""Ours: good points are taken to have a standard deviation of at most this many times their median
absolute deviation: 1.5 for normal points, 2.8 for Student's t with 2.5 degrees of freedom."""


LARGEST_LEAN = 0.25
"""Ours: largest lean of the quartiles, (q3 + q1 - 2 q2)/(q3 - q1), at which tails are taken to be
light. A fifth of the points at one end makes .2 of symmetric ones; exponential points have .26."""

ROUNDING = 1e-7
"""How much larger a lean may be by rounding: rewards of one and of ten million and one are to be
treated alike."""


class Intervals(NamedTuple):
    """Ends of intervals; shape ``(n_groups,)`` each, infinite where there is no bound."""

    low: FloatArray
    high: FloatArray


def mean_intervals(
    values: FloatArray,
    groups: IntArray,
    n_groups: int,
    *,
    n_bad: IntArray,
    failure_probability: float,
    has_light_tails: bool = True,
) -> Intervals:
    """Return an interval for the mean that the good points of each group were drawn with.

    Parameters
    ----------
    values, groups
        Shape ``(n_values,)``: points, and their group.
    n_bad
        Shape ``(n_groups,)``: how many points of each group may be bad.
    failure_probability
        Allowed for each group.
    has_light_tails
        Whether the second interval below may be used.

    Notes
    -----
    Guarantee: good points are independent with a common mean; they may have different variances.
    Whichever n − k points are the good ones, their own interval by Student's t, widened for
    skewness (Johnson 1978), lies in the first interval here: its mean is between the mean of the
    n − k smallest and that of the n − k largest points, and its sum of squares is at most that of
    all. So the interval holds whatever the bad points are, as far as the normal approximation does.

    Wild points make that wide. Where the middle of the points looks symmetric (``LARGEST_LEAN``),
    a second interval assumes ``TAIL_RATIO``: points are clipped to c around their median,
    c = τ/(2·sqrt(k/n)), which moves the mean of points with deviation τ by at most τ²/(4c). It
    stays bounded for k < n/3. The intersection is returned.

    ``median_intervals`` would be narrower for symmetric points. It has no part in this, since bad
    points below can make skewed ones look symmetric, and then it misses the mean.

    Deviation from the paper: it has no intervals.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=400)
    >>> points[:40] = 1e9
    >>> groups = np.zeros(400, np.int64)
    >>> low, high = mean_intervals(
    ...     points, groups, 1, n_bad=np.array([50]), failure_probability=0.1
    ... )
    >>> bool(-3 < low[0] < 0 < high[0] < 3)
    True
    """
    delta = check_failure_probability(failure_probability)
    if has_light_tails:
        delta /= 2.0  # two intervals
    ordered, starts = sort_within_groups(values, groups, n_groups)
    n_good = np.maximum(np.diff(starts) - n_bad, 0)
    quantiles = special.stdtrit(np.maximum(n_good - 1, 1), 1.0 - delta / 2.0)
    low, high = _free_intervals(ordered, starts, n_bad, quantiles)
    if not has_light_tails:
        return Intervals(low, high)
    clipped, margins = _clipped_to_tails(ordered, starts, n_bad)
    clipped_low, clipped_high = _free_intervals(clipped, starts, n_bad, quantiles)
    return Intervals(
        np.maximum(low, clipped_low - margins), np.minimum(high, clipped_high + margins)
    )


def median_intervals(
    values: FloatArray,
    groups: IntArray,
    n_groups: int,
    *,
    n_bad: IntArray,
    failure_probability: float,
) -> Intervals:
    """Return an interval for the centre of symmetry of the good points of each group.

    Parameters
    ----------
    values, groups, n_bad, failure_probability
        As ``mean_intervals`` takes them.

    Notes
    -----
    Guarantee: good points are independent and symmetric around one centre. The ends are order
    statistics number j from each side, where j is the lower quantile of a binomial number with
    n − k trials and probability one half. Bad points can only move an order statistic outwards or
    leave it among the good ones, so the interval holds exactly, whatever they are. Infinite where
    j is zero.

    Examples
    --------
    >>> points, groups = np.arange(101.0), np.zeros(101, np.int64)
    >>> median_intervals(points, groups, 1, n_bad=np.array([10]), failure_probability=0.05)
    Intervals(low=array([35.]), high=array([65.]))
    """
    delta = check_failure_probability(failure_probability)
    ordered, starts = sort_within_groups(values, groups, n_groups)
    n_good = np.maximum(np.diff(starts) - n_bad, 0)
    ranks = binomial_lower_quantiles(n_good, 0.5, delta / 2.0)
    is_bounded = ranks > 0
    low, high = np.full(n_groups, -np.inf), np.full(n_groups, np.inf)
    low[is_bounded] = ordered[starts[:-1][is_bounded] + ranks[is_bounded] - 1]
    high[is_bounded] = ordered[starts[1:][is_bounded] - ranks[is_bounded]]
    return Intervals(low, high)


@compiled
def _free_intervals(
    ordered: FloatArray, starts: IntArray, n_bad: IntArray, quantiles: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the hull of the intervals of all sets of n − k points."""
    n_groups = n_bad.size
    low, high = np.full(n_groups, -np.inf), np.full(n_groups, np.inf)
    for g in range(n_groups):
        points = ordered[starts[g] : starts[g + 1]]
        n = points.size
        good = n - n_bad[g]
        if good < FEWEST_GOOD:
            continue
        origin = points[n // 2]  # differences from it keep their digits at any offset
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


@compiled
def _clipped_to_tails(
    ordered: FloatArray, starts: IntArray, n_bad: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the points clipped around their medians, and how far that may move a mean."""
    clipped = ordered.copy()
    margins = np.full(n_bad.size, np.inf)
    for g in range(n_bad.size):
        points = ordered[starts[g] : starts[g + 1]]
        n, k = points.size, n_bad[g]
        if n == 0 or k == 0 or 3 * k >= n:
            continue
        if abs(_lean(points)) > LARGEST_LEAN + ROUNDING:
            continue
        centre = points[n // 2]
        distances = np.sort(np.abs(points - centre))
        # At least half of the good points are no farther than this, whoever the bad ones are.
        deviation = TAIL_RATIO * distances[(n + k + 1) // 2]
        if deviation <= 0.0:
            continue
        reach = deviation / (2.0 * np.sqrt(k / n))
        margins[g] = deviation * deviation / (4.0 * reach)
        for j in range(n):
            clipped[starts[g] + j] = min(max(points[j], centre - reach), centre + reach)
    return clipped, margins


@compiled
def _lean(points: FloatArray) -> float:
    """Return how far the median of sorted points is from the middle of the quartiles (Bowley)."""
    n = points.size
    low, middle, high = points[n // 4], points[n // 2], points[n - 1 - n // 4]
    if high <= low:
        return 1.0
    return float((high - middle) - (middle - low)) / float(high - low)
