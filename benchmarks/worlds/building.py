"""Build worlds from specs; for attacks of the arena, a user's n-th play is in round n."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from unswayed.simulation.attacks.base import (
    Aim,
    Attack,
    Briefing,
    Knowledge,
    PlayedRound,
    Turn,
    reward_ends,
)
from unswayed.simulation.attacks.registry import Knob, make_attack
from unswayed.simulation.instances import Instance, RewardLaw, draw_rewards, named_probabilities
from worlds.play_attacks import PLAY_ATTACKS, Plays
from worlds.replays import play_contexts, pretended, rated_actions, replayed
from worlds.tastes import TASTE_LAWS, ratings
from worlds.world import NOBODY, World

NO_ATTACK = "none"
FLOODED_PLAYS = 0.8
HOT_SHARE = 0.1
RATINGS = ("stars", "scale", "likes")

LOGGED = "a log"
"""The learner's name that attacks see, since a log has no learner yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """All settings of a world except its seed.

    Attributes
    ----------
    attack, strength, knobs
        An attack of ``PLAY_ATTACKS`` with its strength, or any attack of the arena with its knobs,
        or "none".
    rewards
        "binary" or "normal" for shared means with ``tastes`` around them, or a kind of ratings,
        where users have nothing but tastes.
    target
        Whom the coalition promotes: the runner-up, or any action but the best.
    hot
        Where coalitions that lie in few contexts lie: anywhere, or in the most frequent ones.
    source
        Real ratings to replay instead of simulated ones; then ``n_users`` is an upper limit.
    """

    name: str
    family: str
    n_users: int
    n_contexts: int
    n_actions: int
    plays: int
    alpha: float
    attack: str
    strength: float = 1.0
    rewards: str = "normal"
    design: Literal["sticky", "uniform", "mixed"] = "sticky"
    gap: float = 0.15
    spread: float = 0.2
    noise: float = 0.3
    zipf: float = 0.0
    tastes: str = "none"
    taste_size: float = 0.0
    has_heavy_users: bool = False
    target: Literal["runner-up", "any"] = "runner-up"
    hot: Literal["any", "frequent"] = "any"
    source: str = ""
    knobs: Mapping[str, Knob] = field(default_factory=dict)

    @property
    def law(self) -> RewardLaw | None:
        """Distribution of rewards around a user's means; None if ratings have no noise."""
        if self.rewards in ("binary", "likes"):
            return RewardLaw.BERNOULLI
        return RewardLaw.GAUSSIAN if self.rewards == "normal" else None


@dataclass(frozen=True, slots=True, eq=False)
class _Honest:
    """Rewards of good users: common or individual means, and draws around them."""

    spec: Spec
    rng: np.random.Generator
    table: FloatArray
    personal: FloatArray | None

    def draw(self, means: FloatArray) -> FloatArray:
        """Draw rewards for mean rewards."""
        if self.spec.law is None:
            return np.asarray(means)
        return draw_rewards(means, law=self.spec.law, deviation=self.spec.noise, rng=self.rng)

    def rewards(self, users: IntArray, cells: IntArray) -> FloatArray:
        """Draw the rewards of plays."""
        if self.personal is None:
            return self.draw(self.table.ravel()[cells])
        return self.draw(self.personal[users, cells])

    def true_means(self, is_bad: BoolArray) -> FloatArray:
        """Return the mean over good users; unrated items get the worst mean of their context."""
        if self.personal is None:
            return self.table
        means = np.full(self.table.size, np.nan)
        good = self.personal[~is_bad]
        is_rated = np.isfinite(good).any(axis=0)
        means[is_rated] = np.nanmean(good[:, is_rated], axis=0)
        table = means.reshape(self.table.shape)
        return np.where(np.isnan(table), np.nanmin(table, axis=1, keepdims=True), table)


