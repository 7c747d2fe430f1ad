"""UCB that ignores who is asking, the paper's "Naive UCB"."""

from __future__ import annotations

from unswayed.learners.baselines.arrivals import checked_arrivals
from unswayed.learners.baselines.pooled import PooledMeans
from unswayed.learners.baselines.ucb import play_ucb
from unswayed.learners.interface import FloatArray, IntArray


class NaiveUCB(PooledMeans):
    """One UCB1 table per context, fed by all users; recommends the best mean.

    Guarantee
    ---------
    Without adversaries and with rewards in [0, 1], the regret in a context grows like
    sum over actions of 8 ln n / gap (Auer, Cesa-Bianchi and Fischer 2002, Theorem 1). None under
    attack: a share alpha of users moves every mean.

    Deviations: none. The paper names the baseline without its index; this is UCB1's.
    """

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        _, contexts, answers = checked_arrivals(users, contexts, answers, self.setting)
        return play_ucb(self.setting.rng, contexts, answers, self.sums, self.counts)
