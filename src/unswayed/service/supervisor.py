"""Worker processes: forked, watched, replaced one by one on SIGHUP, and stopped together.

They are forked after everything is imported and before any thread is started, so a worker is there
within milliseconds however scarce the processor is, and shares its memory with the others.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from unswayed.errors import InputError

logger = logging.getLogger("unswayed.service")

#: Ours: seconds without a heartbeat until a worker is replaced; it beats every second.
SILENCE_SECONDS = 60.0

#: Ours: how long a worker may take until it serves.
START_SECONDS = 300.0

#: Ours: workers that may end one after another before one serves.
MOST_FAILURES = 5

#: Ours: open requests get this long when a worker is stopped.
GRACE_SECONDS = 10

_TICK_SECONDS = 1.0

#: Called by a worker when it begins to serve, and then every second.
Beat = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Worker:
    pid: int
    line: socket.socket
    started: float = field(default_factory=time.monotonic)
    heard: float = 0.0
    is_closed: bool = False

    @property
    def is_ready(self) -> bool:
        return self.heard > 0.0

    def is_silent(self, now: float) -> bool:
        since, limit = (
            (self.heard, SILENCE_SECONDS) if self.is_ready else (self.started, START_SECONDS)
        )
        return now - since > limit


class Supervisor:
    """Keeps worker processes running until it is asked to stop.

    ``work`` returns when its worker is stopped by SIGTERM. ``on_ready`` is called once, when the
    first worker serves; ``on_reload`` on SIGHUP before the workers are replaced, and leaves all as
    it is by an ``InputError``; ``on_restart`` when a worker ended by itself.
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
        self._is_ready = self._is_stopping = False
        self._n_failures = 0
        self._has_terminal = os.isatty(0)
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; ``InputError`` if workers do not start."""
        handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {one: signal.signal(one, self._on_signal) for one in handled}
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            self._workers = [self._forked() for _ in range(self._n_workers)]
            while not self._is_stopping:
                self._listen()
                self._handle_signals()
                self._look_after()
        finally:
            signal.set_wakeup_fd(-1)
            self._stop()
            for one, handler in before.items():
                signal.signal(one, handler)

    def _on_signal(self, number: int, _: object) -> None:
        self._signals.append(number)

    def _forked(self) -> _Worker:
        """Return a new worker."""
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            theirs.close()
            ours.setblocking(False)
            return _Worker(pid, ours)
        code = 1
        try:
            self._become_worker(ours)
            threading.Thread(target=_follow, args=(theirs,), daemon=True).start()

            def beat() -> None:
                with suppress(OSError):
                    theirs.send(b".", socket.MSG_DONTWAIT)

            self._work(beat)
            code = 0
        except BaseException:
            logger.exception("a worker process failed")
        finally:
            sys.stderr.flush()
            # Not the way out of the process that was forked: its files are not ours to remove.
            os._exit(code)

    def _become_worker(self, line: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor's
        # As long as anybody holds these, their workers would not see the supervisor end.
        for worker in (*self._workers, *self._leaving):
            worker.line.close()
        for one in (line, self._wake, self._woken):
            one.close()

    def _listen(self) -> None:
        """Wait for signals and beats, a second at most."""
        by_line = {
            worker.line: worker
            for worker in (*self._workers, *self._leaving)
            if not worker.is_closed
        }
        ready, _, _ = select.select([self._woken, *by_line], [], [], _TICK_SECONDS)
        for line in ready:
            try:
                data = line.recv(4096)
            except OSError:
                data = b""
            worker = by_line.get(line)
            if worker is None:
                continue
            if not data:
                worker.is_closed = True
                continue
            worker.heard = time.monotonic()
            self._n_failures = 0
            if not self._is_ready:
                self._is_ready = True
                self._on_ready()

    def _handle_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number != signal.SIGHUP or self._lost_terminal():
                self._is_stopping = True
                return
            self._reload()

    def _lost_terminal(self) -> bool:
        """Whether the terminal was closed, which sends SIGHUP, too."""
        if not self._has_terminal:
            return False
        try:
            os.tcgetpgrp(0)
        except OSError:
            return True
        return False

    def _look_after(self) -> None:
        """Replace workers that ended or send no heartbeat."""
        now = time.monotonic()
        for worker in [one for one in self._leaving if _ended(one) is not None]:
            worker.line.close()
            self._leaving.remove(worker)
        for place, worker in enumerate(self._workers):
            how = _ended(worker)
            if how is None and worker.is_silent(now):
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
                how = "was silent for too long"
            if how is None or self._is_stopping:
                continue
            worker.line.close()
            logger.warning("worker %d %s; another one is started.", worker.pid, how)
            self._on_restart()
            if not worker.is_ready:
                self._count_failure()
            self._workers[place] = self._forked()

    def _count_failure(self) -> None:
        self._n_failures += 1
        if self._n_failures >= MOST_FAILURES:
            raise InputError(
                f"{self._n_failures} worker processes ended one after another before they served; "
                "mend what they reported above, and start again."
            )
        time.sleep(0.2 * self._n_failures)

    def _reload(self) -> None:
        """Replace all workers, one after another; each old one leaves when a new one serves."""
        try:
            self._on_reload()
        except InputError as error:
            logger.warning("not reloaded: %s", error.on_command_line)
            return
        for place, old in enumerate(self._workers):
            new = self._forked()
            while not new.is_ready and _ended(new) is None and not self._is_stopping:
                self._leaving.append(new)  # so that it is listened to
                self._listen()
                self._leaving.remove(new)
                if signal.SIGTERM in self._signals or signal.SIGINT in self._signals:
                    self._is_stopping = True
            if not new.is_ready:
                logger.error("not reloaded: a new worker did not serve; the old ones stay.")
                self._leaving.append(new)
                return
            self._workers[place] = new
            self._leaving.append(old)
            with suppress(ProcessLookupError):
                os.kill(old.pid, signal.SIGTERM)
        logger.info("reloaded")

    def _stop(self) -> None:
        """Stop all workers: those that take too long are killed."""
        left = [*self._workers, *self._leaving]
        for worker in left:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS + 5.0
        while left := [one for one in left if _ended(one) is None]:
            if time.monotonic() > deadline:
                for worker in left:
                    with suppress(ProcessLookupError):
                        os.kill(worker.pid, signal.SIGKILL)
            time.sleep(0.02)
        for end in (self._wake, self._woken, *(one.line for one in self._workers + self._leaving)):
            end.close()


def _follow(line: socket.socket) -> None:
    """End this process when the supervisor ends, however that happens."""
    with suppress(OSError):
        while line.recv(64):
            pass
    os._exit(1)


def _ended(worker: _Worker) -> str | None:
    """Return how a worker ended, None while it runs."""
    try:
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
    except ChildProcessError:
        return "is gone"
    if not pid:
        return None
    if os.WIFSIGNALED(status):
        return f"was ended by signal {os.WTERMSIG(status)}"
    return f"ended with exit code {os.WEXITSTATUS(status)}"
