"""An attack on one decision: which accounts it takes, what they report, how few are enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.learners.recording import pooled
from tests.learners.tiny_logs import tallied
from unswayed.learners.design import Design, uniform_design
from unswayed.learners.flips.attack import Duel, Tactic, _duel, _fewest, _tactics, attack_decision
from unswayed.tallies import Tallies

SHAPE = (2, 3)


def search(threshold: int, *, most: int, best: int | None = None) -> tuple[int | None, list[int]]:
    """Search for a coalition where so many are enough; return what was found and tried."""
    tried: list[int] = []

    def succeeds(n_accounts: int) -> bool:
        tried.append(n_accounts)
        return n_accounts >= threshold

    return _fewest(succeeds, most, best), tried


@pytest.mark.parametrize(
    ("threshold", "most", "found", "tried"),
    [
        (1, 100, 1, [1]),
        (2, 100, 2, [1, 4, 2]),
        (7, 100, 7, [1, 4, 16, 10, 7, 5, 6]),
        (10, 10, 10, [1, 4, 10, 7, 8, 9]),
        (11, 10, None, [1, 4, 10]),
        (2, 1, None, [1]),
        # Known to a twentieth, there is no need to know it better.
        (1000, 5000, 1024, [1, 4, 16, 64, 256, 1024, 640, 832, 928, 976]),
    ],
)
def test_coalitions_grow_until_one_succeeds_and_then_the_gap_is_halved(
    threshold: int, most: int, found: int | None, tried: list[int]
) -> None:
    assert search(threshold, most=most) == (found, tried)


@pytest.mark.parametrize(
    ("threshold", "best", "most", "found", "tried"),
    [
        (1, 1, 100, 1, []),
        (1, 2, 100, 1, [1]),
        (2, 2, 100, 2, [1]),
        (5, 9, 100, 5, [8, 4, 6, 5]),
        (3, 10, 5, 3, [5, 2, 3]),
        (6, 10, 5, 10, [5]),
        # Better by a twentieth or not worth a search: 42 - 2 and 100 - 5.
        (39, 42, 100, 40, [40, 20, 30, 35, 37, 38]),
        (41, 42, 100, 42, [40]),
        (96, 100, 200, 100, [95]),
    ],
)
def test_only_coalitions_that_are_clearly_smaller_than_the_best_are_looked_for(
    threshold: int, best: int, most: int, found: int, tried: list[int]
) -> None:
    assert search(threshold, most=most, best=best) == (found, tried)


def test_a_duel_is_between_the_two_largest_means_that_are_known() -> None:
    nan = np.nan
    means = np.array([[0.1, 0.5, 0.3], [0.5, 0.5, 0.5], [nan, -2.0, -1.0], [nan, 1.0, nan]])
    any_ = pooled(small_log())
    estimates = replace(any_, mean_rewards=means)
    assert _duel(estimates, 0) == Duel(0, leader=1, rival=2)
    assert _duel(estimates, 1) == Duel(1, leader=0, rival=1)
    assert _duel(estimates, 2) == Duel(2, leader=2, rival=1)
    assert _duel(estimates, 3) is None
    assert _duel(replace(any_, mean_rewards=np.zeros((1, 99))), 0) == Duel(0, leader=0, rival=1)
    assert _duel(replace(any_, mean_rewards=np.full((1, 2), nan)), 0) is None
    excluded = replace(estimates, is_excluded=means == 0.5)
    assert _duel(excluded, 0) == Duel(0, leader=2, rival=1)
    assert estimates.mean_rewards is means
    np.testing.assert_array_equal(means[0], [0.1, 0.5, 0.3])


def small_log() -> Tallies:
    """Return a log of seven users, the last without interactions.

    In context 1 action 2 leads and action 0 is next. Mean rewards of entries are from -1 to 6.
    """
    return tallied(
        [
            (0, 1, 2, 4.0),
            (0, 1, 2, 2.0),
            (1, 1, 2, 5.0),
            (1, 0, 0, 1.0),
            (2, 1, 0, 2.0),
            (2, 0, 1, 6.0),
            (2, 0, 1, 6.0),
            (3, 0, 2, -1.0),
            (4, 1, 0, 1.0),
            (4, 1, 1, 3.0),
            (4, 1, 2, 3.0),
            (5, 1, 2, 2.75),
        ],
        n_users=7,
        n_contexts=2,
        n_actions=3,
    )


DUEL = Duel(1, leader=2, rival=0)
LOW, HIGH = -1.0, 6.0


def tables(tallies: Tallies) -> dict[str, np.ndarray]:
    """Return counts, sums and squares; shape (n_users, n_contexts, n_actions)."""
    return {
        name: tallies.csr(getattr(tallies, name)).toarray().reshape(-1, *SHAPE)
        for name in ("counts", "sums", "squares")
    }


def tactics(design: Design) -> list[tuple[Tactic, int]]:
    return list(_tactics(small_log(), design, DUEL))


def sticky_here() -> Design:
    """Return a design in which context 1 is sticky."""
    return Design(np.array([False, True]), np.full(SHAPE, 2))


def test_reversed_accounts_report_the_extreme_rewards_against_the_leader() -> None:
    """They would change their reports by 8/2, 6/2, 4/3, 0, 9/3 and 3.75 per interaction."""
    reverse, most = tactics(uniform_design(small_log()))[0]
    assert most == 3  # half of the six active accounts
    for n_accounts, turned in ((1, [0]), (2, [0, 5]), (3, [0, 5, 1])):
        expected = tables(small_log())
        for user in turned:
            for action, reward in ((2, LOW), (0, HIGH)):
                count = expected["counts"][user, 1, action]
                expected["sums"][user, 1, action] = reward * count
                expected["squares"][user, 1, action] = reward**2 * count
        found = tables(reverse(n_accounts))
        for name, table in expected.items():
            np.testing.assert_array_equal(found[name], table)


def test_no_more_accounts_are_reversed_than_have_anything_to_say() -> None:
    tallies = tallied(
        [(0, 0, 0, 1.0), (1, 0, 1, 0.0), (2, 0, 1, 1.0), *((u, 1, 0, 1.0) for u in range(3, 20))],
        n_contexts=2,
        n_actions=2,
    )
    (_, most), *moves = _tactics(tallies, uniform_design(tallies), Duel(0, leader=0, rival=1))
    # User 2 gives the rival the largest reward already.
    assert most == 2
    assert [number for _, number in moves] == [10, 10]


def moved_tables(accounts: list[int], share: float) -> dict[str, np.ndarray]:
    """Return the tables after accounts spend a share of their plays in context 1, uniformly."""
    expected = tables(small_log())
    for user in accounts:
        plays = share * expected["counts"][user].sum() / 3
        for table in expected.values():
            table[user] *= 1.0 - share
        for action, reward in enumerate([HIGH, 0.0, LOW]):
            expected["counts"][user, 1, action] = plays
            expected["sums"][user, 1, action] = reward * plays
            expected["squares"][user, 1, action] = reward**2 * plays
    return expected


@pytest.mark.parametrize(("which", "share"), [(1, 1.0), (2, 0.3)])
def test_moved_accounts_spend_a_share_of_their_plays_in_the_context(
    which: int, share: float
) -> None:
    """Support for the leader per interaction: 3, 5/2, -2/3, 0, (3 - 1)/3 and 2.75."""
    move, most = tactics(uniform_design(small_log()))[which]
    assert most == 3
    for accounts in ([0], [0, 5], [0, 5, 1]):
        found = tables(move(len(accounts)))
        for name, table in moved_tables(accounts, share).items():
            np.testing.assert_allclose(found[name], table, atol=1e-12)


@pytest.mark.parametrize(("which", "share"), [(1, 1.0), (2, 0.3)])
def test_in_a_sticky_context_moved_accounts_keep_their_action(which: int, share: float) -> None:
    """Only those who were seen at one of the two actions can move: users 0 and 1."""
    tallies = tallied(
        [
            (0, 1, 2, 4.0),
            (0, 0, 1, 2.0),
            (1, 1, 0, 8.0),
            (1, 0, 0, 1.0),
            (1, 0, 0, 1.0),
            (2, 1, 1, 9.0),
            *((user, 0, 0, 0.0) for user in range(3, 9)),
        ],
        n_contexts=2,
        n_actions=3,
    )
    move, most = list(_tactics(tallies, sticky_here(), DUEL))[which]
    assert most == 2
    expected = tables(tallies)
    for user, action, reward in ((0, 2, 0.0), (1, 0, 9.0)):
        plays = share * expected["counts"][user].sum()
        for table in expected.values():
            table[user] *= 1.0 - share
        for name, power in (("counts", 0), ("sums", 1), ("squares", 2)):
            expected[name][user, 1, action] = reward**power * plays
        found = tables(move(user + 1))
        for name, table in expected.items():
            np.testing.assert_allclose(found[name], table, atol=1e-12)


def test_where_nobody_was_seen_at_either_action_of_a_sticky_context_nobody_can_move() -> None:
    tallies = tallied([(user, 1, 1, float(user)) for user in range(8)], n_contexts=2, n_actions=3)
    assert list(_tactics(tallies, sticky_here(), DUEL)) == []


def test_a_single_account_cannot_be_a_coalition_of_up_to_half() -> None:
    tallies = tallied([(0, 1, 2, 1.0), (0, 1, 0, 0.0)], n_contexts=2, n_actions=3)
    assert list(_tactics(tallies, uniform_design(tallies), DUEL)) == []
    pair = tallied(
        [(user, 1, action, 1.0) for user in (0, 1) for action in (0, 2)], n_contexts=2, n_actions=3
    )
    assert [most for _, most in _tactics(pair, uniform_design(pair), DUEL)] == [1, 1]


def lead(n_for: int, n_against: int, *, n_users: int) -> Tallies:
    """Return a log of one context in which some like action 0 and others action 1."""
    return tallied(
        [
            (user, 0, action, float((user < n_for) == (action == 0) and user < n_for + n_against))
            for user in range(n_users)
            for action in (0, 1)
        ],
        n_contexts=1,
        n_actions=2,
    )


def test_of_accounts_that_speak_alike_the_first_are_taken() -> None:
    tallies = lead(60, 10, n_users=90)
    before = tables_of(tallies)
    for tactic, _ in _tactics(tallies, uniform_design(tallies), Duel(0, leader=0, rival=1)):
        after = tables_of(tactic(25))
        assert np.flatnonzero((before != after).any(axis=1)).tolist() == list(range(25))


def tables_of(tallies: Tallies) -> np.ndarray:
    """Return sums and counts of the cells; one row a user."""
    return np.hstack([tallies.csr(x).toarray() for x in (tallies.sums, tallies.counts)])


@pytest.mark.parametrize(
    ("n_for", "n_against", "found"),
    [(6, 5, 1), (10, 5, 3), (20, 4, 9), (12, 12, 1)],
)
def test_the_pooled_mean_falls_to_just_more_than_half_of_the_lead(
    n_for: int, n_against: int, found: int
) -> None:
    """Whoever is reversed moves one vote from the leader to the rival."""
    tallies = lead(n_for, n_against, n_users=40)
    design = uniform_design(tallies)
    assert attack_decision(pooled, tallies, design, pooled(tallies), 0) == found


def test_a_better_answer_that_is_known_already_is_kept() -> None:
    tallies = lead(20, 4, n_users=40)
    given = (pooled, tallies, uniform_design(tallies), pooled(tallies), 0)
    assert attack_decision(*given, best=3) == 3
    assert attack_decision(*given, best=30) == 9


def test_no_rival_or_no_success_leaves_what_was_known() -> None:
    alone = tallied([(user, 0, 0, 1.0) for user in range(9)], n_contexts=1, n_actions=2)
    design = uniform_design(alone)
    assert attack_decision(pooled, alone, design, pooled(alone), 0) is None
    assert attack_decision(pooled, alone, design, pooled(alone), 0, best=4) == 4
    tallies = lead(30, 0, n_users=40)
    before = pooled(tallies)
    stubborn = (lambda _: before, tallies, uniform_design(tallies), before, 0)
    assert attack_decision(*stubborn) is None
    assert attack_decision(*stubborn, best=15) == 15


def test_a_decision_that_is_lost_is_not_taken_for_one_that_changed() -> None:
    tallies = lead(10, 5, n_users=40)
    nothing = pooled(tallied([], n_users=40, n_contexts=1, n_actions=2))
    found = attack_decision(lambda _: nothing, tallies, uniform_design(tallies), pooled(tallies), 0)
    assert found is None
