"""From where and in which units rewards are measured, so that neither can change a decision."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.tallies import Tallies, UserTallies

SAMPLED_ENTRIES = 512
"""Ours: entries per block that are looked at to guess the two values of binary rewards."""

PIVOT_BITS = 20
"""Ours: squares around a number of so few bits lose nothing of whole numbers up to 1e7."""

TOLERANCE = 1e-6
"""Ours: how far a mean square may be from that of two values, in squares of their distance."""


@dataclass(frozen=True, slots=True)
class RewardUnits:
    """Where rewards are measured from, and how far the larger of two values is from there.

    Attributes
    ----------
    origin
        The smaller value of binary rewards; of others the median user's mean reward.
    span
        Distance of the two values of binary rewards; NaN for others.
    n_certain
        Replacing so many accounts does not change the units of binary rewards.
    """

    origin: float
    span: float
    n_certain: int

    @property
    def is_binary(self) -> bool:
        """Whether rewards have two values."""
        return not math.isnan(self.span)


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
    n_active = int((tallies.interactions > 0).sum())
    sampled = np.concatenate(tallies.blocks.map_blocks(_sampled_entries))
    found = _two_values(sampled)
    if found is not None:
        low, span = found
        votes = tallies.blocks.add_blocks(_votes, low, span)
        n_shown, n_broken = int(votes[1]), int(votes[2])
        n_allowed = math.ceil(alpha * n_active)
        if n_broken <= n_allowed and 2 * n_broken <= n_shown:
            n_certain = min(n_allowed - n_broken, (n_shown - 2 * n_broken) // 3)
            return RewardUnits(low, span, n_certain)
    means = np.concatenate(tallies.blocks.map_blocks(user_means))
    return RewardUnits(float(np.median(means)), math.nan, 0)


def measured_from(tallies: UserTallies, units: RewardUnits) -> UserTallies:
    """Return the tallies with rewards measured from the origin; squares are left as they are."""
    if units.origin == 0.0:
        return tallies
    return tallies.transformed(_moved, units.origin)


def _moved(tallies: Tallies, origin: float) -> Tallies:
    return replace(tallies, sums=tallies.sums - origin * tallies.counts)


def user_means(tallies: Tallies) -> FloatArray:
    """Return the mean reward of each active user."""
    return _ratios(tallies.indptr, tallies.sums, tallies.counts)


@compiled
def _ratios(indptr: IntArray, sums: FloatArray, counts: FloatArray) -> FloatArray:
    means = np.empty(indptr.size - 1)
    n_active = 0
    for user in range(indptr.size - 1):
        total, number = 0.0, 0.0
        for entry in range(indptr[user], indptr[user + 1]):
            total += sums[entry]
            number += counts[entry]
        if number > 0:
            means[n_active] = total / number
            n_active += 1
    return means[:n_active]


def _sampled_entries(tallies: Tallies) -> FloatArray:
    """Return counts, sums and squares of some entries; shape (n, 3).

    Half of them evenly spaced, half of them among those whose mean is not the usual one.
    """
    if not len(tallies.cells):
        return np.empty((0, 3))
    is_other = tallies.sums != np.median(tallies.sums / tallies.counts) * tallies.counts
    chosen = np.concatenate(
        [_evenly_spaced(np.arange(len(is_other))), _evenly_spaced(np.flatnonzero(is_other))]
    )
    return np.column_stack([tallies.counts[chosen], tallies.sums[chosen], tallies.squares[chosen]])


def _evenly_spaced(positions: IntArray) -> IntArray:
    return positions[:: max(1, -(-len(positions) // (SAMPLED_ENTRIES // 2)))]


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
    if not len(first):
        return None
    total = (squares[first] - squares[second]) / (means[first] - means[second])  # v + w
    product = total * means[first] - squares[first]  # v·w
    spans = np.sqrt(np.maximum(total * total - 4.0 * product, 0.0))
    lows = (total - spans) / 2.0
    is_apart = spans > 0
    if not is_apart.any():
        return None
    lows, spans = lows[is_apart], spans[is_apart]
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
    """Return how many users show the smaller value only, the larger one too, and anything else."""
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
        vote = -1
        for entry in range(indptr[user], indptr[user + 1]):
            n = counts[entry]
            if n <= 0:
                continue
            vote = max(vote, 0)
            rest = squares[entry] - (low + high) * sums[entry] + low * high * n
            if abs(rest) > allowed * n * span * span:
                vote = 2
            elif vote < 1 and sums[entry] - low * n > 0.5 * span * min(n, 1.0):
                vote = 1
        if vote >= 0:
            votes[vote] += 1
    return votes
