"""Per-user sums over the cells (context, action): all that the estimators need of a log."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unswayed.engine import Blocked
from unswayed.errors import InputError
from unswayed.tallies.grouping import Grouping, grouped
from unswayed.tallies.summing import compact, event_sums, grouped_sums, positions, row_sums
from unswayed.tallies.user_tallies import UserTallies

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_NOTHING = np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class Remainders:
    """What the rounded sums of tallies left over; empty arrays where nothing was lost.

    They make merging exact and mean nothing to a learner.
    """

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray

    def kept(self, is_kept: npt.NDArray[np.bool_]) -> Remainders:
        """Return the remainders of some of the entries."""
        columns = (self.counts, self.sums, self.squares)
        return Remainders(*(column[is_kept] if len(column) else column for column in columns))


NO_REMAINDERS = Remainders(_NOTHING, _NOTHING, _NOTHING)


@dataclass(frozen=True, slots=True, eq=False)
class Tallies(UserTallies):
    """One sparse row a user; (context, action) is cell ``context * n_actions + action``.

    Parameters
    ----------
    n_users, n_contexts, n_actions
        L, S and A.
    indptr
        Shape (n_users + 1,); where each user's row begins.
    cells
        Shape (n_entries,), int32; the columns of a row, ascending.
    counts
        Shape (n_entries,); how often the user met the cell, or the sum of the weights there.
    sums, squares
        Shape (n_entries,); sum of the rewards there, and of their squares.
    remainders
        What rounding the sums lost.
    weighted_plays
        Shape (n_entries,); how often the user met the cell when ``counts`` holds weights, else
        empty.
    bounds
        Where blocks of users begin, and n_users at the end; empty for one block. Sums over users
        that are made block by block are the same on every engine.

    Notes
    -----
    Rows of the same users and cells add up: ``merged(a, b)`` equals tallying both logs at once,
    to the last bit and in any order (``grouped_sums`` says when).
    """

    n_users: int
    n_contexts: int
    n_actions: int
    indptr: IntArray
    cells: npt.NDArray[np.int32]
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    remainders: Remainders = NO_REMAINDERS
    weighted_plays: FloatArray = field(default_factory=lambda: _NOTHING)
    bounds: tuple[int, ...] = ()

    @property
    def blocks(self) -> Blocked[Tallies]:
        """The tallies of each block, as views."""
        if len(self._bounds) == 2:
            return Blocked.here([self])
        cuts = itertools.pairwise(self._bounds)
        return Blocked.here([self.of_range(first, last) for first, last in cuts])

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many users each block has."""
        return tuple(last - first for first, last in itertools.pairwise(self._bounds))

    @property
    def _bounds(self) -> tuple[int, ...]:
        return self.bounds or (0, self.n_users)

    @property
    def interactions(self) -> FloatArray:
        """How many interactions each user had, n_i; shape (n_users,)."""
        return row_sums(self.indptr, self.counts)

    @property
    def is_weighted(self) -> bool:
        """Whether ``counts`` holds importance weights and not plain counts."""
        return len(self.weighted_plays) > 0

    @property
    def plays(self) -> FloatArray:
        """How often the user met the cell, without weights; shape (n_entries,)."""
        return self.weighted_plays if self.is_weighted else self.counts

    def of_range(self, first: int, last: int) -> Tallies:
        """Return the tallies of the users from ``first`` up to ``last``, as views."""
        start, stop = self.indptr[first], self.indptr[last]
        return Tallies(
            last - first,
            self.n_contexts,
            self.n_actions,
            self.indptr[first : last + 1] - start,
            self.cells[start:stop],
            self.counts[start:stop],
            self.sums[start:stop],
            self.squares[start:stop],
            Remainders(
                self.remainders.counts[start:stop],
                self.remainders.sums[start:stop],
                self.remainders.squares[start:stop],
            ),
            self.weighted_plays[start:stop],
        )

    def scaled(self, factor: float) -> Tallies:
        """Return the tallies with every weight multiplied."""
        return replace(
            self,
            counts=self.counts * factor,
            sums=self.sums * factor,
            squares=self.squares * factor,
            remainders=NO_REMAINDERS,
            weighted_plays=self.plays,
        )

    def csr(self, values: FloatArray) -> sparse.csr_array:
        """Return a sparse (n_users, n_cells) array that holds ``values`` at the entries."""
        return sparse.csr_array(
            (values, self.cells, self.indptr), shape=(self.n_users, self.n_cells), copy=False
        )


