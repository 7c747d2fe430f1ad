"""Intervals by their definitions: order statistics and Student's t."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.refusals import refusal
from unswayed.estimators import bounded_mean_intervals, mean_intervals, median_intervals
from unswayed.estimators.trimming import binomial_lower_quantiles, binomial_upper_quantiles

DELTA = 0.1


def by_student(points: np.ndarray, n_bad: int, delta: float) -> tuple[float, float]:
    """Return the hull of Johnson's intervals of all sets of so many good points."""
    ordered, n = np.sort(points), points.size
    good = n - n_bad
    centred = ordered - ordered.mean()
    z = stats.t.ppf(1.0 - delta / 2.0, good - 1)
    error = math.sqrt(float(np.square(centred).sum()) / (good - 1) / good)
    skewness = np.mean(centred**3) / np.mean(centred**2) ** 1.5
    correction = (1.0 + 2.0 * z * z) / (6.0 * math.sqrt(good)) * skewness
    return (
        ordered[:good].mean() - error * (z + max(-correction, 0.0)),
        ordered[n_bad:].mean() + error * (z + max(correction, 0.0)),
    )


@pytest.mark.parametrize("n_bad", [0, 3, 30])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_without_light_tails_an_interval_is_students(
    rng: np.random.Generator, n_bad: int, sign: float
) -> None:
    """Two groups that lie mixed; each has its own number of bad points."""
    points, groups = sign * rng.exponential(size=120), rng.integers(0, 2, 120)
    low, high = mean_intervals(
        points,
        groups,
        2,
        n_bad=np.array([n_bad, n_bad + 1]),
        failure_probability=DELTA,
        has_light_tails=False,
    )
    for group in range(2):
        expected = by_student(points[groups == group], n_bad + group, DELTA)
        assert (low[group], high[group]) == pytest.approx(expected)


def test_with_light_tails_two_intervals_share_the_failures(rng: np.random.Generator) -> None:
    """Without bad points nothing is clipped: Student's at a half."""
    points, groups = rng.exponential(size=80), np.zeros(80, np.int64)
    given: dict[str, Any] = {"n_bad": np.array([0]), "failure_probability": DELTA}
    low, high = mean_intervals(points, groups, 1, **given)
    assert (low[0], high[0]) == pytest.approx(by_student(points, 0, DELTA / 2.0))


def test_points_that_lean_are_not_clipped(rng: np.random.Generator) -> None:
    points, groups = rng.exponential(size=400) ** 1.5, np.zeros(400, np.int64)
    given: dict[str, Any] = {"n_bad": np.array([10]), "failure_probability": DELTA}
    low, high = mean_intervals(points, groups, 1, **given)
    assert (low[0], high[0]) == pytest.approx(by_student(points, 10, DELTA / 2.0))


