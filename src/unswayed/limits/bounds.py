"""Formulas for the paper's bounds, and limits for whole policies in a normal approximation.

The paper states orders of growth. These formulas omit the logarithms that its tilde notation hides,
and set hidden constants to one; they are not calibrated. The theorems are stated for alpha < 1/3
and epsilon < alpha.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfinv

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.limits.checks import (
    EPSILON,
    N_ACTIONS,
    N_CONTEXTS,
    Floats,
    check_coalition,
    check_context_probabilities,
    check_count,
    check_interactions,
    check_minority,
    check_positive,
    check_target,
    refuse,
)
from unswayed.limits.hiding import coalition_for


def instance_complexity(
    context_probabilities: ArrayLike, n_actions: int, *, context_error: float = 0.0
) -> float:
    """Return the paper's K(B), the factor in the error that depends on context probabilities.

    It is Σ_{j≤A} sqrt(nu_[j]) + sqrt(A·Σ_{j>A} nu_[j]), plus sqrt(2·context_error·A) if there are
    more than A contexts. Context probabilities have shape (n_contexts,), in any order;
    ``context_error`` is the ℓ1 error of the estimates that rank the contexts.

    Guarantee: Theorem 5.1 bounds the suboptimality by O(K(B)·sqrt(alpha/N)) for N plays per user.
    Deviations: the theorem lacks the last term; its proof has it, because the probability of the
    tail is known only up to twice the error.

    >>> instance_complexity([0.25] * 4, 4)
    2.0
    """
    ranked = np.sort(check_context_probabilities(context_probabilities))[::-1]
    n_actions = check_count(n_actions, N_ACTIONS)
    if not 0 <= context_error <= 2:
        raise InputError(
            f"context_error is {context_error}: the l1 distance of two distributions lies between "
            "0 and 2."
        )
    head, tail = ranked[:n_actions], ranked[n_actions:]
    complexity = float(np.sqrt(head).sum() + math.sqrt(float(tail.sum()) * n_actions))
    if tail.size:
        complexity += math.sqrt(2 * context_error * n_actions)
    return complexity


# The paper's: with a gap of g, no method attains a suboptimality of g/3
TARGET_PER_GAP = 1 / 3


def users_needed(n_contexts: int, n_actions: int, alpha: float) -> int:
    """Return SA·log(SA)/alpha, the number of users that Theorem 5.1 requires.

    >>> users_needed(10, 10, 0.2)
    2303
    """
    cells = _cells(n_contexts, n_actions)
    # At least 2, because log 1 = 0.
    users = cells * math.log(max(cells, 2)) / float(check_coalition(alpha))
    return math.ceil(users)


def upper_bound_suboptimality(
    context_probabilities: ArrayLike, n_actions: int, alpha: float, interactions_per_user: float
) -> float:
    """Return K(B)·sqrt(alpha/N), Theorem 5.1's bound on the suboptimality of Algorithm 2.

    N is the number of plays per user. With fewer users than `users_needed`, SA/L replaces alpha.

    >>> round(upper_bound_suboptimality([0.25] * 4, 4, 0.2, 80), 10)
    0.1
    """
    complexity = instance_complexity(context_probabilities, n_actions)
    plays = check_positive(interactions_per_user, "interactions_per_user")
    return complexity * math.sqrt(float(check_coalition(alpha)) / plays)


def lower_bound_interactions(
    n_contexts: int, n_actions: int, alpha: float, target_suboptimality: float
) -> float:
    """Return min(S,A)·alpha²/gap², the plays per user below which every method may fail.

    Contexts are uniform. For a target epsilon, the gap in the proof is 3·epsilon.

    Guarantee: Theorem 4.1, if the number of users is polynomial in S, A and 1/epsilon. Deviations:
    the proof is for (gap/3, 1/3)-PAC methods and covers alpha < 1/6, whereas the theorem states
    1/3. The theorem has min(S,A)^(1−beta), with arbitrarily small beta for large S and A.

    >>> round(lower_bound_interactions(10, 10, 0.3, 0.01), 10)
    1000.0
    """
    target, fraction = check_target(target_suboptimality, alpha)
    _cells(n_contexts, n_actions)
    gap = target / TARGET_PER_GAP
    return min(n_contexts, n_actions) * (fraction / gap) ** 2


def interactions_alone(
    context_probabilities: ArrayLike, n_actions: int, target_suboptimality: float
) -> float:
    """Return A·(Σ sqrt(nu))²/epsilon², the plays that a user needs to learn alone.

    For uniform contexts it is the paper's SA/epsilon². The generalisation is ours: uniform play
    leaves an error of sqrt(A/(nu·N)) in a context of probability nu, and errors are averaged over
    nu.

    >>> round(interactions_alone([0.25] * 4, 5, 0.1), 6)
    2000.0
    """
    target = check_positive(target_suboptimality, EPSILON)
    probabilities = check_context_probabilities(context_probabilities)
    n_actions = check_count(n_actions, N_ACTIONS)
    return n_actions * float(np.sqrt(probabilities).sum()) ** 2 / target**2


def _cells(n_contexts: int, n_actions: int) -> int:
    return check_count(n_contexts, N_CONTEXTS) * check_count(n_actions, N_ACTIONS)


# Limits for whole policies: a coalition swaps best and runner-up in every context. Each user plays
# N times, uniformly over A actions. The means of two actions change by the gap, so one user's data
# in the two worlds are normal with means that differ by d' = gap·sqrt(2N/A)/sigma standard
# deviations.


def swap_separation(
    gap: ArrayLike,
    interactions_per_user: ArrayLike,
    n_actions: ArrayLike,
    *,
    noise: ArrayLike = 0.5,
) -> Floats:
    """Return d' = gap·sqrt(2N/A)/noise, the separation of the worlds in the data of one user.

    The gap is best minus runner-up, N counts all plays of one user, uniform over A actions, and the
    noise is the standard deviation of one reward, at most 0.5 for rewards of 0 and 1.

    >>> float(swap_separation(0.1, 50, 4, noise=0.5))
    1.0
    """
    gaps, actions, sigma = (np.asarray(x, dtype=np.float64) for x in (gap, n_actions, noise))
    why = "between actions that are equally good there is nothing to hide. Give best minus "
    refuse("gap", gaps, ~(gaps > 0), f"{why}runner-up, above 0.")
    refuse("n_actions", actions, ~(actions >= 2), "at least 2 are needed to swap them.")
    refuse("noise", sigma, ~(sigma > 0), "it must be above 0, or one play reveals everything.")
    plays = check_interactions(interactions_per_user)
    return gaps * np.sqrt(2 * plays / actions) / sigma


def normal_total_variation(separation: ArrayLike) -> Floats:
    """Return 2Φ(d'/2) − 1, the total variation distance of unit normals whose means differ by d'.

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
    """Return the smallest share of colluders that can hide the swap from every method.

    Parameters are those of `swap_separation`. Guarantee: TV/(1+TV) with TV =
    `normal_total_variation`; exact for normal rewards and N/A plays of each action, an
    approximation otherwise. Not in the paper.

    >>> round(float(smallest_swap_coalition(0.1, 50, 4)), 6)
    0.276895
    """
    separation = swap_separation(gap, interactions_per_user, n_actions, noise=noise)
    return coalition_for(normal_total_variation(separation))


def largest_swap_interactions(
    gap: float, n_actions: int, alpha: float, *, noise: float = 0.5
) -> float:
    """Return the number of plays per user, not rounded, up to which a coalition can hide the swap.

    This is the inverse of `smallest_swap_coalition` in the number of plays.

    >>> round(largest_swap_interactions(0.1, 4, 0.276895), 2)
    50.0
    """
    per_play = float(swap_separation(gap, 1, n_actions, noise=noise))
    fraction = float(check_minority(alpha))
    separation = math.sqrt(8) * float(erfinv(fraction / (1 - fraction)))
    return (separation / per_play) ** 2
