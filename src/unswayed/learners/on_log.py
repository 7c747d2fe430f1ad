"""A learning method in the arena that gets the log of somebody else's epsilon-greedy plays."""

from __future__ import annotations

import numpy as np

from unswayed.learners.design import uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import FloatArray, IntArray, Setting, evenly_among_best
from unswayed.learners.methods import Method
from unswayed.tallies import tally

EPSILON = 0.2
"""Ours: share of plays that are uniform over the actions, as production systems have it."""


class LogLearner:
    """Learns with one method from a log with propensities, whose plays it did not choose.

    The log is made by the pooled mean: with probability epsilon a play is uniform, else it is the
    action with the largest mean reward so far in its context, everybody's rewards counted. Means
    are brought up to date after each round of arrivals, as in systems that are trained daily.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    method
        What to learn with.
    epsilon
        Share of the plays that are uniform.
    """

    def __init__(self, setting: Setting, method: Method, epsilon: float = EPSILON) -> None:
        self._setting = setting
        self._method = method
        self._epsilon = epsilon
        shape = (setting.n_contexts, setting.n_actions)
        self._sums, self._counts = np.zeros(shape), np.zeros(shape)
        self._log: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]] = []

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
        n_actions, rng = self._setting.n_actions, self._setting.rng
        means = np.divide(
            self._sums, self._counts, where=self._counts > 0, out=np.zeros(self._sums.shape)
        )
        greedy = means.argmax(axis=1)[contexts]
        is_uniform = rng.random(len(users)) < self._epsilon
        actions = np.where(is_uniform, rng.integers(n_actions, size=len(users)), greedy)
        epsilon = self._epsilon
        propensities = epsilon / n_actions + (1.0 - epsilon) * (actions == greedy)
        rewards = answers[np.arange(len(users)), actions]
        np.add.at(self._sums, (contexts, actions), rewards)
        np.add.at(self._counts, (contexts, actions), 1.0)
        self._log.append((users, contexts, actions, rewards, 1.0 / (n_actions * propensities)))
        return actions

    def learn(self) -> Estimates:
        """Learn from the log so far."""
        users, contexts, actions, rewards, weights = (
            np.concatenate(column) for column in zip(*self._log, strict=True)
        )
        tallies = tally(
            users,
            contexts,
            actions,
            rewards,
            n_users=self._setting.n_users,
            n_contexts=self._setting.n_contexts,
            n_actions=self._setting.n_actions,
            weights=weights,
        )
        return self._method(
            tallies,
            uniform_design(tallies),
            adversarial_fraction=self._setting.adversarial_fraction,
        )

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the learned policy; see ``Learner.action_probabilities``."""
        return evenly_among_best(self.learn().mean_rewards)
