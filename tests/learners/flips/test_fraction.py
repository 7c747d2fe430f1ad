"""Flip fractions of any method: what is asked for, what is attacked, what is reported."""

from __future__ import annotations

import numpy as np
import pytest

from tests.learners.recording import Recording
from tests.learners.tiny_logs import tallied
from unswayed.errors import InputError
from unswayed.learners.design import sticky_design, uniform_design
from unswayed.learners.flips import CERTIFY_CHOICES, Certificate, check_certify, flip_bounds
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.tallies import Tallies


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Return a method of one's own, by the name "pooled"."""
    method = Recording()
    monkeypatch.setitem(METHODS, "pooled", method)
    return method


def votes() -> Tallies:
    """Return a log of 40 users: leads of 6 and of 16 votes, and a context with one action."""
    events = [
        (user, context, action, float(is_for == (action == 0)))
        for context, n_for in ((0, 23), (1, 28))
        for user in range(40)
        for action in (0, 1)
        for is_for in [user < n_for]
    ]
    events += [(user, 2, 1, 1.0) for user in range(40)]
    return tallied(events, n_users=44, n_contexts=3, n_actions=2)


@pytest.mark.parametrize("choice", CERTIFY_CHOICES)
def test_every_way_to_certify_is_known_by_its_name(choice: str) -> None:
    assert check_certify(choice) == choice


def test_bounds_are_found_without_learning_again_unless_asked_otherwise(pooled: Recording) -> None:
    tallies = votes()
    design = uniform_design(tallies)
    before = pooled(tallies, design, alpha=0.1)
    given = ("pooled", tallies, design, before)
    assert flip_bounds(*given, alpha=0.1, certify="none") is None
    for bounds in (
        flip_bounds(*given, alpha=0.1),
        flip_bounds(*given, alpha=0.1, certify="bounds"),
    ):
        assert bounds is not None
        assert bounds.n_accounts == 40
        assert bounds.lower.tolist() == [1 / 40] * 3
        assert np.isnan(bounds.upper).all()
    assert len(pooled.given) == 1


def test_an_attack_is_made_on_every_decision_with_what_the_method_was_given(
    pooled: Recording,
) -> None:
    """Accounts that move all 5 plays take a vote from the leader and give the rival 2.5.

    So a lead of 23 to 17 falls to 2, and one of 28 to 12 to 5. Without a rival there is no attack.
    """
    tallies = votes()
    design, warmup = uniform_design(tallies), votes()
    before = pooled(tallies, design, alpha=0.125, warmup=warmup)
    heard: list[tuple[int, int]] = []
    bounds = flip_bounds(
        "pooled",
        tallies,
        design,
        before,
        alpha=0.125,
        warmup=warmup,
        certify="attack",
        on_attack=lambda done, total: heard.append((done, total)),
    )
    assert bounds is not None
    assert heard == [(0, 3), (1, 3), (2, 3)]
    np.testing.assert_array_equal(bounds.upper, [2 / 40, 5 / 40, np.nan])
    assert bounds.lower.tolist() == [1 / 40] * 3
    assert (bounds.certificates == Certificate.ONE_ACCOUNT).all()
    assert len(pooled.given) > 10
    for given in pooled.given:
        assert given[1:] == (design, 0.125, warmup)


def test_attacks_on_distributed_tallies_are_rejected(pooled: Recording) -> None:
    tallies = votes()
    design = uniform_design(tallies)
    before = pooled(tallies, design, alpha=0.1)
    elsewhere = tallies.transformed(lambda block: block)
    with pytest.raises(InputError) as error:
        flip_bounds("pooled", elsewhere, design, before, alpha=0.1, certify="attack")
    assert str(error.value) == (
        'attacks need all tallies in one place; use `certify="bounds"` for so large a log.'
    )
    bounds = flip_bounds("pooled", elsewhere, design, before, alpha=0.1)
    assert bounds is not None
    assert bounds.n_accounts == 40


def test_a_context_that_few_accounts_could_move_is_certified_up_to_there() -> None:
    """Of groups of 30, 7 are trimmed at each end: 8 accounts, if the contexts stay in place."""
    tallies = tallied(
        [
            (user, context, user % 2, user % 2 + user % 5 / 10)
            for user in range(60)
            for context in (0, 0, 0, 1, 1, 2)
        ],
        n_contexts=3,
        n_actions=2,
    )
    design = sticky_design(tallies)
    given = ("paper", tallies, design, learn_paper(tallies, design, alpha=0.1))
    bounds = flip_bounds(*given, alpha=0.1)
    assert bounds is not None
    assert np.isnan(bounds.upper).all()
    assert bounds.lower.tolist() == [1 / 60] * 3
    assert bounds.held.tolist() == [8 / 60, 8 / 60, 1 / 60]
    assert bounds.certificates.tolist() == ["context step", "context step", "one account"]
    tried = flip_bounds(*given, alpha=0.1, certify="attack")
    assert tried is not None
    assert (tried.upper >= bounds.held).all()
    assert tried.held.tolist() == bounds.held.tolist()
