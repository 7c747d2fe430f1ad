"""Intervals end where rewards do, if the range is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.from_log import learn_log
from unswayed.learners.reward_range import check_rewards, cut_to_range, parsed_reward_range
from unswayed.policy import Policy

LOW, HIGH = 1.0, 5.0


@pytest.fixture
def ratings(rng: np.random.Generator) -> pa.Table:
    """Uniform play, two plays a user: at a fifth of colluders there is no bound but the range."""
    n_users, plays = 400, 2
    users = np.repeat(np.arange(n_users), plays)
    contexts, actions = rng.integers(4, size=users.size), rng.integers(3, size=users.size)
    rewards = np.clip(rng.normal(2.5 + 0.5 * actions, 0.8), LOW, HIGH)
    columns = {"user": users, "context": contexts, "action": actions, "reward": rewards}
    return pa.table(columns)


@pytest.mark.parametrize("method", ["paper", "bounded"])
def test_intervals_are_cut_to_the_range_and_decisions_stay(method: str, ratings: pa.Table) -> None:
    before = learn_log(ratings, alpha=0.2, method=method).policy
    after = learn_log(ratings, alpha=0.2, method=method, reward_range=(LOW, HIGH)).policy
    assert np.isinf(before.high).any()
    assert (after.low >= LOW).all()
    assert (after.high <= HIGH).all()
    np.testing.assert_array_equal(after.actions, before.actions)
    np.testing.assert_array_equal(after.mean_rewards, before.mean_rewards)
    is_within = (before.low >= LOW) & (before.high <= HIGH)
    np.testing.assert_array_equal(after.low[is_within], before.low[is_within])
    assert (after.bias_bounds >= 0).all()


def test_rewards_beyond_the_range_are_refused(ratings: pa.Table) -> None:
    with pytest.raises(InputError, match=r"`reward_range` is 1 to 4, but rewards of \d+ \(user"):
        learn_log(ratings, alpha=0.2, reward_range="1,4")


@pytest.mark.parametrize(
    "given", ["1", "5,1", "1,1", "0,inf", "-inf,1", "low,high", (1.0, 2.0, 3.0), (1, None)]
)
def test_what_is_no_range_is_refused_in_one_sentence(given: object) -> None:
    with pytest.raises(InputError, match="smallest and the largest reward"):
        parsed_reward_range(given)  # type: ignore[arg-type]  # what people may give


def test_what_is_no_range_is_named_in_the_words_of_its_reader() -> None:
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


def test_triples_beyond_the_range_are_counted_in_all_blocks() -> None:
    """Two below, one above, two at the ends; the mean of a user's two rewards is within."""
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
            check_rewards(log, (1.0, 5.0))
        assert str(error.value) == (
            "`reward_range` is 1 to 5, but rewards of 3 (user, context, action) triples lie beyond "
            "it."
        )
    with pytest.raises(InputError, match="but rewards of 1 "):
        check_rewards(tallies, (-8.0, 6.0))
    check_rewards(tallies, (-9.0, 5.5))


def test_rounded_sums_may_leave_the_range_by_a_billionth_of_it_each() -> None:
    """Eight plays at each end of a range of length 4."""
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
                    check_rewards(tallies, (1.0, 5.0))
            else:
                check_rewards(tallies, (1.0, 5.0))


def policy_of(means: list[float], half: list[float], errors: list[float] | None) -> Policy:
    """Return a policy of one context with symmetric intervals."""
    centres, widths = np.array([means]), np.array([half])
    return Policy(
        context_labels=Labels.of(["home"]),
        action_labels=Labels.of([f"action {number}" for number in range(len(means))]),
        mean_rewards=centres,
        low=centres - widths,
        high=centres + widths,
        counts=np.ones(centres.shape, np.int64),
        context_probabilities=np.ones(1),
        alpha=0.1,
        method="paper",
        sampling_errors=None if errors is None else np.array([errors]),
    )


def test_the_part_of_chance_is_cut_only_where_the_whole_interval_is_shorter() -> None:
    policy = policy_of([2.0, 4.5, 1.0], [0.5, np.inf, 3.0], [0.25, 3.75, 0.5])
    cut = cut_to_range(policy, (1.0, 5.0))
    np.testing.assert_array_equal(cut.low, [[1.5, 1.0, 1.0]])
    np.testing.assert_array_equal(cut.high, [[2.5, 5.0, 4.0]])
    # To the farther end: 4.5 - 1, not 5 - 4.5.
    np.testing.assert_array_equal(cut.sampling_errors, [[0.25, 3.5, 0.5]])
    np.testing.assert_array_equal(cut.mean_rewards, policy.mean_rewards)


def test_a_policy_without_a_part_of_chance_gets_none() -> None:
    cut = cut_to_range(policy_of([2.0, 3.0], [9.0, 9.0], None), (1.0, 5.0))
    assert cut.sampling_errors is None
    np.testing.assert_array_equal(cut.low, [[1.0, 1.0]])
    np.testing.assert_array_equal(cut.high, [[5.0, 5.0]])
