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


def visit_rows(tallies: Tallies) -> SparseRows:
    """Return the share of each context in the visits of each active user."""
    return SparseRows(
        *_visits(
            tallies.indptr,
            tallies.cells,
            tallies.counts,
            tallies.interactions,
            tallies.n_actions,
        ),
        tallies.n_contexts,
    )


def reward_rows(tallies: Tallies, scales: FloatArray, is_rare: BoolArray) -> SparseRows:
    """Return b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)} of each active user.

    Columns are the cells of S₋ in their order.
    """
    new_context = np.where(is_rare, np.cumsum(is_rare) - 1, -1).astype(np.int32)
    return SparseRows(
        *_rewards(
            tallies.indptr,
            tallies.cells,
            tallies.sums,
            tallies.interactions,
            scales,
            new_context,
            tallies.n_actions,
        ),
        int(is_rare.sum()) * tallies.n_actions,
    )


@compiled
def _visits(
    indptr: IntArray, cells: CellArray, counts: FloatArray, interactions: FloatArray, n_actions: int
) -> tuple[FloatArray, IndexArray, IntArray]:
    """Return data, indices and indptr; entries of one context are neighbours, so one pass does."""
    data = np.empty(len(cells))
    indices = np.empty(len(cells), np.uint32)
    starts = np.zeros(len(indptr), np.int64)
    n_entries, n_rows = 0, 0
    for user in range(len(indptr) - 1):
        if interactions[user] <= 0:
            continue
        previous = np.int32(-1)
        for entry in range(indptr[user], indptr[user + 1]):
            context = np.int32(cells[entry] // n_actions)
            share = counts[entry] / interactions[user]
            if context == previous:
                data[n_entries - 1] += share
            else:
                data[n_entries] = share
                indices[n_entries] = context
                n_entries += 1
                previous = context
        n_rows += 1
        starts[n_rows] = n_entries
    return data[:n_entries].copy(), indices[:n_entries].copy(), starts[: n_rows + 1].copy()


@compiled
def _rewards(
    indptr: IntArray,
    cells: CellArray,
    sums: FloatArray,
    interactions: FloatArray,
    scales: FloatArray,
    new_context: CellArray,
    n_actions: int,
) -> tuple[FloatArray, IndexArray, IntArray]:
    """Return data, indices and indptr; contexts whose new code is negative are left out."""
    data = np.empty(len(cells))
    indices = np.empty(len(cells), np.uint32)
    starts = np.zeros(len(indptr), np.int64)
    n_entries, n_rows = 0, 0
    for user in range(len(indptr) - 1):
        if interactions[user] <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            context = cells[entry] // n_actions
            if new_context[context] >= 0:
                data[n_entries] = n_actions * sums[entry] / scales[context] / interactions[user]
                indices[n_entries] = new_context[context] * n_actions + cells[entry] % n_actions
                n_entries += 1
        n_rows += 1
        starts[n_rows] = n_entries
    return data[:n_entries].copy(), indices[:n_entries].copy(), starts[: n_rows + 1].copy()
