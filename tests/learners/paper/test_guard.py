from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unswayed.learners.design import sticky_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import allowed_actions, certified_losses, learn_paper
from unswayed.learners.reward_range import RewardBound
from unswayed.tallies import tally

ENDS = hnp.arrays(np.float64, (4, 5, 3), elements=st.floats(-10, 10))
SHARES = hnp.arrays(np.float64, (4, 5), elements=st.floats(0, 1))


def guard_of(low: np.ndarray, mean: np.ndarray, high: np.ndarray) -> Estimates:
    """Return estimates with the given intervals."""
    n_contexts = len(mean)
    half = np.maximum(high - mean, mean - low)
    return Estimates(
        mean_rewards=mean,
        sampling_errors=np.zeros(mean.shape),
        bias_bounds=half,
        context_probabilities=np.full(n_contexts, 1 / n_contexts),
        frequent_contexts=np.ones(n_contexts, np.bool_),
        user_weights=np.ones(1),
        decided_by=np.full(n_contexts, "trimmed mean"),
        low=low,
        high=high,
    )


@given(ends=ENDS, shares=SHARES)
def test_the_best_action_is_allowed_and_allowed_ones_lose_at_most_two_widths(
    ends: np.ndarray, shares: np.ndarray
) -> None:
    """Whatever the truth is inside of the intervals."""
    low, mean, high = np.sort(ends, axis=2).transpose(2, 0, 1)
    guard = guard_of(low, mean, high)
    truth = np.clip(low + shares * (high - low), low, high)
    lost = truth.max(axis=1, keepdims=True) - truth
    losses, allowed = certified_losses(guard), allowed_actions(guard)
    assert (lost <= losses + 1e-9).all()
    assert allowed[np.arange(4), truth.argmax(axis=1)].all()
    widest = (high - low).max(axis=1, keepdims=True)
    assert (losses <= 2 * widest + 1e-9)[allowed].all()
    # The guard's own choice, by the same intervals.
    own = lost[np.arange(4), mean.argmax(axis=1)]
    assert (own <= 2 * np.maximum(high - mean, mean - low).max(axis=1) + 1e-9).all()


@given(ends=ENDS)
def test_a_certified_loss_is_attained(ends: np.ndarray) -> None:
    """The action at its low end and all others at their high ends."""
    low, mean, high = np.sort(ends, axis=2).transpose(2, 0, 1)
    losses = certified_losses(guard_of(low, mean, high))
    for action in range(5):
        truth = high.copy()
        truth[:, action] = low[:, action]
        np.testing.assert_allclose(truth.max(axis=1) - truth[:, action], losses[:, action])


@given(ends=ENDS, shift=st.integers(-100, 100), power=st.integers(-10, 10))
def test_the_certified_losses_move_with_the_units_of_rewards_only(
    ends: np.ndarray, shift: int, power: int
) -> None:
    low, mean, high = np.sort(ends, axis=2).transpose(2, 0, 1)
    plain = certified_losses(guard_of(low, mean, high))
    scale = 2.0**power
    moved = certified_losses(guard_of(*(scale * (x + shift) for x in (low, mean, high))))
    np.testing.assert_allclose(moved, scale * plain, atol=scale * 1e-12)


def test_nothing_is_ruled_out_where_nothing_is_known() -> None:
    nan, inf = np.nan, np.inf
    low = np.array([[-inf, -inf, 0.1], [nan, nan, nan], [0.5, nan, 0.0]])
    high = np.array([[inf, inf, 0.2], [nan, nan, nan], [0.6, nan, 0.1]])
    mean = np.array([[0.9, 0.3, 0.15], [nan, nan, nan], [0.55, nan, 0.05]])
    allowed = allowed_actions(guard_of(low, mean, high))
    assert allowed[0].all()
    assert allowed[1].all()
    assert allowed[2].tolist() == [True, True, False]


def test_an_action_beyond_doubt_rules_out_all_others() -> None:
    low, high = np.array([[0.8, 0.1, 0.2]]), np.array([[0.9, 0.7, 0.79]])
    guard = guard_of(low, (low + high) / 2, high)
    assert allowed_actions(guard).tolist() == [[True, False, False]]


