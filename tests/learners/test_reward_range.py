"""Intervals end where rewards do, if the range is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from unswayed.errors import InputError
from unswayed.learners.from_log import learn_log
from unswayed.learners.reward_range import parsed_reward_range

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


@pytest.mark.parametrize("method", ["paper", "discount"])
def test_intervals_are_cut_to_the_range_and_decisions_stay(method: str, ratings: pa.Table) -> None:
    before = learn_log(ratings, adversarial_fraction=0.2, method=method).policy
    after = learn_log(
        ratings, adversarial_fraction=0.2, method=method, reward_range=(LOW, HIGH)
    ).policy
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
        learn_log(ratings, adversarial_fraction=0.2, reward_range="1,4")


@pytest.mark.parametrize(
    "given", ["1", "5,1", "1,1", "0,inf", "-inf,1", "low,high", (1.0, 2.0, 3.0), (1, None)]
)
def test_what_is_no_range_is_refused_in_one_sentence(given: object) -> None:
    with pytest.raises(InputError, match="smallest and the largest reward"):
        parsed_reward_range(given)  # type: ignore[arg-type]  # what people may give
