"""Binomial sums that stay accurate for a billion plays: no overflow, no cancellation."""

from __future__ import annotations

import math

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled

NEGLIGIBLE = 1e-300
"""Ours: outcomes rarer than this, relative to the likeliest, are left out of every sum."""


@compiled
def binomial_window(n: int, p: float) -> tuple[int, FloatArray]:
    """Return the binomial probabilities where they are not negligible.

    From the likeliest count outwards each probability follows from its neighbour, and the sum of
    all scales them, so no factorial is ever formed. About 74·sqrt(n p (1−p)) entries.

    Parameters
    ----------
    n, p
        Number of draws and probability of a one.

    Returns
    -------
    first, probabilities
        ``probabilities[j]`` is P(K = first + j).
    """
    if p <= 0.0:
        return 0, np.ones(1)
    if p >= 1.0:
        return n, np.ones(1)
    mode = min(n, int((n + 1) * p))
    odds = p / (1.0 - p)

    weight, last = 1.0, mode
    while last < n:
        weight *= (n - last) / (last + 1) * odds
        if weight < NEGLIGIBLE:
            break
        last += 1
    weight, first = 1.0, mode
    while first > 0:
        weight *= first / (n - first + 1) / odds
        if weight < NEGLIGIBLE:
            break
        first -= 1

    weights = np.empty(last - first + 1)
    weights[mode - first] = 1.0
    for k in range(mode, last):
        weights[k + 1 - first] = weights[k - first] * ((n - k) / (k + 1) * odds)
    for k in range(mode, first, -1):
        weights[k - 1 - first] = weights[k - first] * (k / (n - k + 1) / odds)

    total, lost = 0.0, 0.0
    for weight in weights:  # compensated, so that a million terms lose nothing
        step = weight - lost
        grown = total + step
        lost = (grown - total) - step
        total = grown
    return first, weights / total


@compiled
def log_ratio(k: int, n: int, per_one: float, per_zero: float) -> float:
    """Return log P1(k)/P0(k) from the log ratios of a single one and a single zero.

    The ratios may be infinite (base 0, or base + gap = 1), so zero counts are left out.
    """
    ones = k * per_one if k > 0 else 0.0
    zeros = (n - k) * per_zero if k < n else 0.0
    return ones + zeros


@compiled
def excess(n: int, better: float, per_one: float, per_zero: float, fraction: float) -> float:
    """Return Σ_k [(1−fraction)·P1(k) − P0(k)]_+ for binomial P1 (at `better`) and P0.

    Each term is written P1(k)·(1 − e^−x) with x = log((1−fraction)·P1(k)/P0(k)), a product of two
    numbers in [0, 1] known to full relative precision. x grows with k, so the sum runs from the
    top count down to the first k where x is not positive.
    """
    first, probabilities = binomial_window(n, better)
    kept = math.log1p(-fraction)
    total, lost = 0.0, 0.0
    for j in range(probabilities.size - 1, -1, -1):
        surplus = -math.expm1(-(kept + log_ratio(first + j, n, per_one, per_zero)))
        if not surplus > 0.0:
            break
        step = probabilities[j] * surplus - lost
        grown = total + step
        lost = (grown - total) - step
        total = grown
    return (1.0 - fraction) * total


@compiled
def excess_over(
    n: IntArray,
    better: FloatArray,
    per_one: FloatArray,
    per_zero: FloatArray,
    fraction: FloatArray,
) -> FloatArray:
    """Return `excess` for each entry of five flat arrays of one length."""
    result = np.empty(n.size)
    for i in range(n.size):
        result[i] = excess(n[i], better[i], per_one[i], per_zero[i], fraction[i])
    return result


def single_log_ratios(base: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log((base+gap)/base) and log((1−base−gap)/(1−base)), infinite at the ends."""
    with np.errstate(divide="ignore"):
        return np.log1p(gap / base), np.log1p(np.maximum(-gap / (1 - base), -1.0))
