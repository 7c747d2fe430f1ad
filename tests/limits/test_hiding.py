from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tests.limits import exact
from unswayed.errors import InputError
from unswayed.limits import (
    binomial_counts,
    hiding_distance,
    hiding_hellinger,
    one_sided_adversary,
    smallest_coalition,
    success_bound,
    total_variation,
    two_sided_adversaries,
)

one_sided_distance = partial(hiding_distance, is_one_sided=True)
one_sided_hellinger = partial(hiding_hellinger, is_one_sided=True)
smallest_one_sided_coalition = partial(smallest_coalition, is_one_sided=True)

# Source: notes on the paper, section 4, computed there: gap, plays, TV, alpha_exact, alpha_two,
# H at alpha .1 and .2, for base 1/2, rounded to ten digits or fewer.
GOLDENS = [
    (0.05, 1, 0.05, 0.0909090909, 0.0476190476, 0.0, 0.0),
    (0.05, 5, 0.093126875, 0.3790786769, 0.0851931072, 0.04309575, 0.017474),
    (0.05, 10, 0.1274514667, 0.6144567106, 0.1130438608, 0.07701100749, 0.04095535602),
    (0.05, 50, 0.2775023709, 0.9914814487, 0.2172225878, 0.2161615821, 0.1615818182),
    (0.05, 100, 0.3844718310, 0.9999274343, 0.2777028917, 0.3155491021, 0.2535926234),
    (0.1, 1, 0.1, 0.1666666667, 0.0909090909, 0.04, 0.0),
    (0.1, 5, 0.18256, 0.5981224280, 0.1543769449, 0.115764, 0.082068),
    (0.1, 10, 0.2561501326, 0.8384944171, 0.2039168137, 0.1928398068, 0.1339494813),
    (0.1, 50, 0.5260732159, 0.9998901152, 0.3447234447, 0.4494715112, 0.3749924924),
    (0.1, 100, 0.6854718552, 0.9999999879, 0.4066943349, 0.6033620185, 0.5212521818),
    (0.2, 1, 0.2, 0.2857142857, 0.1666666667, 0.13, 0.06),
    (0.2, 5, 0.34072, 0.8140655679, 0.2541321081, 0.287898, 0.235076),
    (0.2, 10, 0.4777357184, 0.9654283870, 0.3232890106, 0.4127746466, 0.3478135747),
    (0.2, 50, 0.8557371752, 0.9999999506, 0.4611305882, 0.764217435, 0.6726976949),
    (0.2, 100, 0.9614113239, 1.0, 0.4901630332, 0.8635101815, 0.7656090391),
]
ROUNDED = 5.1e-11  # half a unit of the tenth digit

probabilities = st.fractions(min_value=0, max_value=1, max_denominator=40)


@pytest.mark.parametrize(("gap", "n", "tv", "alone", "both", "h1", "h2"), GOLDENS)
def test_values_equal_the_table_of_the_notes(
    gap: float, n: int, tv: float, alone: float, both: float, h1: float, h2: float
) -> None:
    assert total_variation(gap, n) == pytest.approx(tv, abs=ROUNDED)
    assert smallest_one_sided_coalition(gap, n) == pytest.approx(alone, abs=ROUNDED)
    assert smallest_coalition(gap, n) == pytest.approx(both, abs=ROUNDED)
    assert one_sided_distance(gap, n, 0.1) == pytest.approx(h1, abs=ROUNDED)
    assert one_sided_distance(gap, n, 0.2) == pytest.approx(h2, abs=ROUNDED)


def test_values_equal_the_rational_numbers_of_the_notes() -> None:
    """Source: notes on the paper, section 4."""
    half, tenth, fifth = Fraction(1, 2), Fraction(1, 10), Fraction(1, 5)
    assert exact.excess(5, half, tenth, Fraction(0)) == Fraction(1141, 6250)
    assert exact.excess(5, half, tenth, fifth) == Fraction(20517, 250000)
    assert exact.excess(3, half, tenth, tenth) == Fraction(52, 625)
    assert total_variation(0.1, 5) == pytest.approx(1141 / 6250, rel=1e-14)
    assert one_sided_distance(0.1, 5, 0.2) == pytest.approx(20517 / 250000, rel=1e-14)
    assert one_sided_distance(0.1, 3, 0.1) == pytest.approx(52 / 625, rel=1e-14)


