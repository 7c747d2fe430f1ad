"""The recovery procedure of the paper's appendix, and where its rewards are measured from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IndexArray, IntArray
from unswayed.compiled import compiled
from unswayed.estimators import MeanEstimate, trimmed_means
from unswayed.estimators.rows import SparseRows
from unswayed.learners.design import Design
from unswayed.learners.paper.context_probabilities import Multivariate, robust_mean
from unswayed.tallies import Tallies, UserTallies, entry_users, row_sums

#: The paper's: its estimates hold with probability 9/10.
FAILURE_PROBABILITY = 0.1

Univariate = Callable[[FloatArray, float], float]
"""A robust mean of points: (points of shape (n_points,), alpha) -> mean."""


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
    """Estimate the contexts of S₊ one cell at a time, by trimmed means over the users.

    b_{i,s} = (1/n_i) Σ_t r_t σ_s^-1 1{s_t = s} over the group I_{s,a}, as the appendix has it; or,
    ``per_visit``, the mean reward of the user's visits to s, over those who came, as Section 3.1
    has it. The latter estimates μ(s, a) itself, and users who never came do not count.

    Parameters
    ----------
    scales, is_frequent
        Shape (n_contexts,); σ_s, and whether s is in S₊.
    univariate
        Another robust mean of points than the trimmed mean.

    Returns
    -------
    Shape (n_contexts, n_actions); b̂, estimates of σ_s^-1·ν(s)·μ(s, a). NaN outside of S₊.

    Notes
    -----
    Guarantee: |b̂ − σ_s^-1 ν(s) μ(s,a)| = O(sqrt(α L/T)) for all cells of S₊ at once, given
    |I_{s,a}| = Ω(log(SA)/α). Deviation from the paper: trimming covers the random number of
    colluders in a group (erratum 11).
    """
    shape = (tallies.n_contexts, tallies.n_actions)
    if not is_frequent.any():
        return np.full(shape, np.nan)
    entries = tallies.blocks.map_blocks(_frequent_entries, scales, is_frequent, per_visit)
    values, groups = (np.concatenate(column) for column in zip(*entries, strict=True))
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


def _frequent_entries(
    tallies: Tallies, scales: FloatArray, is_frequent: BoolArray, per_visit: bool
) -> tuple[FloatArray, IntArray]:
    """Return b_{i,s} of every entry in S₊, or its mean per visit, and its cell."""
    contexts = tallies.cells // tallies.n_actions
    chosen = is_frequent[contexts]
    cells = tallies.cells[chosen].astype(np.int64)
    if per_visit:
        return tallies.sums[chosen] / tallies.counts[chosen], cells
    users = entry_users(tallies.indptr)[chosen]
    factors = 1.0 / (scales[contexts[chosen]] * tallies.interactions[users])
    return tallies.sums[chosen] * factors, cells


def recover_rare(
    tallies: UserTallies,
    scales: FloatArray,
    is_rare: BoolArray,
    *,
    alpha: float,
    multivariate: Multivariate | None = None,
) -> tuple[FloatArray, MeanEstimate]:
    """Estimate all cells of S₋ together, by the high-dimensional robust mean over the users.

    b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)}, one row an active user. Returns b̂
    as ``recover_frequent`` does, and the estimate of the rows.

    Notes
    -----
    Guarantee: ‖b̂ − diag(σ^-1 ν) μ‖₂ = O(sqrt(α A L/T)) over S₋. Deviation from the paper: none.
    """
    filtered = robust_mean(tallies.rows(reward_rows, scales, is_rare), alpha, multivariate)
    table = np.full((tallies.n_contexts, tallies.n_actions), np.nan)
    table[is_rare] = filtered.estimate.reshape(-1, tallies.n_actions)
    return table, filtered


def reward_rows(tallies: Tallies, scales: FloatArray, is_rare: BoolArray) -> SparseRows:
    """Return b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)} of each active user.

    Columns are the cells of S₋ in their order. Sums that are zero are not stored, which with
    rewards of zero and one is every other one.
    """
    # How much less the columns of a context are than its cells; negative where it is left out.
    shifts = np.where(is_rare, np.cumsum(~is_rare) * tallies.n_actions, -1)
    data, indices = np.empty(len(tallies.cells)), np.empty(len(tallies.cells), np.uint32)
    starts = _fill_rewards(
        tallies.indptr,
        tallies.cells,
        tallies.sums,
        tallies.interactions,
        tallies.n_actions / scales,
        shifts,
        tallies.n_actions,
        data,
        indices,
    )
    n_columns = int(is_rare.sum()) * tallies.n_actions
    return SparseRows(data[: starts[-1]], indices[: starts[-1]], starts, n_columns)


@compiled
def _fill_rewards(
    indptr: IntArray,
    cells: npt.NDArray[np.int32],
    sums: FloatArray,
    interactions: FloatArray,
    factors: FloatArray,
    shifts: IntArray,
    n_actions: int,
    data: FloatArray,
    indices: IndexArray,
) -> IntArray:
    """Fill in rewards times factors; return where the rows of active users begin."""
    starts = np.zeros(len(indptr), np.int64)
    place, n_rows = 0, 0
    for user in range(len(interactions)):
        if interactions[user] <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            if sums[entry] != 0.0:
                context = np.int64((cells[entry] + 0.5) * (1.0 / n_actions))
                if shifts[context] >= 0:
                    data[place] = sums[entry] * factors[context] / interactions[user]
                    indices[place] = cells[entry] - shifts[context]
                    place += 1
        n_rows += 1
        starts[n_rows] = place
    return starts[: n_rows + 1]


SAMPLED_ENTRIES = 512
"""Ours: entries per block that are looked at to guess the two values of binary rewards."""

PIVOT_BITS = 20
"""Ours: squares around a number of so few bits lose nothing of whole numbers up to 1e7."""

TOLERANCE = 1e-6
"""Ours: how far a mean square may be from that of two values, in squares of their distance."""


@dataclass(frozen=True, slots=True)
class RewardUnits:
    """Where rewards are measured from, so that a constant added to all of them changes nothing.

    Attributes
    ----------
    origin
        The smaller value of binary rewards; of others the median user's mean reward.
    is_binary
        Whether rewards have two values.
    n_certain
        Replacing so many accounts does not change the origin of binary rewards.
    """

    origin: float
    is_binary: bool
    n_certain: int


def measure_units(tallies: UserTallies, *, alpha: float) -> RewardUnits:
    """Return where rewards are to be measured from.

    Notes
    -----
    Rewards are binary if all but as many users as may collude have rewards of the same two values
    only, and if those who show both, or the larger one, are at least twice as many as those who
    break the rule. Colluders who report other values can hide that rewards are binary if they are
    more than half as many as those who show it; then less is assumed, and intervals are wider.

    The squares of the tallies show it: with rewards in {v, w} every entry has
    Σr² − (v + w)·Σr + v·w·n = 0, and two entries determine v + w and v·w.
    """
    found = _two_values(np.concatenate(tallies.blocks.map_blocks(_sampled_entries)))
    if found is not None:
        n_shown, n_broken = tallies.blocks.add_blocks(_votes, *found).tolist()
        n_allowed = math.ceil(alpha * int((tallies.interactions > 0).sum()))
        if n_broken <= n_allowed and 2 * n_broken <= n_shown:
            n_certain = min(n_allowed - n_broken, (n_shown - 2 * n_broken) // 3)
            return RewardUnits(found[0], True, n_certain)
    means = np.concatenate(tallies.blocks.map_blocks(user_means))
    return RewardUnits(float(np.median(means)), False, 0)


def measured_from(tallies: UserTallies, units: RewardUnits) -> UserTallies:
    """Return the tallies with rewards measured from the origin; squares are left as they are."""
    if units.origin == 0.0:
        return tallies
    return tallies.transformed(_moved, units.origin)


def _moved(tallies: Tallies, origin: float) -> Tallies:
    return replace(tallies, sums=tallies.sums - origin * tallies.counts)


def user_means(tallies: Tallies) -> FloatArray:
    """Return the mean reward of each active user."""
    totals, numbers = row_sums(tallies.indptr, tallies.sums), tallies.interactions
    means: FloatArray = totals[numbers > 0] / numbers[numbers > 0]
    return means


def _sampled_entries(tallies: Tallies) -> FloatArray:
    """Return counts, sums and squares of some entries; shape (n, 3).

    Half of them evenly spaced, half of them among those whose mean is not the usual one.
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
    """Return the smaller of two values and their distance, as most pairs of entries have them."""
    counts, sums, squares = entries[entries[:, 0] > 0].T
    if len(counts) < 2:
        return None
    pivot = _with_few_bits(float(np.median(sums / counts)))
    squares = squares - 2.0 * pivot * sums + pivot * pivot * counts
    means, squares = (sums - pivot * counts) / counts, squares / counts
    order = np.argsort(means, kind="stable")
    # Far apart in order, so that few pairs have equal means.
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
    # The pair of values that most agree with, up to rounding; medians of those that agree.
    scale = float(np.median(spans))
    rounded = np.rint(np.column_stack([lows, spans]) / scale * 1e3)
    _, labels, sizes = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    chosen = labels.ravel() == sizes.argmax()
    low, span = float(np.median(lows[chosen])), float(np.median(spans[chosen]))
    # Rounded to a billionth of the span and decimally, so that zero is zero and two is two.
    return round(pivot + low, 9 - math.ceil(math.log10(span))) + 0.0, float(f"{span:.9g}")


def _with_few_bits(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(float(np.rint(math.ldexp(mantissa, PIVOT_BITS))), exponent - PIVOT_BITS)


def _votes(tallies: Tallies, low: float, span: float) -> IntArray:
    """Return how many users show the larger of two values and nothing else, and anything else."""
    return _count_votes(
        tallies.indptr, tallies.counts, tallies.sums, tallies.squares, low, low + span
    )


@compiled
def _count_votes(
    indptr: IntArray,
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray,
    low: float,
    high: float,
) -> IntArray:
    votes = np.zeros(3, np.int64)
    span = high - low
    largest = max(abs(low), abs(high)) / span
    allowed = TOLERANCE + 4.0 * 2.3e-16 * largest * largest
    for user in range(indptr.size - 1):
        vote = 0
        for entry in range(indptr[user], indptr[user + 1]):
            n = counts[entry]
            if n <= 0:
                continue
            rest = squares[entry] - (low + high) * sums[entry] + low * high * n
            if abs(rest) > allowed * n * span * span:
                vote = 2
            elif vote < 1 and sums[entry] - low * n > 0.5 * span * min(n, 1.0):
                vote = 1
        votes[vote] += 1
    return votes[1:]
