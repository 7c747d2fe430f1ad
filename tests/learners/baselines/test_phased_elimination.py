"""Phased elimination, step by step."""

from collections.abc import Callable
from dataclasses import replace
from math import log, sqrt
from statistics import NormalDist, median

import numpy as np
import pytest

from tests.learners.baselines.scenes import bernoulli_arrivals, small_setting
from unswayed.learners.baselines import PhasedElimination

Streams = Callable[..., np.random.Generator]


def literal_gamma(
    plays: list[int], *, n_users: int, n_cells: int, phase: int, alpha: float
) -> float:
    """Return how far a median may be off, from the plays of each user and action."""
    bias = NormalDist().inv_cdf(0.5 / (1 - alpha))
    chance = 1.25 * sqrt(2 * log(2 * n_cells * phase**2 / 0.1) / n_users)
    return 0.5 / sqrt(sum(plays) / len(plays)) * (bias + chance)


class LiteralPhases:
    """One context: the rewards of each user and active action in the running phase."""

    def __init__(self, n_actions: int, n_cells: int, alpha: float) -> None:
        self.n_actions, self.n_cells, self.alpha = n_actions, n_cells, alpha
        self.active = list(range(n_actions))
        self.estimates = [float("nan")] * n_actions
        self.phase, self.n_left = 1, 64 * n_actions
        self.rewards: list[dict[int, list[float]]] = [{} for _ in range(n_actions)]

    def medians(self) -> list[float]:
        """Return the median over users of their own means, for each active action."""
        return [median(sum(x) / len(x) for x in self.rewards[a].values()) for a in self.active]

    def step(self, u: float, user: int, outcome: np.ndarray) -> int:
        """Play one arrival with the uniform draw u."""
        action = self.active[int(u * len(self.active))]
        self.rewards[action].setdefault(user, []).append(float(outcome[action]))
        self.n_left -= 1
        if self.n_left == 0:
            self.end()
        return action

    def end(self) -> None:
        """Eliminate, and begin the next phase."""
        gamma = literal_gamma(
            [len(x) for a in self.active for x in self.rewards[a].values()],
            n_users=min(len(self.rewards[a]) for a in self.active),
            n_cells=self.n_cells,
            phase=self.phase,
            alpha=self.alpha,
        )
        found = dict(zip(self.active, self.medians(), strict=True))
        for action, estimate in found.items():
            self.estimates[action] = estimate
        best = max(found.values())
        self.active = [a for a, estimate in found.items() if estimate >= best - 2 * gamma]
        self.phase += 1
        self.n_left = 64 * 4 ** (self.phase - 1) * len(self.active)
        self.rewards = [{} for _ in range(self.n_actions)]


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.3])
def test_phases_go_like_their_literal_twin(alpha: float, streams: Streams) -> None:
    # Two contexts have about 256 + 1,024 + 4,096 arrivals in three phases, fewer when actions go.
    setting = small_setting(streams("play"), n_users=40, n_contexts=2, alpha=alpha)
    means = np.array([[0.05, 0.95, 0.5, 0.8], [0.5, 0.4, 0.6, 0.3]])
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 14_000, mean_rewards=means)
    learner = PhasedElimination(setting)
    twins = [LiteralPhases(4, 8, alpha) for _ in range(2)]
    stream = streams("play")
    n_active: list[int] = []
    for part in (arrivals.part(0, 300), arrivals.part(300, 3_000), arrivals.part(3_000, 14_000)):
        expected = [
            twins[context].step(stream.random(), int(user), outcome)
            for user, context, outcome in zip(*part, strict=True)
        ]
        assert learner.play(*part).tolist() == expected
        for context, twin in enumerate(twins):
            assert np.flatnonzero(learner.is_active[context]).tolist() == twin.active
            assert learner.phases[context] == twin.phase
            assert learner.remaining[context] == twin.n_left
            np.testing.assert_allclose(learner.estimates[context], twin.estimates, rtol=1e-12)
            n_active.append(len(twin.active))
    assert 4 in n_active
    assert {1, 2, 3} & set(n_active), "the scene must hold eliminations"
    assert learner.phases.min() > 3


@pytest.mark.parametrize(("alpha", "n_users"), [(0.0, 30), (0.2, 30), (0.2, 1)])
@pytest.mark.parametrize("phase", [1, 2, 3])
@pytest.mark.parametrize(("factor", "stays"), [(1 - 1e-6, True), (1 + 1e-6, False)])
def test_an_action_goes_when_it_is_more_than_two_gammas_below_the_best(
    alpha: float, n_users: int, phase: int, factor: float, stays: bool, streams: Streams
) -> None:
    # What is played does not depend on rewards until an action goes: a first run shows the plays.
    setting = small_setting(
        streams("play"), n_users=n_users, n_contexts=3, n_actions=2, alpha=alpha
    )
    lengths = [2 * 64, 2 * 256, 2 * 1024]
    before = sum(lengths[: phase - 1])
    n = before + lengths[phase - 1]
    users, contexts = streams("users").integers(n_users, size=n), np.ones(n, np.int64)
    actions = PhasedElimination(setting).play(users, contexts, np.full((n, 2), 0.7))
    plays = np.zeros((n_users, 2), np.int64)
    np.add.at(plays, (users[before:], actions[before:]), 1)
    gamma = literal_gamma(
        plays[plays > 0].tolist(),
        n_users=int((plays > 0).sum(axis=0).min()),
        n_cells=3 * 2,
        phase=phase,
        alpha=alpha,
    )
    outcomes = np.full((n, 2), 0.7)
    outcomes[before:, 0] -= factor * 2 * gamma
    learner = PhasedElimination(replace(setting, rng=streams("play")))
    assert learner.play(users, contexts, outcomes).tolist() == actions.tolist()
    assert learner.phases.tolist() == [1, phase + 1, 1]
    assert learner.is_active.tolist() == [[True, True], [stays, True], [True, True]]
