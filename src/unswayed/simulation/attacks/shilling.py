"""The classics of shilling, and mimicry: profiles that look ordinary except on the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    PlayedRound,
    Replay,
    Turn,
    check_share,
    coins,
    honest_table,
    lie,
)


@dataclass(kw_only=True)
class Shilling(Attack):
    """Praise the target from an ordinary-looking profile.

    Parameters
    ----------
    strength
        Probability that a reward of the target is the lie; otherwise it is the profile's.
    """

    knows = Knowledge.BANDIT
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")

    def profile(self, turn: Turn) -> FloatArray:
        """Return the ordinary-looking rewards; here those of good users."""
        return honest_table(self.briefing, turn, self.rng)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return the profile with the target praised."""
        rewards = self.profile(turn)
        target = self.briefing.aim.target[turn.contexts]
        lie(rewards, target, self.briefing.highest, strength=self.strength, rng=self.rng)
        return rewards


@dataclass(kw_only=True)
class Average(Shilling):
    """Report rewards around each action's average over contexts, as public ratings show it."""

    name = "average"
    summary = "each action's average over contexts, except the highest reward for the target"

    def profile(self, turn: Turn) -> FloatArray:
        """Return draws around the actions' averages."""
        averages = self.briefing.context_probabilities @ self.briefing.mean_rewards
        means = np.broadcast_to(averages, (turn.contexts.size, self.briefing.n_actions))
        return self.briefing.honest_rewards(means, self.rng)


@dataclass(kw_only=True)
class Bandwagon(Shilling):
    """Praise the most popular action and the target, and toss coins elsewhere."""

    name = "bandwagon"
    summary = "the highest reward for the most popular action and for the target, coins elsewhere"

    def profile(self, turn: Turn) -> FloatArray:
        """Return coins, with the overall favourite praised."""
        rewards = coins((turn.contexts.size, self.briefing.n_actions), self.briefing, self.rng)
        averages = self.briefing.context_probabilities @ self.briefing.mean_rewards
        rewards[:, averages.argmax()] = self.briefing.highest
        return rewards


@dataclass(kw_only=True)
class PowerUser(Shilling):
    """Behave like a good user who comes very often, except on the target."""

    name = "power-user"
    summary = "honest accounts that come as often as c_L allows, except for praising the target"
    is_eager = True


@dataclass(kw_only=True)
class RunnerUpSwap(Attack):
    """Exchange the best action and the runner-up, and be honest about everything else.

    Parameters
    ----------
    strength
        Probability that a reward is the end of the range (highest for the runner-up, lowest for
        the best); otherwise it is an honest draw of the other action. 0 is a pure exchange, which
        a plain mean survives; 1 is the loudest.
    """

    name = "runner-up-swap"
    summary = "best and runner-up exchanged, honest about everything else"
    knows = Knowledge.BANDIT
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws with the two actions exchanged and exaggerated."""
        briefing = self.briefing
        ranking = np.argsort(-briefing.mean_rewards, axis=1, kind="stable")
        best, second = ranking[turn.contexts, 0], ranking[turn.contexts, 1]
        rewards = honest_table(briefing, turn, self.rng)
        rows = np.arange(turn.contexts.size)
        rewards[rows, best], rewards[rows, second] = rewards[rows, second], rewards[rows, best]
        lie(rewards, second, briefing.highest, strength=self.strength, rng=self.rng)
        lie(rewards, best, briefing.lowest, strength=self.strength, rng=self.rng)
        return rewards


@dataclass(kw_only=True)
class Mimicry(Attack):
    """Replay good users' rewards, except for praising the target.

    Parameters
    ----------
    strength
        Probability that a reward of the target is the lie and not a replay.
    """

    name = "mimicry"
    summary = "replays good users' rewards, except the highest reward for the target"
    knows = Knowledge.HISTORIES
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Reset the attack's state for a new run."""
        super().begin(briefing, rng)
        self._replay = Replay(briefing, rng)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return replays with the target praised."""
        rewards = self._replay.rewards(turn.contexts)
        target = self.briefing.aim.target[turn.contexts]
        lie(rewards, target, self.briefing.highest, strength=self.strength, rng=self.rng)
        return rewards

    def observe(self, played: PlayedRound) -> None:
        """Record the good users' rewards."""
        self._replay.record(played)
