"""Which actions another learner may choose so that a bound on its loss follows from intervals."""

from __future__ import annotations

import numpy as np

from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import BoolArray, FloatArray

LARGEST_FACTOR = 2.0
"""Ours: how much worse the certified loss may be than that of the paper's own choice."""


def certified_losses(guard: Estimates) -> FloatArray:
    """Return what each action can lose at most against the best one, if the intervals hold.

    R(s, a) = max(0, max_{b ≠ a} high(s, b) − low(s, a)).

    Parameters
    ----------
    guard
        Estimates with intervals.

    Returns
    -------
    Shape (n_contexts, n_actions); infinite where there is no bound, NaN where nothing was learned.
    Actions of which nothing was learned are no rivals.

    Notes
    -----
    Guarantee: if the intervals of a context hold, action a loses at most R(s, a) there, against the
    best action of which anything was learned. Proof in docs/guarantee.md.

    Deviation from the paper: it has no such rule.
    """
    low, high = guard.interval
    is_known = ~np.isnan(low) & ~np.isnan(high)
    low, high = np.where(is_known, low, np.nan), np.where(is_known, high, -np.inf)
    n_actions = high.shape[1]
    losses = np.zeros(high.shape)
    for action in range(n_actions):
        rivals = np.delete(high, action, axis=1).max(axis=1, initial=-np.inf)
        with np.errstate(invalid="ignore"):  # a low end of +inf does not occur
            losses[:, action] = np.maximum(rivals - low[:, action], 0.0)
    return np.where(is_known, losses, np.nan)


def allowed_actions(guard: Estimates, *, factor: float = LARGEST_FACTOR) -> BoolArray:
    """Return the actions whose certified loss is at most ``factor`` times that of the guard's own.

    Parameters
    ----------
    guard
        Estimates of the paper's method; its own choice is the largest mean.
    factor
        At least 1.

    Returns
    -------
    Shape (n_contexts, n_actions). The guard's own choice is always allowed. Where nothing is known
    nothing is ruled out: an action without an estimate is allowed, and so are all actions of a
    context in which the guard's own choice has no certified loss.

    Notes
    -----
    Guarantee: in a context whose intervals hold, whoever chooses an allowed action with an
    estimate, by whatever means, loses at most ``factor`` times what is certified for the guard's
    choice.

    Examples
    --------
    >>> zeros, whole = np.zeros((1, 3)), np.ones(1)
    >>> guard = Estimates(
    ...     mean_rewards=np.array([[0.5, 0.45, 0.1]]),
    ...     sampling_errors=zeros,
    ...     bias_bounds=np.full((1, 3), 0.1),
    ...     context_probabilities=whole,
    ...     frequent_contexts=np.ones(1, np.bool_),
    ...     user_weights=whole,
    ...     decided_by=np.array(["trimmed mean"]),
    ... )
    >>> certified_losses(guard).round(2).tolist()
    [[0.15, 0.25, 0.6]]
    >>> allowed_actions(guard).tolist()
    [[True, True, False]]
    """
    losses = certified_losses(guard)
    means = np.where(np.isnan(losses), -np.inf, guard.mean_rewards)
    own = np.take_along_axis(losses, means.argmax(axis=1)[:, None], axis=1)
    is_worse: BoolArray = losses > factor * own  # NaN compares False
    return ~is_worse
