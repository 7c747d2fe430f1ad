"""The paper's bounds as formulas.

The paper states orders of growth. Each formula leaves out logarithms that the paper hides under a
tilde and takes the hidden factor as ``constant``, 1 by default: it is not a calibrated number.
The theorems are stated for alpha < 1/3 and epsilon < alpha.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from unswayed.errors import InputError
from unswayed.limits.checks import (
    EPSILON,
    N_ACTIONS,
    N_CONTEXTS,
    N_USERS,
    check_coalition,
    check_context_probabilities,
    check_count,
    check_positive,
    check_target,
)


def instance_complexity(
    context_probabilities: ArrayLike, n_actions: int, *, context_error: float = 0.0
) -> float:
    """Return the paper's K(B), the factor that the contexts put into the error.

    Parameters
    ----------
    context_probabilities
        Shape (n_contexts,), in any order.
    n_actions
        Actions A; the A likeliest contexts are learned one by one, the others jointly.
    context_error
        The ℓ1 error of the context probabilities that rank the contexts; 0 when they are known.

    Returns
    -------
    Σ_{j≤A} sqrt(nu_[j]) + sqrt(A·Σ_{j>A} nu_[j]), plus sqrt(2·context_error·A) when there are
    contexts beyond the first A.

    Notes
    -----
    Guarantee: Theorem 5.1 bounds the suboptimality by O(K(B)·sqrt(alpha/N)) for N plays per user.
    Deviations: the last term is missing in the theorem and present in its proof, where the tail's
    mass is known only up to twice the error.

    Examples
    --------
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


LEMMA_CONSTANT = 0.01
"""The paper's, Lemma 4.2."""

TARGET_PER_GAP = 1 / 3
"""The paper's: worlds with a gap of g defeat methods that aim at a suboptimality of g/3."""


def users_needed(n_contexts: int, n_actions: int, alpha: float, *, constant: float = 1.0) -> int:
    """Return SA·log(SA)/alpha, the users that Theorem 5.1 asks for.

    >>> users_needed(10, 10, 0.2)
    2303
    """
    cells = _cells(n_contexts, n_actions)
    # One cell would need log 1 = 0 users.
    users = constant * cells * math.log(max(cells, 2)) / float(check_coalition(alpha))
    return math.ceil(users)


def effective_corruption(n_contexts: int, n_actions: int, n_users: int, alpha: float) -> float:
    """Return max(SA/L, alpha): with few users, too little data acts like more colluders.

    The paper's appendix on the effective corruption rate. Values of 1 and more mean that there are
    fewer users than things to learn.

    >>> effective_corruption(20, 10, 400, 0.1)
    0.5
    """
    cells, users = _cells(n_contexts, n_actions), check_count(n_users, N_USERS)
    return max(cells / users, float(check_coalition(alpha)))


def context_phase_steps(
    n_users: int,
    alpha: float,
    target_suboptimality: float,
    *,
    constant: float = 1.0,
) -> int:
    """Return T0 = L·alpha/epsilon², the steps over all users that Algorithm 1 observes.

    After them the estimated context probabilities are within epsilon in ℓ1 distance, provided that
    there are `users_needed` users (lemma before Theorem 5.1).

    >>> context_phase_steps(1000, 0.2, 0.1)
    20000
    """
    target, fraction = check_target(target_suboptimality, alpha)
    users = check_count(n_users, N_USERS)
    # A whole number of steps should not be rounded up to the next because of 0.1² ≠ 0.01.
    return math.ceil(constant * users * fraction / target**2 * (1 - 1e-12))


def upper_bound_suboptimality(
    context_probabilities: ArrayLike,
    n_actions: int,
    alpha: float,
    interactions_per_user: float,
    *,
    context_error: float = 0.0,
    constant: float = 1.0,
) -> float:
    """Return K(B)·sqrt(alpha/N), Theorem 5.1's bound on the suboptimality of Algorithm 2.

    Parameters
    ----------
    context_probabilities, n_actions, context_error
        As in `instance_complexity`.
    alpha
        alpha, or `effective_corruption` when there are fewer users than `users_needed`.
    interactions_per_user
        Plays N of each user.
    constant
        The factor that the theorem hides.

    Examples
    --------
    >>> round(upper_bound_suboptimality([0.25] * 4, 4, 0.2, 80), 10)
    0.1
    """
    complexity = instance_complexity(context_probabilities, n_actions, context_error=context_error)
    plays = check_positive(interactions_per_user, "interactions_per_user")
    return constant * complexity * math.sqrt(float(check_coalition(alpha)) / plays)


def upper_bound_interactions(
    context_probabilities: ArrayLike,
    n_actions: int,
    alpha: float,
    target_suboptimality: float,
    *,
    context_error: float = 0.0,
    constant: float = 1.0,
) -> float:
    """Return K(B)²·alpha/epsilon², the plays per user after which Algorithm 2 is good enough.

    `upper_bound_suboptimality` solved for the plays; parameters as there.

    Examples
    --------
    >>> round(upper_bound_interactions([0.25] * 4, 4, 0.2, 0.1), 10)
    80.0
    """
    target, fraction = check_target(target_suboptimality, alpha)
    complexity = instance_complexity(context_probabilities, n_actions, context_error=context_error)
    return (constant * complexity) ** 2 * fraction / target**2


