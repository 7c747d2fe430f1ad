"""Work on blocks of users, wherever they lie: one verb for threads here and for a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import getitem
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

#: Ours: what would be sent to all blocks of a cluster together in more bytes is sent once and
#: shared by the workers. Below, the time of one more task is worth more than the bytes.
_SHARED_BYTES = 1 << 21

#: Ours: sums over more blocks are made on workers, so that the driver gets one array and not many.
_SUMMED_HERE = 8

#: Ours: as many blocks are added by one task, and as many of their sums by the next.
_CHUNK = 16

Block = TypeVar("Block")
BlockCo = TypeVar("BlockCo", covariant=True)
Other = TypeVar("Other")
Part = TypeVar("Part")
Result = TypeVar("Result")


class Blocks(Protocol[BlockCo]):
    """Blocks in a fixed order; functions go to the blocks, and only results come back.

    Results are the same bits on every engine: each block is worked on by one thread, the number of
    blocks does not depend on the engine, and results arrive in block order.
    """

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""

    def map_blocks(
        self,
        function: Callable[..., Result],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> list[Result]:
        """Return ``function(block, *broadcast)`` of every block, in block order.

        With ``pieces``, one for each block, it is ``function(block, piece, *broadcast)``.
        """

    def add_blocks(
        self,
        function: Callable[..., npt.NDArray[Any]],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Any:
        """Return the sum, in block order, of the arrays that ``map_blocks`` would return."""

    def transformed(
        self,
        function: Callable[..., Other],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocks[Other]:
        """Return new blocks, made in the same way, that stay where they are made."""

    def regrouped(
        self,
        split: Callable[..., Sequence[Part]],
        merge: Callable[[list[Part]], Other],
        n_groups: int,
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocks[Other]:
        """Return blocks of another cut.

        ``split`` makes ``n_groups`` parts of every block, called as ``map_blocks`` would; group g
        is ``merge`` of the g-th parts of all blocks, in block order.
        """


@dataclass(frozen=True, slots=True, eq=False)
class LocalBlocks(Generic[Block]):
    """Blocks in this process; compiled loops run on all cores, as they do not hold the GIL.

    All share the same threads, so a function for blocks must not work on blocks itself.
    """

    blocks: Sequence[Block]

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    def map_blocks(
        self,
        function: Callable[..., Result],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> list[Result]:
        """Return what the function makes of every block, in block order."""
        calls = _arguments(self.blocks, broadcast, pieces)
        if len(self.blocks) == 1:
            return [function(*call) for call in calls]
        return list(_threads(os.getpid()).map(lambda call: function(*call), calls))

    def add_blocks(
        self,
        function: Callable[..., npt.NDArray[Any]],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Any:
        """Return the sum of what the function makes of every block, in block order."""
        return _added(self.map_blocks(function, *broadcast, pieces=pieces))

    def transformed(
        self,
        function: Callable[..., Other],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocks[Other]:
        """Return new blocks."""
        return LocalBlocks(self.map_blocks(function, *broadcast, pieces=pieces))

    def regrouped(
        self,
        split: Callable[..., Sequence[Part]],
        merge: Callable[[list[Part]], Other],
        n_groups: int,
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocks[Other]:
        """Return blocks of another cut."""
        parts = self.map_blocks(split, *broadcast, pieces=pieces)
        groups = [[part[group] for part in parts] for group in range(n_groups)]
        return LocalBlocks(LocalBlocks(groups).map_blocks(merge))


@dataclass(frozen=True, slots=True, eq=False)
class DaskBlocks(Generic[Block]):
    """Blocks on the workers of a Dask cluster, as futures.

    Blocks must come from ``client.submit`` of functions that can be run again, never from
    ``scatter``: then Dask makes the blocks of a lost worker anew, and nothing changes.
    """

    client: Any
    futures: Sequence[Any]
    _sent: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.futures)

    def map_blocks(
        self,
        function: Callable[..., Result],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> list[Result]:
        """Return what the function makes of every block, in block order."""
        results: list[Result] = self.client.gather(self._submitted(function, broadcast, pieces))
        return results

    def add_blocks(
        self,
        function: Callable[..., npt.NDArray[Any]],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Any:
        """Return the sum of what the function makes of every block, in block order."""
        parts = self._submitted(function, broadcast, pieces)
        if self.n_blocks <= _SUMMED_HERE:
            return _added(self.client.gather(parts))
        while len(parts) > 1:
            parts = [self.client.submit(_chain, chunk, pure=False) for chunk in _chunks(parts)]
        return parts[0].result()

    def transformed(
        self,
        function: Callable[..., Other],
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocks[Other]:
        """Return new blocks on the workers."""
        return DaskBlocks(self.client, self._submitted(function, broadcast, pieces))

    def regrouped(
        self,
        split: Callable[..., Sequence[Part]],
        merge: Callable[[list[Part]], Other],
        n_groups: int,
        *broadcast: Any,
        pieces: Sequence[Any] | None = None,
    ) -> Blocks[Other]:
        """Return blocks of another cut; parts go from worker to worker."""
        parts = self._submitted(split, broadcast, pieces)
        groups = [
            [self.client.submit(getitem, part, group, pure=False) for part in parts]
            for group in range(n_groups)
        ]
        merged = [self.client.submit(merge, group, pure=False) for group in groups]
        return DaskBlocks(self.client, merged)

    def _submitted(
        self,
        function: Callable[..., Any],
        broadcast: tuple[Any, ...],
        pieces: Sequence[Any] | None,
    ) -> list[Any]:
        # Not "pure": hashing large arguments to find equal calls costs more than it saves.
        calls = _arguments(
            self.futures, tuple(map(self._once, broadcast)), pieces and self._kept(pieces)
        )
        if self.n_blocks == 1:  # everything in one place: that may take long
            return [self.client.submit(_aside, function, *calls[0], pure=False)]
        return [self.client.submit(function, *call, pure=False) for call in calls]

    def _once(self, value: Any) -> Any:
        """Send a large value to the workers once instead of once for each block.

        It becomes the result of a task and is not scattered, so that it survives its worker.
        """
        is_array = isinstance(value, np.ndarray)
        if is_array and value.nbytes * self.n_blocks > _SHARED_BYTES:
            return self.client.submit(_same, value, pure=False)
        return value

    def _kept(self, pieces: Sequence[Any]) -> Sequence[Any]:
        """Send pieces once as long as the same ones are given: weights change once a round."""
        if self._sent.get("pieces") is not pieces:
            self._sent["futures"] = [
                self.client.submit(_same, piece, pure=False) for piece in pieces
            ]
            self._sent["pieces"] = pieces
        futures: Sequence[Any] = self._sent["futures"]
        return futures


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; a forked child has none of its parent's.

    They are kept: every new one would hold on to memory of its own that others cannot use.
    """
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=f"blocks of {process}")


