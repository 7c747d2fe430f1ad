from __future__ import annotations

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.simulation.instances import (
    Instance,
    RewardLaw,
    draw_rewards,
    named_probabilities,
    random_instance,
    suboptimality,
)


def test_the_best_action_leads_by_the_gap_in_every_context(rng: np.random.Generator) -> None:
    instance = random_instance(n_contexts=50, n_actions=7, gap=0.3, rng=rng)
    ordered = np.sort(instance.mean_rewards, axis=1)
    np.testing.assert_allclose(ordered[:, -1] - ordered[:, -2], 0.3)
    assert (ordered[:, -1] - ordered[:, 0] <= 1.2 * 0.3 + 1e-12).all()
    assert instance.mean_rewards.min() >= 0.05 - 1e-12
    assert instance.mean_rewards.max() <= 0.95
    assert np.unique(instance.mean_rewards.argmax(axis=1)).size == 7


def test_zipf_probabilities_decrease_with_rank() -> None:
    probabilities = named_probabilities("zipf:2", 4)
    np.testing.assert_allclose(probabilities[0] / probabilities, [1, 4, 9, 16])
    np.testing.assert_allclose(named_probabilities("zipf:0", 5), 0.2)


@pytest.mark.parametrize("law", RewardLaw)
def test_rewards_have_the_mean_and_the_variance_they_should(
    law: RewardLaw, rng: np.random.Generator
) -> None:
    n, mean, deviation = 200_000, 0.3, 0.5
    rewards = draw_rewards(np.full(n, mean), law=law, deviation=deviation, rng=rng)
    variance = mean * (1 - mean) if law is RewardLaw.BERNOULLI else deviation**2
    # Five standard errors of a mean of n variables with finite variance: P < 1e-6 in the limit.
    assert abs(rewards.mean() - mean) < 5 * np.sqrt(variance / n)
    # Heavy rewards have no fourth moment, so the error of the variance has no bound
    if law is not RewardLaw.HEAVY:
        # The variance of a squared deviation is below 3 variance² for both distributions.
        assert abs(rewards.var() - variance) < 5 * np.sqrt(3 * variance**2 / n)


def test_the_heavy_law_has_heavier_tails_than_the_gaussian(rng: np.random.Generator) -> None:
    zeros = np.zeros(100_000)
    heavy, gaussian = (
        np.abs(draw_rewards(zeros, law=law, deviation=1.0, rng=rng))
        for law in (RewardLaw.HEAVY, RewardLaw.GAUSSIAN)
    )
    # P(|t3| > 6 sqrt 3) = 1.9e-3, and 2e-9 for normal rewards: 190 and 0 are expected.
    assert (heavy > 6).sum() > 100
    assert (gaussian > 6).sum() == 0


def test_suboptimality_is_zero_for_the_best_policy_and_the_gap_for_the_runner_up(
    rng: np.random.Generator,
) -> None:
    instance = random_instance(n_contexts=6, n_actions=4, gap=0.2, rng=rng)
    order = np.argsort(-instance.mean_rewards, axis=1)
    assert suboptimality(instance, np.eye(4)[order[:, 0]]) == pytest.approx(0.0)
    runner_up = np.eye(4)[order[:, 1]]
    assert suboptimality(instance, runner_up) == pytest.approx(0.2)


def test_suboptimality_weighs_contexts_by_their_probability() -> None:
    instance = Instance(
        context_probabilities=np.array([0.9, 0.1]), mean_rewards=np.array([[1.0, 0.0], [0.0, 1.0]])
    )
    always_first = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert suboptimality(instance, always_first) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("probabilities", "means", "named"),
    [
        ([0.5, 0.4], [[0.1, 0.2]] * 2, "sum to 0.9"),
        ([1.5, -0.5], [[0.1, 0.2]] * 2, "at least 0"),
        ([1.0], [[0.1]], "two or more actions"),
        ([1.0], [[0.1, 0.2]] * 2, "shape"),
        ([1.0], [[0.1, np.nan]], "finite"),
        ([1.0], [[0.1, 1.2]], "Bernoulli"),
    ],
)
def test_invalid_instances_are_rejected(
    probabilities: list[float], means: list[list[float]], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        Instance(context_probabilities=np.array(probabilities), mean_rewards=np.array(means))


@pytest.mark.parametrize("gap", [0.0, -0.1, 0.8, float("nan")])
def test_gaps_that_do_not_fit_are_rejected(gap: float, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="gap"):
        random_instance(n_contexts=2, n_actions=2, gap=gap, rng=rng)
