"""Contextual bandit instances: context probabilities, mean rewards and reward distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.limits.checks import check_context_probabilities

# Ours: the smallest integer for which Student's distribution has finite variance
HEAVY_DEGREES_OF_FREEDOM = 3.0


class RewardLaw(StrEnum):
    """The distribution of a reward around its mean."""

    BERNOULLI = "bernoulli"
    GAUSSIAN = "gaussian"
    HEAVY = "heavy"


def draw_rewards(
    means: FloatArray, *, law: RewardLaw, deviation: float, rng: np.random.Generator
) -> FloatArray:
    """Draw one reward for every mean, of any shape.

    Bernoulli means outside [0, 1] are clipped, and the deviation is ignored. Heavy-tailed rewards
    follow Student's t with 3 degrees of freedom, scaled to the deviation: the variance is finite,
    the third moment is not.
    """
    if law is RewardLaw.BERNOULLI:
        return (rng.random(means.shape) < means).astype(np.float64)
    if law is RewardLaw.GAUSSIAN:
        return means + deviation * rng.standard_normal(means.shape)
    # The variance of Student's distribution is dof / (dof - 2).
    scale = deviation * math.sqrt((HEAVY_DEGREES_OF_FREEDOM - 2.0) / HEAVY_DEGREES_OF_FREEDOM)
    return means + scale * rng.standard_t(HEAVY_DEGREES_OF_FREEDOM, means.shape)


# Ours: range of random means; at 0 and 1, Bernoulli rewards would have no noise
LOWEST_MEAN, HIGHEST_MEAN = 0.05, 0.95
# Ours: interpretation of the paper's "approximately 0.3"; gaps are in [gap, 1.2 gap]
GAP_SPREAD = 0.2
# Ours: the largest standard deviation of a Bernoulli reward, so that distributions are comparable
DEFAULT_DEVIATION = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A contextual bandit: context probabilities, mean rewards and reward distribution.

    ``context_probabilities`` has shape (n_contexts,), ``mean_rewards`` (n_contexts, n_actions).
    Both are stored as read-only copies, so that the world cannot be changed.
    """

    context_probabilities: FloatArray
    mean_rewards: FloatArray
    law: RewardLaw = RewardLaw.BERNOULLI
    deviation: float = DEFAULT_DEVIATION

    def __post_init__(self) -> None:
        probabilities = check_context_probabilities(self.context_probabilities)
        means = np.array(self.mean_rewards, dtype=np.float64)
        if means.ndim != 2 or means.shape[0] != probabilities.size or means.shape[1] < 2:
            raise InputError(
                f"mean_rewards has shape {means.shape}: it needs one row for each of the "
                f"{probabilities.size} contexts and a column for each of two or more actions."
            )
        if not np.isfinite(means).all():
            raise InputError(
                "mean_rewards contains values that are not finite: give finite numbers."
            )
        if self.law is RewardLaw.BERNOULLI and (means.min() < 0 or means.max() > 1):
            raise InputError("mean_rewards of Bernoulli rewards must lie in [0, 1].")
        if not (np.isfinite(self.deviation) and self.deviation > 0):
            raise InputError(f"{option('--deviation')} is {self.deviation}: it must be positive.")
        for name, array in (("context_probabilities", probabilities), ("mean_rewards", means)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_contexts(self) -> int:
        """Return the number of contexts."""
        return int(self.mean_rewards.shape[0])

    @property
    def n_actions(self) -> int:
        """Return the number of actions."""
        return int(self.mean_rewards.shape[1])


def named_probabilities(given: str | Sequence[float], n_contexts: int) -> FloatArray:
    """Return context probabilities given as "uniform", "zipf:EXPONENT" or numbers.

    Zipf probabilities are proportional to rank^-EXPONENT.

    >>> named_probabilities("zipf:1", 2).round(3).tolist()
    [0.667, 0.333]
    """
    if not isinstance(given, str):
        if len(given) != n_contexts:
            raise InputError(
                f"{len(given)} numbers for {n_contexts} contexts: give one probability for each."
            )
        return np.array(given, dtype=np.float64)
    name, _, text = given.partition(":")
    exponent = 0.0 if given == "uniform" else math.nan
    if name == "zipf":
        with suppress(ValueError):
            exponent = float(text or 1.0)
    if not 0.0 <= exponent < math.inf:
        raise InputError(
            f"{option('--context-probabilities')} is '{given}': it must be uniform, zipf:EXPONENT "
            "with an exponent of 0 or more, or one number for each context."
        )
    weights: FloatArray = np.arange(1.0, n_contexts + 1.0) ** -exponent
    return weights / float(weights.sum())


def random_instance(
    *,
    n_contexts: int,
    n_actions: int,
    gap: float,
    rng: np.random.Generator,
    context_probabilities: FloatArray | None = None,
    law: RewardLaw = RewardLaw.BERNOULLI,
    deviation: float = DEFAULT_DEVIATION,
    base: float | None = None,
) -> Instance:
    """Draw an instance whose best action leads by about ``gap`` in every context.

    In each context the best action and its level are drawn uniformly, one runner-up lies exactly
    ``gap`` below it and the others between ``gap`` and 1.2 ``gap`` below. With ``base`` every
    runner-up has that mean reward, such as a click rate, instead of a random level.
    """
    if n_contexts < 1 or n_actions < 2:
        raise InputError(
            f"{n_contexts} contexts and {n_actions} actions: at least 1 context and 2 actions "
            "are needed, or there is nothing to decide."
        )
    widest = (HIGHEST_MEAN - LOWEST_MEAN) / (1.0 + GAP_SPREAD)
    if not 0.0 < gap <= widest:
        raise InputError(
            f"{option('--gap')} is {gap}: it must be positive and at most {widest:.2f}."
        )
    best_level = rng.uniform(LOWEST_MEAN + (1.0 + GAP_SPREAD) * gap, HIGHEST_MEAN, n_contexts)
    if base is not None:
        if not (GAP_SPREAD * gap <= base <= 1.0 - gap):
            raise InputError(
                f"{option('--base')} is {base} and {option('--gap')} {gap}: rates from "
                f"base - {GAP_SPREAD:g} gap to base + gap must lie between 0 and 1. Give a "
                "smaller gap."
            )
        best_level[:] = base + gap
    gaps = gap * rng.uniform(1.0, 1.0 + GAP_SPREAD, (n_contexts, n_actions))
    order = rng.permuted(np.tile(np.arange(n_actions), (n_contexts, 1)), axis=1)
    contexts = np.arange(n_contexts)
    gaps[contexts, order[:, 0]] = 0.0
    gaps[contexts, order[:, 1]] = gap
    return Instance(
        context_probabilities=named_probabilities("uniform", n_contexts)
        if context_probabilities is None
        else context_probabilities,
        mean_rewards=best_level[:, None] - gaps,
        law=law,
        deviation=deviation,
    )


def suboptimality(instance: Instance, action_probabilities: FloatArray) -> float:
    """Return the loss of a policy against the best one, for a good user.

    It is V* - V = sum_s nu(s) (max_a mu(s, a) - sum_a pi(a | s) mu(s, a)), for action probabilities
    pi of shape (n_contexts, n_actions).
    """
    expected_shape = instance.mean_rewards.shape
    sums_to_one = np.shape(action_probabilities) == expected_shape and np.allclose(
        action_probabilities.sum(axis=1), 1.0
    )
    if not sums_to_one:
        raise InputError(f"action_probabilities must have shape {expected_shape} and sum to 1.")
    earned = (action_probabilities * instance.mean_rewards).sum(axis=1)
    best = instance.mean_rewards.max(axis=1)
    return float(instance.context_probabilities @ (best - earned))
