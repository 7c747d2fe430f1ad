"""Compiled passes over users' rows; one pass reads every entry once or twice.

Letters: ``indptr, cells`` the rows; ``e`` how many independent answers an entry is worth; ``r`` its
mean reward, centred; ``w`` weights of users.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.learners.interface import FloatArray, IntArray

CellArray = npt.NDArray[np.int32]
RealArray = npt.NDArray[np.floating[Any]]
"""Numbers in single or double precision."""


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
    """Fill ``out`` with answers less their cell's centre, in the cell's standard deviations."""
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
def answers_of_entries(
    indptr: IntArray, counts: FloatArray, sums: FloatArray, squares: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Return the mean of each entry, the squares around it, and whether rewards are 0 or 1.

    They are if most users gave nothing else: no coalition can make binary rewards look otherwise.
    """
    means, within = np.empty(counts.size), np.empty(counts.size)
    n_binary, n_others = 0, 0
    for i in range(indptr.size - 1):
        is_binary = True
        for k in range(indptr[i], indptr[i + 1]):
            means[k] = sums[k] / counts[k]
            within[k] = max(squares[k] - sums[k] * means[k], 0.0)
            is_binary &= sums[k] == squares[k]
        if indptr[i] < indptr[i + 1]:
            n_binary += is_binary
            n_others += not is_binary
    return means, within, n_binary > n_others


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

    ``contexts`` are those of the cells; ``allowed`` are deviations, spare visits, and a factor on
    the cap. ``factors`` is filled with the factor of each entry, unless it is empty. Returns the
    sums over users of shares of all their plays, each with its factor, and each user's largest
    ratio of visits to the cap.
    """
    deviations, spare, habit = allowed
    shares = np.zeros(context_probabilities.size)
    peaks = np.zeros(indptr.size - 1)
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
            cap = habit * (expected + deviations * np.sqrt(expected) + spare)
            peaks[i] = max(peaks[i], visits / cap)
            factor = 1.0
            if visits > cap:
                factor = (cap / visits) ** power
            if factors.size > 0:
                factors[first:last] = factor
            shares[context] += factor * visits / total
            first = last
    return shares, peaks


@compiled
def repeats_of_users(
    indptr: IntArray, plays: FloatArray, within: FloatArray, w: FloatArray
) -> tuple[float, float]:
    """Return how often users met a cell again, and the squares around their means there."""
    repeats, inside = 0.0, 0.0
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            if plays[k] > 1.5 and not np.isnan(within[k]):
                repeats += w[i] * (plays[k] - 1.0)
                inside += w[i] * within[k]
    return repeats, inside


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
) -> float:
    """Return the variance between users who met a cell again: n·(y − centre)² = n·b + inside."""
    excess, mass = 0.0, 0.0
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            if plays[k] > 1.5 and not np.isnan(within[k]):
                excess += w[i] * (plays[k] * (y[k] - centre[cells[k]]) ** 2 - inside)
                mass += w[i] * plays[k]
    return excess / mass


@compiled
def exchanged_within_cells(
    order: IntArray, starts: IntArray, users: IntArray, w: FloatArray, keys: FloatArray
) -> IntArray:
    """Return for each entry the one it is exchanged for: a random one of its cell.

    Only entries of users with more than half their weight move. ``keys`` are uniform, one for each
    entry.
    """
    source = np.arange(order.size)
    for j in range(starts.size - 1):
        movable = order[starts[j] : starts[j + 1]]
        movable = movable[w[users[movable]] > 0.5]
        for m in range(movable.size - 1, 0, -1):
            other = int(keys[starts[j] + m] * (m + 1))
            a, b = movable[m], movable[other]
            source[a], source[b] = source[b], source[a]
    return source


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
    e: RealArray,
    y: RealArray,
    w: FloatArray,
    deviations: FloatArray,
    flat: float,
    end: float,
) -> FloatArray:
    """Return per cell the mean of users' means that counts none beyond ``end`` deviations.

    Weight one up to ``flat`` deviations, a cosine down to zero at ``end``; started at the median,
    ended once it moves by less than a hundredth of its standard error.
    """
    n_cells = starts.size - 1
    centres = np.zeros(n_cells)
    for j in range(n_cells):
        entries = order[starts[j] : starts[j + 1]]
        entries = entries[w[users[entries]] > 0.05]
        if entries.size == 0:
            continue
        values, mass = y[entries], e[entries] * w[users[entries]]
        precision = np.sqrt(e[entries]) / deviations[j]
        settled = 0.01 * deviations[j] / np.sqrt(mass.sum())
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
            if moved < settled:
                break
        centres[j] = centre
    return centres
