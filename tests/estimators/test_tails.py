"""Weighted quantiles and tails that hold too much, against sorting and literal formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unswayed.arrays import FloatArray
from unswayed.estimators.tails import _about, kept_shares, robust_variance, weighted_quantile

UPPER_QUARTILE = 0.6744897501960817  # of the standard normal law
EVERYWHERE = (-np.inf, np.inf)


def quantile_of_counts(values: FloatArray, counts: FloatArray, percent: int) -> float:
    """Return the quantile at whole percents of values with whole weights, in exact arithmetic."""
    present = values[counts > 0]
    for value in np.unique(present):
        below = int(counts[values <= value].sum())
        if 100 * below > percent * int(counts.sum()):
            return float(value)
        if 100 * below == percent * int(counts.sum()) and value < present.max():
            return float(value + present[present > value].min()) / 2.0
    return float(present.max())


@given(
    values=st.lists(st.integers(-5, 5), min_size=1, max_size=15),
    counts=st.lists(st.integers(0, 3), min_size=15, max_size=15),
    percent=st.sampled_from([5, 10, 20, 25, 50, 60, 75, 80, 100]),
    unit=st.sampled_from([0.1, 1.0, 1e6 / 7.0, 1e-9 / 3.0]),
)
def test_a_quantile_is_where_the_weight_passes_the_level(
    values: list[int], counts: list[int], percent: int, unit: float
) -> None:
    """Whatever the unit of the weights, whose sums then round."""
    points, repeats = np.array(values, float), np.array(counts[: len(values)], float)
    if not repeats.any():
        repeats[0] = 1.0
    found = weighted_quantile(points, unit * repeats, percent / 100)
    assert found == quantile_of_counts(points, repeats, percent)


@pytest.mark.parametrize("level", [0.01, 0.25, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("order", ["random", "sorted", "misleading"])
def test_quantiles_of_many_values_are_those_of_sorted_ones(
    level: float, order: str, rng: np.random.Generator
) -> None:
    """A sample says where to look; where it misleads, all values are looked at."""
    values = rng.standard_normal(20_001)
    if order == "sorted":
        values.sort()
    elif order == "misleading":
        values[::4] += 100.0
    assert weighted_quantile(values, np.ones(values.size), level) == pytest.approx(
        np.sort(values)[int(level * values.size)], abs=0.0
    )


def test_a_sample_says_between_which_values_a_quantile_lies() -> None:
    """Of 40,960 values every tenth is looked at: 4,096, of which 3·sqrt(4096) = 192 either way."""
    values, weights = np.arange(40_960.0), np.ones(40_960)
    assert _about(values, weights, 0.5) == (18_560.0, 22_400.0)
    assert _about(values[::-1], weights, 0.25) == (10.0 * (1024 - 192) + 9, 10.0 * (1024 + 192) + 9)
    assert _about(values, weights, 0.01) == (-np.inf, 10.0 * 232)  # 40.96 + 192
    assert _about(values, weights, 0.99) == (10.0 * 3863, np.inf)  # 4055.04 - 192
    assert _about(values, weights, 192 / 4096) == (-np.inf, 3840.0)
    assert _about(values, weights, 193 / 4096) == (10.0, 3850.0)
    assert _about(values, weights, (4095 - 192) / 4096) == (37_110.0, np.inf)
    assert _about(values, weights, (4094 - 192) / 4096) == (37_100.0, 40_940.0)


def test_values_without_weight_are_not_sampled() -> None:
    """Of the upper half none has weight, which leaves 2,048 values: 3·sqrt(2048) = 135.8."""
    values = np.arange(40_960.0)
    weights = (values < 20_480.0).astype(float)
    assert _about(values, weights, 0.5) == (10.0 * 888, 10.0 * 1159)  # 1024 ± 135.8
    assert _about(values, (values % 10.0 == 1.0).astype(float), 0.5) == EVERYWHERE


def test_few_values_are_all_looked_at() -> None:
    assert _about(np.arange(8191.0), np.ones(8191), 0.5) == EVERYWHERE
    low, high = _about(np.arange(8192.0), np.ones(8192), 0.5)
    assert (low, high) == (2.0 * (2048 - 192), 2.0 * (2048 + 192))


def test_a_robust_variance_scales_the_median_distance_from_the_centre() -> None:
    values = np.array([1.0, 2.0, 4.0, 10.0])  # distances from 2: 1, 0, 2, 8
    equal = robust_variance(values, np.ones(4), 2.0)
    assert equal == pytest.approx((1.5 / UPPER_QUARTILE) ** 2)
    weighted = robust_variance(values, np.array([1.0, 1.0, 1.0, 5.0]), 2.0)
    assert weighted == pytest.approx((8.0 / UPPER_QUARTILE) ** 2)


def shares_by_definition(
    scores: FloatArray, weights: FloatArray, law_tails: FloatArray
) -> list[float]:
    """Return the least, over all outer scores up to a row's own, of allowed over present weight."""
    shares = []
    for score, tail in zip(scores, law_tails, strict=True):
        share = 1.0
        for other, other_tail in zip(scores, law_tails, strict=True):
            present = weights[scores >= other].sum()
            if tail < 0.5 and other_tail < 0.5 and other <= score and present > 0.0:
                expected = weights.sum() * other_tail
                share = min(share, (expected + 2.0 * np.sqrt(expected)) / present)
        shares.append(share)
    return shares


@given(
    scores=st.lists(st.integers(0, 12), min_size=1, max_size=30),
    weights=st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=30, max_size=30),
    rate=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_rows_keep_what_the_law_and_two_deviations_allow(
    scores: list[int], weights: list[float], rate: float
) -> None:
    points, masses = np.array(scores, float), np.array(weights[: len(scores)])
    law_tails = np.exp(-rate * points)
    found = kept_shares(points, masses, law_tails)
    np.testing.assert_allclose(found, shares_by_definition(points, masses, law_tails), rtol=1e-12)


def test_only_the_outer_half_of_a_law_is_a_tail() -> None:
    """Of 100 rows at the median itself the law expects 50 and allows 64; all are kept there."""
    assert kept_shares(np.zeros(100), np.ones(100), np.full(100, 0.5)).tolist() == [1.0] * 100
    beyond = kept_shares(np.zeros(100), np.ones(100), np.full(100, 0.49))
    np.testing.assert_allclose(beyond, (49.0 + 2.0 * 7.0) / 100.0, rtol=1e-12)
