"""A world: a log, its true means, and its colluders."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.design import design_of_log
from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import METHODS
from unswayed.policy import best_known
from unswayed.tallies import MIN_PROPENSITY, Tallies, tally

Part = Literal["development", "validation", "holdout"]
PARTS: tuple[Part, ...] = ("development", "validation", "holdout")
"""Constants are chosen on the first part; the last is used for reports only."""

NOBODY = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
    """A log, and the truth, which learners must not use.

    Attributes
    ----------
    users, contexts, actions
        Shape (n_events,); codes.
    rewards, propensities
        Shape (n_events,); propensities are None where nothing was logged.
    alpha
        The share of colluders that learners assume.
    true_means
        Shape (n_contexts, n_actions); of good users.
    context_probabilities
        Shape (n_contexts,); of good users.
    is_bad
        Shape (n_users,).
    is_available
        Shape (n_actions,); actions that a policy may pick; all, if not given.
    targets, second_targets
        Shape (n_contexts,); the actions that are promoted in each context, -1 for none.
    """

    users: IntArray
    contexts: IntArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray | None = None
    alpha: float
    true_means: FloatArray
    context_probabilities: FloatArray
    is_bad: BoolArray
    is_available: BoolArray = field(default_factory=lambda: np.ones(0, dtype=np.bool_))
    targets: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    second_targets: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not self.is_available.size:
            object.__setattr__(self, "is_available", np.ones(self.n_actions, dtype=np.bool_))
        for name in ("targets", "second_targets"):
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.full(self.n_contexts, NOBODY))

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return len(self.is_bad)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, S."""
        return int(self.true_means.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return int(self.true_means.shape[1])

    @cached_property
    def tallies(self) -> Tallies:
        """The input of learners: tallies as in ``learn_log``, with weights 1/(A propensity)."""
        weights = None
        if self.propensities is not None:
            weights = 1.0 / np.maximum(self.propensities, MIN_PROPENSITY)
        tallies = tally(
            self.users,
            self.contexts,
            self.actions,
            self.rewards,
            n_users=self.n_users,
            n_contexts=self.n_contexts,
            n_actions=self.n_actions,
            weights=weights,
        )
        return tallies if weights is None else tallies.scaled(1.0 / self.n_actions)

    def learn(self, method: str, alpha: float | None = None) -> Estimates:
        """Return what a method learns from the log; by default with the world's assumed share."""
        assumed = self.alpha
        if alpha is not None:
            assumed = alpha
        design = design_of_log(self.tallies, "auto")
        return METHODS[method](self.tallies, design, alpha=assumed)

    def decide(self, mean_rewards: FloatArray, is_excluded: BoolArray | bool = False) -> IntArray:
        """Return the available action with the largest mean in each context, none excluded.

        NaN means unknown; if all are unknown, the first available action is chosen.
        """
        return best_known(mean_rewards, ~self.is_available | is_excluded)

    def decided(self, estimates: Estimates) -> IntArray:
        """Return a method's decisions, with the best available action for unavailable ones."""
        is_excluded = False if estimates.is_excluded is None else estimates.is_excluded
        best, actions = self.decide(estimates.mean_rewards, is_excluded), estimates.actions
        return np.where(self.is_available[actions], actions, best)

    def optimal(self) -> IntArray:
        """Return the best available action of each context."""
        return self.decide(self.true_means)

    def naive(self) -> IntArray:
        """Return the policy of the plain mean: the mean reward of each cell over all events."""
        return self._best_by_mean(np.ones(len(self.users), dtype=np.bool_))

    def oracle(self) -> IntArray:
        """Return the policy of the plain mean over the good users' events."""
        return self._best_by_mean(~self.is_bad[self.users])

    def suboptimality(self, actions: IntArray) -> float:
        """Return the good users' average loss under a policy."""
        best = self.true_means[:, self.is_available].max(axis=1)
        return float(self.context_probabilities @ (best - self._means_of(actions)))

    def score(self, actions: IntArray) -> float:
        """Return (best - policy) / (best - random) for good users: 0 is best, 1 random play."""
        nu = self.context_probabilities
        available = self.true_means[:, self.is_available]
        best = nu @ available.max(axis=1)
        chosen = nu @ self._means_of(actions)
        return float((best - chosen) / (best - nu @ available.mean(axis=1)))

    def pushed_share(self, actions: IntArray) -> float:
        """Return the share of good users' visits that get a pushed action that is not best."""
        is_pushed = (actions == self.targets) | (actions == self.second_targets)
        return float(self.context_probabilities @ (is_pushed & (actions != self.optimal())))

    def _means_of(self, actions: IntArray) -> FloatArray:
        return np.asarray(self.true_means[np.arange(self.n_contexts), actions])

    def _best_by_mean(self, is_kept: BoolArray) -> IntArray:
        cells = (self.contexts * self.n_actions + self.actions)[is_kept]
        n_cells = self.n_contexts * self.n_actions
        counts = np.bincount(cells, minlength=n_cells)
        sums = np.bincount(cells, self.rewards[is_kept], n_cells)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return self.decide(means.reshape(self.n_contexts, self.n_actions))
