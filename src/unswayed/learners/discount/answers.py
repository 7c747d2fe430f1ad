"""What users answered in each cell, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unswayed.learners.discount.cell_kernels import entries_by_cell
from unswayed.learners.discount.kernels import CellArray
from unswayed.learners.interface import BoolArray, FloatArray, IntArray
from unswayed.tallies import entry_users

MAD_TO_SD = 1.4826
"""Standard deviation over median absolute deviation of a normal law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Some users' mean rewards per cell with what they are worth: a block, or a sample.

    Attributes
    ----------
    n_users, n_contexts, n_actions
        L, S and A.
    indptr, cells
        Sparse rows of users.
    plays
        Shape (n_entries,); how often the user met the cell, floods capped.
    rewards
        Shape (n_entries,); mean reward as it counts in the end.
    means
        Shape (n_entries,); the same, clipped to the believable range; for detection only.
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
    rewards: FloatArray
    means: FloatArray
    within: FloatArray
    is_binary: bool
    context_probabilities: FloatArray

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @cached_property
    def users(self) -> IntArray:
        """Row of each entry; shape (n_entries,)."""
        return entry_users(self.indptr)

    @cached_property
    def by_cell(self) -> tuple[IntArray, IntArray]:
        """Entries in the order of their cells, and where each cell begins."""
        return entries_by_cell(self.cells, self.n_cells)

    def added(self, function: Callable[..., Any], weights: FloatArray, *broadcast: Any) -> Any:
        """Return ``function(answers, weights, *broadcast)``, as everybody's are added up."""
        return function(self, weights, *broadcast)

    def of_users(self, chosen: IntArray) -> Answers:
        """Return the answers of some users only."""
        indptr, entries = entries_of(self.indptr, chosen)
        return replace(
            self,
            n_users=len(chosen),
            indptr=indptr,
            cells=self.cells[entries],
            plays=self.plays[entries],
            rewards=self.rewards[entries],
            means=self.means[entries],
            within=self.within[entries],
        )

    def in_contexts(self, is_chosen: BoolArray) -> Answers:
        """Return the answers in some contexts only; context probabilities are shares of these."""
        if is_chosen.all():
            return self
        is_kept = is_chosen[self.cells // self.n_actions]
        upto = np.concatenate([[0], np.cumsum(is_kept)])
        probabilities = np.where(is_chosen, self.context_probabilities, 0.0)
        return replace(
            self,
            indptr=upto[self.indptr],
            cells=self.cells[is_kept],
            plays=self.plays[is_kept],
            rewards=self.rewards[is_kept],
            means=self.means[is_kept],
            within=self.within[is_kept],
            context_probabilities=probabilities / max(probabilities.sum(), 1e-300),
        )


def joined(parts: Sequence[Answers]) -> Answers:
    """Return the answers of all users of some parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return replace(
        parts[0],
        n_users=len(lengths),
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        cells=np.concatenate([part.cells for part in parts]),
        plays=np.concatenate([part.plays for part in parts]),
        rewards=np.concatenate([part.rewards for part in parts]),
        means=np.concatenate([part.means for part in parts]),
        within=np.concatenate([part.within for part in parts]),
    )


def entries_of(indptr: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of some users: where each begins among them, and which entries they are."""
    lengths = np.diff(indptr)[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = np.repeat(indptr[chosen] - starts[:-1], lengths)
    return starts, first + np.arange(starts[-1])
