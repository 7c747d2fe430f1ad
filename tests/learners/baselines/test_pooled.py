"""The uniform explorer and Thompson sampling, step by step."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from tests.learners.baselines.scenes import bernoulli_arrivals, small_setting
from unswayed.learners.baselines import NaiveMean, NaiveUCB, PooledMeans, ThompsonSampling

Streams = Callable[..., np.random.Generator]


def test_the_uniform_explorer_ignores_what_it_learns(streams: Streams) -> None:
    setting = small_setting(streams("play"))
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 500)
    learner = NaiveMean(setting)
    twin = streams("play")
    assert learner.play(*arrivals).tolist() == [int(4 * twin.random()) for _ in range(500)]


@pytest.mark.parametrize("make", [NaiveMean, ThompsonSampling, NaiveUCB])
def test_plays_are_summed_and_the_best_mean_is_recommended(
    make: type[PooledMeans], rng: np.random.Generator
) -> None:
    setting = small_setting(rng)
    arrivals = bernoulli_arrivals(rng, setting, 300)
    learner = make(setting)
    actions = learner.play(*arrivals)
    sums, counts = np.zeros((3, 4)), np.zeros((3, 4), np.int64)
    for context, action, outcome in zip(arrivals.contexts, actions, arrivals.outcomes, strict=True):
        sums[context, action] += outcome[action]
        counts[context, action] += 1
    assert learner.sums.tolist() == sums.tolist()
    assert learner.counts.tolist() == counts.tolist()
    means = sums / np.maximum(counts, 1)
    means[counts == 0] = -1.0
    is_best = means == means.max(axis=1, keepdims=True)
    expected = is_best / is_best.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(learner.action_probabilities(np.arange(20)), expected)


def test_thompson_sampling_equals_its_literal_twin(streams: Streams) -> None:
    setting = small_setting(streams("play"))
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 800)
    learner = ThompsonSampling(setting)
    twin = streams("play")
    seen: list[list[list[float]]] = [[[] for _ in range(4)] for _ in range(3)]
    expected = []
    for _, context, outcome in zip(*arrivals, strict=True):
        rewards = seen[context]
        draws = []
        for x in rewards:
            n = len(x)
            draws.append(sum(x) / (n + 1) + sqrt(1 / (n + 1)) * twin.standard_normal())
        action = int(np.argmax(draws))
        rewards[action].append(float(outcome[action]))
        expected.append(action)
    assert learner.play(*arrivals).tolist() == expected
