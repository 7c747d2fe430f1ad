"""Families of rewards: means and draws given a predictor, and colluders' rewards.

A larger predictor always means a better item. It is on the logit scale for binary rewards and
conversions, on the log scale for amounts, times and counts (of the reciprocal for costs), and on
the scale of the reward itself for stars and scores.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from unswayed.arrays import FloatArray
from worlds.wild.specs import Family, Strength

BASKET_SD = 0.8
MEAN_BASKET = 40.0
REFUND_RATE = 0.15
TIME_SD = 0.9
COST_SD = 0.8
DISPERSION = 1.2
VOTE_RATE = 0.12
STAR_CUTS = (1.5, 2.5, 3.5, 4.5)
STAR_NOISE = 0.6
SKEWED_NOISE = 0.8
TOP = 1.6
"""Distance of top and bottom lies from the centre, in deviations: the honest 5% quantiles."""
SHIFT = 1.2
"""Shift of the predictor, up or down, for lies within the honest range."""
WHOLESALE = 25.0


def link(family: Family, base: float) -> float:
    """Return the predictor of a typical item, given the family's base."""
    if family in ("clicks", "coin", "baskets", "refunds"):
        return float(logit(base))
    if family == "votes":
        return float(logit((1 + base) / 2))
    if family == "dwell":
        return float(np.log(base)) - TIME_SD**2 / 2
    if family == "costs":
        return -float(np.log(base)) + COST_SD**2 / 2
    return float(np.log(base)) if family == "counts" else base


def mean_reward(family: Family, own: FloatArray, amounts: FloatArray) -> FloatArray:
    """Return mean rewards; ``amounts`` are mean baskets, read by families that have them."""
    if family in ("clicks", "coin"):
        return np.asarray(expit(own))
    if family in ("stars", "skewed stars"):
        noise = _star_noise(family)
        return np.asarray(1.0 + sum(expit((own - cut) / noise) for cut in STAR_CUTS))
    if family == "baskets":
        return np.asarray(expit(own) * amounts)
    if family == "refunds":
        return np.asarray(expit(own) * amounts * (1 - 2 * REFUND_RATE))
    if family == "dwell":
        return np.exp(own + TIME_SD**2 / 2)
    if family == "costs":
        return -np.exp(-own + COST_SD**2 / 2)
    if family == "counts":
        return np.exp(own)
    if family == "votes":
        return np.asarray(VOTE_RATE * (2 * expit(own) - 1))
    return own


def draw(
    family: Family, rng: np.random.Generator, own: FloatArray, amounts: FloatArray
) -> FloatArray:
    """Return honest rewards; shape (n_events,)."""
    n = len(own)
    if family in ("clicks", "coin"):
        return (rng.random(n) < expit(own)).astype(np.float64)
    if family in ("stars", "skewed stars"):
        felt = own + _star_noise(family) * rng.logistic(size=n)
        return np.asarray(1.0 + np.searchsorted(STAR_CUTS, felt), np.float64)
    if family in ("baskets", "refunds"):
        bought = rng.random(n) < expit(own)
        paid = _baskets(rng, amounts)
        if family == "refunds":
            paid = np.where(rng.random(n) < REFUND_RATE, -paid, paid)
        return np.where(bought, paid, 0.0)
    if family == "dwell":
        return np.asarray(np.round(np.exp(own + TIME_SD * rng.standard_normal(n)), 2), np.float64)
    if family == "costs":
        return np.asarray(-np.round(np.exp(-own + COST_SD * rng.standard_normal(n)), 3), np.float64)
    if family == "counts":
        rates = np.exp(own) * rng.gamma(DISPERSION, 1.0 / DISPERSION, n)
        return rng.poisson(rates).astype(np.float64)
    if family == "votes":
        has_voted = rng.random(n) < VOTE_RATE
        return np.where(has_voted, np.where(rng.random(n) < expit(own), 1.0, -1.0), 0.0)
    return own + rng.standard_normal(n)


def lie(
    family: Family,
    rng: np.random.Generator,
    centre: FloatArray,
    amounts: FloatArray,
    *,
    is_up: bool,
    strength: Strength,
) -> FloatArray:
    """Return colluders' rewards that promote or demote an item; shape (n_events,).

    Parameters
    ----------
    centre
        Shape (n_events,); predictors of a typical item.
    amounts
        Shape (n_events,); mean baskets.
    is_up, strength
        Raise or sink, and how far beyond ordinary rewards.
    """
    n, sign = len(centre), 1.0 if is_up else -1.0
    if strength == "within":
        return draw(family, rng, centre + sign * SHIFT, amounts)
    factor = WHOLESALE if strength == "extreme" else 1.0
    wobble = 0.1 * rng.standard_normal(n)
    if family in ("clicks", "coin"):
        return np.full(n, float(is_up))
    if family in ("stars", "skewed stars"):
        return np.full(n, 5.0 if is_up else 1.0)
    if family == "votes":
        return np.full(n, sign)
    if family == "baskets":
        return factor * _baskets(rng, amounts) if is_up else np.zeros(n)
    if family == "refunds":
        return sign * factor * _baskets(rng, amounts)
    if family == "counts":
        most = factor * np.maximum(2.0, np.round(2.5 * np.exp(centre)))
        return np.where(is_up, most + rng.integers(0, 2, n), 0.0)
    if family == "dwell":
        reached = np.exp(centre + sign * TOP * TIME_SD + wobble)
        return np.round(reached * (factor if is_up else 1.0), 2)
    if family == "costs":
        reached = -np.exp(-centre - sign * TOP * COST_SD + wobble)
        return np.round(reached * (1.0 if is_up else factor), 3)
    return centre + sign * TOP * (10.0 if strength == "extreme" else 1.0) + wobble


def _baskets(rng: np.random.Generator, amounts: FloatArray) -> FloatArray:
    noise = BASKET_SD * rng.standard_normal(len(amounts)) - BASKET_SD**2 / 2
    return np.round(amounts * np.exp(noise), 2)


def _star_noise(family: Family) -> float:
    return STAR_NOISE if family == "stars" else SKEWED_NOISE
