"""What good users' tastes have in common: a few directions, along which they differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.learners.discount.fit_rows import Data
from unswayed.learners.discount.noise import top_directions
from unswayed.learners.discount.tastes.kernels import taste_sums
from unswayed.learners.interface import FloatArray
from unswayed.tallies.grouping import in_user_parts

RANK, CELLS_PER_DIRECTION = 6, 4
"""Ours: directions of taste, and how many cells there must be for each."""

STEPS = 12
"""Ours: steps of EM from the top directions of the answers."""

PSEUDO_ANSWERS = 10.0
"""Ours: loadings shrink as if so many answers more had shown none, variances as if so many had
shown the common one."""

LEAST_LEFT = 0.15
"""Ours: the smallest variance that tastes leave, as a multiple of the common one."""


class Tastes(NamedTuple):
    """A low-rank model of answers, in standard deviations of their cells.

    Attributes
    ----------
    loadings
        Shape (n_cells, rank); an answer differs from the mean by loadings·f, f a user's tastes.
    left
        Shape (n_cells,); variance of one independent answer beyond that.
    """

    loadings: FloatArray
    left: FloatArray


def fit_tastes(data: Data, rng: np.random.Generator) -> Tastes:
    """Fit common directions of taste to what users answered, colluders included.

    Notes
    -----
    A coalition may become a direction of its own. That does no harm to those who look along it: if
    a share p shifts by δ, the covariance is Σ + p(1 − p)·δδᵀ, and its inverse still maps δ to a
    multiple of Σ⁻¹δ, the direction that tells colluders from good users best.
    """
    answers, worth, x, weights = data.answers, data.worth, data.residuals, data.weights
    rows = (answers.indptr, answers.cells, worth, x)
    users = np.bincount(answers.cells, weights[answers.users], answers.n_cells)
    energy = np.bincount(answers.cells, weights[answers.users] * worth * x * x, answers.n_cells)
    count = max(1, min(RANK, answers.n_cells // CELLS_PER_DIRECTION))
    values, vectors = top_directions(answers, np.sqrt(worth) * x, weights, count, rng)
    rank = vectors.shape[1]
    per_cell = max(float(users.mean()), 1.0)
    loadings = vectors * np.sqrt(np.maximum(values, 0.0) / per_cell) / 2.0
    left = np.full(answers.n_cells, 0.7)
    ridge = PSEUDO_ANSWERS * np.eye(rank)
    for _ in range(STEPS):
        parts = in_user_parts(taste_sums, answers.n_users, *rows, weights, loadings, left)
        squares, products = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
        loadings = np.linalg.solve(squares + ridge, products[:, :, None])[:, :, 0].astype(
            np.float64
        )
        explained = 2.0 * (loadings * products).sum(axis=1) - np.einsum(
            "ja,jab,jb->j", loadings, squares, loadings
        )
        rest = np.maximum(energy - explained, 0.0)
        common = float(rest.sum() / max(users.sum(), 1.0))
        left = (rest + PSEUDO_ANSWERS * common) / (users + PSEUDO_ANSWERS)
        left = np.maximum(left, max(LEAST_LEFT * common, 1e-9))
    return Tastes(loadings, left)
