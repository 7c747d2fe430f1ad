"""Users' sums over the cells (context, action): the only input of learners."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.engine import Blocked, BlockedRows
from unswayed.errors import InputError
from unswayed.estimators.rows import SparseRows
from unswayed.events import UNKNOWN, Labels
from unswayed.events.hashing import user_hashes
from unswayed.tallies.summing import cell_entries, cell_sums, grouped_sums, row_sums


class UserRows:
    """One sparse row per user: the cells of its entries, ascending, and columns of numbers.

    Row i has the entries from ``indptr[i]`` up to ``indptr[i + 1]``. A subclass is a dataclass and
    names its ``columns``, arrays with one number for each entry; a column may be left empty.
    """

    __slots__ = ()

    columns: ClassVar[tuple[str, ...]]

    if TYPE_CHECKING:
        indptr: IntArray
        cells: npt.NDArray[np.int32]

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return len(self.indptr) - 1

    def of_range(self, first: int, last: int) -> Self:
        """Return the rows of the users from ``first`` up to ``last``, as views."""
        start, stop = self.indptr[first], self.indptr[last]
        indptr = self.indptr[first : last + 1] - start
        return self._chosen(indptr, slice(start, stop), slice(first, last))

    def of_users(self, users: IntArray) -> Self:
        """Return the rows of some users, given by their codes."""
        return self._chosen(*entries_of(self.indptr, users), users)

    def marked(self, is_chosen: BoolArray) -> Self:
        """Return the rows of the marked users."""
        return self.of_users(np.flatnonzero(is_chosen))

    def of_entries(self, is_kept: BoolArray) -> Self:
        """Return the same users with some of their entries."""
        indptr = np.concatenate([[0], np.cumsum(is_kept)])[self.indptr]
        return self._chosen(indptr, is_kept, slice(None))

    def _chosen(self, indptr: IntArray, entries: Any, users: Any) -> Self:  # noqa: ARG002 - labels
        columns = {name: getattr(self, name) for name in ("cells", *self.columns)}
        chosen = {name: old[entries] if len(old) else old for name, old in columns.items()}
        return replace(self, indptr=indptr, **chosen)  # type: ignore[type-var]  # a dataclass


Rows = TypeVar("Rows", bound=UserRows)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the users of several parts, one part after the other; the same columns are filled."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("cells", *parts[0].columns)
    }
    return replace(parts[0], indptr=_starts(lengths), **columns)  # type: ignore[type-var]


def entry_users(indptr: IntArray) -> IntArray:
    """Return the user of each entry; shape (n_entries,)."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def entries_of(indptr: IntArray, users: IntArray) -> tuple[IntArray, IntArray]:
    """Return the entries of some users, and where each user begins among these entries."""
    lengths = np.diff(indptr)[users]
    starts = _starts(lengths)
    first = np.repeat(indptr[users] - starts[:-1], lengths)
    return starts, first + np.arange(starts[-1])


