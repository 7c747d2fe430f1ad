"""Compiled passes for means with bounded influence.

Letters: ``n`` plays of an entry, ``r`` their mean reward, ``w`` weights of users; an entry's mass
is min(w·n, most plays of its cell), its pull mass·(r − centre).
"""

from __future__ import annotations

import numpy as np

from unswayed.compiled import compiled
from unswayed.learners.discount.kernels import CellArray
from unswayed.learners.interface import FloatArray, IntArray


@compiled
def largest_masses(
    indptr: IntArray, cells: CellArray, n: FloatArray, w: FloatArray, n_cells: int, count: int
) -> FloatArray:
    """Return the largest w·n of each cell, ascending, 0 where there are fewer."""
    largest = np.zeros((n_cells, count))
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            _insert(largest[cells[k]], w[i] * n[k])
    return largest


@compiled
def largest_pulls(
    indptr: IntArray,
    cells: CellArray,
    n: FloatArray,
    r: FloatArray,
    w: FloatArray,
    most: FloatArray,
    centre: FloatArray,
    count: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the largest pulls of each cell, and the largest |r − centre| over users; ascending."""
    largest, farthest = np.zeros((most.size, count)), np.zeros(count)
    for i in range(indptr.size - 1):
        far = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            distance = min(w[i], 1.0) * abs(r[k] - centre[j])
            far = max(far, distance)
            _insert(largest[j], min(w[i] * n[k], most[j]) * abs(r[k] - centre[j]))
        _insert(farthest, far)
    return largest, farthest


@compiled
def _insert(ascending: FloatArray, value: float) -> None:
    """Put a value into its place if it is larger than the smallest, which goes."""
    if value <= ascending[0]:
        return
    place = 0
    while place + 1 < ascending.size and ascending[place + 1] < value:
        ascending[place] = ascending[place + 1]
        place += 1
    ascending[place] = value


@compiled
def bounded_sums(
    indptr: IntArray,
    cells: CellArray,
    n: FloatArray,
    r: FloatArray,
    within: FloatArray,
    w: FloatArray,
    most: FloatArray,
    centre: FloatArray,
    most_pull: FloatArray,
    one_play: float,
) -> FloatArray:
    """Return sums per cell of mass, w·n, pull, pull², squares of rewards, mass²; (6, n_cells).

    Pulls are cut at ``most_pull``. Squares are around the centre, with distances cut at
    ``one_play``; ``within`` are those around the entry's own mean, NaN where unknown.
    """
    sums = np.zeros((most.size, 6))
    for i in range(indptr.size - 1):
        if w[i] <= 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint32(cells[k])
            mass = min(w[i] * n[k], most[j])
            distance = r[k] - centre[j]
            pull = min(max(mass * distance, -most_pull[j]), most_pull[j])
            far = min(abs(distance), one_play)
            own = 0.0 if np.isnan(within[k]) else within[k] / n[k]
            sums[j, 0] += mass
            sums[j, 1] += w[i] * n[k]
            sums[j, 2] += pull
            sums[j, 3] += pull * pull
            sums[j, 4] += mass * (far * far + min(own, one_play * one_play))
            sums[j, 5] += mass * mass
    return np.ascontiguousarray(sums.T)
