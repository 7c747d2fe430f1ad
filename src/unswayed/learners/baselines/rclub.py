"""Clusters of users that are cut ever finer, in the style of RCLUB-WCU (Wang et al. 2023)."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.baselines.arrivals import checked_arrivals, means
from unswayed.learners.baselines.pooled import play_ucb
from unswayed.learners.interface import Setting, evenly_among_best

#: Ours: the sub-Gaussian scale of rewards in [0, 1].
REWARD_SCALE = 0.5
#: Ours: how many standard deviations two users must differ by to lose their edge.
CUT = 4.0
#: Ours: keeps squares finite when rewards are absurd.
LARGEST_MEAN = 1e9


class RclubStyle:
    """UCB for each cluster; an edge between two users goes when their own means differ too much.

    All users begin in one cluster. Whenever the plays have doubled, edges are cut between users
    whose squared difference over the cells that both played, weighted by plays, exceeds its
    expectation by ``CUT`` standard deviations; connected components are the clusters, and each has
    its own UCB1 table, the sum of its users' plays.

    Guarantee
    ---------
    None claimed. RCLUB-WCU bounds the regret of clustered linear bandits when few users are
    corrupted in few rounds.

    Deviations: "-style": cells instead of features, cuts at doubling times, and no weights by
    uncertainty, which without features only weigh down the first plays of a cell.

    Attributes
    ----------
    cluster_of
        Shape (n_users,).
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        n_cells = setting.n_contexts * setting.n_actions
        self._sums = np.zeros((setting.n_users, n_cells))
        self._counts = np.zeros((setting.n_users, n_cells), dtype=np.int32)
        self._is_edge: BoolArray = np.ones((setting.n_users, setting.n_users), np.bool_)
        self._n_played, self._next_cut = 0, 2 * setting.n_users
        self._rebuild()

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        users, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        rows = self.cluster_of[users] * self.setting.n_contexts + contexts
        actions = play_ucb(
            self.setting.rng, rows, outcomes, self._cluster_sums, self._cluster_counts
        )
        cells = contexts * self.setting.n_actions + actions
        np.add.at(self._sums, (users, cells), outcomes[np.arange(users.size), actions])
        np.add.at(self._counts, (users, cells), 1)
        self._n_played += users.size
        if self._n_played >= self._next_cut:
            self._next_cut = 2 * self._n_played
            self._cut()
            self._rebuild()
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Average the best means of the given users' clusters."""
        shape = (-1, self.setting.n_contexts, self.setting.n_actions)
        table = means(self._cluster_sums, self._cluster_counts).reshape(shape)
        average: FloatArray = evenly_among_best(table)[self.cluster_of[users]].mean(axis=0)
        return average

    def _cut(self) -> None:
        """Cut edges by Σ n_i n_j (mean_i − mean_j)² over cells, given its mean and variance.

        Without a difference a term has mean σ²(n_i + n_j), and twice its square for variance.
        """
        counts = self._counts.astype(np.float64)
        has = (counts > 0).astype(np.float64)
        own = np.clip(np.nan_to_num(means(self._sums, self._counts)), -LARGEST_MEAN, LARGEST_MEAN)
        squares = (counts * own**2) @ counts.T
        distances = squares + squares.T - 2.0 * (counts * own) @ (counts * own).T
        noise = REWARD_SCALE**2
        first, second = counts @ has.T, counts**2 @ has.T
        expected = noise * (first + first.T)
        variances = 2.0 * noise**2 * (second + second.T + 2.0 * counts @ counts.T)
        self._is_edge &= distances <= expected + CUT * np.sqrt(variances)

    def _rebuild(self) -> None:
        n_clusters, labels = sparse.csgraph.connected_components(self._is_edge, directed=False)
        self.cluster_of: IntArray = labels.astype(np.int64)
        member = sparse.csr_array(
            (np.ones(len(labels)), (labels, np.arange(len(labels)))),
            shape=(n_clusters, len(labels)),
        )
        shape = (n_clusters * self.setting.n_contexts, self.setting.n_actions)
        self._cluster_sums = np.ascontiguousarray(member @ self._sums).reshape(shape)
        self._cluster_counts = (
            np.ascontiguousarray(member @ self._counts).astype(np.int32).reshape(shape)
        )
