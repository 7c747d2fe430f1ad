"""Compiled passes for tastes and populations.

Letters: ``e`` how many independent responses an entry is worth; ``x`` its mean reward, centred and
in standard deviations of its cell; ``w`` weights of users; ``loadings`` the common directions of
taste, shape (n_cells, rank); ``left`` the variance per response that they leave, shape (n_cells,).
"""

from __future__ import annotations

import numpy as np

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.discount.responses.kernels import RealArray


@compiled
def _normal_equations(
    cells: CellArray, e: RealArray, x: RealArray, loadings: FloatArray, left: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return I + Λᵀ(e/ψ)Λ and Λᵀ(e/ψ)x of one user's responses, for standard normal tastes."""
    rank = loadings.shape[1]
    precision, pull = np.eye(rank), np.zeros(rank)
    for k in range(cells.size):
        j = cells[k]
        h = e[k] / left[j]
        for a in range(rank):
            pull[a] += h * x[k] * loadings[j, a]
            for b in range(a + 1):
                precision[a, b] += h * loadings[j, a] * loadings[j, b]
    for a in range(rank):
        for b in range(a):
            precision[b, a] = precision[a, b]
    return precision, pull


@compiled
def taste_sums(
    start: int,
    stop: int,
    indptr: IntArray,
    cells: CellArray,
    e: RealArray,
    x: RealArray,
    w: FloatArray,
    loadings: FloatArray,
    left: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return Σ w·e·E[f·fᵀ] and Σ w·e·x·E[f] per cell, f the users' tastes given their responses.

    Over the users from ``start`` to ``stop``. Shapes (n_cells, rank, rank) and (n_cells, rank).
    """
    n_cells, rank = loadings.shape
    squares, products = np.zeros((n_cells, rank, rank)), np.zeros((n_cells, rank))
    for i in range(start, stop):
        if w[i] <= 0.0 or indptr[i] == indptr[i + 1]:
            continue
        ours = slice(indptr[i], indptr[i + 1])
        precision, pull = _normal_equations(cells[ours], e[ours], x[ours], loadings, left)
        second = np.linalg.inv(precision)
        f = second @ pull
        for a in range(rank):
            for b in range(rank):
                second[a, b] += f[a] * f[b]
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            h = w[i] * e[k]
            for a in range(rank):
                products[j, a] += h * x[k] * f[a]
                for b in range(rank):
                    squares[j, a, b] += h * second[a, b]
    return squares, products


@compiled
def taste_profiles(
    indptr: IntArray,
    cells: CellArray,
    e: RealArray,
    x: RealArray,
    loadings: FloatArray,
    left: FloatArray,
    rank_of_cell: IntArray,
    n_rivals: int,
) -> FloatArray:
    """Return each user's tastes, and what they say beyond them about winners and rivals.

    ``rank_of_cell`` is 0 for the winner of a context, 1 for the runner-up, and so on. Shape
    (n_users, rank + n_rivals).
    """
    n_users, rank = indptr.size - 1, loadings.shape[1]
    profiles = np.zeros((n_users, rank + n_rivals))
    for i in range(n_users):
        ours = slice(indptr[i], indptr[i + 1])
        precision, pull = _normal_equations(cells[ours], e[ours], x[ours], loadings, left)
        f = np.linalg.solve(precision, pull)
        profiles[i, :rank] = f
        responses = np.ones(n_rivals)  # one more than there are: few responses say little
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            if rank_of_cell[j] >= n_rivals:
                continue
            beyond = x[k]
            for a in range(rank):
                beyond -= loadings[j, a] * f[a]
            profiles[i, rank + rank_of_cell[j]] += e[k] * beyond / np.sqrt(left[j])
            responses[rank_of_cell[j]] += e[k]
        for r in range(n_rivals):
            profiles[i, rank + r] /= np.sqrt(responses[r])
    return profiles


@compiled
def weighted_moments(y: FloatArray, w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return Σ w, Σ w·y and Σ w·y·yᵀ over the rows of y."""
    n, d = y.shape
    mass, total, squares = 0.0, np.zeros(d), np.zeros((d, d))
    for i in range(n):
        if w[i] <= 0.0:
            continue
        mass += w[i]
        for a in range(d):
            pull = w[i] * y[i, a]
            total[a] += pull
            for b in range(a + 1):
                squares[a, b] += pull * y[i, b]
    for a in range(d):
        for b in range(a):
            squares[b, a] = squares[a, b]
    return mass, total, squares


@compiled
def squared_distances(
    y: FloatArray, root: FloatArray, good: FloatArray, coalition: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return |Rᵀ(y − good)|² and |Rᵀ(y − coalition)|² of the rows; R is lower triangular."""
    n, d = y.shape
    from_good, from_coalition = np.empty(n), np.empty(n)
    at_good, at_coalition = root.T @ good, root.T @ coalition
    for i in range(n):
        near, far = 0.0, 0.0
        for a in range(d):
            along = 0.0
            for b in range(a, d):
                along += root[b, a] * y[i, b]
            near += (along - at_good[a]) ** 2
            far += (along - at_coalition[a]) ** 2
        from_good[i], from_coalition[i] = near, far
    return from_good, from_coalition


@compiled
def updated_odds(
    ratios: FloatArray, w: FloatArray, log_odds: float, before: FloatArray
) -> tuple[FloatArray, float, float]:
    """Return w·γ of users, its sum, and how far it moved."""
    accused, moved = 0.0, 0.0
    gammas = np.zeros(ratios.size)
    for i in range(ratios.size):
        if w[i] > 0.0:
            odds = log_odds + ratios[i]
            if odds > -30.0:
                gammas[i] = w[i] / (1.0 + np.exp(-odds))
            accused += gammas[i]
            moved += abs(gammas[i] - before[i])
    return gammas, accused, moved
