"""Small worlds in which colluders swap the best action and the runner-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.learners.tiny_logs import shape
from unswayed.arrays import FloatArray
from unswayed.tallies import Tallies, tally

GAP = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Tallies, the good users' mean rewards, and the colluders."""

    tallies: Tallies
    true_means: FloatArray
    is_bad: npt.NDArray[np.bool_]

    def pooled(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean reward of each cell; a very low value for empty cells."""
        rows = np.repeat(weights, np.diff(self.tallies.indptr))
        sums = np.bincount(
            self.tallies.cells, rows * self.tallies.sums, minlength=self.tallies.n_cells
        )
        mass = np.bincount(
            self.tallies.cells, rows * self.tallies.counts, minlength=self.tallies.n_cells
        )
        means = np.where(mass > 0, sums / np.maximum(mass, 1e-300), -1e9)
        return means.reshape(self.true_means.shape)

    def suboptimality(self, means: FloatArray) -> float:
        """Return the average loss of playing the action with the largest of these means."""
        chosen = np.take_along_axis(self.true_means, means.argmax(axis=1)[:, None], axis=1)[:, 0]
        return float((self.true_means.max(axis=1) - chosen).mean())


def make_world(
    rng: np.random.Generator,
    *,
    n_users: int = 1500,
    n_contexts: int = 12,
    n_actions: int = 5,
    plays: int = 40,
    alpha: float = 0.2,
    is_binary: bool = False,
    taste: float = 0.0,
    minority: float = 0.0,
    is_sticky: bool = True,
) -> World:
    """Simulate a world where colluders push the runner-up and nuke the best action.

    ``taste`` is the standard deviation of symmetric rank-one tastes, ``minority`` the share of good
    users with another, fixed taste.
    """
    true_means = 0.35 + 0.2 * rng.random((n_contexts, n_actions))
    runner_up = true_means.argmax(axis=1)
    best = (runner_up + 1 + rng.integers(n_actions - 1, size=n_contexts)) % n_actions
    rows = np.arange(n_contexts)
    true_means[rows, best] = true_means[rows, runner_up] + GAP
    is_bad = np.zeros(n_users, dtype=np.bool_)
    is_bad[rng.permutation(n_users)[: round(alpha * n_users)]] = True
    loadings = rng.standard_normal((n_contexts, n_actions))
    likes = taste * rng.standard_normal(n_users) + 0.15 * (rng.random(n_users) < minority)

    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    if is_sticky:
        actions = rng.integers(n_actions, size=(n_users, n_contexts))[users, contexts]
    else:
        actions = rng.integers(n_actions, size=len(users))
    means = true_means[contexts, actions] + likes[users] * loadings[contexts, actions]
    rewards = (
        (rng.random(len(users)) < means).astype(float)
        if is_binary
        else means + 0.3 * rng.standard_normal(len(users))
    )
    lies = is_bad[users]
    rewards[lies & (actions == runner_up[contexts])] = 1.0
    rewards[lies & (actions == best[contexts])] = 0.0
    tallies = tally(users, contexts, actions, rewards, **shape(n_users, n_contexts, n_actions))
    good = true_means + likes[~is_bad].mean() * loadings
    return World(tallies, good, is_bad)
