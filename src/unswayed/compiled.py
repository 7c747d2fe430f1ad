"""The only place that compiles loops: every kernel of the package is decorated here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

from unswayed.errors import Note

_config: Any = numba.config  # numba has incomplete type hints, which are worse than none
_FunctionCache: Any = import_module("numba.core.caching").FunctionCache

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays to machine code that is cached on disk and releases the GIL.

    ``fastmath`` stays off: the fused sparse products are slower with it, and sums must be the same
    on every run.
    """
    dispatcher: Any = numba.njit(nogil=True)(function)
    cache = _cache_of(function)
    if cache is not None:
        # njit(cache=True) does the same, but fails if no cache folder is writable
        dispatcher._cache = cache
    return cast("Callable[P, R]", dispatcher)


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Compiled loops on disk; if the disk is full or a file damaged, they are compiled again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file may raise anything
            with suppress(OSError):
                self.flush()  # writes an empty index
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


def _cache_of(function: Callable[..., Any]) -> _Cache | None:
    """Return the cache of a compiled loop, or None if no folder is writable."""
    global _was_warned
    try:
        # Without a home folder numba would make a folder named "~".
        if _config.CACHE_DIR or Path.home().is_absolute():
            return _Cache(function)
    except RuntimeError:  # numba found no writable folder, or there is no home folder
        pass
    if not _was_warned:
        _was_warned = True
        warnings.warn(
            "compiled loops cannot be kept anywhere, so every run compiles them anew, which takes "
            "a minute; set NUMBA_CACHE_DIR to a folder that can be written.",
            Note,
            stacklevel=3,
        )
    return None


_was_warned = False
