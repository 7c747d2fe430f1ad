"""The flip fraction: the smallest share of accounts that could change each decision.

Lower bounds are certified; where trimmed means decide, they are exact, and the upper bounds are
attained by a coalition.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.estimators.spectral_filter import LARGEST_BUDGET
from unswayed.estimators.trimming import cuts, sort_within_groups, trim_count
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import (
    FAILURE_PROBABILITY,
    measure_units,
    measured_from,
    user_values,
)
from unswayed.tallies import Tallies, UserTallies


class Certificate(StrEnum):
    """Justification of a lower bound.

    ``EXACT``: the bound is exact. ``CONTEXT_STEP``: the bound is exact up to the number of accounts
    that could make the context change its estimator, or move the origin of rewards.
    ``ONE_ACCOUNT``: the bound is one account; no better bound is known.
    """

    EXACT = "exact"
    CONTEXT_STEP = "context step"
    ONE_ACCOUNT = "one account"


@dataclass(frozen=True, slots=True, eq=False)
class FlipBounds:
    """Bounds on the smallest share of accounts whose removal or replacement changes a decision.

    Arrays have shape (n_contexts,). ``held`` is the lower bound under the condition that no context
    changes its estimator and the origin of rewards does not move; it equals ``lower`` unless the
    certificate is ``CONTEXT_STEP``.
    """

    n_accounts: int  # accounts with interactions; fractions are relative to this number
    lower: FloatArray  # certified: no smaller fraction can change the decision
    upper: FloatArray  # attained: replacing this fraction changes it; NaN where none is known
    certificates: npt.NDArray[np.str_]  # a ``Certificate`` for each lower bound
    held: FloatArray

    @property
    def is_certified(self) -> bool:
        """Whether any lower bound is exact or larger than one account."""
        is_exact: BoolArray = self.certificates == Certificate.EXACT
        return bool((is_exact | (self.lower * self.n_accounts > 1.5)).any())


def flip_bounds(
    method: str,
    tallies: UserTallies,
    design: Design,
    estimates: Estimates,
    *,
    alpha: float,
    warmup: Tallies | None = None,
) -> FlipBounds:
    """Bound the share of accounts needed to change each decision of a method.

    ``estimates`` is the method's result for the other arguments. Only the paper's method has
    informative bounds; for other methods the lower bound is one account.

    Guarantee: no coalition with a share below ``lower`` can change the decision; some coalition
    with the share ``upper`` does.

    Frequent contexts: exact, from order statistics (``trimmed_flips``). Replaced accounts may visit
    any contexts, as often as they like, and report any rewards, but their action in a sticky
    context stays the one that the platform assigned. A coalition might also remove the context from
    S₊, make its estimated probability zero or, with several contexts, move the origin of rewards
    (``RewardUnits``). The data rule this out up to some number of accounts; the lower bound cannot
    exceed it and then has the certificate "context step".

    Rare contexts: one row can move a round of the spectral filter across its threshold. No bound
    better than one account is known.
    """
    n_accounts = int((tallies.interactions > 0).sum())
    lower = np.full(tallies.n_contexts, 1.0 / max(n_accounts, 1))
    upper, held = np.full(tallies.n_contexts, np.nan), lower.copy()
    certificates = np.array([Certificate.ONE_ACCOUNT.value] * tallies.n_contexts, dtype="<U16")
    bounds = FlipBounds(n_accounts, lower, upper, certificates, held)
    is_known = ~np.isnan(estimates.mean_rewards)
    chosen = np.flatnonzero(estimates.frequent_contexts & is_known.any(axis=1))
    if method not in CERTIFIED or not len(chosen):  # for example in logs of uniform play
        return bounds
    rows, shape = np.arange(len(chosen)), (len(chosen), tallies.n_actions)
    row_of_context = np.full(tallies.n_contexts, NO_RIVAL)
    row_of_context[chosen] = rows

    # The points of the trimmed means: one number for each user of the frequent contexts.
    units = measure_units(tallies, alpha=alpha)
    measured = measured_from(tallies, units)
    is_chosen = np.repeat(row_of_context != NO_RIVAL, tallies.n_actions)
    values, cells = user_values(measured, is_chosen, np.ones(tallies.n_contexts))
    contexts, actions = np.divmod(cells, tallies.n_actions)
    groups = row_of_context[contexts] * tallies.n_actions + actions
    stored = np.bincount(groups, minlength=shape[0] * shape[1]).reshape(shape)

    # Trim as in the recovery procedure.
    n_zeros = np.maximum(design.group_sizes[chosen] - stored, 0)
    n_points = stored + n_zeros
    failure_probability = FAILURE_PROBABILITY / tallies.n_cells
    n_bad = trim_count(
        n_points.astype(np.int64), alpha=alpha, failure_probability=failure_probability
    )
    n_cut = cuts(n_points, n_bad)
    leaders = estimates.actions[chosen]
    flips = trimmed_flips(
        values, groups, n_zeros=n_zeros, n_cut=n_cut, leaders=leaders, is_known=is_known[chosen]
    )
    # If all visitors who played the chosen action are removed, its mean is unknown.
    visitors = stored[rows, leaders]
    fewest, enough = np.minimum(flips.fewest, visitors), np.minimum(flips.enough, visitors)
    in_place = _certain_replacements(tallies, design, warmup)[chosen]
    # In a single context, a change of the rewards' origin shifts all means equally.
    is_single = tallies.n_contexts == 1
    unmoved = in_place if is_single else np.minimum(in_place, units.n_certain)
    # An extreme reward that is not trimmed decides, whatever the origin of rewards.
    is_loud = (flips.from_leader > n_cut[rows, leaders]) | (
        flips.from_rival > n_cut[rows, flips.rivals]
    )
    certain = np.where(is_loud, in_place, unmoved)
    is_attained = (flips.rivals != NO_RIVAL) & (certain >= enough)

    lower[chosen] = np.maximum(1, np.minimum(fewest, unmoved + 1)) / n_accounts
    upper[chosen] = np.where(is_attained, enough / n_accounts, np.nan)
    held[chosen] = fewest / n_accounts
    is_exact = unmoved >= fewest - 1
    certificates[chosen] = np.where(is_exact, Certificate.EXACT, Certificate.CONTEXT_STEP)
    return bounds


CERTIFIED = ("paper", "paper-literal")  # Methods whose decisions are certified


def _certain_replacements(tallies: UserTallies, design: Design, warmup: Tallies | None) -> IntArray:
    """Return how many accounts can be replaced without a context changing its estimator.

    The filter removes at most a share ``LARGEST_BUDGET`` of the weight, so a context that a larger
    share of accounts visited keeps a positive probability. If all contexts are sticky and there are
    more contexts than actions, S₊ itself is estimated; then nothing is certain, and the result is
    −1.
    """
    if design.is_sticky.all() and tallies.n_contexts > tallies.n_actions:
        return np.full(tallies.n_contexts, -1)
    visits = tallies if warmup is None else warmup
    visitors = visits.blocks.add_blocks(_visitors)
    n_active = int((visits.interactions > 0).sum())
    # After k replacements, at least visitors − k of the accounts still visit the context.
    certain: IntArray = np.ceil(visitors - LARGEST_BUDGET * n_active).astype(np.int64) - 1
    return certain


def _visitors(tallies: Tallies) -> IntArray:
    """Return how many accounts visited each context; shape (n_contexts,)."""
    return np.bincount(tallies.pairs()[1], minlength=tallies.n_contexts)


NO_RIVAL = -1  # Marker for a leader that no rival can overtake

# Ours: the rounding error of a sum of n points is at most n·u·Σ|x| (u the unit roundoff). The mean
# of a window is a difference of two such sums, and the estimator has the same error again; 8 is
# twice the resulting factor.
ROUNDING_FACTOR = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class TrimmedFlips:
    """Replacements that change the largest trimmed mean of each row; shapes ``(n_rows,)``.

    ``enough`` equals ``fewest`` up to ties within rounding errors, and is 0 where no rival can win.
    These replacements change the largest points of the leader into very small ones
    (``from_leader``) and the smallest points of the rival into very large ones (``from_rival``).
    """

    fewest: IntArray  # certified: no other group wins if fewer points are replaced or removed
    enough: IntArray  # replacing this many points lets ``rivals`` win
    rivals: IntArray  # the column that then wins, or ``NO_RIVAL``
    from_leader: IntArray
    from_rival: IntArray


def trimmed_flips(
    values: FloatArray,
    groups: IntArray,
    *,
    n_zeros: IntArray,
    n_cut: IntArray,
    leaders: IntArray,
    is_known: BoolArray,
) -> TrimmedFlips:
    """Count the points that must be replaced so that a leader's trimmed mean is overtaken.

    ``values`` are points in the groups ``row * n_columns + column`` of a table. The table
    ``n_zeros`` counts further points that are zero and not stored, ``n_cut`` the points trimmed at
    each end; ``leaders`` is, for each row, the first column with the largest trimmed mean;
    ``is_known`` marks the columns that take part. Another column takes part as soon as one of its
    points is replaced.

    Guarantee: exact. Sort a group's n points and let c be the number cut at each end. If k ≤ c
    points are replaced, the trimmed mean is at most the mean of ranks c+k … n−c+k, and replacing
    the k smallest points by very large ones attains it. For k > c there is no bound. The minimum is
    analogous. Every split of the replacements between leader and rival is tried. Removing points
    has a smaller effect.

    >>> points = np.array([5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    >>> two = np.zeros((1, 2), np.int64)
    >>> flips = trimmed_flips(
    ...     points, np.repeat([0, 1], 5), n_zeros=two, n_cut=two + 1,
    ...     leaders=np.array([0]), is_known=two == 0,
    ... )  # one at each end: means 7 and 3; replacing one moves each by 1, two by any amount
    >>> flips.fewest.tolist(), flips.enough.tolist()
    ([2], [2])
    """
    is_stored = values != 0.0
    ordered, starts = sort_within_groups(values[is_stored], groups[is_stored], n_cut.size)
    n_points = np.bincount(groups, minlength=n_cut.size) + n_zeros.ravel()

    def windows(row: int, column: int, side: int) -> tuple[FloatArray, float]:
        group = row * n_cut.shape[1] + column
        stored = ordered[starts[group] : starts[group + 1]]
        n_zero = n_points[group] - len(stored)
        points = np.insert(stored, np.searchsorted(stored, 0.0), np.zeros(n_zero))
        return _windows(points, int(n_cut[row, column]), side)

    counts = np.zeros((len(leaders), 5), np.int64)
    for row, leader in enumerate(leaders.tolist()):
        has_points = n_points.reshape(n_cut.shape)[row]
        falls, slack = windows(row, leader, -1)
        # A leader whose points are all replaced is no candidate, whatever the rivals are.
        fewest, best = has_points[leader], (0, NO_RIVAL, 0, 0)
        for column in np.flatnonzero(has_points).tolist():
            if column == leader:
                continue
            rises, more = windows(row, column, 1)
            first, tolerance = int(not is_known[row, column]), slack + more
            # A tie may be decided either way.
            at_most = -tolerance - np.finfo(np.float64).tiny
            fewest = min(fewest, max(_cheapest_split(falls, rises, first, at_most)[0], 1))
            total, fallen = _cheapest_split(falls, rises, first, tolerance)
            if best[1] == NO_RIVAL or total < best[0]:
                best = (total, column, fallen, total - fallen)
        counts[row] = (fewest, *best)
    return TrimmedFlips(*(np.ascontiguousarray(column) for column in counts.T))


def _windows(points: FloatArray, cut: int, side: int) -> tuple[FloatArray, float]:
    """Return the extreme trimmed means after 0 … cut + 1 replacements, and their rounding error.

    ``points`` are those of a group, in ascending order; ``side`` is 1 for largest means and −1 for
    smallest.
    """
    sums = np.concatenate([[0.0], np.cumsum(points)])
    n, size = len(points), float(np.cumsum(np.abs(points))[-1])
    low = cut + side * np.arange(cut + 1)
    means = (sums[low + n - 2 * cut] - sums[low]) / (n - 2 * cut)
    error = ROUNDING_FACTOR * n * np.finfo(np.float64).eps * size / (n - 2 * cut)
    return np.append(means, side * np.inf), float(error)


def _cheapest_split(
    falls: FloatArray, rises: FloatArray, first: int, tolerance: float
) -> tuple[int, int]:
    """Return the fewest replacements with rise > fall + tolerance, and the leader's share."""
    least = np.minimum.accumulate(rises[::-1])[::-1]  # further replacements can only raise the mean
    needed = np.maximum(np.searchsorted(least, falls + tolerance, side="right"), first)
    totals = np.arange(len(falls)) + needed
    fallen = int(totals.argmin())
    return int(totals[fallen]), fallen
