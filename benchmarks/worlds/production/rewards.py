"""Rewards of production-like logs: those of honest users and those that bots report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from unswayed.arrays import BoolArray, FloatArray, IntArray
from worlds.production.specs import ProductionSpec

CONTEXT_SD = 0.4
BASKET_SD = 0.8
MEAN_BASKET = 40.0
PRICE_SD = 0.15
DWELL_SD = 1.0
DWELL_LEVEL_SD = 0.4
DISPERSION = 1.5
STYLE_LEVEL_SD = 0.7
STYLE_SPREAD_SD = 0.3
STAR_CUTS = np.array([1.5, 2.5, 3.5, 4.5])
STAR_NOISE = 0.45
CELL_LOADING = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Differences between users in their rewards.

    Attributes
    ----------
    levels, spreads
        Shape (n_users,); added to the predictor, and multiplied with the items' part of it.
    factors
        Shape (n_users, rank).
    is_minority
        Shape (n_users,).
    """

    levels: FloatArray
    spreads: FloatArray
    factors: FloatArray
    is_minority: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class RewardModel:
    """The rewards of a log: predictors on the log, logit or star scale for every user and cell.

    Attributes
    ----------
    spec
        The log.
    table, minority_table
        Shape (n_contexts, n_actions); predictors of ordinary users and of the minority.
    centre
        Shape (n_contexts,); the part of the predictors that all items of a context share.
    loadings
        Shape (n_contexts, n_actions, rank).
    baskets
        Shape (n_contexts, n_actions); mean basket of a conversion.
    people
        How users differ.
    """

    spec: ProductionSpec
    table: FloatArray
    minority_table: FloatArray
    centre: FloatArray
    loadings: FloatArray
    baskets: FloatArray
    people: People

    def predictors(self, users: IntArray, contexts: IntArray, actions: IntArray) -> FloatArray:
        """Return the predictor of each event; shape (n_events,)."""
        people = self.people
        own = self.table[contexts, actions]
        if people.is_minority.any():
            other = self.minority_table[contexts, actions]
            own = np.where(people.is_minority[users], other, own)
        shared = self.centre[contexts]
        own = shared + people.spreads[users] * (own - shared) + people.levels[users]
        for factors, loadings in zip(
            people.factors.T, np.moveaxis(self.loadings, 2, 0), strict=True
        ):
            own += factors[users] * loadings[contexts, actions]
        return own

    def user_predictors(self, context: int, users: IntArray) -> FloatArray:
        """Return the predictors in one context; shape (n_users, n_actions)."""
        people = self.people
        items = self.table[context] - self.centre[context]
        own = people.spreads[users, None] * items
        if people.is_minority.any():
            others = self.minority_table[context] - self.centre[context]
            at = np.flatnonzero(people.is_minority[users])
            own[at] = people.spreads[users[at], None] * others
        own = own + (self.centre[context] + people.levels[users])[:, None]
        if people.factors.shape[1]:
            own += people.factors[users] @ self.loadings[context].T
        return np.asarray(own)

    def true_means(self, visits: FloatArray, users: IntArray) -> FloatArray:
        """Return the mean reward of the given users in every cell.

        Parameters
        ----------
        visits
            Shape (n_users, n_contexts); how often each of the users comes.
        users
            Shape (n_users,).
        """
        means = np.empty_like(self.table)
        for context, weights in enumerate(visits.T):
            at = np.flatnonzero(weights)
            rewards = self._means(self.user_predictors(context, users[at]))
            means[context] = weights[at] @ rewards / weights[at].sum()
        return means * self.baskets if self.spec.rewards == "baskets" else means

    def _means(self, predictors: FloatArray) -> FloatArray:
        """Return mean rewards (conversion rates for baskets) given predictors."""
        kind = self.spec.rewards
        if kind in ("clicks", "baskets"):
            return np.asarray(expit(predictors))
        if kind == "stars":
            above = (expit((predictors - cut) / STAR_NOISE) for cut in STAR_CUTS)
            return np.asarray(1.0 + sum(above))
        if kind == "dwell":
            return np.exp(predictors + DWELL_SD**2 / 2)
        return np.exp(predictors)

    def draw(
        self, rng: np.random.Generator, users: IntArray, contexts: IntArray, actions: IntArray
    ) -> FloatArray:
        """Return honest rewards; shape (n_events,)."""
        kind, n = self.spec.rewards, len(users)
        own = self.predictors(users, contexts, actions)
        if kind in ("clicks", "baskets"):
            converted = rng.random(n) < expit(own)
            if kind == "clicks":
                return converted.astype(np.float64)
            return np.where(converted, self.ordinary_baskets(rng, contexts, actions), 0.0)
        if kind == "stars":
            felt = own + STAR_NOISE * rng.logistic(size=n)
            return np.asarray(1.0 + np.searchsorted(STAR_CUTS, felt), np.float64)
        if kind == "dwell":
            return np.asarray(
                np.round(np.exp(own + DWELL_SD * rng.standard_normal(n)), 2), np.float64
            )
        rates = np.exp(own) * rng.gamma(DISPERSION, 1.0 / DISPERSION, n)
        return rng.poisson(rates).astype(np.float64)

    def ordinary_baskets(
        self, rng: np.random.Generator, contexts: IntArray, actions: IntArray
    ) -> FloatArray:
        """Return the values of conversions; shape (n_events,)."""
        noise = BASKET_SD * rng.standard_normal(len(contexts)) - BASKET_SD**2 / 2
        return np.round(self.baskets[contexts, actions] * np.exp(noise), 2)

    def high(
        self, rng: np.random.Generator, contexts: IntArray, actions: IntArray, honest: FloatArray
    ) -> FloatArray:
        """Return rewards that push an item; ``honest`` are the honest rewards of the log."""
        kind, n = self.spec.rewards, len(contexts)
        if kind == "clicks":
            return np.ones(n)
        if kind == "stars":
            return np.full(n, 5.0)
        if kind == "baskets":
            factor = 2.0 if self.spec.is_inflated else 1.0
            return factor * self.ordinary_baskets(rng, contexts, actions)
        if kind == "dwell":
            long = float(np.quantile(honest, 0.95))
            return np.round(long * np.exp(0.1 * rng.standard_normal(n)), 2)
        most = max(float(np.quantile(honest, 0.95)), 2.0)
        return np.asarray(most + rng.integers(0, 2, n), np.float64)

    def low(self, rng: np.random.Generator, n_events: int, honest: FloatArray) -> FloatArray:
        """Return rewards that demote an item; shape (n_events,)."""
        if self.spec.rewards == "stars":
            return np.ones(n_events)
        if self.spec.rewards == "dwell":
            short = float(np.quantile(honest, 0.05))
            return np.round(short * np.exp(0.1 * rng.standard_normal(n_events)), 2)
        return np.zeros(n_events)


