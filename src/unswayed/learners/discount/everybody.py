"""All users' answers in blocks, wherever these lie, and samples of users side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # publishes none

from unswayed.learners.discount.answers import Answers, joined
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.tallies.blocks import Blocks, cut

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Users whose answers lie side by side in one block, to be searched closely where that is.

    Attributes
    ----------
    blocks
        The one block.
    chosen
        Codes of its users among everybody, or a slice if nobody was left out.
    """

    blocks: Blocks[Answers]
    chosen: IntArray | slice

    @property
    def is_everybody(self) -> bool:
        """Whether nobody was left out."""
        return isinstance(self.chosen, slice)

    def ask(self, function: Callable[..., Result], weights: FloatArray, *broadcast: Any) -> Result:
        """Return ``function(answers, weights, *broadcast)``, given the weights of everybody."""
        pieces = [weights[self.chosen]]
        answer: Result
        (answer,) = self.blocks.map_blocks(_with_one_thread, function, *broadcast, pieces=pieces)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Everybody:
    """All users' answers.

    Attributes
    ----------
    blocks
        The answers of the users of each block; contexts and actions are coded alike in all.
    sizes
        How many users each block has.
    n_entries
        Entries of all users.
    n_contexts, n_actions, is_binary, context_probabilities
        As in ``Answers``.
    """

    blocks: Blocks[Answers]
    sizes: tuple[int, ...]
    n_entries: int
    n_contexts: int
    n_actions: int
    is_binary: bool
    context_probabilities: FloatArray

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return sum(self.sizes)

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def cells_per_user(self) -> float:
        """Entries of an average user."""
        return self.n_entries / max(self.n_users, 1)

    def added(self, function: Callable[..., Any], weights: FloatArray, *broadcast: Any) -> Any:
        """Return the sum over blocks, in order, of ``function(answers, weights, *broadcast)``."""
        return self.blocks.add_blocks(function, *broadcast, pieces=cut(weights, self.sizes))

    def of_each_user(
        self, function: Callable[..., FloatArray], weights: FloatArray, *broadcast: Any
    ) -> FloatArray:
        """Return what a function makes of the users of each block, for all users."""
        pieces = cut(weights, self.sizes)
        return np.concatenate(self.blocks.map_blocks(function, *broadcast, pieces=pieces))

    def sampled(self, rng: np.random.Generator, n_entries: int) -> Sample:
        """Put random users with about so many entries side by side, or all if there are no more."""
        if self.n_entries <= n_entries:
            return Sample(self.blocks.regrouped(_everybody, joined, 1), slice(None))
        size = int(self.n_users * n_entries / self.n_entries)
        chosen = np.sort(rng.choice(self.n_users, size=size, replace=False))
        ends = np.cumsum(self.sizes)
        inside = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        pieces = [codes - first for codes, first in zip(inside, ends - self.sizes, strict=True)]
        return Sample(self.blocks.regrouped(_of_users, joined, 1, pieces=pieces), chosen)


AnyAnswers = Answers | Everybody
"""What can be added up over users."""


def _with_one_thread(
    answers: Answers, weights: FloatArray, function: Callable[..., Result], *broadcast: Any
) -> Result:
    """Call a function with one thread for BLAS, here or on a worker: more would give other bits."""
    with threadpool_limits(limits=1, user_api="blas"):
        return function(answers, weights, *broadcast)


def _everybody(answers: Answers) -> list[Answers]:
    return [answers]


def _of_users(answers: Answers, chosen: IntArray) -> list[Answers]:
    return [answers.of_users(chosen)]
