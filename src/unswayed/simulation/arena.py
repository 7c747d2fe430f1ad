"""The arena: rounds of arrivals, rewards and plays, with a learner against an attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.learners.interface import Learner, LearnerMaker, Setting
from unswayed.randomness import generator
from unswayed.simulation.algorithms import OracleMaker
from unswayed.simulation.arrivals import Arrivals
from unswayed.simulation.attacks.base import (
    Aim,
    Attack,
    Briefing,
    Knowledge,
    Offer,
    PlayedRound,
    Turn,
    reward_ends,
)
from unswayed.simulation.instances import Instance, RewardLaw, draw_rewards, suboptimality


class Tastes:
    """A fixed taste for every (user, context, action), derived on demand and never stored.

    Tastes are independent and uniform on [-magnitude, magnitude]: the paper's "random
    perturbations of magnitude O(eps_0)" (appendix, Similar Preferences). Each is a hash of its
    indices under the world's key, so L x S x A of them need no memory.
    """

    def __init__(
        self, *, magnitude: float, n_contexts: int, n_actions: int, rng: np.random.Generator
    ) -> None:
        self.magnitude = magnitude
        self._n_contexts = n_contexts
        self._n_actions = n_actions
        self._key = rng.integers(0, 2**64, dtype=np.uint64)

    def shift(self, users: IntArray, contexts: IntArray) -> FloatArray:
        """Return the tastes of arrivals for all actions, shape (n_arrivals, n_actions)."""
        first = (users * self._n_contexts + contexts) * self._n_actions
        unit = _hashed_uniforms(first.astype(np.uint64), self._n_actions, self._key)
        return self.magnitude * (2.0 * unit - 1.0)


@compiled
def _hashed_uniforms(first: np.ndarray, n_actions: int, key: np.uint64) -> np.ndarray:
    """Hash consecutive indices from ``first`` on to uniforms in [0, 1) by splitmix64's mixer."""
    uniforms = np.empty((first.size, n_actions))
    for row in range(first.size):
        for action in range(n_actions):
            z = key + (first[row] + np.uint64(action)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            uniforms[row, action] = (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return uniforms


StreamPath = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The users of a simulation: how many, how active, and how many of them collude."""

    n_users: int
    interactions_per_user: int  # rounds; each has as many arrivals as there are users
    alpha: float  # true share of colluders; the coalition has floor(share * n_users) accounts
    assumed_fraction: float | None = None  # what learners assume; None for the true one
    arrivals: Arrivals = field(default_factory=Arrivals)
    perturbation: float = 0.0  # eps_0: farthest that good users' means lie from the common ones

    def __post_init__(self) -> None:
        if self.n_users < 1 or self.interactions_per_user < 1:
            raise InputError(
                f"{self.n_users} users with {self.interactions_per_user} interactions: at least "
                "1 of each is needed."
            )
        check_adversarial_fraction(self.alpha)
        if self.assumed_fraction is not None:
            check_adversarial_fraction(self.assumed_fraction, name="assumed_fraction")
        if not (np.isfinite(self.perturbation) and self.perturbation >= 0):
            raise InputError(f"perturbation is {self.perturbation}: it must be 0 or larger.")

    @property
    def stated_fraction(self) -> float:
        """Return the share of colluders that learners assume."""
        return self.alpha if self.assumed_fraction is None else self.assumed_fraction

    @property
    def n_accounts(self) -> int:
        """Return how many users collude."""
        # Rounded first, so that 0.29 of 100 users is 29 of them.
        return int(round(self.alpha * self.n_users, 9))


def run(
    instance: Instance,
    attack: Attack,
    make_learner: LearnerMaker | OracleMaker,
    crowd: Crowd,
    *,
    algorithm: str,
    seed: int,
    path: StreamPath = (),
) -> float:
    """Let a learner play against an attack and return the suboptimality for good users.

    Everything good users do is drawn from streams that depend on ``seed`` and ``path`` alone, so
    all algorithms and all attacks meet the same good users with the same rewards.

    Parameters
    ----------
    attack
        A fresh attack object; it carries the state of one run.
    algorithm
        The learner's name: it selects the learner's stream, and attacks that know the algorithm
        know it.
    path
        Names the run under the seed, usually by the repetition's number.
    """
    world = _World(instance, attack, crowd, partial(generator, seed, *path))
    learner = world.opened(make_learner, algorithm)
    for _ in world.played_rounds(learner):
        pass
    return suboptimality(instance, learner.action_probabilities(np.flatnonzero(~world.is_bad)))


def run_regret(
    instance: Instance,
    attack: Attack,
    make_learner: LearnerMaker | OracleMaker,
    crowd: Crowd,
    *,
    algorithm: str,
    seed: int,
    path: StreamPath = (),
) -> FloatArray:
    """Return what each good user lost while the learner learned, against the best action for them.

    Parameters and streams are those of ``run``; losses are in mean rewards.
    """
    world = _World(instance, attack, crowd, partial(generator, seed, *path))
    learner = world.opened(make_learner, algorithm)
    lost = np.zeros(crowd.n_users)
    for users, contexts, actions in world.played_rounds(learner):
        losses = world.losses(users, contexts, actions)
        lost += np.bincount(users, losses, minlength=crowd.n_users)
    return lost[~world.is_bad]


class _World:
    """The good users and the environment: all that neither learner nor attack controls."""

    def __init__(
        self,
        instance: Instance,
        attack: Attack,
        crowd: Crowd,
        stream: Callable[..., np.random.Generator],
    ) -> None:
        self.instance, self.attack, self.crowd, self.stream = instance, attack, crowd, stream
        best = instance.mean_rewards.argmax(axis=1)
        # A step of 1 to n_actions - 1 from the best: any other action, uniformly.
        steps = self.stream("aim").integers(1, instance.n_actions, instance.n_contexts)
        self.aim = Aim(target=(best + steps) % instance.n_actions, rival=best)
        self.is_bad: BoolArray = np.zeros(crowd.n_users, dtype=np.bool_)
        self.is_bad[self._coalition()] = True
        self._cumulative = np.cumsum(instance.context_probabilities)
        self._cumulative[-1] = 1.0  # rounding must not leave room beyond the last context
        self._contexts = self.stream("contexts")
        self._rewards = self.stream("rewards")
        self._tastes = (
            Tastes(
                magnitude=crowd.perturbation,
                n_contexts=instance.n_contexts,
                n_actions=instance.n_actions,
                rng=self.stream("tastes"),
            )
            if crowd.perturbation > 0
            else None
        )

    def _coalition(self) -> IntArray:
        """Return the colluders' user codes: those they choose, or random ones."""
        n_users, n_accounts = self.crowd.n_users, self.crowd.n_accounts
        offer = Offer(
            n_users=n_users,
            n_accounts=n_accounts,
            n_contexts=self.instance.n_contexts,
            n_actions=self.instance.n_actions,
            aim=self.aim,
        )
        chosen = self.attack.enrol(offer, self.stream("enrolment"))
        if chosen is None:
            return self.stream("coalition").permutation(n_users)[:n_accounts]
        if chosen.shape != (n_accounts,) or np.unique(chosen).size != n_accounts:
            raise InputError(f"attack {self.attack.name} must choose {n_accounts} different users.")
        return chosen

    def opened(self, make_learner: LearnerMaker | OracleMaker, algorithm: str) -> Learner:
        """Brief the attack, and return a learner before its first arrival."""
        self.attack.begin(self._briefing(algorithm), self.stream("attack"))
        if isinstance(make_learner, OracleMaker):
            make_learner = make_learner.knowing(~self.is_bad)
        return make_learner(
            Setting(
                n_users=self.crowd.n_users,
                n_contexts=self.instance.n_contexts,
                n_actions=self.instance.n_actions,
                interactions_per_user=self.crowd.interactions_per_user,
                alpha=self.crowd.stated_fraction,
                rng=self.stream("learner", algorithm),
            )
        )

    def _honest_rewards(self, users: IntArray, contexts: IntArray) -> FloatArray:
        """Draw the rewards of all arrivals as if all were good.

        Colluders' rewards are drawn, too, and thrown away: good users' draws must not depend on
        who colludes.
        """
        return draw_rewards(
            self._means(users, contexts),
            law=self.instance.law,
            deviation=self.instance.deviation,
            rng=self._rewards,
        )

    def losses(self, users: IntArray, contexts: IntArray, actions: IntArray) -> FloatArray:
        """Return how far the played actions' means lie below each user's best; shape (n,)."""
        means = self._means(users, contexts)
        losses: FloatArray = means.max(axis=1) - means[np.arange(len(users)), actions]
        return losses

    def _means(self, users: IntArray, contexts: IntArray) -> FloatArray:
        means: FloatArray = self.instance.mean_rewards[contexts]
        return means if self._tastes is None else means + self._tastes.shift(users, contexts)

    def _briefing(self, algorithm: str) -> Briefing:
        lowest, highest = reward_ends(self.instance)
        return Briefing(
            knows=self.attack.knows,
            n_users=self.crowd.n_users,
            n_contexts=self.instance.n_contexts,
            n_actions=self.instance.n_actions,
            interactions_per_user=self.crowd.interactions_per_user,
            accounts=np.flatnonzero(self.is_bad),
            aim=self.aim,
            lowest=lowest,
            highest=highest,
            is_binary=self.instance.law is RewardLaw.BERNOULLI,
            _instance=self.instance,
            _algorithm=algorithm,
            _assumed_fraction=self.crowd.stated_fraction,
        )

    def played_rounds(self, learner: Learner) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Let arrivals come round by round and yield users, contexts and actions of each.

        The coalition fills in its own rows.
        """
        attack, crowd = self.attack, self.crowd
        account_of_user = np.cumsum(self.is_bad) - 1
        rounds = crowd.arrivals.rounds(
            n_users=crowd.n_users,
            n_rounds=crowd.interactions_per_user,
            rng=self.stream("arrivals"),
            is_eager=self.is_bad if attack.is_eager else None,
        )
        for number, users in enumerate(rounds):
            uniforms = self._contexts.random(users.size)
            contexts = np.searchsorted(self._cumulative, uniforms, side="right")
            rewards = self._honest_rewards(users, contexts)
            rows = np.flatnonzero(self.is_bad[users])
            if rows.size:
                accounts = account_of_user[users[rows]]
                turn = Turn(round_number=number, accounts=accounts, contexts=contexts[rows])
                contexts[rows], rewards[rows] = self._reported(turn)
            actions = learner.play(users, contexts, rewards)
            if Knowledge.HISTORIES in attack.knows:
                attack.observe(
                    PlayedRound(
                        round_number=number,
                        users=users,
                        contexts=contexts,
                        actions=actions,
                        rewards=rewards[np.arange(users.size), actions],
                    )
                )
            yield users, contexts, actions

    def _reported(self, turn: Turn) -> tuple[IntArray, FloatArray]:
        """Return the contexts that colluders come with, and what each action would bring them."""
        attack, instance = self.attack, self.instance
        contexts = attack.contexts(turn)
        if contexts.shape != turn.accounts.shape or not (
            contexts.min() >= 0 and contexts.max() < instance.n_contexts
        ):
            raise InputError(f"attack {attack.name} chose contexts that do not exist.")
        rewards = attack.rewards(replace(turn, contexts=contexts))
        if rewards.shape != (turn.accounts.size, instance.n_actions):
            raise InputError(
                f"attack {attack.name} must return a reward for every arrival and action."
            )
        if not np.isfinite(rewards).all():
            raise InputError(f"attack {attack.name} returned rewards that are not finite numbers.")
        return contexts, rewards
