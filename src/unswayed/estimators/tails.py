"""Rows that stand out of a law: weighted quantiles, and how much of a tail is too much."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.compiled import compiled

NORMAL_QUARTILE = 0.6744897501960817
"""Upper quartile of the standard normal law: turns a median deviation into a standard deviation."""

ALLOWED_DEVIATIONS = 2.0
"""Ours: a tail may hold its expected count plus this many of its standard deviations."""

_SAMPLED = 4096
"""Ours: this many values locate a quantile approximately ..."""

_SAMPLE_REACH = 3.0
"""... up to so many times the root of their number: six standard deviations for the median."""


def weighted_quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the midpoint of the values between which the weight below passes ``level``.

    >>> import numpy as np
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.5)
    2.5
    """
    total = float(weights.sum())
    slack = 1e-12 * total  # a level that falls on an edge must not depend on rounding
    least = level * total - slack
    points, masses, below = _near(values, weights, least, *_about(values, weights, level))
    low = _reaching(points, masses, least - below)
    mass, high = _up_to(values, weights, low)
    is_last = mass >= total - slack
    return low if is_last or mass >= least + 2.0 * slack else 0.5 * (low + high)


def _about(values: FloatArray, weights: FloatArray, level: float) -> tuple[float, float]:
    """Return between which values a sample puts the quantile.

    Values of unequal weight may lie elsewhere; then all are taken, as in a short array.
    """
    stride = max(1, values.size // _SAMPLED)
    sample = np.sort(values[::stride][weights[::stride] > 0.0])
    if stride == 1 or sample.size == 0:
        return -np.inf, np.inf
    place, reach = level * sample.size, _SAMPLE_REACH * np.sqrt(sample.size)
    first = sample[int(place - reach)] if place > reach else -np.inf
    last = sample[int(place + reach)] if place + reach < sample.size - 1 else np.inf
    return float(first), float(last)


@compiled
def _near(
    values: FloatArray, weights: FloatArray, least: float, first: float, last: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return the few values among which the weight reaches ``least``, and the weight below them.

    They lie between ``first`` and ``last``, or else anywhere. The branches of the loop over all
    values are easy to predict, which makes it ten times as fast as sorting.
    """
    while True:
        points, masses = np.empty(values.size), np.empty(values.size)
        below, inside, n_inside = 0.0, 0.0, 0
        for row in range(values.size):
            below += weights[row] if values[row] < first else 0.0
            if first <= values[row] <= last and weights[row] > 0.0:
                points[n_inside], masses[n_inside] = values[row], weights[row]
                inside += weights[row]
                n_inside += 1
        if (below < least <= below + inside) or (first == -np.inf and last == np.inf):
            return points[:n_inside], masses[:n_inside], below
        first, last = -np.inf, np.inf


@compiled
def _reaching(points: FloatArray, masses: FloatArray, least: float) -> float:
    """Return the smallest point up to which the mass is ``least``; reorders (quickselect)."""
    first, last, below = 0, points.size, 0.0
    pivot, draw = points[0], np.uint64(1)
    while first < last:
        # Pivots are drawn at random, so no order of the points makes this slow.
        draw = draw * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        pivot = points[first + np.int64((draw >> np.uint64(33)) % np.uint64(last - first))]
        smaller, larger, place = first, last, first
        mass_smaller, mass_equal = 0.0, 0.0
        while place < larger:
            if points[place] < pivot:
                mass_smaller += masses[place]
                _swap(points, masses, place, smaller)
                smaller += 1
                place += 1
            elif points[place] > pivot:
                larger -= 1
                _swap(points, masses, place, larger)
            else:
                mass_equal += masses[place]
                place += 1
        if below + mass_smaller >= least:
            last = smaller
        else:
            below += mass_smaller + mass_equal
            if below >= least:
                break
            first = larger
    return float(pivot)


@compiled
def _swap(points: FloatArray, masses: FloatArray, one: int, other: int) -> None:
    points[one], points[other] = points[other], points[one]
    masses[one], masses[other] = masses[other], masses[one]


@compiled
def _up_to(values: FloatArray, weights: FloatArray, low: float) -> tuple[float, float]:
    """Return the weight of the values up to one of them, and the next larger one or infinity."""
    mass, high = 0.0, np.inf
    for row in range(values.size):
        mass += weights[row] if values[row] <= low else 0.0
        high = min(high, values[row] if values[row] > low and weights[row] > 0.0 else np.inf)
    return mass, high


def robust_variance(values: FloatArray, weights: FloatArray, centre: float) -> float:
    """Return the variance of a normal law with the same median distance from the centre."""
    deviation = weighted_quantile(np.abs(values - centre), weights, 0.5)
    return (deviation / NORMAL_QUARTILE) ** 2


def kept_shares(scores: FloatArray, weights: FloatArray, law_tails: FloatArray) -> FloatArray:
    """Return the share of its weight that each row may keep if the tail is to follow a law.

    Beyond each score at most the expected weight, with an allowance for chance, may stay. The share
    never grows with the score. The allowance vanishes far out, so no row is too far to be removed.

    Parameters
    ----------
    scores
        Shape ``(n_rows,)``: how far out each row lies.
    weights
        Shape ``(n_rows,)``: present weights, in rows.
    law_tails
        Shape ``(n_rows,)``: probability under the law of a score at least as large.

    Returns
    -------
    array
        Shape ``(n_rows,)``, in [0, 1].
    """
    # Only the outer half is a tail: a law wider than the rows must not blame those in the middle.
    outer = np.flatnonzero(law_tails < 0.5)
    outward = outer[np.argsort(scores[outer], kind="stable")]
    tails = np.cumsum(weights[outward][::-1])[::-1]
    expected = weights.sum() * law_tails[outward]
    allowed = expected + ALLOWED_DEVIATIONS * np.sqrt(expected)
    shares = np.ones(outer.size)
    np.divide(allowed, tails, out=shares, where=tails > 0.0)
    np.minimum.accumulate(np.minimum(shares, 1.0), out=shares)
    # Tied rows share the fate of the first of them, whatever their order.
    ordered = scores[outward]
    is_new = np.ones(outer.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    first = np.maximum.accumulate(np.where(is_new, np.arange(outer.size), 0))
    kept = np.ones(scores.size)
    kept[outward] = shares[first]
    return kept
