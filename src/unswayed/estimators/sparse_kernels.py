"""Compiled loops over compressed sparse rows; zeros that are not stored are never visited.

Letters: ``data, indices, indptr`` the matrix X; ``w`` weights of rows; ``V`` directions as columns;
``offsets = cᵀV`` for the centre c, so that ``x·V − offsets`` is the centred projection.
"""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray, IndexArray
from unswayed.compiled import compiled


@compiled
def weighted_sum(
    data: FloatArray, indices: IndexArray, indptr: IndexArray, w: FloatArray, n_columns: int
) -> FloatArray:
    """Return Σ w_i x_i."""
    total = np.zeros(n_columns)
    for i in range(indptr.size - 1):
        weight = w[i]
        for k in range(indptr[i], indptr[i + 1]):
            total[indices[k]] += weight * data[k]
    return total


@compiled
def largest_entries(data: FloatArray, indptr: IndexArray) -> FloatArray:
    """Return max_j |x_ij| for each row."""
    largest = np.zeros(indptr.size - 1)
    for i in range(largest.size):
        for k in range(indptr[i], indptr[i + 1]):
            largest[i] = max(largest[i], abs(data[k]))
    return largest


@compiled
def squared_distances(
    data: FloatArray, indices: IndexArray, indptr: IndexArray, centre: FloatArray
) -> FloatArray:
    """Return |x_i − c|² for each row."""
    unstored = 0.0
    for j in range(centre.size):
        unstored += centre[j] * centre[j]
    out = np.empty(indptr.size - 1)
    for i in range(out.size):
        square = unstored
        for k in range(indptr[i], indptr[i + 1]):
            square += data[k] * (data[k] - 2.0 * centre[indices[k]])
        out[i] = max(square, 0.0)  # rounding can leave a speck below zero
    return out


@compiled
def column_squares(
    data: FloatArray, indices: IndexArray, indptr: IndexArray, w: FloatArray, centre: FloatArray
) -> FloatArray:
    """Return Σ_i w_i (x_ij − c_j)² for each column, unstored zeros included."""
    squares = np.zeros(centre.size)
    stored = np.zeros(centre.size)
    total = 0.0
    for i in range(indptr.size - 1):
        weight = w[i]
        total += weight
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            squares[j] += weight * (data[k] - centre[j]) ** 2
            stored[j] += weight
    for j in range(centre.size):
        squares[j] += max(total - stored[j], 0.0) * centre[j] ** 2
    return squares


@compiled
def project(
    data: FloatArray, indices: IndexArray, indptr: IndexArray, V: FloatArray, offsets: FloatArray
) -> FloatArray:
    """Return XV − offsets."""
    n_rows, width = indptr.size - 1, V.shape[1]
    out = np.empty((n_rows, width))
    for i in range(n_rows):
        for c in range(width):
            out[i, c] = -offsets[c]
        for k in range(indptr[i], indptr[i + 1]):
            x, j = data[k], indices[k]
            for c in range(width):
                out[i, c] += x * V[j, c]
    return out


@compiled
def _dot(data: FloatArray, indices: IndexArray, first: int, last: int, v: FloatArray) -> float:
    """Return x·v of the row that is stored from ``first`` up to ``last``.

    Four sums at a time: in one, every addition would wait for the one before.
    """
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    k = first
    while k + 3 < last:
        a += data[k] * v[indices[k]]
        b += data[k + 1] * v[indices[k + 1]]
        c += data[k + 2] * v[indices[k + 2]]
        d += data[k + 3] * v[indices[k + 3]]
        k += 4
    while k < last:
        a += data[k] * v[indices[k]]
        k += 1
    return (a + b) + (c + d)


@compiled
def gram_vector(
    data: FloatArray,
    indices: IndexArray,
    indptr: IndexArray,
    w: FloatArray,
    v: FloatArray,
    offset: float,
) -> tuple[FloatArray, float]:
    """Return Σ u_i x_i and Σ u_i, where u_i = w_i (x_i·v − offset), reading X once."""
    product = np.zeros(v.size)
    total = 0.0
    for i in range(indptr.size - 1):
        if w[i] == 0.0:
            continue
        u = w[i] * (_dot(data, indices, indptr[i], indptr[i + 1], v) - offset)
        total += u
        for k in range(indptr[i], indptr[i + 1]):
            product[indices[k]] += u * data[k]
    return product, total


@compiled
def gram_block(
    data: FloatArray,
    indices: IndexArray,
    indptr: IndexArray,
    w: FloatArray,
    V: FloatArray,
    offsets: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Like ``gram_vector``, for all columns of V."""
    width = V.shape[1]
    products = np.zeros(V.shape)
    totals = np.zeros(width)
    u = np.empty(width)
    for i in range(indptr.size - 1):
        if w[i] == 0.0:
            continue
        for c in range(width):
            u[c] = -offsets[c]
        for k in range(indptr[i], indptr[i + 1]):
            x, j = data[k], indices[k]
            for c in range(width):
                u[c] += x * V[j, c]
        for c in range(width):
            u[c] *= w[i]
            totals[c] += u[c]
        for k in range(indptr[i], indptr[i + 1]):
            x, j = data[k], indices[k]
            for c in range(width):
                products[j, c] += x * u[c]
    return products, totals
