"""Flip fractions of methods with and without certificates."""

from __future__ import annotations

import numpy as np

from tests.learners.tiny_logs import tallied
from unswayed.learners.design import sticky_design, uniform_design
from unswayed.learners.flips import flip_bounds
from unswayed.learners.paper import learn_paper


def test_a_method_without_certificates_is_certified_for_one_account() -> None:
    tallies = tallied(
        [(user, 0, user % 2, 1.0) for user in range(40)], n_users=44, n_contexts=1, n_actions=2
    )
    design = uniform_design(tallies)
    bounds = flip_bounds(
        "bounded", tallies, design, learn_paper(tallies, design, alpha=0.1), alpha=0.1
    )
    assert bounds.n_accounts == 40
    assert bounds.lower.tolist() == [1 / 40]
    assert np.isnan(bounds.upper).all()


def test_the_certificate_is_limited_by_the_accounts_that_could_change_the_estimator() -> None:
    """In groups of 30, 7 points are trimmed at each end, so it takes 8 accounts."""
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
    assert np.isnan(bounds.upper).all()
    assert bounds.lower.tolist() == [1 / 60] * 3
    assert bounds.held.tolist() == [8 / 60, 8 / 60, 1 / 60]
    assert bounds.certificates.tolist() == ["context step", "context step", "one account"]
