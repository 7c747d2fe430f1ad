"""Decisions that a coalition of fake users cannot sway."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from unswayed.errors import InputError
    from unswayed.events import Columns, Events, Labels, read_events
    from unswayed.learners import RobustMCB
    from unswayed.learners.from_log import learn_log, learn_on_cluster
    from unswayed.learners.options import LearnOptions
    from unswayed.policy import Decision, Policy
    from unswayed.service.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "Columns",
    "Decision",
    "Events",
    "InputError",
    "Labels",
    "LearnOptions",
    "Policy",
    "RobustMCB",
    "__version__",
    "learn_log",
    "learn_on_cluster",
    "read_events",
]

# Loaded on first use: the compiler and scipy cost a second that `unswayed --help` need not pay.
_HOMES = {
    "AsyncClient": "unswayed.service.client",
    "Client": "unswayed.service.client",
    "Columns": "unswayed.events",
    "Decision": "unswayed.policy",
    "Events": "unswayed.events",
    "InputError": "unswayed.errors",
    "Labels": "unswayed.events",
    "LearnOptions": "unswayed.learners.options",
    "Policy": "unswayed.policy",
    "RobustMCB": "unswayed.learners",
    "learn_log": "unswayed.learners.from_log",
    "learn_on_cluster": "unswayed.learners.from_log",
    "read_events": "unswayed.events",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("unswayed")
    if name not in _HOMES:
        raise AttributeError(f"module 'unswayed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
