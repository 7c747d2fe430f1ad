"""Uniform exploration and the plain mean: what anyone would do first, and the negative control."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.learners.baselines.arrivals import checked_arrivals
from unswayed.learners.baselines.pooled import PooledMeans
from unswayed.learners.interface import FloatArray, IntArray


class NaiveMean(PooledMeans):
    """Play uniformly at random, recommend the action with the best mean over all users.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1], n plays of an action estimate its mean to
    within sqrt(ln(2/delta)/(2n)) with probability 1 − delta (Hoeffding). None under attack: one
    user is enough if rewards are unbounded.

    Deviations: none (not in the paper).
    """

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        _, contexts, answers = checked_arrivals(users, contexts, answers, self.setting)
        return _play(self.setting.rng, contexts, answers, self.sums, self.counts)


@compiled
def _play(
    rng: np.random.Generator,
    contexts: IntArray,
    answers: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
) -> IntArray:
    n_actions = sums.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    for t in range(contexts.size):
        s = contexts[t]
        a = int(n_actions * rng.random())
        actions[t] = a
        sums[s, a] += answers[t, a]
        counts[s, a] += 1
    return actions
