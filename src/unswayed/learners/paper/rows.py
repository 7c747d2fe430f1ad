"""The users as sparse rows: shares of contexts, and scaled rewards.

Columns are unsigned, so that compiled loops need not ask whether an index counts from the end: a
sixth of the time of every product.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.estimators.results import IndexArray
from unswayed.estimators.rows import SparseRows
from unswayed.learners.interface import BoolArray, FloatArray, IntArray
from unswayed.tallies import Tallies

CellArray = npt.NDArray[np.int32]


def visit_rows(tallies: Tallies, scales: FloatArray) -> SparseRows:
    """Return b_i = (1/n_i) Σ_t σ_{s_t}^-1 e_{s_t} of each active user."""
    starts = _visit_starts(tallies.indptr, tallies.cells, tallies.counts, tallies.n_actions)
    # Large arrays are made by numpy and not by compiled code: it asks for large pages.
    data, indices = np.empty(starts[-1]), np.empty(starts[-1], np.uint32)
    _fill_visits(
        tallies.indptr, tallies.cells, tallies.counts, tallies.n_actions, scales, data, indices
    )
    return SparseRows(data, indices, starts, tallies.n_contexts)


def reward_rows(tallies: Tallies, scales: FloatArray, is_rare: BoolArray) -> SparseRows:
    """Return b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)} of each active user.

    Columns are the cells of S₋ in their order. Sums that are zero are not stored, which with
    rewards of zero and one is every other one.
    """
    new_context = np.where(is_rare, np.cumsum(is_rare) - 1, -1).astype(np.int32)
    entries = (tallies.indptr, tallies.cells, tallies.counts, tallies.sums)
    starts = _reward_starts(*entries, new_context, tallies.n_actions)
    data, indices = np.empty(starts[-1]), np.empty(starts[-1], np.uint32)
    _fill_rewards(*entries, new_context, tallies.n_actions, scales, data, indices)
    return SparseRows(data, indices, starts, int(is_rare.sum()) * tallies.n_actions)


@compiled
def _interactions(indptr: IntArray, counts: FloatArray, user: int) -> float:
    total = 0.0
    for entry in range(indptr[user], indptr[user + 1]):
        total += counts[entry]
    return total


@compiled
def _visit_starts(
    indptr: IntArray, cells: CellArray, counts: FloatArray, n_actions: int
) -> IntArray:
    """Return where the rows of active users begin when cells of one context are one entry."""
    starts = np.zeros(len(indptr), np.int64)
    n_rows, n_entries = 0, 0
    for user in range(len(indptr) - 1):
        if _interactions(indptr, counts, user) <= 0:
            continue
        limit = np.int64(0)  # the first cell beyond the context
        for entry in range(indptr[user], indptr[user + 1]):
            if cells[entry] >= limit:
                n_entries += 1
                limit = (cells[entry] // n_actions + 1) * n_actions
        n_rows += 1
        starts[n_rows] = n_entries
    return starts[: n_rows + 1]


@compiled
def _fill_visits(
    indptr: IntArray,
    cells: CellArray,
    counts: FloatArray,
    n_actions: int,
    scales: FloatArray,
    data: FloatArray,
    indices: IndexArray,
) -> None:
    """Fill in shares of visits over scales; cells of one context are neighbours."""
    place = -1
    for user in range(len(indptr) - 1):
        interactions = _interactions(indptr, counts, user)
        if interactions <= 0:
            continue
        limit, factor = np.int64(0), 0.0
        for entry in range(indptr[user], indptr[user + 1]):
            if cells[entry] >= limit:
                context = cells[entry] // n_actions
                limit = (context + 1) * n_actions
                factor = 1.0 / (interactions * scales[context])
                place += 1
                indices[place] = context
                data[place] = counts[entry] * factor
            else:
                data[place] += counts[entry] * factor


@compiled
def _reward_starts(
    indptr: IntArray,
    cells: CellArray,
    counts: FloatArray,
    sums: FloatArray,
    new_context: CellArray,
    n_actions: int,
) -> IntArray:
    """Return where the rows of active users begin; left-out contexts have a negative new code."""
    starts = np.zeros(len(indptr), np.int64)
    n_rows, n_entries = 0, 0
    for user in range(len(indptr) - 1):
        if _interactions(indptr, counts, user) <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            is_stored = sums[entry] != 0.0 and new_context[cells[entry] // n_actions] >= 0
            n_entries += is_stored
        n_rows += 1
        starts[n_rows] = n_entries
    return starts[: n_rows + 1]


@compiled
def _fill_rewards(
    indptr: IntArray,
    cells: CellArray,
    counts: FloatArray,
    sums: FloatArray,
    new_context: CellArray,
    n_actions: int,
    scales: FloatArray,
    data: FloatArray,
    indices: IndexArray,
) -> None:
    """Fill in scaled rewards."""
    place = 0
    for user in range(len(indptr) - 1):
        interactions = _interactions(indptr, counts, user)
        if interactions <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            context = cells[entry] // n_actions
            if sums[entry] != 0.0 and new_context[context] >= 0:
                data[place] = n_actions * sums[entry] / (scales[context] * interactions)
                indices[place] = cells[entry] + (new_context[context] - context) * n_actions
                place += 1
