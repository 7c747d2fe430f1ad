"""A learning method in the arena: explore by Algorithm 2, then recommend what was learned."""

from __future__ import annotations

import numpy as np

from unswayed.learners.estimates import Estimates
from unswayed.learners.exploration import Exploration
from unswayed.learners.interface import (
    FloatArray,
    IntArray,
    Setting,
    evenly_among_best,
)
from unswayed.learners.methods import Method
from unswayed.policy import Assignment
from unswayed.policy.assignment import SECRET_BYTES

#: Ours. Share of all interactions spent on context probabilities when S > A; the theorem asks for
#: T₀ of the order of T.
WARMUP_SHARE = 0.2


class Explorer:
    """Plays by keyed assignment and learns with one method when asked to recommend.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    method
        What to learn with.
    """

    def __init__(self, setting: Setting, method: Method) -> None:
        self._setting = setting
        self._method = method
        n_interactions = setting.n_users * setting.interactions_per_user
        needs_warmup = setting.n_contexts > setting.n_actions
        self._exploration = Exploration(
            n_actions=setting.n_actions,
            contexts=range(setting.n_contexts),
            assignment=Assignment(secret=setting.rng.bytes(SECRET_BYTES)),
            warmup_interactions=round(WARMUP_SHARE * n_interactions) if needs_warmup else 0,
            adversarial_fraction=setting.adversarial_fraction,
        )
        self._exploration.add_users(range(setting.n_users))

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
        actions = np.empty(len(users), np.int64)
        start = 0
        while start < len(users):
            # The frequent contexts are fixed at the very arrival at which the warm-up ends.
            end = min(start + (self._exploration.warmup_left or len(users)), len(users))
            batch = slice(start, end)
            actions[batch] = self._exploration.decide(users[batch], contexts[batch])
            rewards = answers[np.arange(start, end), actions[batch]]
            self._exploration.observe(users[batch], contexts[batch], actions[batch], rewards)
            start = end
        return actions

    def learn(self) -> Estimates:
        """Learn from everything played so far."""
        tallies, design, warmup = self._exploration.collected()
        return self._method(
            tallies,
            design,
            adversarial_fraction=self._setting.adversarial_fraction,
            warmup=warmup,
        )

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the learned policy; see ``Learner.action_probabilities``."""
        return evenly_among_best(self.learn().mean_rewards)
