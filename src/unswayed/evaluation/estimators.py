"""Doubly robust estimates of a policy's value, users weighed and intervals clustered by user.

With events i of user u(i) in context s_i, logged action a_i, reward r_i, propensity p_i, policy π,
importance weights w_i = π(a_i|s_i)/p_i, weights ω_u of users and a model m(s, a) of rewards, the
value is

    Σ ω [Σ_a π(a|s) m(s, a) + w (r − m(s, a_i))] / Σ ω,

a ratio Σ_u ω_u N_u / Σ_u ω_u M_u of sums over users. Users are independent and their plays are not,
so variances are those of the users' influences ω_u (N_u − V M_u).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.events import Events

CONFIDENCE = 0.95
"""Level of every interval."""


class Terms(NamedTuple):
    """Inputs of an estimate, one value per event each."""

    users: npt.NDArray[np.integer]  # codes below n_users
    rewards: FloatArray
    ratios: FloatArray  # importance weights
    expected: FloatArray  # mean reward of the policy in the event's context, by a model
    fitted: FloatArray  # the same of the logged action
    n_users: int

    def rows(self, selected: npt.NDArray[np.bool_ | np.integer]) -> Terms:
        """Return the terms of some events."""
        some = {name: getattr(self, name)[selected] for name in self._fields[:5]}
        return self._replace(**some)

    def logged(self) -> Terms:
        """Return the terms of the logging policy."""
        return self._replace(ratios=np.ones(len(self.ratios)), expected=self.fitted)

    def totals(self) -> Totals:
        """Return what each user adds to the value."""
        above = self.expected + self.ratios * (self.rewards - self.fitted)
        return Totals.of(self.users, above, self.n_users)


class Totals(NamedTuple):
    """Numerators and denominators of a value, one of each per user; shape (n_users,)."""

    above: FloatArray
    below: FloatArray

    @classmethod
    def of(cls, users: npt.NDArray[np.integer], values: FloatArray, n_users: int) -> Totals:
        """Sum a value of the events by user, and count the events of each user."""
        counts = np.bincount(users, minlength=n_users).astype(np.float64)
        return cls(np.asarray(np.bincount(users, values, n_users), np.float64), counts)


class Estimate(NamedTuple):
    """A value, its interval and its standard error."""

    estimate: float
    low: float
    high: float
    error: float


def value_of(totals: Totals, user_weights: FloatArray, baseline: Totals | None = None) -> Estimate:
    """Return a value with its interval, or how much it exceeds another one of the same log."""
    value, influences = _ratio(totals, user_weights)
    n = int((user_weights * totals.below > 0.0).sum())
    if baseline is not None:
        other, other_influences = _ratio(baseline, user_weights)
        value, influences = value - other, influences - other_influences
        n = min(n, int((user_weights * baseline.below > 0.0).sum()))
    if not np.isfinite(value) or n < 2:
        return Estimate(value, float("-inf"), float("inf"), float("inf"))
    error = float(np.sqrt((influences**2).sum() * n / (n - 1)))
    half = float(special.stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0)) * error
    return Estimate(value, value - half, value + half, error)


def _ratio(totals: Totals, user_weights: FloatArray) -> tuple[float, FloatArray]:
    """Return Σ ω N / Σ ω M, and every user's influence on it."""
    below = float(user_weights @ totals.below)
    if not below > 0.0:
        return float("nan"), np.zeros(len(user_weights))
    value = float(user_weights @ totals.above) / below
    influences: FloatArray = user_weights * (totals.above - value * totals.below) / below
    return value, influences


def effective_sample_size(weights: FloatArray) -> float:
    """Return (Σw)²/Σw² of importance weights: how many equally weighted events they are worth.

    >>> effective_sample_size(np.array([1.0, 1.0, 0.0])), effective_sample_size(np.zeros(2))
    (2.0, 0.0)
    """
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total > 0.0 else 0.0


def cell_means(events: Events, user_weights: FloatArray) -> FloatArray:
    """Return mean rewards of all cells; where nothing is known, the context's or log's.

    Shape (n_contexts, n_actions + 1); the last column is for actions that the log does not have.
    """
    shape, weights = (events.n_contexts, events.n_actions), user_weights[events.users]
    cells = events.contexts.astype(np.int64) * shape[1] + events.actions
    plays = np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(cells, weights * events.rewards, shape[0] * shape[1]).reshape(shape)
    everywhere = float(sums.sum() / max(float(plays.sum()), 1e-300))
    total = plays.sum(axis=1, keepdims=True)
    of_context = np.where(
        total > 1e-9, sums.sum(axis=1, keepdims=True) / np.maximum(total, 1e-300), everywhere
    )
    known = np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), of_context)
    return np.concatenate([known, of_context], axis=1)
