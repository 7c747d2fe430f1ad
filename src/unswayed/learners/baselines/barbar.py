"""BARBAR (Gupta, Koren and Talwar 2019), pooled over the users and run per context."""

from __future__ import annotations

import numpy as np

from unswayed.learners.baselines.epochs import PlannedEpochs
from unswayed.learners.interface import FloatArray

# Theirs: the share of its gap by which an action is held down when the best is sought.
CAUTION = 1.0 / 16.0


class Barbar(PlannedEpochs):
    """Never drop an action, only play it less: gaps are estimated anew in every epoch.

    After epoch m with estimates r: r* = max(r − gap/16) and the new gap is max(2^−m, r* − r).

    Guarantee
    ---------
    With ``constant=ORIGINAL_CONSTANT``, rewards in [0, 1] and total corruption C, regret
    O(K C + sum over actions of log(T) log(K log T/delta)/gap) with probability 1 − delta. C is
    linear in T when a fixed share of the users lies: then the bound is void, which is what the
    paper's Figure 2(d) shows. With the default constant there is no theorem, but at small sizes
    epochs do end; with the original one a context of Figure 2(d) sees two epochs at most.

    Deviations: the default constant, see :class:`PlannedEpochs`; gaps are capped at 10^9.
    """

    def next_gaps(self, context: int) -> FloatArray:
        """Return max(2^−m, r* − r)."""
        estimates = self.estimates[context]
        best = np.max(estimates - CAUTION * self.gaps[context])
        gaps: FloatArray = np.maximum(2.0 ** -float(self.epochs[context]), best - estimates)
        return gaps
