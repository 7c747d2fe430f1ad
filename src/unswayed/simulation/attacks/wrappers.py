"""Attacks that behave well part of the time: by rounds, or by the epochs of a learner.

The schedule of ``unswayed.learners.epochs`` depends on the size of the world alone, which anybody
may know. Against learners without epochs the same rounds are attacked.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.learners.epochs import planned_schedule
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    Offer,
    PlayedRound,
    Replaying,
    Turn,
    at_least,
    fraction,
)


@dataclass(kw_only=True)
class Wrapper(Replaying):
    """Play another attack while awake, and replay good users' histories while asleep.

    It knows histories, and whatever the inner attack knows; the inner attack learns only its own
    share.
    """

    inner: Attack

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def contexts(self, turn: Turn) -> IntArray:
        """Let the inner attack choose while awake."""
        return self.inner.contexts(turn) if self.is_awake(turn.round_number) else turn.contexts

    def rewards(self, turn: Turn) -> FloatArray:
        """Let the inner attack report while awake, replay otherwise."""
        if self.is_awake(turn.round_number):
            return self.inner.rewards(turn)
        return self.replay.rewards(turn.contexts)

    def observe(self, played: PlayedRound) -> None:
        """Remember the round, and show it to an inner attack that may see it."""
        super().observe(played)
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
    wake: float = fraction(0.2)

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
    period: int = at_least(1, 5)

    def is_awake(self, round_number: int) -> bool:
        """Return whether the epoch is a bad one."""
        return (round_number // self.period) % 2 == 1


@dataclass(kw_only=True)
class EpochAware(Wrapper):
    """Play another attack in some epochs, and replay good users' histories in the others."""

    knows = Knowledge.HISTORIES | Knowledge.ALGORITHM

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Look up when epochs end."""
        super().begin(briefing, rng)
        self._schedule = planned_schedule(
            n_users=briefing.n_users,
            n_contexts=briefing.n_contexts,
            n_actions=briefing.n_actions,
        )
        self.last_epoch = self.epoch_of(briefing.interactions_per_user - 1)

    def epoch_of(self, round_number: int) -> int:
        """Return the epoch of a round."""
        return self._schedule.epoch_at(round_number)

    def is_awake(self, round_number: int) -> bool:
        """Return whether this is an epoch to attack."""
        return self.attacks_in(self.epoch_of(round_number))

    def attacks_in(self, epoch: int) -> bool:  # noqa: ARG002 - a choice of subclasses
        """Return whether the inner attack plays in an epoch; by default in every one."""
        return True


@dataclass(kw_only=True)
class EpochSleeper(EpochAware):
    """Behave well until the last decision is about to be made, and lie in the epoch before it.

    Parameters
    ----------
    inner
        The attack to wake up to.
    """

    name = "epoch-sleeper"
    summary = "good until the epoch that the last policy is learned from, then another attack"

    def attacks_in(self, epoch: int) -> bool:
        """Return whether the epoch is the one before the last, or the last."""
        return epoch >= self.last_epoch - 1


@dataclass(kw_only=True)
class EpochOnOff(EpochAware):
    """Lie in every other epoch.

    Parameters
    ----------
    inner
        The attack of the bad epochs.
    first
        0 to begin in epoch 0, 1 to begin in epoch 1.
    """

    name = "epoch-on-off"
    summary = "plays another attack in every other epoch, and replays good histories between"
    first: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first not in (0, 1):
            raise InputError(f"first is {self.first}: give 0 or 1.")

    def attacks_in(self, epoch: int) -> bool:
        """Return whether the epoch is a bad one."""
        return epoch % 2 == self.first


@dataclass(kw_only=True)
class EpochStrike(EpochAware):
    """Lie in one epoch only, to have the best action eliminated there.

    Parameters
    ----------
    inner
        The attack; "nuke" damns the best action.
    epoch
        The epoch to strike in.
    """

    name = "epoch-strike"
    summary = "plays another attack in a single epoch, to have the best action eliminated there"
    epoch: int = at_least(0, 0)

    def attacks_in(self, epoch: int) -> bool:
        """Return whether it is the epoch to strike in."""
        return epoch == self.epoch


@dataclass(kw_only=True)
class ThrowawayAccounts(EpochAware):
    """Let each account lie in one epoch of its own, as accounts do that are made for a day.

    Parameters
    ----------
    inner
        The attack; it must not choose contexts.
    """

    name = "throwaway-accounts"
    summary = "each account plays another attack in one epoch of its own and is good otherwise"

    def contexts(self, turn: Turn) -> IntArray:
        """Return the contexts that nature gave: not all accounts attack."""
        return turn.contexts

    def rewards(self, turn: Turn) -> FloatArray:
        """Let the inner attack report for the accounts whose epoch it is, replay for the others."""
        rewards = self.replay.rewards(turn.contexts)
        lies: BoolArray = turn.accounts % (self.last_epoch + 1) == self.epoch_of(turn.round_number)
        if lies.any():
            rewards[lies] = self.inner.rewards(
                Turn(
                    round_number=turn.round_number,
                    accounts=turn.accounts[lies],
                    contexts=turn.contexts[lies],
                )
            )
        return rewards


@dataclass(kw_only=True)
class ExplorerFlood(EpochAware):
    """Come as often as the arrival bound c_L allows, so as to be drawn to explore more often.

    Parameters
    ----------
    inner
        The attack of the explorers.
    """

    name = "explorer-flood"
    summary = "another attack by accounts that come as often as c_L allows, to explore more"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_eager = True
