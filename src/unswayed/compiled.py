"""The one place that compiles loops: every kernel of the package is decorated here."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays to machine code, cached on disk and free of the GIL.

    ``fastmath`` stays off: it measured slower on the fused sparse products, and sums must be
    the same on every run.
    """
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))
