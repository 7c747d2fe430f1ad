"""Epsilon-greedy on the plain means, with the decay of Auer, Cesa-Bianchi and Fischer (2002)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, index_of_best
from unswayed.learners.baselines.pooled import PooledMeans
from unswayed.learners.interface import FloatArray, IntArray, Setting

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

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        _, contexts, answers = checked_arrivals(users, contexts, answers, self.setting)
        rng = self.setting.rng
        return _play(rng, contexts, answers, self.sums, self.counts, self.n_exploring)


@compiled
def _play(
    rng: np.random.Generator,
    contexts: IntArray,
    answers: FloatArray,
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
        sums[s, chosen] += answers[t, chosen]
        counts[s, chosen] += 1
    return actions
