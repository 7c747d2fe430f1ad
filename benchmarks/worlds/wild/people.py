"""Honest users of wild logs: levels, tastes, minorities, fans, buyers, styles, early visitors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from worlds.wild.rewards import MEAN_BASKET, draw, link, mean_reward
from worlds.wild.specs import Family, WildSpec

CONTEXT_SD = 0.35
PRICE_SD = 0.15
CELL_LOADING = 0.4
FAN_BONUS = 3.0
CAMP_BONUS = 1.5
BUYERS = 0.1
BUYER_LEVEL = 2.5
NEVER = -30.0
EXTREME_RATERS = 0.15
EXTREME_SPREAD = 3.0
POWER_FACTOR = 25.0
SCRAPER_FACTOR = 6.0
POWER_AGREEMENT = 0.7
"""Share of power users' tastes that is common; the rest is individual."""


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Predictors of every user in every cell, and the resulting rewards.

    Attributes
    ----------
    families
        The family of rewards of each context.
    centre
        Shape (n_contexts,); what the items of a context share.
    effects
        Shape (n_groups, n_contexts, n_actions); items beside the centre, by group of users.
    groups, levels, spreads
        Shape (n_users,); group, level, and how strongly a user feels the items' effects.
    factors, loadings
        Shapes (n_users, rank) and (n_contexts, n_actions, rank); tastes.
    amounts
        Shape (n_contexts, n_actions); mean baskets.
    activity
        Shape (n_users,); how many times as active as others of their log.
    """

    families: tuple[Family, ...]
    centre: FloatArray
    effects: FloatArray
    groups: IntArray
    levels: FloatArray
    spreads: FloatArray
    factors: FloatArray
    loadings: FloatArray
    amounts: FloatArray
    activity: FloatArray

    def true_means(self, visits: FloatArray, users: IntArray) -> FloatArray:
        """Return the mean reward of some users in every cell, weighted by their visits.

        Parameters
        ----------
        visits
            Shape (n_users, n_contexts); how often each of the users comes.
        users
            Shape (n_users,).
        """
        means = np.empty_like(self.amounts)
        for context, family in enumerate(self.families):
            own = self.spreads[users, None] * self.effects[self.groups[users], context]
            own = own + (self.centre[context] + self.levels[users])[:, None]
            own = own + self.factors[users] @ self.loadings[context].T
            rewards = mean_reward(family, own, self.amounts[context])
            means[context] = visits[:, context] @ rewards / visits[:, context].sum()
        return means

    def draw(
        self, rng: np.random.Generator, users: IntArray, contexts: IntArray, actions: IntArray
    ) -> FloatArray:
        """Return honest rewards; shape (n_events,)."""
        own = self.spreads[users] * self.effects[self.groups[users], contexts, actions]
        own += self.centre[contexts] + self.levels[users]
        for factor, loading in zip(self.factors.T, np.moveaxis(self.loadings, 2, 0), strict=True):
            own += factor[users] * loading[contexts, actions]
        amounts = self.amounts[contexts, actions]
        rewards = np.empty(len(users))
        for family, at in self.by_family(contexts):
            rewards[at] = draw(family, rng, own[at], amounts[at])
        return rewards

    def by_family(self, contexts: IntArray) -> list[tuple[Family, IntArray]]:
        """Return the families of rewards and the events that have them."""
        kinds = sorted(set(self.families))
        codes = np.array([kinds.index(family) for family in self.families])[contexts]
        return [(family, np.flatnonzero(codes == code)) for code, family in enumerate(kinds)]


def make_crowd(spec: WildSpec, rng: np.random.Generator) -> Crowd:
    """Draw items, contexts and users."""
    S, A, L = spec.n_contexts, spec.n_actions, spec.n_users
    families: list[Family] = [spec.family] * S
    if spec.family == "mixed":
        families = ["clicks" if context % 2 else "baskets" for context in range(S)]
    typical = np.array([link(family, spec.base) for family in families])
    effects = _effects(spec, rng)
    own = [effects]
    groups = np.zeros(L, dtype=np.int64)
    levels = spec.level_sd * rng.standard_normal(L)
    spreads, activity = np.ones(L), np.ones(L)
    is_marked = np.arange(L) < round(spec.trait_share * L)
    is_marked = rng.permutation(is_marked)
    if "minority" in spec.traits:
        groups[is_marked], own = len(own), [*own, -effects]
    if "power users" in spec.traits:
        mixed = POWER_AGREEMENT * effects + np.sqrt(1 - POWER_AGREEMENT**2) * _effects(spec, rng)
        groups[is_marked], own = len(own), [*own, mixed]
        activity[is_marked] = POWER_FACTOR
    if "drift" in spec.traits:
        groups[is_marked], own = len(own), [*own, 0.4 * effects + 0.9 * _effects(spec, rng)]
    if "fans" in spec.traits:
        # An item of the better half, so that fans can make it the best one.
        better = np.argsort(effects.mean(axis=0))[A // 2 :]
        loved = effects.copy()
        loved[:, int(rng.choice(better))] += FAN_BONUS * _scale(spec)
        groups[is_marked], own = len(own), [*own, loved]
    if "camps" in spec.traits:
        camps = effects + CAMP_BONUS * _scale(spec) * np.eye(A)[:, None, :]
        groups[is_marked] = len(own) + rng.integers(A, size=int(is_marked.sum()))
        own = [*own, *camps]
    if "scrapers" in spec.traits:
        levels[is_marked], activity[is_marked] = NEVER, SCRAPER_FACTOR
    if "buyers" in spec.traits:
        levels += np.where(rng.random(L) < BUYERS, BUYER_LEVEL, -BUYER_LEVEL)
    if "styles" in spec.traits:
        levels += 0.5 * rng.standard_normal(L)
        spreads = np.exp(0.3 * rng.standard_normal(L))
        spreads[rng.random(L) < EXTREME_RATERS] *= EXTREME_SPREAD
    rank = max((int(trait[-1]) for trait in spec.traits if trait.startswith("rank")), default=0)
    loadings = rng.standard_normal((A, rank)) + CELL_LOADING * rng.standard_normal((S, A, rank))
    loadings *= spec.taste_size / np.sqrt(max(rank, 1) * (1 + CELL_LOADING**2))
    return Crowd(
        families=tuple(families),
        centre=typical + CONTEXT_SD * _scale(spec) * rng.standard_normal(S),
        effects=np.array(own),
        groups=groups,
        levels=levels,
        spreads=spreads,
        factors=rng.standard_normal((L, rank)),
        loadings=loadings,
        amounts=MEAN_BASKET * np.exp(PRICE_SD * rng.standard_normal(A)) * np.ones((S, 1)),
        activity=activity,
    )


def _effects(spec: WildSpec, rng: np.random.Generator) -> FloatArray:
    """Return items' effects; best and worst of a context differ by ``span`` on average."""
    S, A = spec.n_contexts, spec.n_actions
    effects = rng.standard_normal(A) * np.sqrt(1 - spec.interaction)
    effects = effects + rng.standard_normal((S, A)) * np.sqrt(spec.interaction)
    effects -= effects.mean(axis=1, keepdims=True)
    return np.asarray(effects * spec.span / np.mean(np.ptp(effects, axis=1)))


def _scale(spec: WildSpec) -> float:
    """Return the scale of predictors, which is smaller for stars and scores."""
    return 0.6 if spec.family in ("stars", "skewed stars", "scores") else 1.0
