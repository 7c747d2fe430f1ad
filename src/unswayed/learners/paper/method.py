"""Algorithm 2 on collected data: context probabilities, recovery, mean rewards and intervals."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.estimators import MeanEstimate, bounded_mean_intervals, trim_count
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper.context_probabilities import (
    Multivariate,
    estimate_context_probabilities,
)
from unswayed.learners.paper.recovery import (
    FAILURE_PROBABILITY,
    Univariate,
    measure_units,
    measured_from,
    recover_frequent,
    recover_rare,
)
from unswayed.tallies import Tallies, UserTallies


def frequent_contexts(
    context_probabilities: FloatArray, *, n_actions: int, is_sticky: BoolArray | None = None
) -> BoolArray:
    """Return S₊: True for the min(S, A) most probable contexts; of equal ones the first.

    Where not all contexts are sticky, S₊ was fixed while playing, or never: those that are.

    >>> frequent_contexts(np.array([0.1, 0.4, 0.2, 0.3]), n_actions=2).tolist()
    [False, True, False, True]
    """
    if is_sticky is not None and not is_sticky.all():
        return is_sticky
    order = np.argsort(-context_probabilities, kind="stable")
    is_frequent = np.zeros(len(order), dtype=np.bool_)
    is_frequent[order[:n_actions]] = True
    return is_frequent


def split_contexts(
    context_probabilities: FloatArray, *, n_actions: int, sticky_plays: float = 0.0
) -> BoolArray:
    """Return the S₊ with the smallest bound: the m most probable contexts, m at most min(S, A).

    Parameters
    ----------
    context_probabilities
        Shape (n_contexts,); ν̂.
    sticky_plays
        Plays n of a usual user, if plays are over and users kept one action in every context; 0
        while S₊ is being chosen, as contexts beyond it will be played uniformly.

    Notes
    -----
    By the proof of Theorem 5.1 the loss is O(sqrt(α L/T)) times

    K_m = Σ_{j≤m} sqrt(ν_[j]) + sqrt(A · Σ_{j>m} ν_[j] · (1 + n·ν_[m+1])).

    The last factor is one for uniform plays. Where users kept one action, a user's mean varies with
    that action, too: by A·ν beside the A/n of chance. The paper has m = min(S, A) and K_m = K(B).
    For S ≤ A that is kept. Beyond, K(B) has a bump: sqrt(2A) at S = 2A for uniform contexts, where
    the filter alone, m = 0, has sqrt(A).

    >>> split_contexts(np.full(4, 0.25), n_actions=4).sum()
    np.int64(4)
    >>> split_contexts(np.full(8, 0.125), n_actions=4).sum()
    np.int64(0)
    >>> split_contexts(np.array([0.9] + [0.01] * 10), n_actions=4).sum()
    np.int64(1)
    """
    literal = frequent_contexts(context_probabilities, n_actions=n_actions)
    if literal.all():
        return literal
    ranked = -np.sort(-context_probabilities)
    heads = np.concatenate([[0.0], np.cumsum(np.sqrt(ranked[:n_actions]))])
    tails = np.maximum(1.0 - np.concatenate([[0.0], np.cumsum(ranked[:n_actions])]), 0.0)
    bounds = heads + np.sqrt(n_actions * tails * (1.0 + sticky_plays * ranked[: n_actions + 1]))
    # Of equal bounds the largest m, which is the paper's.
    m = n_actions - int(np.argmin(np.round(bounds[::-1], 9)))
    return frequent_contexts(context_probabilities, n_actions=m)


def learn_paper(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    warmup: Tallies | None = None,
    per_visit: bool = False,
    is_literal: bool = False,
    univariate: Univariate | None = None,
    multivariate: Multivariate | None = None,
) -> Estimates:
    """Estimate the good users' mean rewards from collected interactions (Algorithm 2).

    Parameters
    ----------
    tallies
        The interactions of lines 3–10.
    design
        How their actions were chosen (lines 5–9).
    alpha
        α, below 1/2.
    warmup
        The T₀ interactions of Algorithm 1, if they were collected apart. None reads the context
        probabilities off ``tallies``, as on a log.
    per_visit
        Whether frequent contexts are estimated from users' means per visit (Section 3.1) instead of
        sums over all of their interactions (appendix). For comparison only: a context that few
        visit can then be full of colluders (erratum 9).
    is_literal
        Whether S₊ are the min(S, A) most probable contexts, as printed, whatever the bounds say:
        the method ``paper-literal``.
    univariate, multivariate
        Other estimators than the trimmed mean and the spectral filter; see ``unswayed.paper``.

    Notes
    -----
    Guarantee: suboptimality O(K(B)·sqrt(α L/T)) with probability 2/3, for L = Ω(SA log(SA)/α)
    (Theorem 5.1; erratum 6 adds a term sqrt(2 ε A) to K(B)). The intervals are not the theorem's:
    ``guard_intervals`` says what they assume; those of a context hold together with probability
    9/10.

    Deviations from the paper:

    - S₊ has the size with the smallest bound (``split_contexts``), unless ``is_literal``.
    - Trimmed means need the groups I_{s,a}, so only contexts that were played sticky are in S₊;
      a log of uniform plays is base case 2 whatever its contexts.
    - Rewards are measured from an origin of their own (``measure_units``), since a user who never
      came counts as zero there: adding a constant to all rewards changes nothing.
    - Mean rewards are reported as b̂·σ_s/ν̂_s, which estimates μ; b̂/σ_s estimates
      ν·μ/σ_s², with the same best action (erratum 8).
    """
    # Line 1: the top-A frequent contexts S₊ from Algorithm 1.
    contexts = estimate_context_probabilities(
        tallies if warmup is None else warmup, alpha=alpha, multivariate=multivariate
    )
    probabilities = contexts.context_probabilities
    if is_literal or not design.is_sticky.all():
        is_frequent = frequent_contexts(
            probabilities, n_actions=tallies.n_actions, is_sticky=design.is_sticky
        )
    else:
        interactions = tallies.interactions
        plays = float(np.median(interactions[interactions > 0]))
        is_frequent = split_contexts(probabilities, n_actions=tallies.n_actions, sticky_plays=plays)

    # Line 11: the recovery procedure, frequent and rare contexts apart.
    units = measure_units(tallies, alpha=alpha)
    measured = measured_from(tallies, units)
    scaled_means = recover_frequent(
        measured,
        design,
        contexts.scales,
        is_frequent,
        alpha=alpha,
        per_visit=per_visit,
        univariate=univariate,
    )
    user_weights = np.ones(tallies.n_users)
    evidence: dict[str, Any] = {"context_filter": _filter_evidence(contexts.filtered)}
    if not is_frequent.all():
        rare_means, filtered = recover_rare(
            measured, contexts.scales, ~is_frequent, alpha=alpha, multivariate=multivariate
        )
        user_weights[tallies.interactions > 0] = filtered.weights
        evidence["reward_filter"] = _filter_evidence(filtered)
        scaled_means = np.where(is_frequent[:, None], scaled_means, rare_means)

    # Line 12 takes the largest mean of each context; the policy does that.
    to_rewards = np.where(
        # Elsewhere the zeros of absent users are no evidence.
        (tallies.cell_users() > 0) & (probabilities > 0)[:, None],
        (contexts.scales / np.maximum(probabilities, np.finfo(float).tiny))[:, None],
        np.nan,
    )
    if per_visit:  # which are means already where contexts are frequent
        to_rewards[is_frequent] = np.where(np.isnan(to_rewards[is_frequent]), np.nan, 1.0)
    means = units.origin + scaled_means * to_rewards
    intervals = guard_intervals(tallies, design, alpha=alpha, origin=units.origin)
    is_known = ~np.isnan(means)
    low = np.where(is_known, intervals.low, np.nan)
    high = np.where(is_known, intervals.high, np.nan)
    # Half-widths reach to the farther end, wherever the estimate lies.
    half = np.maximum(high - means, means - low)
    sampling_errors = np.minimum(intervals.sampling_errors, half)
    return Estimates(
        mean_rewards=means,
        sampling_errors=sampling_errors,
        bias_bounds=half - sampling_errors,
        low=low,
        high=high,
        context_probabilities=contexts.context_probabilities,
        frequent_contexts=is_frequent,
        user_weights=user_weights,
        decided_by=np.where(is_frequent, "trimmed mean", "spectral filter"),
        evidence=evidence,
    )


def _filter_evidence(filtered: MeanEstimate) -> dict[str, Any]:
    last = filtered.spectrum[-1] if filtered.spectrum else None
    return {
        "stopped": filtered.stopped,
        "removed": filtered.removed,
        "rounds": filtered.iterations,
        "top_eigenvalue": None if last is None else last.top_eigenvalue,
        "threshold": None if last is None else last.threshold,
    }


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


def guard_intervals(
    tallies: UserTallies, design: Design, *, alpha: float, origin: float | None = None
) -> CellIntervals:
    """Return intervals of all cells; those of a context hold together with probability 9/10.

    Parameters
    ----------
    design
        How actions were chosen, and what is stated of rewards.
    origin
        Sums of squares are taken around it, so that they keep their digits; None measures it.

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
    if origin is None:
        origin = measure_units(tallies, alpha=alpha).origin
    shape = (tallies.n_contexts, tallies.n_actions)
    visitors = tallies.cell_users().ravel()
    share = FAILURE_PROBABILITY / tallies.n_actions
    rewards = design.rewards
    low, high = np.full(tallies.n_cells, rewards.low), np.full(tallies.n_cells, rewards.high)
    if rewards.is_known:
        everywhere = math.ceil(alpha * int((tallies.interactions > 0).sum()))
        in_groups = trim_count(
            design.group_sizes.astype(np.int64), alpha=alpha, failure_probability=COUNTED * share
        )
        n_bad = np.where(
            design.is_sticky[:, None], np.minimum(in_groups, everywhere), everywhere
        ).ravel()
        # Where all visitors may collude there is no bound but the range.
        is_open = visitors > n_bad
        marks = np.cumsum(np.where(is_open, visitors, 0)) // ENTRIES_AT_ONCE
        bounds = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(visitors)]
        for first, last in itertools.pairwise(bounds):
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
    sums, squares = tallies.blocks.add_blocks(_moments, origin)
    n = np.maximum(visitors, 1)  # the standard error of the plain mean over a cell's users
    errors = np.sqrt(np.maximum(squares - sums**2 / n, 0.0) / np.maximum(n - 1, 1) / n)
    errors = np.minimum(-special.ndtri(share / 2.0) * errors, (high - low) / 2.0)
    return CellIntervals(
        low=np.where(is_met, low, np.nan).reshape(shape),
        high=np.where(is_met, high, np.nan).reshape(shape),
        sampling_errors=np.where(is_met, errors, np.nan).reshape(shape),
        is_assumed=rewards.is_assumed,
    )


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


