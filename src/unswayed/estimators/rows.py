"""Products with a matrix of rows, dense or sparse, centred without ever forming the centred rows.

Both kinds have the same methods, so the filters are written once. Sparse products are fused:
the matrix is read once for ``X·v`` and ``Xᵀ·u`` together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from unswayed.arrays import BoolArray, FloatArray, IndexArray
from unswayed.errors import InputError
from unswayed.estimators import sparse_kernels as kernels
from unswayed.estimators.inputs import check_finite

DENSE_BLOCK_ENTRIES = 1 << 18
"""Ours: entries of a dense matrix that are centred at a time (2 MiB)."""


@runtime_checkable
class Rows(Protocol):
    """Rows accessed through products only; shape ``(n_rows, n_columns)``."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""

    def mean(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the rows."""

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""

    def keep(self, is_kept: BoolArray) -> Rows:
        """Return the marked rows only."""

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distance of each row from the centre."""

    def column_squares(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each centred column."""

    def project(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred rows times directions of shape ``(n_columns, k)``."""

    def gram(self, weights: FloatArray, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return ``(X − c)ᵀ diag(w) (X − c)`` times directions of shape ``(n_columns, k)``."""


RowMatrix: TypeAlias = ArrayLike | sparse.csr_array | sparse.csr_matrix | Rows


def as_rows(matrix: RowMatrix) -> Rows:
    """Return a checked view of a dense or sparse matrix; copies only to change the type.

    Objects that implement ``Rows``, such as rows on a cluster, are taken as they are.
    """
    rows: Rows
    if isinstance(matrix, Rows):
        rows = matrix
    elif sparse.issparse(matrix):
        # Unsorted indices are fine; duplicate entries are not, as their squares do not add up.
        compressed = sparse.csr_array(matrix)
        if compressed.ndim != 2:
            raise InputError("The rows must form a two-dimensional matrix.")
        if not compressed.has_canonical_format:
            compressed = compressed.copy()
            compressed.sum_duplicates()
        data = np.asarray(compressed.data, dtype=np.float64)
        check_finite(data, name="The matrix of rows")
        rows = SparseRows(data, compressed.indices, compressed.indptr, compressed.shape[1])
    else:
        array = np.asarray(matrix, dtype=np.float64)
        if array.ndim != 2:
            raise InputError(f"The rows have {array.ndim} dimensions: give a matrix with two.")
        check_finite(array, name="The matrix of rows")
        rows = DenseRows(array)
    n_rows, n_columns = rows.shape
    if n_rows == 0 or n_columns == 0:
        raise InputError(f"The matrix is {n_rows} by {n_columns}: a mean needs rows and columns.")
    return rows


@dataclass(frozen=True, slots=True)
class DenseRows:
    """Rows of a dense array."""

    array: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.array.shape[0], self.array.shape[1]

    def _blocks(self) -> Iterator[slice]:
        size = max(1, DENSE_BLOCK_ENTRIES // self.shape[1])
        for start in range(0, self.shape[0], size):
            yield slice(start, start + size)

    def mean(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the rows."""
        # Centring on one row first keeps the digits of rows that lie far from zero.
        centre = self.array[int(np.argmax(weights))]
        total = np.zeros(self.shape[1])
        for block in self._blocks():
            total += weights[block] @ (self.array[block] - centre)
        mean: FloatArray = centre + total / weights.sum()
        return mean

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""
        largest: FloatArray = np.maximum(self.array.max(axis=1), -self.array.min(axis=1))
        return largest

    def keep(self, is_kept: BoolArray) -> Rows:
        """Return the marked rows only."""
        return DenseRows(self.array[is_kept])

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distance of each row from the centre."""
        out = np.empty(self.shape[0])
        for block in self._blocks():
            out[block] = np.square(self.array[block] - centre).sum(axis=1)
        return out

    def column_squares(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each centred column."""
        total = np.zeros(self.shape[1])
        for block in self._blocks():
            total += weights[block] @ np.square(self.array[block] - centre)
        return total

    def project(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred rows times directions."""
        return self.array @ directions - centre @ directions

    def gram(self, weights: FloatArray, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred, weighted Gram matrix times directions."""
        scaled = weights[:, None] * self.project(centre, directions)
        product: FloatArray = self.array.T @ scaled - np.outer(centre, scaled.sum(axis=0))
        return product


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

    def mean(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the rows."""
        total = kernels.weighted_sum(self.data, self.indices, self.indptr, weights, self.n_columns)
        mean: FloatArray = total / weights.sum()
        return mean

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""
        return kernels.largest_entries(self.data, self.indptr)

    def keep(self, is_kept: BoolArray) -> Rows:
        """Return the marked rows only."""
        matrix = sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)
        kept = matrix[is_kept]
        data = np.asarray(kept.data, dtype=np.float64)
        return SparseRows(data, kept.indices, kept.indptr, self.n_columns)

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distance of each row from the centre."""
        return kernels.squared_distances(self.data, self.indices, self.indptr, centre)

    def column_squares(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each centred column."""
        return kernels.column_squares(self.data, self.indices, self.indptr, weights, centre)

    def project(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred rows times directions."""
        # Contiguous before any product: those of strided arrays round otherwise, and strides are
        # lost on the way to another process.
        directions = np.ascontiguousarray(directions)
        return kernels.project(
            self.data, self.indices, self.indptr, directions, centre @ directions
        )

    def gram(self, weights: FloatArray, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred, weighted Gram matrix times directions."""
        arguments = (self.data, self.indices, self.indptr, weights)
        directions = np.ascontiguousarray(directions)  # as in ``project``
        offsets = centre @ directions
        if directions.shape[1] == 1:
            product, total = kernels.gram_vector(*arguments, directions[:, 0], float(offsets[0]))
            return (product - centre * total)[:, None]
        products, totals = kernels.gram_block(*arguments, directions, offsets)
        return products - np.outer(centre, totals)
