"""Learners with one mean per (context, action) over all users, and UCB for each user alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, index_of_best, means
from unswayed.learners.interface import Setting, evenly_among_best


class PooledMeans(ABC):
    """Sums and counts over all users, and the recommendation that follows from them.

    Attributes
    ----------
    sums, counts
        Shape (n_contexts, n_actions); rewards received and plays made, updated in place.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.sums = np.zeros((setting.n_contexts, setting.n_actions))
        self.counts = np.zeros((setting.n_contexts, setting.n_actions), dtype=np.int32)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        _, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        return self._played(contexts, outcomes)

    @abstractmethod
    def _played(self, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals that were checked, and update the table."""

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 (one policy for all)
        """Return the best mean of each context; a context that never came gets uniform play."""
        return evenly_among_best(means(self.sums, self.counts))


class NaiveMean(PooledMeans):
    """Play uniformly at random, recommend the action with the best mean over all users.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1], n plays of an action estimate its mean to
    within sqrt(ln(2/delta)/(2n)) with probability 1 − delta (Hoeffding). None under attack: one
    user is enough if rewards are unbounded.

    Deviations: none (not in the paper).
    """

    def _played(self, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        return _play_uniformly(self.setting.rng, contexts, outcomes, self.sums, self.counts)


@compiled
def _play_uniformly(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
) -> IntArray:
    n_actions = sums.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    for t in range(contexts.size):
        s = contexts[t]
        a = int(n_actions * rng.random())
        actions[t] = a
        sums[s, a] += outcomes[t, a]
        counts[s, a] += 1
    return actions


# Theirs: the analysis wants any c above 5.
EXPLORATION_SCALE = 6.0
# Ours: the gap of the experiments of Kwon et al. (2022), since a learner does not know the gap.
ASSUMED_GAP = 0.3


class EpsilonGreedy(PooledMeans):
    """Explore uniformly with probability epsilon_n, otherwise play the best plain mean.

    At the n-th arrival of a context epsilon_n = min(1, c·A/(d² n)).

    Parameters
    ----------
    assumed_gap
        d: at most the true gap between the best and the second-best action, in (0, 1].

    Guarantee
    ---------
    Without adversaries, with rewards in [0, 1] and d at most the gap, the chance of a wrong
    play at arrival n is at most c/(d² n) + o(1/n) for each action (Theorem 3 there). None under
    attack.

    Deviations: an action without a play counts as best (theirs leaves it open).
    """

    def __init__(self, setting: Setting, *, assumed_gap: float = ASSUMED_GAP) -> None:
        if not 0.0 < assumed_gap <= 1.0:
            raise InputError(f"assumed_gap is {assumed_gap}: it must be above 0 and at most 1.")
        super().__init__(setting)
        # c·A/d²: the arrivals of a context that are pure exploration.
        self.n_exploring = EXPLORATION_SCALE * setting.n_actions / assumed_gap**2

    def _played(self, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        rng = self.setting.rng
        return _play_greedily(rng, contexts, outcomes, self.sums, self.counts, self.n_exploring)


@compiled
def _play_greedily(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
    n_exploring: float,
) -> IntArray:
    n_actions = sums.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    values = np.empty(n_actions)
    for t in range(contexts.size):
        s = contexts[t]
        arrival = 1
        for a in range(n_actions):
            arrival += counts[s, a]
        # u < min(1, n_exploring / arrival), since u < 1 anyway
        if rng.random() < n_exploring / arrival:
            chosen = int(n_actions * rng.random())
        else:
            for a in range(n_actions):
                values[a] = np.inf if counts[s, a] == 0 else sums[s, a] / counts[s, a]
            chosen = index_of_best(rng, values)
        actions[t] = chosen
        sums[s, chosen] += outcomes[t, chosen]
        counts[s, chosen] += 1
    return actions


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

    def _played(self, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        return _play_draws(self.setting.rng, contexts, outcomes, self.sums, self.counts)


@compiled
def _play_draws(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
) -> IntArray:
    n_actions = sums.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    for t in range(contexts.size):
        s = contexts[t]
        chosen = 0
        best = -np.inf
        for a in range(n_actions):
            weight = 1.0 / (counts[s, a] + 1.0)
            draw = sums[s, a] * weight + np.sqrt(weight) * rng.standard_normal()
            if draw > best:  # draws are continuous: no ties to break
                best = draw
                chosen = a
        actions[t] = chosen
        sums[s, chosen] += outcomes[t, chosen]
        counts[s, chosen] += 1
    return actions


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