def _starts(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


_NOTHING = np.empty(0)
NO_LABELS = Labels.of([])

# Ours: small enough for a worker's memory, large enough to amortise a task's overhead
EVENTS_PER_BLOCK = 1 << 21
MAX_BLOCKS = 256  # Ours: maximum number of blocks; larger logs get larger blocks


class UserTallies:
    """A user × cell matrix of tallies, in blocks of users, in this process or on a cluster.

    ``Tallies`` is the simple case, with all rows in this process. Users are numbered consecutively
    across blocks; codes of contexts and actions are the same in all blocks. Labels may be empty.
    """

    __slots__ = (
        *("_blocks", "n_contexts", "n_actions"),
        *("user_labels", "context_labels", "action_labels"),
    )

    n_contexts: int
    n_actions: int
    user_labels: Labels
    context_labels: Labels
    action_labels: Labels

    def __init__(
        self, blocks: Blocked[Tallies], n_contexts: int, n_actions: int, *labels: Labels
    ) -> None:
        """Make tallies of blocks; ``labels`` are those of users, contexts and actions."""
        self._blocks, self.n_contexts, self.n_actions = blocks, n_contexts, n_actions
        self.user_labels, self.context_labels, self.action_labels = labels

    @property
    def blocks(self) -> Blocked[Tallies]:
        """The tallies of each block."""
        return self._blocks

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return self.blocks.n_rows

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def interactions(self) -> FloatArray:
        """Number of interactions n_i of each user, weights included; shape (n_users,)."""
        return self.blocks.map_rows(_row_sums, "counts")

    @property
    def plays_of_users(self) -> FloatArray:
        """Number of plays of each user, without weights; shape (n_users,)."""
        return self.blocks.map_rows(_row_sums, "plays")

    def cell_sums(self, name: str) -> FloatArray:
        """Return the sum over users of a column of the tallies, for each cell; shape (S, A)."""
        total: FloatArray = self.blocks.add_blocks(_cell_sums, name)
        return total.reshape(self.n_contexts, self.n_actions)

    def cell_users(self) -> IntArray:
        """Return how many users met each cell; shape (S, A)."""
        total: IntArray = self.blocks.add_blocks(_cell_users)
        return total.reshape(self.n_contexts, self.n_actions)

    def range_of_means(self) -> tuple[float, float]:
        """Return the smallest and the largest mean reward of a user in a cell."""
        lows, highs = zip(*self.blocks.map_blocks(_range_of_means), strict=True)
        return min(lows), max(highs)

    def are_binary(self) -> bool:
        """Return whether every reward is 0 or 1, so that means are rates."""
        return all(self.blocks.map_blocks(_are_binary))

    def rows(self, function: Callable[..., SparseRows], *broadcast: Any) -> BlockedRows:
        """Return the sparse rows that a function computes from each block."""
        return BlockedRows.of(self.blocks.transformed(function, *broadcast))

    def transformed(self, function: Callable[..., Tallies], *broadcast: Any) -> UserTallies:
        """Return the tallies that a function computes from each block, for the same users."""
        return UserTallies(
            self.blocks.transformed(function, *broadcast),
            *(self.n_contexts, self.n_actions),
            *(self.user_labels, self.context_labels, self.action_labels),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Tallies(UserRows, UserTallies):
    """One sparse row per user; (context, action) is cell ``context * n_actions + action``.

    With propensities an event weighs 1/propensity, whatever the number of actions, so that logs add
    up even if a later one has new actions; ``uniform`` scales the weights for learning.

    Tallies can be added: ``merged(a, b)`` equals tallying both logs at once, to the last bit and in
    any order (``grouped_sums`` says when).
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("counts", "sums", "squares"),
        *("counts_remainder", "sums_remainder", "squares_remainder"),
        "weighted_plays",
    )

    n_contexts: int
    n_actions: int
    indptr: IntArray  # shape (n_users + 1,): where each user's row begins
    cells: npt.NDArray[np.int32]  # shape (n_entries,), like all below; ascending in each row
    counts: FloatArray  # how often the user met the cell, or the sum of its weights
    sums: FloatArray  # sums of rewards
    squares: FloatArray  # sums of squared rewards
    # Rounding errors of the sums, or empty if there are none; they make merging exact. Learners
    # ignore them.
    counts_remainder: FloatArray = field(default_factory=lambda: _NOTHING)
    sums_remainder: FloatArray = field(default_factory=lambda: _NOTHING)
    squares_remainder: FloatArray = field(default_factory=lambda: _NOTHING)
    # How often the user met the cell if ``counts`` holds weights, else empty.
    weighted_plays: FloatArray = field(default_factory=lambda: _NOTHING)
    # Where blocks of users begin, followed by n_users; empty for one block. Block-wise sums over
    # users are the same on every engine.
    bounds: tuple[int, ...] = ()
    user_labels: Labels = NO_LABELS  # empty, like the others, if only codes are known
    context_labels: Labels = NO_LABELS
    action_labels: Labels = NO_LABELS

    @property
    def blocks(self) -> Blocked[Tallies]:
        """The tallies of each block, as views."""
        if len(self.bounds) <= 2:
            return Blocked.here([self], (self.n_users,))
        ranges = list(itertools.pairwise(self.bounds))
        sizes = tuple(last - first for first, last in ranges)
        return Blocked.here([self.of_range(first, last) for first, last in ranges], sizes)

    @property
    def is_weighted(self) -> bool:
        """Whether ``counts`` holds importance weights and not plain counts."""
        return len(self.weighted_plays) > 0

    @property
    def plays(self) -> FloatArray:
        """How often the user met the cell, without weights; shape (n_entries,)."""
        return self.weighted_plays if self.is_weighted else self.counts

    @property
    def n_events(self) -> int:
        """Number of plays of all users."""
        return int(self.plays.sum())

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the (user, context) pair of each entry, numbered, and the context of each pair."""
        contexts = self.cells // self.n_actions
        keys = entry_users(self.indptr) * self.n_contexts + contexts  # ascending
        is_new = np.diff(keys, prepend=-1) != 0
        return np.cumsum(is_new) - 1, contexts[is_new]

    def labelled(self, users: Labels, contexts: Labels, actions: Labels) -> Tallies:
        """Return the same tallies with labels."""
        return replace(self, user_labels=users, context_labels=contexts, action_labels=actions)

    def uniform(self) -> Tallies:
        """Return the tallies as if every action had been played with probability 1/A."""
        return self.scaled(1.0 / self.n_actions) if self.is_weighted else self

    def scaled(self, factor: float | FloatArray) -> Tallies:
        """Multiply all weights by a factor, or by one factor per entry."""
        sums = (self.counts * factor, self.sums * factor, self.squares * factor)
        return replace(self.with_sums(*sums), weighted_plays=self.plays)

    def with_sums(self, counts: FloatArray, sums: FloatArray, squares: FloatArray) -> Tallies:
        """Replace the sums of all entries; remainders are dropped."""
        return replace(
            self,
            counts=counts,
            sums=sums,
            squares=squares,
            counts_remainder=_NOTHING,
            sums_remainder=_NOTHING,
            squares_remainder=_NOTHING,
        )

    def with_actions(self, action_labels: Labels) -> Tallies:
        """Return the plays of the given actions, in their order; actions may have no plays."""
        is_kept = action_labels.codes(self.action_labels) != UNKNOWN
        kept = self.of_entries(is_kept[self.cells % self.n_actions])
        labels = (self.user_labels, self.context_labels, action_labels)
        return relabelled([kept], [np.arange(self.n_users, dtype=np.int32)], labels)

    def in_blocks(self, n_events: int | None = None) -> Tallies:
        """Return the same tallies in blocks of users; ``n_blocks_for`` gives the number of blocks.

        ``n_events`` includes events that a cap dropped; None counts those in the tallies.
        """
        if self.bounds:
            return self
        n_blocks = n_blocks_for(self.n_events if n_events is None else n_events)
        return replace(self, bounds=tuple(user_bounds(self.user_labels, n_blocks)))

    def _chosen(self, indptr: IntArray, entries: Any, users: Any) -> Tallies:
        # Not super(): with slots, ``dataclass`` replaces the class that super() refers to.
        rows = UserRows._chosen(self, indptr, entries, users)
        labels = Labels(self.user_labels.values[users]) if len(self.user_labels) else NO_LABELS
        return replace(rows, bounds=(), user_labels=labels)


def _row_sums(tallies: Tallies, name: str) -> FloatArray:
    return row_sums(tallies.indptr, getattr(tallies, name))


def _cell_sums(tallies: Tallies, name: str) -> FloatArray:
    return cell_sums(tallies.cells, getattr(tallies, name), tallies.n_cells)


def _cell_users(tallies: Tallies) -> IntArray:
    return cell_entries(tallies.cells, tallies.n_cells)


def _range_of_means(tallies: Tallies) -> tuple[float, float]:
    means = tallies.sums / tallies.counts
    return float(means.min(initial=np.inf)), float(means.max(initial=-np.inf))


def _are_binary(tallies: Tallies) -> bool:
    # Between 0 and 1, only 0 and 1 equal their squares.
    is_within = (tallies.sums >= 0.0) & (tallies.sums <= tallies.counts)
    return bool((is_within & (tallies.sums == tallies.squares)).all())


def n_blocks_for(n_events: int) -> int:
    """Return the number of blocks of a log: a power of two that depends on its size only.

    >>> n_blocks_for(1_000), n_blocks_for(20_000_000)
    (1, 16)
    """
    n_blocks = 1
    while n_blocks < MAX_BLOCKS and n_blocks * EVENTS_PER_BLOCK < n_events:
        n_blocks *= 2
    return n_blocks


def user_bounds(users: Labels, n_blocks: int) -> list[int]:
    """Return the position of the first user of each block, and the end of the last block.

    Block b of B holds the users whose hash is in [b·2^64/B, (b+1)·2^64/B), independently of other
    users.
    """
    if n_blocks == 1:
        return [0, len(users)]
    limits = np.array([(block << 64) // n_blocks for block in range(1, n_blocks)], np.uint64)
    return [0, *np.searchsorted(user_hashes(users), limits).tolist(), len(users)]


BUFFERED_EVENTS = 1 << 18  # Ours: number of events that are buffered before they are summed


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

    Users, contexts and actions are codes; ``weights`` are the weights of events, 1 by default.

    >>> users, contexts, actions = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    >>> rewards = np.array([1.0, 0.5, 0.0])
    >>> t = tally(users, contexts, actions, rewards, n_users=2, n_contexts=2, n_actions=2)
    >>> t.cells.tolist(), t.counts.tolist(), t.sums.tolist()
    ([2, 1], [1.0, 2.0], [0.5, 1.0])
    """
    check_size(n_contexts, n_actions)
    cells = np.multiply(contexts, n_actions, dtype=np.int32)
    np.add(cells, actions, out=cells, casting="same_kind")
    values = np.empty((len(rewards), 2 if weights is None else 3))
    if weights is not None:
        values[:, 0] = weights
    np.add(rewards, 0.0, out=values[:, -1])  # turns -0.0 into 0.0
    np.multiply(values[:, -1], 1.0 if weights is None else weights, out=values[:, -2])
    np.multiply(values[:, -1], values[:, -2], out=values[:, -1])
    found = grouped_sums(
        users.astype(np.int32, copy=False),
        cells,
        values,
        n_columns=values.shape[1],
        n_users=n_users,
    )
    sums, rests, plays = [*found.sums], found.remainders, found.sizes
    if weights is None:
        sums, rests, plays = [plays, *sums], [_NOTHING, *rests], _NOTHING
    filled: dict[str, Any] = dict(zip(Tallies.columns, [*sums, *rests, plays], strict=True))
    return Tallies(n_contexts, n_actions, found.indptr, found.cells, **filled)


def merged(first: Tallies, *others: Tallies) -> Tallies:
    """Return the tallies of several logs together; users and labels must have the same codes."""
    parts = (first, *others)
    shape = (first.n_users, first.n_contexts, first.n_actions)
    if any((part.n_users, part.n_contexts, part.n_actions) != shape for part in parts):
        raise InputError(
            "tallies of different users, contexts or actions cannot be merged; give both logs the "
            "same labels."
        )
    return _together(parts, first.n_users, first.n_contexts)


def _together(parts: Sequence[Tallies], n_users: int, n_contexts: int) -> Tallies:
    """Add up tallies with the same codes."""
    users = [entry_users(part.indptr).astype(np.int32) for part in parts]
    cells = [part.cells for part in parts]
    return summed(parts, users, cells, n_users, n_contexts, parts[0].n_actions)


def summed(
    parts: Sequence[Tallies],
    users: Sequence[npt.NDArray[np.int32]],
    cells: Sequence[npt.NDArray[np.int32]],
    n_users: int,
    n_contexts: int,
    n_actions: int,
) -> Tallies:
    """Add up the entries of several tallies, given the new user and cell of every entry."""
    if len({part.is_weighted for part in parts if len(part.cells)}) > 1:
        raise InputError(
            "a log with propensities and one without cannot be added up; read both the same way."
        )
    check_size(n_contexts, n_actions)
    rests = ("counts_remainder", "sums_remainder", "squares_remainder")
    names = ["counts", "sums", "squares", *["plays"] * any(part.is_weighted for part in parts)]
    n_columns = len(names)
    if any(len(getattr(part, name)) for part in parts for name in rests):
        names += (*rests, "plays_remainder")[:n_columns]
    values, n_filled = np.zeros((sum(map(len, cells)), len(names))), 0
    for part in parts:
        rows = values[n_filled : n_filled + len(part.cells)]
        n_filled += len(rows)
        for place, name in enumerate(names):
            column = getattr(part, name, _NOTHING)
            rows[:, place] = column if len(column) else 0.0
    found = grouped_sums(
        np.concatenate(users),
        np.concatenate(cells),
        values,
        n_columns=n_columns,
        n_users=n_users,
    )
    columns: dict[str, Any] = dict(zip((*names[:3], "weighted_plays"), found.sums, strict=False))
    columns |= dict(zip(rests, found.remainders, strict=False))
    return Tallies(n_contexts, n_actions, found.indptr, found.cells, **columns)


def relabelled(
    parts: Sequence[Tallies],
    user_codes: Sequence[npt.NDArray[np.int32]],
    labels: tuple[Labels, Labels, Labels],
) -> Tallies:
    """Add up tallies under new labels, given the new code of each of their users."""
    users, cells = [], []
    for part, own in zip(parts, user_codes, strict=True):
        old_contexts, old_actions = np.divmod(part.cells, part.n_actions)
        contexts = labels[1].codes(part.context_labels).astype(np.int32)[old_contexts]
        actions = labels[2].codes(part.action_labels).astype(np.int32)[old_actions]
        users.append(own[entry_users(part.indptr)])
        cells.append(contexts * np.int32(len(labels[2])) + actions)
    return summed(parts, users, cells, *map(len, labels)).labelled(*labels)


def check_size(n_contexts: int, n_actions: int) -> None:
    """Reject tables whose cells cannot be numbered."""
    if n_contexts * n_actions > np.iinfo(np.int32).max:
        raise InputError(
            f"{n_contexts} contexts by {n_actions} actions are more cells than can be indexed; "
            "join rare contexts first."
        )


class Accumulator:
    """Sums events by user and cell as they arrive; users and contexts may be added on the way.

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
        """Return an accumulator that continues from tallies."""
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
            self.tallies()

    def tallies(self, *, n_users: int = 0, n_contexts: int = 0) -> Tallies:
        """Return the tallies of all events so far for the users and contexts known so far."""
        empty = np.empty(0, np.int64)
        pieces = self._buffer or [(empty, empty, empty, np.empty(0))]
        users, contexts, actions, rewards = (
            np.concatenate([piece[column] for piece in pieces]) for column in range(4)
        )
        parts = [] if self._summed is None else [self._summed]
        n_users = max(n_users, int(users.max(initial=-1)) + 1, *(part.n_users for part in parts))
        n_contexts = max(
            n_contexts, int(contexts.max(initial=-1)) + 1, *(part.n_contexts for part in parts)
        )
        sizes = {"n_users": n_users, "n_contexts": n_contexts, "n_actions": self.n_actions}
        fresh = tally(users, contexts, actions, rewards, weights=None, **sizes)
        # Entries keep their cells when contexts are added.
        self._summed = _together([*parts, fresh], n_users, n_contexts)
        self._buffer, self._n_buffered = [], 0
        return self._summed
