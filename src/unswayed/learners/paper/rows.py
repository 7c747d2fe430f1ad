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
    # Room for as many entries as there may be; pages that are not reached cost nothing.
    data, indices = np.empty(len(tallies.cells)), np.empty(len(tallies.cells), np.uint32)
    starts = _fill_visits(
        tallies.indptr,
        tallies.cells,
        tallies.counts,
        1.0 / scales,
        tallies.n_actions,
        data,
        indices,
    )
    return SparseRows(data[: starts[-1]], indices[: starts[-1]], starts, tallies.n_contexts)


def reward_rows(tallies: Tallies, scales: FloatArray, is_rare: BoolArray) -> SparseRows:
    """Return b_i = (A/n_i) Σ_t r_t σ_{s_t}^-1 1{s_t ∈ S₋} e_{(s_t, a_t)} of each active user.

    Columns are the cells of S₋ in their order. Sums that are zero are not stored, which with
    rewards of zero and one is every other one.
    """
    # How much less the columns of a context are than its cells; negative where it is left out.
    shifts = np.where(is_rare, np.cumsum(~is_rare) * tallies.n_actions, -1)
    data, indices = np.empty(len(tallies.cells)), np.empty(len(tallies.cells), np.uint32)
    starts = _fill_rewards(
        tallies.indptr,
        tallies.cells,
        tallies.counts,
        tallies.sums,
        tallies.n_actions / scales,
        shifts,
        tallies.n_actions,
        data,
        indices,
    )
    n_columns = int(is_rare.sum()) * tallies.n_actions
    return SparseRows(data[: starts[-1]], indices[: starts[-1]], starts, n_columns)


# A context is (cell + ½)·(1/A) rounded down: exact, as the product is at least ½/A from a whole
# number and errs by less; a division of whole numbers would be half of the time of these loops.


@compiled
def _fill_visits(
    indptr: IntArray,
    cells: CellArray,
    counts: FloatArray,
    factors: FloatArray,
    n_actions: int,
    data: FloatArray,
    indices: IndexArray,
) -> IntArray:
    """Fill in shares of visits times factors; return where the rows of active users begin."""
    starts = np.zeros(len(indptr), np.int64)
    place, n_rows = -1, 0
    for user in range(len(indptr) - 1):
        interactions = 0.0
        for entry in range(indptr[user], indptr[user + 1]):
            interactions += counts[entry]
        if interactions <= 0:
            continue
        limit, factor = np.int64(0), 0.0  # the first cell beyond the context, and its factor
        for entry in range(indptr[user], indptr[user + 1]):
            if cells[entry] >= limit:
                context = np.int64((cells[entry] + 0.5) * (1.0 / n_actions))
                limit = (context + 1) * n_actions
                factor = factors[context] / interactions
                place += 1
                indices[place] = context
                data[place] = counts[entry] * factor
            else:
                data[place] += counts[entry] * factor
        n_rows += 1
        starts[n_rows] = place + 1
    return starts[: n_rows + 1]


@compiled
def _fill_rewards(
    indptr: IntArray,
    cells: CellArray,
    counts: FloatArray,
    sums: FloatArray,
    factors: FloatArray,
    shifts: IntArray,
    n_actions: int,
    data: FloatArray,
    indices: IndexArray,
) -> IntArray:
    """Fill in rewards times factors; return where the rows of active users begin."""
    starts = np.zeros(len(indptr), np.int64)
    place, n_rows = 0, 0
    for user in range(len(indptr) - 1):
        interactions = 0.0
        for entry in range(indptr[user], indptr[user + 1]):
            interactions += counts[entry]
        if interactions <= 0:
            continue
        for entry in range(indptr[user], indptr[user + 1]):
            if sums[entry] != 0.0:
                context = np.int64((cells[entry] + 0.5) * (1.0 / n_actions))
                if shifts[context] >= 0:
                    data[place] = sums[entry] * factors[context] / interactions
                    indices[place] = cells[entry] - shifts[context]
                    place += 1
        n_rows += 1
        starts[n_rows] = place
    return starts[: n_rows + 1]
