"""The arena: rounds of arrivals, plays and rewards of a learner under attack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.learners.interface import LearnerMaker, Setting
from unswayed.randomness import generator
from unswayed.simulation.algorithms import Oracle
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


@compiled
def _hashed_uniforms(first: np.ndarray, n_actions: int, key: np.uint64) -> np.ndarray:
    """Hash consecutive indices from ``first`` on to uniform numbers in [0, 1) with splitmix64."""
    uniforms = np.empty((first.size, n_actions))
    for row in range(first.size):
        for action in range(n_actions):
            z = key + (first[row] + np.uint64(action)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            uniforms[row, action] = (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return uniforms


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The users of a simulation: their number, activity, and colluders."""

    n_users: int
    interactions_per_user: int  # rounds; each has as many arrivals as there are users
    alpha: float  # true share of colluders; the coalition has floor(share * n_users) accounts
    assumed_fraction: float | None = None  # share that learners assume; None for the true share
    arrivals: Arrivals = field(default_factory=Arrivals)
    # eps_0: maximum difference between a good user's means and the common ones
    perturbation: float = 0.0

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
        """Return the number of colluders."""
        # Rounding first ensures that a share of 0.29 of 100 users is 29.
        return int(round(self.alpha * self.n_users, 9))


class Match:
    """One run of a learner against an attack in a world with a known truth.

    All choices of good users are drawn from streams that depend only on ``seed`` and ``path``, so
    all algorithms and all attacks meet the same good users with the same rewards.

    The attack must be a fresh object, because it has the state of one run. ``algorithm`` is the
    learner's name: it selects the learner's random stream, and attacks that know the algorithm can
    read it. The path identifies the run under the seed, usually by the repetition's number.
    ``learner`` plays, and ``is_bad``, shape (n_users,), marks colluders.
    """

    def __init__(
        self,
        instance: Instance,
        attack: Attack,
        make_learner: LearnerMaker,
        crowd: Crowd,
        *,
        algorithm: str,
        seed: int,
        path: tuple[int | str, ...] = (),
    ) -> None:
        self.instance, self.attack, self.crowd = instance, attack, crowd
        self._stream = partial(generator, seed, *path)
        best = instance.mean_rewards.argmax(axis=1)
        # Steps of 1 to n_actions - 1 from the best action reach the others with equal probability.
        steps = self._stream("aim").integers(1, instance.n_actions, instance.n_contexts)
        self._aim = Aim(target=(best + steps) % instance.n_actions, rival=best)
        self.is_bad: BoolArray = np.zeros(crowd.n_users, dtype=np.bool_)
        self.is_bad[self._coalition()] = True
        self._rewards = self._stream("rewards")
        self._key_of_tastes = self._stream("tastes").integers(0, 2**64, dtype=np.uint64)
        attack.begin(self._briefing(algorithm), self._stream("attack"))
        self.learner = make_learner(
            Setting(
                n_users=crowd.n_users,
                n_contexts=instance.n_contexts,
                n_actions=instance.n_actions,
                interactions_per_user=crowd.interactions_per_user,
                alpha=crowd.stated_fraction,
                rng=self._stream("learner", algorithm),
            )
        )
        if isinstance(self.learner, Oracle):
            self.learner.is_good = ~self.is_bad

    def loss(self) -> float:
        """Play to the end and return the suboptimality for good users."""
        for _ in self.rounds():
            pass
        shares = self.learner.action_probabilities(np.flatnonzero(~self.is_bad))
        return suboptimality(self.instance, shares)

    def regrets(self) -> FloatArray:
        """Play to the end and return each good user's loss against their own best action."""
        lost = np.zeros(self.crowd.n_users)
        for played in self.rounds():
            means = self._means(played.users, played.contexts)
            losses = means.max(axis=1) - means[np.arange(len(means)), played.actions]
            lost += np.bincount(played.users, losses, minlength=lost.size)
        return lost[~self.is_bad]

    def rounds(self) -> Iterator[PlayedRound]:
        """Yield rounds of arrivals, with the attack's contexts and rewards for colluders."""
        attack, crowd = self.attack, self.crowd
        cumulative = np.cumsum(self.instance.context_probabilities)
        cumulative[-1] = 1.0  # rounding errors must not leave a gap after the last context
        draws = self._stream("contexts")
        account_of_user = np.cumsum(self.is_bad) - 1
        arrivals = crowd.arrivals.rounds(
            n_users=crowd.n_users,
            n_rounds=crowd.interactions_per_user,
            rng=self._stream("arrivals"),
            is_eager=self.is_bad if attack.is_eager else None,
        )
        for number, users in enumerate(arrivals):
            contexts = np.searchsorted(cumulative, draws.random(users.size), side="right")
            # Rewards of colluders are drawn as well and then replaced, because good users' draws
            # must not depend on who colludes.
            rewards = draw_rewards(
                self._means(users, contexts),
                law=self.instance.law,
                deviation=self.instance.deviation,
                rng=self._rewards,
            )
            rows = np.flatnonzero(self.is_bad[users])
            if rows.size:
                accounts = account_of_user[users[rows]]
                turn = Turn(round_number=number, accounts=accounts, contexts=contexts[rows])
                contexts[rows], rewards[rows] = self._reported(turn)
            actions = self.learner.play(users, contexts, rewards)
            played = PlayedRound(
                round_number=number,
                users=users,
                contexts=contexts,
                actions=actions,
                rewards=rewards[np.arange(users.size), actions],
            )
            if Knowledge.HISTORIES in attack.knows:
                attack.observe(played)
            yield played

    def _coalition(self) -> IntArray:
        """Return the colluders' user codes, chosen by the attack or at random."""
        n_users, n_accounts = self.crowd.n_users, self.crowd.n_accounts
        offer = Offer(
            n_users=n_users,
            n_accounts=n_accounts,
            n_contexts=self.instance.n_contexts,
            n_actions=self.instance.n_actions,
            aim=self._aim,
        )
        chosen = self.attack.enrol(offer, self._stream("enrolment"))
        if chosen is None:
            return self._stream("coalition").permutation(n_users)[:n_accounts]
        if chosen.shape != (n_accounts,) or np.unique(chosen).size != n_accounts:
            raise InputError(f"attack {self.attack.name} must choose {n_accounts} different users.")
        return chosen

    def _means(self, users: IntArray, contexts: IntArray) -> FloatArray:
        """Return the means of arrivals for all actions, including users' tastes.

        Tastes are fixed for every (user, context, action), independent and uniform: the paper's
        "random perturbations of magnitude O(eps_0)" (appendix, Similar Preferences). Each is a hash
        of its indices, so the L x S x A tastes need no memory.
        """
        means: FloatArray = self.instance.mean_rewards[contexts]
        if self.crowd.perturbation == 0:
            return means
        n_actions = self.instance.n_actions
        first = (users * self.instance.n_contexts + contexts) * n_actions
        unit = _hashed_uniforms(first.astype(np.uint64), n_actions, self._key_of_tastes)
        return means + self.crowd.perturbation * (2.0 * unit - 1.0)

    def _briefing(self, algorithm: str) -> Briefing:
        lowest, highest = reward_ends(self.instance)
        return Briefing(
            knows=self.attack.knows,
            n_users=self.crowd.n_users,
            n_contexts=self.instance.n_contexts,
            n_actions=self.instance.n_actions,
            interactions_per_user=self.crowd.interactions_per_user,
            accounts=np.flatnonzero(self.is_bad),
            aim=self._aim,
            lowest=lowest,
            highest=highest,
            is_binary=self.instance.law is RewardLaw.BERNOULLI,
            _instance=self.instance,
            _algorithm=algorithm,
            _assumed_fraction=self.crowd.stated_fraction,
        )

    def _reported(self, turn: Turn) -> tuple[IntArray, FloatArray]:
        """Return the contexts of colluders and their reward for each action."""
        name, instance = self.attack.name, self.instance
        contexts = self.attack.contexts(turn)
        if contexts.shape != turn.accounts.shape or not (
            contexts.min() >= 0 and contexts.max() < instance.n_contexts
        ):
            raise InputError(f"attack {name} chose contexts that do not exist.")
        rewards = self.attack.rewards(replace(turn, contexts=contexts))
        if rewards.shape != (turn.accounts.size, instance.n_actions):
            raise InputError(f"attack {name} must return a reward for every arrival and action.")
        if not np.isfinite(rewards).all():
            raise InputError(f"attack {name} returned rewards that are not finite numbers.")
        return contexts, rewards
