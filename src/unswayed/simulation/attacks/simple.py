"""Attacks with one rule for every answer: honest (the control), flip, extreme and heavy-tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, Turn, check_positive
from unswayed.simulation.attacks.briefing import Knowledge
from unswayed.simulation.attacks.crafting import coins


@dataclass(kw_only=True)
class Honest(Attack):
    """Answer like a good user."""

    name = "honest"
    summary = "the accounts answer like good users: the negative control"
    knows = Knowledge.BANDIT

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws."""
        return self.briefing.honest_rewards(self.briefing.mean_rewards[turn.contexts], self.rng)


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

    def rewards(self, turn: Turn) -> FloatArray:
        """Return draws around the flipped means."""
        centre = 0.5 if self.briefing.is_binary else 0.0
        means = self.briefing.mean_rewards[turn.contexts]
        return self.briefing.honest_rewards(centre - self.strength * (means - centre), self.rng)


@dataclass(kw_only=True)
class Extreme(Attack):
    """Answer +M on the target and -M on the rival, where nobody checks the range of rewards.

    Parameters
    ----------
    magnitude
        M.
    """

    name = "extreme"
    summary = "+M for the target, -M for the rival, far beyond any good reward"
    magnitude: float = 100.0

    def __post_init__(self) -> None:
        check_positive(self.magnitude, "magnitude")

    def rewards(self, turn: Turn) -> FloatArray:
        """Return coins, with huge rewards on target and rival."""
        rows = np.arange(turn.contexts.size)
        rewards = coins((rows.size, self.briefing.n_actions), self.briefing, self.rng)
        rewards[rows, self.briefing.aim.target[turn.contexts]] = self.magnitude
        rewards[rows, self.briefing.aim.rival[turn.contexts]] = -self.magnitude
        return rewards


@dataclass(kw_only=True)
class HeavyTail(Attack):
    """Answer with Cauchy rewards, which have no mean, signed by the aim.

    Parameters
    ----------
    scale
        The median size of a reward.
    """

    name = "heavy-tail"
    summary = "Cauchy rewards: positive for the target, negative for the rival, both elsewhere"
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")

    def rewards(self, turn: Turn) -> FloatArray:
        """Return Cauchy draws with the aim's signs."""
        rows = np.arange(turn.contexts.size)
        shape = (rows.size, self.briefing.n_actions)
        rewards: FloatArray = self.scale * self.rng.standard_cauchy(shape)
        target, rival = (
            actions[turn.contexts]
            for actions in (self.briefing.aim.target, self.briefing.aim.rival)
        )
        rewards[rows, target] = np.abs(rewards[rows, target])
        rewards[rows, rival] = -np.abs(rewards[rows, rival])
        return rewards
