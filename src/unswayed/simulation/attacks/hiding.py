"""The coalitions of the lower bound: they make the best action look like the runner-up."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.limits import HidingAdversary, RewardUrns, one_sided_adversary, two_sided_adversaries
from unswayed.simulation.attacks.base import Attack, Turn, honest_table
from unswayed.simulation.attacks.briefing import Briefing, Knowledge


@dataclass(kw_only=True)
class Hiding(Attack):
    """Draw rewards of contested actions from urns whose counts hide which action is best.

    Every account has an urn of ``plays`` rewards for each context. It draws from it at each visit
    of the context, whether or not the contested action is then played: the order in an urn is
    uniformly random, so what is shown of it is hidden just as well as a beginning of it.

    Parameters
    ----------
    plays
        Length n of the histories to hide; 0 takes each context's expected visits per user.
    """

    knows = Knowledge.BANDIT
    plays: int = 0

    def __post_init__(self) -> None:
        if self.plays < 0:
            raise InputError(f"plays is {self.plays}: it cannot be negative.")

    @abstractmethod
    def adversaries(self, gap: float, plays: int, base: float) -> list[HidingAdversary]:
        """Return the adversary of the best action and, if contested, of the runner-up."""

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Fill the urns of every context."""
        super().begin(briefing, rng)
        if not briefing.is_binary:
            raise InputError(
                f"attack {self.name} hides in counts of ones and zeros: it needs Bernoulli rewards."
            )
        self._ranking: IntArray = np.argsort(-briefing.mean_rewards, axis=1, kind="stable")
        if briefing.n_accounts:
            self._urns = [self._filled(context) for context in range(briefing.n_contexts)]

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with contested actions from the urns."""
        rewards = honest_table(self.briefing, turn, self.rng)
        for context in np.unique(turn.contexts):
            rows = np.flatnonzero(turn.contexts == context)
            for action, urns in zip(self._ranking[context], self._urns[context], strict=False):
                rewards[rows, action] = urns.draw(turn.accounts[rows], self.rng)
        return rewards

    def _filled(self, context: int) -> list[RewardUrns]:
        briefing = self.briefing
        best, runner_up = briefing.mean_rewards[context, self._ranking[context, :2]]
        if best <= runner_up:
            return []  # a tie hides itself
        visits = briefing.interactions_per_user * briefing.context_probabilities[context]
        plays = self.plays or max(1, round(visits))
        return [
            adversary.start(briefing.n_accounts, self.rng)
            for adversary in self.adversaries(best - runner_up, plays, runner_up)
        ]


@dataclass(kw_only=True)
class HidingOneSided(Hiding):
    """The paper's E^(n): the best action looks like the runner-up in a world without colluders."""

    name = "hiding"
    summary = "the paper's E^(n): histories that make the best action look like the runner-up"

    def adversaries(self, gap: float, plays: int, base: float) -> list[HidingAdversary]:
        """Return the one-sided adversary of the best action."""
        return [one_sided_adversary(gap, plays, self.briefing.adversarial_fraction, base=base)]


@dataclass(kw_only=True)
class HidingTwoSided(Hiding):
    """Best and runner-up look alike: the worlds in which either is the best are both poisoned."""

    name = "hiding-two-sided"
    summary = "the pair of hiding coalitions: best and runner-up get histories that look alike"

    def adversaries(self, gap: float, plays: int, base: float) -> list[HidingAdversary]:
        """Return the adversaries of the best action and of the runner-up."""
        share = self.briefing.adversarial_fraction
        pair = two_sided_adversaries(gap, plays, share, base=base)
        return [pair.better, pair.ordinary]