@settings(deadline=None, max_examples=150)
@given(
    ends=st.tuples(probabilities, probabilities).filter(lambda pair: pair[0] != pair[1]),
    n=st.integers(0, 30),
    alpha=st.fractions(
        min_value=Fraction(1, 100), max_value=Fraction(99, 100), max_denominator=100
    ),
)
def test_any_pair_of_worlds_agrees_with_rational_arithmetic(
    ends: tuple[Fraction, Fraction], n: int, alpha: Fraction
) -> None:
    """Base 0 and base + gap = 1 are included, where a single play can be conclusive."""
    base, gap = min(ends), max(ends) - min(ends)
    tv = exact.excess(n, base, gap, Fraction(0))
    h = exact.excess(n, base, gap, alpha)
    two = max(Fraction(0), (1 - alpha) * tv - alpha)
    assert total_variation(float(gap), n, base=float(base)) == pytest.approx(float(tv), rel=1e-12)
    # Near the smallest coalition, H is a small difference of rounded inputs.
    assert one_sided_distance(float(gap), n, float(alpha), base=float(base)) == pytest.approx(
        float(h), rel=1e-12, abs=1e-14
    )
    assert hiding_distance(float(gap), n, float(alpha), base=float(base)) == pytest.approx(
        float(two), rel=1e-12, abs=1e-14
    )
    smallest = 1 - (base / (base + gap)) ** n
    assert smallest_one_sided_coalition(float(gap), n, base=float(base)) == pytest.approx(
        float(smallest), rel=1e-12
    )


@pytest.mark.parametrize(("n", "percent"), [(200, 10), (3000, 3), (10_000, 1)])
def test_ten_thousand_plays_agree_with_rational_arithmetic(n: int, percent: int) -> None:
    """Rounding the gap has a relative error of 1e-16; n plays multiply it by at most n."""
    expected = float(exact.long_total_variation(n, percent))
    assert total_variation(percent / 100, n) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("gap", "n"), [(1e-6, 10**6), (1e-4, 10**6), (1e-3, 10**6), (0.01, 10**6), (1e-5, 10**9)]
)
def test_a_million_plays_agree_with_incomplete_beta_functions(gap: float, n: int) -> None:
    """Independent computation: binomial tails at the count where the likelihoods are equal."""
    base = 0.3
    crossing = (
        n * np.log1p(-gap / (1 - base)) / (np.log1p(-gap / (1 - base)) - np.log1p(gap / base))
    )
    above = np.floor(crossing)
    expected = binom.sf(above, n, base + gap) - binom.sf(above, n, base)
    # A difference of two incomplete beta functions, each with an error of about 1e-12.
    assert total_variation(gap, n, base=base) == pytest.approx(expected, abs=5e-12)


def test_the_tiniest_gaps_keep_their_relative_precision() -> None:
    """For one play, TV is the gap; differences of tails would lose all precision."""
    assert total_variation(1e-15, 1, base=0.25) == pytest.approx(1e-15, rel=1e-12)
    # To first order TV = gap · n · C(n−1, m−1) / 2^(n−1), with m = 501 and n = 1000.
    slope = 1000 * binom.pmf(500, 999, 0.5)
    assert total_variation(1e-12, 1000) == pytest.approx(1e-12 * slope, rel=1e-9)


def test_arrays_broadcast_and_scalars_give_scalars() -> None:
    table = one_sided_distance(np.array([[0.05], [0.1]]), np.array([1, 5, 10]), 0.2)
    assert table.shape == (2, 3)
    assert table[1, 1] == one_sided_distance(0.1, 5, 0.2)
    assert isinstance(one_sided_distance(0.1, 5, 0.2), float)


def test_without_plays_everything_is_hidden() -> None:
    assert total_variation(0.5, 0) == 0
    assert smallest_one_sided_coalition(0.5, 0, base=0.0) == 0
    assert smallest_coalition(0.5, 0) == 0


def test_both_coalitions_hide_everything_from_their_smallest_size_on() -> None:
    for gap, n in [(0.05, 7), (0.1, 3), (0.2, 2)]:
        alone = float(smallest_one_sided_coalition(gap, n))
        both = float(smallest_coalition(gap, n))
        assert (
            one_sided_distance(gap, n, alone + 1e-9) == 0 < one_sided_distance(gap, n, alone - 1e-9)
        )
        assert hiding_distance(gap, n, both + 1e-9) == 0 < hiding_distance(gap, n, both - 1e-9)


