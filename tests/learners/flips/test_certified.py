"""Flip fractions of decisions: bounds, attacks that attain them, and certificates."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.learners.tiny_logs import shape
from unswayed.learners.design import Design, sticky_design, uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips import Certificate, flip_bounds
from unswayed.learners.paper import learn_paper
from unswayed.tallies import Tallies, tally

LOUD = 1e5


def decisions(estimates: Estimates) -> np.ndarray:
    """Return the action of each context, −1 without an estimate."""
    return np.where(np.isnan(estimates.mean_rewards).all(axis=1), -1, estimates.actions)


def sticky_world(
    rng: np.random.Generator, *, n_users: int, n_contexts: int, n_actions: int, n_plays: int
) -> tuple[Tallies, Design]:
    """Return a log in which every user keeps one action per context, with its true groups."""
    means = rng.uniform(0.2, 0.8, (n_contexts, n_actions))
    assigned = rng.integers(n_actions, size=(n_users, n_contexts))
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.integers(n_contexts, size=users.size)
    actions = assigned[users, contexts]
    rewards = (rng.random(users.size) < means[contexts, actions]).astype(float)
    sizes = np.stack([np.bincount(assigned[:, s], minlength=n_actions) for s in range(n_contexts)])
    tallies = tally(users, contexts, actions, rewards, **shape(n_users, n_contexts, n_actions))
    return tallies, Design(np.ones(n_contexts, np.bool_), sizes)


def uniform_world(
    rng: np.random.Generator, *, n_users: int, n_contexts: int, n_actions: int, n_plays: int
) -> tuple[Tallies, Design]:
    """Return a log of uniform plays in which the first action is the best by far."""
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.integers(n_contexts, size=users.size)
    actions = rng.integers(n_actions, size=users.size)
    rewards = (rng.random(users.size) < np.where(actions == 0, 0.8, 0.3)).astype(float)
    tallies = tally(users, contexts, actions, rewards, **shape(n_users, n_contexts, n_actions))
    return tallies, uniform_design(tallies)


def learned(tallies: Tallies, design: Design, alpha: float) -> Estimates:
    return learn_paper(tallies, design, alpha=alpha)


def test_no_replacement_of_fewer_accounts_changes_a_tiny_decision(rng: np.random.Generator) -> None:
    """Brute force over all coalitions below the bound; members raise or lower their own action."""
    n_flipped = 0
    for _ in range(12):
        tallies, design = sticky_world(rng, n_users=9, n_contexts=1, n_actions=2, n_plays=4)
        before = learned(tallies, design, 0.15)
        bounds = flip_bounds("paper", tallies, design, before, alpha=0.15)
        leader = decisions(before)[0]
        fewest = None
        for number in range(1, 10):
            for coalition in combinations(range(9), number):
                # With one entry per user, the best lie is an extreme reward in favour of the rival.
                signs = np.where(tallies.cells == leader, -LOUD, LOUD)
                is_in = np.isin(np.arange(9), coalition)
                sums = np.where(is_in, signs, tallies.sums)
                attacked = tallies.with_sums(tallies.counts, sums, tallies.squares)
                if decisions(learned(attacked, design, 0.15))[0] != leader:
                    fewest = number
                    break
            if fewest:
                break
        assert fewest is not None
        n_flipped += 1
        # Ties may go either way, so the two bounds may differ by one account.
        assert round(bounds.lower[0] * 9) <= fewest <= round(bounds.upper[0] * 9)
        assert bounds.upper[0] - bounds.lower[0] <= 1 / 9 + 1e-12
    assert n_flipped == 12


def test_no_removal_of_fewer_accounts_changes_a_tiny_decision(rng: np.random.Generator) -> None:
    for _ in range(8):
        tallies, design = sticky_world(rng, n_users=10, n_contexts=1, n_actions=2, n_plays=4)
        before = learned(tallies, design, 0.15)
        bounds = flip_bounds("paper", tallies, design, before, alpha=0.15)
        leader = decisions(before)[0]
        for number in range(1, round(bounds.lower[0] * 10)):
            for gone in combinations(range(10), number):
                stays = ~np.isin(np.arange(10), gone)
                fewer = tallies.of_users(np.flatnonzero(stays))
                sizes = np.bincount(fewer.cells, minlength=2).reshape(1, 2)
                after = learned(fewer, Design(design.is_sticky, sizes), 0.15)
                assert decisions(after)[0] == leader


def test_with_no_assumed_colluders_one_account_is_enough(rng: np.random.Generator) -> None:
    """Negative control: without trimming the method is a plain mean."""
    tallies, design = sticky_world(rng, n_users=400, n_contexts=2, n_actions=2, n_plays=10)
    before = learned(tallies, design, 0.0)
    bounds = flip_bounds("paper", tallies, design, before, alpha=0.0)
    assert bounds.upper.tolist() == [1 / 400, 1 / 400]


def test_more_suspicion_withstands_more_accounts_when_the_lead_is_large(
    rng: np.random.Generator,
) -> None:
    """Well separated means change order only if more points are replaced than one end trims."""
    users = np.repeat(np.arange(500), 5)
    actions = users % 2
    rewards = np.where(actions == 1, 10.0, 0.0) + 0.1 * rng.standard_normal(users.size)
    tallies = tally(
        users, np.zeros_like(users), actions, rewards, n_users=500, n_contexts=1, n_actions=2
    )
    design = sticky_design(tallies)
    lower = []
    for alpha in (0.0, 0.05, 0.1, 0.2, 0.3):
        bounds = flip_bounds("paper", tallies, design, learned(tallies, design, alpha), alpha=alpha)
        # A group of 250 is trimmed by at least alpha·250 at each end.
        assert bounds.lower[0] * 500 >= alpha * 250
        lower.append(bounds.lower[0])
    assert lower == sorted(lower)


def test_an_action_with_few_users_is_lost_if_they_are_removed(rng: np.random.Generator) -> None:
    """Removing six accounts, fewer than are trimmed of a group of fifty, removes the action."""
    visitors = np.append(np.arange(0, 12, 2), np.arange(1, 9, 2))
    users = np.append(np.repeat(np.arange(100), 3), visitors)
    contexts = np.append(np.zeros(300, np.int64), np.ones(10, np.int64))
    rewards = np.append(rng.random(300), np.where(visitors % 2 == 0, 1.0, -1.0))
    tallies = tally(users, contexts, users % 2, rewards, n_users=100, n_contexts=2, n_actions=2)
    design = sticky_design(tallies)
    before = learned(tallies, design, 0.1)
    bounds = flip_bounds("paper", tallies, design, before, alpha=0.1)
    assert round(bounds.lower[1] * 100) == 1  # both trimmed means are zero, a tie
    assert np.isnan(bounds.upper[1])  # the context itself may be lost too
    assert bounds.certificates[1] == Certificate.CONTEXT_STEP
    assert bounds.held[1] == bounds.lower[1]
    stays = np.repeat(np.arange(100), np.diff(tallies.indptr)) >= 12
    fewer = tallies.of_entries(stays | (tallies.cells != 2))
    assert decisions(learned(fewer, design, 0.1))[1] != 0


def test_rare_contexts_are_certified_for_one_account(rng: np.random.Generator) -> None:
    tallies, design = uniform_world(rng, n_users=300, n_contexts=3, n_actions=2, n_plays=12)
    before = learned(tallies, design, 0.1)
    bounds = flip_bounds("paper", tallies, design, before, alpha=0.1)
    assert bounds.lower.tolist() == [1 / 300] * 3
    assert np.isnan(bounds.upper).all()


@pytest.mark.parametrize("loud", [-5.0, 5.0, LOUD])
def test_loud_accounts_below_the_certified_share_change_no_decision(
    loud: float, rng: np.random.Generator
) -> None:
    """With rewards of 0 and 1 in three contexts, extreme rewards do not change the origin."""
    tallies, design = sticky_world(rng, n_users=900, n_contexts=3, n_actions=3, n_plays=20)
    before = learned(tallies, design, 0.2)
    bounds = flip_bounds("paper", tallies, design, before, alpha=0.2)
    owners = np.repeat(np.arange(900), np.diff(tallies.indptr))
    for context, leader in enumerate(decisions(before)):
        n_loud = round(bounds.lower[context] * 900) - 1
        assert n_loud > 5
        # The accounts with the leader's largest rewards report only extreme rewards.
        is_there = tallies.cells == context * 3 + leader
        supporters = owners[is_there][np.argsort(-tallies.sums[is_there], kind="stable")]
        is_loud = np.isin(owners, supporters[:n_loud])
        attacked = tallies.with_sums(
            tallies.counts,
            np.where(is_loud, loud * tallies.counts, tallies.sums),
            np.where(is_loud, loud**2 * tallies.counts, tallies.squares),
        )
        assert decisions(learned(attacked, design, 0.2))[context] == leader
