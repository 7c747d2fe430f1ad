"""What every attack is: accounts that choose their contexts and their rewards, round by round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.simulation.attacks.briefing import Aim, Briefing, ForbiddenKnowledgeError, Knowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The coalition's arrivals of one round, in order.

    Attributes
    ----------
    round_number
        Counted from 0; a round brings about one arrival per user.
    accounts
        Shape (n,); positions in `Briefing.accounts`. An account may come twice in a round.
    contexts
        Shape (n,); the contexts that nature gave these accounts, or those they chose.
    """

    round_number: int
    accounts: IntArray
    contexts: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRound:
    """What happened in one round, for attacks that see histories; all shapes (n_arrivals,)."""

    round_number: int
    users: IntArray
    contexts: IntArray
    actions: IntArray
    rewards: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a coalition sees when it registers its accounts, before anybody arrives."""

    n_users: int
    n_accounts: int
    n_contexts: int
    n_actions: int
    aim: Aim


class Attack(ABC):
    """A coalition's plan. Its class names it, sums it up and says what it knows.

    An attack object plays one run: `begin` first, then for every round `contexts`, `rewards` and,
    if it knows histories, `observe`. Knobs are the fields of the (dataclass) attack.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    knows: Knowledge = Knowledge.OBLIVIOUS
    is_eager: bool = False
    """Whether the accounts come as often as the arrival bound c_L lets them."""

    briefing: Briefing
    rng: np.random.Generator

    def enrol(self, offer: Offer, rng: np.random.Generator) -> IntArray | None:  # noqa: ARG002 - a hook
        """Return the user codes to register under, shape (n_accounts,); None takes random ones."""
        return None

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Take the briefing and the attack's own randomness."""
        if briefing.knows != self.knows:
            raise ForbiddenKnowledgeError(
                f"{self.name} claims {self.knows.letters} but was briefed {briefing.knows.letters}."
            )
        self.briefing = briefing
        self.rng = rng

    def contexts(self, turn: Turn) -> IntArray:
        """Return the contexts to arrive with, shape (n,); by default those nature gave."""
        return turn.contexts

    @abstractmethod
    def rewards(self, turn: Turn) -> FloatArray:
        """Return the reward that each action would bring, shape (n, n_actions)."""

    def observe(self, played: PlayedRound) -> None:  # noqa: B027 - most attacks see nothing
        """See a round that was played; only attacks that know histories are shown any."""


def check_share(value: float, knob: str) -> None:
    """Reject a knob that is not a share between 0 and 1."""
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{knob} is {value}: it must lie between 0 and 1.")


def check_positive(value: float, knob: str) -> None:
    """Reject a knob that is not positive and finite."""
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"{knob} is {value}: it must be positive and finite.")
