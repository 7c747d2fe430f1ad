"""The recovery procedure of the paper's appendix: mean rewards of frequent and rare contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IndexArray, IntArray
from unswayed.compiled import compiled
from unswayed.estimators import MeanEstimate, trimmed_means
from unswayed.estimators.rows import SparseRows
from unswayed.learners.design import Design
from unswayed.learners.paper.context_probabilities import Multivariate, robust_mean
from unswayed.tallies import Tallies, UserTallies, entry_users

Univariate = Callable[[FloatArray, float], float]
"""A robust mean of points: (points of shape (n_points,), alpha) -> mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Estimates of σ_s^-1·ν(s)·μ(s, a).

    Attributes
    ----------
    scaled_means
        Shape (n_contexts, n_actions); b̂. NaN outside of the contexts that were asked for.
    filtered
        The high-dimensional estimate over the active users, where there was one.
    """

    scaled_means: FloatArray
    filtered: MeanEstimate | None


def recover_frequent(
    tallies: UserTallies,
    design: Design,
    scales: FloatArray,
    is_frequent: BoolArray,
    *,
    alpha: float,
    failure_probability: float,
    per_visit: bool = False,
    univariate: Univariate | None = None,
) -> Recovered:
    """Estimate the contexts of S₊ one cell at a time, by trimmed means over the users.

    b_{i,s} = (1/n_i) Σ_t r_t σ_s^-1 1{s_t = s} over the group I_{s,a}, as the appendix has it; or,
    ``per_visit``, the mean reward of the user's visits to s, over those who came, as Section 3.1
    has it. The latter estimates μ(s, a) itself, and users who never came do not count.

    Parameters
    ----------
    scales, is_frequent
        Shape (n_contexts,); σ_s, and whether s is in S₊.
    failure_probability
        Over all cells together; each of the S·A cells gets its even share.
    univariate
        Another robust mean of points than the trimmed mean.

    Notes
    -----
    Guarantee: |b̂ − σ_s^-1 ν(s) μ(s,a)| = O(sqrt(α L/T)) for all cells of S₊ at once, given
    |I_{s,a}| = Ω(log(SA)/α). Deviation from the paper: trimming covers the random number of
    colluders in a group (erratum 11).
    """
    if not is_frequent.any():
        nothing = np.full((tallies.n_contexts, tallies.n_actions), np.nan)
        return Recovered(nothing, filtered=None)
    blocks = tallies.blocks
    entries = blocks.map_blocks(_frequent_entries, scales, is_frequent, per_visit)
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
            failure_probability=failure_probability / tallies.n_cells,
            n_zeros=n_zeros,
        ).estimates
    else:
        estimates = np.full(tallies.n_cells, np.nan)
        for cell in np.flatnonzero(stored + n_zeros):
            points = np.append(values[groups == cell], np.zeros(n_zeros[cell]))
            estimates[cell] = univariate(points, alpha)
    return Recovered(estimates.reshape(tallies.n_contexts, tallies.n_actions), filtered=None)


def recover_rare(
    tallies: UserTallies,
    scales: FloatArray,
    is_rare: BoolArray,
    *,
    alpha: float,
    multivariate: Multivariate | None = None,
) -> Recovered:
    """Estimate all cells of S₋ together, by the high-dimensional robust mean over the users.

    b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)}, one row an active user.

    Notes
    -----
    Guarantee: ‖b̂ − diag(σ^-1 ν) μ‖₂ = O(sqrt(α A L/T)) over S₋. Deviation from the paper: none.
    """
    columns = np.flatnonzero(np.repeat(is_rare, tallies.n_actions))
    rows = tallies.rows(reward_rows, scales, is_rare)
    filtered = robust_mean(rows, alpha, multivariate)
    table = np.full(tallies.n_cells, np.nan)
    table[columns] = filtered.estimate
    return Recovered(table.reshape(tallies.n_contexts, tallies.n_actions), filtered=filtered)


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
        tallies.counts,
        tallies.sums,
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
    counts: FloatArray,
    sums: FloatArray,
    factors: FloatArray,
    shifts: IntArray,
    n_actions: int,
    data: FloatArray,
    indices: IndexArray,
) -> IntArray:
    """Fill in rewards times factors; return where the rows of active users begin."""
    starts = np.zeros(len(indptr), np.int64)
    place, n_rows = 0, 0
    for user in range(len(indptr) - 1):
        interactions = 0.0
        for entry in range(indptr[user], indptr[user + 1]):
            interactions += counts[entry]
        if interactions <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            if sums[entry] != 0.0:
                context = np.int64((cells[entry] + 0.5) * (1.0 / n_actions))
                if shifts[context] >= 0:
                    data[place] = sums[entry] * factors[context] / interactions
                    indices[place] = cells[entry] - shifts[context]
                    place += 1
        n_rows += 1
        starts[n_rows] = place
    return starts[: n_rows + 1]
