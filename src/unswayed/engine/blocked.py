"""A sequence of blocks, wherever they lie: functions go to the blocks, and results come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.engine.workers import HERE, Call, Workers

#: Ours: an array that would be sent to all blocks together in more bytes is sent once and shared by
#: the workers. Below, the time of one more task is worth more than the bytes.
_SHARED_BYTES = 1 << 21

#: Ours: sums over more blocks are made on workers, so that the driver gets one array and not many.
_SUMMED_HERE = 8

#: Ours: as many blocks are added by one task, and as many of their sums by the next.
_CHUNK = 16

Block = TypeVar("Block")
Other = TypeVar("Other")
Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Blocked(Generic[Block]):
    """Blocks in a fixed order, here or on a cluster.

    Results are the same bits wherever the blocks lie: each block is worked on by one thread, the
    number of blocks does not depend on the workers, and results come in block order.

    Examples
    --------
    >>> blocks = Blocked.here([np.array([1.0, 2.0]), np.array([3.0])])
    >>> blocks.map_blocks(len)
    [2, 1]
    >>> float(blocks.add_blocks(np.sum))
    6.0
    """

    workers: Workers
    handles: Sequence[Any]
    _sent: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def here(cls, blocks: Sequence[Block]) -> Blocked[Block]:
        """Return blocks of this process."""
        return cls(HERE, blocks)

    @classmethod
    def made(
        cls, workers: Workers, function: Callable[..., Block], calls: Sequence[Call]
    ) -> Blocked[Block]:
        """Return the blocks that a function makes of each call's arguments, where it makes them."""
        return cls(workers, workers.submit(function, calls))

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.handles)

    def map_blocks(
        self,
        function: Callable[..., Result],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> list[Result]:
        """Return ``function(block, *broadcast)`` of every block, in block order.

        With ``pieces``, one for each block, it is ``function(block, piece, *broadcast)``.
        """
        return self.workers.gather(self._submitted(function, broadcast, pieces))

    def add_blocks(
        self,
        function: Callable[..., Any],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Any:
        """Return the sum, in block order, of the arrays that ``map_blocks`` would return.

        Arrays are added chunk by chunk, so that it does not matter who adds them.
        """
        parts = self._submitted(function, broadcast, pieces)
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
        pieces: Sequence[Any] | None = None,
    ) -> Blocked[Other]:
        """Return new blocks, made as by ``map_blocks``, that stay where they are made."""
        return Blocked(self.workers, self._submitted(function, broadcast, pieces))

    def combined(
        self, other: Blocked[Any], function: Callable[..., Other], *broadcast: Any
    ) -> Blocked[Other]:
        """Return new blocks ``function(block, other block, *broadcast)``."""
        calls = [(*pair, *broadcast) for pair in zip(self.handles, other.handles, strict=True)]
        return Blocked.made(self.workers, function, calls)

    def regrouped(
        self,
        split: Callable[..., Sequence[Part]],
        merge: Callable[[list[Part]], Other],
        n_groups: int,
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocked[Other]:
        """Return blocks of another cut; parts go from worker to worker.

        ``split`` makes ``n_groups`` parts of every block, called as by ``map_blocks``; group g is
        ``merge`` of the g-th parts of all blocks, in block order.
        """
        parts = self._submitted(split, broadcast, pieces)
        groups = [
            self.workers.submit(getitem, [(part, group) for part in parts])
            for group in range(n_groups)
        ]
        return Blocked.made(self.workers, merge, [(group,) for group in groups])

    def ask(self, place: int, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return ``function(block, *arguments)`` of one block."""
        handles = self.workers.submit(function, [(self.handles[place], *arguments)])
        result: Result = self.workers.gather(handles)[0]
        return result

    def _submitted(
        self,
        function: Callable[..., Any],
        broadcast: tuple[Any, ...],
        pieces: Sequence[Any] | None,
    ) -> list[Any]:
        shared = tuple(map(self._once, broadcast))
        calls: list[Call]
        if pieces is None:
            calls = [(block, *shared) for block in self.handles]
        else:
            pairs = zip(self.handles, self._kept(pieces), strict=True)
            calls = [(*pair, *shared) for pair in pairs]
        # One block is everything in one place: that may take long.
        return self.workers.submit(function, calls, is_long=self.n_blocks == 1)

    def _once(self, value: Any) -> Any:
        """Send a large array to the workers once instead of once for each block."""
        is_array = isinstance(value, np.ndarray)
        if is_array and value.nbytes * self.n_blocks > _SHARED_BYTES:
            return self.workers.keep(value)
        return value

    def _kept(self, pieces: Sequence[Any]) -> Sequence[Any]:
        """Send pieces once as long as the same ones are given: weights change once a round."""
        last = self._sent.get("last")
        if last is None or last[0] is not pieces:
            # One assignment: another thread may send other pieces meanwhile.
            last = self._sent["last"] = (pieces, [self.workers.keep(piece) for piece in pieces])
        handles: Sequence[Any] = last[1]
        return handles


def cut(values: npt.NDArray[Any], sizes: Sequence[int]) -> list[npt.NDArray[Any]]:
    """Return the part of each block of values for all its rows, as views."""
    return np.split(values, np.cumsum(sizes)[:-1])


def cut_codes(codes: npt.NDArray[np.int64], sizes: Sequence[int]) -> list[npt.NDArray[np.int64]]:
    """Return for each block which of its rows are among some, given by ascending codes.

    >>> [rows.tolist() for rows in cut_codes(np.array([0, 2, 3]), (2, 3))]
    [[0], [0, 1]]
    """
    ends = np.cumsum(sizes)
    inside = np.split(codes, np.searchsorted(codes, ends[:-1]))
    return [here - first for here, first in zip(inside, ends - np.array(sizes), strict=True)]


def _added(parts: Sequence[npt.NDArray[Any]]) -> Any:
    return reduce(np.add, parts)
