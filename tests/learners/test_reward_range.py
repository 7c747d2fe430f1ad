"""Worst-case intervals need a range or a deviation of rewards, and state which they use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from unswayed import RobustMCB
from unswayed.errors import InputError
from unswayed.learners.design import RewardBound, check_rewards, parsed_reward_range
from unswayed.learners.from_log import learn_log

LOW, HIGH = 1.0, 5.0


@pytest.fixture
def ratings(rng: np.random.Generator) -> pa.Table:
    """Return a log of uniform play."""
    n_users, plays = 400, 12
    users = np.repeat(np.arange(n_users), plays)
    contexts, actions = rng.integers(4, size=users.size), rng.integers(3, size=users.size)
    rewards = np.clip(rng.normal(2.5 + 0.5 * actions, 0.8), LOW, HIGH)
    columns = {"user": users, "context": contexts, "action": actions, "reward": rewards}
    return pa.table(columns)


@pytest.mark.parametrize("method", ["paper", "bounded"])
def test_intervals_need_a_stated_range_or_deviation(method: str, ratings: pa.Table) -> None:
    """Without either there is a note instead of an interval; decisions and means stay the same."""
    options: Any = {"alpha": 0.02, "method": method}
    before = learn_log(ratings, **options)
    assert np.isinf(before.policy.high - before.policy.low).all()
    assert before.policy.source["intervals"]["condition"] is None
    (note,) = [note for note in before.notes if "worst-case bound" in note]
    assert "no action is ruled out" in note
    for stated, condition in (
        ({"reward_range": (LOW, HIGH)}, "rewards lie between 1 and 5"),
        ({"reward_deviation": 1.0}, "the standard deviation of rewards is at most 1"),
    ):
        learned = learn_log(ratings, **options, **stated)
        after = learned.policy
        assert np.isfinite(after.high - after.low).all()
        if "reward_range" in stated:
            assert after.low.min() >= LOW
            assert after.high.max() <= HIGH
        np.testing.assert_array_equal(after.actions, before.policy.actions)
        np.testing.assert_array_equal(after.mean_rewards, before.policy.mean_rewards)
        assert after.source["intervals"]["condition"] == condition
        assert f"worst-case intervals hold if {condition}, as stated." in learned.notes
        assert (after.bias_bounds >= 0).all()


def clicks(rng: np.random.Generator, *, n_users: int = 3000) -> pa.Table:
    """Return a log of clicks, in which one of two actions is clearly better."""
    users = np.repeat(np.arange(n_users), 4)
    actions = rng.integers(2, size=n_users)[users]
    rewards = (rng.random(users.size) < np.where(actions == 0, 0.7, 0.1)).astype(float)
    contexts = np.zeros(users.size, np.int64)
    return pa.table({"user": users, "context": contexts, "action": actions, "reward": rewards})


def test_that_all_rewards_are_0_or_1_is_assumed_and_rules_nothing_out(
    rng: np.random.Generator,
) -> None:
    """With a stated range the same intervals exclude the worse action."""
    log = clicks(rng)
    assumed = learn_log(log, alpha=0.1)
    stated = learn_log(log, alpha=0.1, reward_range=(0, 1))
    np.testing.assert_array_equal(assumed.policy.low, stated.policy.low)
    np.testing.assert_array_equal(assumed.policy.high, stated.policy.high)
    assert assumed.policy.is_excluded is None or not assumed.policy.is_excluded.any()
    assert stated.policy.is_excluded is not None
    assert stated.policy.is_excluded.tolist() == [[False, True]]
    condition = "rewards can only be 0 or 1, as all in this log"
    assert assumed.policy.source["intervals"]["condition"] == condition
    assert [note for note in assumed.notes if "--reward-range 0,1" in note]


def test_one_reward_that_is_not_0_or_1_leaves_no_bound(rng: np.random.Generator) -> None:
    log = clicks(rng, n_users=300)
    rewards = log["reward"].to_numpy().copy()
    rewards[7] = 100.0
    learned = learn_log(log.set_column(3, "reward", pa.array(rewards)), alpha=0.1)
    assert np.isinf(learned.policy.high - learned.policy.low).all()


def test_a_learner_refuses_rewards_outside_its_range_and_records_none() -> None:
    learner = RobustMCB(0.1, actions=["tea", "milk"], contexts=["home"], reward_range=(0.0, 1.0))
    action = learner.decide("ann", "home")
    with pytest.raises(InputError, match=r"reward 2 is 5, beyond `reward_range`, which is 0 to 1"):
        learner.observe_many(["ann", "ann"], ["home", "home"], [action, action], [1.0, 5.0])
    assert "observed" not in repr(learner)
    learner.observe("ann", "home", action, 1.0)
    assert "observed: 1 events" in repr(learner)


@pytest.mark.parametrize("given", [0, -1.0, float("nan"), float("inf"), "wide"])
def test_an_invalid_deviation_is_refused_in_one_sentence(given: Any) -> None:
    with pytest.raises(InputError, match=r"`reward_deviation` is .*: give the largest standard"):
        RobustMCB(0.1, reward_deviation=given)


@pytest.mark.parametrize(
    "given", ["1", "5,1", "1,1", "0,inf", "-inf,1", "low,high", (1.0, 2.0, 3.0), (1, None)]
)
def test_an_invalid_range_is_refused_in_one_sentence(given: object) -> None:
    with pytest.raises(InputError, match="smallest and the largest reward"):
        parsed_reward_range(given)  # type: ignore[arg-type]  # what people may give


def test_the_error_for_an_invalid_range_uses_the_name_of_the_parameter_or_flag() -> None:
    with pytest.raises(InputError) as error:
        parsed_reward_range("5,1")
    assert str(error.value) == (
        "`reward_range` is '5,1': give the smallest and the largest reward that there can be, such "
        "as 0,1."
    )
    assert error.value.on_command_line.startswith("--reward-range is '5,1': give")


@pytest.mark.parametrize("given", ["-1,2.5", (-1, 2.5), [-1.0, 2.5]])
def test_a_range_is_read_from_text_and_from_a_pair(given: str | tuple[float, float]) -> None:
    assert parsed_reward_range(given) == (-1.0, 2.5)


def test_rewards_outside_the_range_are_counted_in_all_blocks() -> None:
    """Two rewards are below the range, one is above it, and two are at its ends."""
    tallies = tallied(
        [
            (0, 0, 0, 0.5),
            (0, 0, 1, 1.0),
            (0, 1, 0, 5.0),
            (1, 0, 0, 5.5),
            (2, 0, 0, -9.0),
            (2, 1, 1, 0.0),
            (2, 1, 1, 6.0),
        ],
        n_contexts=2,
        n_actions=2,
    )
    for log in (tallies, cut_after(tallies, 1)):
        with pytest.raises(InputError) as error:
            check_rewards(log, RewardBound(low=1.0, high=5.0))
        assert str(error.value) == (
            "`reward_range` is 1 to 5, but rewards of 3 (user, context, action) triples lie beyond "
            "it."
        )
    with pytest.raises(InputError, match="but rewards of 1 "):
        check_rewards(tallies, RewardBound(low=-8.0, high=6.0))
    check_rewards(tallies, RewardBound(low=-9.0, high=5.5))


def test_rounding_errors_of_a_billionth_of_the_range_are_accepted() -> None:
    """There are eight plays at each end of a range of length 4."""
    plays = tallied(
        [(0, 0, action, reward) for action, reward in ((0, 1.0), (1, 5.0)) for _ in range(8)],
        n_contexts=1,
        n_actions=2,
    )
    outwards = np.array([-1.0, 1.0])
    for share, is_refused in ((0.9, False), (1.1, True)):
        for side in (0, 1):
            moved = np.where(np.arange(2) == side, outwards * share * 1e-9 * 4.0 * 8.0, 0.0)
            tallies = replace(plays, sums=plays.sums + moved)
            if is_refused:
                with pytest.raises(InputError, match="rewards of 1 "):
                    check_rewards(tallies, RewardBound(low=1.0, high=5.0))
            else:
                check_rewards(tallies, RewardBound(low=1.0, high=5.0))
