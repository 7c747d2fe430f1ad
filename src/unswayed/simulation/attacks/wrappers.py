"""Attacks that behave well part of the time: by rounds, or by the epochs of a learner.

The schedule of ``unswayed.learners.epochs`` depends on the size of the world alone, which anybody
may know. Against learners without epochs the same rounds are attacked.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.epochs import planned_schedule
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    Offer,
    OneOf,
    PlayedRound,
    Replaying,
    Turn,
    at_least,
    fraction,
    knob,
)

SEARCHED = ("push", "nuke", "runner-up-swap", "tailored")
"""Ours: the inner attacks that searches try."""


class Wrapper(Replaying):
    """Play another attack while awake, and replay good users' histories while asleep.

    It knows histories, and whatever the inner attack knows; the inner attack learns only its own
    share.
    """

    inner: Attack = field(metadata={"range": OneOf(SEARCHED)})

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
        return self.replayed(turn.contexts)

    def observe(self, played: PlayedRound) -> None:
        """Remember the round, and show it to an inner attack that may see it."""
        super().observe(played)
        if Knowledge.HISTORIES in self.inner.knows:
            self.inner.observe(played)


class Sleeper(Wrapper):
    """Replays good histories for a while, then plays another attack.

    Parameters
    ----------
    inner
        The attack to wake up to.
    wake
        Share of the rounds slept through. The default is what the paper's method spends on
        context probabilities before it looks at rewards.
    """

    name = "sleeper"
    wake: float = fraction(0.2, (0.0, 0.9))

    def is_awake(self, round_number: int) -> bool:
        """Return whether the sleep is over."""
        return round_number >= self.wake * self.briefing.interactions_per_user


class OnOff(Wrapper):
    """Replays good histories and plays another attack in turns, epoch by epoch.

    Parameters
    ----------
    inner
        The attack of the bad epochs.
    period
        Rounds in an epoch; the first epoch is good.
    """

    name = "on-off"
    period: int = at_least(1, 5, (1, 2, 3, 5, 10))

    def is_awake(self, round_number: int) -> bool:
        """Return whether the epoch is a bad one."""
        return (round_number // self.period) % 2 == 1


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


class EpochSleeper(EpochAware):
    """Good until the epoch that the last policy is learned from, then another attack.

    Parameters
    ----------
    inner
        The attack to wake up to.
    """

    name = "epoch-sleeper"

    def attacks_in(self, epoch: int) -> bool:
        """Return whether the epoch is the one before the last, or the last."""
        return epoch >= self.last_epoch - 1


class EpochOnOff(EpochAware):
    """Plays another attack in every other epoch, and replays good histories between.

    Parameters
    ----------
    inner
        The attack of the bad epochs.
    first
        0 to begin in epoch 0, 1 to begin in epoch 1.
    """

    name = "epoch-on-off"
    first: int = knob(0, lambda value: value in (0, 1), "give 0 or 1", OneOf((0, 1)))

    def attacks_in(self, epoch: int) -> bool:
        """Return whether the epoch is a bad one."""
        return epoch % 2 == self.first


class EpochStrike(EpochAware):
    """Plays another attack in a single epoch, to have the best action eliminated there.

    Parameters
    ----------
    inner
        The attack; "nuke" damns the best action.
    epoch
        The epoch to strike in.
    """

    name = "epoch-strike"
    epoch: int = at_least(0, 0, (0, 1, 2, 3, 4, 5, 6))

    def attacks_in(self, epoch: int) -> bool:
        """Return whether it is the epoch to strike in."""
        return epoch == self.epoch


class ThrowawayAccounts(EpochAware):
    """Each account plays another attack in one epoch of its own and is good otherwise.

    Parameters
    ----------
    inner
        The attack; it must not choose contexts.
    """

    name = "throwaway-accounts"

    def contexts(self, turn: Turn) -> IntArray:
        """Return the contexts that nature gave: not all accounts attack."""
        return turn.contexts

    def rewards(self, turn: Turn) -> FloatArray:
        """Let the inner attack report for the accounts whose epoch it is, replay for the others."""
        rewards = self.replayed(turn.contexts)
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


class ExplorerFlood(EpochAware):
    """Another attack by accounts that come as often as c_L allows, to explore more.

    Parameters
    ----------
    inner
        The attack of the explorers.
    """

    name = "explorer-flood"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_eager = True
