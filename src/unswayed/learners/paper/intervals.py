"""Intervals for the good users' mean reward of each cell, whatever the colluders do."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.estimators import mean_intervals, rate_intervals, trim_count
from unswayed.estimators.contaminated_means import Intervals
from unswayed.estimators.trimming import binomial_upper_quantiles
from unswayed.learners.design import Design
from unswayed.learners.paper.reward_units import RewardUnits
from unswayed.randomness import generator
from unswayed.tallies import Tallies, UserTallies

ENTRIES_AT_ONCE = 1 << 22
"""Ours: cells are processed in batches of about this many entries, to bound memory."""


LARGEST_DISPERSION = 1.5
"""Ours: users of a cell whose means have at most so many times the variance that one common rate
explains are taken to be alike. Rates that are Beta(2p, 2 - 2p), far more one-sided than tastes
in collected ratings, were covered less than stated without it: 68 % at p = .02, alpha = .2."""

DISPERSION_ERRORS = 3.0
"""Ours: nor may they exceed that variance by more than so many standard errors. Among 6,000 users
of a cell 1.2 times the variance passes the limit above, and one-sided tastes then move the middle
of users away from their mean by more than chance: 37 % were covered in ``interval_coverage``."""

MOST_VISITORS = 20_000
"""Ours: cells with more users are judged by a random sample of about so many. Chance then makes
.007 of the spread of users' means, half of what one colluder in a hundred does at worst (.013)."""


