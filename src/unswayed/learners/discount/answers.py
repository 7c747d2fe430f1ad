"""What users answered in each cell, made safe against extreme rewards and floods of visits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unswayed.learners.discount.kernels import (
    CellArray,
    cell_medians,
    entries_by_cell,
    flood_factors,
    user_extremes,
)
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.tallies import Tallies, entry_users

FLOOD_CAP = (3.0, 2.0)
"""Ours: visits of a user to a context count fully up to 3 deviations and 2 above the
expected number."""

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

SAMPLE_ENTRIES = 1_000_000
"""Ours: searches look at random users with about this many entries; what they find is then refitted
to everybody."""

MAD_TO_SD = 1.4826
"""Standard deviation over median absolute deviation of a normal law."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Users' mean rewards per cell with what they are worth.

    Attributes
    ----------
    n_users, n_contexts, n_actions
        L, S and A.
    indptr, cells, users
        Sparse rows of users; ``users`` is the row of each entry.
    plays
        Shape (n_entries,); how often the user met the cell, floods capped.
    masses
        Shape (n_entries,); weight in plain means: importance weights if there are any, else plays.
    means
        Shape (n_entries,); mean reward, clipped to the believable range.
    within
        Shape (n_entries,); sum of squares around the entry's mean; NaN where clipped.
    is_binary
        Whether every reward is 0 or 1.
    context_probabilities
        Shape (n_contexts,); shares of visits over users, floods capped.
    order, starts
        Entries by cell.
    """

    n_users: int
    n_contexts: int
    n_actions: int
    indptr: IntArray
    cells: CellArray
    users: IntArray
    plays: FloatArray
    masses: FloatArray
    means: FloatArray
    within: FloatArray
    is_binary: bool
    context_probabilities: FloatArray
    order: IntArray
    starts: IntArray

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def cells_per_user(self) -> float:
        """Entries of an average user."""
        return len(self.cells) / max(self.n_users, 1)

    def of_users(self, chosen: IntArray) -> Answers:
        """Return the answers of some users only."""
        lengths = np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        first = np.repeat(self.indptr[chosen] - indptr[:-1], lengths)
        entries = first + np.arange(indptr[-1])
        cells = self.cells[entries]
        order, starts = entries_by_cell(cells, self.n_cells)
        return replace(
            self,
            n_users=len(chosen),
            indptr=indptr,
            cells=cells,
            users=np.repeat(np.arange(len(chosen)), lengths),
            plays=self.plays[entries],
            masses=self.masses[entries],
            means=self.means[entries],
            within=self.within[entries],
            order=order,
            starts=starts,
        )


def sampled_users(answers: Answers, rng: np.random.Generator) -> tuple[Answers, IntArray | slice]:
    """Return the answers to search in, all or of random users, and whose they are."""
    if len(answers.cells) <= SAMPLE_ENTRIES:
        return answers, slice(None)
    size = int(answers.n_users * SAMPLE_ENTRIES / len(answers.cells))
    chosen = np.sort(rng.choice(answers.n_users, size=size, replace=False))
    return answers.of_users(chosen), chosen


def answers_from(tallies: Tallies) -> Answers:
    """Read users' answers off tallies.

    Notes
    -----
    Rewards are clipped to what most users show: the range between the median user's smallest and
    largest mean with a margin, widened to the neighbourhood of the cell's median. Rewards with
    bounded range that honest users exhaust are not touched. Fewer than half of the users can move
    no median beyond the honest ones, so a clipped reward is never farther than honest rewards go.
    """
    users = entry_users(tallies.indptr)
    plays = tallies.plays
    probabilities, factors = _capped(tallies, users, plays)
    means = tallies.sums / tallies.counts
    is_binary = bool(np.array_equal(tallies.sums, tallies.squares))
    within = np.maximum(tallies.squares - tallies.sums * means, 0.0)
    if tallies.is_weighted:
        within *= plays / tallies.counts
    order, starts = entries_by_cell(tallies.cells, tallies.n_cells)
    if not is_binary:
        low, high = _believable(tallies, means, order, starts)
        clipped = np.clip(means, low[tallies.cells], high[tallies.cells])
        within = np.where(clipped == means, within, np.nan)
        means = clipped
    return Answers(
        n_users=tallies.n_users,
        n_contexts=tallies.n_contexts,
        n_actions=tallies.n_actions,
        indptr=tallies.indptr,
        cells=tallies.cells,
        users=users,
        plays=plays * factors,
        masses=tallies.counts * factors,
        means=means,
        within=within,
        is_binary=is_binary,
        context_probabilities=probabilities,
        order=order,
        starts=starts,
    )


def _capped(tallies: Tallies, users: IntArray, plays: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return context probabilities and the factor of each entry, found in turn."""
    contexts = tallies.cells // tallies.n_actions
    factors = np.ones(len(plays))
    # Shares of all that a user did: who floods a context wins nothing elsewhere.
    shares = plays / np.bincount(users, plays, tallies.n_users)[users]
    for _ in range(FLOOD_ROUNDS):
        probabilities = np.bincount(contexts, shares * factors, tallies.n_contexts).astype(float)
        probabilities /= max(probabilities.sum(), 1e-300)
        factors = flood_factors(
            tallies.indptr,
            tallies.cells,
            plays,
            tallies.n_actions,
            probabilities,
            FLOOD_CAP,
            FLOOD_POWER,
        )
    return probabilities, factors


def _believable(
    tallies: Tallies, means: FloatArray, order: IntArray, starts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return per cell the smallest and the largest mean that is believed."""
    medians, deviations = cell_medians(order, starts, means)
    low, high, far = user_extremes(tallies.indptr, tallies.cells, means, medians)
    lowest, highest = float(np.nanmedian(low)), float(np.nanmedian(high))
    margin = RANGE_MARGIN * (highest - lowest)
    reach = np.maximum(
        FAR_DEVIATIONS * MAD_TO_SD * deviations, FAR_RESIDUALS * float(np.nanmedian(far))
    )
    return np.minimum(lowest - margin, medians - reach), np.maximum(
        highest + margin, medians + reach
    )
