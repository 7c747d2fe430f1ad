"""Two populations of profiles: where to look for a second one, and its fit by EM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.learners.discount.tastes.kernels import (
    squared_distances,
    updated_odds,
    weighted_moments,
)
from unswayed.tallies.grouping import in_threads

MOST_ALIKE = 0.03
"""Ours: smallest covariance of a coalition, as a multiple of the good users'."""

FEWEST_STEPS = 4
"""Ours: steps before a fit may end; the first ones may be small."""

SETTLED = 1e-3
"""Ours: a fit ends once a step moves less than this share of what it accuses."""

_LIMIT = 600.0  # log-odds beyond this are certain in double precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Populations:
    """A fit of two populations.

    Attributes
    ----------
    good, coalition
        Shape (n_features,); their centres.
    root
        Shape (n_features, n_features); R, lower triangular, R·Rᵀ the inverse covariance of good
        users.
    alikeness
        κ: the coalition's covariance as a multiple of the good users', at most 1. Colluders who
        copy each other have less than honest people.
    log_odds
        Of belonging to the coalition before anything is known of a user.
    probabilities
        Shape (n_users,); γ, after their profile is known.
    mass
        Share of the users' weight that is accused.
    gain
        Log-likelihood over that of one normal population.
    """

    good: FloatArray
    coalition: FloatArray
    root: FloatArray
    alikeness: float
    log_odds: float
    probabilities: FloatArray
    mass: float
    gain: float

    def accuse(self, profiles: FloatArray) -> FloatArray:
        """Return the probabilities of any users to belong to the coalition; shape (n_users,)."""
        ratios = _ratios(profiles, self.root, self.good, self.coalition, self.alikeness)[0]
        accused: FloatArray = special.expit(self.log_odds + ratios)
        return accused


def fit_populations(
    profiles: FloatArray,
    weights: FloatArray,
    start: FloatArray,
    *,
    largest_mass: float,
    may_be_alike: bool,
    n_steps: int,
) -> Populations:
    """Fit two populations with covariances Σ and κ·Σ by EM.

    Parameters
    ----------
    profiles
        Shape (n_users, n_features).
    weights, start
        Shape (n_users,); present weights, and probabilities to begin with.
    largest_mass
        Share of the users' weight above which the odds are lowered. A coalition that is certain
        may stay above it.
    may_be_alike
        Whether κ is free below 1; otherwise it is 1.
    n_steps
        Largest number of steps.
    """
    n_features = profiles.shape[1]
    total_weight, total, squares = weighted_moments(profiles, weights)
    smallest = 2.0 / max(len(weights), 4)
    gammas = weights * start
    share = float(np.clip(gammas.sum() / total_weight, smallest, largest_mass))
    log_odds, alikeness = float(special.logit(share)), 1.0
    floor = 1e-6 * np.eye(n_features)
    for step in range(n_steps):
        mass, accused_total, accused_squares = weighted_moments(profiles, gammas)
        mass = max(mass, 1e-9)
        coalition = accused_total / mass
        good = (total - accused_total) / max(total_weight - mass, 1e-9)
        inside = accused_squares - mass * np.outer(coalition, coalition)
        outside = squares - accused_squares - (total_weight - mass) * np.outer(good, good)
        covariance = (outside + inside / alikeness) / total_weight + floor
        root = np.linalg.cholesky(np.linalg.inv(covariance))
        if may_be_alike:
            spread = float((root @ root.T * inside).sum())
            alikeness = float(np.clip(spread / (n_features * mass), MOST_ALIKE, 1.0))
        ratios, from_good = _ratios(profiles, root, good, coalition, alikeness)
        odds_before = log_odds
        gammas, accused, moved = updated_odds(ratios, weights, log_odds, gammas)
        share = accused / total_weight
        if share > largest_mass:
            log_odds -= float(np.log(share / largest_mass))
        else:
            log_odds = float(special.logit(max(share, smallest)))
        if step >= FEWEST_STEPS and moved < SETTLED * accused:
            break
    prior = float(special.expit(log_odds))
    second = np.logaddexp(np.log1p(-prior), np.log(prior) + ratios)
    two = (weights * (second - 0.5 * from_good)).sum() + total_weight * np.log(np.diag(root)).sum()
    return Populations(
        good=good,
        coalition=coalition,
        root=root,
        alikeness=alikeness,
        log_odds=odds_before,
        probabilities=special.expit(odds_before + ratios),
        mass=share,
        gain=float(two) - _of_one(total_weight, total, squares),
    )


def _ratios(
    profiles: FloatArray,
    root: FloatArray,
    good: FloatArray,
    coalition: FloatArray,
    alikeness: float,
) -> tuple[FloatArray, FloatArray]:
    """Return users' log-ratios of coalition to good, and squared distances from the good."""
    from_good, from_coalition = squared_distances(profiles, root, good, coalition)
    ratios = 0.5 * (from_good - from_coalition / alikeness - len(good) * np.log(alikeness))
    return np.clip(ratios, -_LIMIT, _LIMIT), from_good


def _of_one(total_weight: float, total: FloatArray, squares: FloatArray) -> float:
    """Return the log-likelihood of one normal population, up to the constant of all fits."""
    centre = total / total_weight
    n_features = len(total)
    covariance = squares / total_weight - np.outer(centre, centre) + 1e-6 * np.eye(n_features)
    _, log_determinant = np.linalg.slogdet(covariance)
    return float(-0.5 * total_weight * (n_features + log_determinant))


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
"""Ours: two fits with a larger correlation are taken for the same."""


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