def warm_up_interactions(
    n_contexts: int,
    n_actions: int,
    alpha: float,
    target_suboptimality: float,
    *,
    constant: float = 1.0,
) -> float:
    """Return min(S,A)·alpha/epsilon², the better of the two base cases for uniform contexts.

    Proposition 3.1 (one estimate per group of users) needs S·alpha/epsilon², Proposition 3.3 (one
    joint estimate) A·alpha/epsilon².

    >>> round(warm_up_interactions(100, 10, 0.2, 0.1), 10)
    200.0
    """
    target, fraction = check_target(target_suboptimality, alpha)
    _cells(n_contexts, n_actions)
    return constant * min(n_contexts, n_actions) * fraction / target**2


def lower_bound_interactions(
    n_contexts: int,
    n_actions: int,
    alpha: float,
    target_suboptimality: float,
    *,
    loss_exponent: float = 0.0,
    constant: float = 1.0,
) -> float:
    """Return min(S,A)^(1−beta)·alpha²/gap², the plays per user below which every method may fail.

    Parameters
    ----------
    n_contexts, n_actions
        S and A, contexts uniform.
    alpha, target_suboptimality
        alpha and epsilon. The worlds of the proof have a gap of 3·epsilon.
    loss_exponent
        The theorem's beta, above 0 in the theorem and as small as one likes for large S and A.
    constant
        The factor that the theorem hides; with logarithms of the users it is at most 0.01.

    Notes
    -----
    Guarantee: Theorem 4.1, when the users are polynomially many in S, A and 1/epsilon. Deviations:
    the proof defeats (gap/3, 1/3)-PAC methods, and covers alpha < 1/6 although the theorem says
    1/3.

    Examples
    --------
    >>> round(lower_bound_interactions(10, 10, 0.3, 0.01), 10)
    1000.0
    """
    target, fraction = check_target(target_suboptimality, alpha)
    _cells(n_contexts, n_actions)
    if not 0 <= loss_exponent < 1:
        raise InputError(f"loss_exponent is {loss_exponent}: it must be at least 0 and below 1.")
    gap = target / TARGET_PER_GAP
    smaller: float = min(n_contexts, n_actions) ** (1 - loss_exponent)
    return constant * smaller * (fraction / gap) ** 2


def lemma_interactions(gap: float, alpha: float, n_users: int) -> float:
    """Return 0.01·alpha²/(gap²·log L), the plays that Lemma 4.2 certifies as hidden.

    Up to them the one-sided distance is at most L^−4. `largest_one_sided_interactions` with that
    tolerance gives the exact number, which is larger.

    >>> round(lemma_interactions(0.001, 0.1, 1000), 3)
    14.476
    """
    users = check_count(n_users, N_USERS, at_least=2)
    spread = float(check_coalition(alpha)) / check_positive(gap, "gap")
    return LEMMA_CONSTANT * spread**2 / math.log(users)


def interactions_alone(
    context_probabilities: ArrayLike,
    n_actions: int,
    target_suboptimality: float,
    *,
    constant: float = 1.0,
) -> float:
    """Return A·(Σ sqrt(nu))²/epsilon², the plays of a user who learns alone and trusts nobody.

    For uniform contexts it is the paper's SA/epsilon². For others it is ours: uniform play leaves
    an error of sqrt(A/(nu·N)) in a context of probability nu, and errors are averaged over nu.

    >>> round(interactions_alone([0.25] * 4, 5, 0.1), 6)
    2000.0
    """
    target = check_positive(target_suboptimality, EPSILON)
    probabilities = check_context_probabilities(context_probabilities)
    n_actions = check_count(n_actions, N_ACTIONS)
    return constant * n_actions * float(np.sqrt(probabilities).sum()) ** 2 / target**2


def parallel_gain(context_probabilities: ArrayLike, n_actions: int, alpha: float) -> float:
    """Return the share of the plays alone that each user needs when all learn together.

    The paper's parallelization gain, `upper_bound_interactions` over `interactions_alone`: for
    uniform contexts of the order alpha/max(S, A). A gain of 0.01 means a hundredth of the plays;
    1 and more means that learning together does not pay. Constants of both sides are left out.

    >>> round(parallel_gain([0.25] * 4, 5, 0.2), 10)
    0.04
    """
    together = instance_complexity(context_probabilities, n_actions) ** 2
    alone = interactions_alone(context_probabilities, n_actions, 1.0)
    return together * float(check_coalition(alpha)) / alone


def _cells(n_contexts: int, n_actions: int) -> int:
    return check_count(n_contexts, N_CONTEXTS) * check_count(n_actions, N_ACTIONS)
