"""Sparse rows in blocks, seen through products only: what the filters need, wherever rows lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.engine.blocked import Blocked, cut
from unswayed.estimators import sparse_kernels as kernels
from unswayed.estimators.rows import SparseRows

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class BlockedRows:
    """The rows of all blocks under each other; one block gives the same bits as ``SparseRows``.

    Parameters
    ----------
    blocks
        The rows of each block.
    sizes
        How many rows each block has.
    n_columns
        Columns, the same for all.
    """

    blocks: Blocked[SparseRows]
    sizes: tuple[int, ...]
    n_columns: int
    _last_split: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, blocks: Blocked[SparseRows]) -> BlockedRows:
        """Return the rows of blocks, which are asked for their shapes."""
        shapes = blocks.map_blocks(_shape)
        return cls(blocks, tuple(shape[0] for shape in shapes), shapes[0][1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return sum(self.sizes), self.n_columns

    def mean(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the rows."""
        total = self.blocks.add_blocks(_weighted_sum, pieces=self.split(weights))
        return np.asarray(total / weights.sum())

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each row."""
        return np.concatenate(self.blocks.map_blocks(SparseRows.largest_entries))

    def keep(self, is_kept: BoolArray) -> BlockedRows:
        """Return the marked rows only."""
        pieces = self.split(is_kept)
        kept = self.blocks.transformed(SparseRows.keep, pieces=pieces)
        return BlockedRows(kept, tuple(int(piece.sum()) for piece in pieces), self.n_columns)  # type: ignore[arg-type]

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distance of each row from the centre."""
        return np.concatenate(self.blocks.map_blocks(SparseRows.squared_distances, centre))

    def column_squares(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each centred column."""
        pieces = self.split(weights)
        squares: FloatArray = self.blocks.add_blocks(
            SparseRows.column_squares, centre, pieces=pieces
        )
        return squares

    def project(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred rows times directions of shape (n_columns, k)."""
        return np.concatenate(self.blocks.map_blocks(SparseRows.project, centre, directions))

    def gram(self, weights: FloatArray, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the centred, weighted Gram matrix times directions of shape (n_columns, k)."""
        pieces = self.split(weights)
        product: FloatArray = self.blocks.add_blocks(
            SparseRows.gram, centre, directions, pieces=pieces
        )
        return product

    def split(self, values: npt.NDArray[np.generic]) -> list[npt.NDArray[np.generic]]:
        """Return the part of each block of values that belong to the rows.

        Equal values give the same list, so that blocks elsewhere need not be sent it again.
        """
        last = self._last_split.get("last")
        if last is None or last[0].dtype != values.dtype or not np.array_equal(last[0], values):
            own = values.copy()
            # One assignment: another thread may split other values meanwhile.
            last = self._last_split["last"] = (own, cut(own, self.sizes))
        pieces: list[npt.NDArray[np.generic]] = last[1]
        return pieces


def _shape(rows: SparseRows) -> tuple[int, int]:
    return rows.shape


def _weighted_sum(rows: SparseRows, weights: FloatArray) -> FloatArray:
    return kernels.weighted_sum(rows.data, rows.indices, rows.indptr, weights, rows.n_columns)
