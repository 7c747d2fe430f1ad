"""Actions excluded by worst-case intervals, and the largest possible loss of an allowed action."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unswayed.learners.design import RewardBound, sticky_design
from unswayed.learners.paper import CellIntervals, allowed_actions, guard_intervals
from unswayed.tallies import tally

ENDS = hnp.arrays(np.float64, (4, 5, 2), elements=st.floats(-10, 10))
SHARES = hnp.arrays(np.float64, (4, 5), elements=st.floats(0, 1))


def allowed_by(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return allowed_actions(CellIntervals(low, high, np.zeros(low.shape)))


@given(ends=ENDS, shares=SHARES)
def test_the_best_action_is_allowed_and_allowed_ones_lose_at_most_two_widths(
    ends: np.ndarray, shares: np.ndarray
) -> None:
    """Checked for every combination of means within the intervals."""
    low, high = np.sort(ends, axis=2).transpose(2, 0, 1)
    truth = np.clip(low + shares * (high - low), low, high)
    lost = truth.max(axis=1, keepdims=True) - truth
    allowed = allowed_by(low, high)
    assert allowed[np.arange(4), truth.argmax(axis=1)].all()
    widest = (high - low).max(axis=1, keepdims=True)
    assert (lost <= 2 * widest + 1e-9)[allowed].all()


def test_nothing_is_excluded_without_a_confirmed_bound() -> None:
    nan, inf = np.nan, np.inf
    low = np.array([[-inf, -inf, 0.1], [nan, nan, nan], [0.5, nan, 0.0]])
    high = np.array([[inf, inf, 0.2], [nan, nan, nan], [0.6, nan, 0.1]])
    assert allowed_by(low, high).tolist() == [[True] * 3, [True] * 3, [True, True, False]]


@pytest.mark.parametrize(
    ("low", "high", "allowed"),
    [
        ([[0.8, 0.1, 0.2]], [[0.9, 0.7, 0.79]], [[True, False, False]]),
        ([[0.5, 0.25]], [[0.75, 0.5]], [[True, True]]),  # they touch
        ([[0.5, 0.25]], [[0.75, 0.4375]], [[True, False]]),
        ([[0.5, 0.0], [0.0, 5.0]], [[0.75, 0.25], [0.5, 6.0]], [[True, False], [False, True]]),
    ],
)
def test_an_action_is_excluded_if_another_interval_lies_above_its_own(
    low: list[list[float]], high: list[list[float]], allowed: list[list[bool]]
) -> None:
    assert allowed_by(np.array(low), np.array(high)).tolist() == allowed


def pushed(
    rng: np.random.Generator, *, is_attacked: bool, n_users: int = 6000, n_plays: int = 20
) -> tuple[np.ndarray, CellIntervals, np.ndarray]:
    """Return pooled means, the guard and the true means if a tenth push the worst action."""
    mu = np.array([0.75, 0.5, 0.1])
    users = np.repeat(np.arange(n_users), n_plays)
    actions = rng.integers(3, size=n_users)[users]
    rewards = (rng.random(len(users)) < mu[actions]).astype(float)
    if is_attacked:  # an outlier that makes the pooled mean of the worst action the largest
        is_bad = users < 0.1 * n_users
        rewards[is_bad] = np.where(actions[is_bad] == 2, 20.0, 0.0)
    tallies = tally(
        users, np.zeros_like(users), actions, rewards, n_users=n_users, n_contexts=1, n_actions=3
    )
    pooled = np.bincount(actions, rewards) / np.bincount(actions)
    # Honest users differ by less than this, as for 0 and 1, but lies do not.
    design = replace(sticky_design(tallies), rewards=RewardBound(deviation=0.5))
    return pooled, guard_intervals(tallies, design, alpha=0.1), mu


def test_the_guard_excludes_what_a_coalition_has_pushed(rng: np.random.Generator) -> None:
    """Negative control: the push changes the decision of the pooled mean."""
    pooled, guard, mu = pushed(rng, is_attacked=True)
    allowed = allowed_actions(guard)[0]
    assert pooled.argmax() == 2
    assert not allowed[2]
    assert allowed[mu.argmax()]


@pytest.mark.parametrize("n_users", [300, 6000])
def test_without_an_attack_the_guard_keeps_the_best_pooled_action(
    rng: np.random.Generator, n_users: int
) -> None:
    pooled, guard, _ = pushed(rng, is_attacked=False, n_users=n_users)
    assert allowed_actions(guard)[0, pooled.argmax()]
