"""What learners see of a log: users' tallies in blocks, wherever the blocks lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unswayed.engine import Blocked, BlockedRows
from unswayed.estimators.rows import SparseRows
from unswayed.tallies.summing import cell_entries, cell_sums, row_sums

if TYPE_CHECKING:
    from unswayed.tallies.tallies import Tallies

FloatArray = npt.NDArray[np.float64]


class UserTallies(ABC):
    """A user × cell matrix of tallies, cut into blocks of users.

    ``Tallies`` are the plain case, with all rows here. Users are numbered through all blocks;
    contexts and actions are coded alike in all.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # as properties these would be taken for defaults of the dataclass

        @property
        def n_users(self) -> int:
            """Number of users, L."""

        @property
        def n_contexts(self) -> int:
            """Number of contexts, S."""

        @property
        def n_actions(self) -> int:
            """Number of actions, A."""

    @property
    @abstractmethod
    def blocks(self) -> Blocked[Tallies]:
        """The tallies of each block."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """How many users each block has."""

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def interactions(self) -> FloatArray:
        """How many interactions each user had, n_i, weights included; shape (n_users,)."""
        return np.concatenate(self.blocks.map_blocks(_interactions))

    @property
    def plays_of_users(self) -> FloatArray:
        """How often each user played, without weights; shape (n_users,)."""
        return np.concatenate(self.blocks.map_blocks(_plays))

    def cell_sums(self, name: str) -> FloatArray:
        """Return the sum over users of a column of the tallies, for each cell; shape (S, A)."""
        total: FloatArray = self.added(_cell_sums, name)
        return total.reshape(self.n_contexts, self.n_actions)

    def cell_users(self) -> npt.NDArray[np.int64]:
        """Return how many users met each cell; shape (S, A)."""
        total: npt.NDArray[np.int64] = self.added(_cell_users)
        return total.reshape(self.n_contexts, self.n_actions)

    def added(self, function: Callable[..., Any], *broadcast: Any) -> Any:
        """Return the sum over the blocks of arrays that a function makes of each, in order."""
        return self.blocks.add_blocks(function, *broadcast)

    def rows(self, function: Callable[..., SparseRows], *broadcast: Any) -> BlockedRows:
        """Return the sparse rows that a function makes of each block."""
        return BlockedRows.of(self.blocks.transformed(function, *broadcast))

    def transformed(self, function: Callable[..., Tallies], *broadcast: Any) -> UserTallies:
        """Return the tallies that a function makes of each block, of the same users."""
        blocks = self.blocks.transformed(function, *broadcast)
        return BlockedTallies(blocks, self.sizes, self.n_contexts, self.n_actions)


class BlockedTallies(UserTallies):
    """Tallies whose blocks are made by the engine, here or on a cluster."""

    __slots__ = ("_blocks", "_sizes", "n_actions", "n_contexts", "n_users")

    n_users: int
    n_contexts: int
    n_actions: int

    def __init__(
        self, blocks: Blocked[Tallies], sizes: tuple[int, ...], n_contexts: int, n_actions: int
    ) -> None:
        self._blocks, self._sizes = blocks, sizes
        self.n_users, self.n_contexts, self.n_actions = sum(sizes), n_contexts, n_actions

    @property
    def blocks(self) -> Blocked[Tallies]:
        """The tallies of each block."""
        return self._blocks

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many users each block has."""
        return self._sizes


def _interactions(tallies: Tallies) -> FloatArray:
    return tallies.interactions


def _plays(tallies: Tallies) -> FloatArray:
    return row_sums(tallies.indptr, tallies.plays)


def _cell_sums(tallies: Tallies, name: str) -> FloatArray:
    return cell_sums(tallies.cells, getattr(tallies, name), tallies.n_cells)


def _cell_users(tallies: Tallies) -> npt.NDArray[np.int64]:
    return cell_entries(tallies.cells, tallies.n_cells)
