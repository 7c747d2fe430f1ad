"""The connection to a Dask cluster, and what to say when it is lost."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from unswayed.errors import InputError

#: Ours: how long to try to reach a scheduler.
CONNECT_SECONDS = 10


@contextmanager
def connected(scheduler: str | None) -> Iterator[Any]:
    """Yield a Dask client: of the scheduler at an address, or of processes on this machine."""
    try:
        distributed: Any = import_module("distributed")  # publishes no types
    except ImportError as error:
        raise InputError(
            "the Dask engine needs more packages; install them with "
            "pip install 'unswayed[cluster]'."
        ) from error
    if scheduler is None:
        # One thread each: a block is worked on by one thread, here as on any other engine.
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
    """Say in one sentence that the scheduler or all workers were lost."""
    log = logging.getLogger("distributed.client")  # which would add a traceback to that
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
