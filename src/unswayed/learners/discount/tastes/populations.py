"""Two normal populations among users' profiles: the good ones, and a coalition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.learners.discount.tastes.kernels import (
    squared_distances,
    updated_odds,
    weighted_moments,
)
from unswayed.learners.interface import FloatArray

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
    everybody, total, squares = weighted_moments(profiles, weights)
    smallest = 2.0 / max(len(weights), 4)
    gammas = weights * start
    share = float(np.clip(gammas.sum() / everybody, smallest, largest_mass))
    log_odds, alikeness = float(special.logit(share)), 1.0
    floor = 1e-6 * np.eye(n_features)
    for step in range(n_steps):
        mass, accused_total, accused_squares = weighted_moments(profiles, gammas)
        mass = max(mass, 1e-9)
        coalition = accused_total / mass
        good = (total - accused_total) / max(everybody - mass, 1e-9)
        inside = accused_squares - mass * np.outer(coalition, coalition)
        outside = squares - accused_squares - (everybody - mass) * np.outer(good, good)
        covariance = (outside + inside / alikeness) / everybody + floor
        root = np.linalg.cholesky(np.linalg.inv(covariance))
        if may_be_alike:
            spread = float((root @ root.T * inside).sum())
            alikeness = float(np.clip(spread / (n_features * mass), MOST_ALIKE, 1.0))
        ratios, from_good = _ratios(profiles, root, good, coalition, alikeness)
        odds_before = log_odds
        gammas, accused, moved = updated_odds(ratios, weights, log_odds, gammas)
        share = accused / everybody
        if share > largest_mass:
            log_odds -= float(np.log(share / largest_mass))
        else:
            log_odds = float(special.logit(max(share, smallest)))
        if step >= FEWEST_STEPS and moved < SETTLED * accused:
            break
    prior = float(special.expit(log_odds))
    second = np.logaddexp(np.log1p(-prior), np.log(prior) + ratios)
    two = (weights * (second - 0.5 * from_good)).sum() + everybody * np.log(np.diag(root)).sum()
    return Populations(
        good=good,
        coalition=coalition,
        root=root,
        alikeness=alikeness,
        log_odds=odds_before,
        probabilities=special.expit(odds_before + ratios),
        mass=share,
        gain=float(two) - _of_one(everybody, total, squares),
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


def _of_one(everybody: float, total: FloatArray, squares: FloatArray) -> float:
    """Return the log-likelihood of one normal population, up to the constant of all fits."""
    centre = total / everybody
    n_features = len(total)
    covariance = squares / everybody - np.outer(centre, centre) + 1e-6 * np.eye(n_features)
    _, log_determinant = np.linalg.slogdet(covariance)
    return float(-0.5 * everybody * (n_features + log_determinant))
