"""From events to tallies: all at once, merged, or in pieces as they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.tallies.summing import Grouping, compact, event_sums, grouped, grouped_sums, positions
from unswayed.tallies.tallies import Tallies, entry_users

#: Events kept as they are before they are summed; bounds memory in long-lived processes.
BUFFERED_EVENTS = 1 << 18


_NOTHING = np.empty(0)


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
    shape = (n_contexts, n_actions)
    rows = (grouping.indptr, grouping.cells)
    if weights is None:
        counts, sums, squares, sum_rests, square_rests = event_sums(grouping)
        return Tallies(*shape, *rows, counts, sums, squares, _NOTHING, sum_rests, square_rests)
    weighted = weights * rewards
    plays, _ = _exact_sums(grouping, np.ones(len(rewards)))
    counts, count_rests = _exact_sums(grouping, weights)
    sums, sum_rests = _exact_sums(grouping, weighted)
    squares, square_rests = _exact_sums(grouping, weighted * rewards)
    rests = (count_rests, sum_rests, square_rests)
    return Tallies(*shape, *rows, counts, sums, squares, *rests, plays)


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

    counts, count_rests = added([p.counts for p in parts], [p.counts_remainder for p in parts])
    sums, sum_rests = added([p.sums for p in parts], [p.sums_remainder for p in parts])
    squares, square_rests = added([p.squares for p in parts], [p.squares_remainder for p in parts])
    plays = _NOTHING
    if any(part.is_weighted for part in parts):
        plays, _ = added([p.plays for p in parts], [_NOTHING for _ in parts])
    rests = (count_rests, sum_rests, square_rests)
    rows = (grouping.indptr, grouping.cells)
    return Tallies(n_contexts, n_actions, *rows, counts, sums, squares, *rests, plays)


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
    """Return the remainders of all parts in one array; empty if no part has any."""
    if not any(map(len, remainders)):
        return _NOTHING
    return np.concatenate(
        [
            rests if len(rests) else np.zeros(len(column))
            for column, rests in zip(values, remainders, strict=True)
        ]
    )


class Accumulator:
    """Sums events by user and cell as they arrive; users and contexts may be added on the way.

    Examples
    --------
    >>> sums = Accumulator(n_actions=2)
    >>> sums.add(np.array([0]), np.array([3]), np.array([1]), np.array([0.5]))
    >>> sums.tallies(n_users=1, n_contexts=4).cells.tolist()
    [7]
    """

    def __init__(self, *, n_actions: int) -> None:
        self.n_actions = n_actions
        self.n_events = 0
        self._summed: Tallies | None = None
        self._buffer: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
        self._n_buffered = 0

    @classmethod
    def of(cls, tallies: Tallies) -> Accumulator:
        """Return an accumulator that goes on from tallies."""
        result = cls(n_actions=tallies.n_actions)
        result._summed, result.n_events = tallies, int(tallies.plays.sum())
        return result

    def add(
        self, users: IntArray, contexts: IntArray, actions: IntArray, rewards: FloatArray
    ) -> None:
        """Add events; shape (n_events,) each."""
        self._buffer.append((users, contexts, actions, rewards))
        self.n_events += len(users)
        self._n_buffered += len(users)
        if self._n_buffered >= BUFFERED_EVENTS:
            self._flush(n_users=0, n_contexts=0)

    def tallies(self, *, n_users: int, n_contexts: int) -> Tallies:
        """Return the tallies of all events so far for the users and contexts known by now."""
        return self._flush(n_users=n_users, n_contexts=n_contexts)

    def _flush(self, *, n_users: int, n_contexts: int) -> Tallies:
        empty = np.empty(0, np.int64)
        pieces = self._buffer or [(empty, empty, empty, np.empty(0))]
        users, contexts, actions, rewards = (
            np.concatenate([piece[column] for piece in pieces]) for column in range(4)
        )
        n_users = max(n_users, _beyond(users))
        n_contexts = max(n_contexts, _beyond(contexts))
        if self._summed is not None:
            n_users = max(n_users, self._summed.n_users)
            n_contexts = max(n_contexts, self._summed.n_contexts)
        fresh = tally(
            users,
            contexts,
            actions,
            rewards,
            n_users=n_users,
            n_contexts=n_contexts,
            n_actions=self.n_actions,
        )
        if self._summed is not None:
            fresh = merged(_grown(self._summed, n_users, n_contexts), fresh)
        self._summed, self._buffer, self._n_buffered = fresh, [], 0
        return fresh


def _beyond(codes: IntArray) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def _grown(tallies: Tallies, n_users: int, n_contexts: int) -> Tallies:
    """Return the same tallies with room for more users and contexts: cell codes do not change."""
    extra = np.full(n_users - tallies.n_users, tallies.indptr[-1])
    return replace(tallies, n_contexts=n_contexts, indptr=np.concatenate([tallies.indptr, extra]))
