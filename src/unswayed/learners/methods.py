"""The methods of learning from collected interactions, by name."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Protocol

from unswayed.defaults import DEFAULT_METHOD as DEFAULT_METHOD
from unswayed.errors import Note
from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import learn_paper
from unswayed.names import find
from unswayed.plugins import load_plugins
from unswayed.tallies import Tallies, UserTallies


class Method(Protocol):
    """Turns tallies into estimates of the good users' mean rewards."""

    def __call__(
        self, tallies: UserTallies, design: Design, *, alpha: float, warmup: Tallies | None = None
    ) -> Estimates:
        """Learn from the tallies; see ``learn_paper`` for the parameters."""


METHODS: dict[str, Method] = {
    "bounded": learn_bounded,
    "paper": learn_paper,
    "paper-literal": partial(learn_paper, is_literal=True),
}
"""All methods by name; add your own, as docs/extend.md shows."""

RENAMED = {"discount": "bounded", "discount-on-log": "bounded-on-log"}
"""Former names of methods and learners; old scripts, campaigns and files may contain them."""


def method_names() -> list[str]:
    """Return the names of all methods, including those of plugins."""
    load_plugins()
    return list(METHODS)


def current_name(name: str) -> str:
    """Return the current name of a method or learner; emits a note if it was renamed."""
    if name not in RENAMED or name in METHODS:
        return name
    warnings.warn(f"{name} is now called {RENAMED[name]}.", Note, stacklevel=1)
    return RENAMED[name]


def known_method(name: str) -> str:
    """Return the current name of a method; raise for unknown names."""
    load_plugins()
    name = current_name(name)
    find(name, METHODS, kind="method")
    return name


def method_named(name: str) -> Method:
    """Return a method by its name; an unknown name lists the choices."""
    return METHODS[known_method(name)]
