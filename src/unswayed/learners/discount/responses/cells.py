"""Entries of all blocks regrouped by cell, for what needs a cell's responses side by side."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.engine import Blocked
from unswayed.learners.discount.responses.kernels import RealArray
from unswayed.tallies.grouping import counting_order

#: Returns the cells of a block's entries, and columns of numbers.
Reader = Callable[..., tuple[CellArray, tuple[RealArray, ...]]]


class CellEntries(NamedTuple):
    """The entries of some neighbouring cells, cell by cell and in the order of the users.

    Attributes
    ----------
    starts
        Where each cell begins, and where the last one ends.
    columns
        Numbers of the entries.
    """

    starts: IntArray
    columns: tuple[RealArray, ...]


def map_cells(
    blocks: Blocked[Any],
    read: Reader,
    function: Callable[..., FloatArray],
    loads: RealArray | IntArray,
    *,
    rows: FloatArray | None = None,
    values: FloatArray | None = None,
) -> FloatArray:
    """Return what a function makes of the entries of each cell, whichever blocks they lie in.

    Entries are grouped by cell, in as many groups as there are blocks and about equally large.

    Parameters
    ----------
    blocks
        Where the entries lie.
    read
        Returns the cells and columns of a block's entries; called with the block and, if there are
        ``rows``, the values of its rows.
    function
        Called with a group and, if there are ``values``, the values of its cells; its last axis
        goes over the cells.
    loads
        Shape (n_cells,); about how many entries each cell has, for the cut.
    rows, values
        Shape (n_rows,) and (n_cells,).
    """
    upto = np.cumsum(loads)
    shares = np.arange(1, blocks.n_blocks) * (upto[-1] / blocks.n_blocks)
    edges = np.concatenate([[0], np.searchsorted(upto, shares), [len(upto)]])
    groups = blocks.regrouped(_split, _merge, blocks.n_blocks, read, edges, rows=rows)
    pieces = None if values is None else np.split(values, edges[1:-1])
    return np.concatenate(groups.map_blocks(function, pieces=pieces), axis=-1)


def _split(block: Any, *arguments: Any) -> list[CellEntries]:
    *rows, read, edges = arguments
    cells, columns = read(block, *rows)
    order, starts = counting_order(cells, int(edges[-1]))
    ordered = [column[order] for column in columns]
    groups = []
    for first, last in pairwise(edges):
        here = starts[first : last + 1]
        own = tuple(column[here[0] : here[-1]] for column in ordered)
        groups.append(CellEntries(here - here[0], own))
    return groups


def _merge(parts: list[CellEntries]) -> CellEntries:
    if len(parts) == 1:
        return parts[0]
    counts = sum(np.diff(part.starts) for part in parts)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = tuple(np.empty(starts[-1], column.dtype) for column in parts[0].columns)
    fill = starts[:-1].copy()
    for part in parts:
        for column, own in zip(columns, part.columns, strict=True):
            placed(part.starts, own, fill, column)
        fill += np.diff(part.starts)
    return CellEntries(starts, columns)


@compiled
def placed(starts: IntArray, values: RealArray, fill: IntArray, out: RealArray) -> None:
    """Put the values of each cell into ``out``, from where ``fill`` says for the cell."""
    for j in range(fill.size):
        out[fill[j] : fill[j] + starts[j + 1] - starts[j]] = values[starts[j] : starts[j + 1]]
