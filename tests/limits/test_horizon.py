from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.limits import hiding_distance, largest_interactions, smallest_coalition

one_sided_distance = partial(hiding_distance, is_one_sided=True)
largest_one_sided_interactions = partial(largest_interactions, is_one_sided=True)


def test_the_longest_two_sided_hiding_equals_that_of_the_notes() -> None:
    """Source: notes on the paper, section 4; gaps .05, .1, .2 across, coalitions down."""
    found = largest_interactions(np.array([0.05, 0.1, 0.2]), np.array([[0.1], [0.2], [0.3]]))
    assert np.array_equal(found, [[7, 2, 0], [40, 9, 2], [127, 31, 7]])


@pytest.mark.parametrize(
    ("gap", "alpha", "base"), [(0.01, 0.2, 0.5), (0.001, 0.3, 0.1), (0.02, 0.45, 0.9)]
)
def test_the_longest_hiding_is_the_last_within_reach_of_the_coalition(
    gap: float, alpha: float, base: float
) -> None:
    n = int(largest_interactions(gap, alpha, base=base))
    at, after = np.atleast_1d(smallest_coalition(gap, [n, n + 1], base=base))
    assert at <= alpha < after


def test_the_longest_one_sided_hiding_is_the_last_perfect_one() -> None:
    n = int(largest_one_sided_interactions(0.02, 0.25, base=0.4))
    at, after = np.atleast_1d(one_sided_distance(0.02, [n, n + 1], 0.25, base=0.4))
    assert at == 0.0 < after


def test_a_coalition_of_exactly_the_required_size_suffices() -> None:
    """TV = gap after one play, so 1/9 needs alpha/(1−alpha) = 1/9; and 1/1.2 is 1 − 1/6."""
    assert largest_interactions(1 / 9, 0.1) >= 1
    assert largest_one_sided_interactions(0.1, 1 / 6) == 1


def test_the_papers_lemma_guarantees_fewer_plays_than_can_be_hidden() -> None:
    """Lemma 4.2: up to 0.01 alpha²/(gap² log L) plays the distance is at most L^−4."""
    gap, alpha, n_users = 1e-4, 0.1, 1000
    certified = 0.01 * alpha**2 / (gap**2 * np.log(n_users))
    assert certified > 1
    assert one_sided_distance(gap, int(certified), alpha) <= float(n_users) ** -4


def test_questions_without_a_finite_answer_are_rejected() -> None:
    with pytest.raises(InputError, match="half the users or more"):
        largest_interactions(0.1, 0.5)
    with pytest.raises(InputError, match="cannot be learned in practice"):
        largest_interactions(1e-7, 0.2)