@dataclass(frozen=True, slots=True, eq=False)
class CellIntervals:
    """Intervals of mean rewards; all of shape (n_contexts, n_actions), NaN without visitors.

    Attributes
    ----------
    low, high
        Ends; infinite where there is no bound.
    sampling_errors
        Half-width of what chance alone explains, if nobody colluded.
    """

    low: FloatArray
    high: FloatArray
    sampling_errors: FloatArray

    @property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper ends, as ``Estimates`` has them."""
        return self.low, self.high


def cell_intervals(
    tallies: UserTallies,
    design: Design,
    units: RewardUnits,
    *,
    alpha: float,
    failure_probability: float,
) -> CellIntervals:
    """Return intervals that hold for all actions of a context but for the failure probability.

    Parameters
    ----------
    units
        Where rewards are measured from, and whether they are binary.
    failure_probability
        Over the cells of one context; each of the A cells gets its even share.

    Notes
    -----
    The unit is a user, and a user's value in a cell is the mean reward there, however often they
    came. So coming more often gives no user more weight.

    Assumptions: good users are independent; what a good user gets in a cell has the cell's mean,
    however often they visit it (tastes are allowed, visits that depend on them are not); at most a
    share α of the users with interactions collude. Colluders choose their contexts, so all of those
    who can get an action may be in its cell:

    - in a sticky context a keyed assignment decides who can: of the group I_{s,a} at most an upper
      quantile of a binomial number collude. If all colluders come, the visitors of a cell are a
      random part of the context's, so that each of them colludes with probability α·L over these;
    - elsewhere a colluder who comes often enough gets every action: at most α·L.

    Binary rewards: ``rate_intervals`` on the users' successes, which assume that good users do not
    differ in a one-sided way, widened to what chance makes of the plain mean of the users. Where
    users spread more than that (``LARGEST_DISPERSION``), or where the plain mean lies outside,
    either colluders or differences of taste did it; then the interval is taken that assumes nothing
    of the kind. Other rewards: ``mean_intervals``.

    With more colluders than half of a cell's visitors nothing is known but the range of binary
    rewards.
    """
    shape = (tallies.n_contexts, tallies.n_actions)
    visitors = tallies.cell_users().ravel()
    share = failure_probability / tallies.n_actions
    n_bad = _most_bad(tallies, design, alpha=alpha, failure_probability=share / 8)
    n_bad = np.minimum(n_bad.ravel(), visitors)
    in_contexts = _bad_shares(tallies, design, alpha=alpha)
    bad_shares = n_bad / np.maximum(visitors, 1)
    moments = tallies.blocks.add_blocks(_moments, units)
    pilot = float(moments[0].sum() / visitors.sum())
    # Where all visitors may collude there is no bound but the range of binary rewards.
    low, high = np.full(tallies.n_cells, -np.inf), np.full(tallies.n_cells, np.inf)
    if units.is_binary:
        low, high = np.zeros(tallies.n_cells), np.ones(tallies.n_cells)
    is_open = visitors > n_bad
    kept_shares = np.where(is_open, MOST_VISITORS / np.maximum(visitors, MOST_VISITORS), 0.0)
    for first, last in _parts(kept_shares * visitors):
        chosen = slice(first, last)
        values, trials, groups = (
            np.concatenate(column)
            for column in zip(
                *tallies.blocks.map_blocks(_entries, first, kept_shares[chosen], units), strict=True
            )
        )
        n_groups = last - first
        most = n_bad[chosen]
        if (kept_shares[chosen] < 1.0).any():
            kept = np.bincount(groups, minlength=n_groups)
            in_sample = binomial_upper_quantiles(kept, bad_shares[chosen], share / 8)
            most = np.where(kept < visitors[chosen], np.minimum(in_sample, kept), most)
        left = 0.75 * share
        if units.is_binary:
            found = _rates(
                values,
                trials,
                groups,
                n_groups,
                n_bad=most,
                bad_shares=in_contexts[chosen],
                failure_probability=left,
                pilot=pilot,
            )
        else:
            found = mean_intervals(values, groups, n_groups, n_bad=most, failure_probability=left)
        low[chosen] = np.where(is_open[chosen], found.low, low[chosen])
        high[chosen] = np.where(is_open[chosen], found.high, high[chosen])
    is_met = visitors > 0
    scale = units.span if units.is_binary else 1.0
    errors = -special.ndtri(share / 2.0) * _standard_errors(visitors, *moments)
    errors = np.minimum(errors, (high - low) / 2.0)
    return CellIntervals(
        low=np.where(is_met, units.origin + scale * low, np.nan).reshape(shape),
        high=np.where(is_met, units.origin + scale * high, np.nan).reshape(shape),
        sampling_errors=np.where(is_met, scale * errors, np.nan).reshape(shape),
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


def _bad_shares(tallies: UserTallies, design: Design, *, alpha: float) -> FloatArray:
    """Return with which probability a visitor of each cell colludes; shape (n_cells,).

    NaN where the assignment is not sticky, so that colluders can be in all cells of a context.
    """
    n_active = int((tallies.interactions > 0).sum())
    n_bad = math.ceil(alpha * n_active)
    visitors = tallies.cell_users().sum(axis=1)
    shares = np.minimum(n_bad / np.maximum(visitors, 1), 1.0)
    return np.repeat(np.where(design.is_sticky, shares, np.nan), tallies.n_actions)


def _rates(
    values: FloatArray,
    trials: IntArray,
    groups: IntArray,
    n_groups: int,
    *,
    n_bad: IntArray,
    bad_shares: FloatArray,
    failure_probability: float,
    pilot: float,
) -> Intervals:
    """Return intervals of success rates, in [0, 1]."""
    half = failure_probability / 2.0
    order = np.argsort(groups * (int(trials.max(initial=0)) + 1) + trials, kind="stable")
    values, trials, groups = values[order], trials[order], groups[order]
    narrow = rate_intervals(
        np.rint(values * trials) if (trials > 1).any() else values,
        trials,
        groups,
        n_groups,
        n_bad=n_bad,
        bad_shares=bad_shares,
        failure_probability=half,
        pilot=pilot,
    )
    single = rate_intervals(
        values,
        np.ones_like(trials),
        groups,
        n_groups,
        n_bad=n_bad,
        bad_shares=bad_shares,
        failure_probability=half / 2.0,
        pilot=pilot,
    )
    free = mean_intervals(
        values,
        groups,
        n_groups,
        n_bad=n_bad,
        failure_probability=half / 2.0,
        has_light_tails=False,
    )
    wide = Intervals(np.maximum(single.low, free.low), np.minimum(single.high, free.high))
    sizes = np.bincount(groups, minlength=n_groups)
    sums, squares = (
        np.bincount(groups, powers, minlength=n_groups).astype(np.float64)
        for powers in (values, values**2)
    )
    plain = sums / np.maximum(sizes, 1)
    reach = -special.ndtri(half / 4.0) * _standard_errors(sizes, sums, squares)
    dispersion, by_chance = _dispersion(values, trials, groups, n_groups)
    is_alike = dispersion <= np.minimum(by_chance, LARGEST_DISPERSION)
    is_narrow = is_alike & (narrow.low <= plain) & (plain <= narrow.high)
    return Intervals(
        np.where(is_narrow, np.minimum(narrow.low, np.maximum(plain - reach, 0.0)), wide.low),
        np.where(is_narrow, np.maximum(narrow.high, np.minimum(plain + reach, 1.0)), wide.high),
    )


def _dispersion(
    values: FloatArray, trials: IntArray, groups: IntArray, n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """Return how much users of each group spread, over what one common rate explains.

    Also how large chance makes it if there is one rate, but for one group in a thousand. It is a
    mean over users; one with t trials adds a term of mean one and variance 2 + (1 - 6·p·q)/(t·p·q).
    """
    plays = np.bincount(groups, trials, minlength=n_groups)
    rates = np.bincount(groups, trials * values, minlength=n_groups) / np.maximum(plays, 1)
    spread = np.bincount(groups, trials * (values - rates[groups]) ** 2, minlength=n_groups)
    sizes = np.bincount(groups, minlength=n_groups)
    explained = np.maximum(rates * (1.0 - rates), 1e-12)  # at rates of 0 and 1 nobody differs
    n = np.maximum(sizes, 1)
    variances = 2.0 * sizes + np.bincount(groups, 1.0 / trials, n_groups) * (1.0 / explained - 6.0)
    errors = np.sqrt(np.maximum(variances, 0.0)) / n
    # Single trials have a mean of one exactly, but for rounding.
    return spread / n / explained, 1.0 + 1e-9 + DISPERSION_ERRORS * errors


def _parts(visitors: FloatArray) -> list[tuple[int, int]]:
    """Return ranges of cells with about ``ENTRIES_AT_ONCE`` visitors each."""
    marks = np.cumsum(visitors) // ENTRIES_AT_ONCE
    bounds = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(visitors)]
    return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def _entries(
    tallies: Tallies, first: int, kept_shares: FloatArray, units: RewardUnits
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return users' means in the units of rewards, their trials, and cells counted from first.

    ``kept_shares`` says for the cells from ``first`` on how many of their users are wanted.
    """
    chosen = np.flatnonzero((tallies.cells >= first) & (tallies.cells < first + len(kept_shares)))
    if (kept_shares < 1.0).any():
        shares = kept_shares[tallies.cells[chosen] - first]
        chosen = chosen[generator(first, "intervals").random(len(chosen)) < shares]
    counts = tallies.counts[chosen]
    values = (tallies.sums[chosen] - units.origin * counts) / counts
    trials = np.ones(len(counts), np.int64)
    if units.is_binary:
        values = np.clip(values / units.span, 0.0, 1.0)
        if not tallies.is_weighted:  # means of plays with different weights are not binomial
            trials = np.rint(counts).astype(np.int64)
    return values, trials, tallies.cells[chosen].astype(np.int64) - first


def _moments(tallies: Tallies, units: RewardUnits) -> FloatArray:
    """Return the sums of the users' means and of their squares, for each cell; shape (2, cells)."""
    values, _, groups = _entries(tallies, 0, np.ones(tallies.n_cells), units)
    return np.stack(
        [
            np.bincount(groups, values, minlength=tallies.n_cells),
            np.bincount(groups, values**2, minlength=tallies.n_cells),
        ]
    )


def _standard_errors(sizes: IntArray, sums: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the standard error of the plain mean over the users of each cell."""
    n = np.maximum(sizes, 1)
    errors: FloatArray = np.sqrt(np.maximum(squares - sums**2 / n, 0.0) / np.maximum(n - 1, 1) / n)
    return errors
