"""Baselines that keep tables of sums and counts: pooled, by user or by cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil

import numpy as np
from scipy import sparse

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.interface import Setting, evenly_among_best


class Baseline(ABC):
    """A learner that plays arrivals in a compiled loop; see ``interface.Learner``.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @property
    def horizon(self) -> float:
        """A context's even share of all interactions, at least 2 so that its log2 is positive."""
        setting = self.setting
        return max(setting.n_users * setting.interactions_per_user / setting.n_contexts, 2.0)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
        users = np.ascontiguousarray(users, dtype=np.int64)
        contexts = np.ascontiguousarray(contexts, dtype=np.int64)
        outcomes = np.ascontiguousarray(outcomes, dtype=np.float64)
        n, n_actions = users.size, self.setting.n_actions
        if users.shape != (n,) or contexts.shape != (n,) or outcomes.shape != (n, n_actions):
            raise InputError(
                f"users, contexts and outcomes have shapes {users.shape}, {contexts.shape} and "
                f"{outcomes.shape}: give (n,), (n,) and (n, {n_actions})."
            )
        # Compiled loops do not check their indices.
        for kind, codes, limit in (
            ("user", users, self.setting.n_users),
            ("context", contexts, self.setting.n_contexts),
        ):
            if n and not 0 <= codes.min() <= codes.max() < limit:
                raise InputError(f"a {kind} is not in 0..{limit - 1}: number the {kind}s from 0.")
        return self._play(users, contexts, outcomes)

    @abstractmethod
    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play checked arrivals and learn from them."""

    @abstractmethod
    def values(self, users: IntArray) -> FloatArray:
        """Return estimated values; shape (n_contexts, n_actions), or one such table for each user.

        NaN where nothing is known.
        """

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Return the best action of each context; see ``Learner.action_probabilities``."""
        shares = evenly_among_best(self.values(users))
        return shares if shares.ndim == 2 else np.asarray(shares.mean(axis=0))


@compiled
def index_of_best(rng: np.random.Generator, values: FloatArray) -> int:
    """Index of the largest entry; ties are broken uniformly.

    Randomness is drawn only if there is a tie.
    """
    best = values[0]
    n_best = 1
    at = 0
    for i in range(1, values.size):
        if values[i] > best:
            best = values[i]
            n_best = 1
            at = i
        elif values[i] == best:
            n_best += 1
    if n_best > 1:
        skip = int(n_best * rng.random())
        for i in range(at, values.size):
            if values[i] == best:
                if skip == 0:
                    return i
                skip -= 1
    return at


def means(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return sums divided by counts; NaN where the count is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=result, where=counts > 0)
    return result


UNIFORM, GREEDY, THOMPSON, UCB = range(4)


@compiled
def play_by_rule(
    rng: np.random.Generator,
    rule: int,
    rows: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: FloatArray,
    n_exploring: float,
) -> IntArray:
    """Play each arrival in its row of a table of shape (n_rows, n_actions), and update the row.

    Actions without a play come first, ties are broken evenly. At the n-th play of a row ``GREEDY``
    explores with probability ``n_exploring``/n. The index of ``UCB`` is UCB1's,
    mean + sqrt(2 ln n / plays), n the plays of the row so far. ``THOMPSON`` draws from
    Normal(sum/(plays + 1), 1/(plays + 1)).
    """
    n_actions = sums.shape[1]
    actions = np.empty(rows.size, dtype=np.int64)
    values = np.empty(n_actions)
    for t in range(rows.size):
        row = rows[t]
        n_plays = counts[row].sum()
        is_uniform = rule == UNIFORM
        if rule == GREEDY:
            is_uniform = rng.random() < n_exploring / (n_plays + 1.0)
        if is_uniform:
            chosen = int(n_actions * rng.random())
        else:
            twice_log = 2.0 * np.log(max(n_plays, 1.0)) if rule == UCB else 0.0
            for a in range(n_actions):
                n = counts[row, a]
                if rule == THOMPSON:
                    weight = 1.0 / (n + 1.0)
                    values[a] = sums[row, a] * weight + np.sqrt(weight) * rng.standard_normal()
                elif n == 0:
                    values[a] = np.inf
                else:
                    values[a] = sums[row, a] / n + np.sqrt(twice_log / n)
            chosen = index_of_best(rng, values)
        actions[t] = chosen
        sums[row, chosen] += outcomes[t, chosen]
        counts[row, chosen] += 1.0
    return actions


