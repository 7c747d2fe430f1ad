"""The opposite of what good users say."""

from __future__ import annotations

from dataclasses import dataclass

from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, Turn, check_positive
from unswayed.simulation.attacks.knowledge import Knowledge


@dataclass(kw_only=True)
class Flip(Attack):
    """Answer with the mean's sign flipped: r = -strength * mu + noise.

    Binary rewards cannot be negative, so there the mean is mirrored at one half.

    Parameters
    ----------
    strength
        How far the flipped mean lies from the centre, in units of the honest mean's distance.
        A plain mean keeps its order until strength exceeds (1 - alpha) / alpha.
    """

    name = "flip"
    summary = "the mean reward with its sign flipped (mirrored at 1/2 when rewards are binary)"
    knows = Knowledge.BANDIT
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.strength, "strength")

    def answers(self, turn: Turn) -> FloatArray:
        """Return draws around the flipped means."""
        centre = 0.5 if self.briefing.is_binary else 0.0
        means = self.briefing.mean_rewards[turn.contexts]
        return self.briefing.honest_answers(centre - self.strength * (means - centre), self.rng)
