"""How far honest responses scatter: between users, within users, and together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.estimators.lanczos import top_eigenpairs
from unswayed.learners.discount.responses.kernels import (
    RealArray,
    cell_sums,
    gram_product,
    repeats_of_users,
    spread_between_users,
)
from unswayed.learners.discount.responses.responses import AnyResponses, Responses
from unswayed.learners.discount.settings import MIN_REPEATS

CLEAR_SHARE = 0.02
"""Ours: a between-user share below this is taken for zero."""

PSEUDO_USERS = 10.0
"""Ours: a cell's variance is averaged with the pooled one as if from this many users."""

VARIANCE_RANGE = (0.1, 1.5)
"""Ours: variances of cells lie within these multiples of the pooled and the median one; a coalition
inflates the variance of the cells it attacks, and must not hide in it."""

BINARY_RANGE = (0.03, 0.97)
"""Ours: means that give the variance of a binary cell stay in here."""

ROUNDING = 1e-12
"""Ours: deviations below this share of the largest mean are rounding, and no scatter."""

EXTRA_STEPS = 20
"""Ours: Lanczos steps for the top directions, beyond their number."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Means and scatter of responses under the users' present weights.

    Attributes
    ----------
    taste_share
        ρ, the share of a reward's variance in a cell that lies between users.
    means, variances
        Shape (n_cells,); of one independent response.
    users, mass
        Shape (n_cells,); weight of the users who met the cell, and what their responses are worth.
    """

    taste_share: float
    means: FloatArray
    variances: FloatArray
    users: FloatArray
    mass: FloatArray


def measure_noise(
    responses: AnyResponses, weights: FloatArray, taste_share: float | None = None
) -> Noise:
    """Measure means and scatter of responses; one user is one witness, however often asked.

    The share of tastes may be given.
    """
    share = _taste_share(responses, weights) if taste_share is None else taste_share
    users, mass, total, squares = responses.blocks.add_blocks(sums_of_cells, share, rows=weights)
    means = total / np.maximum(mass, 1e-12)
    if responses.is_binary:
        inside = np.clip(means, *BINARY_RANGE)
        variances = inside * (1.0 - inside)
    else:
        scatter = np.maximum(squares - means * total, 0.0)
        pooled = scatter.sum() / max(users.sum() - responses.n_cells, 1.0)
        variances = (scatter + PSEUDO_USERS * pooled) / (users + PSEUDO_USERS)
        typical = float(np.median(variances[users > 0])) if (users > 0).any() else 1.0
        low, high = VARIANCE_RANGE
        variances = np.clip(variances, low * pooled, max(high * typical, low * pooled))
        rounding = (ROUNDING * float(np.abs(means).max(initial=0.0))) ** 2
        variances = np.maximum(variances, max(rounding, np.finfo(float).tiny ** 0.5))
    return Noise(share, means, variances, users, mass)


def worth_of(responses: Responses, taste_share: float) -> FloatArray:
    """Return how many independent responses entries are worth, e = 1/(ρ + (1 − ρ)/n)."""
    if taste_share == 0.0:
        return responses.plays
    return 1.0 / (taste_share + (1.0 - taste_share) / responses.plays)


def sums_of_cells(responses: Responses, weights: FloatArray, taste_share: float) -> FloatArray:
    """Return Σ w, Σ w·e, Σ w·e·r and Σ w·e·r² per cell; shape (4, n_cells)."""
    worth = worth_of(responses, taste_share)
    return cell_sums(
        responses.indptr, responses.cells, worth, responses.means, weights, responses.n_cells
    )


def _taste_share(responses: AnyResponses, weights: FloatArray) -> float:
    """Return the share of variance between users: entries with n plays have n·r² = n·b + w."""
    repeats, squares = responses.blocks.add_blocks(_repeats, rows=weights)
    if repeats < MIN_REPEATS:
        return 0.0
    inside = float(squares / repeats)
    _, mass, total, _ = responses.blocks.add_blocks(sums_of_cells, 0.0, rows=weights)
    means = total / np.maximum(mass, 1e-12)
    excess, plays = responses.blocks.add_blocks(_spread, means, inside, rows=weights)
    between = float(excess / plays)
    share = between / max(between + inside, np.finfo(float).tiny)
    return share if share > CLEAR_SHARE else 0.0


def _repeats(responses: Responses, weights: FloatArray) -> FloatArray:
    return repeats_of_users(responses.indptr, responses.plays, responses.within, weights)


def _spread(
    responses: Responses, weights: FloatArray, means: FloatArray, inside: float
) -> FloatArray:
    return spread_between_users(
        responses.indptr,
        responses.cells,
        responses.plays,
        responses.within,
        responses.means,
        means,
        weights,
        inside,
    )


def top_directions(
    responses: Responses,
    values: RealArray,
    weights: FloatArray,
    count: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Return the top eigenvalues of Σ w x xᵀ and their eigenvectors, shape (n_cells, count).

    The search begins at a random vector.
    """
    return top_eigenpairs(
        partial(gram_product, responses.indptr, responses.cells, values, weights),
        rng.standard_normal(responses.n_cells),
        count,
        n_steps=count + EXTRA_STEPS,
    )


def permuted_within_cells(
    responses: Responses, weights: FloatArray, rng: np.random.Generator, *arrays: RealArray
) -> list[RealArray]:
    """Return arrays with the entries of kept users exchanged within each cell."""
    keys = rng.random(len(responses.cells))
    source = exchanged_within_cells(*responses.cell_order, responses.users, weights, keys)
    return [array[source] for array in arrays]


@compiled
def exchanged_within_cells(
    order: IntArray, starts: IntArray, users: IntArray, w: FloatArray, keys: FloatArray
) -> IntArray:
    """Return for each entry the one it is exchanged for: a random one of its cell.

    Only entries of users with more than half their weight move. ``keys`` are uniform, one for each
    entry.
    """
    source, movable = np.arange(order.size), np.empty(order.size, np.int64)
    for j in range(starts.size - 1):
        n = 0
        for q in range(starts[j], starts[j + 1]):
            if w[users[order[q]]] > 0.5:
                movable[n] = order[q]
                n += 1
        for m in range(n - 1, 0, -1):
            other = int(keys[starts[j] + m] * (m + 1))
            a, b = movable[m], movable[other]
            source[a], source[b] = source[b], source[a]
    return source
