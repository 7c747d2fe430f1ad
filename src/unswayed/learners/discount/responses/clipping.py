"""Users' responses read off tallies: extreme rewards are clipped, and floods of visits capped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.discount.responses.cells import CellEntries, map_cells
from unswayed.learners.discount.responses.kernels import (
    RealArray,
    binary_votes,
    capped_visits,
    clipped_means,
    user_extremes,
)
from unswayed.learners.discount.responses.responses import MAD_TO_SD, BlockedResponses, Responses
from unswayed.tallies import Tallies, UserTallies

FLOOD_CAP = (3.0, 2.0)
"""Ours: visits of a user to a context count fully up to 3 deviations and 2 above the
expected number."""

NEAR_CAP = 0.9
"""Ours: users who never exceed this share of a cap are not looked at again."""

FLOOD_POWER = 3.0
"""Ours: beyond the cap an entry shrinks by (cap/visits)³, so that more visits mean less say."""

FLOOD_ROUNDS = 6
"""Ours: context probabilities and caps are found in turn this often; floods fade by then."""

RANGE_MARGIN = 0.25
"""Ours: rewards are believed a quarter of the range beyond the range of the median user."""

FAR_DEVIATIONS = 3.0
"""Ours: within this many median deviations (made normal) from the cell's median all is believed."""

FAR_RESIDUALS = 1.25
"""Ours: and within this many times the median user's largest residual."""

HABIT_DEVIATIONS = 3.0
"""Ours: a user may give one context the share of visits that is usual among users, and this many
median deviations more: where people are at home in one country, so may they be."""

Allowed = tuple[float, float, float]
"""Deviations, spare visits, and the share of visits that one context may have."""


class _Floods(NamedTuple):
    """Context probabilities, the cap, and which users come near it."""

    context_probabilities: FloatArray
    allowed: Allowed
    is_near: BoolArray


def clipped_responses(tallies: UserTallies, *, reach: float | None = None) -> BlockedResponses:
    """Read users' responses off tallies.

    Rewards count as far as they are believed, which is harmless if they scatter evenly around their
    means; or, for skewed ones, up to ±``reach``.

    Notes
    -----
    Rewards are clipped to what most users show: the range between the median user's smallest and
    largest mean with a margin, widened to the neighbourhood of the cell's median. Rewards with
    bounded range that honest users exhaust are not touched. Fewer than half of the users can move
    no median beyond the honest ones, so a clipped reward is never farther than honest rewards go.
    """
    floods = _floods(tallies)
    n_binary, n_others = tallies.blocks.add_blocks(_votes).tolist()
    is_binary = n_binary > n_others
    if is_binary:
        low, high = np.zeros(tallies.n_cells), np.ones(tallies.n_cells)
    else:
        low, high = _believable(tallies)
    responses = tallies.blocks.transformed(
        _answers,
        floods.context_probabilities,
        floods.allowed,
        low,
        high,
        is_binary,
        reach,
        rows=floods.is_near,
    )
    return BlockedResponses(
        blocks=responses,
        entries=tallies.cell_users().sum(axis=1),
        n_contexts=tallies.n_contexts,
        n_actions=tallies.n_actions,
        is_binary=is_binary,
        context_probabilities=floods.context_probabilities,
    )


def _floods(tallies: UserTallies) -> _Floods:
    """Find context probabilities, and who floods contexts.

    Where most users keep to contexts of their own, the cap is raised to the share of visits that
    is usual among them, by medians: fewer than half of the users cannot raise it far beyond what
    honest ones do.
    """
    # With probabilities of one nobody is above a cap. Shares are of all that a user did, so that
    # who floods a context wins nothing elsewhere.
    ones, plain = np.ones(tallies.n_contexts), (*FLOOD_CAP, 0.0)
    shares = tallies.blocks.add_blocks(_shares, ones, plain)
    probabilities = shares / max(shares.sum(), 1e-300)
    shares_of_users, peaks = np.concatenate(
        tallies.blocks.map_blocks(_peaks, probabilities, plain), axis=1
    )
    usual_share = _usual_share(shares_of_users)
    allowed = (*FLOOD_CAP, usual_share)
    _, peaks = np.concatenate(tallies.blocks.map_blocks(_peaks, probabilities, allowed), axis=1)
    if not (peaks > 1.0).any():  # nothing would change any more
        return _Floods(probabilities, allowed, np.zeros(len(peaks), np.bool_))
    # Users far below the cap stay there; their shares are summed up once.
    is_near = peaks > NEAR_CAP
    near = tallies.blocks.transformed(_of_marked, rows=is_near, sizes=())
    others = shares - near.add_blocks(_shares, ones, plain)
    for _ in range(FLOOD_ROUNDS - 1):
        shares = others + near.add_blocks(_shares, probabilities, allowed)
        probabilities = shares / max(shares.sum(), 1e-300)
    return _Floods(probabilities, allowed, is_near)


