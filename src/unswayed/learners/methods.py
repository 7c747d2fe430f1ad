"""The ways to learn from collected interactions, by name."""

from __future__ import annotations

from typing import Protocol

from unswayed.errors import InputError
from unswayed.learners.design import Design
from unswayed.learners.discount import learn_discounted
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import learn_paper
from unswayed.tallies import BlockedTallies, Tallies


class Method(Protocol):
    """Turns tallies into estimates of the good users' mean rewards."""

    def __call__(
        self,
        tallies: Tallies | BlockedTallies,
        design: Design,
        *,
        adversarial_fraction: float,
        warmup: Tallies | None = None,
    ) -> Estimates:
        """Learn from the tallies; see ``learn_paper`` for the parameters."""
        ...


METHODS: dict[str, Method] = {"paper": learn_paper, "discount": learn_discounted}
DEFAULT_METHOD = "discount"
"""Ours: it loses less than the paper's in most attacked worlds; docs/learner.md says where not."""


def method_named(name: str) -> Method:
    """Return a method by its name, or say which there are."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; choose one of: {', '.join(METHODS)}.")
    return METHODS[name]
