"""Worlds that change while they are learned."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from unswayed.learners.interface import FloatArray


class Drift(StrEnum):
    """How the good users' mean rewards change over a run.

    Not at all; or actions change places in every context, so that another one is the best at the
    end: at once halfway, or little by little from a quarter of the run to three quarters.
    """

    NONE = "none"
    ABRUPT = "abrupt"
    SLOW = "slow"

    def share(self, progress: float) -> float:
        """Return how much of the change has happened at a share of the run.

        >>> Drift.SLOW.share(0.25), Drift.SLOW.share(0.5), Drift.SLOW.share(1.0)
        (0.0, 0.5, 1.0)
        >>> Drift.ABRUPT.share(0.49), Drift.ABRUPT.share(0.5), Drift.NONE.share(1.0)
        (0.0, 1.0, 0.0)
        """
        if self is Drift.NONE:
            return 0.0
        if self is Drift.ABRUPT:
            return float(progress >= 0.5)
        return float(np.clip(2.0 * progress - 0.5, 0.0, 1.0))


def changed_means(mean_rewards: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the means with actions turned by one step or more in each context.

    The gaps stay, and the best action of every context becomes another one.
    """
    n_contexts, n_actions = mean_rewards.shape
    steps = rng.integers(1, n_actions, (n_contexts, 1))
    places = (np.arange(n_actions) + steps) % n_actions
    turned: FloatArray = np.take_along_axis(mean_rewards, places, axis=1)
    return turned
