"""Traffic of wild logs: activity and visits of accounts, and actions of the platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from worlds.wild.specs import ATTACKS, WildSpec

LOG_NORMAL_SD = 1.1
PARETO_INDEX = 1.15
MOST_EVENTS = 1_500
RARE_SHARE = 0.2
"""Share of the contexts, the rarest ones, that colluders flood."""
NEW_ITEM_PLAYS = 0.05
"""Plays of a new item, relative to those of an old one."""
N_BATCHES = 20
"""Number of updates of a Thompson sampler's posterior."""
BELIEF_NOISE = 0.7
"""Error of an adaptive platform's estimates, in deviations of the means within a context."""

Respond = Callable[[IntArray, IntArray, IntArray], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Visitors:
    """Accounts, their activity and their contexts.

    Attributes
    ----------
    is_bad, n_events, homes
        Shape (n_users,).
    shares
        Shape (n_contexts,); frequencies of contexts among honest visits away from home.
    rare
        The contexts that colluders flood; they visit no others. Empty for none.
    home
        The share of visits to a user's own context.
    """

    is_bad: BoolArray
    n_events: IntArray
    homes: IntArray
    shares: FloatArray
    rare: IntArray
    home: float

    def honest_visits(self) -> tuple[IntArray, FloatArray]:
        """Return the honest users and their expected visits of each context."""
        users = np.flatnonzero(~self.is_bad)
        where = np.tile((1 - self.home) * self.shares, (len(users), 1))
        where[np.arange(len(users)), self.homes[users]] += self.home
        return users, self.n_events[users, None] * where

    def visit(self, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return users and contexts of all events, in order of time."""
        users = rng.permutation(np.repeat(np.arange(len(self.is_bad)), self.n_events))
        contexts = rng.choice(len(self.shares), len(users), p=self.shares)
        is_home = rng.random(len(users)) < self.home
        contexts = np.where(is_home, self.homes[users], contexts)
        if self.rare.size:
            flooding = np.flatnonzero(self.is_bad[users])
            contexts[flooding] = rng.choice(self.rare, len(flooding))
        return users, contexts


def make_visitors(spec: WildSpec, rng: np.random.Generator, busyness: FloatArray) -> Visitors:
    """Draw the accounts; ``busyness`` multiplies their activity, shape (n_users,)."""
    L, S = spec.n_users, spec.n_contexts
    shares = rng.permutation(np.arange(1, S + 1) ** -spec.zipf)
    shares /= shares.sum()
    is_bad = np.zeros(L, dtype=np.bool_)
    is_bad[rng.permutation(L)[: round(spec.bad_share * L)]] = True
    activity = _activity(spec, rng) * busyness
    activity *= spec.n_events / activity[~is_bad].sum()
    n_events = np.clip(np.round(activity), 1, MOST_EVENTS).astype(np.int64)
    rare = np.zeros(0, dtype=np.int64)
    if spec.attack is not None:
        attack = ATTACKS[spec.attack]
        total = int(n_events[~is_bad].sum())
        if attack.accounts == "one play":
            n_events[is_bad] = 1
        elif attack.accounts == "few":
            traffic = spec.bot_traffic / (1 - spec.bot_traffic) * total
            n_events[is_bad] = round(traffic / is_bad.sum())
        elif attack.accounts == "bots":
            n_events[is_bad] = round(spec.bot_factor * float(n_events[~is_bad].mean()))
        if attack.where == "rare":
            rare = np.argsort(shares, kind="stable")[: max(1, round(RARE_SHARE * S))]
    homes = rng.choice(S, L, p=shares)
    return Visitors(is_bad, n_events, homes, shares, rare, spec.home)


def _activity(spec: WildSpec, rng: np.random.Generator) -> FloatArray:
    L = spec.n_users
    if spec.activity == "equal":
        return np.ones(L)
    if spec.activity == "log-normal":
        return np.exp(LOG_NORMAL_SD * rng.standard_normal(L))
    return np.asarray(np.minimum((1.0 - rng.random(L)) ** (-1 / PARETO_INDEX), 300.0))


def play(
    spec: WildSpec,
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    true_means: FloatArray,
    respond: Respond,
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Return actions, rewards and logged propensities of all events.

    Propensities are logged by epsilon-greedy and softmax platforms, and by uniform ones that play
    new items less; not by sticky ones and Thompson samplers.
    """
    S, A = true_means.shape
    if spec.logging == "sticky":
        assigned = rng.integers(A, size=(spec.n_users, S))
        actions = assigned[users, contexts]
        return actions, respond(users, contexts, actions), None
    if spec.logging == "thompson":
        actions, rewards = _thompson(rng, users, contexts, (S, A), respond)
        return actions, rewards, None
    table = _probabilities(spec, rng, true_means)
    actions = _choose(rng, table[contexts])
    rewards = respond(users, contexts, actions)
    is_even = spec.logging == "uniform" and "new items" not in spec.traits
    return actions, rewards, None if is_even else table[contexts, actions]


def _probabilities(spec: WildSpec, rng: np.random.Generator, means: FloatArray) -> FloatArray:
    """Return the platform's choice probabilities; shape (n_contexts, n_actions)."""
    S, A = means.shape
    deviations = means - means.mean(axis=1, keepdims=True)
    deviations /= np.maximum(deviations.std(axis=1, keepdims=True), 1e-12)
    believed = deviations + BELIEF_NOISE * rng.standard_normal(means.shape)
    table = np.full((S, A), 1.0 / A)
    if spec.logging == "epsilon-greedy":
        table *= spec.epsilon
        table[np.arange(S), believed.argmax(axis=1)] += 1 - spec.epsilon
    if spec.logging == "softmax":
        raised = np.exp(believed)
        table = spec.epsilon * table + (1 - spec.epsilon) * raised / raised.sum(
            axis=1, keepdims=True
        )
    if "new items" in spec.traits:
        table[:, rng.permutation(A)[: max(1, A // 5)]] *= NEW_ITEM_PLAYS
        table /= table.sum(axis=1, keepdims=True)
    return table


def _choose(rng: np.random.Generator, probabilities: FloatArray) -> IntArray:
    """Draw one action per row."""
    upto = np.cumsum(probabilities, axis=1)
    actions = (rng.random(len(upto))[:, None] * upto[:, -1:] >= upto).sum(axis=1)
    return np.asarray(np.minimum(actions, probabilities.shape[1] - 1))


def _thompson(
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    shape: tuple[int, int],
    respond: Respond,
) -> tuple[IntArray, FloatArray]:
    """Play by normal posteriors that are updated between batches, from lies as well."""
    n_cells = shape[0] * shape[1]
    counts, sums, squares = np.zeros(n_cells), np.zeros(n_cells), np.zeros(n_cells)
    actions = np.empty(len(users), dtype=np.int64)
    rewards = np.empty(len(users))
    for batch in np.array_split(np.arange(len(users)), N_BATCHES):
        centre = sums.sum() / max(counts.sum(), 1.0)
        variance = max(squares.sum() / max(counts.sum(), 1.0) - centre**2, 1e-12)
        # A weak prior: one pseudo-play with the mean of the log.
        means = ((sums + centre) / (counts + 1)).reshape(shape)
        deviations = np.sqrt(variance / (counts + 1)).reshape(shape)
        at = contexts[batch]
        noise = rng.standard_normal((len(batch), shape[1]))
        actions[batch] = (means[at] + deviations[at] * noise).argmax(axis=1)
        rewards[batch] = respond(users[batch], at, actions[batch])
        cells = at * shape[1] + actions[batch]
        counts += np.bincount(cells, minlength=n_cells)
        sums += np.bincount(cells, rewards[batch], n_cells)
        squares += np.bincount(cells, rewards[batch] ** 2, n_cells)
    return actions, rewards
