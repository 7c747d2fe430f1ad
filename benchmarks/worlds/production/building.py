"""Build production-like logs from specs, and small logs with one active liar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from worlds.production.rewards import RewardModel, make_rewards
from worlds.production.specs import ProductionSpec
from worlds.production.traffic import make_platform, make_visitors, visit
from worlds.world import NOBODY, World

CAMOUFLAGE_ITEMS = 2
CAMOUFLAGE_PROBABILITY = 0.5


def build_production(spec: ProductionSpec, seed: int) -> World:
    """Simulate a log; the same spec and seed give the same log."""
    rng = generator(seed, "production", spec.name)
    model = make_rewards(spec, rng)
    visitors = make_visitors(spec, rng)
    honest_users, visits = visitors.honest_visits()
    true_means = model.true_means(visits, honest_users)
    platform = make_platform(spec, rng, true_means)
    users, contexts, times = visit(spec, rng, visitors)
    actions, propensities = platform.play(rng, times, contexts)
    rewards = model.draw(rng, users, contexts, actions)
    best = np.where(platform.is_available, true_means, -np.inf).argmax(axis=1)
    targets = np.full((2, spec.n_contexts), NOBODY)
    if spec.attack != "none":
        targets = _targets(spec, rng, true_means, platform.is_available)
        lies = np.flatnonzero(visitors.is_bad[users])
        rewards[lies] = _lies(
            model,
            rng,
            users[lies],
            contexts[lies],
            actions[lies],
            rewards[lies],
            honest=rewards[~visitors.is_bad[users]],
            best=best,
            targets=targets,
        )
    is_logged = spec.logging != "uniform" or spec.has_propensities
    return World(
        users=users,
        contexts=contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities if is_logged else None,
        true_means=true_means,
        is_available=platform.is_available,
        context_probabilities=visits.sum(axis=0) / visits.sum(),
        is_bad=visitors.is_bad,
        targets=targets[0],
        alpha=spec.alpha,
        second_targets=targets[1],
    )


def _targets(
    spec: ProductionSpec, rng: np.random.Generator, true_means: FloatArray, is_available: BoolArray
) -> IntArray:
    """Return the targets of two coalitions in each context; shape (2, n_contexts).

    An item that is pushed everywhere belongs to the worse half of available ones on average.
    """
    S = spec.n_contexts
    targets = np.full((2, S), NOBODY)
    relative = true_means / true_means.mean(axis=1, keepdims=True)
    ranked = np.argsort(np.where(is_available, relative.mean(axis=0), np.inf), kind="stable")
    half = ranked[: max(2, int(is_available.sum()) // 2)]
    if spec.attack == "targets":
        targets[0] = rng.choice(half, S)
    elif spec.attack != "sink":
        first, second = rng.permutation(half)[:2]
        targets[0] = first
        if spec.attack == "two":
            targets[1] = second
    return targets


def _lies(
    model: RewardModel,
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    actions: IntArray,
    ordinary: FloatArray,
    *,
    honest: FloatArray,
    best: IntArray,
    targets: IntArray,
) -> FloatArray:
    """Return the rewards that bots report; ``ordinary`` are honest rewards of the same events."""
    spec, n = model.spec, len(users)
    side = users % 2 if spec.attack == "two" else np.zeros(n, dtype=np.int64)
    is_target = actions == targets[side, contexts]
    is_raised = is_target & (rng.random(n) < spec.lie_probability)
    if spec.attack == "camouflage":
        others = np.setdiff1d(np.arange(spec.n_actions), targets)
        decoys = rng.permutation(others)[:CAMOUFLAGE_ITEMS]
        is_raised |= np.isin(actions, decoys) & (rng.random(n) < CAMOUFLAGE_PROBABILITY)
    is_sunk = np.zeros(n, dtype=np.bool_)
    if spec.attack in ("farm", "sink"):
        is_sunk = (actions == best[contexts]) & ~is_target
    reported = np.where(is_raised, model.high(rng, contexts, actions, honest), ordinary)
    return np.where(is_sunk, model.low(rng, n, honest), reported)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiarSpec:
    """A log of uniform plays of equally active honest users with click rates in a range."""

    name: str
    n_users: int
    events_per_user: int
    n_contexts: int
    n_actions: int
    rates: tuple[float, float]


LIAR_SPECS = (
    LiarSpec(
        name="400 users x 8 events, clicks 30-50%",
        n_users=400,
        events_per_user=8,
        n_contexts=3,
        n_actions=4,
        rates=(0.3, 0.5),
    ),
    LiarSpec(
        name="2,000 users x 20 events, clicks 1-3%",
        n_users=2_000,
        events_per_user=20,
        n_contexts=3,
        n_actions=4,
        rates=(0.01, 0.03),
    ),
)


def build_liar(spec: LiarSpec, n_lies: int, seed: int) -> World:
    """Simulate a log whose last user, if any, lies ``n_lies`` times: clicks on the worst item only.

    Honest events depend on the spec and the seed alone. Rates of the items of a context are evenly
    spaced over the range.
    """
    rng = generator(seed, "one liar", spec.name)
    S, A = spec.n_contexts, spec.n_actions
    rates = rng.permuted(np.tile(np.linspace(*spec.rates, A), (S, 1)), axis=1)
    targets = rates.argmin(axis=1)

    def play(rng: np.random.Generator, n: int) -> tuple[IntArray, IntArray]:
        return rng.integers(S, size=n), rng.integers(A, size=n)

    users = np.repeat(np.arange(spec.n_users), spec.events_per_user)
    contexts, actions = play(rng, len(users))
    rewards: FloatArray = (rng.random(len(users)) < rates[contexts, actions]).astype(np.float64)
    false_contexts, false_actions = play(generator(seed, "lies", spec.name, n_lies), n_lies)
    n_liars = int(n_lies > 0)
    return World(
        users=np.concatenate([users, np.full(n_lies, spec.n_users)]),
        contexts=np.concatenate([contexts, false_contexts]),
        actions=np.concatenate([actions, false_actions]),
        rewards=np.concatenate([rewards, false_actions == targets[false_contexts]]),
        propensities=None,
        true_means=rates,
        context_probabilities=np.full(S, 1 / S),
        is_bad=np.arange(spec.n_users + n_liars) >= spec.n_users,
        targets=targets,
        alpha=0.1,
    )
