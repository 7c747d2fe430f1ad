"""Which actions another learner may choose so that a bound on its loss follows from intervals."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.learners.design import Design
from unswayed.learners.paper.intervals import CellIntervals, cell_intervals
from unswayed.learners.paper.method import FAILURE_PROBABILITY
from unswayed.learners.paper.reward_units import measure_units
from unswayed.tallies import UserTallies


class Guard(Protocol):
    """Whatever has intervals: ``Estimates``, or ``CellIntervals`` alone."""

    @property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper ends; shape (n_contexts, n_actions) each."""
        ...


def guard_intervals(tallies: UserTallies, design: Design, *, alpha: float) -> CellIntervals:
    """Return the intervals of ``learn_paper`` without its estimates, which take most of its time.

    Parameters as there. ``learn_paper`` leaves out contexts whose estimated probability is zero;
    here all visited cells have an interval.
    """
    units = measure_units(tallies, alpha=alpha)
    return cell_intervals(
        tallies,
        design,
        alpha=alpha,
        failure_probability=FAILURE_PROBABILITY,
        origin=units.origin,
    )


def certified_losses(guard: Guard) -> FloatArray:
    """Return what each action can lose at most against the best one, if the intervals hold.

    R(s, a) = max(0, max_{b ≠ a} high(s, b) − low(s, a)).

    Parameters
    ----------
    guard
        Intervals.

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


def allowed_actions(guard: Guard) -> BoolArray:
    """Return the actions that intervals do not rule out.

    An action is ruled out if the interval of another one lies above its own.

    Parameters
    ----------
    guard
        Intervals.

    Returns
    -------
    Shape (n_contexts, n_actions). At least one action of a context is allowed. Where nothing is
    known nothing is ruled out: neither an action without an estimate, nor any action by one
    without a bound. Nor is anything ruled out on an assumption (``CellIntervals.is_assumed``).

    Notes
    -----
    Guarantee, for a context whose intervals hold, whoever chooses and however:

    - the best action is allowed, so ruling out others costs nothing;
    - an allowed action with an estimate loses at most R(s, a) ≤ 2·W(s), where W(s) is the widest
      interval of the context; the largest of estimates inside of the intervals loses at most
      2·h(s), where h(s) ≥ W(s)/2 is the largest distance of an estimate from an end of its
      interval, so the bound is at most twice that if estimates lie in the middle.

    Examples
    --------
    >>> low = np.array([[0.4, 0.25, 0.0]])
    >>> guard = CellIntervals(low, low + 0.2, np.zeros((1, 3)))
    >>> allowed_actions(guard).tolist()
    [[True, True, False]]
    >>> certified_losses(guard).round(2).tolist()
    [[0.05, 0.35, 0.6]]
    """
    low, high = guard.interval
    if isinstance(guard, CellIntervals) and guard.is_assumed:
        return np.ones(low.shape, dtype=np.bool_)
    floor = np.where(np.isnan(low), -np.inf, low).max(axis=1, keepdims=True)
    allowed: BoolArray = ~(high < floor)  # NaN compares False
    return allowed
