"""Where functions run: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")

#: One call: the arguments of a function. Handles among them stand for what they hold.
Call = tuple[Any, ...]


class Workers(Protocol):
    """Runs functions, and hands out handles of what they return.

    A handle may be an argument of a later call, alone or in a list; ``gather`` turns handles into
    results.
    """

    def submit(
        self, function: Callable[..., Any], calls: Sequence[Call], *, is_long: bool = False
    ) -> list[Any]:
        """Return a handle of ``function(*call)`` for every call, in order.

        ``is_long`` says that nothing else should have to wait for these calls.
        """

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Return what the handles stand for."""

    def keep(self, value: Any) -> Any:
        """Return a handle of a value, so that it is sent once and not with every call."""


@dataclass(frozen=True, slots=True)
class _Here:
    """Threads of this process; a handle is the result itself.

    Compiled loops run on all cores, as they do not hold the GIL. All blocks share the same
    threads, so a function that is submitted must not submit anything itself.
    """

    def submit(
        self,
        function: Callable[..., Any],
        calls: Sequence[Call],
        *,
        is_long: bool = False,  # noqa: ARG002 - nobody waits here
    ) -> list[Any]:
        if len(calls) == 1:
            return [function(*calls[0])]
        return list(_threads(os.getpid()).map(lambda call: function(*call), calls))

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        return list(handles)

    def keep(self, value: Any) -> Any:
        return value


#: This process.
HERE = _Here()


@dataclass(frozen=True, slots=True)
class DaskWorkers:
    """The workers of a Dask cluster; a handle is a future.

    Results come from ``client.submit`` of functions that can be run again, never from ``scatter``:
    then Dask makes what a lost worker held anew, and nothing changes.
    """

    client: Any

    def submit(
        self, function: Callable[..., Any], calls: Sequence[Call], *, is_long: bool = False
    ) -> list[Any]:
        """Return a future of each call."""
        if is_long:
            function, calls = _aside, [(function, *call) for call in calls]
        # Not "pure": hashing large arguments to find equal calls costs more than it saves.
        return [self.client.submit(function, *call, pure=False) for call in calls]

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Return the results of futures."""
        results: list[Any] = self.client.gather(list(handles))
        return results

    def keep(self, value: Any) -> Any:
        """Make a value the result of a task; scattered, it would be lost with its worker."""
        return self.client.submit(_same, value, pure=False)


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; a forked child has none of its parent's.

    They are kept: every new one would hold on to memory of its own that others cannot use.
    """
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=f"blocks of {process}")


def _same(value: Result) -> Result:
    return value


def _aside(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function on a worker without holding up what else is to run there."""
    from distributed import secede

    secede()  # type: ignore[no-untyped-call]
    return function(*arguments)
