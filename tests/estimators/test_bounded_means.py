"""Intervals with a known range or deviation cover the mean, whatever the bad points are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.refusals import refusal
from unswayed.estimators import bounded_mean_intervals, mean_intervals

N_GROUPS, N_POINTS, DELTA = 200, 200, 0.1
GROUPS = np.repeat(np.arange(N_GROUPS), N_POINTS)
FEWEST = stats.binom.ppf(0.001, N_GROUPS, 1.0 - DELTA)


def intervals(points: np.ndarray, n_bad: int, **known: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the intervals of groups, one per row."""
    n_groups, n_points = points.shape
    return bounded_mean_intervals(
        points.ravel(),
        np.repeat(np.arange(n_groups), n_points),
        n_groups,
        n_bad=np.full(n_groups, n_bad),
        failure_probability=DELTA,
        **known,
    )


def n_covered(ends: tuple[np.ndarray, np.ndarray], truth: float) -> int:
    return int(((ends[0] <= truth) & (truth <= ends[1])).sum())


def one(points: np.ndarray, n_bad: int, **known: Any) -> tuple[float, float]:
    low, high = intervals(points[None], n_bad, **known)
    return float(low[0]), float(high[0])


LAWS: dict[str, tuple[float, dict[str, Any]]] = {
    "clicks": (0.02, {"value_range": (0.0, 1.0)}),
    "rates": (0.3, {"value_range": (0.0, 1.0)}),
    "fans": (0.95 * 0.4 + 0.05, {"value_range": (0.0, 1.0)}),
    "jackpots": (2.5, {"value_range": (0.0, 100.0)}),
    "normal": (0.0, {"deviation": 1.0}),
    "wholesale": (1.72, {"deviation": 4.2}),
}


def drawn(law: str, rng: np.random.Generator) -> np.ndarray:
    shape = (N_GROUPS, N_POINTS)
    is_rare = rng.random(shape) < {"fans": 0.05, "jackpots": 0.025}.get(law, 0.03)
    return {
        "clicks": rng.binomial(1, 0.02, shape).astype(float),
        "rates": rng.binomial(8, 0.3, shape) / 8.0,
        "fans": np.where(is_rare, 1.0, rng.binomial(24, 0.4, shape) / 24.0),
        "jackpots": np.where(is_rare, 100.0, 0.0),
        "normal": rng.standard_normal(shape),
        "wholesale": np.where(is_rare, 25.0, 1.0),  # mean 1.72, deviation 4.09
    }[law]


@pytest.mark.parametrize("attack", ["none", "up", "down", "middle"])
@pytest.mark.parametrize("law", LAWS)
def test_means_are_covered_under_every_attack(
    rng: np.random.Generator, law: str, attack: str
) -> None:
    """Includes skewed distributions with rare large points, where normal approximations fail."""
    truth, known = LAWS[law]
    points = drawn(law, rng)
    first, last = known.get("value_range", (-1e9, 1e9))
    if attack != "none":
        points[:, :20] = {"up": last, "down": first, "middle": np.median(points)}[attack]
    low, high = intervals(points, 20, **known)
    assert n_covered((low, high), truth) >= FEWEST
    assert (low < high).all()


def test_more_bad_points_than_stated_are_not_covered(rng: np.random.Generator) -> None:
    """Negative control, with a known range and with a known deviation."""
    for law in ("rates", "normal"):
        truth, known = LAWS[law]
        points = drawn(law, rng)
        points[:, :40] = known.get("value_range", (0.0, 5.0))[1]
        assert n_covered(intervals(points, 40, **known), truth) >= FEWEST
        assert n_covered(intervals(points, 0, **known), truth) < FEWEST


def test_honest_points_with_a_heavy_tail_are_covered(rng: np.random.Generator) -> None:
    """Basket values are around 20, but 500 for 3 % of users; none lie, a fifth is stated to.

    As a negative control, Student's interval without the largest fifth of the points misses the
    mean.
    """
    points = np.where(rng.random((50, 1000)) < 0.03, 500.0, rng.normal(20.0, 4.0, (50, 1000)))
    truth = 0.97 * 20.0 + 0.03 * 500.0
    data = (points.ravel(), np.repeat(np.arange(50), 1000), 50)
    options: dict[str, Any] = {"n_bad": np.full(50, 200), "failure_probability": DELTA}
    assert n_covered(mean_intervals(*data, **options), truth) == 50
    assert n_covered(intervals(points, 200, deviation=85.0), truth) == 50
    trimmed = np.sort(points, axis=1)[:, :800].ravel(), np.repeat(np.arange(50), 800), 50
    assert (
        n_covered(mean_intervals(*trimmed, **(options | {"n_bad": np.zeros(50, int)})), truth) == 0
    )


