"""Laws of good users' rewards around their means."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np

from unswayed.learners.interface import FloatArray

HEAVY_DEGREES_OF_FREEDOM = 3.0
"""Ours: the heaviest whole-numbered Student law whose variance is finite."""


class RewardLaw(StrEnum):
    """How a reward scatters around its mean."""

    BERNOULLI = "bernoulli"
    GAUSSIAN = "gaussian"
    HEAVY = "heavy"


def draw_rewards(
    means: FloatArray, *, law: RewardLaw, deviation: float, rng: np.random.Generator
) -> FloatArray:
    """Draw one reward for every mean.

    Parameters
    ----------
    means
        Any shape. Bernoulli means outside [0, 1] act as the nearer end.
    deviation
        Standard deviation of Gaussian and heavy-tailed rewards; Bernoulli rewards ignore it.

    Returns
    -------
    Same shape as ``means``; heavy rewards are Student's t with 3 degrees of freedom, scaled to
    the deviation: finite variance, no finite third moment.
    """
    if law is RewardLaw.BERNOULLI:
        return (rng.random(means.shape) < means).astype(np.float64)
    if law is RewardLaw.GAUSSIAN:
        return means + deviation * rng.standard_normal(means.shape)
    # Student's variance is dof / (dof - 2).
    scale = deviation * math.sqrt((HEAVY_DEGREES_OF_FREEDOM - 2.0) / HEAVY_DEGREES_OF_FREEDOM)
    return means + scale * rng.standard_t(HEAVY_DEGREES_OF_FREEDOM, means.shape)
