from collections import defaultdict
from collections.abc import Callable
from math import inf, log, sqrt

import numpy as np
import pytest

from tests.learners.baselines.scenes import (
    Arrivals,
    bernoulli_arrivals,
    chosen_among_ties,
    small_setting,
)
from unswayed.errors import InputError
from unswayed.learners.baselines import IndependentUCB, NaiveUCB

Streams = Callable[..., np.random.Generator]


def literal_ucb(
    rng: np.random.Generator, arrivals: Arrivals, n_actions: int, *, per_user: bool
) -> tuple[list[int], dict[tuple[int, ...], list[list[float]]]]:
    """Play from lists of all rewards so far; return the actions and those lists."""
    seen: dict[tuple[int, ...], list[list[float]]] = defaultdict(
        lambda: [[] for _ in range(n_actions)]
    )
    actions = []
    for user, context, outcome in zip(*arrivals, strict=True):
        rewards = seen[(int(user), int(context)) if per_user else (int(context),)]
        n = sum(len(of_action) for of_action in rewards)
        index = [sum(x) / len(x) + sqrt(2 * log(n) / len(x)) if x else inf for x in rewards]
        action = chosen_among_ties(rng, index)
        rewards[action].append(float(outcome[action]))
        actions.append(action)
    return actions, seen


def test_naive_ucb_equals_its_literal_twin(streams: Streams) -> None:
    setting = small_setting(streams("play"))
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 600)
    learner = NaiveUCB(setting)
    expected, seen = literal_ucb(streams("play"), arrivals, 4, per_user=False)
    assert learner.play(*arrivals).tolist() == expected
    for (context,), rewards in seen.items():
        assert learner.counts[context].tolist() == [len(x) for x in rewards]
        assert learner.sums[context].tolist() == [sum(x) for x in rewards]


def test_independent_ucb_equals_one_literal_twin_per_user(streams: Streams) -> None:
    setting = small_setting(streams("play"))
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 1500)
    learner = IndependentUCB(setting)
    expected, seen = literal_ucb(streams("play"), arrivals, 4, per_user=True)
    assert learner.play(*arrivals).tolist() == expected
    for (user, context), rewards in seen.items():
        assert learner.counts[user * 3 + context].tolist() == [len(x) for x in rewards]
        assert learner.sums[user * 3 + context].tolist() == [sum(x) for x in rewards]
    assert learner.counts.shape == learner.sums.shape == (20 * 3, 4)


def test_ucb_plays_every_action_once_before_repeating_any(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_contexts=1, n_actions=6)
    once = np.zeros(6, dtype=np.int64)
    actions = NaiveUCB(setting).play(once, once, np.tile(np.arange(6.0) * 1e6, (6, 1)))
    assert sorted(actions) == list(range(6))


def test_independent_ucb_averages_over_the_given_users_only(rng: np.random.Generator) -> None:
    learner = IndependentUCB(small_setting(rng, n_users=3, n_contexts=2, n_actions=2))
    # User 0 prefers action 1 in context 0, user 1 prefers action 0; user 2 never came.
    users = np.array([0, 0, 1, 1])
    outcomes = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    learner.play(users, np.zeros(4, dtype=np.int64), outcomes)
    even = [0.5, 0.5]
    assert learner.action_probabilities(np.array([0])).tolist() == [[0, 1], even]
    assert learner.action_probabilities(np.array([0, 1])).tolist() == [even, even]
    assert learner.action_probabilities(np.array([1, 2])).tolist() == [[0.75, 0.25], even]


def test_independent_ucb_rejects_an_average_over_no_users(rng: np.random.Generator) -> None:
    with pytest.raises(
        InputError, match=r"^there are no users to average over; give at least one user\.$"
    ):
        IndependentUCB(small_setting(rng)).action_probabilities(np.array([], dtype=np.int64))
