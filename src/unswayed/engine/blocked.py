"""Blocks of data on local threads or Dask workers, and map and reduce operations over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter, getitem
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray
from unswayed.engine.workers import HERE, Call, Workers
from unswayed.estimators.rows import SparseRows

#: Ours: arrays whose copies for all blocks exceed this many bytes are broadcast once; for smaller
#: ones an extra task costs more than the copies.
_SHARED_BYTES = 1 << 21

_SUMMED_HERE = 8  # Ours: with more blocks than this, partial sums are reduced on the workers
_CHUNK = 16  # Ours: fan-in of the reduction tree

Block = TypeVar("Block")
Other = TypeVar("Other")
Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Blocked(Generic[Block]):
    """Blocks in a fixed order, in this process or on a cluster.

    Results are bit-identical wherever the blocks are: each block is processed by one thread, the
    number of blocks does not depend on the workers, and results come in block order.

    >>> blocks = Blocked.here([np.array([1.0, 2.0]), np.array([3.0])], sizes=(2, 1))
    >>> blocks.map_blocks(len)
    [2, 1]
    >>> float(blocks.add_blocks(np.dot, rows=np.array([1.0, 0.0, 2.0])))
    7.0
    """

    workers: Workers
    handles: Sequence[Any]
    sizes: tuple[int, ...] = ()  # number of rows of each block, if blocks hold rows
    _sent: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def here(cls, blocks: Sequence[Block], sizes: tuple[int, ...] = ()) -> Blocked[Block]:
        """Return blocks that stay in this process."""
        return cls(HERE, blocks, sizes)

    @classmethod
    def made(
        cls, workers: Workers, function: Callable[..., Block], calls: Sequence[Call]
    ) -> Blocked[Block]:
        """Call a function once per block, on the workers, and keep the results there."""
        return cls(workers, workers.submit(function, calls))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.handles)

    @property
    def n_rows(self) -> int:
        """Total number of rows."""
        return sum(self.sizes)

    def map_blocks(
        self,
        function: Callable[..., Result],
        *broadcast: Any,
        rows: npt.NDArray[Any] | None = None,
    ) -> list[Result]:
        """Return ``function(block, *broadcast)`` of every block, in block order.

        ``rows``, one value for each row of all blocks, is split: the call is then ``function(block,
        rows of this block, *broadcast)``.
        """
        return self.workers.gather(self._submitted(function, broadcast, rows))

    def map_rows(
        self,
        function: Callable[..., npt.NDArray[Any]],
        *broadcast: Any,
        rows: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Concatenate the per-row values that a function returns for each block."""
        return np.concatenate(self.map_blocks(function, *broadcast, rows=rows))

    def add_blocks(
        self, function: Callable[..., Any], *broadcast: Any, rows: npt.NDArray[Any] | None = None
    ) -> Any:
        """Return the sum, in block order, of the arrays that ``map_blocks`` would return.

        Arrays are added chunk by chunk, so that the result does not depend on where they are added.
        """
        parts = self._submitted(function, broadcast, rows)
        workers = self.workers
        if len(parts) <= _SUMMED_HERE:
            parts, workers = workers.gather(parts), HERE
        while len(parts) > 1:
            chunks = [parts[start : start + _CHUNK] for start in range(0, len(parts), _CHUNK)]
            parts = workers.submit(_added, [(chunk,) for chunk in chunks])
        return workers.gather(parts)[0]

    def transformed(
        self,
        function: Callable[..., Other],
        *broadcast: Any,
        rows: npt.NDArray[Any] | None = None,
        sizes: tuple[int, ...] | None = None,
    ) -> Blocked[Other]:
        """Like ``map_blocks``, but the results stay on the workers as new blocks.

        They have as many rows as before, unless ``sizes`` gives new numbers.
        """
        handles = self._submitted(function, broadcast, rows)
        return Blocked(self.workers, handles, self.sizes if sizes is None else sizes)

    def regrouped(
        self,
        split: Callable[..., Sequence[Part]],
        merge: Callable[[list[Part]], Other],
        n_groups: int,
        *broadcast: Any,
    ) -> Blocked[Other]:
        """Repartition the blocks; parts are sent from worker to worker.

        ``split`` makes ``n_groups`` parts of every block, called as by ``map_blocks``; group g is
        ``merge`` of the g-th parts of all blocks, in block order.
        """
        parts = self._submitted(split, broadcast)
        groups = [
            self.workers.submit(getitem, [(part, group) for part in parts])
            for group in range(n_groups)
        ]
        return Blocked.made(self.workers, merge, [(group,) for group in groups])

    def _submitted(
        self,
        function: Callable[..., Any],
        broadcast: tuple[Any, ...],
        rows: npt.NDArray[Any] | None = None,
    ) -> list[Any]:
        shared = tuple(map(self._once, broadcast))
        own = [()] * self.n_blocks if rows is None else [(piece,) for piece in self._cut(rows)]
        calls: list[Call] = [
            (block, *piece, *shared) for block, piece in zip(self.handles, own, strict=True)
        ]
        # A single block contains all of the data, so a call may take long.
        return self.workers.submit(function, calls, is_long=self.n_blocks == 1)

    def _once(self, value: Any) -> Any:
        """Send a large array to the workers once instead of once for each block."""
        is_array = isinstance(value, np.ndarray)
        if is_array and value.nbytes * self.n_blocks > _SHARED_BYTES:
            return self.workers.keep(value)
        return value

    def _cut(self, rows: npt.NDArray[Any]) -> Sequence[Any]:
        """Split per-row values by block; values equal to the last ones are not sent again."""
        if self.workers is HERE:
            return cut(rows, self.sizes)
        last = self._sent.get("last")
        if last is None or last[0].dtype != rows.dtype or not np.array_equal(last[0], rows):
            own = rows.copy()
            pieces = [self.workers.keep(piece) for piece in cut(own, self.sizes)]
            # One assignment sets both, because another thread may send other rows at the same time.
            last = self._sent["last"] = (own, pieces)
        handles: Sequence[Any] = last[1]
        return handles