class PooledMeans(Baseline):
    """Means over all users of each context; recommends the best.

    Attributes
    ----------
    sums, counts
        Shape (n_contexts, n_actions); rewards received and plays made.
    """

    rule = UNIFORM
    n_exploring = 0.0

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.sums, self.counts = np.zeros((2, setting.n_contexts, setting.n_actions))

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:  # noqa: ARG002 - users are pooled
        return play_by_rule(
            self.setting.rng,
            self.rule,
            contexts,
            outcomes,
            self.sums,
            self.counts,
            self.n_exploring,
        )

    def values(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the means of all users."""
        return means(self.sums, self.counts)


class NaiveMean(PooledMeans):
    """Play uniformly at random, recommend the action with the best mean over all users.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1], n plays of an action estimate its mean to
    within sqrt(ln(2/delta)/(2n)) with probability 1 − delta (Hoeffding). None under attack: one
    user is enough if rewards are unbounded.

    Deviations: none (not in the paper).
    """


# Theirs: the analysis wants any c above 5.
EXPLORATION_SCALE = 6.0
# Ours: the gap of the experiments of Kwon et al. (2022), since a learner does not know the gap.
ASSUMED_GAP = 0.3


class EpsilonGreedy(PooledMeans):
    """Explore uniformly with probability epsilon_n, otherwise play the best plain mean.

    At the n-th arrival of a context epsilon_n = min(1, c·A/(d² n)), d the assumed gap between the
    best and the second-best action.

    Guarantee
    ---------
    Without adversaries, with rewards in [0, 1] and d at most the gap, the chance of a wrong
    play at arrival n is at most c/(d² n) + o(1/n) for each action (Auer, Cesa-Bianchi and Fischer
    2002, Theorem 3). None under attack.

    Deviations: an action without a play counts as best (theirs leaves it open).
    """

    rule = GREEDY

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.n_exploring = EXPLORATION_SCALE * setting.n_actions / ASSUMED_GAP**2


class ThompsonSampling(PooledMeans):
    """Play the action whose draw from its posterior is largest; recommend the best mean.

    After n plays with reward sum x the posterior of an action is Normal(x/(n+1), 1/(n+1)): a
    standard normal prior and a likelihood of variance one. Gaussian rather than Beta, because
    rewards may be any real number, and because the guarantee asks nothing of their shape.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1] of any distribution, the expected regret of a
    context is O(sqrt(A n ln A)) (Agrawal and Goyal 2013, the version with Gaussian priors). None
    under attack.

    Deviations: none from that version (not in the paper).
    """

    rule = THOMPSON


class NaiveUCB(PooledMeans):
    """One UCB1 table per context, fed by all users; recommends the best mean.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1], the regret in a context grows like
    sum over actions of 8 ln n / gap (Auer, Cesa-Bianchi and Fischer 2002, Theorem 1). None under
    attack: a share alpha of users moves every mean.

    Deviations: none. The paper names the baseline without its index; this is UCB1's.
    """

    rule = UCB


class ClusteredUCB(Baseline):
    """One UCB1 table per cluster of users and context; rows ``cluster * n_contexts + context``.

    Attributes
    ----------
    cluster_of
        Shape (n_users,).
    """

    def __init__(self, setting: Setting, cluster_of: IntArray) -> None:
        super().__init__(setting)
        self.cluster_of = cluster_of
        n_rows = (int(cluster_of.max()) + 1) * setting.n_contexts
        self.sums, self.counts = np.zeros((2, n_rows, setting.n_actions))

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        rows = self.cluster_of[users] * self.setting.n_contexts + contexts
        return play_by_rule(self.setting.rng, UCB, rows, outcomes, self.sums, self.counts, 0.0)

    def values(self, users: IntArray) -> FloatArray:
        """Return the means of the given users' clusters."""
        if np.size(users) == 0:
            raise InputError("no users to average over: name at least one user.")
        shape = (-1, self.setting.n_contexts, self.setting.n_actions)
        clusters = self.cluster_of[users]
        return means(self.sums.reshape(shape)[clusters], self.counts.reshape(shape)[clusters])


