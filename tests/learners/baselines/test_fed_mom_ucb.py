"""UCB on medians of group means, step by step."""

from collections.abc import Callable
from math import ceil, isnan, log, nan, sqrt
from statistics import median

import numpy as np
import pytest

from tests.learners.baselines.scenes import (
    Arrivals,
    bernoulli_arrivals,
    chosen_among_ties,
    small_setting,
)
from unswayed.learners.baselines import FedMomUCB
from unswayed.learners.interface import Setting

Streams = Callable[..., np.random.Generator]


class LiteralMedians:
    """Lists of rewards for each group, context and action."""

    def __init__(self, setting: Setting, rng: np.random.Generator) -> None:
        self.n_contexts, self.n_actions = setting.n_contexts, setting.n_actions
        n_bad = ceil(setting.alpha * setting.n_users)
        self.n_groups = min(setting.n_users, 4 * n_bad + 1)
        self.rng = rng
        self.group_of = rng.permutation(setting.n_users) % self.n_groups
        self.rewards: dict[tuple[int, int, int], list[float]] = {}
        self.n_played, self.n_at_medians, self.n_times = 0, 0, 0

    def rewards_of(self, context: int, action: int) -> list[list[float]]:
        """One list for each group that played."""
        cells = ((group, context, action) for group in range(self.n_groups))
        return [self.rewards[cell] for cell in cells if cell in self.rewards]

    def take_medians(self) -> None:
        """Take the medians of the groups' means."""
        self.n_at_medians = self.n_played
        self.n_times += 1
        self.medians = [
            [
                median([sum(x) / len(x) for x in groups]) if groups else nan
                for groups in (self.rewards_of(s, a) for a in range(self.n_actions))
            ]
            for s in range(self.n_contexts)
        ]

    def step(self, user: int, context: int, outcome: np.ndarray) -> int:
        """Play one arrival."""
        if self.n_played >= 1.1 * self.n_at_medians:
            self.take_medians()
        plays = [sum(len(x) for x in self.rewards_of(context, a)) for a in range(self.n_actions)]
        index = [
            1e300 / (1 + n) if isnan(m) else m + sqrt(2 * log(sum(plays)) / n)
            for n, m in zip(plays, self.medians[context], strict=True)
        ]
        action = chosen_among_ties(self.rng, index)
        cell = (int(self.group_of[user]), context, action)
        self.rewards.setdefault(cell, []).append(float(outcome[action]))
        self.n_played += 1
        return action


@pytest.mark.parametrize(("alpha", "n_groups"), [(0.0, 1), (0.07, 9), (0.1, 9), (0.3, 20)])
def test_medians_of_groups_play_like_their_literal_twin(
    alpha: float, n_groups: int, streams: Streams
) -> None:
    setting = small_setting(streams("play"), alpha=alpha)
    twin = LiteralMedians(setting, streams("play"))
    assert twin.n_groups == n_groups
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 700)
    learner = FedMomUCB(setting)
    for part in (arrivals.part(0, 250), arrivals.part(250, 700)):
        expected = [
            twin.step(int(user), int(context), outcome)
            for user, context, outcome in zip(*part, strict=True)
        ]
        assert learner.play(*part).tolist() == expected
    assert 20 < twin.n_times < 100, "medians are taken ever more rarely"
    np.testing.assert_allclose(learner.medians, twin.medians, rtol=1e-12)


def test_the_best_median_of_all_plays_so_far_is_recommended(rng: np.random.Generator) -> None:
    setting = small_setting(
        rng, n_users=5, n_contexts=2, n_actions=2, alpha=0.2
    )  # five groups of one user each
    learner = FedMomUCB(setting)
    assert np.isnan(learner.medians).all()
    assert learner.medians.shape == (2, 2)
    # Action 1 brings most users more, and its mean is far below; everybody comes ten times.
    users = np.tile(np.arange(5), 10)
    outcomes = np.where(users[:, None] == 4, [0.0, -1e6], [0.4, 0.6])
    learner.play(*Arrivals(users, np.zeros(50, np.int64), outcomes))
    recommended = learner.action_probabilities(np.arange(5))
    assert recommended.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert np.isnan(learner.medians).tolist() == [[False, False], [True, True]]


def test_a_recommendation_takes_the_medians_anew(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_users=1, n_contexts=1, n_actions=1, alpha=0.0)
    learner = FedMomUCB(setting)
    zeros = np.zeros(1, np.int64)
    for reward in (1.0, 3.0):
        learner.play(zeros, zeros, np.array([[reward]]))
    assert learner.medians.tolist() == [[1.0]]  # as it was before the second play
    learner.action_probabilities(zeros)
    assert learner.medians.tolist() == [[2.0]]
    learner.play(np.zeros(1, np.int64), zeros, np.array([[5.0]]))
    assert learner.medians.tolist() == [[2.0]]  # two plays have not grown by a tenth