@pytest.mark.parametrize("n", [200, 2000])
def test_widths_are_near_the_minimum_for_any_method(rng: np.random.Generator, n: int) -> None:
    """The minimum is given by the means of the n − k smallest and of the n − k largest points."""
    k = n // 10
    for points, known in (
        (rng.binomial(10, 0.5, n) / 10.0, {"value_range": (0.0, 1.0)}),
        (rng.standard_normal(n), {"deviation": 1.0}),
    ):
        low, high = one(points, k, **known)
        ordered = np.sort(points)
        open_ = ordered[k:].mean() - ordered[:-k].mean()
        error = np.sqrt(2.0 * np.log(18.0 / DELTA) / (n - k))
        deviation = known.get("deviation", float(points.std()))
        assert open_ < high - low < open_ + 2.0 * 1.3 * error * deviation


def test_wild_points_cost_at_most_the_root_of_their_share(rng: np.random.Generator) -> None:
    """Each end moves by sqrt(2·log 2·α)/(1 − 2α) deviations, a tail of good points, and chance."""
    points = rng.standard_normal(20_000)
    for size in (10.0, 1e9, 1e300):
        lies = points.copy()
        lies[:2000] = size
        low, high = one(lies, 2000, deviation=1.0)
        tail = stats.norm.pdf(stats.norm.ppf(1 / 9)) / (8 / 9)  # 2,000 of 18,000 good points
        assert low < 0.0 < high < np.sqrt(2.0 * np.log(2.0) * 0.1) / 0.8 + tail + 0.1


@given(
    n_bad=st.integers(0, 60),
    shift=st.integers(-1000, 1000),
    power=st.integers(-10, 10),
    seed=st.integers(0, 2**16),
)
def test_intervals_are_equivariant_to_shifts_and_reflections(
    n_bad: int, shift: int, power: int, seed: int
) -> None:
    points, scale = np.random.default_rng(seed).random(150), 2.0**power
    for known, moved_known, mirror in (
        ({"value_range": (0.0, 1.0)}, {"value_range": (scale * shift, scale * (shift + 1))}, 1.0),
        ({"deviation": 0.3}, {"deviation": 0.3 * scale}, 0.0),
    ):
        low, high = one(points, n_bad, **known)
        moved = one(scale * (points + shift), n_bad, **moved_known)
        np.testing.assert_allclose(np.array(moved) / scale - shift, (low, high), atol=1e-6)
        turned = one(mirror - points, n_bad, **known)
        np.testing.assert_allclose((mirror - turned[1], mirror - turned[0]), (low, high), atol=1e-6)


@given(n_bad=st.integers(0, 50), seed=st.integers(0, 2**16))
def test_more_bad_points_never_shorten_an_interval(n_bad: int, seed: int) -> None:
    points = np.random.default_rng(seed).random(120)
    for known in ({"value_range": (0.0, 1.0)}, {"deviation": 0.3}):
        fewer, more = one(points, n_bad, **known), one(points, n_bad + 5, **known)
        assert more[0] <= fewer[0] + 1e-6
        assert more[1] >= fewer[1] - 1e-6


def test_range_and_deviation_together_are_nearly_as_good_as_the_better_one(
    rng: np.random.Generator,
) -> None:
    points = rng.random(500)
    both = one(points, 20, value_range=(0.0, 1.0), deviation=0.3)
    for known in ({"value_range": (0.0, 1.0)}, {"deviation": 0.3}):
        low, high = one(points, 20, **known)
        assert both[1] - both[0] < 1.1 * (high - low)


def test_intervals_are_infinite_without_enough_good_points() -> None:
    points = np.arange(8.0) / 8.0
    assert one(points, 8, value_range=(0.0, 1.0)) == (0.0, 1.0)
    assert one(points, 4, deviation=0.1) == (-np.inf, np.inf)
    assert one(np.zeros(0), 0, value_range=(2.0, 3.0)) == (2.0, 3.0)
    # The points contradict the deviation, so more of them must be bad than stated.
    split = np.repeat([0.0, 1e6], 100)
    assert one(split, 10, deviation=1.0) == (-np.inf, np.inf)


def test_intervals_depend_on_neither_order_nor_other_groups(rng: np.random.Generator) -> None:
    points, groups = rng.random(300), rng.integers(3, size=300)
    options: dict[str, Any] = {"failure_probability": DELTA, "value_range": (0.0, 1.0)}
    n_bad = np.array([0, 5, 20])
    found = bounded_mean_intervals(points, groups, 3, n_bad=n_bad, **options)
    order = rng.permutation(300)
    again = bounded_mean_intervals(points[order], groups[order], 3, n_bad=n_bad, **options)
    np.testing.assert_array_equal(again, found)
    for group in range(3):
        alone = one(points[groups == group], int(n_bad[group]), value_range=(0.0, 1.0))
        assert alone == (found.low[group], found.high[group])


def test_a_range_or_a_deviation_is_required() -> None:
    points, groups, n_bad = np.arange(9.0), np.zeros(9, np.int64), np.array([0])
    sentence = "a mean has no bound without a range or a deviation of the points; give one of them."
    options: dict[str, Any] = {"n_bad": n_bad, "failure_probability": DELTA}
    assert refusal(bounded_mean_intervals, points, groups, 1, **options) == sentence
