"""A world as its judge sees it: the tallies, the truth, and who is bad."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unswayed.tallies import Tallies

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Tallies of an attacked world and what the learner must not know.

    Attributes
    ----------
    tallies
        All that learners see.
    adversarial_fraction
        What learners are told.
    true_means
        Shape (n_contexts, n_actions); of the good users.
    context_probabilities
        Shape (n_contexts,); of the good users.
    is_bad
        Shape (n_users,).
    """

    tallies: Tallies
    adversarial_fraction: float
    true_means: FloatArray
    context_probabilities: FloatArray
    is_bad: npt.NDArray[np.bool_]

    def suboptimality(self, actions: IntArray) -> float:
        """Return the good users' average loss under a policy."""
        chosen = self.true_means[np.arange(len(actions)), actions]
        return float(self.context_probabilities @ (self.true_means.max(axis=1) - chosen))

    def best_by_mean(self, weights: FloatArray) -> IntArray:
        """Return the best actions by the weighted mean reward."""
        t = self.tallies
        rows = np.repeat(weights, np.diff(t.indptr))
        mass = np.bincount(t.cells, rows * t.counts, t.n_cells)
        sums = np.bincount(t.cells, rows * t.sums, t.n_cells)
        means = np.where(mass > 0, sums / np.maximum(mass, 1e-300), -np.inf)
        best: IntArray = means.reshape(t.n_contexts, t.n_actions).argmax(axis=1)
        return best

    def naive(self) -> IntArray:
        """Return the policy of the pooled mean."""
        return self.best_by_mean(np.ones(self.tallies.n_users))

    def oracle(self) -> IntArray:
        """Return the policy of the mean over the good users, who are known."""
        return self.best_by_mean((~self.is_bad).astype(float))
