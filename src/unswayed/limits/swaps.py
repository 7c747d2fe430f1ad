"""Limits for whole policies: a coalition that exchanges best and runner-up in every context.

A normal approximation. Each user plays N times, uniformly over A actions, in any contexts. Swapping
best and runner-up everywhere moves the means of two actions by the gap, so through one user the two
worlds are normals that lie d' = gap·sqrt(2N/A)/sigma standard deviations apart.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfinv

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.limits.checks import Floats, check_interactions, check_minority
from unswayed.limits.hiding import coalition_for


def swap_separation(
    gap: ArrayLike,
    interactions_per_user: ArrayLike,
    n_actions: ArrayLike,
    *,
    noise: ArrayLike = 0.5,
) -> Floats:
    """Return d' = gap·sqrt(2N/A)/noise, the swap as seen through one user in standard deviations.

    Parameters
    ----------
    gap
        Best minus runner-up, above 0.
    interactions_per_user
        All plays of one user, N.
    n_actions
        Actions A, played uniformly.
    noise
        Standard deviation of one reward; 0.5 is the most that rewards of 0 and 1 can have.

    Examples
    --------
    >>> float(swap_separation(0.1, 50, 4, noise=0.5))
    1.0
    """
    gaps, actions, sigma = (np.asarray(x, dtype=np.float64) for x in (gap, n_actions, noise))
    if np.any(~(gaps > 0)):
        raise InputError(
            f"gap is {gaps.min()}: between actions that are equally good there is nothing to hide. "
            "Give best minus runner-up, above 0."
        )
    if np.any(~(actions >= 2)):
        raise InputError("n_actions must be at least 2: with one action there is nothing to swap.")
    if np.any(~(sigma > 0)):
        raise InputError("noise must be above 0: without noise one play reveals everything.")
    plays = check_interactions(interactions_per_user)
    return gaps * np.sqrt(2 * plays / actions) / sigma


def normal_total_variation(separation: ArrayLike) -> Floats:
    """Return 2Φ(d'/2) − 1, the distance of two unit normals whose means lie d' apart.

    >>> round(float(normal_total_variation(1.0)), 6)
    0.382925
    """
    separations: FloatArray = np.abs(np.asarray(separation, dtype=np.float64))
    return np.asarray(erf(separations / math.sqrt(8)), dtype=np.float64)[()]


def smallest_swap_coalition(
    gap: ArrayLike,
    interactions_per_user: ArrayLike,
    n_actions: ArrayLike,
    *,
    noise: ArrayLike = 0.5,
) -> Floats:
    """Return the share of colluders from which some attack hides the swap from every method.

    Parameters
    ----------
    gap, interactions_per_user, n_actions, noise
        As in `swap_separation`.

    Notes
    -----
    Guarantee: TV/(1+TV) with TV = `normal_total_variation`; exact for normal rewards and N/A plays
    of each action, an approximation otherwise. Not in the paper.

    Examples
    --------
    >>> round(float(smallest_swap_coalition(0.1, 50, 4)), 6)
    0.276895
    """
    separation = swap_separation(gap, interactions_per_user, n_actions, noise=noise)
    return coalition_for(normal_total_variation(separation))


def largest_swap_interactions(
    gap: float, n_actions: int, alpha: float, *, noise: float = 0.5
) -> float:
    """Return the plays per user, not rounded, up to which a coalition can hide the swap.

    The inverse of `smallest_swap_coalition` in the plays.

    Examples
    --------
    >>> round(largest_swap_interactions(0.1, 4, 0.276895), 2)
    50.0
    """
    per_play = float(swap_separation(gap, 1, n_actions, noise=noise))
    fraction = float(check_minority(alpha))
    separation = math.sqrt(8) * float(erfinv(fraction / (1 - fraction)))
    return (separation / per_play) ** 2