def cut(rows: npt.NDArray[Any], sizes: Sequence[int]) -> list[npt.NDArray[Any]]:
    """Return the values of each block's rows, as views."""
    return np.split(rows, np.cumsum(sizes)[:-1])


def _added(parts: Sequence[npt.NDArray[Any]]) -> Any:
    return reduce(np.add, parts)


@dataclass(frozen=True, slots=True, eq=False)
class BlockedRows:
    """The rows of all blocks, stacked; with one block, bit-identical to ``SparseRows``."""

    blocks: Blocked[SparseRows]
    n_columns: int

    @classmethod
    def of(cls, blocks: Blocked[SparseRows]) -> BlockedRows:
        """Return the rows of blocks; this asks each block for its shape."""
        n_rows, n_columns = zip(*blocks.map_blocks(attrgetter("shape")), strict=True)
        return cls(Blocked(blocks.workers, blocks.handles, n_rows), n_columns[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.blocks.n_rows, self.n_columns

    def keep(self, is_kept: BoolArray) -> BlockedRows:
        """Return the marked rows only."""
        sizes = tuple(int(piece.sum()) for piece in cut(is_kept, self.blocks.sizes))
        kept = self.blocks.transformed(SparseRows.keep, rows=is_kept, sizes=sizes)
        return BlockedRows(kept, self.n_columns)

    def each(self, method: Callable[..., FloatArray], *arguments: Any) -> FloatArray:
        """Return what a method of ``SparseRows`` computes for each row."""
        return self.blocks.map_rows(method, *arguments)

    def total(
        self, method: Callable[..., FloatArray], weights: FloatArray, *arguments: Any
    ) -> FloatArray:
        """Return the sum over the weighted rows that a method of ``SparseRows`` computes."""
        return np.asarray(self.blocks.add_blocks(method, *arguments, rows=weights))
