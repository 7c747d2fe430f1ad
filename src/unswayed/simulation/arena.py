"""The arena: rounds of arrivals, rewards and plays, with a learner against an attack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
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
from unswayed.simulation.instances import (
    Instance,
    RewardLaw,
    draw_rewards,
    suboptimality,
)


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
    """The users of a simulation: how many, how active, and how many of them collude.

    Attributes
    ----------
    interactions_per_user
        Rounds; each has as many arrivals as there are users.
    alpha
        The true share of colluders; the coalition has floor(share * n_users) accounts.
    assumed_fraction
        The share that learners assume; None for the true one.
    perturbation
        eps_0: how far good users' own mean rewards lie from the common ones at most.
    """

    n_users: int
    interactions_per_user: int
    alpha: float
    assumed_fraction: float | None = None
    arrivals: Arrivals = field(default_factory=Arrivals)
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
        assumed = self.assumed_fraction
        return self.alpha if assumed is None else assumed

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
    world, learner = _opened(
        instance, attack, make_learner, crowd, algorithm=algorithm, seed=seed, path=path
    )
    for _ in _played_rounds(world, attack, learner):
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
) -> Regrets:
    """Let a learner play against an attack and return what good users lost while it learned.

    Parameters are those of ``run``, and so are the streams.
    """
    world, learner = _opened(
        instance, attack, make_learner, crowd, algorithm=algorithm, seed=seed, path=path
    )
    lost = np.zeros(crowd.n_users)
    over_time = np.zeros(crowd.interactions_per_user)
    n_good = crowd.n_users - crowd.n_accounts
    for number, (users, contexts, actions) in enumerate(_played_rounds(world, attack, learner)):
        losses = world.losses(users, contexts, actions)
        losses[world.is_bad[users]] = 0.0
        lost += np.bincount(users, losses, minlength=crowd.n_users)
        over_time[number] = losses.sum() / n_good
    return Regrets(by_user=lost[~world.is_bad], over_time=np.cumsum(over_time))


@dataclass(frozen=True, slots=True, eq=False)
class Regrets:
    """What good users lost against the best action for them, in mean rewards.

    ``by_user`` has shape (n_good_users,); ``over_time``, shape (interactions_per_user,), is the
    mean over good users, summed up to each round.
    """

    by_user: FloatArray
    over_time: FloatArray


def _opened(
    instance: Instance,
    attack: Attack,
    make_learner: LearnerMaker | OracleMaker,
    crowd: Crowd,
    *,
    algorithm: str,
    seed: int,
    path: StreamPath,
) -> tuple[_World, Learner]:
    """Return the world, with the attack briefed, and a learner before its first arrival."""
    world = _World(instance=instance, attack=attack, crowd=crowd, seed=seed, path=path)

    attack.begin(world.briefing(attack.knows, algorithm), world.stream("attack"))
    if isinstance(make_learner, OracleMaker):
        make_learner = make_learner.knowing(~world.is_bad)
    learner = make_learner(
        Setting(
            n_users=crowd.n_users,
            n_contexts=instance.n_contexts,
            n_actions=instance.n_actions,
            interactions_per_user=crowd.interactions_per_user,
            alpha=crowd.stated_fraction,
            rng=world.stream("learner", algorithm),
        )
    )
    return world, learner


class _World:
    """The good users and the environment: all that neither learner nor attack controls."""

    def __init__(
        self, *, instance: Instance, attack: Attack, crowd: Crowd, seed: int, path: StreamPath
    ) -> None:
        self.instance = instance
        self.crowd = crowd
        self.stream = partial(generator, seed, *path)
        best = instance.mean_rewards.argmax(axis=1)
        # A step of 1 to n_actions - 1 from the best: any other action, uniformly.
        steps = self.stream("aim").integers(1, instance.n_actions, instance.n_contexts)
        self.aim = Aim(target=(best + steps) % instance.n_actions, rival=best)
        self.is_bad: BoolArray = np.zeros(crowd.n_users, dtype=np.bool_)
        self.is_bad[self._coalition(attack)] = True
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

    def _coalition(self, attack: Attack) -> IntArray:
        """Return the colluders' user codes: those they choose, or random ones."""
        n_users, n_accounts = self.crowd.n_users, self.crowd.n_accounts
        offer = Offer(
            n_users=n_users,
            n_accounts=n_accounts,
            n_contexts=self.instance.n_contexts,
            n_actions=self.instance.n_actions,
            aim=self.aim,
        )
        chosen = attack.enrol(offer, self.stream("enrolment"))
        if chosen is None:
            return self.stream("coalition").permutation(n_users)[:n_accounts]
        if chosen.shape != (n_accounts,) or np.unique(chosen).size != n_accounts:
            raise InputError(f"attack {attack.name} must choose {n_accounts} different users.")
        return chosen

    def rounds(self, *, is_eager: bool) -> Iterator[IntArray]:
        """Yield the arriving users of each round."""
        return self.crowd.arrivals.rounds(
            n_users=self.crowd.n_users,
            n_rounds=self.crowd.interactions_per_user,
            rng=self.stream("arrivals"),
            is_eager=self.is_bad if is_eager else None,
        )

    def natural_contexts(self, n_arrivals: int) -> IntArray:
        """Draw contexts from nu."""
        uniforms = self._contexts.random(n_arrivals)
        return np.searchsorted(self._cumulative, uniforms, side="right")

    def honest_rewards(self, users: IntArray, contexts: IntArray) -> FloatArray:
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

    def briefing(self, knows: Knowledge, algorithm: str) -> Briefing:
        """Return the briefing of an attack with this knowledge."""
        lowest, highest = reward_ends(self.instance)
        return Briefing(
            knows=knows,
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


def _played_rounds(
    world: _World, attack: Attack, learner: Learner
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Let arrivals come round by round and yield users, contexts and actions of each.

    The coalition fills in its own rows.
    """
    account_of_user = np.cumsum(world.is_bad) - 1
    sees_histories = Knowledge.HISTORIES in attack.knows
    for number, users in enumerate(world.rounds(is_eager=attack.is_eager)):
        contexts = world.natural_contexts(users.size)
        rewards = world.honest_rewards(users, contexts)
        rows = np.flatnonzero(world.is_bad[users])
        if rows.size:
            accounts = account_of_user[users[rows]]
            given = Turn(round_number=number, accounts=accounts, contexts=contexts[rows])
            chosen = _checked_contexts(attack, attack.contexts(given), given, world.instance)
            turn = Turn(round_number=number, accounts=accounts, contexts=chosen)
            contexts[rows] = chosen
            rewards[rows] = _checked_rewards(attack, attack.rewards(turn), turn, world.instance)
        actions = learner.play(users, contexts, rewards)
        if sees_histories:
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


def _checked_contexts(
    attack: Attack, contexts: IntArray, turn: Turn, instance: Instance
) -> IntArray:
    if contexts is turn.contexts:
        return contexts
    if contexts.shape != turn.accounts.shape or not (
        contexts.min() >= 0 and contexts.max() < instance.n_contexts
    ):
        raise InputError(f"attack {attack.name} chose contexts that do not exist.")
    return contexts


def _checked_rewards(
    attack: Attack, rewards: FloatArray, turn: Turn, instance: Instance
) -> FloatArray:
    if rewards.shape != (turn.accounts.size, instance.n_actions):
        raise InputError(f"attack {attack.name} must return a reward for every arrival and action.")
    if not np.isfinite(rewards).all():
        raise InputError(f"attack {attack.name} returned rewards that are not finite numbers.")
    return rewards
