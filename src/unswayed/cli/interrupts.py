"""Ctrl-C: the command stops at once, whatever it is doing, and leaves nothing behind.

An exception in the main thread would have to pass through compilers, databases and thread pools,
some of which wait for each other. All files survive a kill at any moment (see
``unswayed.storage``), so a separate thread waits for the signal, removes drafts and scratch files,
and ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress

#: Exit code that shells expect after Ctrl-C.
INTERRUPTED = 130

_SHOW_CURSOR = b"\x1b[?25h"

_last_words = "Stopped."


def stop_on_interrupt() -> None:
    """End the process on SIGINT from now on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return  # a background job, for which shells ignore SIGINT
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # Python writes the signal's number to this pipe at once, even while the main thread runs a
    # compiled loop.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _nothing)
    threading.Thread(target=_wait, args=(reader,), name="interrupts", daemon=True).start()


def say_when_stopped(text: str) -> None:
    """Set the message printed when the command is interrupted."""
    global _last_words
    _last_words = text


def _nothing(*_: object) -> None:
    """Ignore the signal in the main thread; a separate thread ends the process."""


def _wait(reader: int) -> None:
    while signal.SIGINT not in os.read(reader, 64):
        pass
    with suppress(Exception):
        _clean_up()
    os._exit(INTERRUPTED)


def _clean_up() -> None:
    # Modules that were never imported have nothing to clean up.
    if (processes := sys.modules.get("multiprocessing")) is not None:
        for child in processes.active_children():
            child.kill()
    if (storage := sys.modules.get("unswayed.storage")) is not None:
        storage.discard_unfinished()
    if os.isatty(2):
        os.write(2, _SHOW_CURSOR)  # progress bars hide the cursor
    os.write(2, f"\n{_last_words}\n".encode())
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        # without its finalizers, multiprocessing warns of leaked semaphores
        util._run_finalizers(0)
