"""Compiled passes over users' rows; one pass reads every entry once or twice.

Letters: ``indptr, cells`` the rows; ``e`` how many independent answers an entry is worth; ``r`` its
mean reward, centred; ``w`` weights of users.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.learners.interface import FloatArray, IntArray

CellArray = npt.NDArray[np.int32]


@compiled
def cell_sums(
    indptr: IntArray, cells: CellArray, e: FloatArray, r: FloatArray, w: FloatArray, n_cells: int
) -> FloatArray:
    """Return Σ w, Σ w·e, Σ w·e·r and Σ w·e·r² per cell; shape (4, n_cells)."""
    sums = np.zeros((4, n_cells))
    for i in range(indptr.size - 1):
        if w[i] <= 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            mass = w[i] * e[k]
            sums[0, j] += w[i]
            sums[1, j] += mass
            sums[2, j] += mass * r[k]
            sums[3, j] += mass * r[k] * r[k]
    return sums


@compiled
def scores(
    indptr: IntArray,
    cells: CellArray,
    e: FloatArray,
    r: FloatArray,
    mean: FloatArray,
    slope: FloatArray,
    power: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return s_i = Σ e·slope·(r − mean) and D²_i = Σ e·power for each user."""
    n_users = indptr.size - 1
    score, strength = np.zeros(n_users), np.zeros(n_users)
    for i in range(n_users):
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            score[i] += e[k] * slope[j] * (r[k] - mean[j])
            strength[i] += e[k] * power[j]
    return score, strength


