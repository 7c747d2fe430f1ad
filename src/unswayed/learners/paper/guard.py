"""Which actions another learner may choose so that a bound on its loss follows from intervals."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.learners.estimates import Estimates


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
    Actions without an estimate are not compared.

    Notes
    -----
    Guarantee: if the intervals of a context hold, action a loses at most R(s, a) there, against the
    best action of which anything was learned, and no smaller number has this property. Proof in
    docs/guarantee.md.

    Deviation from the paper: it has no such rule.
    """
    low, high = guard.interval
    is_known = ~np.isnan(low) & ~np.isnan(high)
    high = np.where(is_known, high, -np.inf)
    losses = np.zeros(high.shape)
    for action in range(high.shape[1]):
        rivals = np.delete(high, action, axis=1).max(axis=1, initial=-np.inf)
        has_rival = rivals > -np.inf  # alone, even an action without a bound loses nothing
        np.subtract(rivals, low[:, action], out=losses[:, action], where=has_rival)
    return np.where(is_known, np.maximum(losses, 0.0), np.nan)


def allowed_actions(guard: Estimates, *, factor: float | None = None) -> BoolArray:
    """Return the actions that the guard's intervals do not rule out.

    An action is ruled out if the interval of another one lies above its own.

    Parameters
    ----------
    guard
        Estimates of the paper's method.
    factor
        If given, actions are ruled out, too, whose certified loss is more than so many times that
        of the guard's own choice, the largest mean. That bounds the loss by less, but lets a
        coalition that misleads the guard rule out the best action.

    Returns
    -------
    Shape (n_contexts, n_actions). At least one action of a context is allowed. Where nothing is
    known nothing is ruled out: neither an action without an estimate, nor any action by one
    without a bound.

    Notes
    -----
    Guarantee, for a context whose intervals hold, whoever chooses and however:

    - the best action is allowed (without ``factor``), so ruling out others costs nothing;
    - an allowed action with an estimate loses at most R(s, a) ≤ 2·W(s), where W(s) is the widest
      interval of the context; the guard's own choice loses at most 2·h(s), where h(s) ≥ W(s)/2 is
      the largest distance of an estimate from an end of its interval, so the bound is at most
      twice the guard's own if estimates lie in the middle;
    - with ``factor`` it loses at most as many times R(s, â), what is certified for the guard's own
      choice â.

    Examples
    --------
    >>> zeros, whole = np.zeros((1, 3)), np.ones(1)
    >>> guard = Estimates(
    ...     mean_rewards=np.array([[0.5, 0.35, 0.1]]),
    ...     sampling_errors=zeros,
    ...     bias_bounds=np.full((1, 3), 0.1),
    ...     context_probabilities=whole,
    ...     frequent_contexts=np.ones(1, np.bool_),
    ...     user_weights=whole,
    ...     decided_by=np.array(["trimmed mean"]),
    ... )
    >>> allowed_actions(guard).tolist()
    [[True, True, False]]
    >>> certified_losses(guard).round(2).tolist()
    [[0.05, 0.35, 0.6]]
    >>> allowed_actions(guard, factor=2.0).tolist()
    [[True, False, False]]
    """
    low, high = guard.interval
    floor = np.where(np.isnan(low), -np.inf, low).max(axis=1, keepdims=True)
    is_out = high < floor  # NaN compares False
    if factor is not None:
        losses = certified_losses(guard)
        means = np.where(np.isnan(losses), -np.inf, guard.mean_rewards)
        own = np.take_along_axis(losses, means.argmax(axis=1)[:, None], axis=1)
        is_out |= losses > factor * own
    allowed: BoolArray = ~is_out
    return allowed
