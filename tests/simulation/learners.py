"""Simple learners for tests."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.interface import Setting, evenly_among_best


class Believer:
    """Plays uniformly at random and recommends the best pooled mean."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.sums = np.zeros((setting.n_contexts, setting.n_actions))
        self.counts = np.zeros((setting.n_contexts, setting.n_actions))

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play uniformly and pool the outcomes."""
        actions = self.setting.rng.integers(0, self.setting.n_actions, users.size)
        np.add.at(self.sums, (contexts, actions), outcomes[np.arange(users.size), actions])
        np.add.at(self.counts, (contexts, actions), 1.0)
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Recommend the best pooled mean."""
        assert users.size
        return evenly_among_best(self.sums / np.maximum(self.counts, 1.0))


class Peeker(Believer):
    """Violates the contract: plays the action with the highest outcome."""

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Read the whole outcome table."""
        assert users.size == contexts.size
        actions: IntArray = outcomes.argmax(axis=1)
        return actions
