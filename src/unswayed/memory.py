"""Free memory, checked before large arrays are made."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from unswayed.errors import InputError, option

#: Ours: the share of the free memory that a log may take.
USABLE_SHARE = 0.75

#: Peak bytes of `unswayed learn` with the default method, measured with the command in
#: docs/reliability.md and rounded up: per row, user, context, and cell of the policy.
ROW_BYTES = 150
USER_BYTES = 250
CONTEXT_BYTES = 600
CELL_BYTES = 650

#: Files in which Linux reports free memory, and a container's limit and usage (versions 2 and 1).
_MEMINFO = Path("/proc/meminfo")
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)
#: Assumed free memory where the system does not report it.
_UNKNOWN = 4 * 10**9


def check_fits(needed: int, usable: int, what: str) -> None:
    """Reject data that need more memory than is usable, and report how much they would need.

    >>> check_fits(7_100_000_000, 2_000_000_000, "the log")
    Traceback (most recent call last):
    ...
    unswayed.errors.InputError: the log needs about 7.1 GB of memory and may use 2 GB; leave out \
what is not needed, or use `learn_on_cluster` on more machines.
    """
    if needed > usable:
        raise InputError(
            f"{what} needs about {needed / 1e9:.3g} GB of memory and may use {usable / 1e9:.3g} "
            "GB; leave out what is not needed, or use "
            f"{option('--engine', 'dask', python='learn_on_cluster')} on more machines."
        )


def usable_bytes() -> int:
    """Return the bytes that a log may take: a share of the memory that is free."""
    limits = [_free_on_machine()]
    for most, used in _GROUPS:
        with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
            limits.append(int(most.read_text()) - int(used.read_text()))
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY:
        limits.append(allowed)
    return int(USABLE_SHARE * max(min(limits), 0))


def _free_on_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return _UNKNOWN