def _of_marked(tallies: Tallies, is_chosen: BoolArray) -> Tallies:
    return tallies.of_users(np.flatnonzero(is_chosen))


def _shares(tallies: Tallies, context_probabilities: FloatArray, allowed: Allowed) -> FloatArray:
    return _capped(tallies, context_probabilities, allowed, np.empty(0))[0]


def _peaks(tallies: Tallies, context_probabilities: FloatArray, allowed: Allowed) -> FloatArray:
    """Return each user's largest share of visits, NaN if there are few, and ratio to the cap."""
    return _capped(tallies, context_probabilities, allowed, np.empty(0))[1]


def _capped(
    tallies: Tallies, context_probabilities: FloatArray, allowed: Allowed, factors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    contexts = np.repeat(np.arange(tallies.n_contexts), tallies.n_actions)
    rows = (tallies.indptr, tallies.cells, tallies.plays)
    return capped_visits(*rows, contexts, context_probabilities, allowed, FLOOD_POWER, factors)


def _usual_share(shares: FloatArray) -> float:
    """Return the largest share of visits to one context that is usual among users; 0 if unknown."""
    known = shares[np.isfinite(shares)]
    if len(known) == 0:
        return 1.0
    usual = float(np.median(known))
    return usual + HABIT_DEVIATIONS * MAD_TO_SD * float(np.median(np.abs(known - usual)))


def _votes(tallies: Tallies) -> IntArray:
    """Return how many users gave no reward but 0 and 1, and how many did.

    No coalition of less than half can make binary rewards look otherwise.
    """
    return binary_votes(tallies.indptr, tallies.sums, tallies.squares)


def _believable(tallies: UserTallies) -> tuple[FloatArray, FloatArray]:
    """Return per cell the smallest and the largest mean that is believed."""
    blocks, loads = tallies.blocks, tallies.cell_users().ravel()
    medians, deviations = map_cells(blocks, _read_means, _medians, loads)
    low, high, far = np.concatenate(blocks.map_blocks(_extremes, medians), axis=1)
    lowest, highest = float(np.nanmedian(low)), float(np.nanmedian(high))
    margin = RANGE_MARGIN * (highest - lowest)
    reach = np.maximum(
        FAR_DEVIATIONS * MAD_TO_SD * deviations, FAR_RESIDUALS * float(np.nanmedian(far))
    )
    return np.minimum(lowest - margin, medians - reach), np.maximum(
        highest + margin, medians + reach
    )


def _read_means(tallies: Tallies) -> tuple[CellArray, tuple[FloatArray, ...]]:
    return tallies.cells, (tallies.sums / tallies.counts,)


def _medians(group: CellEntries) -> FloatArray:
    return cell_medians(group.starts, group.columns[0])


def _extremes(tallies: Tallies, medians: FloatArray) -> FloatArray:
    return user_extremes(tallies.indptr, tallies.cells, tallies.counts, tallies.sums, medians)


def _answers(
    tallies: Tallies,
    is_near: BoolArray,
    context_probabilities: FloatArray,
    allowed: Allowed,
    low: FloatArray,
    high: FloatArray,
    is_binary: bool,
    reach: float | None,
) -> Responses:
    """Return the responses of a block, with rewards clipped and floods capped."""
    means, within = clipped_means(
        tallies.cells, tallies.counts, tallies.sums, tallies.squares, low, high
    )
    if tallies.is_weighted:
        within *= tallies.plays / tallies.counts
    plays = tallies.plays
    if is_near.any():
        is_theirs = np.repeat(is_near, np.diff(tallies.indptr))
        theirs, factors = np.ones(is_theirs.sum()), np.ones(len(tallies.cells))
        _capped(_of_marked(tallies, is_near), context_probabilities, allowed, theirs)
        factors[is_theirs] = theirs
        plays = plays * factors
    return Responses(
        n_contexts=tallies.n_contexts,
        n_actions=tallies.n_actions,
        indptr=tallies.indptr,
        cells=tallies.cells,
        plays=plays,
        rewards=means if reach is None else np.clip(tallies.sums / tallies.counts, -reach, reach),
        means=means,
        within=within,
        is_binary=is_binary,
        context_probabilities=context_probabilities,
    )


@compiled
def cell_medians(starts: IntArray, y: RealArray) -> FloatArray:
    """Return the median of the users' means in each cell, and their median absolute deviation.

    ``y`` goes cell by cell; shape (2, n_cells).
    """
    n_cells = starts.size - 1
    found = np.zeros((2, n_cells))
    for j in range(n_cells):
        if starts[j] < starts[j + 1]:
            values = y[starts[j] : starts[j + 1]]
            found[0, j] = np.median(values)
            found[1, j] = np.median(np.abs(values - found[0, j]))
    return found