def make_rewards(spec: ProductionSpec, rng: np.random.Generator) -> RewardModel:
    """Draw the items, the contexts and the users."""
    S, A, L = spec.n_contexts, spec.n_actions, spec.n_users
    items = rng.standard_normal(A) * np.sqrt(1 - spec.interaction)
    effects = items + rng.standard_normal((S, A)) * np.sqrt(spec.interaction)
    effects -= effects.mean(axis=1, keepdims=True)
    effects *= _span(spec) / np.mean(np.ptp(effects, axis=1))
    centre = _link(spec) + _context_sd(spec) * rng.standard_normal(S)
    baskets = np.ones((S, A))
    if spec.rewards == "baskets":
        baskets = MEAN_BASKET * np.exp(PRICE_SD * rng.standard_normal(A)) * np.ones((S, 1))
    rank = {"rank 1": 1, "rank 2": 2, "rank 3": 3, "skewed": 1}.get(spec.tastes, 0)
    loadings = rng.standard_normal((A, rank)) + CELL_LOADING * rng.standard_normal((S, A, rank))
    loadings *= spec.taste_size / np.sqrt(max(rank, 1) * (1 + CELL_LOADING**2))
    return RewardModel(
        spec=spec,
        table=centre[:, None] + effects,
        minority_table=centre[:, None] + effects[:, rng.permutation(A)],
        centre=centre,
        loadings=loadings,
        baskets=baskets,
        people=_people(spec, rng, L, rank),
    )


def _people(spec: ProductionSpec, rng: np.random.Generator, n_users: int, rank: int) -> People:
    level_sd, spreads = spec.level_sd, np.ones(n_users)
    if spec.rewards == "stars":
        level_sd = STYLE_LEVEL_SD
        spreads = np.exp(STYLE_SPREAD_SD * rng.standard_normal(n_users))
    if spec.rewards == "dwell":
        level_sd = max(level_sd, DWELL_LEVEL_SD)
    if spec.tastes == "skewed":
        factors = rng.exponential(size=(n_users, rank)) - 1.0
    else:
        factors = rng.standard_normal((n_users, rank))
    return People(
        levels=level_sd * rng.standard_normal(n_users),
        spreads=spreads,
        factors=factors,
        is_minority=rng.random(n_users) < spec.minority,
    )


def _span(spec: ProductionSpec) -> float:
    """Return the distance between best and worst item of a context on the predictor scale."""
    return 0.6 * (spec.ratio - 1.0) if spec.rewards == "stars" else float(np.log(spec.ratio))


def _link(spec: ProductionSpec) -> float:
    """Return the typical predictor."""
    if spec.rewards == "stars":
        return spec.base
    if spec.rewards in ("clicks", "baskets"):
        return float(logit(spec.base))
    return float(np.log(spec.base)) - (DWELL_SD**2 / 2 if spec.rewards == "dwell" else 0.0)


def _context_sd(spec: ProductionSpec) -> float:
    return CONTEXT_SD * (0.6 if spec.rewards == "stars" else 1.0)