def test_points_with_wild_ones_among_them_are_clipped_around_their_median() -> None:
    """The quartiles of 0, ±1 … ±50, each twice, do not lean."""
    points = np.repeat(np.arange(-50.0, 51.0), 2)
    points[[0, -1]] = -1e5, 1e5
    n, k, groups = points.size, 4, np.zeros(points.size, np.int64)
    given: dict[str, Any] = {"n_bad": np.array([k]), "failure_probability": DELTA}
    low, high = mean_intervals(points, groups, 1, **given)
    deviation = 4.0 * np.sort(np.abs(points))[(n + k + 1) // 2]
    reach = deviation / (2.0 * math.sqrt(k / n))
    margin = deviation**2 / (4.0 * reach)
    clipped = by_student(np.clip(points, -reach, reach), k, DELTA / 2.0)
    assert (low[0], high[0]) == pytest.approx((clipped[0] - margin, clipped[1] + margin))
    plain = by_student(points, k, DELTA / 2.0)
    assert plain[0] < low[0] < high[0] < plain[1]


def test_five_good_points_have_an_interval_and_four_have_none() -> None:
    points, groups = np.arange(9.0) ** 2, np.zeros(9, np.int64)
    for n_bad, is_bounded in ((4, True), (5, False), (9, False), (12, False)):
        given: dict[str, Any] = {"n_bad": np.array([n_bad]), "failure_probability": DELTA}
        for has_light_tails in (False, True):
            low, high = mean_intervals(points, groups, 1, **given, has_light_tails=has_light_tails)
            assert np.isfinite([low[0], high[0]]).all() == is_bounded


@pytest.mark.parametrize("has_light_tails", [False, True])
def test_groups_without_points_are_unbounded(has_light_tails: bool) -> None:
    points, groups = np.arange(20.0), np.ones(20, np.int64)
    given: dict[str, Any] = {"n_bad": np.array([0, 0, 0]), "failure_probability": DELTA}
    low, high = mean_intervals(points, groups, 3, **given, has_light_tails=has_light_tails)
    assert np.isfinite(low).tolist() == np.isfinite(high).tolist() == [False, True, False]
    assert (low[0], high[0]) == (-np.inf, np.inf)


@pytest.mark.parametrize("n_bad", [0, 5, 20, 40])
def test_medians_lie_between_binomial_order_statistics(
    rng: np.random.Generator, n_bad: int
) -> None:
    points, groups = rng.standard_normal(100), np.repeat([0, 1], [60, 40])
    low, high = median_intervals(
        points, groups, 2, n_bad=np.array([n_bad, 0]), failure_probability=DELTA
    )
    for group, n_good in ((0, 60 - n_bad), (1, 40)):
        ordered = np.sort(points[groups == group])
        rank = int(stats.binom.ppf(DELTA / 2.0, n_good, 0.5))
        assert (low[group], high[group]) == (ordered[rank - 1], ordered[-rank])


@pytest.mark.parametrize("n_bad", [2, 6, 9])
def test_too_few_good_points_bound_no_median(n_bad: int) -> None:
    """P(B(4, ½) < 1) = 1/16 is above a failure probability of a twentieth at each end."""
    points, groups = np.arange(6.0), np.zeros(6, np.int64)
    given: dict[str, Any] = {"n_bad": np.array([n_bad]), "failure_probability": DELTA}
    low, high = median_intervals(points, groups, 1, **given)
    assert (low[0], high[0]) == (-np.inf, np.inf)
    given["n_bad"] = np.array([1])
    low, high = median_intervals(points, groups, 1, **given)
    assert (low[0], high[0]) == (0.0, 5.0)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("level", [0.001, 0.05, 0.4])
def test_binomial_quantiles_are_those_of_scipy(share: float, level: float) -> None:
    sizes = np.array([0, 1, 2, 7, 40, 1000])
    upper = binomial_upper_quantiles(sizes, share, level)
    for size, count in zip(sizes, upper, strict=True):
        assert stats.binom.sf(count, size, share) <= level
        assert count == 0 or stats.binom.sf(count - 1, size, share) > level
    lower = binomial_lower_quantiles(sizes, share, level)
    for size, count in zip(sizes, lower, strict=True):
        assert stats.binom.cdf(count - 1, size, share) <= level + 1e-12
        assert count == size or stats.binom.cdf(count, size, share) > level


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_impossible_failure_probabilities_are_refused(delta: float) -> None:
    points, groups, n_bad = np.arange(9.0), np.zeros(9, np.int64), np.array([0])
    sentence = f"failure_probability is {delta}: it must lie between 0 and 1."
    options: dict[str, Any] = {"n_bad": n_bad, "failure_probability": delta}
    assert refusal(mean_intervals, points, groups, 1, **options) == sentence
    assert refusal(median_intervals, points, groups, 1, **options) == sentence
    known = {"deviation": 1.0}
    assert refusal(bounded_mean_intervals, points, groups, 1, **options, **known) == sentence
