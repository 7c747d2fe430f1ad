"""Good users' own words, except where it matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, PlayedRound, Turn, check_share
from unswayed.simulation.attacks.briefing import Briefing
from unswayed.simulation.attacks.crafting import Replay, lie
from unswayed.simulation.attacks.knowledge import Knowledge


@dataclass(kw_only=True)
class Mimicry(Attack):
    """Replay what good users answered, except for praising the target.

    Parameters
    ----------
    strength
        Probability that an answer on the target is the lie and not a replay.
    """

    name = "mimicry"
    summary = "replays good users' rewards, except the highest reward for the target"
    knows = Knowledge.HISTORIES
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Open the memory."""
        super().begin(briefing, rng)
        self._replay = Replay(briefing, rng)

    def answers(self, turn: Turn) -> FloatArray:
        """Return replays with the target praised."""
        answers = self._replay.answers(turn.contexts)
        target = self.briefing.aim.target[turn.contexts]
        lie(answers, target, self.briefing.highest, strength=self.strength, rng=self.rng)
        return answers

    def observe(self, played: PlayedRound) -> None:
        """Remember what good users answered."""
        self._replay.record(played)
