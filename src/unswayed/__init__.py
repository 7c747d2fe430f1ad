"""Decisions that a coalition of fake users cannot sway."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from unswayed.errors import InputError
    from unswayed.events import Events, Labels
    from unswayed.learners import RobustMCB
    from unswayed.policy import Decision, Policy
    from unswayed.service.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "Decision",
    "Events",
    "InputError",
    "Labels",
    "Policy",
    "RobustMCB",
    "__version__",
]

# Loaded on first use: the compiler and scipy cost a second that `unswayed --help` need not pay.
_HOMES = {
    "AsyncClient": "unswayed.service.client",
    "Client": "unswayed.service.client",
    "Decision": "unswayed.policy",
    "Events": "unswayed.events",
    "InputError": "unswayed.errors",
    "Labels": "unswayed.events",
    "Policy": "unswayed.policy",
    "RobustMCB": "unswayed.learners",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("unswayed")
    if name not in _HOMES:
        raise AttributeError(f"module 'unswayed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
