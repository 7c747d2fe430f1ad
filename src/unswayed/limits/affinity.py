"""How alike the two worlds look through one user: squared Hellinger distances, which add up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unswayed.limits.adversaries import both_worlds, one_minus_exp
from unswayed.limits.checks import FloatArray, Floats, check_coalition, check_interactions


def one_sided_hellinger(
    gap: ArrayLike,
    interactions: ArrayLike,
    adversarial_fraction: ArrayLike,
    *,
    base: ArrayLike = 0.5,
) -> Floats:
    """Return the squared Hellinger distance that `one_sided_adversary` leaves.

    It is 1 − BC, where BC = Σ_k sqrt(P0(k)·Q(k)) is the Bhattacharyya coefficient of the ordinary
    world and of the better one with the coalition in it.

    Parameters
    ----------
    gap, interactions, adversarial_fraction, base
        As in `one_sided_distance`.

    Examples
    --------
    >>> round(1 - float(one_sided_hellinger(0.1, 5, 0.2)), 6)
    0.994048
    """
    return _over(_one_sided, gap, interactions, adversarial_fraction, base)


def two_sided_hellinger(
    gap: ArrayLike,
    interactions: ArrayLike,
    adversarial_fraction: ArrayLike,
    *,
    base: ArrayLike = 0.5,
) -> Floats:
    """Return the squared Hellinger distance that `two_sided_adversaries` leave.

    Parameters
    ----------
    gap, interactions, adversarial_fraction, base
        As in `one_sided_distance`.

    Examples
    --------
    >>> float(two_sided_hellinger(0.1, 9, 0.2))
    0.0
    """
    return _over(_two_sided, gap, interactions, adversarial_fraction, base)


def _one_sided(gap: float, interactions: int, fraction: float, base: float) -> float:
    p0, p1, ratio, _ = both_worlds(gap, interactions, base)
    shortfall = p0 * one_minus_exp(np.log1p(-fraction) + ratio)
    total = float(shortfall.sum())
    if total <= fraction:
        return 0.0
    return _squared(p0, (1 - fraction) * p1 + fraction / total * shortfall)


def _two_sided(gap: float, interactions: int, fraction: float, base: float) -> float:
    p0, p1, ratio, _ = both_worlds(gap, interactions, base)
    surplus, shortfall = p1 * one_minus_exp(-ratio), p0 * one_minus_exp(ratio)
    distance = float(surplus.sum())
    if (1 - fraction) * distance <= fraction:
        return 0.0
    return _squared(
        (1 - fraction) * p0 + fraction / distance * surplus,
        (1 - fraction) * p1 + fraction / float(shortfall.sum()) * shortfall,
    )


def _squared(first: FloatArray, second: FloatArray) -> float:
    """Return ½ Σ (√p − √q)², which is 1 − BC without cancellation."""
    return float(0.5 * ((np.sqrt(first) - np.sqrt(second)) ** 2).sum())


def _over(
    function: Callable[[float, int, float, float], float],
    gap: ArrayLike,
    interactions: ArrayLike,
    adversarial_fraction: ArrayLike,
    base: ArrayLike,
) -> Floats:
    fractions = check_coalition(adversarial_fraction)
    plays = check_interactions(interactions, at_least=1)
    arrays = np.broadcast_arrays(np.asarray(gap, float), plays, fractions, np.asarray(base, float))
    values = [
        function(float(g), int(n), float(f), float(b))
        for g, n, f, b in zip(*(array.ravel() for array in arrays), strict=True)
    ]
    return np.array(values).reshape(arrays[0].shape)[()]
