"""Rows that stand out of a law: weighted quantiles, and how much of a tail is too much."""

from __future__ import annotations

import numpy as np

from unswayed.estimators.results import FloatArray

NORMAL_QUARTILE = 0.6744897501960817
"""Upper quartile of the standard normal law: turns a median deviation into a standard deviation."""

ALLOWED_DEVIATIONS = 2.0
"""Ours: a tail may hold its expected count plus this many of its standard deviations."""


def weighted_quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the midpoint of the values between which the weight below passes ``level``.

    >>> import numpy as np
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.5)
    2.5
    """
    # Not the stable sort: it takes four times as long, and the order of equal values is idle.
    order = np.argsort(values)
    order = order[weights[order] > 0.0]
    below = np.cumsum(weights[order])
    target = level * below[-1]
    slack = 1e-12 * below[-1]  # a level that falls on an edge must not depend on rounding
    low = int(np.searchsorted(below, target - slack, side="left"))
    high = int(np.searchsorted(below, target + slack, side="left"))
    ordered = values[order]
    return float(0.5 * (ordered[low] + ordered[min(high, order.size - 1)]))


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
    outward = np.argsort(scores, kind="stable")
    tails = np.cumsum(weights[outward][::-1])[::-1]
    expected = weights.sum() * law_tails[outward]
    allowed = expected + ALLOWED_DEVIATIONS * np.sqrt(expected)
    shares = np.ones(scores.size)
    # Only the outer half is a tail: a law wider than the rows must not blame those in the middle.
    np.divide(allowed, tails, out=shares, where=(tails > 0.0) & (law_tails[outward] < 0.5))
    np.minimum.accumulate(np.minimum(shares, 1.0), out=shares)
    # Tied rows share the fate of the first of them, whatever their order.
    ordered = scores[outward]
    first = np.searchsorted(ordered, ordered, side="left")
    kept = np.empty(scores.size)
    kept[outward] = shares[first]
    return kept
