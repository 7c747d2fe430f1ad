"""Where to look for a second population, and all that is found there."""

from __future__ import annotations

from functools import partial

import numpy as np

from unswayed.learners.discount.tastes.populations import Populations, fit_populations
from unswayed.learners.interface import FloatArray
from unswayed.tallies.grouping import in_threads

SKEWED_DIRECTIONS = 12
"""Ours: random directions from which the most skewed ones are sought."""

SKEW_STEPS = 30
"""Ours: steps of the search for skewed directions."""

SHORT_STEPS = 8
"""Ours: steps of EM from every start; the best and most different go on."""

LONG_STEPS = 40
"""Ours: steps of EM for those."""

FINALISTS = 8
"""Ours: starts that go on, of each kind."""

DIFFERENT = 0.85
"""Ours: two fits with a larger correlation tell the same story."""


def search_populations(
    profiles: FloatArray,
    weights: FloatArray,
    *,
    n_tastes: int,
    adversarial_fraction: float,
    largest_mass: float,
    rng: np.random.Generator,
) -> list[Populations]:
    """Return different ways to split users into two populations, each fitted by EM.

    Starts accuse the share α that lies farthest out along the most skewed directions, along each
    number of the profile, for winners against runners-up, and nearest to the centre. Each is
    fitted with equal covariances and with a coalition that is more alike than good users are.
    """
    is_kept = weights > 0.5
    starts = []
    for along in _directions(profiles, weights, n_tastes, rng):
        suspects = is_kept & (along > np.quantile(along[is_kept], 1.0 - adversarial_fraction))
        if suspects.sum() > 3:
            starts.append(suspects.astype(float))
    found: list[Populations] = []
    for may_be_alike in (False, True):
        fit = partial(
            fit_populations,
            profiles,
            weights,
            largest_mass=largest_mass,
            may_be_alike=may_be_alike,
        )
        short = in_threads(partial(fit, n_steps=SHORT_STEPS), [(start,) for start in starts])
        short.sort(key=lambda split: -split.gain)
        different = [(split.probabilities,) for split in _different(short)]
        found += in_threads(partial(fit, n_steps=LONG_STEPS), different)
    return found


def agreement(one: Populations, other: Populations) -> float:
    """Return the correlation of whom two fits accuse; 0 if one accuses all alike."""
    a = one.probabilities - one.probabilities.mean()
    b = other.probabilities - other.probabilities.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0.0 else 0.0


def _different(ranked: list[Populations]) -> list[Populations]:
    kept: list[Populations] = []
    for fit in ranked:
        if all(agreement(fit, other) < DIFFERENT for other in kept):
            kept.append(fit)
        if len(kept) == FINALISTS:
            break
    return kept


def _directions(
    profiles: FloatArray, weights: FloatArray, n_tastes: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Return how far out users lie, by several measures; each shape (n_users,)."""
    centre = np.average(profiles, axis=0, weights=weights)
    centred = profiles - centre
    covariance = (centred * weights[:, None]).T @ centred / weights.sum()
    variances, axes = np.linalg.eigh(covariance)
    white = centred @ (axes / np.sqrt(np.maximum(variances, 1e-9)))
    along = [*(white @ _skewed(white, weights, rng)).T, *profiles.T]
    if profiles.shape[1] > n_tastes + 1:
        along.append(profiles[:, n_tastes] - profiles[:, n_tastes + 1])
    both_ways = [sign * measure for measure in along for sign in (1.0, -1.0)]
    return [*both_ways, -(white**2).sum(axis=1)]


def _skewed(white: FloatArray, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return directions in which white profiles are skewed; shape (n_features, at most 12).

    Power iteration with third moments: u ← Σ w·(u·y)²·y, which ends at local maxima of skewness.
    """
    length = np.sqrt((white**2).mean(axis=1, keepdims=True))
    calm = white * np.minimum(1.0, 4.0 / np.maximum(length, 1e-9))
    found = rng.standard_normal((white.shape[1], SKEWED_DIRECTIONS))
    for _ in range(SKEW_STEPS):
        found = found / np.maximum(np.linalg.norm(found, axis=0), 1e-300)
        found = (calm * weights[:, None]).T @ (calm @ found) ** 2
    found = found / np.maximum(np.linalg.norm(found, axis=0), 1e-300)
    kept: list[FloatArray] = []
    for direction in found.T:
        if all(abs(direction @ other) < 0.95 for other in kept):
            kept.append(direction)
    return np.stack(kept, axis=1)
