"""A test for changes of honest users' mean rewards that a coalition cannot trigger alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.estimators import Intervals, mean_intervals
from unswayed.events import Label
from unswayed.learners.design import Design, uneven_shares, uniform_design
from unswayed.tallies import Tallies

LEVEL = 0.01  # Ours: probability of any false positive in one test


@dataclass(frozen=True, slots=True)
class Change:
    """A mean reward that changed, with worst-case intervals before and after."""

    context: Label
    action: Label
    before: tuple[float, float]
    after: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return the change as plain JSON values."""
        return {
            "context": self.context,
            "action": self.action,
            "before": list(self.before),
            "after": list(self.after),
        }


@dataclass(frozen=True, slots=True)
class Changes:
    """Result of a test for change."""

    changes: tuple[Change, ...]  # the changed means, largest changes first
    n_tested: int  # (context, action) pairs with an interval in both windows
    n_cells: int  # all pairs
    visible: float  # median over tested pairs of the smallest detectable change; NaN without any
    level: float = LEVEL  # family-wise error rate

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "changes": [change.to_json() for change in self.changes],
            "tested": self.n_tested,
            "cells": self.n_cells,
            "visible": None if np.isnan(self.visible) else self.visible,
            "level": self.level,
        }

    def statement(self) -> str:
        """Return the result as one sentence.

        >>> Changes((), 0, 6, np.nan).statement()
        'too little was played before or after to test 6 means for change.'
        """
        if not self.n_tested:
            return (
                f"too little was played before or after to test {self.n_cells:,} means for change."
            )
        error = f"error rate {self.level:.0%} if user means are near normal, colluders allowed for"
        if not self.changes:
            return (
                f"none of {self.n_tested:,} mean rewards changed ({error}); moves of about "
                f"{self.visible:.2g} would show."
            )
        first = self.changes[0]
        return (
            f"{len(self.changes):,} of {self.n_tested:,} mean rewards changed ({error}): for "
            f"instance {first.action!r} in {first.context!r}, from {first.before[0]:.3g} to "
            f"{first.before[1]:.3g} before to {first.after[0]:.3g} to {first.after[1]:.3g} after."
        )


def changes_between(
    before: Tallies, after: Tallies, *, alpha: float, design: Design | None = None
) -> Changes:
    """Test whether the good users' mean rewards differ between two windows of one log.

    Both windows use the same codes; alpha is the share of the users of both windows together who
    may collude. Without a design, actions are assumed uniform; with propensities the design is
    ignored.

    A change is reported where the intervals of a (context, action) in the two windows are disjoint
    (``estimators.mean_intervals``; a point is one user's mean). The family-wise error rate is
    ``LEVEL``, if ``mean_intervals`` attains its nominal level.

    All colluders may visit one context in one window, but the platform chooses the action. So the n
    colluders contribute at most about 1/A of the visits of the context's n most active users to a
    cell (Freedman's inequality), or the action's share of them if actions were drawn unevenly. With
    propensities the bound is n.
    """
    alpha = check_adversarial_fraction(alpha)
    parts = (before, after)
    shape = {(part.n_users, part.n_contexts, part.n_actions) for part in parts}
    if len(shape) > 1:
        raise InputError(
            "windows with different labels cannot be compared; split a single log in two."
        )
    n_active = int(np.logical_or(*(part.interactions > 0 for part in parts)).sum())
    n_colluders = int(np.floor(alpha * n_active))
    met = [np.bincount(part.cells, minlength=part.n_cells) > 0 for part in parts]
    n_met = max(int((met[0] & met[1]).sum()), 1)
    # Each pair needs two intervals and two bounds on the number of colluders.
    delta = LEVEL / (4.0 * n_met)
    first, second = (
        _intervals(part, n_colluders, design or uniform_design(part), delta) for part in parts
    )
    is_tested: BoolArray = np.logical_and.reduce([np.isfinite(end) for end in (*first, *second)])
    low = np.where(is_tested, [first.low, second.low], 0.0)
    high = np.where(is_tested, [first.high, second.high], 0.0)
    moved = np.maximum(low[1] - high[0], low[0] - high[1])
    widths = (high - low).mean(axis=0)
    found = np.flatnonzero(moved > 0.0)
    found = found[np.argsort(-moved[found], kind="stable")]
    n_actions = before.n_actions
    return Changes(
        tuple(
            Change(
                before.context_labels[cell // n_actions],
                before.action_labels[cell % n_actions],
                (float(low[0, cell]), float(high[0, cell])),
                (float(low[1, cell]), float(high[1, cell])),
            )
            for cell in found.tolist()
        ),
        int(is_tested.sum()),
        len(is_tested),
        float(np.median(widths[is_tested])) if is_tested.any() else np.nan,
    )


def _intervals(tallies: Tallies, n_colluders: int, design: Design, delta: float) -> Intervals:
    """Return an interval for the mean of every cell; infinite without data."""
    if not len(tallies.cells):
        nothing = np.full(tallies.n_cells, np.inf)
        return Intervals(-nothing, nothing)
    return mean_intervals(
        tallies.sums / tallies.counts,
        tallies.cells.astype(np.int64),
        tallies.n_cells,
        n_bad=most_colluders(tallies, n_colluders, design, delta),
        failure_probability=delta,
    )


def most_colluders(
    tallies: Tallies, n_colluders: int, design: Design, failure_probability: float
) -> IntArray:
    """Return an upper bound on the number of colluders in each cell; shape (n_cells,)."""
    if tallies.is_weighted:
        return np.full(tallies.n_cells, n_colluders, np.int64)
    n_actions = tallies.n_actions
    pairs, contexts = tallies.pairs()
    visits = np.bincount(pairs, tallies.plays, len(contexts))
    visits = np.where(design.is_sticky[contexts], 1.0, visits)
    order = np.lexsort((-visits, contexts))
    ranks = np.arange(len(order)) - np.searchsorted(contexts[order], contexts[order])
    is_top = ranks < n_colluders
    top = np.bincount(contexts[order][is_top], visits[order][is_top], tallies.n_contexts)
    shape = (tallies.n_contexts, n_actions)
    counted = np.where(design.is_sticky[tallies.cells // n_actions], 1.0, tallies.plays)
    draws = np.bincount(tallies.cells, counted, tallies.n_cells).reshape(shape)
    shares = uneven_shares(draws, failure_probability)
    if shares is None:
        shares = np.full(shape, 1.0 / n_actions)
    expected: FloatArray = top[:, None] * shares
    # Apply Freedman's inequality to sums with these expectations.
    log = math.log(1.0 / failure_probability)
    most = expected + log / 3.0 + np.sqrt(log**2 / 9.0 + 2.0 * expected * log)
    return np.floor(np.minimum(most, n_colluders)).astype(np.int64).ravel()
