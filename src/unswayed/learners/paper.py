"""The paper's method: Algorithm 1, the recovery procedure of its appendix, and Algorithm 2."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IndexArray, IntArray
from unswayed.compiled import compiled
from unswayed.engine import BlockedRows
from unswayed.errors import InputError
from unswayed.estimators import (
    MeanEstimate,
    bounded_mean_intervals,
    spectral_filter,
    trim_count,
    trimmed_means,
)
from unswayed.estimators.rows import SparseRows
from unswayed.learners.design import Design, uneven_shares
from unswayed.learners.estimates import Estimates
from unswayed.tallies import Tallies, UserTallies, entry_users, row_sums

SCALE_FLOOR = 20.0  # The paper's, in σ_s² := max(n_s(T₀), 20 log S) / T₀ (proof of Lemma D.1)
# Ours: the paper assumes that activities are bounded; `learn` suggests a cap
LARGEST_ACTIVITY = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class ContextEstimate:
    """Estimated context probabilities; arrays of shape (n_contexts,)."""

    context_probabilities: FloatArray  # ν̂, non-negative with sum one
    scales: FloatArray  # σ_s, about the square root of the probability, never zero
    filtered: MeanEstimate  # result of the spectral filter, one row per active user


# A robust mean of rows, called with rows of shape (n_users, n_columns) and alpha
Multivariate = Callable[[FloatArray, float], ArrayLike]


def robust_mean(
    rows: BlockedRows,
    alpha: float,
    multivariate: Multivariate | None,
    row_weights: FloatArray | None = None,
) -> MeanEstimate:
    """Return the robust mean of rows; the default estimator is the spectral filter."""
    if multivariate is None:
        return spectral_filter(rows, alpha=alpha, row_weights=row_weights)
    n_rows, n_columns = rows.shape
    dense = rows.each(SparseRows.project, np.zeros(n_columns), np.eye(n_columns))
    mean = np.asarray(multivariate(dense, alpha), dtype=np.float64)
    if mean.shape != (n_columns,):
        raise InputError(f"multivariate returned shape {mean.shape} instead of {(n_columns,)}.")
    return MeanEstimate(mean, np.ones(n_rows), 0, (), "iterations", 0.0)


def estimate_context_probabilities(
    tallies: UserTallies, *, alpha: float, multivariate: Multivariate | None = None
) -> ContextEstimate:
    """Estimate ν robustly from the users' visits (Algorithm 1).

    ``tallies`` are the interactions of the first T₀ steps, which lines 1–4 collect.
    ``multivariate`` replaces the spectral filter by another robust mean of rows.

    Guarantee: ‖ν̂ − ν‖₁ ≤ ε with probability 9/10 for T₀ = O(L α/ε²) and L = Ω(S log S / α).

    Deviations from the paper:

    - The floor of the scales is 20 log(max(S, 2))/T₀, since log 1 = 0 (erratum 7).
    - Line 5 counts the colluders' visits, so flooding a context inflates σ_s and makes the flood
      invisible in the scaled coordinate (erratum 5). Therefore lines 5–8 run a second time with
      σ_s² = max(ν̂_s, floor), starting from the weights of the first pass. With equal starting
      weights, good users who visited the flooded rare context would be outliers too, and a fifth of
      them would be removed.
    - Users without interactions are ignored. In line 5 and in T₀, the interactions of a user count
      at most ``LARGEST_ACTIVITY`` times those of the median user (erratum 14).
    """
    interactions = tallies.interactions
    if not interactions.any():
        raise InputError("there are no interactions to learn from; give at least one event.")
    most = LARGEST_ACTIVITY * float(np.median(interactions[interactions > 0]))
    total = float(np.minimum(interactions, most).sum())  # T₀
    floor = SCALE_FLOOR * math.log(max(tallies.n_contexts, 2)) / total
    # Line 5: σ_s² from the visits of all users.
    shares = tallies.blocks.add_blocks(_capped_visits, most) / total
    weights: FloatArray | None = None
    for _ in ("line 5 as printed", "erratum 5"):
        scales = np.sqrt(np.maximum(shares, floor))
        # Lines 6 and 7: the robust mean of the b_i = (1/n_i) Σ_t σ^-1 e_{s_t}. The rows are large,
        # so no variable refers to them while the next ones are made.
        filtered = robust_mean(tallies.rows(visit_rows, scales), alpha, multivariate, weights)
        # If the first pass removed everybody, as can happen with very few users, the second pass
        # starts with equal weights.
        weights = filtered.weights if filtered.weights.any() else None
        # Line 8: ν̂ = diag(σ)·b̂. Rows are shares of visits, so ν̂ is a probability vector.
        shares = scales * filtered.estimate
    return ContextEstimate(
        context_probabilities=shares / shares.sum(),
        scales=np.sqrt(np.maximum(shares, floor)),
        filtered=filtered,
    )


def _capped_visits(tallies: Tallies, most: float) -> FloatArray:
    """Return the visits to each context, with those of very active users scaled down."""
    factors = most / np.maximum(tallies.interactions, most)
    weights = tallies.counts * np.repeat(factors, np.diff(tallies.indptr))
    contexts = tallies.cells // tallies.n_actions
    return np.bincount(contexts, weights, minlength=tallies.n_contexts).astype(np.float64)


def visit_rows(tallies: Tallies, scales: FloatArray) -> SparseRows:
    """Return b_i = (1/n_i) Σ_t σ_{s_t}^-1 e_{s_t} for each active user."""
    columns = np.repeat(np.arange(tallies.n_contexts), tallies.n_actions)
    factors = np.repeat(1.0 / scales, tallies.n_actions)
    return _rows_of_active(tallies, tallies.counts, factors, columns, is_joined=True)


def _rows_of_active(
    tallies: Tallies, values: FloatArray, factors: FloatArray, columns: IntArray, *, is_joined: bool
) -> SparseRows:
    """Return one row per active user, with entries values · factors / n_i.

    ``factors`` and ``columns`` have one entry per cell; cells with a negative column are omitted.
    """
    # Arrays have the maximum size; untouched memory pages cost nothing. Columns are unsigned:
    # without the check for negative indices, indexing takes a sixth less time.
    data, indices = np.empty(len(values)), np.empty(len(values), np.uint32)
    rows = (tallies.indptr, tallies.cells, values, tallies.interactions)
    starts = _fill_rows(*rows, factors, columns, is_joined, data, indices)
    n_columns = int(columns.max()) + 1
    return SparseRows(data[: starts[-1]], indices[: starts[-1]], starts, n_columns)


@compiled
def _fill_rows(
    indptr: IntArray,
    cells: npt.NDArray[np.int32],
    values: FloatArray,
    interactions: FloatArray,
    factors: FloatArray,
    columns: IntArray,
    is_joined: bool,
    data: FloatArray,
    indices: IndexArray,
) -> IntArray:
    """Fill in the rows of active users, without zeros; return where each row starts.

    If ``is_joined``, consecutive entries of the same column are summed.
    """
    starts = np.zeros(len(indptr), np.int64)
    place, n_rows = 0, 0
    for user in range(len(interactions)):
        if interactions[user] <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            cell = cells[entry]
            if columns[cell] < 0 or values[entry] == 0.0:
                continue
            if not is_joined:
                data[place] = values[entry] * factors[cell] / interactions[user]
            else:
                value = values[entry] * (factors[cell] / interactions[user])
                if place > starts[n_rows] and indices[place - 1] == columns[cell]:
                    data[place - 1] += value
                    continue
                data[place] = value
            indices[place] = columns[cell]
            place += 1
        n_rows += 1
        starts[n_rows] = place
    return starts[: n_rows + 1]


FAILURE_PROBABILITY = 0.1  # The paper's: its estimates hold with probability 9/10

# A robust mean of points, called with points of shape (n_points,) and alpha
Univariate = Callable[[FloatArray, float], float]


def recover_frequent(
    tallies: UserTallies,
    design: Design,
    scales: FloatArray,
    is_frequent: BoolArray,
    *,
    alpha: float,
    per_visit: bool = False,
    univariate: Univariate | None = None,
) -> FloatArray:
    """Estimate the cells of S₊ one by one, by trimmed means over users.

    b_{i,s} = (1/n_i) Σ_t r_t σ_s^-1 1{s_t = s} for the users in the group I_{s,a}, as in the
    appendix. With ``per_visit``, the mean reward of a user's visits to s instead, as in Section
    3.1; it estimates μ(s, a) itself, and users who never visited s are ignored.

    ``scales`` and ``is_frequent`` have shape (n_contexts,). Returns the estimates b̂ of
    σ_s^-1·ν(s)·μ(s, a), shape (n_contexts, n_actions), NaN outside of S₊.

    Guarantee: |b̂ − σ_s^-1 ν(s) μ(s,a)| = O(sqrt(α L/T)) simultaneously for all cells of S₊, if
    |I_{s,a}| = Ω(log(SA)/α). Deviation from the paper: the trimmed number is an upper quantile of
    the random number of colluders in a group (erratum 11).
    """
    shape = (tallies.n_contexts, tallies.n_actions)
    if not is_frequent.any():
        return np.full(shape, np.nan)
    is_chosen = np.repeat(is_frequent, tallies.n_actions)
    values, groups = user_values(tallies, is_chosen, None if per_visit else scales)
    sizes = np.where(is_frequent[:, None], design.group_sizes, 0)
    stored = np.bincount(groups, minlength=tallies.n_cells)
    n_zeros = np.maximum(0 * stored if per_visit else sizes.ravel() - stored, 0)
    if univariate is None:
        estimates = trimmed_means(
            values,
            groups,
            tallies.n_cells,
            alpha=alpha,
            failure_probability=FAILURE_PROBABILITY / tallies.n_cells,
            n_zeros=n_zeros,
        ).estimates
    else:
        estimates = np.full(tallies.n_cells, np.nan)
        for cell in np.flatnonzero(stored + n_zeros):
            points = np.append(values[groups == cell], np.zeros(n_zeros[cell]))
            estimates[cell] = univariate(points, alpha)
    return estimates.reshape(shape)


def user_values(
    tallies: UserTallies, is_chosen: BoolArray, scales: FloatArray | None
) -> tuple[FloatArray, IntArray]:
    """Return b_{i,s} for every entry in the chosen cells, and the cells of these entries.

    ``is_chosen`` has shape (n_cells,). Without scales, the mean rewards of the entries are returned
    instead.
    """
    found = tallies.blocks.map_blocks(_values_of_block, is_chosen, scales)
    values, cells = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(cells)


def _values_of_block(
    tallies: Tallies, is_chosen: BoolArray, scales: FloatArray | None
) -> tuple[FloatArray, IntArray]:
    chosen = is_chosen[tallies.cells]
    cells = tallies.cells[chosen].astype(np.int64)
    if scales is None:
        return tallies.sums[chosen] / tallies.counts[chosen], cells
    users = entry_users(tallies.indptr)[chosen]
    factors = 1.0 / (scales[cells // tallies.n_actions] * tallies.interactions[users])
    return tallies.sums[chosen] * factors, cells


def recover_rare(
    tallies: UserTallies,
    scales: FloatArray,
    is_rare: BoolArray,
    *,
    alpha: float,
    multivariate: Multivariate | None = None,
) -> tuple[FloatArray, MeanEstimate]:
    """Estimate all cells of S₋ jointly, by a robust mean of vectors over users.

    b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)} is the row of an active user.
    Returns b̂ like ``recover_frequent``, and the result of the filter.

    Guarantee: ‖b̂ − diag(σ^-1 ν) μ‖₂ = O(sqrt(α A L/T)) over S₋. Deviation from the paper: none.
    """
    filtered = robust_mean(tallies.rows(reward_rows, scales, is_rare), alpha, multivariate)
    table = np.full((tallies.n_contexts, tallies.n_actions), np.nan)
    table[is_rare] = filtered.estimate.reshape(-1, tallies.n_actions)
    return table, filtered


def reward_rows(tallies: Tallies, scales: FloatArray, is_rare: BoolArray) -> SparseRows:
    """Return b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)} for each active user.

    Columns are the cells of S₋ in ascending order. Zeros are not stored; with rewards of 0 and 1,
    about half of the entries are zero.
    """
    is_chosen = np.repeat(is_rare, tallies.n_actions)
    columns = np.where(is_chosen, np.cumsum(is_chosen) - 1, -1)
    factors = np.repeat(tallies.n_actions / scales, tallies.n_actions)
    return _rows_of_active(tallies, tallies.sums, factors, columns, is_joined=False)


SAMPLED_ENTRIES = 512  # Ours: entries sampled per block to guess the two values of binary rewards
PIVOT_BITS = 20  # Ours: bits of the pivot for squares; few, so that integers up to 1e7 stay exact
# Ours: tolerance of the test for two values, relative to their squared distance. Rewards of 0 and 1
# need none, because their sums are exact.
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class RewardUnits:
    """Origin from which rewards are measured, so that estimates are equivariant to shifts.

    Replacing up to ``n_certain`` accounts cannot change the origin. It is positive only for rewards
    of 0 and 1, which are tested directly; other origins depend on a sample or a median.
    """

    origin: float  # the smaller value of binary rewards; otherwise the median user's mean reward
    n_certain: int


def measure_units(tallies: UserTallies, *, alpha: float) -> RewardUnits:
    """Return the origin of rewards.

    Rewards count as binary if the number of users with any other value is at most the number that
    may collude, and at most half the number of users who report the larger value and no other than
    these two. Otherwise the origin is the median of the users' mean rewards.

    The sums of squares in the tallies reveal binary rewards: with rewards in {v, w}, every entry
    satisfies Σr² − (v + w)·Σr + v·w·n = 0, and two entries determine v + w and v·w. The pair (0, 1)
    is tested first, then the pair that most sampled entries agree on. The order matters: a few
    accounts with extreme rewards can change the sample, and if fewer users than may collude report
    the larger value, a wrong pair would pass the test.
    """
    n_allowed = math.ceil(alpha * int((tallies.interactions > 0).sum()))
    votes = tallies.blocks.add_blocks(_votes, 0.0, 1.0, 0.0)
    n_certain = min(_spare(votes, n_allowed), int(votes[2]) - 1)
    if n_certain >= 0:
        return RewardUnits(0.0, n_certain)
    found = _two_values(np.concatenate(tallies.blocks.map_blocks(_sampled_entries)))
    if found is not None:
        votes = tallies.blocks.add_blocks(_votes, *found, TOLERANCE)
        if _spare(votes, n_allowed) >= 0:
            return RewardUnits(found[0], 0)
    means = np.concatenate(tallies.blocks.map_blocks(user_means))
    return RewardUnits(float(np.median(means)), 0)


def measured_from(tallies: UserTallies, units: RewardUnits) -> UserTallies:
    """Return the tallies with rewards measured from the origin; squares are unchanged."""
    return tallies if units.origin == 0.0 else tallies.transformed(_moved, units.origin)


def _moved(tallies: Tallies, origin: float) -> Tallies:
    return replace(tallies, sums=tallies.sums - origin * tallies.counts)


def user_means(tallies: Tallies) -> FloatArray:
    """Return the mean reward of each active user."""
    totals, numbers = row_sums(tallies.indptr, tallies.sums), tallies.interactions
    return np.asarray(totals[numbers > 0] / numbers[numbers > 0])


def _sampled_entries(tallies: Tallies) -> FloatArray:
    """Return counts, sums and squares of a sample of entries; shape (n, 3).

    Half of the sample is evenly spaced, and half has means other than the median.
    """
    if not len(tallies.cells):
        return np.empty((0, 3))
    is_other = tallies.sums != np.median(tallies.sums / tallies.counts) * tallies.counts
    chosen = np.concatenate(
        [
            positions[:: max(1, -(-len(positions) // (SAMPLED_ENTRIES // 2)))]
            for positions in (np.arange(len(is_other)), np.flatnonzero(is_other))
        ]
    )
    return np.column_stack([tallies.counts[chosen], tallies.sums[chosen], tallies.squares[chosen]])


def _two_values(entries: FloatArray) -> tuple[float, float] | None:
    """Return the smaller of the two values that explain most entries, and their difference."""
    counts, sums, squares = entries[entries[:, 0] > 0].T
    if len(counts) < 2:
        return None
    mantissa, exponent = math.frexp(float(np.median(sums / counts)))
    pivot = math.ldexp(float(np.rint(math.ldexp(mantissa, PIVOT_BITS))), exponent - PIVOT_BITS)
    squares = squares - 2.0 * pivot * sums + pivot * pivot * counts
    means, squares = (sums - pivot * counts) / counts, squares / counts
    order = np.argsort(means, kind="stable")
    # Pair entries that are far apart in the order of means, so that few pairs have equal means.
    first, second = order[: len(order) // 2], order[(len(order) + 1) // 2 :]
    first, second = np.tile(first, 2), np.concatenate([second, np.roll(second, 1)])
    differs = means[first] != means[second]
    first, second = first[differs], second[differs]
    total = (squares[first] - squares[second]) / (means[first] - means[second])  # v + w
    product = total * means[first] - squares[first]  # v·w
    spans = np.sqrt(np.maximum(total * total - 4.0 * product, 0.0))
    lows = (total - spans) / 2.0
    lows, spans = lows[spans > 0], spans[spans > 0]
    if not len(spans):
        return None
    # Choose the pair of values that most entries agree on up to rounding, and average by medians.
    scale = float(np.median(spans))
    rounded = np.rint(np.column_stack([lows, spans]) / scale * 1e3)
    _, labels, sizes = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    chosen = labels.ravel() == sizes.argmax()
    low, span = float(np.median(lows[chosen])), float(np.median(spans[chosen]))
    # Round to a billionth of the span in decimals, so that zero is exactly zero.
    return round(pivot + low, 9 - math.ceil(math.log10(span))) + 0.0, float(f"{span:.9g}")


def _spare(votes: IntArray, n_allowed: int) -> int:
    """Return how many accounts can be replaced without effect; negative for a rejected result."""
    n_shown, n_broken = int(votes[0]), int(votes[1])
    return min(n_allowed - n_broken, (n_shown - 2 * n_broken) // 3)


def _votes(tallies: Tallies, low: float, span: float, tolerance: float) -> IntArray:
    """Return how many users report the larger value, any other value, and the smaller value.

    Users with any other value are counted as such only.
    """
    high, n, sums = low + span, tallies.counts, tallies.sums
    span = high - low
    largest = max(abs(low), abs(high)) / span
    allowed = tolerance + (4.0 * 2.3e-16 * largest * largest if tolerance > 0.0 else 0.0)
    rest = tallies.squares - (low + high) * sums + low * high * n
    beyond = 0.5 * span * np.minimum(n, 1.0)
    users = entry_users(tallies.indptr)

    def who(shows: BoolArray) -> BoolArray:
        """Mark the users with such an entry."""
        return np.bincount(users[shows & (n > 0)], minlength=tallies.n_users) > 0

    is_other = who(np.abs(rest) > allowed * n * span * span)
    has_high, has_low = who(sums - low * n > beyond), who(high * n - sums > beyond)
    votes = (has_high & ~is_other, is_other, has_low & ~is_other)
    return np.array([np.count_nonzero(vote) for vote in votes])


def frequent_contexts(
    context_probabilities: FloatArray, *, n_actions: int, is_sticky: BoolArray | None = None
) -> BoolArray:
    """Return the mask of S₊, the min(S, A) most probable contexts; ties go to the first.

    Unless all contexts are sticky, S₊ was fixed during play: it is the set of sticky contexts.

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
    """Return the S₊ with the smallest bound: the m ≤ min(S, A) most probable contexts.

    ``sticky_plays`` is the number n of plays of a typical user if a log is complete and users kept
    one action in every context; it is 0 if S₊ is chosen before play, since all other contexts will
    be played uniformly.

    By the proof of Theorem 5.1 the loss is O(sqrt(α L/T)) times

    K_m = Σ_{j≤m} sqrt(ν_[j]) + sqrt(A · Σ_{j>m} ν_[j] · (1 + n·ν_[m+1])).

    The last factor is one for uniform plays. The paper has m = min(S, A), which this function
    returns for S ≤ A; docs/paper.md explains why a smaller m is better for S > A.

    >>> [split_contexts(np.full(n, 1 / n), n_actions=4).sum().tolist() for n in (4, 8)]
    [4, 0]
    >>> split_contexts(np.array([0.9] + [0.01] * 10), n_actions=4).sum().tolist()
    1
    """
    literal = frequent_contexts(context_probabilities, n_actions=n_actions)
    if literal.all():
        return literal
    ranked = -np.sort(-context_probabilities)
    heads = np.concatenate([[0.0], np.cumsum(np.sqrt(ranked[:n_actions]))])
    tails = np.maximum(1.0 - np.concatenate([[0.0], np.cumsum(ranked[:n_actions])]), 0.0)
    bounds = heads + np.sqrt(n_actions * tails * (1.0 + sticky_plays * ranked[: n_actions + 1]))
    # Ties go to the largest m, which is the closest to the paper's.
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
    tallies, design
        The interactions of lines 3–10, and how their actions were chosen (lines 5–9).
    warmup
        The T₀ interactions of Algorithm 1, if they were collected apart. None reads the context
        probabilities off ``tallies``, as on a log.
    per_visit
        Whether frequent contexts are estimated from users' means per visit (Section 3.1) instead of
        sums over all of their interactions (appendix). For comparison only: a context that few
        visit can then be full of colluders (erratum 9).
    is_literal
        Whether S₊ are the min(S, A) most probable contexts, as printed: method ``paper-literal``.
    univariate, multivariate
        Other estimators than the trimmed mean and the spectral filter; see ``unswayed.paper``.

    Notes
    -----
    Guarantee: suboptimality O(K(B)·sqrt(α L/T)) with probability 2/3, for L = Ω(SA log(SA)/α)
    (Theorem 5.1; erratum 6 adds a term sqrt(2 ε A) to K(B)). The theorem has no intervals;
    ``guard_intervals`` documents the ones returned here.

    Deviations from the paper:

    - S₊ has the size with the smallest bound (``split_contexts``), unless ``is_literal``.
    - Trimmed means need the groups I_{s,a}, so only sticky contexts can be in S₊; a log of uniform
      plays is base case 2, whatever its number of contexts.
    - Users who never visited a context count as zeros, so estimates would depend on the zero of the
      reward scale. Rewards are therefore measured from an estimated origin (``measure_units``).
    - Mean rewards are reported as b̂·σ_s/ν̂_s, which estimates μ. The paper's b̂/σ_s estimates
      ν·μ/σ_s², which has the same best action (erratum 8).
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

    # Line 11: the recovery procedure, separately for frequent and rare contexts.
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

    # Line 12, the largest mean of each context, is done by the policy.
    to_rewards = np.where(
        # In other cells, all values are zeros of users who never visited.
        (tallies.cell_users() > 0) & (probabilities > 0)[:, None],
        (contexts.scales / np.maximum(probabilities, np.finfo(float).tiny))[:, None],
        np.nan,
    )
    if per_visit:  # Here the estimates are means already.
        to_rewards[is_frequent] = np.where(np.isnan(to_rewards[is_frequent]), np.nan, 1.0)
    means = units.origin + scaled_means * to_rewards
    intervals = guard_intervals(tallies, design, alpha=alpha, origin=units.origin)
    is_known = ~np.isnan(means)
    low = np.where(is_known, intervals.low, np.nan)
    high = np.where(is_known, intervals.high, np.nan)
    # Half-widths reach the farther end of the interval.
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


