"""Worker processes that end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import resource_tracker
from typing import ParamSpec, TypeVar

from unswayed.errors import InputError, option

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Workers:
    """Calls a function on many tasks in a pool of processes; with one process, in this one."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise InputError(f"{option('--processes')} is {processes}: at least 1 is needed.")
        self._pool = WorkerPool(processes) if processes > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def results(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the result of each task as it finishes, in any order."""
        if self._pool is None:
            yield from map(function, tasks)
            return
        pending = [self._pool.submit(function, task) for task in tasks]
        for future in as_completed(pending):
            yield future.result()


class WorkerPool(ProcessPoolExecutor):
    """A pool of processes that ignore Ctrl-C, and end with this process even if it is killed.

    They are spawned, not forked: compiled kernels and thread pools do not survive a fork.
    """

    def __init__(self, processes: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        super().__init__(processes, mp_context=spawn, initializer=_prepare_worker)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a call; SIGINT is blocked in processes that this starts.

        A terminal signals all processes, and those still importing would print tracebacks. Another
        thread of this process receives the signal.
        """
        resource_tracker.ensure_running()  # its start would unblock signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """End this process as soon as its parent ends, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, name="follow-parent", daemon=True).start()
