"""Attacks that answer at the ends of the range: push, nuke, and push from chosen contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.interface import FloatArray, IntArray
from unswayed.names import find
from unswayed.simulation.attacks.base import Attack, Turn, check_share
from unswayed.simulation.attacks.briefing import Briefing, Knowledge
from unswayed.simulation.attacks.crafting import coins, lie


@dataclass(kw_only=True)
class Loud(Attack):
    """One end of the range for the action aimed at, the other end for all others.

    Parameters
    ----------
    strength
        Probability that the answer on the action aimed at is the lie and not a coin.
    filler
        Share of the rewards on other actions that are coins, for cover.
    """

    strength: float = 1.0
    filler: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")
        check_share(self.filler, "filler")

    def rewards_around(self, aimed_at: IntArray, *, answer: float, elsewhere: float) -> FloatArray:
        """Return rewards, shape (n, n_actions), for arrivals that aim at one action each."""
        n_arrivals = aimed_at.size
        shape = (n_arrivals, self.briefing.n_actions)
        rewards = np.full(shape, elsewhere)
        if self.filler > 0.0:
            is_filler = self.rng.random(shape) < self.filler
            rewards = np.where(is_filler, coins(shape, self.briefing, self.rng), elsewhere)
        if self.strength < 1.0:
            drawn = coins((n_arrivals, 1), self.briefing, self.rng)
            rewards[np.arange(n_arrivals), aimed_at] = drawn[:, 0]
        lie(rewards, aimed_at, answer, strength=self.strength, rng=self.rng)
        return rewards


@dataclass(kw_only=True)
class Push(Loud):
    """Praise the target and damn everything else."""

    name = "push"
    summary = "the highest reward for the target, the lowest for every other action"

    def rewards(self, turn: Turn) -> FloatArray:
        """Return the highest reward on the target and the lowest elsewhere, up to coins."""
        target = self.briefing.aim.target[turn.contexts]
        return self.rewards_around(
            target, answer=self.briefing.highest, elsewhere=self.briefing.lowest
        )


@dataclass(kw_only=True)
class Nuke(Loud):
    """Damn the rival and praise everything else."""

    name = "nuke"
    summary = "the lowest reward for the rival (the best action), the highest for all others"

    def rewards(self, turn: Turn) -> FloatArray:
        """Return the lowest reward on the rival and the highest elsewhere, up to coins."""
        rival = self.briefing.aim.rival[turn.contexts]
        return self.rewards_around(
            rival, answer=self.briefing.lowest, elsewhere=self.briefing.highest
        )


@dataclass(kw_only=True)
class FrequencyFlood(Push):
    """Push, from accounts that come as often as the arrival bound c_L lets them."""

    name = "frequency-flood"
    summary = "push from accounts that come as often as the arrival bound c_L allows"
    is_eager = True


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
