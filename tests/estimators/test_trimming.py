from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unswayed.estimators import trim_count, trimmed_mean, trimmed_means
from unswayed.randomness import generator

POINTS = st.lists(
    st.one_of(st.just(0.0), st.floats(-1e6, 1e6, allow_nan=False)), min_size=1, max_size=30
)


@given(n=st.integers(1, 500), alpha=st.floats(0.0, 0.49), delta=st.floats(1e-6, 0.5))
def test_trim_count_is_the_smallest_sufficient_number(n: int, alpha: float, delta: float) -> None:
    count = trim_count(n, alpha=alpha, failure_probability=delta)
    slack = 1e-9  # scipy's tail and its inverse agree to rounding only
    assert stats.binom.sf(count, n, alpha) <= delta + slack
    assert count == 0 or stats.binom.sf(count - 1, n, alpha) >= delta - slack


def test_trim_count_is_vectorised_over_groups() -> None:
    sizes = np.array([0, 1, 7, 100, 7])
    counts = trim_count(sizes, alpha=0.2, failure_probability=0.05)
    assert counts.tolist() == [
        trim_count(int(n), alpha=0.2, failure_probability=0.05) for n in sizes
    ]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_expected_share_is_too_little_to_trim(sign: float, rng: np.random.Generator) -> None:
    """Half of all random groups have more bad points than the expected share (erratum 11)."""
    n_groups, n_points, alpha, delta = 400, 100, 0.2, 0.01
    is_bad = rng.random((n_groups, n_points)) < alpha
    values = np.where(is_bad, sign * 1e6, 5.0 + rng.standard_normal((n_groups, n_points)))
    groups = np.repeat(np.arange(n_groups), n_points)
    result = trimmed_means(values.ravel(), groups, n_groups, alpha=alpha, failure_probability=delta)
    n_broken = int(np.count_nonzero(np.abs(result.estimates - 5.0) > 10.0))
    # The number of broken groups is at most Binomial(400, 0.01), above 12 with probability below
    # 1e-3.
    assert n_broken <= 12
    naive = [
        trimmed_mean(row, alpha=alpha, n_trimmed=math.ceil(alpha * n_points)) for row in values
    ]
    # P(Binomial(100, 0.2) > 20) = 0.44; fewer than 120 of 400 has probability below 1e-6.
    assert sum(abs(estimate.estimate - 5.0) > 10.0 for estimate in naive) >= 120


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("alpha", "trim", "bias"),
    [
        (0.05, 0.1, 0.088747),
        (0.1, 0.2, 0.162609),
        (0.1, 0.15, 0.177072),
        (0.1, 0.1, 0.213069),
        (0.2, 0.3, 0.346683),
        (0.05, 0.5, 0.066012),
        (0.1, 0.5, 0.139710),
        (0.2, 0.5, 0.318639),
    ],
)
def test_bias_at_the_trim_edge_equals_the_exact_value(
    sign: float, alpha: float, trim: float, bias: float
) -> None:
    """Values are from the paper notes, section 4, for Gaussian means; 0.5 is the median."""
    n_points = 200_000
    n_bad = round(alpha * n_points)
    n_good = n_points - n_bad
    good = stats.norm.ppf((np.arange(n_good) + 0.5) / n_good)
    edge = math.inf if trim == alpha else stats.norm.isf(max(trim - alpha, 0.0) / (1.0 - alpha))
    bad = np.full(n_bad, sign * min(edge, 1e6))
    result = trimmed_mean(
        10.0 + np.concatenate([good, bad]), alpha=alpha, n_trimmed=round(trim * n_points)
    )
    # The grid of quantiles has an error of O(1/n) inside and of one step at the edge.
    assert result.estimate - 10.0 == pytest.approx(sign * bias, abs=2e-5)


@given(
    good=st.lists(st.floats(-100.0, 100.0), min_size=21, max_size=40),
    bad=st.lists(st.floats(-1e12, 1e12), max_size=10),
    n_cut=st.integers(0, 10),
)
def test_bad_points_move_the_estimate_within_good_order_statistics(
    good: list[float], bad: list[float], n_cut: int
) -> None:
    """With B ≤ k bad points, the j-th smallest is between the (j−B)-th and j-th good one."""
    bad = bad[:n_cut]
    n = len(good) + len(bad)
    result = trimmed_mean(good + bad, alpha=0.1, n_trimmed=n_cut)
    ordered = np.sort(good)
    assert result.is_covered
    low = float(np.mean(ordered[n_cut - len(bad) : n - n_cut - len(bad)]))
    high = float(np.mean(ordered[n_cut : n - n_cut]))
    assert low - 1e-9 <= result.estimate <= high + 1e-9


@given(groups=st.lists(POINTS, min_size=1, max_size=6), alpha=st.floats(0.0, 0.45))
def test_implicit_zeros_equal_stored_zeros_exactly(groups: list[list[float]], alpha: float) -> None:
    values = np.array([value for group in groups for value in group])
    members = np.array([g for g, group in enumerate(groups) for _ in group])
    order = generator(0, "shuffle").permutation(values.size)
    values, members = values[order], members[order]
    dense = trimmed_means(values, members, len(groups), alpha=alpha)
    is_zero = values == 0.0
    implicit = trimmed_means(
        values[~is_zero],
        members[~is_zero],
        len(groups),
        alpha=alpha,
        n_zeros=np.bincount(members[is_zero], minlength=len(groups)),
    )
    for g, group in enumerate(groups):
        alone = trimmed_mean(group, alpha=alpha)
        for result in (dense, implicit):
            assert result.estimates[g] == alone.estimate
            assert result.is_covered[g] == alone.is_covered


def test_trimmed_mean_agrees_with_scipy(rng: np.random.Generator) -> None:
    points = rng.standard_exponential(500)
    result = trimmed_mean(points, alpha=0.1, n_trimmed=60)
    assert result.estimate == pytest.approx(stats.trim_mean(points, 60 / 500))


def test_small_groups_return_their_median_and_are_not_covered() -> None:
    result = trimmed_mean([1.0, 2.0, 1e9], alpha=0.4)
    assert (result.estimate, result.is_covered) == (2.0, False)
    assert trimmed_mean([1.0, 2.0], alpha=0.4).estimate == 1.5
    assert trimmed_mean([7.0], alpha=0.4).estimate == 7.0


def test_the_mean_of_an_empty_group_is_nan() -> None:
    result = trimmed_means([], [], 2, alpha=0.2, n_zeros=[0, 5])
    np.testing.assert_array_equal(result.estimates, [np.nan, 0.0])


def test_without_bad_points_the_estimate_is_the_mean(rng: np.random.Generator) -> None:
    points = rng.normal(4.0, 1.0, 50)
    result = trimmed_mean(points, alpha=0.0)
    assert result.is_covered
    assert result.estimate == pytest.approx(points.mean())
