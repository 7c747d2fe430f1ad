"""Decisions by regret if suspects may be honest or may have lied."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unswayed.arrays import BoolArray, FloatArray
from unswayed.learners.bounded.method import smallest_regret

NOTHING = np.zeros((1, 2), dtype=np.bool_)
HONEST, LIED = np.array([[0.48, 0.52]]), np.array([[0.6, 0.4]])


def test_without_suspects_the_best_mean_is_chosen() -> None:
    assert smallest_regret(HONEST, [], NOTHING).tolist() == [1]


def test_regrets_are_weighted_by_the_square_root_of_the_evidence() -> None:
    """Regrets are .04 if suspects are honest and .2 if they lied, equal at evidence (.04/.2)²."""
    assert smallest_regret(HONEST, [(0.5, LIED)], NOTHING).tolist() == [0]
    assert smallest_regret(HONEST, [(0.041, LIED)], NOTHING).tolist() == [0]
    assert smallest_regret(HONEST, [(0.039, LIED)], NOTHING).tolist() == [1]


def test_a_third_action_may_have_the_smallest_worst_case_regret() -> None:
    """The third action is good in both cases and best in neither."""
    means, story = np.array([[0.6, 0.2, 0.5]]), np.array([[0.2, 0.6, 0.5]])
    nothing = np.zeros((1, 3), dtype=np.bool_)
    assert smallest_regret(means, [(0.99, story)], nothing).tolist() == [2]


def test_the_worst_case_is_taken_over_all_stories() -> None:
    mild = np.array([[0.5, 0.52]])
    both = [(0.5, mild), (0.5, LIED)]
    assert smallest_regret(HONEST, both, NOTHING).tolist() == [0]
    assert smallest_regret(HONEST, both[:1], NOTHING).tolist() == [1]


def test_the_only_action_with_a_known_mean_is_chosen() -> None:
    means = np.array([[np.nan, 0.1], [np.nan, np.nan]])
    nothing = np.zeros((2, 2), dtype=np.bool_)
    assert smallest_regret(means, [(0.5, means)], nothing)[0] == 1


@given(
    means=arrays(np.float64, (3, 4), elements=st.floats(-10, 10)),
    story=arrays(np.float64, (3, 4), elements=st.floats(-10, 10)),
    is_excluded=arrays(np.bool_, (3, 4)),
    evidence=st.floats(0.0, 1.0),
)
def test_an_excluded_action_is_never_chosen_if_another_is_available(
    means: FloatArray, story: FloatArray, is_excluded: BoolArray, evidence: float
) -> None:
    chosen = smallest_regret(means, [(evidence, story)], is_excluded)
    is_left = ~is_excluded.all(axis=1)
    assert not is_excluded[np.arange(3), chosen][is_left].any()
