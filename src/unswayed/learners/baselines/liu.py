"""A Liu-style learner: BARBAR with active and bad actions, pooled over the users, per context."""

from __future__ import annotations

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.baselines.epochs import (
    DEFAULT_CONSTANT,
    FAILURE_PROBABILITY,
    PlannedEpochs,
)
from unswayed.learners.interface import FloatArray, Setting


class LiuStyle(PlannedEpochs):
    """Active actions share each epoch evenly, bad ones keep lambda/gap² plays.

    In epoch m each active action is due lambda·4^(m−1) plays. After it, with r* the best estimate
    among the active, an action is bad when r* − r > c·2^−m, its gap is then r* − r, and active
    otherwise; a bad action that looks good again comes back.

    Parameters
    ----------
    badness
        c: how far below the best an action must fall to be bad, in units of 2^−m, at least 1.
    constant, failure_probability
        See :class:`PlannedEpochs`.

    Guarantee
    ---------
    None claimed. Liu, Li and Li (2021) prove that the corruption costs its sum once rather than K
    times; as for BARBAR, a fixed share of lying users makes that sum linear in T.

    Deviations: "-style", because this follows a description of their method without the
    communication between agents, not their full text; constants are those of BARBAR.

    Attributes
    ----------
    is_active
        Shape (n_contexts, n_actions).
    """

    def __init__(
        self,
        setting: Setting,
        *,
        badness: float = 1.0,
        constant: float = DEFAULT_CONSTANT,
        failure_probability: float = FAILURE_PROBABILITY,
    ) -> None:
        if not 1.0 <= badness < np.inf:
            raise InputError(
                f"badness is {badness}: it must be finite and at least 1, or bad actions would be "
                "played more than active ones."
            )
        super().__init__(setting, constant=constant, failure_probability=failure_probability)
        self.badness = badness
        self.is_active = np.ones((setting.n_contexts, setting.n_actions), dtype=bool)

    def next_gaps(self, context: int) -> FloatArray:
        """Sort the actions into active, with gap 2^−m, and bad, with gap r* − r."""
        estimates = self.estimates[context]
        resolution = 2.0 ** -float(self.epochs[context])
        shortfall = np.max(estimates[self.is_active[context]]) - estimates
        self.is_active[context] = shortfall <= self.badness * resolution
        gaps: FloatArray = np.where(self.is_active[context], resolution, shortfall)
        return gaps
