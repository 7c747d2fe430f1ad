"""UCB that ignores who is asking, and UCB for each user alone: the paper's two."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, index_of_best, means
from unswayed.learners.baselines.pooled import PooledMeans
from unswayed.learners.interface import Setting, evenly_among_best


@compiled
def play_ucb(
    rng: np.random.Generator,
    rows: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
) -> IntArray:
    """Play UCB1 in the row of each arrival and update that row in place.

    The index of action a is mean_a + sqrt(2 ln n / n_a), n the plays of the row so far; an action
    without a play comes first. Ties are broken evenly.

    Parameters
    ----------
    rows
        Shape (n_arrivals,); the row of the table that each arrival plays in.
    outcomes
        Shape (n_arrivals, n_actions).
    sums, counts
        Shape (n_rows, n_actions).

    Returns
    -------
    Shape (n_arrivals,); the actions played.
    """
    n_actions = sums.shape[1]
    actions = np.empty(rows.size, dtype=np.int64)
    index = np.empty(n_actions)
    for t in range(rows.size):
        row = rows[t]
        n_plays = 0
        for a in range(n_actions):
            n_plays += counts[row, a]
        twice_log = 2.0 * np.log(max(n_plays, 1))
        for a in range(n_actions):
            n = counts[row, a]
            index[a] = np.inf if n == 0 else sums[row, a] / n + np.sqrt(twice_log / n)
        chosen = index_of_best(rng, index)
        actions[t] = chosen
        sums[row, chosen] += outcomes[t, chosen]
        counts[row, chosen] += 1
    return actions


class NaiveUCB(PooledMeans):
    """One UCB1 table per context, fed by all users; recommends the best mean.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1], the regret in a context grows like
    sum over actions of 8 ln n / gap (Auer, Cesa-Bianchi and Fischer 2002, Theorem 1). None under
    attack: a share alpha of users moves every mean.

    Deviations: none. The paper names the baseline without its index; this is UCB1's.
    """

    def _played(self, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        return play_ucb(self.setting.rng, contexts, outcomes, self.sums, self.counts)


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

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        users, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        rows = users * self.setting.n_contexts + contexts
        return play_ucb(self.setting.rng, rows, outcomes, self.sums, self.counts)

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Average the given users' own best means; what a user never saw counts as uniform play."""
        if np.size(users) == 0:
            raise InputError("no users to average over: name at least one user.")
        shape = (self.setting.n_users, self.setting.n_contexts, self.setting.n_actions)
        own_means = means(self.sums.reshape(shape)[users], self.counts.reshape(shape)[users])
        average: FloatArray = evenly_among_best(own_means).mean(axis=0)
        return average
