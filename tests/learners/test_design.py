"""Inference of how the actions of a log were chosen."""

from __future__ import annotations

import numpy as np

from tests.learners.tiny_logs import tallied
from unswayed.learners.design import (
    STICKY_EVIDENCE_PAIRS,
    design_of_log,
    sticky_design,
    uniform_design,
)
from unswayed.tallies import Tallies


def repeated(n_pairs: int, *, n_plays: int = 2) -> Tallies:
    """Return a log of ``n_users`` users who visit one context and always get the same action."""
    return tallied(
        [(user, 0, user % 3, 1.0) for user in range(n_pairs) for _ in range(n_plays)],
        n_contexts=1,
        n_actions=3,
    )


def test_a_uniform_design_has_no_sticky_context_and_no_groups() -> None:
    design = uniform_design(tallied([(0, 0, 0, 1.0)], n_contexts=2, n_actions=3))
    assert design.is_sticky.dtype == np.bool_
    assert design.is_sticky.tolist() == [False, False]
    assert design.group_sizes.dtype == np.int64
    assert design.group_sizes.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_absent_users_are_spread_evenly_over_groups() -> None:
    """One of eight users is inactive; five did not visit context 1, nobody visited context 2."""
    events = [(user, 0, user % 3, 1.0) for user in range(7)]
    events += [(0, 1, 2, 1.0), (1, 1, 2, 1.0)]
    tallies = tallied(events, n_users=8, n_contexts=3, n_actions=3)
    design = sticky_design(tallies)
    assert design.is_sticky.dtype == np.bool_
    assert design.is_sticky.tolist() == [True, True, True]
    assert design.group_sizes.dtype == np.int64
    # 5/3 and 7/3 are both rounded to two.
    assert design.group_sizes.tolist() == [[3, 2, 2], [2, 2, 4], [2, 2, 2]]


def test_forty_repeated_visits_make_a_log_sticky() -> None:
    enough, too_few = repeated(STICKY_EVIDENCE_PAIRS), repeated(STICKY_EVIDENCE_PAIRS - 1)
    assert design_of_log(enough, "auto").is_sticky.all()
    assert not design_of_log(too_few, "auto").is_sticky.any()


def test_one_changed_action_shows_that_a_log_is_not_sticky() -> None:
    events = [(user, 0, 0, 1.0) for user in range(100) for _ in range(2)]
    tallies = tallied([*events, (99, 0, 1, 1.0)], n_contexts=2, n_actions=2)
    assert not design_of_log(tallies, "auto").is_sticky.any()
    # Another action in another context is not a change.
    elsewhere = tallied([*events, (99, 1, 1, 1.0)], n_contexts=2, n_actions=2)
    assert design_of_log(elsewhere, "auto").is_sticky.all()


def test_a_named_design_overrides_the_log() -> None:
    sticky, uniform = repeated(100), repeated(3)
    assert not design_of_log(sticky, "uniform").is_sticky.any()
    assert design_of_log(uniform, "sticky").is_sticky.all()
    assert design_of_log(uniform, "sticky").group_sizes.tolist() == [[1, 1, 1]]


def test_repeated_visits_count_whatever_their_weight() -> None:
    """Two plays of weight .4 count as two plays."""
    events = [(user, 0, 0, 1.0) for user in range(50) for _ in range(2)]
    tallies = tallied(events, n_contexts=1, n_actions=2, weights=[0.4] * 100)
    assert design_of_log(tallies, "auto").is_sticky.all()
