"""Attacks that hide behind good behaviour part of the time: sleeper and on-off."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.simulation.attacks.base import Attack, Offer, PlayedRound, Turn, check_share
from unswayed.simulation.attacks.briefing import Briefing, Knowledge
from unswayed.simulation.attacks.crafting import Replay


@dataclass(kw_only=True)
class Wrapper(Attack):
    """Play another attack while awake, and replay good users' histories while asleep.

    It knows histories, and whatever the inner attack knows; the inner attack learns only its own
    share.
    """

    knows = Knowledge.HISTORIES
    inner: Attack

    def __post_init__(self) -> None:
        self.knows = type(self).knows | self.inner.knows
        self.is_eager = self.inner.is_eager

    @abstractmethod
    def is_awake(self, round_number: int) -> bool:
        """Return whether the inner attack plays this round."""

    def enrol(self, offer: Offer, rng: np.random.Generator) -> IntArray | None:
        """Let the inner attack choose the accounts."""
        return self.inner.enrol(offer, rng)

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Brief the inner attack as far as it may know."""
        super().begin(briefing, rng)
        self.inner.begin(replace(briefing, knows=self.inner.knows), rng)
        self._replay = Replay(briefing, rng)

    def contexts(self, turn: Turn) -> IntArray:
        """Let the inner attack choose while awake."""
        return self.inner.contexts(turn) if self.is_awake(turn.round_number) else turn.contexts

    def rewards(self, turn: Turn) -> FloatArray:
        """Let the inner attack answer while awake, replay otherwise."""
        if self.is_awake(turn.round_number):
            return self.inner.rewards(turn)
        return self._replay.rewards(turn.contexts)

    def observe(self, played: PlayedRound) -> None:
        """Remember the round, and show it to an inner attack that may see it."""
        self._replay.record(played)
        if Knowledge.HISTORIES in self.inner.knows:
            self.inner.observe(played)


@dataclass(kw_only=True)
class Sleeper(Wrapper):
    """Behave well until trust is earned, then attack.

    Parameters
    ----------
    inner
        The attack to wake up to.
    wake
        Share of the rounds slept through. The default is what the paper's method spends on
        context probabilities before it looks at rewards.
    """

    name = "sleeper"
    summary = "replays good histories for a while, then plays another attack"
    wake: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.wake, "wake")

    def is_awake(self, round_number: int) -> bool:
        """Return whether the sleep is over."""
        return round_number >= self.wake * self.briefing.interactions_per_user


@dataclass(kw_only=True)
class OnOff(Wrapper):
    """Attack in every other epoch, and behave well in between.

    Parameters
    ----------
    inner
        The attack of the bad epochs.
    period
        Rounds in an epoch; the first epoch is good.
    """

    name = "on-off"
    summary = "replays good histories and plays another attack in turns, epoch by epoch"
    period: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period < 1:
            raise InputError(f"period is {self.period}: at least 1 round is needed.")

    def is_awake(self, round_number: int) -> bool:
        """Return whether the epoch is a bad one."""
        return (round_number // self.period) % 2 == 1
