"""The table of the learners that ignore who is asking: one mean per (context, action)."""

from __future__ import annotations

import numpy as np

from unswayed.learners.baselines.arrivals import means
from unswayed.learners.interface import FloatArray, IntArray, Setting, evenly_among_best


class PooledMeans:
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

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 (one policy for all)
        """Return the best mean of each context; a context that never came gets uniform play."""
        return evenly_among_best(means(self.sums, self.counts))
