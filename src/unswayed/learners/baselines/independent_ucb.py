"""UCB for each user alone, the paper's "Independent UCB"."""

from __future__ import annotations

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, means
from unswayed.learners.baselines.ucb import play_ucb
from unswayed.learners.interface import FloatArray, IntArray, Setting, evenly_among_best


class IndependentUCB:
    """One UCB1 table per user and context: nothing is shared, so nobody can be swayed.

    Guarantee
    ---------
    A user's policy depends on that user's rewards alone, whatever the others do; the price is
    O(S A / epsilon²) interactions of every user. Rewards in [0, 1].

    Deviations: none. Takes 12 bytes for each of the L·S·A cells.

    Attributes
    ----------
    sums, counts
        Shape (n_users · n_contexts, n_actions); row ``user * n_contexts + context``.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        n_rows = setting.n_users * setting.n_contexts
        self.sums = np.zeros((n_rows, setting.n_actions))
        self.counts = np.zeros((n_rows, setting.n_actions), dtype=np.int32)

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        users, contexts, answers = checked_arrivals(users, contexts, answers, self.setting)
        rows = users * self.setting.n_contexts + contexts
        return play_ucb(self.setting.rng, rows, answers, self.sums, self.counts)

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Average the given users' own best means; what a user never saw counts as uniform play."""
        if np.size(users) == 0:
            raise InputError("no users to average over: name at least one user.")
        shape = (self.setting.n_users, self.setting.n_contexts, self.setting.n_actions)
        own_means = means(self.sums.reshape(shape)[users], self.counts.reshape(shape)[users])
        average: FloatArray = evenly_among_best(own_means).mean(axis=0)
        return average
