"""Off-policy estimators of a policy's value, users weighed and intervals clustered by user.

With events i of user u(i) in context s_i, logged action a_i, reward r_i, propensity p_i, policy π,
importance weights w_i = 1[a_i = π(s_i)]/p_i, weights ω_u of users and a model m(s, a) of rewards:

- IPS    Σ ω w r / Σ ω
- SNIPS  Σ ω w r / Σ ω w
- DR     Σ ω [m(s, π(s)) + w (r − m(s, a))] / Σ ω

Each is a ratio Σ_u ω_u N_u / Σ_u ω_u M_u of sums over users. Users are independent and their plays
are not, so variances are those of the users' influences ω_u (N_u − V M_u).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from unswayed.arrays import FloatArray, IntArray

EstimatorName = Literal["ips", "snips", "dr"]
ESTIMATORS: tuple[EstimatorName, ...] = ("ips", "snips", "dr")

CONFIDENCE = 0.95
"""Level of every interval."""


class Plays(NamedTuple):
    """A log as estimators read it; one value an event each, codes of users and contexts.

    ``inverse`` is 1/propensity.
    """

    users: npt.NDArray[np.integer]
    contexts: npt.NDArray[np.integer]
    actions: npt.NDArray[np.integer]
    rewards: FloatArray
    inverse: FloatArray
    n_users: int


class Totals(NamedTuple):
    """Numerators and denominators of a value, one of each for a user; shape (n_users,)."""

    above: FloatArray
    below: FloatArray


class Estimate(NamedTuple):
    """A value, and its interval."""

    estimate: float
    low: float
    high: float
    error: float


def totals_of(
    plays: Plays,
    choices: IntArray,
    estimator: EstimatorName,
    model: FloatArray,
) -> Totals:
    """Return what each user adds to a value.

    Parameters
    ----------
    plays
        The log.
    choices
        Shape (n_contexts,); the action that the policy plays, −1 for one that is not in the log.
    estimator
        Which one.
    model
        Shape (n_contexts, n_actions); mean rewards, finite.
    """
    chosen = choices[plays.contexts]
    weights = np.where(plays.actions == chosen, plays.inverse, 0.0)
    if estimator == "dr":
        expected = np.where(chosen >= 0, model[plays.contexts, np.maximum(chosen, 0)], 0.0)
        surprise = plays.rewards - model[plays.contexts, plays.actions]
        above = np.asarray(expected + weights * surprise, np.float64)
        below = np.ones(len(weights))
    else:
        above = weights * plays.rewards
        below = weights if estimator == "snips" else np.ones(len(weights))
    return _by_user(plays, above, below)


def calibrated(ips: Totals, snips: Totals) -> Totals:
    """Return the totals of IPS with the importance mass of all users, whoever is left out.

    A user's weight depends on what that user met, and so does the importance mass of those who are
    left; IPS would take the one for the other. With weights of one this changes no value.
    """
    mass = float(snips.below.sum())
    scale = float(ips.below.sum()) / mass if mass > 0.0 else 0.0
    return Totals(ips.above, np.asarray(snips.below * scale, np.float64))


def logged_totals(plays: Plays) -> Totals:
    """Return what each user adds to the value of what was logged: its mean reward."""
    return _by_user(plays, plays.rewards, np.ones(len(plays.rewards)))


def _by_user(plays: Plays, above: FloatArray, below: FloatArray) -> Totals:
    n = plays.n_users
    return Totals(
        np.asarray(np.bincount(plays.users, above, n), np.float64),
        np.asarray(np.bincount(plays.users, below, n), np.float64),
    )


def value_of(totals: Totals, user_weights: FloatArray) -> Estimate:
    """Return a value with its interval."""
    value, influences = _ratio(totals, user_weights)
    return _estimate(value, influences, _n_witnesses(totals, user_weights))


def uplift_of(totals: Totals, baseline: Totals, user_weights: FloatArray) -> Estimate:
    """Return how much a value exceeds another one of the same log, with its interval."""
    value, influences = _ratio(totals, user_weights)
    other, other_influences = _ratio(baseline, user_weights)
    n = min(_n_witnesses(totals, user_weights), _n_witnesses(baseline, user_weights))
    return _estimate(value - other, influences - other_influences, n)


def _ratio(totals: Totals, user_weights: FloatArray) -> tuple[float, FloatArray]:
    """Return Σ ω N / Σ ω M, and every user's influence on it."""
    below = float(user_weights @ totals.below)
    if not below > 0.0:
        return float("nan"), np.zeros(len(user_weights))
    value = float(user_weights @ totals.above) / below
    influences: FloatArray = user_weights * (totals.above - value * totals.below) / below
    return value, influences


def _n_witnesses(totals: Totals, user_weights: FloatArray) -> int:
    return int((user_weights * totals.below > 0.0).sum())


def _estimate(value: float, influences: FloatArray, n: int) -> Estimate:
    if not np.isfinite(value) or n < 2:
        return Estimate(value, float("-inf"), float("inf"), float("inf"))
    error = float(np.sqrt((influences**2).sum() * n / (n - 1)))
    half = float(special.stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0)) * error
    return Estimate(value, value - half, value + half, error)


def widened(found: Estimate, error: float) -> Estimate:
    """Return an estimate with a larger standard error, if it is larger."""
    if not error > found.error > 0.0:
        return found
    half = (found.high - found.estimate) * error / found.error
    return Estimate(found.estimate, found.estimate - half, found.estimate + half, error)


def reaching(found: Estimate, others: Sequence[float]) -> Estimate:
    """Return an estimate whose interval allows for chance and for any of the other values.

    Chance and not knowing which value is true are independent, so their halves add like errors do.

    >>> reaching(Estimate(0.0, -3.0, 3.0, 1.5), [4.0, 1.0])[:3]
    (0.0, -3.0, 5.0)
    """
    above = max(0.0, *(other - found.estimate for other in others), 0.0)
    below = max(0.0, *(found.estimate - other for other in others), 0.0)
    return found._replace(
        low=found.estimate - float(np.hypot(found.estimate - found.low, below)),
        high=found.estimate + float(np.hypot(found.high - found.estimate, above)),
    )


def effective_sample_size(weights: FloatArray) -> float:
    """Return (Σw)²/Σw² of importance weights: how many equally weighted events they are worth.

    >>> effective_sample_size(np.array([1.0, 1.0, 0.0])), effective_sample_size(np.zeros(2))
    (2.0, 0.0)
    """
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total > 0.0 else 0.0
