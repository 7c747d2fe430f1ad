"""The ways to learn from collected interactions, by name."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import Design
from unswayed.learners.discount import learn_discounted
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import learn_paper
from unswayed.names import find
from unswayed.plugins import load_plugins
from unswayed.tallies import Tallies, UserTallies


class Method(Protocol):
    """Turns tallies into estimates of the good users' mean rewards."""

    def __call__(
        self,
        tallies: UserTallies,
        design: Design,
        *,
        adversarial_fraction: float,
        warmup: Tallies | None = None,
    ) -> Estimates:
        """Learn from the tallies; see ``learn_paper`` for the parameters."""
        ...


METHODS: dict[str, Method] = {
    "bounded": learn_bounded,
    "paper": learn_paper,
    "discount": learn_discounted,
}
"""All methods by name; add your own, as docs/extend.md shows."""

DEFAULT_METHOD = "discount"
"""Ours: it loses less than the paper's in most attacked worlds; docs/learner.md says where not."""


WHILE_SERVING: dict[str, Method] = {"discount": partial(learn_discounted, asks_majority=True)}
"""Methods that learn otherwise while they serve: what they believe is acted upon at once."""


def method_names() -> list[str]:
    """Return the names of all methods, those of plugins included."""
    load_plugins()
    return list(METHODS)


def method_named(name: str, *, while_serving: bool = False) -> Method:
    """Return a method by its name; an unknown name lists the choices."""
    load_plugins()
    method = find(name, METHODS, kind="method")
    return WHILE_SERVING.get(name, method) if while_serving else method