def build(spec: Spec, seed: int) -> World:
    """Simulate a world; the same spec and seed give the same world."""
    rng = generator(seed, "worlds", spec.name)
    S, A = spec.n_contexts, spec.n_actions
    nu = rng.permutation(named_probabilities(f"zipf:{spec.zipf}", S))
    honest = _Honest(spec, rng, *_mean_rewards(spec, rng))
    table, personal = honest.table, honest.personal
    L = spec.n_users if personal is None else len(personal)
    best = table.argmax(axis=1)
    ranked = np.argsort(-table, axis=1)
    target = ranked[:, 1] if spec.target == "runner-up" else (best + rng.integers(1, A, S)) % A
    is_bad = np.zeros(L, dtype=np.bool_)
    is_attacked = spec.attack != NO_ATTACK
    is_bad[rng.permutation(L)[: round(spec.alpha * L) if is_attacked else 0]] = True
    is_rated = None
    if personal is not None and np.isnan(personal).any():
        is_rated = np.isfinite(personal).reshape(L, S, A)
        pretended(rng, personal, is_bad)

    lengths = _plays_of_users(spec, rng, L)
    users = np.repeat(np.arange(L), lengths)
    order = np.arange(len(users)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if is_rated is None:
        contexts = rng.choice(S, size=len(users), p=nu)
    else:
        own = nu * is_rated.any(axis=2)
        contexts = play_contexts(rng, own, users)
        nu = (own / own.sum(axis=1, keepdims=True))[~is_bad].mean(axis=0)
    order_of_heat = rng.permutation(S) if spec.hot == "any" else np.argsort(-nu, kind="stable")
    hot = order_of_heat[: max(1, round(HOT_SHARE * S))]
    lies = np.flatnonzero(is_bad[users])
    coalition = None
    if is_attacked and spec.attack not in PLAY_ATTACKS:
        coalition = LoggedCoalition(
            make_attack(spec.attack, spec.knobs),
            instance=_instance(spec, nu, table),
            is_bad=is_bad,
            target=target,
            plays=spec.plays,
            alpha=spec.alpha,
            rng=rng,
        )
        contexts[lies] = coalition.contexts(users[lies], order[lies], contexts[lies])
    if spec.attack == "flood":
        moved = lies[rng.random(len(users))[lies] < FLOODED_PLAYS]
        contexts[moved] = rng.choice(hot, size=len(moved))
    if spec.attack == "lockstep":
        contexts[lies] = rng.choice(S, size=int(lengths.max()), p=nu)[order[lies]]
    actions = _actions(spec, rng, users, contexts, is_rated)
    cells = contexts * A + actions
    rewards = honest.rewards(users, cells)
    if coalition is not None:
        coalition.lie(users, order, contexts, actions, rewards)
    elif lies.size:
        plays = Plays(
            rng=rng,
            users=users[lies],
            contexts=contexts[lies],
            actions=actions[lies],
            position=(order / lengths[users])[lies],
            honest=rewards[lies],
            means=table,
            best=best,
            target=target,
            hot=hot,
            strength=spec.strength,
            draw=honest.draw,
            again=partial(honest.rewards, users[lies], cells[lies]),
        )
        rewards[lies] = PLAY_ATTACKS[spec.attack](plays)
    if spec.rewards in RATINGS:
        rewards[lies] = np.clip(rewards[lies], 0, 1)
    return World(
        users=users,
        contexts=contexts,
        actions=actions,
        rewards=rewards,
        alpha=spec.alpha,
        true_means=honest.true_means(is_bad),
        context_probabilities=nu,
        is_bad=is_bad,
        targets=target if is_attacked else np.full(S, NOBODY),
    )


def _plays_of_users(spec: Spec, rng: np.random.Generator, n_users: int) -> IntArray:
    """Return how often each user plays."""
    if not spec.has_heavy_users:
        return np.full(n_users, spec.plays)
    drawn = spec.plays * rng.lognormal(-0.5, 1.0, n_users)
    return np.clip(drawn, 3, 20 * spec.plays).astype(int)


def _instance(spec: Spec, nu: FloatArray, table: FloatArray) -> Instance:
    """Return the instance that attacks of the arena can ask about."""
    law = RewardLaw.GAUSSIAN if spec.law is None else spec.law
    return Instance(context_probabilities=nu, mean_rewards=table, law=law, deviation=spec.noise)


def _mean_rewards(spec: Spec, rng: np.random.Generator) -> tuple[FloatArray, FloatArray | None]:
    """Return the common mean rewards, and each user's own if they differ."""
    shape = (spec.n_contexts, spec.n_actions)
    if spec.source:
        personal = replayed(
            rng,
            source=spec.source,
            n_contexts=spec.n_contexts,
            n_actions=spec.n_actions,
            n_users=spec.n_users,
            likes=spec.rewards == "likes",
        )
        return np.nanmean(personal, axis=0).reshape(shape), personal
    if spec.rewards in RATINGS:
        personal = ratings(rng, *shape, spec.n_users, spec.rewards)
        return personal.mean(axis=0).reshape(shape), personal
    table = 0.35 + spec.spread * rng.random(shape)
    best = rng.integers(spec.n_actions, size=spec.n_contexts)
    table[np.arange(spec.n_contexts), best] = table.max(axis=1) + spec.gap
    if spec.tastes == "none":
        return table, None
    personal = table.ravel() + TASTE_LAWS[spec.tastes](rng, table, spec.n_users, spec.taste_size)
    if spec.rewards == "binary":
        personal = np.clip(personal, 0, 1)
    return table, personal


def _actions(
    spec: Spec,
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    is_rated: BoolArray | None,
) -> IntArray:
    share = {"sticky": 1.0, "mixed": 0.5, "uniform": 0.0}[spec.design]
    if is_rated is not None:
        return rated_actions(rng, is_rated, users, contexts, share)
    fixed = rng.integers(spec.n_actions, size=(spec.n_users, spec.n_contexts))[users, contexts]
    fresh = rng.integers(spec.n_actions, size=len(users))
    return np.where(rng.random(len(users)) < share, fixed, fresh)


class LoggedCoalition:
    """Applies an attack of the arena to the rows of a log.

    Colluders and their numbers of plays are those of the log, whatever accounts the attack would
    register. Contexts are chosen before any round is observed.
    """

    def __init__(
        self,
        attack: Attack,
        *,
        instance: Instance,
        is_bad: BoolArray,
        target: IntArray,
        plays: int,
        alpha: float,
        rng: np.random.Generator,
    ) -> None:
        self._attack = attack
        self._is_bad = is_bad
        self._account_of_user = np.cumsum(is_bad) - 1
        lowest, highest = reward_ends(instance)

        attack.begin(
            Briefing(
                knows=attack.knows,
                n_users=len(is_bad),
                n_contexts=instance.n_contexts,
                n_actions=instance.n_actions,
                interactions_per_user=plays,
                accounts=np.flatnonzero(is_bad),
                aim=Aim(target=target, rival=instance.mean_rewards.argmax(axis=1)),
                lowest=lowest,
                highest=highest,
                is_binary=instance.law is RewardLaw.BERNOULLI,
                _instance=instance,
                _algorithm=LOGGED,
                _assumed_fraction=alpha,
            ),
            rng,
        )

    def contexts(self, users: IntArray, rounds: IntArray, contexts: IntArray) -> IntArray:
        """Return the contexts that colluders choose for their plays; all shapes (n_lies,)."""
        chosen = contexts.copy()
        for number, rows in _by_round(rounds):
            chosen[rows] = self._attack.contexts(self._turn(number, users[rows], contexts[rows]))
        return chosen

    def lie(
        self,
        users: IntArray,
        rounds: IntArray,
        contexts: IntArray,
        actions: IntArray,
        rewards: FloatArray,
    ) -> None:
        """Overwrite the rewards of the colluders' plays; all shapes (n_events,)."""
        sees_histories = Knowledge.HISTORIES in self._attack.knows
        for number, rows in _by_round(rounds):
            lies = rows[self._is_bad[users[rows]]]
            if lies.size:
                table = self._attack.rewards(self._turn(number, users[lies], contexts[lies]))
                rewards[lies] = table[np.arange(lies.size), actions[lies]]
            if sees_histories:
                self._attack.observe(
                    PlayedRound(
                        round_number=number,
                        users=users[rows],
                        contexts=contexts[rows],
                        actions=actions[rows],
                        rewards=rewards[rows],
                    )
                )

    def _turn(self, number: int, users: IntArray, contexts: IntArray) -> Turn:
        accounts = self._account_of_user[users]
        return Turn(round_number=number, accounts=accounts, contexts=contexts)


def _by_round(rounds: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield the number and the rows of each round."""
    order = np.argsort(rounds, kind="stable")
    starts = np.searchsorted(rounds[order], np.arange(int(rounds.max(initial=-1)) + 2))
    for number in range(len(starts) - 1):
        yield number, order[starts[number] : starts[number + 1]]
