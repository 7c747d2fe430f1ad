"""Where rewards are measured from: two values, or the median user's mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from unswayed.learners.paper.reward_units import (
    SAMPLED_ENTRIES,
    RewardUnits,
    _evenly_spaced,
    _sampled_entries,
    _two_values,
    _with_few_bits,
    measure_units,
    measured_from,
    user_means,
)
from unswayed.tallies import Tallies

Event = tuple[int, int, int, float]


def two_values(
    n_low: int, n_high: int, n_odd: int = 0, *, low: float = 3.0, high: float = 5.0
) -> Tallies:
    """Return a log of users who show the low value only, both, or something else.

    One further user has no interactions.
    """
    events: list[Event] = [(user, user % 3, 0, low) for user in range(n_low)]
    for user in range(n_low, n_low + n_high):
        events += [(user, user % 3, 0, low), (user, user % 3, 0, high), (user, 0, 1, low)]
        events += [(user, 1, 1, high)] * (user % 2)
    n_users = n_low + n_high
    events += [(n_users + odd, odd % 3, 1, 3.25 + odd) for odd in range(n_odd)]
    return tallied(events, n_users=n_users + n_odd + 1, n_contexts=3, n_actions=2)


@pytest.mark.parametrize(
    ("counts", "alpha", "n_certain"),
    [
        # As many as may collude, or a third of those who show the larger value.
        ((4, 6, 0), 0.1, 1),
        ((4, 6, 0), 0.11, 2),
        ((4, 6, 0), 0.4, 2),
        ((4, 5, 0), 0.4, 1),
        ((0, 9, 0), 0.4, 3),
        ((4, 6, 0), 0.0, 0),
        # Those who break the rule are taken off: once from those who may, twice from the others.
        ((4, 6, 1), 0.2, 1),
        ((4, 8, 1), 0.2, 2),
        ((4, 8, 1), 0.1, 1),
        ((4, 8, 1), 0.05, 0),
        ((4, 4, 2), 0.4, 0),
        ((10, 9, 2), 0.3, 1),
    ],
)
def test_replacing_few_enough_accounts_does_not_change_the_two_values(
    counts: tuple[int, int, int], alpha: float, n_certain: int
) -> None:
    units = measure_units(two_values(*counts), alpha=alpha)
    assert units == RewardUnits(3.0, 2.0, n_certain)
    assert units.is_binary


@pytest.mark.parametrize(
    ("counts", "alpha"),
    [
        ((4, 8, 1), 0.0),  # one who breaks the rule where none may
        ((4, 12, 2), 0.05),  # two where one may
        ((4, 3, 2), 0.4),  # three who show both values for two who break the rule
    ],
)
def test_too_many_who_break_the_rule_show_that_rewards_are_not_binary(
    counts: tuple[int, int, int], alpha: float
) -> None:
    tallies = two_values(*counts)
    units = measure_units(tallies, alpha=alpha)
    totals, numbers = (
        np.asarray(tallies.csr(column).sum(axis=1))[:-1]
        for column in (tallies.sums, tallies.counts)
    )
    assert units.origin == pytest.approx(np.median(totals / numbers))
    assert math.isnan(units.span)
    assert units.n_certain == 0
    assert not units.is_binary


def test_blocks_are_asked_together_even_if_nobody_of_one_was_active() -> None:
    tallies = two_values(4, 8, 1)
    last = tallies.n_users - 1
    for cut in ((1,), (last,), (4, 8), (3, last)):
        units = measure_units(cut_after(tallies, *cut), alpha=0.2)
        assert units == RewardUnits(3.0, 2.0, 2)
    plain = measure_units(tallies, alpha=0.0)
    apart = measure_units(cut_after(tallies, 3, last), alpha=0.0)
    assert apart.origin == plain.origin


@pytest.mark.parametrize("events", [[(0, 0, 0, 4.0)], [(0, 0, 0, 4.0), (0, 0, 1, 4.0)]])
def test_one_value_alone_is_where_rewards_are_measured_from(events: list[Event]) -> None:
    tallies = tallied(events, n_contexts=1, n_actions=2)
    units = measure_units(tallies, alpha=0.1)
    assert (units.origin, units.is_binary, units.n_certain) == (4.0, False, 0)


def entries_of(rewards: list[list[float]]) -> np.ndarray:
    """Return count, sum and sum of squares of each list."""
    return np.array([[len(r), sum(r), sum(x * x for x in r)] for r in rewards])


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (3.0, 5.0), (1e7, 1e7 + 1.0), (-0.25, 0.25)]
)
def test_two_entries_determine_two_values(low: float, high: float) -> None:
    found = _two_values(entries_of([[low, low, high], [high, low]]))
    assert found is not None
    assert found == (low, high - low)


def test_the_two_values_are_those_that_most_entries_agree_with() -> None:
    agreeing = [[0.0], [1.0], [0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0]]
    others = [[7.0, -3.0], [0.3]]
    assert _two_values(entries_of([*agreeing * 3, *others])) == (0.0, 1.0)


def test_values_are_rounded_to_nine_digits() -> None:
    found = _two_values(entries_of([[0.1, 0.3], [0.1, 0.1, 0.3], [0.3, 0.3, 0.1], [0.1]]))
    assert found is not None
    low, span = found
    assert span == 0.2
    assert low == pytest.approx(0.1, abs=1e-15)


@pytest.mark.parametrize(
    "rewards",
    [
        [[1.0, 2.0]],  # one entry
        [[0.0, 4.0], [1.0, 3.0], [2.0, 2.0]],  # all means alike
        [[0.0], []],  # one that counts
    ],
)
def test_too_little_does_not_determine_two_values(rewards: list[list[float]]) -> None:
    assert _two_values(entries_of(rewards)) is None


def test_entries_that_no_two_values_explain_give_none() -> None:
    """Mean squares that fall below the line through two points: v and w would not be real."""
    assert _two_values(np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])) == pytest.approx(
        ((-1.0 - 5.0**0.5) / 2.0, 5.0**0.5)
    )
    assert _two_values(np.array([[1.0, 1.0, 0.5], [1.0, 3.0, 0.5]])) is not None
    assert _two_values(np.array([[1.0, -1.0, 9.0], [1.0, 1.0, 9.0]])) == (-3.0, 6.0)
    assert _two_values(np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])) == (-1.0, 2.0)
    assert _two_values(np.array([[1.0, -1.0, -1.0], [1.0, 1.0, -1.0]])) is None


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (2 / 3, 699051 / 2**20),
        (1 / 3, 699051 / 2**21),
        (-4 / 3, -699051 / 2**19),
        (5.0, 5.0),
        (0.0, 0.0),
        (1e7 + 0.5, 10_000_000.0),
    ],
)
def test_a_number_is_rounded_to_twenty_bits(value: float, rounded: float) -> None:
    assert _with_few_bits(value) == pytest.approx(rounded, rel=1e-6)
    mantissa, _ = math.frexp(_with_few_bits(value))
    assert (mantissa * 2**20).is_integer()
    assert abs(_with_few_bits(value) - value) <= abs(value) * 2**-20


def test_positions_are_evenly_spaced_over_at_most_half_of_the_sample() -> None:
    half = SAMPLED_ENTRIES // 2
    assert half == 256
    for n, step in ((0, 1), (1, 1), (half, 1), (half + 1, 2), (2 * half, 2), (1000, 4)):
        found = _evenly_spaced(np.arange(n))
        assert found.tolist() == list(range(0, n, step))
        assert len(found) <= half


def test_unusual_entries_are_sampled_once_more() -> None:
    events: list[Event] = [(user, 0, 0, 1.0) for user in range(3)]
    events += [(3, 0, 0, 1.0), (3, 0, 0, 1.0), (4, 0, 0, 1.0), (4, 0, 0, 4.0)]
    sampled = _sampled_entries(tallied(events, n_contexts=1, n_actions=1))
    usual, twice, unusual = [1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [2.0, 5.0, 17.0]
    assert sampled.tolist() == [usual, usual, usual, twice, unusual, unusual]
    nothing = _sampled_entries(tallied([], n_users=2, n_contexts=1, n_actions=1))
    assert nothing.shape == (0, 3)


def test_rewards_are_measured_from_the_origin_once_for_every_play() -> None:
    tallies = tallied([(0, 0, 0, 3.0), (0, 0, 0, 5.0), (1, 0, 1, 2.0)], n_contexts=1, n_actions=2)
    moved = measured_from(tallies, RewardUnits(2.0, 3.0, 1)).blocks.map_blocks(lambda block: block)
    assert moved[0].sums.tolist() == [4.0, 0.0]
    assert moved[0].counts.tolist() == [2.0, 1.0]
    assert moved[0].squares.tolist() == [34.0, 4.0]
    assert measured_from(tallies, RewardUnits(0.0, 1.0, 1)) is tallies


def test_the_mean_of_a_user_is_over_all_plays_of_those_who_played() -> None:
    tallies = tallied(
        [(0, 0, 0, 3.0), (0, 0, 0, 5.0), (0, 0, 1, 1.0), (2, 0, 1, 2.0)],
        n_users=4,
        n_contexts=1,
        n_actions=2,
    )
    assert user_means(tallies).tolist() == [3.0, 2.0]


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (2.0, 5.0), (-3.5, 4.25), (1e7, 1e7 + 1), (2.0, 1e6), (0.0, 3e-8)]
)
def test_the_smaller_of_two_values_is_found_to_the_last_digit(
    rng: np.random.Generator, low: float, high: float
) -> None:
    """Else an interval would end above what users without a success have."""
    n_users = 200
    users = np.repeat(np.arange(n_users), 5)
    rewards = np.where(rng.random(users.size) < 0.3, high, low)
    events = np.column_stack([users, np.zeros((users.size, 2)), rewards])
    tallies = tallied(events, n_contexts=1, n_actions=2)
    units = measure_units(tallies, alpha=0.1)
    assert units.origin == low
    assert units.span == pytest.approx(high - low, rel=1e-8)
