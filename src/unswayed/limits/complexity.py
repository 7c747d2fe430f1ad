"""K(B): how hard the contexts of a bandit make robust learning."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from unswayed.errors import InputError
from unswayed.limits.checks import N_ACTIONS, check_context_probabilities, check_count


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