@compiled
def accuse(
    indptr: IntArray,
    cells: CellArray,
    e: FloatArray,
    r: FloatArray,
    w: FloatArray,
    mean: FloatArray,
    slope: FloatArray,
    power: FloatArray,
    taste: float,
    log_odds: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Score users, weigh the accusation, and sum what the accused say: one step of EM.

    Returns the scores, the strengths, and per cell Σ γ·e and Σ γ·e·r, shape (2, n_cells).
    """
    n_users = indptr.size - 1
    score, strength = np.zeros(n_users), np.zeros(n_users)
    accused = np.zeros((2, mean.size))
    for i in range(n_users):
        if w[i] <= 0.0:
            continue
        s, d = 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            s += e[k] * slope[j] * (r[k] - mean[j])
            d += e[k] * power[j]
        score[i], strength[i] = s, d
        x = log_odds + (s - 0.5 * d) / (1.0 + taste * d)
        if x < -20.0:
            continue
        gamma = w[i] / (1.0 + np.exp(-x))
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            accused[0, j] += gamma * e[k]
            accused[1, j] += gamma * e[k] * r[k]
    return score, strength, accused


@compiled
def gram_block(
    indptr: IntArray, cells: CellArray, x: FloatArray, w: FloatArray, V: FloatArray
) -> FloatArray:
    """Return Xᵀ diag(w) X V, reading X once."""
    products = np.zeros(V.shape)
    width = V.shape[1]
    y = np.zeros(width)
    for i in range(indptr.size - 1):
        if w[i] <= 0.0:
            continue
        y[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            for c in range(width):
                y[c] += x[k] * V[cells[k], c]
        for k in range(indptr[i], indptr[i + 1]):
            for c in range(width):
                products[cells[k], c] += w[i] * x[k] * y[c]
    return products


@compiled
def flood_factors(
    indptr: IntArray,
    cells: CellArray,
    counts: FloatArray,
    n_actions: int,
    context_probabilities: FloatArray,
    allowed: tuple[float, float],
    power: float,
) -> FloatArray:
    """Return by what factor each entry shrinks because its user visits the context too often."""
    deviations, spare = allowed
    factors = np.ones(counts.size)
    for i in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += counts[k]
        first = indptr[i]
        while first < indptr[i + 1]:
            context = cells[first] // n_actions
            visits, last = 0.0, first
            while last < indptr[i + 1] and cells[last] // n_actions == context:
                visits += counts[last]
                last += 1
            expected = total * context_probabilities[context]
            cap = expected + deviations * np.sqrt(expected) + spare
            if visits > cap:
                factors[first:last] = (cap / visits) ** power
            first = last
    return factors


@compiled
def entries_by_cell(cells: CellArray, n_cells: int) -> tuple[IntArray, IntArray]:
    """Return the entries in the order of their cells, and where each cell begins."""
    starts = np.zeros(n_cells + 1, dtype=np.int64)
    for j in cells:
        starts[j + 1] += 1
    starts = np.cumsum(starts)
    fill = starts[:-1].copy()
    order = np.empty(cells.size, dtype=np.int64)
    for k in range(cells.size):
        order[fill[cells[k]]] = k
        fill[cells[k]] += 1
    return order, starts


@compiled
def cell_medians(order: IntArray, starts: IntArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of the users' means in each cell, and their median absolute deviation."""
    n_cells = starts.size - 1
    medians, deviations = np.zeros(n_cells), np.zeros(n_cells)
    for j in range(n_cells):
        if starts[j] < starts[j + 1]:
            values = y[order[starts[j] : starts[j + 1]]]
            medians[j] = np.median(values)
            deviations[j] = np.median(np.abs(values - medians[j]))
    return medians, deviations


@compiled
def user_extremes(
    indptr: IntArray, cells: CellArray, y: FloatArray, centre: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each user's smallest and largest mean, and largest distance from the centres."""
    n_users = indptr.size - 1
    low, high = np.full(n_users, np.nan), np.full(n_users, np.nan)
    far = np.full(n_users, np.nan)
    for i in range(n_users):
        for k in range(indptr[i], indptr[i + 1]):
            distance = abs(y[k] - centre[cells[k]])
            if k == indptr[i]:
                low[i], high[i], far[i] = y[k], y[k], distance
            else:
                low[i], high[i] = min(low[i], y[k]), max(high[i], y[k])
                far[i] = max(far[i], distance)
    return low, high, far


@compiled
def redescending_means(
    order: IntArray,
    starts: IntArray,
    users: IntArray,
    e: FloatArray,
    y: FloatArray,
    w: FloatArray,
    variances: FloatArray,
    flat: float,
    end: float,
) -> FloatArray:
    """Return per cell the mean of users' means that counts none beyond ``end`` deviations.

    Weight one up to ``flat`` deviations, a cosine down to zero at ``end``; started at the median.
    """
    n_cells = starts.size - 1
    centres = np.zeros(n_cells)
    for j in range(n_cells):
        entries = order[starts[j] : starts[j + 1]]
        entries = entries[w[users[entries]] > 0.05]
        if entries.size == 0:
            continue
        values, mass = y[entries], e[entries] * w[users[entries]]
        precision = np.sqrt(e[entries] / variances[j])
        centre = float(np.median(values))
        for _ in range(12):
            total, weighted = 0.0, 0.0
            for k in range(values.size):
                z = abs(values[k] - centre) * precision[k]
                if z < end:
                    share = 1.0
                    if z > flat:
                        share = 0.5 * (1.0 + np.cos(np.pi * (z - flat) / (end - flat)))
                    total += share * mass[k]
                    weighted += share * mass[k] * values[k]
            if total == 0.0:
                break
            moved = abs(weighted / total - centre)
            centre = weighted / total
            if moved < 1e-9:
                break
        centres[j] = centre
    return centres


@compiled
def decreasing_fit(y: FloatArray, w: FloatArray) -> FloatArray:
    """Return the weighted decreasing fit of y (pool adjacent violators)."""
    n = y.size
    value, weight = np.empty(n), np.empty(n)
    length = np.empty(n, dtype=np.int64)
    m = 0
    for i in range(n):
        value[m], weight[m], length[m] = y[i], w[i], 1
        m += 1
        while m > 1 and value[m - 2] < value[m - 1]:
            total = weight[m - 2] + weight[m - 1]
            value[m - 2] = (value[m - 2] * weight[m - 2] + value[m - 1] * weight[m - 1]) / total
            weight[m - 2] = total
            length[m - 2] += length[m - 1]
            m -= 1
    return np.repeat(value[:m], length[:m])
