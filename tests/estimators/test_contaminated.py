from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unswayed.estimators import mean_intervals, median_intervals

N_GROUPS, N_POINTS = 300, 200
GROUPS = np.repeat(np.arange(N_GROUPS), N_POINTS)
DELTA = 0.1


def fewest_covered(stated: float = 1.0 - DELTA) -> float:
    """Return how many groups are covered with probability .999 if each is with the stated one."""
    return float(stats.binom.ppf(0.001, N_GROUPS, stated))


def n_covered(intervals: tuple[np.ndarray, np.ndarray], truth: float) -> int:
    low, high = intervals
    return int(((low <= truth) & (truth <= high)).sum())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("place", [-1e9, -0.5, 0.3, 1.0, 1e9])
def test_medians_cover_the_centre_of_symmetric_points(
    rng: np.random.Generator, share: float, place: float
) -> None:
    n_bad = int(share * N_POINTS)
    points = rng.standard_t(2.5, (N_GROUPS, N_POINTS))
    points[:, :n_bad] = place
    intervals = median_intervals(
        points.ravel(),
        GROUPS,
        N_GROUPS,
        n_bad=np.full(N_GROUPS, n_bad),
        failure_probability=DELTA,
    )
    assert n_covered(intervals, 0.0) >= fewest_covered()


def test_without_bad_points_an_interval_of_medians_is_as_short_as_stated(
    rng: np.random.Generator,
) -> None:
    """Not much more than the stated share is covered: order statistics are a grid of 1/200."""
    points = rng.standard_normal(N_GROUPS * N_POINTS)
    nobody = np.zeros(N_GROUPS, np.int64)
    intervals = median_intervals(points, GROUPS, N_GROUPS, n_bad=nobody, failure_probability=DELTA)
    exact = 1 - 2 * stats.binom.cdf(87, N_POINTS, 0.5)  # P(B < 88) is the largest below .05
    assert abs(n_covered(intervals, 0.0) / N_GROUPS - exact) < 4 * np.sqrt(0.09 / N_GROUPS)


@pytest.mark.parametrize("place", [-1e9, -3.0, 0.0, 3.0, 1e9])
@pytest.mark.parametrize("law", ["normal", "exponential", "student"])
def test_means_are_covered_wherever_bad_points_sit(
    rng: np.random.Generator, law: str, place: float
) -> None:
    shape = (N_GROUPS, N_POINTS)
    points = {
        "normal": rng.standard_normal(shape),
        "exponential": rng.exponential(1.0, shape) - 1.0,
        "student": rng.standard_t(2.5, shape),
    }[law]
    points[:, :20] = place
    intervals = mean_intervals(
        points.ravel(),
        GROUPS,
        N_GROUPS,
        n_bad=np.full(N_GROUPS, 20),
        failure_probability=DELTA,
    )
    assert n_covered(intervals, 0.0) >= fewest_covered()


def test_too_few_good_points_leave_no_bound() -> None:
    points, groups = np.arange(8.0), np.zeros(8, np.int64)
    for n_bad in (4, 8):
        intervals = mean_intervals(
            points, groups, 1, n_bad=np.array([n_bad]), failure_probability=DELTA
        )
        assert (intervals.low[0], intervals.high[0]) == (-np.inf, np.inf)


@given(
    n_bad=st.integers(0, 60),
    shift=st.integers(-1000, 1000),
    power=st.integers(-20, 20),
    seed=st.integers(0, 2**16),
)
def test_intervals_of_means_move_with_the_points(
    n_bad: int, shift: int, power: int, seed: int
) -> None:
    points = np.random.default_rng(seed).exponential(size=200)
    groups, bad, scale = np.zeros(200, np.int64), np.array([n_bad]), 2.0**power
    plain = mean_intervals(points, groups, 1, n_bad=bad, failure_probability=DELTA)
    moved = mean_intervals(
        scale * (points + shift), groups, 1, n_bad=bad, failure_probability=DELTA
    )
    for end, moved_end in zip(plain, moved, strict=True):
        np.testing.assert_allclose(moved_end / scale - shift, end, atol=1e-8)


@given(n_bad=st.integers(0, 80), seed=st.integers(0, 2**16))
def test_more_bad_points_never_shorten_an_interval_of_medians(n_bad: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, groups = rng.binomial(12, 0.4, 200).astype(float), np.zeros(200, np.int64)
    fewer, more = np.array([n_bad]), np.array([n_bad + 10])
    medians = [
        median_intervals(points, groups, 1, n_bad=k, failure_probability=DELTA)
        for k in (fewer, more)
    ]
    assert medians[1].low[0] <= medians[0].low[0]
    assert medians[1].high[0] >= medians[0].high[0]


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_skewed_points_that_bad_ones_make_look_symmetric_are_covered(
    rng: np.random.Generator, share: float
) -> None:
    """Bad points in the lower tail balance the upper one; then the median misses the mean.

    As a negative control, intervals of medians miss most means.
    """
    n_points, n_groups = 1000, 200
    points = rng.lognormal(0.0, 0.5, (n_groups, n_points))
    n_bad = int(share * n_points)
    points[:, :n_bad] = 1.0 - 0.5 * rng.uniform(1.0, 4.0, (n_groups, n_bad))
    given: dict[str, Any] = {
        "n_bad": np.full(n_groups, n_bad),
        "failure_probability": DELTA,
    }
    groups = np.repeat(np.arange(n_groups), n_points)
    truth = float(np.exp(0.125))
    fewest = stats.binom.ppf(1e-3, n_groups, 1 - DELTA)
    assert n_covered(mean_intervals(points.ravel(), groups, n_groups, **given), truth) >= fewest
    assert n_covered(median_intervals(points.ravel(), groups, n_groups, **given), truth) < 100
