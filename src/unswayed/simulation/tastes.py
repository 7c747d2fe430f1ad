"""Good users who differ a little: each shifts the common mean rewards by a taste of their own."""

from __future__ import annotations

import numpy as np

from unswayed.compiled import compiled
from unswayed.learners.interface import FloatArray, IntArray


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
