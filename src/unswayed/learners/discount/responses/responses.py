"""Users' mean rewards per cell, as detection reads them: of one block of users, or of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, CellArray, FloatArray, IntArray
from unswayed.engine import Blocked, cut_codes
from unswayed.tallies import UserRows, entry_users, joined
from unswayed.tallies.grouping import counting_order

MAD_TO_SD = 1.4826
"""Standard deviation over median absolute deviation of a normal law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Responses(UserRows):
    """Mean rewards per cell of some users, a block or a sample, as detection reads them.

    Attributes
    ----------
    n_contexts, n_actions
        S and A.
    indptr, cells
        Sparse rows of users.
    plays
        Shape (n_entries,); how often the user met the cell, floods capped.
    rewards
        Shape (n_entries,); mean reward as estimates count it.
    means
        Shape (n_entries,); the same, clipped to the believable range; for detection only.
    within
        Shape (n_entries,); sum of squares around the entry's mean; NaN where clipped.
    is_binary
        Whether most users gave no reward but 0 and 1; others are then clipped to between.
    context_probabilities
        Shape (n_contexts,); shares of visits over users, floods capped.
    """

    columns: ClassVar[tuple[str, ...]] = ("plays", "rewards", "means", "within")

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
    def cell_order(self) -> tuple[IntArray, IntArray]:
        """Entries in the order of their cells, and where each cell begins."""
        return counting_order(self.cells, self.n_cells)

    @property
    def blocks(self) -> Blocked[Responses]:
        """These responses as the one block that they are."""
        return Blocked.here([self], (self.n_users,))

    def in_contexts(self, is_chosen: BoolArray) -> Responses:
        """Return the responses in some contexts only; context probabilities are shares of these."""
        if is_chosen.all():
            return self
        probabilities = np.where(is_chosen, self.context_probabilities, 0.0)
        return replace(
            self.of_entries(is_chosen[self.cells // self.n_actions]),
            context_probabilities=probabilities / max(probabilities.sum(), 1e-300),
        )


DENSE, FEWEST_CELLS = 500.0, 1_000
"""Ours: the most frequent contexts are looked at by themselves if a search has fewer responses per
cell than this otherwise; but never fewer cells. Where responses are few fits follow chance, and a
coalition must be large or loud to stand out."""


class Sample(NamedTuple):
    """Responses that a search looks at: those of some users, in some contexts.

    Attributes
    ----------
    responses
        The rows of these users.
    users
        Their codes among all users, or a slice if the sample has all of them.
    contexts
        Shape (n_contexts,); True for the contexts in the sample.
    """

    responses: Responses
    users: IntArray | slice
    contexts: BoolArray

    @property
    def is_everything(self) -> bool:
        """Whether no response was left out."""
        return isinstance(self.users, slice) and bool(self.contexts.all())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockedResponses:
    """All users' responses.

    Attributes
    ----------
    blocks
        The responses of the users of each block; contexts and actions are coded alike in all.
    entries
        Shape (n_contexts,); entries of all users in each context.
    n_contexts, n_actions, is_binary, context_probabilities
        As in ``Responses``.
    """

    blocks: Blocked[Responses]
    entries: IntArray
    n_contexts: int
    n_actions: int
    is_binary: bool
    context_probabilities: FloatArray

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return self.blocks.n_rows

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def n_entries(self) -> int:
        """Entries of all users."""
        return int(self.entries.sum())

    @property
    def cells_per_user(self) -> float:
        """Entries of an average user."""
        return self.n_entries / max(self.n_users, 1)

    def sampled(
        self, rng: np.random.Generator, n_entries: int, contexts: BoolArray | None = None
    ) -> Sample:
        """Draw random users with about ``n_entries`` entries, or take all if there are no more.

        If contexts are given, only entries there count. The sample is small and lies here,
        wherever the blocks are.
        """
        if contexts is None:
            contexts = np.ones(self.n_contexts, dtype=np.bool_)
        n_there = int(self.entries[contexts].sum())
        if n_there <= n_entries:
            parts = self.blocks.map_blocks(Responses.in_contexts, contexts)
            return Sample(joined(parts), slice(None), contexts)
        size = int(self.n_users * n_entries / n_there)
        chosen = np.sort(rng.choice(self.n_users, size=size, replace=False))
        pieces = cut_codes(chosen, self.blocks.sizes)
        parts = self.blocks.map_blocks(_of_users_in_contexts, contexts, pieces=pieces)
        return Sample(joined(parts), chosen, contexts)

    def dense_contexts(self, n_entries: int) -> BoolArray:
        """Return the most frequent contexts, as many as leave a sample enough responses per cell.

        How frequent a context is does not depend on floods.
        """
        order = np.argsort(-self.context_probabilities, kind="stable")
        n_cells = self.n_actions * np.arange(1, self.n_contexts + 1)
        per_cell = np.minimum(np.cumsum(self.entries[order]), n_entries) / n_cells
        is_enough = (per_cell >= DENSE) | (n_cells < FEWEST_CELLS + self.n_actions)
        n_chosen = int(np.flatnonzero(is_enough)[-1]) + 1
        contexts = np.zeros(self.n_contexts, dtype=np.bool_)
        contexts[order[:n_chosen]] = True
        return contexts


AnyResponses = Responses | BlockedResponses
"""Responses whose sums over users are the same call: of one block, or of all."""


def _of_users_in_contexts(responses: Responses, users: IntArray, contexts: BoolArray) -> Responses:
    return responses.of_users(users).in_contexts(contexts)