def test_the_bound_on_success_lies_between_one_half_and_one() -> None:
    assert success_bound(1000, 0.0) == 0.5
    assert success_bound(10, 0.004) == pytest.approx(0.52)
    assert success_bound(1000, 0.01) == 1.0
    assert success_bound(1000, 1.0, 1.0) == 1.0


def test_the_bound_on_success_equals_a_value_by_hand() -> None:
    """Computed by hand: ten users, five plays, a gap of .1, a fifth of colluders in one world."""
    distance, squared = one_sided_distance(0.1, 5, 0.2), one_sided_hellinger(0.1, 5, 0.2)
    assert success_bound(10, distance) == pytest.approx(0.910, abs=5e-4)
    assert success_bound(10, distance, squared) == pytest.approx(0.668, abs=5e-4)


@pytest.mark.parametrize("n_users", [1, 2, 3])
@pytest.mark.parametrize("side", ["one", "two"])
def test_the_bound_on_success_is_above_the_best_test(side: str, n_users: int) -> None:
    """The best test succeeds with probability ½ + ½·TV of the joint observations."""
    gap, n, alpha = (0.1, 5, 0.2) if side == "one" else (0.3, 3, 0.2)
    good = binomial_counts(n, 0.5).dense(), binomial_counts(n, 0.5 + gap).dense()
    if side == "one":
        bad = np.zeros(n + 1), one_sided_adversary(gap, n, alpha).counts.dense()
        worlds = good[0], (1 - alpha) * good[1] + alpha * bad[1]
        bound = success_bound(
            n_users, one_sided_distance(gap, n, alpha), one_sided_hellinger(gap, n, alpha)
        )
    else:
        pair = two_sided_adversaries(gap, n, alpha)
        bad = pair.ordinary.counts.dense(), pair.better.counts.dense()
        worlds = (1 - alpha) * good[0] + alpha * bad[0], (1 - alpha) * good[1] + alpha * bad[1]
        bound = success_bound(
            n_users, hiding_distance(gap, n, alpha), hiding_hellinger(gap, n, alpha)
        )
    first, second = np.ones(1), np.ones(1)
    for _ in range(n_users):
        first, second = np.outer(first, worlds[0]).ravel(), np.outer(second, worlds[1]).ravel()
    best = 0.5 + 0.25 * np.abs(first - second).sum()
    assert 0.5 < best <= bound + 1e-12


def test_total_variation_bounds_the_hellinger_distance() -> None:
    """H ≤ TV ≤ sqrt(h·(2 − h)) for the squared distance h."""
    for gap, n, alpha in [(0.1, 5, 0.1), (0.2, 50, 0.2), (0.05, 10**6, 0.3)]:
        for distance, squared in (
            (one_sided_distance, one_sided_hellinger),
            (hiding_distance, hiding_hellinger),
        ):
            total, h = float(distance(gap, n, alpha)), float(squared(gap, n, alpha))
            assert h <= total + 1e-12
            assert total <= np.sqrt(h * (2 - h)) + 1e-12


@pytest.mark.parametrize(
    ("gap", "n", "alpha", "base", "told"),
    [
        (0.0, 5, 0.2, 0.5, "nothing to hide"),
        (-0.1, 5, 0.2, 0.5, "nothing to hide"),
        (float("nan"), 5, 0.2, 0.5, "nothing to hide"),
        (0.6, 5, 0.2, 0.5, "largest gap here is 0.5"),
        (0.1, 5, 0.2, 1.0, "`base` is 1.0"),
        (0.1, 5, 0.0, 0.5, "without a coalition"),
        (0.1, 5, 1.0, 0.5, "share of the users"),
        (0.1, 5, float("nan"), 0.5, "share of the users"),
        (0.1, -1, 0.2, 0.5, "at least 0"),
        (0.1, 2.5, 0.2, 0.5, "whole number"),
        (0.1, 10**10, 0.2, 0.5, "1,000,000,000"),
    ],
)
def test_errors_explain_invalid_input(
    gap: float, n: float, alpha: float, base: float, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        one_sided_distance(gap, n, alpha, base=base)


def test_a_bound_on_success_requires_users_and_a_distance() -> None:
    with pytest.raises(InputError, match="n_users"):
        success_bound(0, 0.1)
    with pytest.raises(InputError, match="distance"):
        success_bound(10, 1.5)
    with pytest.raises(InputError, match="hellinger"):
        success_bound(10, 0.1, -0.1)
