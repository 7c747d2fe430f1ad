"""Decisions that a coalition of fake users cannot sway."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if os.name != "posix":
    raise ImportError(
        "unswayed locks files as POSIX systems do: use Linux, macOS, or WSL on Windows."
    )

from unswayed.lazy import lazy_names

if TYPE_CHECKING:
    __version__: str
    from unswayed import paper
    from unswayed.audit.auditing import audit_log
    from unswayed.errors import InputError
    from unswayed.evaluation import Evaluation, evaluate_policy
    from unswayed.events import Columns, Events, Labels, read_events
    from unswayed.learners.from_log import learn_log, learn_on_cluster
    from unswayed.learners.options import LearnOptions
    from unswayed.policy import Decision, Policy
    from unswayed.robust_mcb import RobustMCB
    from unswayed.service.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "Columns",
    "Decision",
    "Evaluation",
    "Events",
    "InputError",
    "Labels",
    "LearnOptions",
    "Policy",
    "RobustMCB",
    "__version__",
    "audit_log",
    "evaluate_policy",
    "learn_log",
    "learn_on_cluster",
    "paper",
    "read_events",
]

_find = lazy_names(__name__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("unswayed")
    if name == "paper":
        return import_module("unswayed.paper")
    return _find(name)


def __dir__() -> list[str]:
    return sorted(__all__)