def pushed(
    rng: np.random.Generator, *, is_attacked: bool, n_users: int = 6000, n_plays: int = 20
) -> tuple[np.ndarray, Estimates, np.ndarray]:
    """Return pooled means, the guard, and the truth where a tenth pushes the worst action."""
    mu = np.array([0.75, 0.5, 0.1])
    users = np.repeat(np.arange(n_users), n_plays)
    actions = rng.integers(3, size=n_users)[users]
    rewards = (rng.random(len(users)) < mu[actions]).astype(float)
    if is_attacked:  # out of range, so that the pooled mean of the worst is the largest
        is_bad = users < 0.1 * n_users
        rewards[is_bad] = np.where(actions[is_bad] == 2, 20.0, 0.0)
    tallies = tally(
        users,
        np.zeros_like(users),
        actions,
        rewards,
        n_users=n_users,
        n_contexts=1,
        n_actions=3,
    )
    pooled = np.bincount(actions, rewards) / np.bincount(actions)
    # Users differ by less than this, as 0 and 1 do; lies do not.
    design = replace(sticky_design(tallies), rewards=RewardBound(deviation=0.5))
    return pooled, learn_paper(tallies, design, alpha=0.1), mu


def test_the_guard_rules_out_what_a_coalition_has_talked_up(rng: np.random.Generator) -> None:
    """The pooled mean is the negative control: it falls for the push."""
    pooled, guard, mu = pushed(rng, is_attacked=True)
    allowed = allowed_actions(guard)[0]
    assert pooled.argmax() == 2
    assert not allowed[2]
    assert allowed[mu.argmax()]
    assert ((mu.max() - mu)[allowed] <= certified_losses(guard)[0, allowed]).all()


@pytest.mark.parametrize("n_users", [300, 6000])
def test_in_peace_the_guard_leaves_the_best_pooled_action(
    rng: np.random.Generator, n_users: int
) -> None:
    pooled, guard, _ = pushed(rng, is_attacked=False, n_users=n_users)
    assert allowed_actions(guard)[0, pooled.argmax()]


def test_the_only_action_that_was_learned_has_nothing_to_lose_even_without_a_bound() -> None:
    nan, inf = np.nan, np.inf
    guard = guard_of(
        np.array([[-inf, nan], [0.25, nan]]),
        np.array([[0.5, nan], [0.5, nan]]),
        np.array([[inf, nan], [0.75, nan]]),
    )
    np.testing.assert_array_equal(certified_losses(guard), [[0.0, nan], [0.0, nan]])
    assert allowed_actions(guard).all()


def test_losses_compare_with_the_best_rival_that_was_learned() -> None:
    nan, inf = np.nan, np.inf
    low = np.array([[0.5, 0.25, nan], [0.0, -inf, 0.5], [0.75, 0.0, 0.125]])
    high = np.array([[1.0, 0.75, nan], [0.25, inf, 1.0], [1.0, 0.5, 0.25]])
    mean = np.array([[0.75, 0.5, nan], [0.125, 0.5, 0.75], [0.875, 0.25, 0.1875]])
    losses = certified_losses(guard_of(low, mean, high))
    np.testing.assert_array_equal(losses, [[0.25, 0.75, nan], [inf, inf, inf], [0.0, 1.0, 0.875]])


def test_an_interval_with_only_one_end_counts_as_nothing_learned() -> None:
    nan = np.nan
    low, high = np.array([[0.0, nan, 0.0]]), np.array([[0.5, 9.0, nan]])
    losses = certified_losses(guard_of(low, np.array([[0.25, 1.0, 1.0]]), high))
    np.testing.assert_array_equal(losses, [[0.0, nan, nan]])


def test_intervals_that_touch_rule_nothing_out() -> None:
    low, high = np.array([[0.5, 0.25]]), np.array([[0.75, 0.5]])
    guard = guard_of(low, (low + high) / 2, high)
    assert allowed_actions(guard).tolist() == [[True, True]]
    lower = guard_of(low, (low + high) / 2, np.array([[0.75, 0.4375]]))
    assert allowed_actions(lower).tolist() == [[True, False]]


def test_each_context_is_judged_by_its_own_intervals() -> None:
    low = np.array([[0.5, 0.0], [0.0, 5.0]])
    high = np.array([[0.75, 0.25], [0.5, 6.0]])
    guard = guard_of(low, (low + high) / 2, high)
    assert allowed_actions(guard).tolist() == [[True, False], [False, True]]
