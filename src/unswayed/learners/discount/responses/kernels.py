"""Compiled passes over users' rows; one pass reads every entry once or twice.

Letters: ``indptr, cells`` the rows; ``e`` how many independent responses an entry is worth; ``r``
its mean reward, centred; ``w`` weights of users.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled

RealArray = npt.NDArray[np.floating[Any]]
"""Numbers in single or double precision."""

LEAST_VISITS = 10.0
"""Ours: users with fewer visits show no habit."""


@compiled
def cell_sums(
    indptr: IntArray, cells: CellArray, e: RealArray, r: RealArray, w: FloatArray, n_cells: int
) -> FloatArray:
    """Return Σ w, Σ w·e, Σ w·e·r and Σ w·e·r² per cell; shape (4, n_cells)."""
    sums = np.zeros((n_cells, 4))  # a cell's sums side by side: one line of the cache
    for i in range(indptr.size - 1):
        if w[i] <= 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint32(cells[k])  # unsigned: no test for indices from the end
            mass = w[i] * e[k]
            sums[j, 0] += w[i]
            sums[j, 1] += mass
            sums[j, 2] += mass * r[k]
            sums[j, 3] += mass * r[k] * r[k]
    return np.ascontiguousarray(sums.T)


@compiled
def whitened(
    cells: CellArray, y: FloatArray, centre: FloatArray, deviations: FloatArray, out: RealArray
) -> RealArray:
    """Fill ``out`` with responses less their cell's centre, in the cell's standard deviations."""
    for k in range(cells.size):
        j = np.uint32(cells[k])
        out[k] = (y[k] - centre[j]) / deviations[j]
    return out


@compiled
def gram_product(
    indptr: IntArray, cells: CellArray, x: RealArray, w: FloatArray, v: FloatArray
) -> FloatArray:
    """Return Xᵀ diag(w) X v, reading X once."""
    product = np.zeros(v.size)
    for i in range(indptr.size - 1):
        if w[i] <= 0.0:
            continue
        y = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            y += x[k] * v[np.uint32(cells[k])]
        y *= w[i]
        for k in range(indptr[i], indptr[i + 1]):
            product[np.uint32(cells[k])] += x[k] * y
    return product


@compiled
def binary_votes(indptr: IntArray, sums: FloatArray, squares: FloatArray) -> IntArray:
    """Return how many users gave nothing but 0 and 1, and how many did."""
    votes = np.zeros(2, dtype=np.int64)
    for i in range(indptr.size - 1):
        is_binary = True
        for k in range(indptr[i], indptr[i + 1]):
            is_binary &= sums[k] == squares[k]
        if indptr[i] < indptr[i + 1]:
            votes[0 if is_binary else 1] += 1
    return votes


@compiled
def clipped_means(
    cells: CellArray,
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of each entry, clipped to its cell's range, and the squares around it.

    Squares of clipped entries are NaN.
    """
    means, within = np.empty(counts.size), np.empty(counts.size)
    for k in range(counts.size):
        j = np.uint32(cells[k])
        mean = sums[k] / counts[k]
        means[k] = min(max(mean, low[j]), high[j])
        within[k] = max(squares[k] - sums[k] * mean, 0.0) if means[k] == mean else np.nan
    return means, within


@compiled
def capped_visits(
    indptr: IntArray,
    cells: CellArray,
    plays: FloatArray,
    contexts: IntArray,
    context_probabilities: FloatArray,
    allowed: tuple[float, float, float],
    power: float,
    factors: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Shrink entries whose user visits their context too often; sum shares of visits by context.

    ``contexts`` are those of the cells; ``allowed`` are deviations, spare visits, and a share of
    visits that is always allowed. ``factors`` is filled with the factor of each entry, unless it is
    empty. Returns the sums over users of shares of all their plays, each with its factor; and for
    each user the largest share of one context, NaN for users with few visits, and the
    largest ratio of visits to the cap, shape (2, n_users).
    """
    deviations, spare, usual = allowed
    shares = np.zeros(context_probabilities.size)
    peaks = np.zeros((2, indptr.size - 1))
    for i in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += plays[k]
        first = indptr[i]
        while first < indptr[i + 1]:
            context = contexts[cells[first]]
            visits, last = 0.0, first
            while last < indptr[i + 1] and contexts[cells[last]] == context:
                visits += plays[last]
                last += 1
            expected = total * context_probabilities[context]
            cap = expected + deviations * np.sqrt(expected) + spare
            cap = max(cap, usual * total)
            peaks[0, i] = max(peaks[0, i], visits / total)
            peaks[1, i] = max(peaks[1, i], visits / cap)
            factor = 1.0
            if visits > cap:
                factor = (cap / visits) ** power
            if factors.size > 0:
                factors[first:last] = factor
            shares[context] += factor * visits / total
            first = last
        if total < LEAST_VISITS:
            peaks[0, i] = np.nan
    return shares, peaks


@compiled
def repeats_of_users(
    indptr: IntArray, plays: FloatArray, within: FloatArray, w: FloatArray
) -> FloatArray:
    """Return how often users met a cell again, and the squares around their means there."""
    repeats, inside = 0.0, 0.0
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            if plays[k] > 1.5 and not np.isnan(within[k]):
                repeats += w[i] * (plays[k] - 1.0)
                inside += w[i] * within[k]
    return np.array([repeats, inside])


@compiled
def spread_between_users(
    indptr: IntArray,
    cells: CellArray,
    plays: FloatArray,
    within: FloatArray,
    y: FloatArray,
    centre: FloatArray,
    w: FloatArray,
    inside: float,
) -> FloatArray:
    """Return Σ w·(n·(y − centre)² − inside) and Σ w·n over users who met a cell again.

    Their ratio is the variance b between users: n·(y − centre)² = n·b + inside on average.
    """
    excess, mass = 0.0, 0.0
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            if plays[k] > 1.5 and not np.isnan(within[k]):
                excess += w[i] * (plays[k] * (y[k] - centre[cells[k]]) ** 2 - inside)
                mass += w[i] * plays[k]
    return np.array([excess, mass])


@compiled
def user_extremes(
    indptr: IntArray, cells: CellArray, counts: FloatArray, sums: FloatArray, centre: FloatArray
) -> FloatArray:
    """Return each user's smallest and largest mean, and largest distance from the centres.

    Shape (3, n_users); NaN for users without responses.
    """
    n_users = indptr.size - 1
    found = np.full((3, n_users), np.nan)
    for i in range(n_users):
        for k in range(indptr[i], indptr[i + 1]):
            mean = sums[k] / counts[k]
            distance = abs(mean - centre[cells[k]])
            if k == indptr[i]:
                found[0, i], found[1, i], found[2, i] = mean, mean, distance
            else:
                found[0, i], found[1, i] = min(found[0, i], mean), max(found[1, i], mean)
                found[2, i] = max(found[2, i], distance)
    return found


@compiled
def squares_beyond(
    indptr: IntArray,
    cells: CellArray,
    e: RealArray,
    x: RealArray,
    centres: FloatArray,
    sides: FloatArray,
    least: float,
) -> FloatArray:
    """Return each user's sum of squares beyond ``least`` deviations on the sides of their cells."""
    beyond = np.zeros(indptr.size - 1)
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint32(cells[k])
            z = sides[j] * (x[k] - centres[j]) * np.sqrt(e[k]) - least
            if z > 0.0:
                beyond[i] += z * z
    return beyond
