"""Attacks that report extreme rewards, and profiles that look ordinary except on the target."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.policy import Assignment
from unswayed.policy.assignment import SECRET_BYTES
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    Offer,
    Replaying,
    Turn,
    fraction,
    one_of,
    positive,
)


class Loud(Attack):
    """Report one end of the range for the targeted action, the other end for all others."""

    # probability that the targeted action gets the lie instead of a coin flip
    strength: float = fraction(1.0)
    # share of the rewards on other actions that are coin flips, as cover
    filler: float = fraction(0.0)

    def rewards_around(self, aimed_at: IntArray, value: float, elsewhere: float) -> FloatArray:
        """Return rewards, shape (n, n_actions), for arrivals that target one action each."""
        n_arrivals = aimed_at.size
        shape = (n_arrivals, self.briefing.n_actions)
        rewards = np.full(shape, elsewhere)
        if self.filler > 0.0:
            is_filler = self.rng.random(shape) < self.filler
            rewards = np.where(is_filler, self.coins(*shape), elsewhere)
        if self.strength < 1.0:
            drawn = self.coins(n_arrivals, 1)
            rewards[np.arange(n_arrivals), aimed_at] = drawn[:, 0]
        self.lie(rewards, aimed_at, value, strength=self.strength)
        return rewards


class Push(Loud):
    """The highest reward for the target, the lowest for every other action."""

    def rewards(self, turn: Turn) -> FloatArray:
        return self.rewards_around(self.target(turn), self.briefing.highest, self.briefing.lowest)


class Nuke(Loud):
    """The lowest reward for the rival (the best action), the highest for all others."""

    def rewards(self, turn: Turn) -> FloatArray:
        return self.rewards_around(self.rival(turn), self.briefing.lowest, self.briefing.highest)


class FrequencyFlood(Push):
    """Push from accounts that are as active as the bound c_L on arrivals allows."""

    is_eager = True


class ContextPoisoning(Push):
    """Push from the most frequent contexts (mode=crowd) or from the rarest (mode=inflate).

    The frequency of contexts is estimated from the random contexts of the coalition's accounts.
    With mode=crowd, accounts visit the A most frequent contexts (the paper's S₊); with
    mode=inflate, all visit the rarest context, so that it appears frequent.
    """

    knows = Knowledge.ALGORITHM
    mode: str = one_of(("inflate", "crowd"), "inflate", kind="mode of context-poisoning")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        self._seen = np.zeros(briefing.n_contexts)

    def contexts(self, turn: Turn) -> IntArray:
        self._seen += np.bincount(turn.contexts, minlength=self._seen.size)
        order = np.argsort(-self._seen, kind="stable")
        if self.mode == "inflate":
            return np.full(turn.contexts.size, order[-1])
        frequent = order[: self.briefing.n_actions]
        return self.rng.choice(frequent, turn.contexts.size)


class Honest(Attack):
    """Honest rewards: the negative control."""

    knows = Knowledge.BANDIT

    def rewards(self, turn: Turn) -> FloatArray:
        return self.honest(turn)


class Flip(Attack):
    """The mean reward with its sign flipped (mirrored at 1/2 when rewards are binary).

    ``strength`` is the distance of the flipped mean from the centre, relative to that of the honest
    mean. Plain means keep their order up to a strength of (1 - alpha) / alpha.
    """

    knows = Knowledge.BANDIT
    strength: float = positive(1.0)

    def rewards(self, turn: Turn) -> FloatArray:
        centre = 0.5 if self.briefing.is_binary else 0.0
        means = self.briefing.mean_rewards[turn.contexts]
        return self.briefing.honest_rewards(centre - self.strength * (means - centre), self.rng)


class Extreme(Attack):
    """+M for the target, -M for the rival, far beyond any good reward."""

    magnitude: float = positive(100.0)  # M

    def rewards(self, turn: Turn) -> FloatArray:
        rows = np.arange(turn.contexts.size)
        rewards = self.coins(rows.size, self.briefing.n_actions)
        rewards[rows, self.target(turn)] = self.magnitude
        rewards[rows, self.rival(turn)] = -self.magnitude
        return rewards


class HeavyTail(Attack):
    """Cauchy draws: positive for the target, negative for the rival, both elsewhere."""

    scale: float = positive(1.0)  # the median size of a reward

    def rewards(self, turn: Turn) -> FloatArray:
        rows = np.arange(turn.contexts.size)
        shape = (rows.size, self.briefing.n_actions)
        rewards: FloatArray = self.scale * self.rng.standard_cauchy(shape)
        target, rival = self.target(turn), self.rival(turn)
        rewards[rows, target] = np.abs(rewards[rows, target])
        rewards[rows, rival] = -np.abs(rewards[rows, rival])
        return rewards


class IdGrinding(Push):
    """Push from account names chosen to fall into one group of a guessable assignment.

    The coalition hashes candidate names as the algorithm does, with its guess of the secret. It
    takes the share of the group's names that it would have with freely chosen names, alpha A / (1 -
    alpha + alpha A) instead of alpha; the other accounts have random names. With a wrong guess of
    the secret, the names fall into random groups. The default guess is all zeros, which is right if
    the hash is not keyed.
    """

    knows = Knowledge.ALGORITHM
    context: int = 0  # the action whose group is targeted
    secret: str = "00" * SECRET_BYTES  # the coalition's guess of the secret, in hexadecimal

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            bytes.fromhex(self.secret)
        except ValueError:
            raise InputError(f"secret is '{self.secret}': it must be hexadecimal.") from None

    def enrol(self, offer: Offer, rng: np.random.Generator) -> IntArray:
        if not 0 <= self.context < offer.n_contexts:
            raise InputError(
                f"context {self.context} does not exist: there are {offer.n_contexts}."
            )
        guess = Assignment(secret=bytes.fromhex(self.secret))
        users = guess.digests("user", range(offer.n_users))
        contexts = np.repeat(guess.digests("context", [self.context]), offer.n_users)
        actions = guess.actions(users, contexts, n_actions=offer.n_actions)
        names = rng.permutation(offer.n_users)
        in_group = names[actions[names] == offer.aim.target[self.context]]
        alpha = offer.n_accounts / offer.n_users
        freely = alpha * offer.n_actions / (1.0 - alpha + alpha * offer.n_actions)
        ground = in_group[: min(round(freely * in_group.size), offer.n_accounts)]
        others = names[~np.isin(names, in_group)][: offer.n_accounts - ground.size]
        return np.concatenate([ground, others])


class Shilling(Attack):
    """Praise the target from an ordinary-looking profile."""

    knows = Knowledge.BANDIT
    strength: float = fraction(1.0)  # probability of the lie; otherwise the reward is the profile's

    def profile(self, turn: Turn) -> FloatArray:
        """Return the ordinary-looking rewards, shape (n, n_actions)."""
        return self.honest(turn)

    def rewards(self, turn: Turn) -> FloatArray:
        rewards = self.profile(turn)
        self.lie(rewards, self.target(turn), self.briefing.highest, strength=self.strength)
        return rewards


class Average(Shilling):
    """Average reward of each action over contexts, except the highest reward for the target."""

    def profile(self, turn: Turn) -> FloatArray:
        averages = self.briefing.context_probabilities @ self.briefing.mean_rewards
        means = np.broadcast_to(averages, (turn.contexts.size, self.briefing.n_actions))
        return self.briefing.honest_rewards(means, self.rng)


class Bandwagon(Shilling):
    """The highest reward for the most popular action and the target, coin flips for others."""

    def profile(self, turn: Turn) -> FloatArray:
        rewards = self.coins(turn.contexts.size, self.briefing.n_actions)
        averages = self.briefing.context_probabilities @ self.briefing.mean_rewards
        rewards[:, averages.argmax()] = self.briefing.highest
        return rewards


class PowerUser(Shilling):
    """Praise the target, else report honestly, from accounts as active as c_L allows."""

    is_eager = True


class RunnerUpSwap(Attack):
    """Swap the rewards of the best action and the runner-up; report others honestly.

    ``strength`` is the probability that a reward is the end of the range (highest for the
    runner-up, lowest for the best); otherwise it is an honest draw of the other action. 0 is a pure
    swap, which does not change the order of plain means; 1 is the most extreme.
    """

    knows = Knowledge.BANDIT
    strength: float = fraction(1.0)

    def rewards(self, turn: Turn) -> FloatArray:
        briefing = self.briefing
        best, second = briefing.ranking[turn.contexts, :2].T
        rewards = self.honest(turn)
        rows = np.arange(turn.contexts.size)
        rewards[rows, best], rewards[rows, second] = rewards[rows, second], rewards[rows, best]
        self.lie(rewards, second, briefing.highest, strength=self.strength)
        self.lie(rewards, best, briefing.lowest, strength=self.strength)
        return rewards


class Mimicry(Shilling, Replaying):
    """Replays good users' rewards, except the highest reward for the target."""

    knows = Knowledge.HISTORIES

    def profile(self, turn: Turn) -> FloatArray:
        return self.replayed(turn.contexts)
