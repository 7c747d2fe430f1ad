"""Epochs and estimates of BARBAR and of the learner in the style of Liu."""

from collections.abc import Callable
from math import ceil, log, log2

import numpy as np
import pytest

from tests.learners.baselines.scenes import Arrivals, bernoulli_arrivals, small_setting
from unswayed.learners.baselines import Barbar, LiuStyle

Streams = Callable[..., np.random.Generator]


class LiteralEpochs:
    """The algorithm for one context, epoch by epoch, as in the descriptions."""

    def __init__(self, kind: str, n_actions: int, unit_plays: float) -> None:
        self.kind, self.unit_plays = kind, unit_plays
        self.m = 1
        self.gap = [1.0] * n_actions
        self.active = [True] * n_actions
        self.history: list[tuple[int, float]] = []
        self.estimate = [float("nan")] * n_actions

    @property
    def planned(self) -> list[float]:
        """Return the planned plays of each action in the current epoch."""
        if self.kind == "barbar":
            return [self.unit_plays / gap**2 for gap in self.gap]
        return [
            self.unit_plays * 4 ** (self.m - 1) if active else self.unit_plays / gap**2
            for active, gap in zip(self.active, self.gap, strict=True)
        ]

    @property
    def n_arrivals(self) -> int:
        """Return the length of the current epoch."""
        return ceil(sum(self.planned))

    def step(self, u: float, outcome: np.ndarray) -> int:
        """Play one arrival with the uniform draw u."""
        planned = self.planned
        thresholds = np.cumsum(planned) / sum(planned)
        action = min(int(np.searchsorted(thresholds, u, side="right")), len(planned) - 1)
        self.history.append((action, float(outcome[action])))
        if len(self.history) == self.n_arrivals:
            self.end(planned)
        return action

    def end(self, planned: list[float]) -> None:
        """Compute estimates and plan the next epoch."""
        r = [
            sum(reward for action, reward in self.history if action == i) / n
            for i, n in enumerate(planned)
        ]
        if self.kind == "barbar":
            best = max(x - gap / 16 for x, gap in zip(r, self.gap, strict=True))
            self.gap = [max(2.0**-self.m, best - x) for x in r]
        else:
            best = max(x for x, active in zip(r, self.active, strict=True) if active)
            self.active = [best - x <= 2.0**-self.m for x in r]
            self.gap = [best - x for x in r]
        self.estimate = r
        self.history = []
        self.m += 1


@pytest.mark.parametrize(("kind", "make"), [("barbar", Barbar), ("liu", LiuStyle)])
def test_epochs_equal_their_literal_twin(
    kind: str,
    make: type[Barbar | LiuStyle],
    streams: Streams,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The horizon is 20·600/3 = 4000 arrivals per context. With constant 2, lambda is 16.5, so three
    # epochs have at most 4·16.5·(1 + 4 + 16) = 1,386 arrivals.
    setting = small_setting(streams("play"), interactions_per_user=600)
    means = np.array([[0.9, 0.1, 0.5, 0.85], [0.0, 1.0, 0.95, 0.5], [0.5, 0.5, 0.5, 0.5]])
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 12_000, mean_rewards=means)
    monkeypatch.setattr(make, "constant", 2.0)
    learner = make(setting)
    unit_plays = 2 * log(8 * 4 * log2(4000) / 0.1)
    twins = [LiteralEpochs(kind, 4, unit_plays) for _ in range(3)]
    stream = streams("play")
    expected = [
        twins[context].step(stream.random(), outcome)
        for context, outcome in zip(arrivals.contexts, arrivals.outcomes, strict=True)
    ]
    assert learner.play(*arrivals).tolist() == expected
    for context, twin in enumerate(twins):
        assert learner.epochs[context] == twin.m > 3
        np.testing.assert_allclose(learner.planned[context], twin.planned, rtol=1e-9)
        np.testing.assert_allclose(learner.estimates[context], twin.estimate, rtol=1e-12)
        assert learner.remaining[context] == twin.n_arrivals - len(twin.history)
        if isinstance(learner, LiuStyle):
            assert learner.is_active[context].tolist() == twin.active
            resolution = 2.0 ** -(twin.m - 1)
            gaps = [resolution if a else g for a, g in zip(twin.active, twin.gap, strict=True)]
            np.testing.assert_allclose(learner.gaps[context], gaps, rtol=1e-9)
        else:
            np.testing.assert_allclose(learner.gaps[context], twin.gap, rtol=1e-9)


def test_the_first_original_epoch_of_figure_2d_takes_45162_plays(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5·1024·ln(8·5·log2(125000)/0.1) = 45,161.7, from the notes on the paper."""
    setting = small_setting(rng, n_users=500, n_contexts=2, n_actions=5, interactions_per_user=500)
    for kind in (Barbar, LiuStyle):
        monkeypatch.setattr(kind, "constant", 1024.0)
        learner = kind(setting)
        assert learner.planned.sum(axis=1) == pytest.approx([45_161.7, 45_161.7], abs=0.05)
        assert learner.remaining.tolist() == [45_162, 45_162]


def test_five_full_default_epochs_fit_into_a_context_of_figure_2d(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_users=500, n_contexts=2, n_actions=5, interactions_per_user=500)
    longest = [ceil(5 * Barbar(setting).unit_plays * 4**m) for m in range(6)]
    assert sum(longest[:5]) <= 125_000 < sum(longest)


def constant_arrivals(outcome: list[float], n: int) -> Arrivals:
    zeros = np.zeros(n, dtype=np.int64)
    return Arrivals(zeros, zeros, np.tile(outcome, (n, 1)))


def test_an_eliminated_action_returns_when_it_looks_good_again(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = small_setting(rng, n_contexts=1, n_actions=2, interactions_per_user=10_000)
    monkeypatch.setattr(LiuStyle, "constant", 64.0)
    learner = LiuStyle(setting)
    # Lambda is about 508: the estimate of action 0 falls below 1/2, the threshold of epoch 1, with
    # probability at most exp(-508·(1/2)²/2) < 1e-27 (multiplicative Chernoff).
    learner.play(*constant_arrivals([1.0, 0.0], int(learner.remaining[0])))
    assert learner.is_active.tolist() == [[True, False]]
    # r* is the best active estimate, now 0, and a bad action at or above it becomes active again.
    learner.play(*constant_arrivals([0.0, 1.0], int(learner.remaining[0])))
    assert learner.is_active.tolist() == [[True, True]]
    learner.play(*constant_arrivals([0.0, 1.0], int(learner.remaining[0])))
    assert learner.is_active.tolist() == [[False, True]]


def test_estimates_are_divided_by_planned_plays(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_contexts=1, n_actions=3)
    learner = Barbar(setting)
    n = int(learner.remaining[0])
    planned = learner.planned[0].copy()
    actions = learner.play(*constant_arrivals([1.0, 1.0, 1.0], n))
    np.testing.assert_allclose(learner.estimates[0], np.bincount(actions, minlength=3) / planned)


def test_gaps_are_capped_at_a_billion(rng: np.random.Generator) -> None:
    learner = Barbar(small_setting(rng, n_contexts=1, n_actions=2))
    learner.play(*constant_arrivals([1e12, 0.0], int(learner.remaining[0])))
    assert learner.gaps.tolist() == [[0.5, 1e9]]
