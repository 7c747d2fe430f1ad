"""UCB on medians of group means, in the style of Fed-MoM-UCB (Saday et al. 2022), per context."""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.baselines.arrivals import checked_arrivals, index_of_best
from unswayed.learners.interface import Setting, evenly_among_best

#: Ours: medians are taken anew when the plays have grown by this factor; theirs communicates ever
#: more rarely, too.
GROWTH = 1.1


class FedMomUCB:
    """Users fall into random groups; an action's value is the median of the groups' means.

    There are 4·alpha·L + 1 groups, so that three in four hold no colluder, and at most one for each
    user. The index is the median plus UCB1's bonus for the plays of all groups.

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
        self.setting = setting
        n_bad = ceil(setting.alpha * setting.n_users)
        n_groups = min(setting.n_users, 4 * n_bad + 1)
        self._group_of = setting.rng.permutation(setting.n_users) % n_groups
        shape = (setting.n_contexts, setting.n_actions)
        self._sums = np.zeros((n_groups, *shape))
        self._group_counts = np.zeros((n_groups, *shape), dtype=np.int32)
        self._counts = np.zeros(shape, dtype=np.int64)
        self.medians = np.full(shape, np.nan)
        self._n_at_medians = 0

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        users, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        actions = np.empty(users.size, np.int64)
        start = 0
        while start < users.size:
            n_played = int(self._counts.sum())
            if n_played >= GROWTH * self._n_at_medians:
                self._take_medians(n_played)
            left = max(1, ceil(GROWTH * self._n_at_medians) - n_played)
            batch = slice(start, min(start + left, users.size))
            actions[batch] = _play(
                self.setting.rng,
                self._group_of[users[batch]],
                contexts[batch],
                outcomes[batch],
                self.medians,
                self._counts,
                self._sums,
                self._group_counts,
            )
            start = batch.stop
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 (one policy for all)
        """Return the best median of each context."""
        self._take_medians(int(self._counts.sum()))
        return evenly_among_best(self.medians)

    def _take_medians(self, n_played: int) -> None:
        self.medians = _medians_of_means(self._sums, self._group_counts)
        self._n_at_medians = n_played


@compiled
def _play(
    rng: np.random.Generator,
    groups: IntArray,
    contexts: IntArray,
    outcomes: FloatArray,
    medians: FloatArray,
    counts: IntArray,
    sums: FloatArray,
    group_counts: npt.NDArray[np.int32],
) -> IntArray:
    n_actions = counts.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    index = np.empty(n_actions)
    for t in range(contexts.size):
        s = contexts[t]
        twice_log = 2.0 * np.log(max(counts[s].sum(), 1))
        for a in range(n_actions):
            if np.isnan(medians[s, a]):
                index[a] = 1e300 / (1.0 + counts[s, a])  # the least played of the unknown ones
            else:
                index[a] = medians[s, a] + np.sqrt(twice_log / counts[s, a])
        a = index_of_best(rng, index)
        actions[t] = a
        counts[s, a] += 1
        sums[groups[t], s, a] += outcomes[t, a]
        group_counts[groups[t], s, a] += 1
    return actions


@compiled
def _medians_of_means(sums: FloatArray, counts: npt.NDArray[np.int32]) -> FloatArray:
    """Return the median over groups with a play, NaN if there is none; shape of one group."""
    n_groups, n_contexts, n_actions = sums.shape
    medians = np.full((n_contexts, n_actions), np.nan)
    means = np.empty(n_groups)
    for s in range(n_contexts):
        for a in range(n_actions):
            n = 0
            for g in range(n_groups):
                if counts[g, s, a] > 0:
                    means[n] = sums[g, s, a] / counts[g, s, a]
                    n += 1
            if n:
                medians[s, a] = np.median(means[:n])
    return medians
