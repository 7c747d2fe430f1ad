"""What an attack claims to know, and what it gets to know before the first arrival: no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.simulation.instances import Instance, RewardLaw, draw_rewards

if TYPE_CHECKING:
    from unswayed.simulation.attacks.base import Attack
from enum import Flag


class Knowledge(Flag):
    """What a coalition knows beyond its own accounts, its aim and the size of the world.

    An oblivious attack knows nothing more; flags combine with ``|``.
    """

    OBLIVIOUS = 0
    BANDIT = 1
    ALGORITHM = 2
    HISTORIES = 4

    @property
    def letters(self) -> str:
        """Return the short form: O, or the letters B, A and H of what is known.

        >>> (Knowledge.HISTORIES | Knowledge.ALGORITHM).letters
        'AH'
        """
        return "".join(flag.name[0] for flag in self if flag.name) or "O"


class ForbiddenKnowledgeError(RuntimeError):
    """An attack asked for something that it does not claim to know."""


LOUD_DEVIATIONS = 2.0
"""Ours: without natural ends, "the largest reward" is the top mean plus two deviations."""

Rehearsal = Callable[["Attack", int], float]
"""Plays an attack against the learner's algorithm in a private world; gives suboptimality."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What the coalition wants: in each context one action up and one down.

    A goal is not knowledge: a seller knows which product to promote and which rival to harm
    without knowing what either is worth. The arena names the best action as the rival.

    Attributes
    ----------
    target, rival
        Shape (n_contexts,); the action to promote and the action to demote.
    """

    target: IntArray
    rival: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What only some attacks may know; `Briefing` hands it out item by item."""

    instance: Instance
    algorithm: str
    assumed_fraction: float
    rehearse: Rehearsal


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """What the coalition may know; asking for more than ``knows`` raises.

    Attributes
    ----------
    accounts
        Shape (n_accounts,); the user codes of the coalition, ascending.
    lowest, highest
        The ends of the rewards that look possible: 0 and 1 for binary rewards, otherwise two
        deviations beyond means of 0 and 1.
    is_binary
        Whether rewards are zeros and ones, which anybody can see from one's own screen.
    """

    knows: Knowledge
    n_users: int
    n_contexts: int
    n_actions: int
    interactions_per_user: int
    accounts: IntArray
    aim: Aim
    lowest: float
    highest: float
    is_binary: bool
    _secrets: Secrets = field(repr=False)

    @property
    def n_accounts(self) -> int:
        """Return how many accounts the coalition holds."""
        return int(self.accounts.size)

    @property
    def alpha(self) -> float:
        """Return the coalition's true share of the users, which it can count."""
        return self.n_accounts / self.n_users

    @property
    def context_probabilities(self) -> FloatArray:
        """Return how often good users come with each context, shape (n_contexts,)."""
        return self._known(Knowledge.BANDIT, "context_probabilities").instance.context_probabilities

    @property
    def mean_rewards(self) -> FloatArray:
        """Return good users' mean rewards, shape (n_contexts, n_actions)."""
        return self._known(Knowledge.BANDIT, "mean_rewards").instance.mean_rewards

    @property
    def reward_deviations(self) -> FloatArray:
        """Return the standard deviation of good rewards, shape (n_contexts, n_actions)."""
        instance = self._known(Knowledge.BANDIT, "reward_deviations").instance
        if instance.law is RewardLaw.BERNOULLI:
            return np.sqrt(instance.mean_rewards * (1.0 - instance.mean_rewards))
        return np.full_like(instance.mean_rewards, instance.deviation)

    def honest_rewards(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw rewards as good users with these means would; same shape as ``means``."""
        instance = self._known(Knowledge.BANDIT, "honest_rewards").instance
        return draw_rewards(means, law=instance.law, deviation=instance.deviation, rng=rng)

    @property
    def algorithm(self) -> str:
        """Return the name of the learner's algorithm."""
        return self._known(Knowledge.ALGORITHM, "algorithm").algorithm

    @property
    def assumed_fraction(self) -> float:
        """Return the share of colluders that the learner assumes."""
        return self._known(Knowledge.ALGORITHM, "assumed_fraction").assumed_fraction

    @property
    def rehearse(self) -> Rehearsal:
        """Return a way to try an attack on the same algorithm in private worlds."""
        return self._known(Knowledge.ALGORITHM, "rehearse").rehearse

    def _known(self, needed: Knowledge, name: str) -> Secrets:
        if needed not in self.knows:
            raise ForbiddenKnowledgeError(
                f"this attack asked for {name}, which takes knowledge {needed.letters}, "
                f"but it claims {self.knows.letters}."
            )
        return self._secrets


def reward_ends(instance: Instance) -> tuple[float, float]:
    """Return the ends of the rewards that look possible; see `Briefing`."""
    margin = 0.0 if instance.law is RewardLaw.BERNOULLI else LOUD_DEVIATIONS * instance.deviation
    return -margin, 1.0 + margin
