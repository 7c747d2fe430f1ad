"""Where functions run: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from unswayed.errors import InputError

Result = TypeVar("Result")

#: One call: the arguments of a function. Handles among them stand for their values.
Call = tuple[Any, ...]


class Workers:
    """Threads of this process; subclasses run functions elsewhere.

    ``submit`` returns handles of the functions' results, here the results themselves. A handle may
    be an argument of a later call, alone or in a list; ``gather`` turns handles into results.
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
        """Return a handle of ``function(*call)`` for every call, in order.

        ``is_long`` means that other calls should not wait for these.
        """
        if len(calls) == 1:
            return [function(*calls[0])]
        return list(_threads(os.getpid()).map(lambda call: function(*call), calls))

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Return the values of handles."""
        return list(handles)

    def keep(self, value: Any) -> Any:
        """Return a handle of a value, so that it is sent once and not with every call."""
        return value


HERE = Workers()  # Runs calls in this process


@dataclass(frozen=True, slots=True)
class DaskWorkers(Workers):
    """The workers of a Dask cluster; a handle is a future.

    Results come from ``client.submit`` of repeatable functions, never from ``scatter``: Dask can
    then recompute the results of a lost worker, bit for bit.
    """

    client: Any

    def submit(
        self, function: Callable[..., Any], calls: Sequence[Call], *, is_long: bool = False
    ) -> list[Any]:
        """Return a future of each call."""
        if is_long:
            function, calls = _aside, [(function, *call) for call in calls]
        # Not "pure", because hashing large arguments costs more than finding equal calls saves.
        return [self.client.submit(function, *call, pure=False) for call in calls]

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Return the results of futures."""
        results: list[Any] = self.client.gather(list(handles))
        return results

    def keep(self, value: Any) -> Any:
        """Submit the value as a task result: scattered data would be lost with its worker."""
        return self.client.submit(_same, value, pure=False)


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the thread pool of a process; a forked child does not inherit its parent's.

    The pool is kept, because every new thread would allocate memory that others cannot use.
    """
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=f"blocks of {process}")


def _same(value: Result) -> Result:
    return value


def _aside(function: Callable[..., Result], *arguments: Any) -> Result:
    """Run a long function in a separate thread so that it does not block the worker."""
    from distributed import secede

    secede()  # type: ignore[no-untyped-call]
    return function(*arguments)


CONNECT_SECONDS = 10  # Ours: how long to try to reach a scheduler


@contextmanager
def connected(scheduler: str | None) -> Iterator[Any]:
    """Yield a Dask client: of the scheduler at an address, or of processes on this machine."""
    try:
        distributed: Any = import_module("distributed")  # no type hints
    except ImportError as error:
        raise InputError(
            "the Dask engine needs more packages: install unswayed with the extra 'cluster'."
        ) from error
    if scheduler is None:
        # One thread per worker: each block is processed by one thread, as on any other engine.
        with (
            distributed.LocalCluster(
                n_workers=os.cpu_count() or 1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(f"there is no Dask scheduler at {scheduler}: {error}.") from error
    with client:
        yield client


@contextmanager
def explained_losses(scheduler: str | None) -> Iterator[None]:
    """Turn the loss of the scheduler or of all workers into an ``InputError``."""
    log = logging.getLogger("distributed.client")  # suppress its traceback
    log.addFilter(_nothing)
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        is_foreign = type(error).__module__.partition(".")[0] in ("dask", "distributed", "tornado")
        if not (is_foreign or isinstance(error, ConnectionError | TimeoutError | CancelledError)):
            raise
        where = f"at {scheduler} " if scheduler else ""
        raise InputError(
            f"the Dask cluster {where}was lost ({type(error).__name__}); what was there before is "
            "unchanged. Check its scheduler and workers, and run this again."
        ) from error
    finally:
        log.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False
