"""What users answered in each cell, made safe against extreme rewards and floods of visits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unswayed.learners.discount.kernels import (
    CellArray,
    answers_of_entries,
    capped_visits,
    cell_medians,
    entries_by_cell,
    user_extremes,
)
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.tallies import Tallies, entry_users

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

SAMPLE_ENTRIES = 1_000_000
"""Ours: searches look at random users with about this many entries; what they find is then refitted
to everybody."""

MAD_TO_SD = 1.4826
"""Standard deviation over median absolute deviation of a normal law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Users' mean rewards per cell with what they are worth.

    Attributes
    ----------
    n_users, n_contexts, n_actions
        L, S and A.
    indptr, cells
        Sparse rows of users.
    plays
        Shape (n_entries,); how often the user met the cell, floods capped.
    masses
        Shape (n_entries,); weight in plain means: importance weights if there are any, else plays.
    means
        Shape (n_entries,); mean reward, clipped to the believable range.
    within
        Shape (n_entries,); sum of squares around the entry's mean; NaN where clipped.
    is_binary
        Whether most users gave no reward but 0 and 1; others are then clipped to between.
    context_probabilities
        Shape (n_contexts,); shares of visits over users, floods capped.
    """

    n_users: int
    n_contexts: int
    n_actions: int
    indptr: IntArray
    cells: CellArray
    plays: FloatArray
    masses: FloatArray
    means: FloatArray
    within: FloatArray
    is_binary: bool
    context_probabilities: FloatArray

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def cells_per_user(self) -> float:
        """Entries of an average user."""
        return len(self.cells) / max(self.n_users, 1)

    @cached_property
    def users(self) -> IntArray:
        """Row of each entry; shape (n_entries,)."""
        return entry_users(self.indptr)

    @cached_property
    def by_cell(self) -> tuple[IntArray, IntArray]:
        """Entries in the order of their cells, and where each cell begins."""
        return entries_by_cell(self.cells, self.n_cells)

    def of_users(self, chosen: IntArray) -> Answers:
        """Return the answers of some users only."""
        indptr, entries = _entries_of(self.indptr, chosen)
        return replace(
            self,
            n_users=len(chosen),
            indptr=indptr,
            cells=self.cells[entries],
            plays=self.plays[entries],
            masses=self.masses[entries],
            means=self.means[entries],
            within=self.within[entries],
        )


def _entries_of(indptr: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of some users: where each begins among them, and which entries they are."""
    lengths = np.diff(indptr)[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = np.repeat(indptr[chosen] - starts[:-1], lengths)
    return starts, first + np.arange(starts[-1])


def sampled_users(
    answers: Answers, rng: np.random.Generator, n_entries: int = SAMPLE_ENTRIES
) -> tuple[Answers, IntArray | slice]:
    """Return the answers to search in, all or of random users, and whose they are."""
    if len(answers.cells) <= n_entries:
        return answers, slice(None)
    size = int(answers.n_users * n_entries / len(answers.cells))
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
    probabilities, factors = _capped(tallies)
    means, within, is_binary = answers_of_entries(
        tallies.indptr, tallies.counts, tallies.sums, tallies.squares
    )
    if tallies.is_weighted:
        within *= tallies.plays / tallies.counts
    plays, masses = tallies.plays, tallies.counts
    if factors is not None:
        plays, masses = plays * factors, masses * factors
    answers = Answers(
        n_users=tallies.n_users,
        n_contexts=tallies.n_contexts,
        n_actions=tallies.n_actions,
        indptr=tallies.indptr,
        cells=tallies.cells,
        plays=plays,
        masses=masses,
        means=means,
        within=within,
        is_binary=is_binary,
        context_probabilities=probabilities,
    )
    if is_binary:
        clipped = np.clip(means, 0.0, 1.0)
    else:
        low, high = _believable(answers)
        clipped = np.clip(means, low[tallies.cells], high[tallies.cells])
    return replace(answers, means=clipped, within=np.where(clipped == means, within, np.nan))


def _capped(tallies: Tallies) -> tuple[FloatArray, FloatArray | None]:
    """Return context probabilities and the factor of each entry, None if all are one.

    Where most users keep to contexts of their own, the cap is raised to what is usual among them,
    by medians: fewer than half of the users cannot raise it far beyond what honest ones do.
    """
    contexts = np.repeat(np.arange(tallies.n_contexts), tallies.n_actions)
    rows = (tallies.indptr, tallies.cells, tallies.plays, contexts)
    nothing = np.empty(0)
    # With probabilities of one nobody is above a cap. Shares are of all that a user did, so that
    # who floods a context wins nothing elsewhere.
    ones = np.ones(tallies.n_contexts)
    shares, _ = capped_visits(*rows, ones, (*FLOOD_CAP, 1.0), FLOOD_POWER, nothing)
    probabilities = shares / max(shares.sum(), 1e-300)
    _, peaks = capped_visits(*rows, probabilities, (*FLOOD_CAP, 1.0), FLOOD_POWER, nothing)
    habit = 1.0
    usual = float(np.median(peaks)) if len(peaks) else 0.0
    if usual > 1.0:
        habit = usual + FLOOD_CAP[0] * MAD_TO_SD * float(np.median(np.abs(peaks - usual)))
    if not (peaks > habit).any():
        return probabilities, None  # nothing would change any more
    allowed = (*FLOOD_CAP, habit)
    # Users far below the cap stay there; their shares are summed up once.
    indptr, entries = _entries_of(tallies.indptr, np.flatnonzero(peaks > NEAR_CAP * habit))
    near = (indptr, tallies.cells[entries], tallies.plays[entries], contexts)
    others = shares - capped_visits(*near, ones, (*FLOOD_CAP, 1.0), FLOOD_POWER, nothing)[0]
    for _ in range(FLOOD_ROUNDS - 1):
        shares = others + capped_visits(*near, probabilities, allowed, FLOOD_POWER, nothing)[0]
        probabilities = shares / max(shares.sum(), 1e-300)
    theirs, factors = np.ones(len(entries)), np.ones(len(tallies.cells))
    capped_visits(*near, probabilities, allowed, FLOOD_POWER, theirs)
    factors[entries] = theirs
    return probabilities, factors


def _believable(answers: Answers) -> tuple[FloatArray, FloatArray]:
    """Return per cell the smallest and the largest mean that is believed."""
    medians, deviations = cell_medians(*answers.by_cell, answers.means)
    low, high, far = user_extremes(answers.indptr, answers.cells, answers.means, medians)
    lowest, highest = float(np.nanmedian(low)), float(np.nanmedian(high))
    margin = RANGE_MARGIN * (highest - lowest)
    reach = np.maximum(
        FAR_DEVIATIONS * MAD_TO_SD * deviations, FAR_RESIDUALS * float(np.nanmedian(far))
    )
    return np.minimum(lowest - margin, medians - reach), np.maximum(
        highest + margin, medians + reach
    )
