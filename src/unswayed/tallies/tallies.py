"""Per-user sums over the cells (context, action): all that the estimators need of a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unswayed.compiled import compiled
from unswayed.errors import InputError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
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
        Shape (n_entries,); how often the user met the cell.
    sums, squares
        Shape (n_entries,); sum of the rewards there, and of their squares.

    Notes
    -----
    Rows of the same users and cells add up: ``merged(a, b)`` equals tallying both logs at once.
    """

    n_users: int
    n_contexts: int
    n_actions: int
    indptr: IntArray
    cells: npt.NDArray[np.int32]
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray

    @property
    def n_cells(self) -> int:
        """Number of cells, S·A."""
        return self.n_contexts * self.n_actions

    @property
    def interactions(self) -> FloatArray:
        """How many interactions each user had, n_i; shape (n_users,)."""
        return row_sums(self.indptr, self.counts)

    def csr(self, values: FloatArray) -> sparse.csr_array:
        """Return a sparse (n_users, n_cells) array that holds ``values`` at the entries."""
        return sparse.csr_array(
            (values, self.cells, self.indptr), shape=(self.n_users, self.n_cells), copy=False
        )


def tally(
    users: npt.NDArray[np.integer],
    contexts: npt.NDArray[np.integer],
    actions: npt.NDArray[np.integer],
    rewards: FloatArray,
    *,
    n_users: int,
    n_contexts: int,
    n_actions: int,
) -> Tallies:
    """Sum events by user and cell in linear time: a counting sort, then short sorts within rows.

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
    if n_contexts * n_actions > np.iinfo(np.int32).max:
        raise InputError(
            f"{n_contexts} contexts by {n_actions} actions are more cells than can be indexed; "
            "join rare contexts first."
        )
    cells = np.asarray(contexts, np.int64) * n_actions + np.asarray(actions, np.int64)
    rewards = np.asarray(rewards, np.float64)
    columns = _summed(
        np.asarray(users, np.int64),
        cells.astype(np.int32),
        np.ones(len(rewards)),
        rewards,
        rewards * rewards,
        n_users,
    )
    return Tallies(n_users, n_contexts, n_actions, *columns)


def merged(first: Tallies, second: Tallies) -> Tallies:
    """Return the tallies of both logs together; users and labels must have the same codes."""
    shape = (first.n_users, first.n_contexts, first.n_actions)
    if shape != (second.n_users, second.n_contexts, second.n_actions):
        raise InputError(
            "tallies of different users, contexts or actions cannot be merged; give both logs the "
            "same labels."
        )
    both = (first, second)
    columns = _summed(
        np.concatenate([entry_users(part.indptr) for part in both]),
        np.concatenate([part.cells for part in both]),
        np.concatenate([part.counts for part in both]),
        np.concatenate([part.sums for part in both]),
        np.concatenate([part.squares for part in both]),
        first.n_users,
    )
    return Tallies(first.n_users, first.n_contexts, first.n_actions, *columns)


def entry_users(indptr: IntArray) -> IntArray:
    """Return the user of each entry; shape (n_entries,)."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


@compiled
def row_sums(indptr: IntArray, values: FloatArray) -> FloatArray:
    """Return the sum of the entries of each row; shape (n_rows,)."""
    totals = np.zeros(len(indptr) - 1)
    for row in range(len(totals)):
        for entry in range(indptr[row], indptr[row + 1]):
            totals[row] += values[entry]
    return totals


@compiled
def _summed(
    users: IntArray,
    cells: npt.NDArray[np.int32],
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray,
    n_users: int,
) -> tuple[IntArray, npt.NDArray[np.int32], FloatArray, FloatArray, FloatArray]:
    """Group entries by user and cell: counting sort by user, then a stable sort inside each row."""
    starts = np.zeros(n_users + 1, np.int64)
    for user in users:
        starts[user + 1] += 1
    for user in range(n_users):
        starts[user + 1] += starts[user]
    order = np.empty(len(users), np.int64)
    cursor = starts[:-1].copy()
    for event in range(len(users)):
        order[cursor[users[event]]] = event
        cursor[users[event]] += 1

    indptr = np.zeros(n_users + 1, np.int64)
    out_cells = np.empty(len(users), np.int32)
    out_counts = np.empty(len(users))
    out_sums = np.empty(len(users))
    out_squares = np.empty(len(users))
    n_entries = 0
    for user in range(n_users):
        row = order[starts[user] : starts[user + 1]]
        # mergesort is stable: equal cells keep the order of the log, so sums are reproducible.
        row = row[np.argsort(cells[row], kind="mergesort")]
        previous = -1
        for event in row:
            if cells[event] != previous:
                previous = cells[event]
                out_cells[n_entries] = previous
                out_counts[n_entries] = 0.0
                out_sums[n_entries] = 0.0
                out_squares[n_entries] = 0.0
                n_entries += 1
            out_counts[n_entries - 1] += counts[event]
            out_sums[n_entries - 1] += sums[event]
            out_squares[n_entries - 1] += squares[event]
        indptr[user + 1] = n_entries
    return (
        indptr,
        out_cells[:n_entries].copy(),
        out_counts[:n_entries].copy(),
        out_sums[:n_entries].copy(),
        out_squares[:n_entries].copy(),
    )