def tally(
    users: npt.NDArray[np.integer[Any]],
    contexts: npt.NDArray[np.integer[Any]],
    actions: npt.NDArray[np.integer[Any]],
    rewards: FloatArray,
    *,
    n_users: int,
    n_contexts: int,
    n_actions: int,
    weights: FloatArray | None = None,
) -> Tallies:
    """Sum events by user and cell in linear time, whatever their order.

    Parameters
    ----------
    users, contexts, actions
        Shape (n_events,); codes.
    rewards
        Shape (n_events,).
    n_users, n_contexts, n_actions
        How many codes there are of each.
    weights
        Shape (n_events,); how much each event counts, 1 by default.

    Examples
    --------
    >>> t = tally(
    ...     users=np.array([1, 0, 1]),
    ...     contexts=np.array([0, 1, 0]),
    ...     actions=np.array([1, 0, 1]),
    ...     rewards=np.array([1.0, 0.5, 0.0]),
    ...     n_users=2,
    ...     n_contexts=2,
    ...     n_actions=2,
    ... )
    >>> t.cells.tolist(), t.counts.tolist(), t.sums.tolist()
    ([2, 1], [1.0, 2.0], [0.5, 1.0])
    """
    check_size(n_contexts, n_actions)
    cells = np.multiply(contexts, n_actions, dtype=np.int32)
    np.add(cells, actions, out=cells, casting="same_kind")
    rewards = np.asarray(rewards, np.float64)
    values = compact(rewards) if weights is None else positions(len(rewards))
    grouping = grouped(users.astype(np.int32, copy=False), cells, values, n_users)
    del cells, values  # large
    shape = (n_users, n_contexts, n_actions)
    rows = (grouping.indptr, grouping.cells)
    if weights is None:
        counts, sums, squares, *lows = event_sums(grouping)
        return Tallies(*shape, *rows, counts, sums, squares, Remainders(_NOTHING, *lows))
    weighted = weights * rewards
    plays, _ = _exact_sums(grouping, np.ones(len(rewards)))
    counts, count_rests = _exact_sums(grouping, weights)
    sums, sum_rests = _exact_sums(grouping, weighted)
    squares, square_rests = _exact_sums(grouping, weighted * rewards)
    rests = Remainders(count_rests, sum_rests, square_rests)
    return Tallies(*shape, *rows, counts, sums, squares, rests, plays)


def merged(first: Tallies, *others: Tallies) -> Tallies:
    """Return the tallies of several logs together; users and labels must have the same codes."""
    parts = (first, *others)
    shape = (first.n_users, first.n_contexts, first.n_actions)
    if any((part.n_users, part.n_contexts, part.n_actions) != shape for part in parts):
        raise InputError(
            "tallies of different users, contexts or actions cannot be merged; give both logs the "
            "same labels."
        )
    users = [entry_users(part.indptr).astype(np.int32) for part in parts]
    return summed(parts, users, [part.cells for part in parts], *shape)


def summed(
    parts: Sequence[Tallies],
    users: Sequence[npt.NDArray[np.int32]],
    cells: Sequence[npt.NDArray[np.int32]],
    n_users: int,
    n_contexts: int,
    n_actions: int,
) -> Tallies:
    """Add up the entries of several tallies whose users and cells were given new codes.

    Parameters
    ----------
    parts
        The tallies.
    users, cells
        For each part the new user and cell of every entry.
    n_users, n_contexts, n_actions
        Of the result.
    """
    if len({part.is_weighted for part in parts if len(part.cells)}) > 1:
        raise InputError(
            "a log with propensities and one without cannot be added up; read both the same way."
        )
    check_size(n_contexts, n_actions)
    all_users, all_cells = np.concatenate(users), np.concatenate(cells)
    grouping = grouped(all_users, all_cells, positions(len(all_users)), n_users)
    del all_users, all_cells

    def added(values: list[FloatArray], rests: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        columns = np.concatenate(values)
        return _exact_sums(grouping, columns, _joined(values, rests))

    counts, count_rests = added([p.counts for p in parts], [p.remainders.counts for p in parts])
    sums, sum_rests = added([p.sums for p in parts], [p.remainders.sums for p in parts])
    squares, square_rests = added([p.squares for p in parts], [p.remainders.squares for p in parts])
    plays = _NOTHING
    if any(part.is_weighted for part in parts):
        plays, _ = added([p.plays for p in parts], [_NOTHING for _ in parts])
    rests = Remainders(count_rests, sum_rests, square_rests)
    shape = (n_users, n_contexts, n_actions)
    rows = (grouping.indptr, grouping.cells)
    return Tallies(*shape, *rows, counts, sums, squares, rests, plays)


def entry_users(indptr: IntArray) -> IntArray:
    """Return the user of each entry; shape (n_entries,)."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def check_size(n_contexts: int, n_actions: int) -> None:
    """Reject tables whose cells cannot be numbered."""
    if n_contexts * n_actions > np.iinfo(np.int32).max:
        raise InputError(
            f"{n_contexts} contexts by {n_actions} actions are more cells than can be indexed; "
            "join rare contexts first."
        )


def _exact_sums(
    grouping: Grouping, values: FloatArray, remainders: FloatArray = _NOTHING
) -> tuple[FloatArray, FloatArray]:
    """Return sums and remainders; nothing for these if no sum was rounded."""
    sums, lows = grouped_sums(grouping, values, remainders)
    return sums, lows if lows.any() else _NOTHING


def _joined(values: Sequence[FloatArray], remainders: Sequence[FloatArray]) -> FloatArray:
    """Return the remainders of all parts in one array; empty if nobody has any."""
    if not any(map(len, remainders)):
        return _NOTHING
    return np.concatenate(
        [
            rests if len(rests) else np.zeros(len(column))
            for column, rests in zip(values, remainders, strict=True)
        ]
    )
