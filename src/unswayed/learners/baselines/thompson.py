"""Thompson sampling with Gaussian posteriors on the pooled rewards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.learners.baselines.arrivals import checked_arrivals
from unswayed.learners.baselines.pooled import PooledMeans
from unswayed.learners.interface import FloatArray, IntArray


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
        chosen = 0
        best = -np.inf
        for a in range(n_actions):
            weight = 1.0 / (counts[s, a] + 1.0)
            draw = sums[s, a] * weight + np.sqrt(weight) * rng.standard_normal()
            if draw > best:  # draws are continuous: no ties to break
                best = draw
                chosen = a
        actions[t] = chosen
        sums[s, chosen] += answers[t, chosen]
        counts[s, chosen] += 1
    return actions
