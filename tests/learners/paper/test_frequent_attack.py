"""The attack behind a bound on frequent contexts: whom it takes, and what they report."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.learners.tiny_logs import tallied
from unswayed.estimators.trimmed_flips import NO_RIVAL, TrimmedFlips
from unswayed.learners.design import Design
from unswayed.learners.paper.flips import FrequentFlips, attack_frequent
from unswayed.learners.paper.reward_units import RewardUnits
from unswayed.tallies import Tallies


def tables(tallies: Tallies) -> list[np.ndarray]:
    """Return counts and sums; shape (n_users, n_contexts, n_actions)."""
    shape = (-1, tallies.n_contexts, tallies.n_actions)
    return [tallies.csr(x).toarray().reshape(shape) for x in (tallies.counts, tallies.sums)]


def flips_of(
    tallies: Tallies, *, leader: int, rival: int, numbers: tuple[int, int], origin: float = 0.0
) -> FrequentFlips:
    """Return flips of context 1 that take these numbers from the leader and from the rival."""
    total = np.array([sum(numbers)])
    counts, _ = tables(tallies)
    return FrequentFlips(
        contexts=np.array([1]),
        leaders=np.array([leader]),
        visitors=np.array([np.count_nonzero(counts[:, 1, leader])]),
        trimmed=TrimmedFlips(
            total, total, np.array([rival]), np.array([numbers[0]]), np.array([numbers[1]])
        ),
        units=RewardUnits(origin, math.nan, 0),
        withstood=total,
        is_loud=np.array([True]),
    )


def attacked_log() -> tuple[Tallies, Design]:
    """Return a log of eleven users; in context 1 four got action 1, three action 0, one action 2.

    User 1 is twice as active, so that their share of the reward is 4. User 8 did nothing, and of
    9 and 10, who never met the context, the design gives one to each of the two larger groups.
    """
    here = [(0, 1, 5.0), (1, 1, 8.0), (2, 1, 3.0), (3, 1, 4.5)]
    here += [(4, 0, 1.0), (5, 0, -2.0), (6, 0, 2.0), (7, 2, 0.5)]
    events = [(user, 1, action, reward) for user, action, reward in here]
    events += [(1, 0, 0, 1.0), (9, 0, 0, 1.0), (10, 0, 0, 1.0)]
    tallies = tallied(events, n_contexts=2, n_actions=3)
    return tallies, Design(np.ones(2, np.bool_), np.array([[9, 0, 0], [4, 5, 1]]))


@pytest.mark.parametrize(
    ("numbers", "origin", "from_leader", "from_rival"),
    [
        ((2, 0), 0.0, [0, 3], []),
        ((3, 1), 0.0, [0, 3, 1], [5]),
        ((1, 3), 0.0, [0], [5, 10, 4]),
        ((0, 4), 0.0, [], [5, 10, 4, 6]),
        ((5, 0), 0.0, [0, 3, 1, 2, 9], []),
        # Measured from 2, user 1 has (8 - 2)/2 = 3, and those who never came count as more.
        ((2, 3), 2.0, [0, 1], [5, 4, 6]),
        ((0, 4), 2.0, [], [5, 4, 6, 10]),
    ],
)
def test_the_attack_takes_the_accounts_that_speak_most_for_the_leader_and_least_for_the_rival(
    numbers: tuple[int, int], origin: float, from_leader: list[int], from_rival: list[int]
) -> None:
    tallies, design = attacked_log()
    flips = replace(
        flips_of(tallies, leader=1, rival=0, numbers=numbers, origin=origin),
        visitors=np.array([9]),
    )
    attacked, accounts = attack_frequent(tallies, design, flips, 0)
    assert accounts.tolist() == from_leader + from_rival
    before, after = tables(tallies), tables(attacked)
    loud = 4.0 * (1.0 + 26.0) * 11
    for user in range(11):
        if user not in accounts:
            for old, new in zip(before, after, strict=True):
                np.testing.assert_array_equal(old[user], new[user])
            continue
        action, reward = (1, -loud) if user in from_leader else (0, loud)
        expected = np.zeros((2, 3))
        expected[1, action] = 1.0
        np.testing.assert_array_equal(after[0][user], expected)
        np.testing.assert_array_equal(after[1][user], reward * expected)


def test_a_group_smaller_than_who_came_has_nobody_absent() -> None:
    tallies, _ = attacked_log()
    design = Design(np.ones(2, np.bool_), np.array([[9, 0, 0], [5, 2, 1]]))
    flips = replace(flips_of(tallies, leader=1, rival=0, numbers=(4, 4)), visitors=np.array([9]))
    _, accounts = attack_frequent(tallies, design, flips, 0)
    # All four who met the leader; both who never came are with the rival.
    assert accounts.tolist() == [0, 3, 1, 2, 5, 9, 10, 4]


def test_if_staying_away_is_cheaper_the_visitors_of_the_leader_do() -> None:
    """Five replaced accounts would be needed, and four came."""
    tallies, design = attacked_log()
    flips = flips_of(tallies, leader=1, rival=0, numbers=(3, 2))
    assert flips.by_absence.tolist() == [True]
    attacked, accounts = attack_frequent(tallies, design, flips, 0)
    assert accounts.tolist() == [0, 1, 2, 3]
    expected = [table.copy() for table in tables(tallies)]
    for old, new in zip(expected, tables(attacked), strict=True):
        old[:4, 1] = 0.0
        np.testing.assert_array_equal(old, new)


def test_staying_away_is_an_attack_only_where_there_is_a_rival_and_it_is_cheaper() -> None:
    tallies, _ = attacked_log()
    even = flips_of(tallies, leader=1, rival=0, numbers=(2, 2))
    assert even.by_absence.tolist() == [False]
    alone = flips_of(tallies, leader=1, rival=NO_RIVAL, numbers=(3, 2))
    assert alone.by_absence.tolist() == [False]
