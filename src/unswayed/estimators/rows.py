"""Sparse rows, and products that centre them implicitly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from unswayed.arrays import BoolArray, FloatArray, IndexArray
from unswayed.compiled import compiled
from unswayed.errors import InputError


@runtime_checkable
class Rows(Protocol):
    """Sparse rows in one place, or in blocks on several workers; shape ``(n_rows, n_columns)``."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""

    def keep(self, is_kept: BoolArray) -> Rows:
        """Return the marked rows only."""

    def each(self, method: Callable[..., FloatArray], *arguments: Any) -> FloatArray:
        """Return what a method of ``SparseRows`` computes for each row."""

    def total(
        self, method: Callable[..., FloatArray], weights: FloatArray, *arguments: Any
    ) -> FloatArray:
        """Return the sum that a method of ``SparseRows`` computes over the weighted rows."""


RowMatrix: TypeAlias = ArrayLike | sparse.csr_array | sparse.csr_matrix | Rows


def as_rows(matrix: RowMatrix) -> tuple[Rows, FloatArray | None]:
    """Check a matrix; return its rows and the origin that was subtracted from each of them.

    The column medians are subtracted from dense rows; otherwise a large common offset would lose
    the spread of the rows in rounding errors. For other input the origin is None.
    """
    origin = None
    if isinstance(matrix, Rows):  # for example those of a cluster
        rows = matrix
    else:
        if sparse.issparse(matrix):
            compressed = sparse.csr_array(matrix)
        else:
            array = np.asarray(matrix, dtype=np.float64)
            if array.ndim != 2:
                raise InputError(f"The rows have {array.ndim} dimensions: give a matrix with two.")
            check_finite(array, name="The matrix of rows")
            origin = np.median(array, axis=0) if array.size else None
            compressed = sparse.csr_array(array if origin is None else array - origin)
        if compressed.ndim != 2:
            raise InputError("The rows must form a two-dimensional matrix.")
        # Indices may be unsorted, but duplicate entries must be summed before squares are taken.
        if not compressed.has_canonical_format:
            compressed = compressed.copy()
            compressed.sum_duplicates()
        data = np.asarray(compressed.data, dtype=np.float64)
        check_finite(data, name="The matrix of rows")
        rows = SparseRows(data, compressed.indices, compressed.indptr, compressed.shape[1])
    n_rows, n_columns = rows.shape
    if n_rows == 0 or n_columns == 0:
        raise InputError(f"The matrix is {n_rows} by {n_columns}: a mean needs rows and columns.")
    return rows, origin


def check_finite(array: FloatArray, *, name: str) -> None:
    """Reject NaN and infinite numbers."""
    if n_bad := array.size - int(np.count_nonzero(np.isfinite(array))):
        raise InputError(
            f"{name} contains {n_bad} NaN or infinite numbers: remove or replace them first."
        )


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows of a compressed sparse row matrix."""

    data: FloatArray
    indices: IndexArray
    indptr: IndexArray
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.indptr.size - 1, self.n_columns

    def each(self, method: Callable[..., FloatArray], *arguments: Any) -> FloatArray:
        """Return what a method computes for each row."""
        return method(self, *arguments)

    total = each

    def keep(self, is_kept: BoolArray) -> SparseRows:
        """Return the marked rows only."""
        kept = sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)[is_kept]
        data = np.asarray(kept.data, dtype=np.float64)
        return SparseRows(data, kept.indices, kept.indptr, self.n_columns)

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""
        largest = np.zeros(self.shape[0])
        rows = np.repeat(np.arange(largest.size), np.diff(self.indptr))
        np.maximum.at(largest, rows, np.abs(self.data))
        return largest

    def weighted_sum(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sum of the rows."""
        return _weighted_sum(self.data, self.indices, self.indptr, weights, self.n_columns)

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distance of each row from the centre."""
        return _squared_distances(self.data, self.indices, self.indptr, centre)

    def column_squares(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each centred column."""
        return _column_squares(self.data, self.indices, self.indptr, weights, centre)

    def project(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred rows times directions of shape ``(n_columns, k)``."""
        # Products need contiguous arrays: strided ones round differently, and strides are lost when
        # an array is sent to another process.
        directions = np.ascontiguousarray(directions)
        return _project(self.data, self.indices, self.indptr, directions, centre @ directions)

    def gram(self, weights: FloatArray, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return ``(X − c)ᵀ diag(w) (X − c)`` times directions of shape ``(n_columns, k)``.

        The matrix is read once for ``X·v`` and ``Xᵀ·u`` together.
        """
        arguments = (self.data, self.indices, self.indptr, weights)
        directions = np.ascontiguousarray(directions)  # as in ``project``
        offsets = centre @ directions
        if directions.shape[1] == 1:
            product, total = gram_vector(*arguments, directions[:, 0], float(offsets[0]))
            return (product - centre * total)[:, None]
        products, totals = _gram_block(*arguments, directions, offsets)
        return products - np.outer(centre, totals)


# Compiled loops; only stored entries are visited. Letters: ``data, indices, indptr`` the matrix X;
# ``w`` weights of rows; ``V`` directions as columns; ``offsets = cᵀV`` for the centre c, so that
# ``x·V − offsets`` is the centred projection.


@compiled
def _weighted_sum(
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
def _squared_distances(
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
        out[i] = max(square, 0.0)  # rounding can leave a value slightly below zero
    return out


@compiled
def _column_squares(
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
def _project(
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
    """Return x·v for the row stored in entries ``first`` to ``last − 1``.

    Four partial sums let the processor overlap additions.
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
def _gram_block(
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