class IndependentUCB(ClusteredUCB):
    """One UCB1 table per user and context: nothing is shared, so nobody can be swayed.

    Guarantee
    ---------
    A user's policy depends on that user's rewards alone, whatever the others do; the price is
    O(S A / epsilon²) interactions of every user. Rewards in [0, 1].

    Deviations: none. Takes 16 bytes for each of the L·S·A cells.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, np.arange(setting.n_users))


#: Ours: the sub-Gaussian scale of rewards in [0, 1].
REWARD_SCALE = 0.5
#: Ours: an edge is cut when two users differ by more than this many standard deviations.
CUT = 4.0
#: Ours: keeps squares finite when rewards are absurd.
LARGEST_MEAN = 1e9


class RclubStyle(ClusteredUCB):
    """UCB for each cluster; an edge between two users goes when their own means differ too much.

    In the style of RCLUB-WCU (Wang et al. 2023). All users begin in one cluster. Whenever the plays
    have doubled, edges are cut between users whose squared difference over the cells that both
    played, weighted by plays, exceeds its expectation by ``CUT`` standard deviations; connected
    components are the clusters, and each has its own UCB1 table, the sum of its users' plays.

    Guarantee
    ---------
    None claimed. RCLUB-WCU bounds the regret of clustered linear bandits when few users are
    corrupted in few rounds.

    Deviations: "-style": cells instead of features, cuts at doubling times, and no weights by
    uncertainty, which without features only weigh down the first plays of a cell.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, np.zeros(setting.n_users, np.int64))
        n_cells = setting.n_contexts * setting.n_actions
        self._own_sums, self._own_counts = np.zeros((2, setting.n_users, n_cells))
        self._is_edge: BoolArray = np.ones((setting.n_users, setting.n_users), np.bool_)
        self._n_played, self._next_cut = 0, 2 * setting.n_users

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = super()._play(users, contexts, outcomes)
        cells = contexts * self.setting.n_actions + actions
        np.add.at(self._own_sums, (users, cells), outcomes[np.arange(users.size), actions])
        np.add.at(self._own_counts, (users, cells), 1.0)
        self._n_played += users.size
        if self._n_played >= self._next_cut:
            self._next_cut = 2 * self._n_played
            self._cut()
            n_clusters, labels = sparse.csgraph.connected_components(self._is_edge, directed=False)
            self.cluster_of = labels.astype(np.int64)
            member = sparse.csr_array(
                (np.ones(len(labels)), (labels, np.arange(len(labels)))),
                shape=(n_clusters, len(labels)),
            )
            shape = (n_clusters * self.setting.n_contexts, self.setting.n_actions)
            self.sums = np.ascontiguousarray(member @ self._own_sums).reshape(shape)
            self.counts = np.ascontiguousarray(member @ self._own_counts).reshape(shape)
        return actions

    def _cut(self) -> None:
        """Cut edges by Σ n_i n_j (mean_i − mean_j)² over cells, given its mean and variance.

        Without a difference a term has mean σ²(n_i + n_j), and twice its square for variance.
        """
        counts = self._own_counts
        has = (counts > 0).astype(np.float64)
        own = np.clip(np.nan_to_num(means(self._own_sums, counts)), -LARGEST_MEAN, LARGEST_MEAN)
        squares = (counts * own**2) @ counts.T
        distances = squares + squares.T - 2.0 * (counts * own) @ (counts * own).T
        noise = REWARD_SCALE**2
        first, second = counts @ has.T, counts**2 @ has.T
        expected = noise * (first + first.T)
        variances = 2.0 * noise**2 * (second + second.T + 2.0 * counts @ counts.T)
        self._is_edge &= distances <= expected + CUT * np.sqrt(variances)


