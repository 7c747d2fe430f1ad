"""Tallies in blocks of users, on one machine or many."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.engine import Blocked, BlockedRows
from unswayed.estimators.rows import SparseRows
from unswayed.events import Labels
from unswayed.events.hashing import text_hash
from unswayed.events.user_order import user_hashes
from unswayed.tallies.summing import cell_entries, cell_sums
from unswayed.tallies.tallies import Remainders, Tallies

FloatArray = npt.NDArray[np.float64]
Result = TypeVar("Result")

#: Ours: blocks hold about as many events at most. Small enough for a worker's memory and to keep
#: all cores busy, large enough that sending functions to them costs little.
EVENTS_PER_BLOCK = 1 << 21

#: Ours: beyond, blocks grow instead: every pass sends a vector to each block and gets one back.
MAX_BLOCKS = 256


@dataclass(frozen=True, slots=True, eq=False)
class BlockedTallies:
    """Tallies whose rows are cut into blocks; users are numbered through all blocks.

    Parameters
    ----------
    blocks
        The tallies of each block; contexts and actions are coded alike in all.
    sizes
        How many users each block has.
    n_contexts, n_actions
        S and A.
    """

    blocks: Blocked[Tallies]
    sizes: tuple[int, ...]
    n_contexts: int
    n_actions: int

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return sum(self.sizes)

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def interactions(self) -> FloatArray:
        """How many interactions each user had, n_i, weights included; shape (n_users,)."""
        return np.concatenate(self.blocks.map_blocks(_interactions))

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


def as_blocks(tallies: Tallies | BlockedTallies) -> BlockedTallies:
    """Return tallies cut at their bounds, as views; blocked ones as they are."""
    if isinstance(tallies, BlockedTallies):
        return tallies
    bounds = tallies.bounds or (0, tallies.n_users)
    blocks = [row_slice(tallies, first, last) for first, last in itertools.pairwise(bounds)]
    sizes = tuple(block.n_users for block in blocks)
    return BlockedTallies(Blocked.here(blocks), sizes, tallies.n_contexts, tallies.n_actions)


def row_slice(tallies: Tallies, first: int, last: int) -> Tallies:
    """Return the tallies of the users from ``first`` up to ``last``, as views."""
    start, stop = tallies.indptr[first], tallies.indptr[last]
    return Tallies(
        last - first,
        tallies.n_contexts,
        tallies.n_actions,
        tallies.indptr[first : last + 1] - start,
        tallies.cells[start:stop],
        tallies.counts[start:stop],
        tallies.sums[start:stop],
        tallies.squares[start:stop],
        Remainders(
            tallies.remainders.counts[start:stop],
            tallies.remainders.sums[start:stop],
            tallies.remainders.squares[start:stop],
        ),
        tallies.weighted_plays[start:stop],
    )


def n_blocks_for(n_events: int) -> int:
    """Return how many blocks a log is cut into: a power of two that its size alone decides.

    >>> n_blocks_for(1_000), n_blocks_for(20_000_000)
    (1, 16)
    """
    n_blocks = 1
    while n_blocks < MAX_BLOCKS and n_blocks * EVENTS_PER_BLOCK < n_events:
        n_blocks *= 2
    return n_blocks


def user_bounds(users: Labels, n_blocks: int) -> list[int]:
    """Return where the blocks begin among users in their order, and where the last one ends.

    Block b of B holds the users whose hash is in [b·2^64/B, (b+1)·2^64/B), whoever else there is.
    """
    limits = [(block << 64) // n_blocks for block in range(1, n_blocks)]
    if limits and users.type_name not in ("string", "integer"):
        hashes = user_hashes(users)
        return [0, *np.searchsorted(hashes, np.array(limits, np.uint64)).tolist(), len(users)]
    bounds = [0]
    for limit in limits:  # a few hundred hashes instead of one for every user
        bounds.append(
            bisect.bisect_left(
                range(len(users)),
                limit,
                lo=bounds[-1],
                key=lambda code: text_hash(str(users[code])),
            )
        )
    return [*bounds, len(users)]


def _interactions(tallies: Tallies) -> FloatArray:
    return tallies.interactions


def _cell_sums(tallies: Tallies, name: str) -> FloatArray:
    return cell_sums(tallies.cells, getattr(tallies, name), tallies.n_cells)


def _cell_users(tallies: Tallies) -> npt.NDArray[np.int64]:
    return cell_entries(tallies.cells, tallies.n_cells)
