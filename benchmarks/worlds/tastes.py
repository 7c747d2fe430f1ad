"""Tastes of honest users in logged worlds: deviations from common means, and ratings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unswayed.arrays import FloatArray

TasteLaw = Callable[[np.random.Generator, FloatArray, int, float], FloatArray]
"""Draws taste deviations of shape (n_users, n_cells)."""


def idiosyncratic(
    rng: np.random.Generator, means: FloatArray, n_users: int, size: float
) -> FloatArray:
    """Return deviations that are independent over users and cells."""
    return size * rng.standard_normal((n_users, means.size))


def rank_two(rng: np.random.Generator, means: FloatArray, n_users: int, size: float) -> FloatArray:
    """Return deviations along two common directions."""
    factors = rng.standard_normal((n_users, 2))
    return np.asarray(size / np.sqrt(2) * factors @ rng.standard_normal((2, means.size)))


def minority(rng: np.random.Generator, means: FloatArray, n_users: int, size: float) -> FloatArray:
    """Return deviations with a common different taste for a tenth of the users."""
    belongs = rng.random(n_users) < 0.1
    return (belongs - 0.1)[:, None] * (2 * size * rng.standard_normal(means.size))[None]


def minority_for_runner_up(
    rng: np.random.Generator, means: FloatArray, n_users: int, size: float
) -> FloatArray:
    """Return deviations by which a tenth of the users prefer the second-best action."""
    ranked = np.argsort(-means, axis=1)
    shift = np.zeros(means.shape)
    np.put_along_axis(shift, ranked[:, :1], -2 * size, axis=1)
    np.put_along_axis(shift, ranked[:, 1:2], 2 * size, axis=1)
    belongs = rng.random(n_users) < 0.1
    return (belongs - 0.1)[:, None] * shift.ravel()[None]


def skewed(rng: np.random.Generator, means: FloatArray, n_users: int, size: float) -> FloatArray:
    """Return deviations along one direction, exponentially distributed."""
    factor = rng.exponential(1.0, (n_users, 1)) - 1.0
    return np.asarray(size * factor @ rng.standard_normal((1, means.size)))


TASTE_LAWS: dict[str, TasteLaw] = {
    "idiosyncratic": idiosyncratic,
    "rank two": rank_two,
    "minority": minority,
    "minority for runner-up": minority_for_runner_up,
    "skewed": skewed,
}


def ratings(
    rng: np.random.Generator, n_contexts: int, n_actions: int, n_users: int, kind: str
) -> FloatArray:
    """Return the ratings of every item by every user, similar to real ratings.

    Tastes are low-rank with heavy tails and some skewness; each user has a bias and a scale; items
    of a context are similar. ``kind``: "stars" are five steps, "scale" is continuous, "likes" are
    probabilities.

    Returns
    -------
    Shape (n_users, n_cells), in [0, 1].
    """
    n_cells = n_contexts * n_actions
    items = np.clip(rng.normal(3.4, 0.6, n_cells), 1.3, 4.8)
    bias, scale = rng.normal(0, 0.4, n_users), rng.lognormal(0, 0.35, n_users)
    factors = rng.standard_t(5, (n_users, 5)) / np.sqrt(5 / 3) * [1, 0.8, 0.6, 0.5, 0.4]
    factors[:, 0] += rng.exponential(0.5, n_users) - 0.5
    loadings = rng.normal(0, 0.45, (5, n_cells))
    loadings += np.repeat(rng.normal(0, 0.2, (5, n_contexts)), n_actions, axis=1)
    own = factors @ loadings + 0.6 * rng.standard_normal((n_users, n_cells))
    raw = items + bias[:, None] + scale[:, None] * own
    if kind == "stars":
        return np.asarray(np.round(np.clip(raw, 1, 5) - 1) / 4)
    if kind == "scale":
        return np.asarray((np.clip(raw, 1, 5) - 1) / 4)
    return np.asarray(1 / (1 + np.exp(-2 * (raw - 3.5))))
