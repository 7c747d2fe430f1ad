"""Ends of Student intervals against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.refusals import refusal
from unswayed.estimators import bounded_mean_intervals, mean_intervals
from unswayed.estimators.trimming import binomial_upper_quantiles

DELTA = 0.1


def by_student(points: np.ndarray, n_bad: int, delta: float) -> tuple[float, float]:
    """Return the smallest interval that contains Johnson's intervals of all sets of good points."""
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
def test_an_interval_of_means_is_the_hull_of_student_intervals(
    rng: np.random.Generator, n_bad: int, sign: float
) -> None:
    """Two interleaved groups, each with its own number of bad points."""
    points, groups = sign * rng.exponential(size=120), rng.integers(0, 2, 120)
    low, high = mean_intervals(
        points, groups, 2, n_bad=np.array([n_bad, n_bad + 1]), failure_probability=DELTA
    )
    for group in range(2):
        expected = by_student(points[groups == group], n_bad + group, DELTA)
        assert (low[group], high[group]) == pytest.approx(expected)


def test_five_good_points_suffice_for_an_interval_and_four_do_not() -> None:
    points, groups = np.arange(9.0) ** 2, np.zeros(9, np.int64)
    for n_bad, is_bounded in ((4, True), (5, False), (9, False), (12, False)):
        given: dict[str, Any] = {"n_bad": np.array([n_bad]), "failure_probability": DELTA}
        low, high = mean_intervals(points, groups, 1, **given)
        assert np.isfinite([low[0], high[0]]).all() == is_bounded


def test_groups_without_points_are_unbounded() -> None:
    points, groups = np.arange(20.0), np.ones(20, np.int64)
    given: dict[str, Any] = {"n_bad": np.array([0, 0, 0]), "failure_probability": DELTA}
    low, high = mean_intervals(points, groups, 3, **given)
    assert np.isfinite(low).tolist() == np.isfinite(high).tolist() == [False, True, False]
    assert (low[0], high[0]) == (-np.inf, np.inf)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("level", [0.001, 0.05, 0.4])
def test_binomial_quantiles_are_those_of_scipy(share: float, level: float) -> None:
    sizes = np.array([0, 1, 2, 7, 40, 1000])
    upper = binomial_upper_quantiles(sizes, share, level)
    for size, count in zip(sizes, upper, strict=True):
        assert stats.binom.sf(count, size, share) <= level
        assert count == 0 or stats.binom.sf(count - 1, size, share) > level


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_invalid_failure_probabilities_are_rejected(delta: float) -> None:
    points, groups, n_bad = np.arange(9.0), np.zeros(9, np.int64), np.array([0])
    sentence = f"failure_probability is {delta}: it must lie between 0 and 1."
    options: dict[str, Any] = {"n_bad": n_bad, "failure_probability": delta}
    assert refusal(mean_intervals, points, groups, 1, **options) == sentence
    known = {"deviation": 1.0}
    assert refusal(bounded_mean_intervals, points, groups, 1, **options, **known) == sentence
