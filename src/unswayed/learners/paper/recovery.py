"""The recovery procedure of the paper's appendix: mean rewards of frequent and rare contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.estimators import (
    MeanEstimate,
    mean_ranges,
    spectral_filter,
    trim_count,
    trimmed_means,
)
from unswayed.learners.design import Design
from unswayed.learners.interface import BoolArray, FloatArray, IntArray
from unswayed.learners.paper.rows import reward_rows
from unswayed.tallies import BlockedTallies, Tallies, as_blocks, entry_users

#: Ours. Allowed probability that more users are bad than the range of rewards leaves out.
RANGE_FAILURE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Estimates of σ_s^-1·ν(s)·μ(s, a), each with the two parts of its interval.

    Attributes
    ----------
    scaled_means
        Shape (n_contexts, n_actions); b̂. NaN outside of the contexts that were asked for.
    sampling_errors, bias_bounds
        Shape (n_contexts, n_actions); half-widths, in the same units.
    filtered
        The high-dimensional estimate over the active users, where there was one.
    """

    scaled_means: FloatArray
    sampling_errors: FloatArray
    bias_bounds: FloatArray
    filtered: MeanEstimate | None


def recover_frequent(
    tallies: Tallies | BlockedTallies,
    design: Design,
    scales: FloatArray,
    is_frequent: BoolArray,
    *,
    adversarial_fraction: float,
    failure_probability: float,
) -> Recovered:
    """Estimate the contexts of S₊ one cell at a time, by trimmed means over the users.

    b_{i,s} = (1/n_i) Σ_t r_t σ_s^-1 1{s_t = s} over the group I_{s,a}.

    Parameters
    ----------
    scales, is_frequent
        Shape (n_contexts,); σ_s, and whether s is in S₊.
    failure_probability
        Over all cells together; each of the S·A cells gets its even share.

    Notes
    -----
    Guarantee: |b̂ − σ_s^-1 ν(s) μ(s,a)| = O(sqrt(α L/T)) for all cells of S₊ at once, given
    |I_{s,a}| = Ω(log(SA)/α). Deviation from the paper: trimming covers the random number of
    colluders in a group (erratum 11). The bias bound is the paper's nowhere: it is the range of
    means that the good users of a group can have, whoever the bad ones are, for rewards in the
    range that all but the most extreme users keep to.
    """
    if not is_frequent.any():
        nothing = np.full((tallies.n_contexts, tallies.n_actions), np.nan)
        return Recovered(nothing, nothing, nothing, filtered=None)
    blocks = as_blocks(tallies).blocks
    entries = blocks.map_blocks(_frequent_entries, scales, is_frequent)
    values, ends, groups = (np.concatenate(column) for column in zip(*entries, strict=True))

    sizes = np.where(is_frequent[:, None], design.group_sizes, 0)
    stored = np.bincount(groups, minlength=tallies.n_cells)
    share = failure_probability / tallies.n_cells
    n_zeros = np.maximum(sizes.ravel() - stored, 0)
    result = trimmed_means(
        values,
        groups,
        tallies.n_cells,
        adversarial_fraction=adversarial_fraction,
        failure_probability=share,
        n_zeros=n_zeros,
    )
    n_bad = trim_count(
        result.n_points, adversarial_fraction=adversarial_fraction, failure_probability=share
    )
    low, high = _reward_range(
        np.concatenate(blocks.map_blocks(_extreme_rewards)), adversarial_fraction
    )
    # A good user's value is its share of visits times a reward in the range.
    ranges = mean_ranges(
        np.clip(values, low * ends, high * ends),
        groups,
        tallies.n_cells,
        n_bad=n_bad,
        n_zeros=n_zeros,
    )
    bias = np.maximum(ranges.high - result.estimates, result.estimates - ranges.low)
    shape = (tallies.n_contexts, tallies.n_actions)
    quantile = -special.ndtri(share / 2)
    return Recovered(
        scaled_means=result.estimates.reshape(shape),
        sampling_errors=(quantile * ranges.standard_errors).reshape(shape),
        bias_bounds=bias.reshape(shape),
        filtered=None,
    )


def recover_rare(
    tallies: Tallies | BlockedTallies,
    scales: FloatArray,
    is_rare: BoolArray,
    *,
    adversarial_fraction: float,
    failure_probability: float,
) -> Recovered:
    """Estimate all cells of S₋ together, by the high-dimensional robust mean over the users.

    b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)}, one row an active user.

    Notes
    -----
    Guarantee: ‖b̂ − diag(σ^-1 ν) μ‖₂ = O(sqrt(α A L/T)) over S₋. Deviation from the paper: none.
    """
    columns = np.flatnonzero(np.repeat(is_rare, tallies.n_actions))
    rows = as_blocks(tallies).rows(reward_rows, scales, is_rare)
    filtered = spectral_filter(rows, adversarial_fraction=adversarial_fraction)

    weights = filtered.weights / filtered.weights.sum()
    squares = rows.column_squares(weights, np.zeros(len(columns)))
    deviations = np.sqrt(np.maximum(squares - filtered.estimate**2, 0.0))
    n_effective = 1.0 / float(weights @ weights)
    quantile = -special.ndtri(failure_probability / (2 * tallies.n_cells))
    # With variance σ² over what was kept, colluders among it move the mean by at most
    # σ·sqrt(α)/(1−α), and as many good users cut off by as much again.
    bias = 2 * math.sqrt(adversarial_fraction) / (1 - adversarial_fraction)
    shape = (tallies.n_contexts, tallies.n_actions)

    def spread(cells: FloatArray) -> FloatArray:
        table = np.full(tallies.n_cells, np.nan)
        table[columns] = cells
        return table.reshape(shape)

    return Recovered(
        scaled_means=spread(filtered.estimate),
        sampling_errors=spread(quantile * deviations / math.sqrt(n_effective)),
        bias_bounds=spread(bias * deviations),
        filtered=filtered,
    )


def _frequent_entries(
    tallies: Tallies, scales: FloatArray, is_frequent: BoolArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return b_{i,s} of every entry in S₊, what it would be at rewards of one, and its cell."""
    contexts = tallies.cells // tallies.n_actions
    chosen = is_frequent[contexts]
    users = entry_users(tallies.indptr)[chosen]
    factors = 1.0 / (scales[contexts[chosen]] * tallies.interactions[users])
    cells = tallies.cells[chosen].astype(np.int64)
    return tallies.sums[chosen] * factors, tallies.counts[chosen] * factors, cells


def _extreme_rewards(tallies: Tallies) -> FloatArray:
    """Return each active user's smallest and largest mean reward in a cell; shape (n, 2)."""
    means = tallies.sums / tallies.counts
    starts = tallies.indptr[:-1][np.diff(tallies.indptr) > 0]
    if not len(starts):
        return np.empty((0, 2))
    return np.column_stack([np.minimum.reduceat(means, starts), np.maximum.reduceat(means, starts)])


def _reward_range(extremes: FloatArray, adversarial_fraction: float) -> tuple[float, float]:
    """Return a range of rewards that colluders cannot widen beyond that of good users."""
    n_users = len(extremes)
    n_bad = trim_count(
        n_users, adversarial_fraction=adversarial_fraction, failure_probability=RANGE_FAILURE
    )
    n_bad = min(n_bad, n_users - 1)
    return (
        float(np.partition(extremes[:, 0], n_bad)[n_bad]),
        float(np.partition(extremes[:, 1], n_users - 1 - n_bad)[n_users - 1 - n_bad]),
    )