#: Ours: medians are taken anew when the plays have grown by this factor; theirs communicates ever
#: more rarely, too.
GROWTH = 1.1


class FedMomUCB(Baseline):
    """Users fall into random groups; an action's value is the median of the groups' means.

    In the style of Fed-MoM-UCB (Saday et al. 2022). There are 4·alpha·L + 1 groups, so that three
    in four hold no colluder, and at most one for each user. The index is the median plus UCB1's
    bonus for the plays of all groups.

    Guarantee
    ---------
    None claimed. Theirs bounds the regret against actions within a margin that does not vanish,
    if colluders are fewer than half of the groups' number.

    Deviations: "-style": one server sees all plays, there are no local rounds, and the margin is
    not subtracted from the index.

    Attributes
    ----------
    medians
        Shape (n_contexts, n_actions); NaN where nobody played.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        n_groups = min(setting.n_users, 4 * ceil(setting.alpha * setting.n_users) + 1)
        self._group_of = setting.rng.permutation(setting.n_users) % n_groups
        shape = (setting.n_contexts, setting.n_actions)
        self._sums, self._counts = np.zeros((2, n_groups, *shape))
        self.medians = np.full(shape, np.nan)
        self._n_at_medians = 0

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = np.empty(users.size, np.int64)
        start = 0
        while start < users.size:
            n_played = int(self._counts.sum())
            if n_played >= GROWTH * self._n_at_medians:
                self._take_medians(n_played)
            left = max(1, ceil(GROWTH * self._n_at_medians) - n_played)
            batch = slice(start, min(start + left, users.size))
            actions[batch] = _play_medians(
                self.setting.rng,
                self._group_of[users[batch]],
                contexts[batch],
                outcomes[batch],
                self.medians,
                self._sums,
                self._counts,
            )
            start = batch.stop
        return actions

    def values(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the medians as of now."""
        self._take_medians(int(self._counts.sum()))
        return self.medians

    def _take_medians(self, n_played: int) -> None:
        self.medians = medians_of_means(self._sums, self._counts)
        self._n_at_medians = n_played


@compiled
def _play_medians(
    rng: np.random.Generator,
    groups: IntArray,
    contexts: IntArray,
    outcomes: FloatArray,
    medians: FloatArray,
    sums: FloatArray,
    counts: FloatArray,
) -> IntArray:
    plays = counts.sum(axis=0)
    actions = np.empty(contexts.size, dtype=np.int64)
    index = np.empty(medians.shape[1])
    for t in range(contexts.size):
        s = contexts[t]
        twice_log = 2.0 * np.log(max(plays[s].sum(), 1.0))
        for a in range(index.size):
            if np.isnan(medians[s, a]):
                index[a] = 1e300 / (1.0 + plays[s, a])  # the least played of the unknown ones
            else:
                index[a] = medians[s, a] + np.sqrt(twice_log / plays[s, a])
        a = index_of_best(rng, index)
        actions[t] = a
        plays[s, a] += 1.0
        sums[groups[t], s, a] += outcomes[t, a]
        counts[groups[t], s, a] += 1.0
    return actions


@compiled
def medians_of_means(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the median over rows with a play, NaN if there is none; shape of one row."""
    n_rows, n_contexts, n_actions = sums.shape
    medians = np.full((n_contexts, n_actions), np.nan)
    own = np.empty(n_rows)
    for s in range(n_contexts):
        for a in range(n_actions):
            n = 0
            for row in range(n_rows):
                if counts[row, s, a] > 0:
                    own[n] = sums[row, s, a] / counts[row, s, a]
                    n += 1
            if n:
                medians[s, a] = np.median(own[:n])
    return medians
