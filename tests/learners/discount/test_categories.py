"""Into which categories and units rewards are sorted: small examples worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tests.learners.discount.small import sample_of
from unswayed.learners.discount.responses.categories import (
    Categories,
    Unit,
    _drawn_out,
    _is_symmetric,
    find_categories,
    unit_of,
)


def repeated(values: list[float], counts: list[int]) -> np.ndarray:
    return np.repeat(np.array(values, float), counts)


def test_one_value_is_one_category() -> None:
    found = find_categories(np.full(5, 3.0))
    assert found.edges.tolist() == []
    assert found.scores.tolist() == [0.0]
    assert found.values.tolist() == [3.0]
    assert (found.n, found.dominant, found.share) == (1, True, 1.0)
    assert not found.is_even
    assert not found.is_binary
    assert found.is_event
    assert found.is_rare


@pytest.mark.parametrize(
    ("n_high", "scores", "is_rare"),
    [(20, [0.0, 1.0], False), (15, [0.0, 1.0], True), (80, [-1.0, 0.0], False)],
)
def test_two_values_are_events_whichever_is_rarer(
    n_high: int, scores: list[float], is_rare: bool
) -> None:
    found = find_categories(repeated([2.0, 7.0], [100 - n_high, n_high]))
    assert found.edges.tolist() == [4.5]
    assert found.scores.tolist() == scores
    assert_allclose(found.values, [2.0, 7.0])
    assert found.share == max(n_high, 100 - n_high) / 100
    assert (found.is_binary, found.is_event, found.is_even, found.is_rare) == (
        True,
        True,
        True,
        is_rare,
    )


def normal_scores(counts: list[int]) -> np.ndarray:
    shares = (np.array(counts) + 0.5) / (sum(counts) + 0.5 * len(counts))
    scores = stats.norm.ppf(np.cumsum(shares) - shares / 2.0)
    scores -= shares @ scores
    return np.asarray(scores / math.sqrt(shares @ scores**2))


@pytest.mark.parametrize(("n_least", "is_even"), [(2, True), (1, False)])
def test_a_scale_is_even_if_both_of_its_ends_are_in_use(n_least: int, is_even: bool) -> None:
    """Skewed stars: the upper end is rare."""
    counts = [40, 25, 10, 25 - n_least, n_least]
    found = find_categories(repeated([1, 2, 3, 4, 5], counts))
    assert_allclose(found.edges, [1.5, 2.5, 3.5, 4.5])
    assert_allclose(found.scores, normal_scores(counts))
    assert_allclose(found.values, [1, 2, 3, 4, 5])
    assert not found.dominant
    assert found.is_even == is_even
    assert not found.is_event
    assert not found.is_rare


def test_rare_values_are_sorted_to_the_nearest_atom() -> None:
    """One percent makes an atom, less does not; atoms must cover ninety-nine of a hundred."""
    rewards = repeated([1.0, 1.4, 2.0, 2.6, 3.0], [600, 5, 980, 5, 410])
    found = find_categories(rewards)
    assert_allclose(found.edges, [1.5, 2.5])
    assert_allclose(found.values, [(600 + 5 * 1.4) / 605, 2.0, (410 * 3.0 + 5 * 2.6) / 415])
    more = repeated([1.0, 1.4, 1.5, 2.0, 2.6, 3.0], [600, 9, 5, 970, 9, 407])
    assert_allclose(find_categories(more).edges, [1.0, 2.0, 3.0])  # quantiles
    exact = repeated([1.0, 2.0, 3.0], [60, 39, 1])
    assert_allclose(find_categories(exact).edges, [1.5, 2.5])
    assert find_categories(repeated([1.0, 2.0, 3.0], [100, 99, 1])).n == 2  # half a percent


def test_up_to_ten_values_are_a_category_each() -> None:
    ten, eleven = np.repeat(np.arange(10.0), 7), np.repeat(np.arange(11.0), 7)
    assert_allclose(find_categories(ten).edges, np.arange(9) + 0.5)
    quantiles = np.quantile(eleven, np.arange(1, 8) / 8, method="median_unbiased")
    assert_allclose(find_categories(eleven).edges, np.unique(quantiles))
    assert find_categories(eleven).n == 8


@pytest.mark.parametrize("n_below", [0, 6])
def test_what_lies_above_a_dominant_value_is_split_at_two_quantiles(n_below: int) -> None:
    above = np.linspace(1.0, 5.0, 40)
    rewards = np.concatenate([np.zeros(60), above, np.linspace(-2.0, -1.0, n_below)])
    found = find_categories(rewards)
    width = np.ptp(rewards)
    upper = [1e-8 * width, *np.quantile(above, (0.5, 0.85))]
    assert_allclose(found.edges, [-1e-8 * width, *upper] if n_below else upper, atol=3e-9)
    assert found.scores.tolist() == ([-1.0] if n_below else []) + [0.0, 1.0, 1.0, 1.0]
    assert found.dominant
    assert found.is_event
    assert not found.is_even
    assert found.share == pytest.approx(60 / len(rewards))


def test_half_of_the_rewards_dominate_and_fewer_do_not() -> None:
    amounts = np.linspace(1.0, 2.0, 50)
    assert find_categories(np.append(np.zeros(50), amounts)).dominant
    assert not find_categories(np.append(np.zeros(49), amounts)).dominant


def test_symmetric_tenths_lie_equally_far_from_the_median() -> None:
    """Of eleven points tenths are the second and the second last; a share of .3 is allowed."""
    points = np.array([-9.0, 0.0, 1.0, 2.0, 3.0, 7.0, 8.0, 9.0, 9.0, 20.0, 99.0])
    assert _is_symmetric(points)  # 20 - 14 + 0 = 6 = .3 · 20
    points[5] = 6.9
    assert not _is_symmetric(points)
    points[5] = 7.1
    assert _is_symmetric(points)
    assert _is_symmetric(-points)
    points[5:9] = 13.1
    assert not _is_symmetric(points)


@pytest.mark.parametrize(
    ("lean", "is_even"), [(None, False), (0.25, True), (0.26, False), (-0.26, False), (0.0, True)]
)
def test_amounts_are_skewed_only_if_users_say_so_too(lean: float | None, is_even: bool) -> None:
    skewed = np.exp(stats.norm.ppf((np.arange(400) + 0.5) / 400))
    assert find_categories(skewed, lean).is_even == is_even
    symmetric = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    assert find_categories(symmetric, 0.9).is_even


def test_units_make_two_values_zero_and_one() -> None:
    rewards = repeated([2.0, 7.0], [8, 2])
    unit = unit_of(find_categories(rewards), rewards, sample_of([2.0], [0]))
    assert unit == (2.0, 5.0, 1.0, 0.0)
    assert unit.back(np.array([0.0, 1.0, 0.5])).tolist() == [2.0, 7.0, 4.5]


def test_units_of_amounts_are_users_farthest_rewards() -> None:
    """Farthest from the median 5: users 0 to 3 by 1, 2, 3 and 10; the last never leaves it."""
    rewards = np.append(np.linspace(0.0, 10.0, 98), [5.0, 5.0, 1e9])
    sample = sample_of([5.5, 4.0, 7.0, 2.0, 15.0, 5.0], [0, 0, 1, 2, 3, 4])
    unit = unit_of(find_categories(rewards), rewards, sample)
    far = np.array([1.0, 2.0, 3.0, 10.0])
    width = min(4.0, np.quantile(far, 0.7))
    assert unit.origin == 5.0
    assert unit.width == pytest.approx(width)
    assert unit.reach == pytest.approx(_drawn_out(far) / width)
    assert unit.cut == pytest.approx((np.abs(rewards - 5.0) > _drawn_out(far)).mean())
    narrow = sample_of([5.5, 4.0, 7.0, 5.0 + 2.5, 5.0 + 2.5], [0, 0, 1, 2, 3])
    assert unit_of(find_categories(rewards), rewards, narrow).width == pytest.approx(2.0)


def test_a_dominant_value_is_the_origin_and_nobody_far_a_unit_of_one() -> None:
    rewards = np.append(np.zeros(60), np.linspace(1.0, 5.0, 40))
    categories = find_categories(rewards)
    unit = unit_of(categories, rewards, sample_of([3.0, 1.0], [0, 1]))
    assert unit.origin == pytest.approx(0.0, abs=1e-6)
    assert unit.width == pytest.approx(2.0, rel=1e-6)
    origin = float(categories.values[0])
    nobody = unit_of(categories, rewards, sample_of([origin, origin], [0, 1]))
    assert nobody[:3] == (origin, 1.0, 1.0)
    assert nobody.cut == pytest.approx((rewards - origin > 1.0).mean())


def test_tails_are_drawn_out_along_a_straight_line_of_logarithms() -> None:
    far = np.exp(np.linspace(0.0, 1.0, 11))
    low, high = np.log(np.quantile(far, (0.4, 0.7)))
    z = np.asarray(stats.norm.ppf([0.7, 0.85]))
    expected = high + (high - low) * (4.5 - z[1]) / (z[1] - z[0])
    assert _drawn_out(far) == pytest.approx(math.exp(expected))
    alike = _drawn_out(np.full(9, 2.0))
    assert alike == pytest.approx(2.0 * math.exp(0.1 * (4.5 - z[1]) / (z[1] - z[0])))


def test_tallies_in_units_have_shifted_and_scaled_rewards() -> None:
    t = sample_of([5.0, 9.0], [0, 1], plays=[2.0, 4.0], variances=[0.5, 3.0])
    (found,) = Unit(3.0, 2.0, 1.0, 0.0).of(t).blocks.map_blocks(lambda block: block)
    assert_allclose(found.counts, [2.0, 4.0])
    assert_allclose(found.sums / found.counts, [1.0, 3.0])
    assert_allclose(found.squares / found.counts, [0.5 / 4 + 1.0, 3.0 / 4 + 9.0])
    assert Unit(0.0, 1.0, 1.0, 0.0).of(t) is t
    for origin, width in ((0.0, 2.0), (1.0, 1.0)):
        assert Unit(origin, width, 1.0, 0.0).of(t) is not t
    exact = sample_of([0.1], [0], plays=[3.0])
    (nothing,) = Unit(0.1, 1.0, 1.0, 0.0).of(exact).blocks.map_blocks(lambda block: block)
    assert nothing.squares[0] >= 0.0


def test_categories_of_nothing_rare_are_not_rare() -> None:
    amounts = Categories(np.array([1.0, 2.0]), np.arange(3.0), np.arange(3.0), False, 0.9, True)
    assert not amounts.is_rare
    assert not amounts.is_event
    assert amounts.n == 3
