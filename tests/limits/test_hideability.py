from __future__ import annotations

import pytest

from unswayed.errors import InputError
from unswayed.limits import can_hide, hiding_hellinger


def test_twenty_percent_can_hide_a_tenth_for_nine_plays_and_no_longer() -> None:
    """Source: notes on the paper, section 4: alpha_two is .2039168137 after 10 plays."""
    result = can_hide(0.1, 10, 0.2)
    assert not result.asked.is_hidden
    assert (result.hidden_until, result.visible_from) == (9, 10)
    assert result.asked.smallest_coalition == pytest.approx(0.2039168137, abs=5.1e-11)
    assert result.one_sided_distance == pytest.approx(0.1339494813, abs=5.1e-11)
    assert result.words[0].startswith("No: with 10 plays per user a coalition of 20%")
    assert "20.4%" in result.words[1]
    assert "up to 9 plays" in result.words[2]


def test_a_hidden_gap_is_reported_as_hidden() -> None:
    result = can_hide(0.05, 10, 0.2, n_users=1000)
    assert result.words[0].startswith("Yes:")
    assert "tossing a coin" in result.words[0]
    assert result.asked.success_bound == 0.5
    assert len(result.words) == 3


def test_a_gap_that_is_too_wide_is_visible_from_the_first_play() -> None:
    result = can_hide(0.2, 1, 0.1)
    assert result.hidden_until == 0
    assert "not hide this gap even for one play" in result.words[2]
    assert [row.is_hidden for row in result.rows] == [False] * len(result.rows)


def test_the_number_of_users_gives_a_bound_on_success() -> None:
    one, few, many = (can_hide(0.1, 10, 0.2, n_users=n) for n in (1, 50, 5_000_000))
    assert one.asked.success_bound == pytest.approx(0.5 + 0.5 * one.asked.distance)
    squared = float(hiding_hellinger(0.1, 10, 0.2))
    assert few.asked.success_bound == pytest.approx(0.5 + 0.5 * (1 - (1 - squared) ** 100) ** 0.5)
    assert "at most 0.519" in few.words[3]
    assert many.asked.success_bound == 1
    assert "rule nothing out" in many.words[3]


def test_rows_include_the_question_and_the_turning_points() -> None:
    result = can_hide(0.05, 7, 0.2)
    plays = [row.interactions for row in result.rows]
    assert plays == sorted(set(plays))
    assert {7, 40, 41} <= set(plays)
    assert [row.is_hidden for row in result.rows] == [n <= 40 for n in plays]
    assert result.asked in result.rows


@pytest.mark.parametrize(
    ("gap", "plays", "alpha", "told"),
    [
        (0.0, 10, 0.2, "nothing to hide"),
        (0.7, 10, 0.2, "too large for base 0.5"),
        (0.1, 0, 0.2, "at least 1"),
        (0.1, 10, 0.0, "without a coalition"),
        (0.1, 10, 0.6, "half the users or more"),
        (0.1, 10, 1.0, "share of the users"),
    ],
)
def test_invalid_questions_are_explained(gap: float, plays: int, alpha: float, told: str) -> None:
    with pytest.raises(InputError, match=told):
        can_hide(gap, plays, alpha)
