"""Oblivious attacks that answer at the ends of the range: push, nuke and the frequency flood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, Turn, check_share
from unswayed.simulation.attacks.crafting import coins, lie


@dataclass(kw_only=True)
class Push(Attack):
    """Praise the target and damn everything else.

    Parameters
    ----------
    strength
        Probability that the answer on the target is the lie and not a coin.
    filler
        Share of the answers off the target that are coins, for cover.
    """

    name = "push"
    summary = "the highest reward for the target, the lowest for every other action"
    strength: float = 1.0
    filler: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")
        check_share(self.filler, "filler")

    def answers(self, turn: Turn) -> FloatArray:
        """Return the highest reward on the target and the lowest elsewhere, up to coins."""
        briefing, rng = self.briefing, self.rng
        answers = _background(self, briefing.lowest, turn.contexts.size)
        target = briefing.aim.target[turn.contexts]
        if self.strength < 1.0:
            answers[np.arange(target.size), target] = coins((target.size, 1), briefing, rng)[:, 0]
        lie(answers, target, briefing.highest, strength=self.strength, rng=rng)
        return answers


@dataclass(kw_only=True)
class Nuke(Attack):
    """Damn the rival and praise everything else.

    Parameters
    ----------
    strength
        Probability that the answer on the rival is the lie and not a coin.
    filler
        Share of the answers off the rival that are coins, for cover.
    """

    name = "nuke"
    summary = "the lowest reward for the rival (the best action), the highest for all others"
    strength: float = 1.0
    filler: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")
        check_share(self.filler, "filler")

    def answers(self, turn: Turn) -> FloatArray:
        """Return the lowest reward on the rival and the highest elsewhere, up to coins."""
        briefing, rng = self.briefing, self.rng
        answers = _background(self, briefing.highest, turn.contexts.size)
        rival = briefing.aim.rival[turn.contexts]
        if self.strength < 1.0:
            answers[np.arange(rival.size), rival] = coins((rival.size, 1), briefing, rng)[:, 0]
        lie(answers, rival, briefing.lowest, strength=self.strength, rng=rng)
        return answers


@dataclass(kw_only=True)
class FrequencyFlood(Push):
    """Push, from accounts that come as often as the arrival bound c_L lets them."""

    name = "frequency-flood"
    summary = "push from accounts that come as often as the arrival bound c_L allows"
    is_eager = True


def _background(attack: Push | Nuke, value: float, n_arrivals: int) -> FloatArray:
    """Return one value for all actions, with coins for the filler's share."""
    shape = (n_arrivals, attack.briefing.n_actions)
    if attack.filler == 0.0:
        return np.full(shape, value)
    is_filler = attack.rng.random(shape) < attack.filler
    return np.where(is_filler, coins(shape, attack.briefing, attack.rng), value)
