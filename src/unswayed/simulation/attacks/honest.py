"""No attack at all: the negative control."""

from __future__ import annotations

from dataclasses import dataclass

from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, Turn
from unswayed.simulation.attacks.knowledge import Knowledge


@dataclass(kw_only=True)
class Honest(Attack):
    """Answer like a good user."""

    name = "honest"
    summary = "the accounts answer like good users: the negative control"
    knows = Knowledge.BANDIT

    def answers(self, turn: Turn) -> FloatArray:
        """Return honest draws."""
        return self.briefing.honest_answers(self.briefing.mean_rewards[turn.contexts], self.rng)
