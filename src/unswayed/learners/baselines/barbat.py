"""A BARBAT-style learner (Hu and Chen 2025), pooled over the users and run per context."""

from __future__ import annotations

from math import ceil

import numpy as np

from unswayed.learners.baselines.barbar import Barbar


class BarbatStyle(Barbar):
    """BARBAR with epochs of fixed length: what is left after lambda/gap² goes to the best action.

    Epoch m lasts K·lambda·4^(m−1) arrivals whatever the estimates say, so that an adversary who
    inflates gaps cannot shorten epochs; every action but the best of the epoch before is due
    lambda/gap² plays, and the best one gets the rest.

    Guarantee
    ---------
    None claimed. Theirs has regret O(C) rather than O(K C) in the total corruption C, which is
    linear in T when a fixed share of the users lies.

    Deviations: "-style", because lambda is BARBAR's and does not change from epoch to epoch; see
    :class:`PlannedEpochs` for the default constant.
    """

    def _plan(self, context: int) -> None:
        self.planned[context] = self.unit_plays / self.gaps[context] ** 2
        length = self.planned.shape[1] * self.unit_plays * 4.0 ** (self.epochs[context] - 1)
        if self.epochs[context] > 1:
            best = int(np.argmax(self.estimates[context]))
            self.planned[context, best] += length - self.planned[context].sum()
        self.remaining[context] = ceil(length)
        self._thresholds[context] = np.cumsum(self.planned[context]) / length
        self._thresholds[context, -1] = 1.0  # rounding must not leave a gap at the end
