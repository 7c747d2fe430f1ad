"""What every method's bounds look like, and tallies with other entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from unswayed.learners.design import uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips.bounds import (
    UNDECIDED,
    Certificate,
    certify_one_account,
    decisions,
    with_entries,
)
from unswayed.learners.paper import learn_paper
from unswayed.tallies import Tallies


def learned(tallies: Tallies) -> Estimates:
    """Learn with nobody suspected."""
    return learn_paper(tallies, uniform_design(tallies), alpha=0.0)


def test_of_any_method_it_is_known_that_one_account_must_change() -> None:
    """Four of six users were active; nothing is known of context 2."""
    tallies = tallied(
        [(user, user % 2, 0, 1.0) for user in (0, 1, 3, 4)], n_users=6, n_contexts=3, n_actions=2
    )
    for log in (tallies, cut_after(tallies, 3)):
        bounds = certify_one_account(log, uniform_design(log), learned(tallies), alpha=0.1)
        assert bounds.n_accounts == 4
        assert bounds.lower.tolist() == [0.25, 0.25, 0.25]
        assert bounds.held.tolist() == [0.25, 0.25, 0.25]
        assert np.isnan(bounds.upper).tolist() == [True, True, True]
        assert bounds.certificates.tolist() == ["one account"] * 3
        assert bounds.untried == {}
        assert not bounds.is_certified


def test_certificates_have_room_for_every_word() -> None:
    tallies = tallied([(0, 0, 0, 1.0)], n_contexts=2, n_actions=1)
    bounds = certify_one_account(tallies, uniform_design(tallies), learned(tallies), alpha=0.1)
    for certificate in Certificate:
        words = bounds.certificates.copy()
        words[1] = certificate
        assert words.tolist() == ["one account", certificate.value]
        is_better = certificate != Certificate.ONE_ACCOUNT
        assert replace(bounds, certificates=words).is_certified == is_better


def test_without_accounts_the_share_is_the_whole() -> None:
    tallies = tallied([(0, 0, 0, 1.0)], n_contexts=1, n_actions=1)
    nobody = tallied([], n_users=2, n_contexts=1, n_actions=1)
    bounds = certify_one_account(nobody, uniform_design(nobody), learned(tallies), alpha=0.1)
    assert bounds.n_accounts == 0
    assert bounds.lower.tolist() == [1.0]


def test_a_decision_is_the_first_of_the_largest_known_means() -> None:
    nan = np.nan
    means = np.array([[0.5, nan, 0.5], [nan, -3.0, -2.0], [nan, nan, nan], [nan, 0.0, nan]])
    tallies = tallied([(0, 0, 0, 1.0)], n_contexts=1, n_actions=1)
    estimates = replace(learned(tallies), mean_rewards=means)
    assert decisions(estimates).tolist() == [0, 2, UNDECIDED, 1]
    excluded = replace(estimates, is_excluded=means == -2.0)
    assert decisions(excluded).tolist() == [0, 1, UNDECIDED, 1]
    decided = replace(excluded, decisions=np.array([2, 1, 0, 1]))
    assert decisions(decided).tolist() == [2, 1, UNDECIDED, 1]


@pytest.mark.parametrize("kept", [[True, False, True, False], [False] * 4])
def test_new_entries_take_their_places_among_those_that_stay(kept: list[bool]) -> None:
    tallies = tallied(
        [(0, 0, 1, 2.0), (0, 1, 0, 3.0), (2, 0, 0, 4.0), (2, 0, 0, 6.0), (2, 1, 1, 7.0)],
        n_users=4,
        n_contexts=2,
        n_actions=2,
    )
    assert tallies.cells.tolist() == [1, 2, 0, 3]
    found = with_entries(
        tallies,
        np.array(kept),
        users=np.array([2, 0, 3, 0]),
        cells=np.array([1, 3, 2, 0]),
        counts=np.array([2.0, 1.0, 4.0, 0.5]),
        sums=np.array([6.0, -1.0, 8.0, 2.0]),
    )
    table = {
        (0, 0): (0.5, 2.0, 8.0),
        (0, 3): (1.0, -1.0, 1.0),
        (2, 1): (2.0, 6.0, 18.0),
        (3, 2): (4.0, 8.0, 16.0),
    }
    if kept[0]:
        table |= {(0, 1): (1.0, 2.0, 4.0), (2, 0): (2.0, 10.0, 52.0)}
    places = sorted(table)
    assert (found.n_contexts, found.n_actions, found.n_users) == (2, 2, 4)
    assert found.cells.dtype == np.int32
    assert found.indptr.dtype == np.int64
    users = np.repeat(np.arange(4), np.diff(found.indptr))
    assert list(zip(users.tolist(), found.cells.tolist(), strict=True)) == places
    columns = zip(found.counts, found.sums, found.squares, strict=True)
    assert [tuple(row) for row in columns] == [table[place] for place in places]
