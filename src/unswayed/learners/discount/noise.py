"""How far honest answers scatter: between users, within users, and together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.kernels import cell_sums, gram_block
from unswayed.learners.interface import FloatArray

CLEAR_SHARE = 0.02
"""Ours: a between-user share below this is taken for zero."""

PSEUDO_USERS = 10.0
"""Ours: a cell's variance is averaged with the pooled one as if from this many users."""

VARIANCE_RANGE = (0.1, 1.5)
"""Ours: variances of cells lie within these multiples of the pooled and the median one; a coalition
inflates the variance of the cells it attacks, and must not hide in it."""

BINARY_RANGE = (0.03, 0.97)
"""Ours: means that give the variance of a binary cell stay in here."""

SUBSPACE_ROUNDS = 8
"""Ours: block power iterations for the top directions."""

MIN_REPEATS = 50.0
"""Ours: repeated plays needed before tastes are told from noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Means and scatter of answers under the users' present weights.

    Attributes
    ----------
    taste_share
        ρ, the share of a reward's variance in a cell that lies between users.
    worth
        Shape (n_entries,); e = 1/(ρ + (1 − ρ)/n), the independent answers an entry is worth.
    means, variances
        Shape (n_cells,); of one independent answer.
    residuals
        Shape (n_entries,); answers less their cell's mean.
    """

    taste_share: float
    worth: FloatArray
    means: FloatArray
    variances: FloatArray
    residuals: FloatArray


def measure_noise(answers: Answers, weights: FloatArray) -> Noise:
    """Measure means and scatter of answers; one user is one witness, however often asked."""
    share = _taste_share(answers, weights)
    worth = 1.0 / (share + (1.0 - share) / np.maximum(answers.plays, 1e-9))
    users, mass, total, squares = cell_sums(
        answers.indptr, answers.cells, worth, answers.means, weights, answers.n_cells
    )
    means = total / np.maximum(mass, 1e-12)
    if answers.is_binary:
        inside = np.clip(means, *BINARY_RANGE)
        variances = inside * (1.0 - inside)
    else:
        scatter = np.maximum(squares - means * total, 0.0)
        pooled = scatter.sum() / max(users.sum() - answers.n_cells, 1.0)
        variances = (scatter + PSEUDO_USERS * pooled) / (users + PSEUDO_USERS)
        typical = float(np.median(variances[users > 0])) if (users > 0).any() else 1.0
        low, high = VARIANCE_RANGE
        variances = np.clip(variances, low * pooled, max(high * typical, low * pooled))
        variances = np.maximum(variances, np.finfo(float).tiny ** 0.5)
    residuals = answers.means - means[answers.cells]
    return Noise(share, worth, means, variances, residuals)


def _taste_share(answers: Answers, weights: FloatArray) -> float:
    """Return the share of variance between users: entries with n plays have n·r² = n·b + w."""
    used = (answers.plays > 1.5) & ~np.isnan(answers.within)
    weight, plays = weights[answers.users][used], answers.plays[used]
    repeats = float((weight * (plays - 1.0)).sum())
    if repeats < MIN_REPEATS:
        return 0.0
    inside = float((weight * answers.within[used]).sum()) / repeats
    _, mass, total, _ = cell_sums(
        answers.indptr, answers.cells, answers.plays, answers.means, weights, answers.n_cells
    )
    means = total / np.maximum(mass, 1e-12)
    squares = (answers.means[used] - means[answers.cells[used]]) ** 2
    between = float((weight * (plays * squares - inside)).sum() / (weight * plays).sum())
    share = between / max(between + inside, np.finfo(float).tiny)
    return share if share > CLEAR_SHARE else 0.0


def top_directions(
    answers: Answers,
    values: FloatArray,
    weights: FloatArray,
    count: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Return the top eigenvalues of Σ w x xᵀ and their eigenvectors, shape (n_cells, count)."""
    width = min(answers.n_cells, count + 4)
    basis = np.linalg.qr(rng.standard_normal((answers.n_cells, width)))[0]
    for _ in range(SUBSPACE_ROUNDS):
        basis = np.linalg.qr(gram_block(answers.indptr, answers.cells, values, weights, basis))[0]
    small = basis.T @ gram_block(answers.indptr, answers.cells, values, weights, basis)
    found, rotation = np.linalg.eigh((small + small.T) / 2.0)
    largest = np.argsort(-found)[:count]
    return found[largest], basis @ rotation[:, largest]


def permuted_within_cells(
    answers: Answers, weights: FloatArray, rng: np.random.Generator, *arrays: FloatArray
) -> list[FloatArray]:
    """Return arrays with the entries of kept users exchanged within each cell."""
    order = answers.order[weights[answers.users[answers.order]] > 0.5]
    keys = rng.random(len(order))
    shuffled = order[np.lexsort((keys, answers.cells[order]))]
    results = []
    for array in arrays:
        permuted = array.copy()
        permuted[order] = array[shuffled]
        results.append(permuted)
    return results
