"""Worker processes: forked, watched, replaced one by one on SIGHUP, and stopped together.

They are forked after all imports and before any thread is started, so a worker starts within
milliseconds even on a busy machine, and shares its memory with the others.
"""

from __future__ import annotations

import logging
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from unswayed.errors import InputError

logger = logging.getLogger("unswayed.service")

# Ours: time without heartbeats after which a worker is replaced; it sends one every second
SILENCE_SECONDS = 60.0
START_SECONDS = 300.0  # Ours: maximum time until a worker serves
MOST_FAILURES = 5  # Ours: number of workers that may fail in a row before one serves
GRACE_SECONDS = 10  # Ours: time for open requests when a worker is stopped
_TICK_SECONDS = 0.1  # Ours: seconds between checks of signals and workers
Beat = Callable[[], None]  # Called by a worker when it begins to serve, and then every second


class _Worker:
    """A forked process, with the times of its start and of its last heartbeat."""

    def __init__(self, main: Callable[[Beat], None]) -> None:
        self.started = time.monotonic()
        self._heard = memoryview(mmap.mmap(-1, 8)).cast("d")  # shared with the worker
        fork = multiprocessing.get_context("fork")
        self.process = fork.Process(target=main, args=(self._beat,), daemon=True)
        self.process.start()

    def _beat(self) -> None:
        self._heard[0] = time.monotonic()

    @property
    def is_ready(self) -> bool:
        """Whether it has begun to serve."""
        return self._heard[0] > 0.0

    @property
    def how_it_ended(self) -> str | None:
        """How the process ended, None while it runs."""
        code = self.process.exitcode
        if code is None:
            return None
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def kill_if_silent(self) -> str | None:
        """Kill a worker that starts too slowly or sends no heartbeats; return what happened."""
        now = time.monotonic()
        if now - max(self._heard[0], self.started) <= (
            SILENCE_SECONDS if self.is_ready else START_SECONDS
        ):
            return None
        self.process.kill()
        self.process.join()
        return "was silent for too long"


class Supervisor:
    """Keeps worker processes running until it is asked to stop.

    ``work`` returns when its worker is stopped by SIGTERM. ``on_ready`` is called once, when the
    first worker serves; ``on_reload`` on SIGHUP before the workers are replaced; if it raises,
    nothing changes; ``on_restart`` when a worker ended unexpectedly.
    """

    def __init__(
        self,
        work: Callable[[Beat], None],
        n_workers: int,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_reload: Callable[[], None] = lambda: None,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._n_workers = n_workers
        self._on_ready, self._on_reload, self._on_restart = on_ready, on_reload, on_restart
        self._workers: list[_Worker] = []
        self._leaving: list[_Worker] = []
        self._signals: list[int] = []
        self._is_ready = False
        self._n_failures = 0
        self._has_terminal = os.isatty(0)
        #: Only this process can write to this pipe, so it is closed when this process ends.
        self._life, self._held = os.pipe()

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; ``InputError`` if workers do not start."""
        handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {
            one: signal.signal(one, lambda number, _: self._signals.append(number))
            for one in handled
        }
        try:
            self._workers = [_Worker(self._main) for _ in range(self._n_workers)]
            while not self._is_asked_to_stop():
                self._look_after()
                time.sleep(_TICK_SECONDS)
        finally:
            self._stop()
            for one, handler in before.items():
                signal.signal(one, handler)

    def _main(self, beat: Beat) -> None:
        """Run the forked process, which exits when the supervisor ends, however that happens."""
        os.close(self._held)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # handled by the supervisor

        def follow() -> None:
            os.read(self._life, 1)
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
        code = 1
        try:
            self._work(beat)
            code = 0
        except BaseException:
            logger.exception("a worker process failed")
        finally:
            sys.stderr.flush()
            os._exit(code)  # without waiting for threads that may be blocked by the store

    def _is_asked_to_stop(self) -> bool:
        """Handle pending signals, and return whether to stop.

        SIGHUP reloads, unless it was sent because the terminal closed.
        """
        while self._signals:
            if self._signals[0] != signal.SIGHUP or self._lost_terminal():
                return True
            self._signals.pop(0)
            self._reload()
        return False

    def _lost_terminal(self) -> bool:
        with suppress(OSError):
            if self._has_terminal:
                os.tcgetpgrp(0)
            return False
        return True

    def _look_after(self) -> None:
        """Replace workers that ended or send no heartbeats."""
        self._leaving = [one for one in self._leaving if one.how_it_ended is None]
        if any(worker.is_ready for worker in self._workers):
            self._n_failures = 0
            if not self._is_ready:
                self._is_ready = True
                self._on_ready()
        for place, worker in enumerate(self._workers):
            how = worker.how_it_ended or worker.kill_if_silent()
            if how is None:
                continue
            logger.warning("worker %d %s; another one is started.", worker.process.pid, how)
            self._on_restart()
            if not worker.is_ready:
                self._n_failures += 1
                if self._n_failures >= MOST_FAILURES:
                    raise InputError(
                        f"{self._n_failures} worker processes ended one after another before they "
                        "served; fix what they reported above, and start again."
                    )
                time.sleep(0.2 * self._n_failures)
            self._workers[place] = _Worker(self._main)

    def _reload(self) -> None:
        """Replace all workers, one after another; each old one stops when its successor serves."""
        try:
            self._on_reload()
        except InputError as error:
            logger.warning("not reloaded: %s", error.on_command_line)
            return
        except Exception:
            logger.exception("not reloaded: the configuration could not be read")
            return
        for place, old in enumerate(self._workers):
            new = _Worker(self._main)
            while not new.is_ready and new.how_it_ended is None:
                if {signal.SIGTERM, signal.SIGINT} & set(self._signals):
                    break
                time.sleep(_TICK_SECONDS)
            if not new.is_ready:
                logger.error("not reloaded: a new worker did not start; the old ones continue.")
                self._leaving.append(new)
                return
            self._workers[place] = new
            self._leaving.append(old)
            old.process.terminate()
        logger.info("reloaded")

    def _stop(self) -> None:
        """Stop all workers; those that take too long are killed."""
        left = [*self._workers, *self._leaving]
        for worker in left:
            worker.process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS + 5.0
        for worker in left:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
            worker.process.kill()
            worker.process.join()
        os.close(self._life)
        os.close(self._held)
