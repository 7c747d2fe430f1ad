"""Small worlds with known best actions, honest users, and colluders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.policy import best_known
from unswayed.tallies import Tallies, tally

Family = Literal["clicks", "stars", "baskets"]
Attack = Literal["none", "push", "half", "per-context", "sink", "swap"]

N_CONTEXTS, N_ACTIONS = 12, 5


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Tallies, the honest users' mean rewards, and a mask of the colluders."""

    tallies: Tallies
    true_means: FloatArray
    is_bad: BoolArray

    def plain_means(self, is_counted: BoolArray | None = None) -> FloatArray:
        """Return the mean reward of each cell over all plays of the given users, or of all."""
        return plain_means(self.tallies, is_counted)

    def regret(self, actions: IntArray) -> float:
        """Return the loss of honest users, averaged over contexts."""
        chosen = self.true_means[np.arange(len(actions)), actions]
        return float((self.true_means.max(axis=1) - chosen).mean())


def plain_means(tallies: Tallies, is_counted: BoolArray | None = None) -> FloatArray:
    """Return the mean reward of each cell; NaN without plays."""
    users = np.repeat(np.arange(tallies.n_users), np.diff(tallies.indptr))
    counted = np.ones(len(users)) if is_counted is None else is_counted[users].astype(float)
    sums = np.bincount(tallies.cells, counted * tallies.sums, tallies.n_cells)
    plays = np.bincount(tallies.cells, counted * tallies.counts, tallies.n_cells)
    means = np.where(plays > 0, sums / np.maximum(plays, 1.0), np.nan)
    return means.reshape(tallies.n_contexts, tallies.n_actions)


def learned(tallies: Tallies, alpha: float, seed: int = 0) -> Estimates:
    """Return the default learner's estimates for uniform exploration."""
    return learn_bounded(tallies, uniform_design(tallies), alpha=alpha, seed=seed)


def draw(rng: np.random.Generator, family: Family, rates: FloatArray) -> FloatArray:
    """Return rewards of plays, given the rates of clicks, of purchases, or of each star."""
    if family == "stars":
        return np.asarray(1.0 + rng.binomial(4, rates), np.float64)
    happens = rng.random(rates.shape) < rates
    if family == "clicks":
        return happens.astype(np.float64)
    return np.asarray(np.round(happens * rng.lognormal(3.0, 0.5, rates.shape), 2))


BASE: dict[Family, tuple[float, float]] = {
    "clicks": (0.04, 0.06),
    "stars": (0.45, 0.08),
    "baskets": (0.15, 0.15),
}
"""Rate of ordinary actions, and the additional rate of the best action of a context."""

TYPICAL_BASKET = float(np.exp(3.0 + 0.5**2 / 2))


def mean_of(family: Family, rates: FloatArray) -> FloatArray:
    """Return the mean reward at these rates."""
    if family == "stars":
        return 1.0 + 4.0 * rates
    return rates * (TYPICAL_BASKET if family == "baskets" else 1.0)


def make_world(
    rng: np.random.Generator,
    family: Family,
    attack: Attack,
    *,
    n_users: int = 1500,
    plays: int = 30,
    share: float = 0.2,
    tastes: float = 0.0,
    levels: float = 0.0,
) -> World:
    """Return a world of uniform play in which each context has one clearly best action.

    A share of the users lies: about one action in all contexts ("push"; "half" in half of their
    plays), about another action in each context ("per-context"), about the best action ("sink"), or
    about the best and one other ("swap"). Tastes have rank one, and each user has a level;
    ``tastes`` and ``levels`` are their standard deviations on the logit scale.
    """
    rates = BASE[family][0] * rng.uniform(0.9, 1.1, (N_CONTEXTS, N_ACTIONS))
    best = rng.integers(1, N_ACTIONS, N_CONTEXTS)
    rows = np.arange(N_CONTEXTS)
    rates[rows, best] += BASE[family][1]
    is_bad = np.zeros(n_users, dtype=np.bool_)
    if attack != "none":
        is_bad[rng.permutation(n_users)[: round(share * n_users)]] = True
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(N_CONTEXTS, size=len(users))
    actions = rng.integers(N_ACTIONS, size=len(users))
    own = rng.standard_normal(n_users)[users] * rng.standard_normal(rates.shape)[contexts, actions]
    tilts = tastes * own + levels * rng.standard_normal(n_users)[users]
    odds = rates[contexts, actions] / (1.0 - rates[contexts, actions]) * np.exp(tilts)
    rewards = draw(rng, family, odds / (1.0 + odds))
    worst, most = {"clicks": (0.0, 1.0), "stars": (1.0, 5.0), "baskets": (0.0, 60.0)}[family]
    is_lie = is_bad[users]
    target = np.zeros(N_CONTEXTS, np.int64)  # never the best action
    if attack in ("per-context", "swap"):
        target = (best + rng.integers(1, N_ACTIONS, N_CONTEXTS)) % N_ACTIONS
    if attack == "half":
        is_lie &= rng.random(len(users)) < 0.5
    if attack != "sink":
        rewards[is_lie & (actions == target[contexts])] = most
    if attack in ("sink", "swap"):
        rewards[is_lie & (actions == best[contexts])] = worst
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=N_CONTEXTS,
        n_actions=N_ACTIONS,
    )
    return World(tallies, mean_of(family, rates), is_bad)


def decided(means: FloatArray) -> IntArray:
    """Return the action of each context with the largest mean."""
    return best_known(means)
