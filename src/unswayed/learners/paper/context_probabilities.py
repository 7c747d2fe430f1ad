"""Algorithm 1: context probabilities of the good users, while colluders choose their contexts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from unswayed.arrays import FloatArray, IndexArray, IntArray
from unswayed.compiled import compiled
from unswayed.engine import BlockedRows
from unswayed.errors import InputError
from unswayed.estimators import MeanEstimate, spectral_filter
from unswayed.estimators.rows import SparseRows
from unswayed.tallies import Tallies, UserTallies

#: The paper's constant in σ_s² := max(n_s(T₀), 20 log S) / T₀ (proof of Lemma D.1).
SCALE_FLOOR = 20.0

LARGEST_ACTIVITY = 20.0
"""Ours: the paper takes the ratio of activities to be bounded; beyond, `learn` suggests a cap."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextEstimate:
    """Estimated context probabilities.

    Attributes
    ----------
    context_probabilities
        Shape (n_contexts,); ν̂, non-negative with sum one.
    scales
        Shape (n_contexts,); σ_s, about the square root of the probability, never zero.
    filtered
        The high-dimensional estimate behind them, one row an active user.
    """

    context_probabilities: FloatArray
    scales: FloatArray
    filtered: MeanEstimate


Multivariate = Callable[[FloatArray, float], ArrayLike]
"""A robust mean of rows: (rows of shape (n_users, n_columns), alpha) -> mean."""


def robust_mean(
    rows: BlockedRows,
    alpha: float,
    multivariate: Multivariate | None,
    row_weights: FloatArray | None = None,
) -> MeanEstimate:
    """Return the robust mean of rows, by the spectral filter if no other estimator is given."""
    if multivariate is None:
        return spectral_filter(rows, alpha=alpha, row_weights=row_weights)
    n_rows, n_columns = rows.shape
    dense = rows.project(np.zeros(n_columns), np.eye(n_columns))
    mean = np.asarray(multivariate(dense, alpha), dtype=np.float64)
    if mean.shape != (n_columns,):
        raise InputError(f"multivariate returned shape {mean.shape} instead of {(n_columns,)}.")
    return MeanEstimate(mean, np.ones(n_rows), 0, (), "iterations", 0.0)


def estimate_context_probabilities(
    tallies: UserTallies, *, alpha: float, multivariate: Multivariate | None = None
) -> ContextEstimate:
    """Estimate ν from who visited what, robustly (Algorithm 1).

    Parameters
    ----------
    tallies
        The interactions of the first T₀ steps; lines 1–4 of the algorithm are their collection.
    alpha
        α, below 1/2.
    multivariate
        Another robust mean of rows than the spectral filter.

    Notes
    -----
    Guarantee: ‖ν̂ − ν‖₁ ≤ ε with probability 9/10 for T₀ = O(L α/ε²) and L = Ω(S log S / α).

    Deviations from the paper:

    - The floor of the scales is 20 log(max(S, 2))/T₀, since log 1 = 0 (erratum 7).
    - Line 5 counts the colluders' visits, so a flood inflates σ_s and hides itself in the scaled
      coordinate (erratum 5). Lines 5–8 are run a second time with σ_s² = max(ν̂_s, floor), from
      the weights of the first: from equal ones, good users who came to the flooded context, which
      is rare, stand out as the flood does, and a fifth of them went with it.
    - Users without interactions are left out.
    - A user with more than ``LARGEST_ACTIVITY`` times as many interactions as the median one counts
      with as many in line 5 and in T₀ (erratum 14). The rows b_i are shares and need no cap.
    """
    interactions = tallies.interactions
    if not interactions.any():
        raise InputError("there are no interactions to learn from; give at least one event.")
    most = LARGEST_ACTIVITY * float(np.median(interactions[interactions > 0]))
    total = float(np.minimum(interactions, most).sum())  # T₀
    floor = SCALE_FLOOR * math.log(max(tallies.n_contexts, 2)) / total
    # Line 5: σ_s² from the visits of everybody.
    shares = tallies.blocks.add_blocks(_capped_visits, most) / total
    weights: FloatArray | None = None
    for _ in ("line 5 as printed", "erratum 5"):
        scales = np.sqrt(np.maximum(shares, floor))
        # Lines 6 and 7: the robust mean of the b_i = (1/n_i) Σ_t σ^-1 e_{s_t}. The rows are large,
        # so they are not given a name that would keep them until the next ones are made.
        filtered = robust_mean(tallies.rows(visit_rows, scales), alpha, multivariate, weights)
        # Of a handful of users nobody may be left; then the second pass begins with all of them.
        kept = np.maximum(filtered.weights, 0.0)
        weights = kept if np.isfinite(kept).all() and kept.any() else None
        # Line 8: ν̂ = diag(σ)·b̂. Rows of visits are shares, so ν̂ is a probability vector.
        shares = scales * filtered.estimate
    return ContextEstimate(
        context_probabilities=shares / shares.sum(),
        scales=np.sqrt(np.maximum(shares, floor)),
        filtered=filtered,
    )


def _capped_visits(tallies: Tallies, most: float) -> FloatArray:
    """Return the visits to each context, with the visits of very active users scaled down."""
    factors = most / np.maximum(tallies.interactions, most)
    weights = tallies.counts * np.repeat(factors, np.diff(tallies.indptr))
    contexts = tallies.cells // tallies.n_actions
    return np.bincount(contexts, weights, minlength=tallies.n_contexts).astype(np.float64)


def visit_rows(tallies: Tallies, scales: FloatArray) -> SparseRows:
    """Return b_i = (1/n_i) Σ_t σ_{s_t}^-1 e_{s_t} of each active user."""
    # Room for as many entries as there may be; pages that are not reached cost nothing. Columns are
    # unsigned, so that no product asks whether an index counts from the end: a sixth of its time.
    data, indices = np.empty(len(tallies.cells)), np.empty(len(tallies.cells), np.uint32)
    starts = _fill_visits(
        tallies.indptr,
        tallies.cells,
        tallies.counts,
        tallies.interactions,
        1.0 / scales,
        tallies.n_actions,
        data,
        indices,
    )
    return SparseRows(data[: starts[-1]], indices[: starts[-1]], starts, tallies.n_contexts)


@compiled
def _fill_visits(
    indptr: IntArray,
    cells: npt.NDArray[np.int32],
    counts: FloatArray,
    interactions: FloatArray,
    factors: FloatArray,
    n_actions: int,
    data: FloatArray,
    indices: IndexArray,
) -> IntArray:
    """Fill in shares of visits times factors; return where the rows of active users begin."""
    starts = np.zeros(len(indptr), np.int64)
    place, n_rows = -1, 0
    for user in range(len(interactions)):
        if interactions[user] <= 0:
            continue
        limit, factor = np.int64(0), 0.0  # the first cell beyond the context, and its factor
        for entry in range(indptr[user], indptr[user + 1]):
            if cells[entry] >= limit:
                # (cell + ½)·(1/A) rounded down: exact, as the product is at least ½/A from a whole
                # number and errs by less; an integer division would take half of the loop's time.
                context = np.int64((cells[entry] + 0.5) * (1.0 / n_actions))
                limit = (context + 1) * n_actions
                factor = factors[context] / interactions[user]
                place += 1
                indices[place] = context
                data[place] = counts[entry] * factor
            else:
                data[place] += counts[entry] * factor
        n_rows += 1
        starts[n_rows] = place + 1
    return starts[: n_rows + 1]
