"""Doubly robust estimates of a policy's value, users weighed and intervals clustered by user.

With events i of user u(i) in context s_i, logged action a_i, reward r_i, propensity p_i, policy π,
importance weights w_i = π(a_i|s_i)/p_i, weights ω_u of users and a model m(s, a) of rewards, the
value is

    Σ ω [Σ_a π(a|s) m(s, a) + w (r − m(s, a_i))] / Σ ω,

and an uplift is the same with the differences of the sums and of w between two policies. Users are
independent and their plays are not, so variances are those of the users' influences.
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
    """Terms of a value or of an uplift, one per event each."""

    users: npt.NDArray[np.integer]  # codes
    expected: FloatArray  # Σ_a π(a|s) m(s, a)
    factors: FloatArray  # w
    residuals: FloatArray  # r − m(s, a)

    @property
    def values(self) -> FloatArray:
        """The terms added up; shape (n_events,)."""
        return self.expected + self.factors * self.residuals

    def rows(self, selected: npt.NDArray[np.bool_ | np.integer]) -> Terms:
        """Return the terms of some events."""
        return Terms(*(column[selected] for column in self))

    def minus(self, other: Terms) -> Terms:
        """Return the terms of the uplift over another policy, with the same model."""
        expected, factors = self.expected - other.expected, self.factors - other.factors
        return self._replace(expected=expected, factors=factors)


class Estimate(NamedTuple):
    """A value, its interval and its standard error."""

    estimate: float
    low: float
    high: float
    error: float


def mean_of(
    users: npt.NDArray[np.integer], values: FloatArray, user_weights: FloatArray
) -> Estimate:
    """Return the weighted mean of values of events, with an interval; users are the units."""
    n_users = len(user_weights)
    plays = user_weights * np.bincount(users, minlength=n_users)
    sums, n = user_weights * np.bincount(users, values, n_users), int((plays > 0.0).sum())
    mean = float(sums.sum() / plays.sum()) if n else float("nan")
    if n < 2:
        return Estimate(mean, float("-inf"), float("inf"), float("inf"))
    influences = (sums - mean * plays) / plays.sum()
    error = float(np.sqrt((influences**2).sum() * n / (n - 1)))
    half = float(special.stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0)) * error
    return Estimate(mean, mean - half, mean + half, error)


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
