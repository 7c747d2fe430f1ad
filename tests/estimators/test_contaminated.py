from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unswayed.estimators import mean_intervals

N_GROUPS, N_POINTS = 300, 200
GROUPS = np.repeat(np.arange(N_GROUPS), N_POINTS)
DELTA = 0.1


def fewest_covered(stated: float = 1.0 - DELTA) -> float:
    """Return the coverage count reached with probability .999 at the stated level."""
    return float(stats.binom.ppf(0.001, N_GROUPS, stated))


def n_covered(intervals: tuple[np.ndarray, np.ndarray], truth: float) -> int:
    low, high = intervals
    return int(((low <= truth) & (truth <= high)).sum())


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
        points.ravel(), GROUPS, N_GROUPS, n_bad=np.full(N_GROUPS, 20), failure_probability=DELTA
    )
    assert n_covered(intervals, 0.0) >= fewest_covered()


@given(
    n_bad=st.integers(0, 60),
    shift=st.integers(-1000, 1000),
    power=st.integers(-20, 20),
    seed=st.integers(0, 2**16),
)
def test_intervals_of_means_are_equivariant_to_shifts(
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


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_skewed_points_that_bad_ones_balance_are_covered(
    rng: np.random.Generator, share: float
) -> None:
    """Bad points in the lower tail hide the skewness of the upper tail.

    Negative control: intervals that allow for no bad points miss most means.
    """
    n_points, n_groups = 1000, 200
    points = rng.lognormal(0.0, 0.5, (n_groups, n_points))
    n_bad = int(share * n_points)
    points[:, :n_bad] = 1.0 - 0.5 * rng.uniform(1.0, 4.0, (n_groups, n_bad))
    given: dict[str, Any] = {"n_bad": np.full(n_groups, n_bad), "failure_probability": DELTA}
    groups = np.repeat(np.arange(n_groups), n_points)
    truth = float(np.exp(0.125))
    fewest = stats.binom.ppf(1e-3, n_groups, 1 - DELTA)
    assert n_covered(mean_intervals(points.ravel(), groups, n_groups, **given), truth) >= fewest
    given["n_bad"] = np.zeros(n_groups, np.int64)
    assert n_covered(mean_intervals(points.ravel(), groups, n_groups, **given), truth) < 100
