"""Robust means in one dimension: trimmed means, clipped means and medians of means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.estimators.rows import check_finite
from unswayed.names import known_keywords

# Ours. Default; callers with many groups divide it by their number
DEFAULT_FAILURE_PROBABILITY = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class UnivariateEstimate:
    """The estimate of one mean.

    ``is_covered`` is False if there were too few points to trim an upper quantile of the number of
    bad points.
    """

    estimate: float
    is_covered: bool


@dataclass(frozen=True, slots=True, eq=False)
class GroupedEstimates:
    """Trimmed means of many groups; both arrays have shape ``(n_groups,)``."""

    estimates: FloatArray  # NaN for a group without points
    is_covered: BoolArray  # False if the group was too small, and its median was used


def _checked_points(values: ArrayLike) -> FloatArray:
    """Return the points of a one-dimensional estimator as floats; raise if they are invalid."""
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 1:
        raise InputError(f"values has {points.ndim} dimensions: give a one-dimensional array.")
    if points.size == 0:
        raise InputError("values is empty: a mean needs at least one point.")
    check_finite(points, name="values")
    return points


def check_failure_probability(value: float) -> float:
    """Return the failure probability as a float; raise if it is invalid."""
    if not 0.0 < value < 1.0:  # also rejects NaN
        raise InputError(f"failure_probability is {value}: it must lie between 0 and 1.")
    return float(value)


@overload
def trim_count(n_points: int, *, alpha: float, failure_probability: float) -> int: ...
@overload
def trim_count(n_points: IntArray, *, alpha: float, failure_probability: float) -> IntArray: ...
def trim_count(
    n_points: int | IntArray, *, alpha: float, failure_probability: float
) -> int | IntArray:
    """Return an upper bound on the number of bad points in a random group.

    The smallest ``k`` with ``P(Binomial(n, alpha) > k) <= failure_probability``, for the size of a
    group or an array of sizes; trimming only ``ceil(alpha * n)`` points would fail about half of
    the time. It can reach half of a small group: ``trimmed_mean`` then returns the median and sets
    ``is_covered`` to False.

    Guarantee: exact for members drawn independently; conservative for draws without replacement,
    since the hypergeometric distribution has a smaller variance. The paper trims a fixed multiple
    of the expected count.

    >>> trim_count(100, alpha=0.2, failure_probability=0.05)
    27
    """
    alpha = check_adversarial_fraction(alpha)
    delta = check_failure_probability(failure_probability)
    sizes, positions = np.unique(np.asarray(n_points, dtype=np.int64), return_inverse=True)
    if sizes.size and sizes[0] < 0:
        raise InputError(f"n_points is {sizes[0]}: the size of a group cannot be negative.")
    counts = binomial_upper_quantiles(sizes, alpha, delta)[positions]
    return int(counts[()]) if np.ndim(n_points) == 0 else counts.reshape(np.shape(n_points))


def binomial_upper_quantiles(sizes: IntArray, share: float | FloatArray, level: float) -> IntArray:
    """Return the smallest k with P(B > k) at most ``level`` for binomial B.

    Same result as ``scipy.stats.binom.isf``, whose import takes half a second; computed by
    bisection.
    """
    is_over, covers = np.full(sizes.shape, -1), sizes.copy()
    while (is_open := covers - is_over > 1).any():
        middle = (is_over + covers) // 2
        a, b = np.maximum(middle + 1, 1), np.maximum(sizes - middle, 1)
        is_covering = special.betainc(a, b, share) <= level  # P(X > middle)
        covers = np.where(is_open & is_covering, middle, covers)
        is_over = np.where(is_open & ~is_covering, middle, is_over)
    return covers


@known_keywords(adversarial_fraction="alpha")
def trimmed_mean(
    values: ArrayLike,
    *,
    alpha: float,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
    n_trimmed: int | None = None,
) -> UnivariateEstimate:
    """Estimate a mean after removing, at each end, as many points as may be bad.

    ``values`` have shape ``(n_points,)``; a share ``alpha`` of the population, below 1/2, is bad.
    ``n_trimmed`` points are removed at each end, by default ``trim_count``. If none would be left,
    the median is returned and ``is_covered`` is False.

    Guarantee: with probability ``1 - failure_probability`` every bad point that is kept lies
    between two good points. For good points with variance σ² the bias is then O(σ sqrt(alpha)), and
    O(σ alpha sqrt(log 1/alpha)) if they are sub-Gaussian. Deviation from the paper: plain symmetric
    trimming instead of the split version, whose constants are too large for most groups; see
    ``lugosi_mendelson_mean``.

    >>> trimmed_mean([1.0, 2.0, 3.0, 4.0, 1e9], alpha=0.1).estimate
    3.0
    """
    points = _checked_points(values)
    n_bad = n_trimmed
    if n_bad is None:
        n_bad = trim_count(points.size, alpha=alpha, failure_probability=failure_probability)
    if n_bad < 0:
        raise InputError(f"n_trimmed is {n_trimmed}: it cannot be negative.")
    members = np.zeros(points.size, np.int64)
    found = _trimmed(points, members, np.array([points.size]), np.array([n_bad]))
    return UnivariateEstimate(float(found.estimates[0]), bool(found.is_covered[0]))


@known_keywords(adversarial_fraction="alpha")
def trimmed_means(
    values: ArrayLike,
    groups: ArrayLike,
    n_groups: int,
    *,
    alpha: float,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
    n_zeros: ArrayLike | None = None,
) -> GroupedEstimates:
    """Estimate the trimmed mean of every group in one pass.

    Equal to ``trimmed_mean`` on each group, to the last bit, with its guarantee and deviations.
    ``values`` and ``groups``, shape ``(n_values,)``, are the points of all groups, in any order,
    and their groups; ``n_zeros``, shape ``(n_groups,)``, counts further points of each group, all
    zero, that are not stored. ``failure_probability`` applies to each group.

    >>> points, groups, n_zeros = [4.0, 2.0, 5.0], [0, 0, 1], [2, 0]
    >>> trimmed_means(points, groups, 2, alpha=0.0, n_zeros=n_zeros).estimates
    array([1.5, 5. ])
    """
    points = np.asarray(values, dtype=np.float64)
    members = np.asarray(groups, dtype=np.int64)
    if points.ndim != 1 or points.shape != members.shape:
        raise InputError(
            f"values has shape {points.shape} and groups {members.shape}: "
            "give one group for each value."
        )
    check_finite(points, name="values")
    if members.size and (members.min() < 0 or members.max() >= n_groups):
        raise InputError(f"groups must lie between 0 and {n_groups - 1}.")
    implicit = np.zeros(n_groups, np.int64) if n_zeros is None else np.asarray(n_zeros, np.int64)
    if implicit.shape != (n_groups,) or (implicit < 0).any():
        raise InputError(f"n_zeros must hold {n_groups} counts, none of them negative.")

    n_points = np.bincount(members, minlength=n_groups) + implicit
    n_bad = trim_count(n_points, alpha=alpha, failure_probability=failure_probability)
    return _trimmed(points, members, n_points, n_bad)


def _trimmed(
    points: FloatArray, members: IntArray, n_points: IntArray, n_bad: IntArray
) -> GroupedEstimates:
    """Trim as many points at each end of a group as may be bad, but keep the middle one or two."""
    n_cut = cuts(n_points, n_bad)
    is_stored = points != 0.0
    ordered, starts = sort_within_groups(points[is_stored], members[is_stored], n_points.size)
    return GroupedEstimates(_kernel(ordered, starts, n_points, n_cut), n_cut == n_bad)


def cuts(n_points: IntArray, n_bad: IntArray) -> IntArray:
    """Return how many points to remove at each end, so that at least one or two are left."""
    return np.asarray(np.minimum(n_bad, np.maximum((n_points - 1) // 2, 0)))


@compiled
def sort_within_groups(
    points: FloatArray, members: IntArray, n_groups: int
) -> tuple[FloatArray, IntArray]:
    """Return the points sorted by group and then by value, and where each group starts."""
    starts = np.zeros(n_groups + 1, np.int64)
    for group in members:
        starts[group + 1] += 1
    for group in range(n_groups):
        starts[group + 1] += starts[group]
    place = starts[:-1].copy()
    ordered = np.empty_like(points)
    for i in range(points.size):
        ordered[place[members[i]]] = points[i]
        place[members[i]] += 1
    for group in range(n_groups):
        ordered[starts[group] : starts[group + 1]] = np.sort(
            ordered[starts[group] : starts[group + 1]]
        )
    return ordered, starts


@compiled
def _kernel(
    ordered: FloatArray, starts: IntArray, n_points: IntArray, n_cut: IntArray
) -> FloatArray:
    """Return the trimmed mean of each group.

    ``ordered`` holds the non-zero points of each group, in ascending order; zeros, which lie
    between the negative and the positive points, are only counted.
    """
    estimates = np.full(n_points.size, np.nan)
    for g in range(n_points.size):
        n, cut = n_points[g], n_cut[g]
        if n == 0:
            continue
        stored = ordered[starts[g] : starts[g + 1]]
        n_negative = np.searchsorted(stored, 0.0)
        n_zero = n - stored.size
        # Ranks [cut, n - cut) are kept. Stored point j has rank j, or j + n_zero if it is positive.
        total = 0.0
        for j in range(stored.size):
            rank = j if j < n_negative else j + n_zero
            if cut <= rank < n - cut:
                total += stored[j]
        estimates[g] = total / (n - 2 * cut)
    return estimates


# Lugosi and Mendelson's: the clipped share is 8 times the corrupted share plus 12 log(4/δ)/N.
CORRUPTION_FACTOR, CONFIDENCE_FACTOR = 8.0, 12.0
# Ours, the usual constant of the median of means: blocks per log(1/δ)
BLOCKS_PER_LOG = 8.0


@known_keywords(adversarial_fraction="alpha")
def lugosi_mendelson_mean(
    values: ArrayLike,
    *,
    alpha: float,
    rng: np.random.Generator,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
) -> UnivariateEstimate:
    """Estimate a mean by clipping one half of the points at quantiles of the other half.

    ``rng`` draws the split; the order of the points does not matter, and if their number is odd,
    one is omitted. ``alpha`` is the share η of bad points among them, ``failure_probability`` is δ,
    and there must be enough points that 8η + 12 log(4/δ)/N is below 1/2.

    Guarantee (Lugosi and Mendelson 2021, Theorem 1): for good points with variance σ², an error of
    O(σ (sqrt(η) + sqrt(log(1/δ)/N))) with probability 1 − δ.
    Deviations: none.

    >>> points = np.append(np.full(4000, 7.0), [1e9] * 4)
    >>> lugosi_mendelson_mean(points, alpha=0.001, rng=np.random.default_rng(0)).estimate
    7.0
    """
    points = _checked_points(values)
    alpha = check_adversarial_fraction(alpha)
    delta = check_failure_probability(failure_probability)
    half = points.size // 2
    confidence = CONFIDENCE_FACTOR * math.log(4.0 / delta)
    room = 0.5 - CORRUPTION_FACTOR * alpha  # share of blocks left for the confidence
    if half * room <= confidence:
        reason = (
            f": it needs at least {2 * (math.floor(confidence / room) + 1)} here; use trimmed_mean "
            "below that."
            if room > 0.0
            else f" at alpha {alpha}: it only works below 1/{2 * CORRUPTION_FACTOR:g}, so use "
            "trimmed_mean or median_of_means."
        )
        raise InputError(f"The split trimmed mean cannot use {points.size} points{reason}")
    n_cut = math.floor((CORRUPTION_FACTOR * alpha + confidence / half) * half)
    # Sorting before the split makes the result independent of the order of the points.
    shuffled = np.argsort(points, kind="stable")[rng.permutation(points.size)]
    averaged, ordered = shuffled[:half], np.sort(points[shuffled[half : 2 * half]])
    low, high = ordered[n_cut], ordered[half - 1 - n_cut]
    clipped = np.clip(points[averaged], low, high)
    return UnivariateEstimate(float(np.mean(clipped)), is_covered=True)


@known_keywords(adversarial_fraction="alpha")
def median_of_means(
    values: ArrayLike,
    *,
    alpha: float,
    rng: np.random.Generator,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
) -> UnivariateEstimate:
    """Estimate a mean by the median of the means of random blocks.

    ``rng`` draws the blocks; the order of the points does not matter. ``failure_probability`` is δ,
    split between the number of bad points and the block means. There are twice as many blocks as
    bad points, plus 1 + 8 log(1/δ); with fewer points than that, each block is one point.

    Guarantee: with B bad points and K > 2B blocks most blocks are free of bad points, and the
    error is O(σ sqrt(K/n)) with probability 1 − δ.
    Deviations: none; the paper uses it for an adversarial fraction of 1/16 and more.

    >>> points = [7.0] * 99 + [1e9]
    >>> median_of_means(points, alpha=0.01, rng=np.random.default_rng(0)).estimate
    7.0
    """
    points = _checked_points(values)
    n_points = points.size
    n_bad = trim_count(n_points, alpha=alpha, failure_probability=failure_probability)
    n_blocks = 2 * n_bad + 1 + math.ceil(BLOCKS_PER_LOG * math.log(1.0 / failure_probability))
    n_used = min(n_blocks, n_points)
    shuffled = np.argsort(points, kind="stable")[rng.permutation(n_points)]
    block = np.arange(n_points) % n_used  # sizes differ by at most one
    sizes = np.bincount(block, minlength=n_used)
    means = np.bincount(block, weights=points[shuffled], minlength=n_used) / sizes
    return UnivariateEstimate(float(np.median(means)), is_covered=2 * n_bad < n_used)
