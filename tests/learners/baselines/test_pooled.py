"""Step by step: the uniform explorer, epsilon-greedy and Thompson sampling."""

from collections.abc import Callable
from math import inf, sqrt

import numpy as np
import pytest

from tests.learners.baselines.scenes import bernoulli_arrivals, chosen_among_ties, small_setting
from unswayed.errors import InputError
from unswayed.learners.baselines import EpsilonGreedy, NaiveMean, ThompsonSampling

Streams = Callable[..., np.random.Generator]


def test_the_uniform_explorer_ignores_what_it_learns(streams: Streams) -> None:
    setting = small_setting(streams("play"))
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 500)
    learner = NaiveMean(setting)
    twin = streams("play")
    assert learner.play(*arrivals).tolist() == [int(4 * twin.random()) for _ in range(500)]


def test_epsilon_greedy_plays_like_its_literal_twin(streams: Streams) -> None:
    setting = small_setting(streams("play"))
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 1500)
    learner = EpsilonGreedy(setting, assumed_gap=0.5)
    twin = streams("play")
    seen: list[list[list[float]]] = [[[] for _ in range(4)] for _ in range(3)]
    expected = []
    n_greedy = 0
    for _, context, outcome in zip(*arrivals, strict=True):
        rewards = seen[context]
        arrival = 1 + sum(len(x) for x in rewards)
        if twin.random() < min(1.0, 6.0 * 4 / (0.5**2 * arrival)):
            action = int(4 * twin.random())
        else:
            n_greedy += 1
            action = chosen_among_ties(twin, [sum(x) / len(x) if x else inf for x in rewards])
        rewards[action].append(float(outcome[action]))
        expected.append(action)
    assert learner.play(*arrivals).tolist() == expected
    assert 200 < n_greedy < 1300, "the scene must hold both kinds of play"


@pytest.mark.parametrize("gap", [0.0, -0.1, 1.5, float("nan")])
def test_epsilon_greedy_refuses_a_gap_that_cannot_be(gap: float, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="assumed_gap"):
        EpsilonGreedy(small_setting(rng), assumed_gap=gap)


def test_thompson_sampling_plays_like_its_literal_twin(streams: Streams) -> None:
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
