"""How good users differ: each shifts the common mean rewards by tastes of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled


class Tastes:
    """A fixed taste for every (user, context, action), derived on demand and never stored.

    Tastes are independent and uniform on [-magnitude, magnitude]: the paper's "random
    perturbations of magnitude O(eps_0)" (appendix, Similar Preferences). Each is a hash of its
    indices under the world's key, so L x S x A of them need no memory.
    """

    def __init__(
        self, *, magnitude: float, n_contexts: int, n_actions: int, rng: np.random.Generator
    ) -> None:
        self.magnitude = magnitude
        self._n_contexts = n_contexts
        self._n_actions = n_actions
        self._key = rng.integers(0, 2**64, dtype=np.uint64)

    def shift(self, users: IntArray, contexts: IntArray) -> FloatArray:
        """Return the tastes of arrivals for all actions, shape (n_arrivals, n_actions)."""
        first = (users * self._n_contexts + contexts) * self._n_actions
        unit = _hashed_uniforms(first.astype(np.uint64), self._n_actions, self._key)
        return self.magnitude * (2.0 * unit - 1.0)


@compiled
def _hashed_uniforms(first: np.ndarray, n_actions: int, key: np.uint64) -> np.ndarray:
    """Hash consecutive indices from ``first`` on to uniforms in [0, 1) by splitmix64's mixer."""
    uniforms = np.empty((first.size, n_actions))
    for row in range(first.size):
        for action in range(n_actions):
            z = key + (first[row] + np.uint64(action)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            uniforms[row, action] = (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return uniforms


TasteLaw = Callable[[np.random.Generator, FloatArray, int, float], FloatArray]
"""Draws deviations, shape (n_users, n_cells), from mean rewards, number of users and size."""


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
    """Return the deviations of a tenth of the users who share another taste."""
    belongs = rng.random(n_users) < 0.1
    return (belongs - 0.1)[:, None] * (2 * size * rng.standard_normal(means.size))[None]


def minority_for_runner_up(
    rng: np.random.Generator, means: FloatArray, n_users: int, size: float
) -> FloatArray:
    """Return the deviations of a tenth of the users who prefer the second-best action."""
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
    """Return what every user would rate every item, made to look like collected ratings.

    Low-rank tastes with heavy tails and some skew, a bias and a scale per user, items of a context
    alike. ``kind``: "stars" are five steps, "scale" is continuous, "likes" are probabilities.

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
