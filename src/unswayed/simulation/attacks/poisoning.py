"""Attacks through the contexts that accounts claim to be in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.interface import IntArray
from unswayed.names import find
from unswayed.simulation.attacks.base import Turn
from unswayed.simulation.attacks.briefing import Briefing
from unswayed.simulation.attacks.knowledge import Knowledge
from unswayed.simulation.attacks.loud import Push


@dataclass(kw_only=True)
class ContextPoisoning(Push):
    """Push, from contexts chosen to mislead a method that treats frequent contexts apart.

    How frequent contexts are is counted from those nature gives to the coalition's own accounts.

    Parameters
    ----------
    mode
        "crowd": all accounts come with one of the A most frequent contexts (the paper's S₊);
        "inflate": all come with the rarest context, to make it look frequent.
    """

    name = "context-poisoning"
    summary = "push from the most frequent contexts (mode=crowd) or from the rarest (mode=inflate)"
    knows = Knowledge.ALGORITHM
    mode: str = "inflate"

    def __post_init__(self) -> None:
        super().__post_init__()
        find(self.mode, {"crowd": None, "inflate": None}, kind="mode of context-poisoning")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Start counting."""
        super().begin(briefing, rng)
        self._seen = np.zeros(briefing.n_contexts)

    def contexts(self, turn: Turn) -> IntArray:
        """Return one frequent context for each arrival, or the rarest one for all."""
        self._seen += np.bincount(turn.contexts, minlength=self._seen.size)
        order = np.argsort(-self._seen, kind="stable")
        if self.mode == "inflate":
            return np.full(turn.contexts.size, order[-1])
        frequent = order[: self.briefing.n_actions]
        return self.rng.choice(frequent, turn.contexts.size)
