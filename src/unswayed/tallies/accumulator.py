"""The one place that accumulates: events come in pieces, tallies come out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unswayed.tallies.tallies import FloatArray, IntArray, Tallies, merged, tally

#: Events kept as they are before they are summed; bounds memory in long-lived processes.
BUFFERED_EVENTS = 1 << 18


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


def _beyond(codes: npt.NDArray[np.int64]) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def _grown(tallies: Tallies, n_users: int, n_contexts: int) -> Tallies:
    """Return the same tallies with room for more users and contexts: cell codes do not change."""
    extra = np.full(n_users - tallies.n_users, tallies.indptr[-1])
    return replace(
        tallies,
        n_users=n_users,
        n_contexts=n_contexts,
        indptr=np.concatenate([tallies.indptr, extra]),
    )
