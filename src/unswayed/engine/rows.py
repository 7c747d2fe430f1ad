"""Sparse rows in blocks, seen through products only: what the filters need, wherever rows lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.engine.blocked import Blocked, cut
from unswayed.estimators import sparse_kernels as kernels
from unswayed.estimators.rows import SparseRows


@dataclass(frozen=True, slots=True, eq=False)
class BlockedRows:
    """The rows of all blocks under each other; one block gives the same bits as ``SparseRows``.

    Parameters
    ----------
    blocks
        The rows of each block.
    n_columns
        Columns, the same for all.
    """

    blocks: Blocked[SparseRows]
    n_columns: int

    @classmethod
    def of(cls, blocks: Blocked[SparseRows]) -> BlockedRows:
        """Return the rows of blocks, which are asked for their shapes."""
        n_rows, n_columns = zip(*blocks.map_blocks(_shape), strict=True)
        return cls(Blocked(blocks.workers, blocks.handles, n_rows), n_columns[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.blocks.n_rows, self.n_columns

    def mean(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the rows."""
        total = self.blocks.add_blocks(_weighted_sum, rows=weights)
        return np.asarray(total / weights.sum())

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""
        return self.blocks.map_rows(SparseRows.largest_entries)

    def keep(self, is_kept: BoolArray) -> BlockedRows:
        """Return the marked rows only."""
        sizes = tuple(int(piece.sum()) for piece in cut(is_kept, self.blocks.sizes))
        kept: Blocked[SparseRows] = self.blocks.transformed(
            SparseRows.keep,  # type: ignore[arg-type]  # returns rows of the same kind
            rows=is_kept,
            sizes=sizes,
        )
        return BlockedRows(kept, self.n_columns)

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distance of each row from the centre."""
        return self.blocks.map_rows(SparseRows.squared_distances, centre)

    def column_squares(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each centred column."""
        squares: FloatArray = self.blocks.add_blocks(
            SparseRows.column_squares, centre, rows=weights
        )
        return squares

    def project(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred rows times directions of shape (n_columns, k)."""
        return self.blocks.map_rows(SparseRows.project, centre, directions)

    def gram(self, weights: FloatArray, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred, weighted Gram matrix times directions of shape (n_columns, k)."""
        product: FloatArray = self.blocks.add_blocks(
            SparseRows.gram, centre, directions, rows=weights
        )
        return product


def _shape(rows: SparseRows) -> tuple[int, int]:
    return rows.shape


def _weighted_sum(rows: SparseRows, weights: FloatArray) -> FloatArray:
    return kernels.weighted_sum(rows.data, rows.indices, rows.indptr, weights, rows.n_columns)
