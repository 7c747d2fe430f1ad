"""Intervals for the good users' mean reward of each cell, whatever the colluders do."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.estimators import bounded_mean_intervals, trim_count
from unswayed.learners.design import Design
from unswayed.tallies import Tallies, UserTallies

ENTRIES_AT_ONCE = 1 << 22
"""Ours: cells are processed in batches of about this many entries, to bound memory."""

COUNTED = 0.25
"""Ours: this share of the failure probability is for the number of colluders in a cell."""


@dataclass(frozen=True, slots=True, eq=False)
class CellIntervals:
    """Intervals of mean rewards; all of shape (n_contexts, n_actions), NaN without visitors.

    Attributes
    ----------
    low, high
        Ends; infinite where there is no bound.
    sampling_errors
        Half-width of what chance alone explains, if nobody colluded.
    is_assumed
        Whether they rest on an assumption that the operator did not state; then they are shown,
        and rule nothing out.
    """

    low: FloatArray
    high: FloatArray
    sampling_errors: FloatArray
    is_assumed: bool = False

    @property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper ends, as ``Estimates`` has them."""
        return self.low, self.high


def cell_intervals(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    failure_probability: float,
    origin: float = 0.0,
) -> CellIntervals:
    """Return intervals that hold for all actions of a context but for the failure probability.

    Parameters
    ----------
    design
        How actions were chosen, and what is stated of rewards.
    failure_probability
        Over the cells of one context; each of the A cells gets its even share.
    origin
        Sums of squares are taken around it; a typical reward, so that they keep their digits.

    Notes
    -----
    The unit is a user, and a user's value in a cell is the mean reward there, however often they
    came. So coming more often gives no user more weight.

    Guarantee: holds in finite samples, with no approximation (``bounded_mean_intervals``), if good
    users are independent; if what a good user gets in a cell has the cell's mean, however often
    they visit it (tastes are allowed, visits that depend on them are not), and lies in the stated
    range or has at most the stated deviation; and if at most a share α of the users with
    interactions collude. Without a range or a deviation there is no bound: a share α of the users
    can carry any mean. Colluders choose their contexts, so all of those who can get an action may
    be in its cell:

    - in a sticky context a keyed assignment decides who can: of the group I_{s,a} at most an upper
      quantile of a binomial number collude;
    - elsewhere a colluder who comes often enough gets every action: at most α·L.

    Deviation from the paper: it has no intervals.
    """
    shape = (tallies.n_contexts, tallies.n_actions)
    visitors = tallies.cell_users().ravel()
    share = failure_probability / tallies.n_actions
    rewards = design.rewards
    low, high = np.full(tallies.n_cells, rewards.low), np.full(tallies.n_cells, rewards.high)
    if rewards.is_known:
        n_bad = _most_bad(
            tallies,
            design,
            alpha=alpha,
            failure_probability=COUNTED * share,
        ).ravel()
        # Where all visitors may collude there is no bound but the range.
        is_open = visitors > n_bad
        for first, last in _parts(np.where(is_open, visitors, 0)):
            entries = tallies.blocks.map_blocks(_entries, first, is_open[first:last])
            values, groups = (np.concatenate(column) for column in zip(*entries, strict=True))
            low[first:last], high[first:last] = bounded_mean_intervals(
                values,
                groups,
                last - first,
                n_bad=n_bad[first:last],
                failure_probability=(1.0 - COUNTED) * share,
                value_range=rewards.range,
                deviation=rewards.deviation if rewards.has_deviation else None,
            )
    is_met = visitors > 0
    moments = tallies.blocks.add_blocks(_moments, origin)
    errors = -special.ndtri(share / 2.0) * _standard_errors(visitors, *moments)
    errors = np.minimum(errors, (high - low) / 2.0)
    return CellIntervals(
        low=np.where(is_met, low, np.nan).reshape(shape),
        high=np.where(is_met, high, np.nan).reshape(shape),
        sampling_errors=np.where(is_met, errors, np.nan).reshape(shape),
        is_assumed=rewards.is_assumed,
    )


def _most_bad(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    failure_probability: float,
) -> IntArray:
    """Return how many visitors of each cell may collude; shape (n_contexts, n_actions)."""
    n_active = int((tallies.interactions > 0).sum())
    everywhere = math.ceil(alpha * n_active)
    in_groups = trim_count(
        design.group_sizes.astype(np.int64),
        alpha=alpha,
        failure_probability=failure_probability,
    )
    most: IntArray = np.where(
        design.is_sticky[:, None], np.minimum(in_groups, everywhere), everywhere
    )
    return most


def _parts(visitors: IntArray) -> list[tuple[int, int]]:
    """Return ranges of cells with about ``ENTRIES_AT_ONCE`` visitors each."""
    marks = np.cumsum(visitors) // ENTRIES_AT_ONCE
    bounds = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(visitors)]
    return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def _entries(tallies: Tallies, first: int, is_open: BoolArray) -> tuple[FloatArray, IntArray]:
    """Return users' means in the open ones of the cells from ``first`` on, and these cells."""
    cells = tallies.cells.astype(np.int64) - first
    chosen = np.flatnonzero((cells >= 0) & (cells < len(is_open)))
    chosen = chosen[is_open[cells[chosen]]]
    return tallies.sums[chosen] / tallies.counts[chosen], cells[chosen]


def _moments(tallies: Tallies, origin: float) -> FloatArray:
    """Return the sums of the users' means and of their squares, for each cell; shape (2, cells)."""
    values = tallies.sums / tallies.counts - origin
    return np.stack(
        [
            np.bincount(tallies.cells, values, minlength=tallies.n_cells),
            np.bincount(tallies.cells, values**2, minlength=tallies.n_cells),
        ]
    )


def _standard_errors(sizes: IntArray, sums: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the standard error of the plain mean over the users of each cell."""
    n = np.maximum(sizes, 1)
    errors: FloatArray = np.sqrt(np.maximum(squares - sums**2 / n, 0.0) / np.maximum(n - 1, 1) / n)
    return errors
