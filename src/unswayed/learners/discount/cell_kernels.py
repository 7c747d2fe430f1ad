"""Compiled loops over cells: what needs the answers of a cell side by side."""

from __future__ import annotations

import numpy as np

from unswayed.compiled import compiled
from unswayed.learners.discount.kernels import CellArray, RealArray
from unswayed.learners.interface import FloatArray, IntArray


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
def placed(starts: IntArray, values: RealArray, fill: IntArray, out: RealArray) -> None:
    """Put the values of each cell into ``out``, from where ``fill`` says for the cell."""
    for j in range(fill.size):
        out[fill[j] : fill[j] + starts[j + 1] - starts[j]] = values[starts[j] : starts[j + 1]]


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


@compiled
def cell_medians(starts: IntArray, y: RealArray) -> FloatArray:
    """Return the median of the users' means in each cell, and their median absolute deviation.

    ``y`` goes cell by cell; shape (2, n_cells).
    """
    n_cells = starts.size - 1
    found = np.zeros((2, n_cells))
    for j in range(n_cells):
        if starts[j] < starts[j + 1]:
            values = y[starts[j] : starts[j + 1]]
            found[0, j] = np.median(values)
            found[1, j] = np.median(np.abs(values - found[0, j]))
    return found


@compiled
def redescending_means(
    starts: IntArray,
    e: RealArray,
    y: RealArray,
    w: RealArray,
    deviations: FloatArray,
    flat: float,
    end: float,
) -> FloatArray:
    """Return per cell the mean of users' means that counts none beyond ``end`` deviations.

    Weight one up to ``flat`` deviations, a cosine down to zero at ``end``; started at the median,
    ended once it moves by less than a hundredth of its standard error. Entries go cell by
    cell; ``w`` are the weights of their users.
    """
    n_cells = starts.size - 1
    centres = np.zeros(n_cells)
    values, precision, mass = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    for j in range(n_cells):
        n, everything = 0, 0.0
        for q in range(starts[j], starts[j + 1]):
            if w[q] > 0.05:
                values[n], mass[n] = y[q], e[q] * w[q]
                precision[n] = np.sqrt(e[q]) / deviations[j]
                everything += mass[n]
                n += 1
        if n == 0:
            continue
        settled = 0.01 * deviations[j] / np.sqrt(everything)
        centre = float(np.median(values[:n]))
        for _ in range(12):
            total, weighted = 0.0, 0.0
            for k in range(n):
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