ENTRIES_AT_ONCE = 1 << 22  # Ours: number of entries in a batch of cells
COUNTED = 0.25  # Ours: share of the failure probability spent on bounding a cell's colluders


@dataclass(frozen=True, slots=True, eq=False)
class CellIntervals:
    """Intervals of mean rewards, shape (n_contexts, n_actions); NaN in cells without visitors.

    If they depend on an assumption that the operator has not confirmed, they exclude nothing.
    """

    low: FloatArray  # infinite where there is no bound
    high: FloatArray
    sampling_errors: FloatArray  # half-widths for the sampling error alone, without colluders
    is_assumed: bool = False


def guard_intervals(
    tallies: UserTallies, design: Design, *, alpha: float, origin: float | None = None
) -> CellIntervals:
    """Return intervals of all cells, with joint probability 9/10 for each context.

    The design specifies how actions were chosen, and the bound on rewards. Sums of squares are
    taken around ``origin`` to avoid cancellation; by default it is measured.

    Guarantee: valid in finite samples, without approximation (``bounded_mean_intervals``), under
    the assumptions of docs/guarantee.md. A point is the mean reward of one user in a cell.
    Colluders choose their contexts, so all of them may be in a cell if they can get its action: α·L
    of them, or in a sticky context at most a quantile of the binomial number in the group I_{s,a}.
    The paper has no intervals.
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
        in_groups = _most_in_groups(tallies, design, alpha=alpha, level=COUNTED * share)
        n_bad = np.where(
            design.is_sticky[:, None], np.minimum(in_groups, everywhere), everywhere
        ).ravel()
        # If all visitors of a cell may collude, only the range bounds its mean.
        is_open = visitors > n_bad
        marks = np.cumsum(np.where(is_open, visitors, 0)) // ENTRIES_AT_ONCE
        bounds = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(visitors)]
        for first, last in itertools.pairwise(bounds):
            is_chosen = np.zeros_like(is_open)
            is_chosen[first:last] = is_open[first:last]
            values, cells = user_values(tallies, is_chosen, None)
            low[first:last], high[first:last] = bounded_mean_intervals(
                values,
                cells - first,
                last - first,
                n_bad=n_bad[first:last],
                failure_probability=(1.0 - COUNTED) * share,
                value_range=rewards.range,
                deviation=rewards.deviation if rewards.has_deviation else None,
            )
    is_met = visitors > 0
    sums, squares = tallies.blocks.add_blocks(_moments, origin)
    n = np.maximum(visitors, 1)  # for the standard error of the plain mean over users
    errors = np.sqrt(np.maximum(squares - sums**2 / n, 0.0) / np.maximum(n - 1, 1) / n)
    errors = np.minimum(-special.ndtri(share / 2.0) * errors, (high - low) / 2.0)
    return CellIntervals(
        low=np.where(is_met, low, np.nan).reshape(shape),
        high=np.where(is_met, high, np.nan).reshape(shape),
        sampling_errors=np.where(is_met, errors, np.nan).reshape(shape),
        is_assumed=rewards.is_assumed,
    )


def _most_in_groups(
    tallies: UserTallies, design: Design, *, alpha: float, level: float
) -> IntArray:
    """Return an upper bound on the colluders in each group I_{s,a}, valid up to ``level``."""
    visitors = tallies.cell_users()
    sizes = design.group_sizes.astype(np.int64)
    shares = uneven_shares(np.where(design.is_sticky[:, None], visitors, 0), level / 2.0)
    if shares is not None:
        # Actions of users who never visited were drawn with the same probabilities.
        level /= 2.0
        n_active = int((tallies.interactions > 0).sum())
        missing = n_active - visitors.sum(axis=1, keepdims=True)
        sizes = np.maximum(sizes, visitors + np.ceil(missing * shares).astype(np.int64))
    return trim_count(sizes, alpha=alpha, failure_probability=level)


def _moments(tallies: Tallies, origin: float) -> FloatArray:
    """Return the sums of users' means and of their squares for each cell; shape (2, n_cells)."""
    values = tallies.sums / tallies.counts - origin
    return np.stack(
        [
            np.bincount(tallies.cells, values, minlength=tallies.n_cells),
            np.bincount(tallies.cells, values**2, minlength=tallies.n_cells),
        ]
    )


def allowed_actions(guard: CellIntervals) -> BoolArray:
    """Return a mask of the actions that intervals do not exclude; shape (n_contexts, n_actions).

    An action is excluded if its interval lies entirely below that of another action. Actions
    without an interval are not excluded, and intervals under an unconfirmed assumption
    (``CellIntervals.is_assumed``) exclude nothing.

    Guarantee for a context in which all intervals cover their means (proof in docs/guarantee.md):
    the best action is allowed, and any allowed action, however it is chosen, loses at most twice
    the widest interval of the context. The paper has no such rule.

    >>> low = np.array([[0.4, 0.25, 0.0]])
    >>> allowed_actions(CellIntervals(low, low + 0.2, np.zeros((1, 3)))).tolist()
    [[True, True, False]]
    """
    if guard.is_assumed:
        return np.ones(guard.low.shape, dtype=np.bool_)
    floor = np.where(np.isnan(guard.low), -np.inf, guard.low).max(axis=1, keepdims=True)
    return np.asarray(~(guard.high < floor))  # also True for NaN