def cut(values: npt.NDArray[Any], sizes: Sequence[int]) -> list[npt.NDArray[Any]]:
    """Return the part of each block of values for all its rows, as views."""
    return np.split(values, np.cumsum(sizes)[:-1])


def _added(parts: Sequence[npt.NDArray[Any]]) -> Any:
    """Return the sum over blocks: chunk by chunk in block order, the same bits on every engine."""
    while len(parts) > 1:
        parts = [_chain(chunk) for chunk in _chunks(parts)]
    return parts[0]


def _chain(parts: Sequence[npt.NDArray[Any]]) -> Any:
    return reduce(np.add, parts)


def _chunks(parts: Sequence[Any]) -> list[Sequence[Any]]:
    return [parts[start : start + _CHUNK] for start in range(0, len(parts), _CHUNK)]


def _same(value: Result) -> Result:
    return value


def _aside(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function on a worker without holding up what else is to run there."""
    from distributed import secede

    secede()  # type: ignore[no-untyped-call]
    return function(*arguments)


def _arguments(
    blocks: Sequence[Any], broadcast: tuple[Any, ...], pieces: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    if pieces is None:
        return [(block, *broadcast) for block in blocks]
    return [(block, piece, *broadcast) for block, piece in zip(blocks, pieces, strict=True)]