def allowed_actions(guard: CellIntervals) -> BoolArray:
    """Return the actions that intervals do not rule out; shape (n_contexts, n_actions).

    An action is ruled out if the interval of another one lies above its own. Where nothing is known
    nothing is ruled out: neither an action without an interval, nor any action by one without a
    bound. Nor is anything ruled out on an assumption (``CellIntervals.is_assumed``).

    Notes
    -----
    Guarantee, for a context whose intervals hold, whoever chooses and however (proofs in
    docs/guarantee.md):

    - the best action is allowed, so ruling out others costs nothing;
    - an allowed action loses at most R(s, a) = max(0, max_{b ≠ a} high(s, b) − low(s, a)) ≤ 2·W(s),
      where W(s) is the widest interval of the context.

    Deviation from the paper: it has no such rule.

    Examples
    --------
    >>> low = np.array([[0.4, 0.25, 0.0]])
    >>> allowed_actions(CellIntervals(low, low + 0.2, np.zeros((1, 3)))).tolist()
    [[True, True, False]]
    """
    if guard.is_assumed:
        return np.ones(guard.low.shape, dtype=np.bool_)
    floor = np.where(np.isnan(guard.low), -np.inf, guard.low).max(axis=1, keepdims=True)
    allowed: BoolArray = ~(guard.high < floor)  # NaN compares False
    return allowed
