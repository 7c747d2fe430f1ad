"""How well a coalition can hide that one action is better: exact distances between two worlds.

In the ordinary world each play of the action pays 1 with probability ``base`` (P0 over the
``interactions`` plays of one user), in the better world with probability ``base + gap`` (P1).
``interactions`` counts the plays of that one action by one user, not all plays of the user.
All functions take arrays that broadcast, and give a number for numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.limits.adversaries import both_worlds, one_minus_exp
from unswayed.limits.binomial import excess_over, single_log_ratios
from unswayed.limits.checks import Floats, check_coalition, check_gap, check_interactions


def total_variation(gap: ArrayLike, interactions: ArrayLike, *, base: ArrayLike = 0.5) -> Floats:
    """Return the total variation distance between the two worlds, as seen through one user.

    Parameters
    ----------
    gap
        Difference of the mean rewards, above 0.
    interactions
        Plays per user.
    base
        Mean reward in the ordinary world; base + gap is at most 1.

    Returns
    -------
    Σ_k [P1(k) − P0(k)]_+ over the number k of ones, exact up to rounding.

    Notes
    -----
    Deviations from the paper: none; the paper bounds it by Pinsker's inequality.

    Examples
    --------
    >>> round(float(total_variation(0.1, 5)), 10)
    0.18256
    """
    gaps, bases = check_gap(gap, base)
    return _excess(gaps, check_interactions(interactions), bases, np.zeros(()))


def one_sided_distance(
    gap: ArrayLike,
    interactions: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
) -> Floats:
    """Return how far the better world, with the best coalition in it, stays from the ordinary one.

    The ordinary world is free of colluders. The coalition chooses the distribution E of its
    members' rewards to minimise TV(P0, (1−alpha) P1 + alpha E); the minimum is
    H = Σ_k [(1−alpha) P1(k) − P0(k)]_+, and zero means perfectly hidden.
    `one_sided_adversary` attains it. To ask the reverse (an ordinary action made to look better)
    exchange the roles of ones and zeros: pass ``base = 1 − base − gap``.

    Parameters
    ----------
    gap, interactions, base
        As in `total_variation`.
    alpha
        Share of colluders among the users, above 0 and below 1.

    Notes
    -----
    Guarantee: exact optimum for users who are good or adversarial independently. The paper's Lemma
    4.2 shows H ≤ L^−4 for n ≤ 0.01 alpha²/(gap² log L). Deviations: exact instead of bounded.

    Examples
    --------
    >>> round(float(one_sided_distance(0.1, 3, 0.1)), 10)
    0.0832
    """
    gaps, bases = check_gap(gap, base)
    plays = check_interactions(interactions)
    return _excess(gaps, plays, bases, check_coalition(alpha))


def two_sided_distance(
    gap: ArrayLike,
    interactions: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
) -> Floats:
    """Return the least distance between the two worlds when the coalition sits in both.

    It is max(0, (1−alpha)·TV − alpha): the colluders of each world imitate what the good users of
    the other have in excess. `two_sided_adversaries` attains it. This is the situation of someone
    who knows neither which action is better nor that any world is clean.

    Parameters
    ----------
    gap, interactions, alpha, base
        As in `one_sided_distance`.

    Notes
    -----
    Guarantee: exact, by the triangle inequality and the pair that attains it. Deviations: the
    paper contaminates one world only; this is the stronger attack.

    Examples
    --------
    >>> float(two_sided_distance(0.1, 9, 0.2)), float(two_sided_distance(0.1, 10, 0.2)) > 0
    (0.0, True)
    """
    fractions = check_coalition(alpha)
    distance = total_variation(gap, interactions, base=base)
    return np.maximum(0.0, (1 - fractions) * distance - fractions)


def smallest_one_sided_coalition(
    gap: ArrayLike, interactions: ArrayLike, *, base: ArrayLike = 0.5
) -> Floats:
    """Return alpha_exact: the smallest coalition that hides a better action from a clean world.

    The one-sided distance is zero exactly from 1 − (base/(base+gap))^n on, the share that makes
    even n ones in a row no likelier than in the ordinary world.

    Parameters
    ----------
    gap, interactions, base
        As in `total_variation`.

    Examples
    --------
    >>> round(float(smallest_one_sided_coalition(0.1, 1)), 10)
    0.1666666667
    """
    gaps, bases = check_gap(gap, base)
    plays = check_interactions(interactions)
    per_one, _ = single_log_ratios(bases, gaps)
    # No plays hide everything, even where a single one would betray the world.
    exponent = np.multiply(
        plays, per_one, where=plays > 0, out=np.zeros(np.broadcast(plays, per_one).shape)
    )
    return np.asarray(-np.expm1(-exponent))[()]


def smallest_two_sided_coalition(
    gap: ArrayLike, interactions: ArrayLike, *, base: ArrayLike = 0.5
) -> Floats:
    """Return alpha_two = TV/(1+TV): the smallest coalition that makes the two worlds look alike.

    From this share on, no method learns which world it is in, whatever the number of users.

    Parameters
    ----------
    gap, interactions, base
        As in `total_variation`.

    Examples
    --------
    >>> round(float(smallest_two_sided_coalition(0.1, 10)), 10)
    0.2039168137
    """
    return coalition_for(total_variation(gap, interactions, base=base))


def coalition_for(distance: Floats) -> Floats:
    """Return the share of colluders, in both worlds, that bridges a total variation distance."""
    return distance / (1 + distance)


def success_bound(n_users: ArrayLike, distance: ArrayLike, hellinger: ArrayLike = 1.0) -> Floats:
    """Return the most that any test between two equally likely worlds can succeed with.

    Parameters
    ----------
    n_users
        Users who are observed.
    distance
        What the best coalition leaves visible in one user: `one_sided_distance` or
        `two_sided_distance`.
    hellinger
        The same in squared Hellinger distance: `one_sided_hellinger` or `two_sided_hellinger`.
        Without it the first bound alone is used.

    Returns
    -------
    ½ + ½·min(1, n_users·distance, sqrt(1 − BC^(2·n_users))) with BC = 1 − hellinger: Le Cam's
    bound. The distance of the joint observation is at most the sum over users; and as the
    Bhattacharyya coefficient BC of independent users is a product, it is at most the root above.
    The first is the better one for few users, the second for many.

    Examples
    --------
    >>> float(success_bound(10, 0.01))
    0.55
    >>> round(float(success_bound(10, 0.082068, 1 - 0.994048)), 3)
    0.668
    """
    users = np.asarray(n_users, dtype=np.float64)
    distances = np.asarray(distance, dtype=np.float64)
    if np.any(~(users >= 1)):
        raise InputError("n_users must be at least 1: with nobody observed there is no test.")
    if np.any(~((distances >= 0) & (distances <= 1))):
        raise InputError("distance must lie between 0 and 1: it is a total variation distance.")
    squared = np.asarray(hellinger, dtype=np.float64)
    if np.any(~((squared >= 0) & (squared <= 1))):
        raise InputError("hellinger must lie between 0 and 1: it is a squared distance.")
    with np.errstate(divide="ignore"):  # worlds without common outcomes
        joint = np.sqrt(-np.expm1(2.0 * users * np.log1p(-squared)))
    return 0.5 + 0.5 * np.minimum(np.minimum(1.0, users * distances), joint)


def _excess(gap: FloatArray, plays: np.ndarray, base: FloatArray, fraction: FloatArray) -> Floats:
    """Sum over broadcast arguments; scalars in, scalar out."""
    per_one, per_zero = single_log_ratios(base, gap)
    arrays = np.broadcast_arrays(plays, base + gap, per_one, per_zero, fraction)
    flat = [np.ascontiguousarray(array).ravel() for array in arrays]
    return np.asarray(excess_over(*flat).reshape(arrays[0].shape))[()]


def one_sided_hellinger(
    gap: ArrayLike,
    interactions: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
) -> Floats:
    """Return the squared Hellinger distance that `one_sided_adversary` leaves.

    It is 1 − BC, where BC = Σ_k sqrt(P0(k)·Q(k)) is the Bhattacharyya coefficient of the ordinary
    world and of the better one with the coalition in it.

    Parameters
    ----------
    gap, interactions, alpha, base
        As in `one_sided_distance`.

    Examples
    --------
    >>> round(1 - float(one_sided_hellinger(0.1, 5, 0.2)), 6)
    0.994048
    """
    return _over(_one_sided, gap, interactions, alpha, base)


def two_sided_hellinger(
    gap: ArrayLike,
    interactions: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
) -> Floats:
    """Return the squared Hellinger distance that `two_sided_adversaries` leave.

    Parameters
    ----------
    gap, interactions, alpha, base
        As in `one_sided_distance`.

    Examples
    --------
    >>> float(two_sided_hellinger(0.1, 9, 0.2))
    0.0
    """
    return _over(_two_sided, gap, interactions, alpha, base)


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
    alpha: ArrayLike,
    base: ArrayLike,
) -> Floats:
    fractions = check_coalition(alpha)
    plays = check_interactions(interactions, at_least=1)
    arrays = np.broadcast_arrays(np.asarray(gap, float), plays, fractions, np.asarray(base, float))
    values = [
        function(float(g), int(n), float(f), float(b))
        for g, n, f, b in zip(*(array.ravel() for array in arrays), strict=True)
    ]
    return np.array(values).reshape(arrays[0].shape)[()]
