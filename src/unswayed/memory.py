"""Free memory, and a budget that is checked before large arrays are made."""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unswayed.errors import InputError, option

#: Ours: the share of the free memory that is used unless more is given.
DEFAULT_SHARE = 0.75

#: Peak bytes of `unswayed learn` with the default method, measured with the command in
#: docs/reliability.md and rounded up: for each row, user, context, and cell of the policy.
ROW_BYTES = 150
USER_BYTES = 250
CONTEXT_BYTES = 600
CELL_BYTES = 650

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

#: Where Linux says what is free, and what a container may use and uses (versions 2 and 1).
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


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes that may be used.

    Examples
    --------
    >>> MemoryBudget.of(2_000_000_000).check(7_100_000_000, "the log")
    Traceback (most recent call last):
    ...
    unswayed.errors.InputError: the log needs about 7.1 GB of memory and may use 2.0 GB; \
give more with `memory`, leave out what is not needed, or use `learn_on_cluster` on more machines.
    """

    n_bytes: int

    @classmethod
    def of(cls, n_bytes: int | None) -> MemoryBudget:
        """Return a budget of so many bytes, or of three quarters of what is free."""
        return cls(int(DEFAULT_SHARE * free_bytes()) if n_bytes is None else n_bytes)

    def check(self, needed: int, what: str) -> None:
        """Reject what does not fit, and say how much it would need."""
        if needed > self.n_bytes:
            raise InputError(
                f"{what} needs about {shown_bytes(needed)} of memory and may use "
                f"{shown_bytes(self.n_bytes)}; give more with {option('--memory')}, leave out what "
                "is not needed, or use "
                f"{option('--engine', 'dask', python='learn_on_cluster')} on more machines."
            )


def parsed_bytes(text: str) -> int:
    """Return the number of bytes that a text such as ``2GB`` or ``500 MiB`` says.

    >>> parsed_bytes("1.5GB"), parsed_bytes("4 KiB")
    (1500000000, 4096)
    """
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*", text)
    unit = None if found is None else _UNITS.get(found[2].upper())
    if found is None or unit is None or float(found[1]) * unit < 1:
        raise InputError(f"{option('--memory')} is written as 500MB, 2GB or 1.5GiB, not {text!r}.")
    return int(float(found[1]) * unit)


def shown_bytes(n_bytes: int) -> str:
    """Return bytes as people read them.

    >>> shown_bytes(7_123_456_789), shown_bytes(2_500_000)
    ('7.1 GB', '2.5 MB')
    """
    for unit in ("TB", "GB"):
        if n_bytes >= _UNITS[unit]:
            return f"{n_bytes / _UNITS[unit]:.1f} {unit}"
    return f"{n_bytes / _UNITS['MB']:.1f} MB"


def free_bytes() -> int:
    """Return how much memory this process may still take: of the machine, container and limits."""
    limits = [_free_on_machine()]
    for most, used in _GROUPS:
        with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
            limits.append(int(most.read_text()) - int(used.read_text()))
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY:
        limits.append(allowed)
    return max(min(limits), 0)


def _free_on_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return _UNKNOWN
