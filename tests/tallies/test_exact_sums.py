import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.events.logs import random_log
from unswayed.events import read_events
from unswayed.tallies import Tallies, merged, merged_logs, tally, tally_events

ARRAYS = ("indptr", "cells", "counts", "sums", "squares")


def assert_same_bits(first: Tallies, second: Tallies) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def assert_same_log(first: Tallies, second: Tallies) -> None:
    assert first.user_labels == second.user_labels
    assert first.context_labels == second.context_labels
    assert first.action_labels == second.action_labels
    assert_same_bits(first, second)


def one_cell(rewards: np.ndarray) -> Tallies:
    zeros = np.zeros(len(rewards), np.int64)
    return tally(zeros, zeros, zeros, rewards, n_users=1, n_contexts=1, n_actions=1)


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-6 else 0.0), max_size=40),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
@settings(max_examples=200, deadline=None)
def test_sums_are_the_exact_ones_rounded_once_in_any_order_and_grouping(
    values: list[float], cut: int, random: object
) -> None:
    rewards = np.array(values, dtype=np.float64)
    once = one_cell(rewards)
    random.shuffle(values)  # type: ignore[attr-defined]
    mixed = np.array(values, dtype=np.float64)
    pieces = [one_cell(mixed[:cut]), one_cell(mixed[cut:][::2]), one_cell(mixed[cut:][1::2])]
    assert_same_bits(once, merged(pieces[0], merged(pieces[1], pieces[2])))
    if len(rewards):
        assert once.sums[0] == math.fsum(rewards)
        assert once.squares[0] == math.fsum(rewards * rewards)


def test_plain_sums_would_depend_on_the_order(rng: np.random.Generator) -> None:
    """The negative control: for these rewards, plain float sums do differ."""
    rewards = rng.normal(size=40)
    forth = back = 0.0
    for value in rewards:
        forth += value
    for value in rewards[::-1]:
        back += value
    assert forth != back


@pytest.mark.parametrize("with_propensities", [False, True])
def test_days_added_up_equal_the_whole_log_to_the_last_bit(
    with_propensities: bool, rng: np.random.Generator
) -> None:
    table = random_log(rng, 2_000, n_users=60, n_contexts=6)
    if with_propensities:
        table = table.append_column("propensity", pa.array(rng.uniform(0.001, 1, size=2_000)))
    once = tally_events(read_events(table).events)
    # Some users and contexts occur only on later days, others only on the first.
    in_order = table.sort_by([("context", "ascending"), ("user", "ascending")])
    days = [in_order.slice(0, 500), in_order.slice(500, 900), in_order.slice(1_400)]
    parts = [tally_events(read_events(day).events) for day in days]
    assert_same_log(once, merged_logs(parts))
    assert_same_log(once, merged_logs([merged_logs(parts[::-1][:2]), parts[0]]))
    assert_same_bits(once.uniform(), merged_logs(parts).uniform())


def test_weights_make_up_for_the_logging_policy(rng: np.random.Generator) -> None:
    n = 40_000
    actions = (rng.random(n) < 0.1).astype(np.int64)
    rewards = (rng.random(n) < 0.3 + 0.4 * actions).astype(float)
    table = pa.table(
        {
            "user": rng.integers(500, size=n),
            "context": np.zeros(n, np.int64),
            "action": actions,
            "reward": rewards,
            "propensity": np.where(actions == 1, 0.1, 0.9),
        }
    )
    tallies = tally_events(read_events(table).events).uniform()
    shares = np.bincount(tallies.cells, tallies.counts) / n
    # For each action Σ w/n has mean 1/2 and a variance of at most (1/4)·(1/.1)/n: sd .008.
    assert np.abs(shares - 0.5).max() < 4.5 * math.sqrt(0.25 * 10 / n)
    assert tallies.plays.sum() == n


def test_small_propensities_are_clipped() -> None:
    table = pa.table(
        {"user": [0], "context": [0], "action": [0], "reward": [1.0], "propensity": [1e-9]}
    )
    events = read_events(table).events
    assert tally_events(events).counts.tolist() == [100.0]
    assert tally_events(events, min_propensity=0.5).counts.tolist() == [2.0]
