"""What honest noise makes of a spectrum: formulas and small examples worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unswayed.arrays import FloatArray
from unswayed.estimators.rows import as_rows
from unswayed.estimators.spectrum import (
    HonestNoise,
    WeightedRows,
    _far_distance,
    believable_column_variances,
    edge,
    top_direction,
    with_chance,
)
from unswayed.randomness import generator

UPPER_QUARTILE = 0.6744897501960817  # of the standard normal law


def weighted(array: FloatArray, weights: FloatArray | None = None) -> WeightedRows:
    return WeightedRows.centred(as_rows(array), np.ones(len(array)) if weights is None else weights)


def test_weights_count_as_so_many_equal_rows() -> None:
    sample = weighted(np.array([[0.0], [4.0], [8.0]]), np.array([1.0, 0.5, 0.5]))
    assert sample.total == 2.0
    assert sample.effective_rows == pytest.approx(4.0 / 1.5)
    assert sample.centre.tolist() == [3.0]
    # (1·9 + ½·1 + ½·25)/2
    assert sample.covariance_times(np.array([[2.0]])).tolist() == [[22.0]]


def test_independent_noise_reaches_the_marchenko_pastur_edge() -> None:
    assert edge(4.0, 8.0, 2.0) == 16.0
    assert edge(3.0, 3.0 * 50, 200.0) == pytest.approx(3.0 * (1.0 + math.sqrt(50 / 200)) ** 2)


def test_chance_raises_a_root_by_its_standard_error() -> None:
    assert with_chance(3.0, 4.0) == pytest.approx(3.0 * (1.0 + 2.45 / 2.0) ** 2)
    assert with_chance(3.0, 4.0, 2.0) == pytest.approx(3.0 * (1.0 + 2.45) ** 2)


def test_the_limit_along_a_direction_is_that_of_independent_columns() -> None:
    columns, masses = np.array([1.0, 4.0]), np.array([0.25, 0.75])
    found = HonestNoise(columns, 5.0, None).limit(masses)
    assert found == pytest.approx((math.sqrt(3.25) + 1.0) ** 2)  # trace 5, five rows
    # A scale that the caller vouches for bounds the variance and, at most, every column.
    assert HonestNoise(columns, 5.0, 3.0).limit(masses) == pytest.approx(16.0)
    small = HonestNoise(columns, 5.0, 1.0).limit(masses)
    assert small == pytest.approx((1.0 + math.sqrt(2.0 / 5.0)) ** 2)


def test_the_threshold_follows_the_larger_of_two_guesses() -> None:
    columns, masses = np.array([1.0, 4.0]), np.array([0.25, 0.75])
    noise = HonestNoise(columns, 5.0, None)
    limit = (math.sqrt(3.25) + 1.0) ** 2
    narrow = noise.variance_and_threshold(masses, 0.5)
    assert narrow == pytest.approx((limit, limit * (1.0 + 2.45 / math.sqrt(5.0)) ** 2))
    wide = noise.variance_and_threshold(masses, 50.0)
    assert wide == pytest.approx((50.0, 50.0 * (1.0 + 2.45 * 1.17 / math.sqrt(5.0)) ** 2))
    vouched = HonestNoise(columns, 5.0, 3.0).variance_and_threshold(masses, 50.0)
    assert vouched == pytest.approx((16.0, 16.0 * (1.0 + 2.45 / math.sqrt(5.0)) ** 2))


def test_a_row_is_far_at_four_typical_distances() -> None:
    """Distances that spread no more than those of normal rows; 1 - 2·0.1 of them are typical."""
    distances, sample = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), weighted(np.ones((5, 2)))
    assert _far_distance(distances, sample, 0.1) == pytest.approx(4.0 * 4.5)
    assert _far_distance(distances, sample, 0.15) == pytest.approx(4.0 * 4.0)  # seventy percent
    heavy = weighted(np.ones((5, 2)), np.array([1.0, 1.0, 1.0, 0.1, 0.1]))
    assert _far_distance(distances, heavy, 0.1) == pytest.approx(4.0 * 3.0)


def test_at_least_half_of_the_rows_are_typical() -> None:
    distances, sample = np.arange(1.0, 12.0), weighted(np.ones((11, 2)))
    assert _far_distance(distances, sample, 0.3) == pytest.approx(4.0 * 6.0)


def test_where_rows_differ_much_in_length_far_is_further() -> None:
    """Logs 6, 9, 12 beyond the quartile: a median deviation of 3 around 9.

    In two columns the log of a chi-squared variable has variance π²/6.
    """
    distances, sample = np.exp([0.0, 3.0, 6.0, 9.0, 12.0]), weighted(np.ones((5, 2)))
    excess = 3.0 / UPPER_QUARTILE - math.pi / math.sqrt(6.0)
    typical = 0.5 * (math.exp(9.0) + math.exp(12.0))
    expected = 4.0 * typical * math.exp(math.sqrt(2.0 * math.log(5.0)) * excess)
    assert _far_distance(distances, sample, 0.1) == pytest.approx(expected)
    # Four columns: ψ′(2) = π²/6 − 1.
    excess = 3.0 / UPPER_QUARTILE - math.sqrt(math.pi**2 / 6.0 - 1.0)
    expected = 4.0 * typical * math.exp(math.sqrt(2.0 * math.log(5.0)) * excess)
    assert _far_distance(distances, weighted(np.ones((5, 4))), 0.1) == pytest.approx(expected)


def test_lengths_are_compared_by_weight() -> None:
    """Beyond the quartile logs 3, 6, 9 weigh 1, 1 and 4: the middle is 9, half are there."""
    weights = np.array([2.0, 1.0, 1.0, 4.0])
    distances, sample = np.exp([0.0, 3.0, 6.0, 9.0]), weighted(np.ones((4, 2)), weights)
    # Deviations 6, 3 and 0: more than half of the weight has none, so there is no excess.
    assert _far_distance(distances, sample, 0.01) == pytest.approx(4.0 * math.exp(9.0))


def test_few_equal_rows_reach_as_far_as_two() -> None:
    weights = np.array([1.0, 0.02, 0.02, 0.02])
    distances, sample = np.exp([0.0, 3.0, 6.0, 9.0]), weighted(np.ones((4, 2)), weights)
    assert sample.effective_rows < 2.0
    excess = 3.0 / UPPER_QUARTILE - math.pi / math.sqrt(6.0)
    expected = 4.0 * math.exp(9.0 + math.sqrt(2.0 * math.log(2.0)) * excess)
    assert _far_distance(distances, sample, 0.001) == pytest.approx(expected)


def test_where_only_as_many_rows_stand_apart_as_may_be_bad_the_others_are_judged() -> None:
    """Three of five beyond the quartile are 2·0.3 of them."""
    distances, sample = np.exp([0.0, 3.0, 6.0, 9.0, 12.0]), weighted(np.ones((5, 2)))
    assert _far_distance(distances, sample, 0.3) == pytest.approx(4.0 * math.exp(9.0))
    middle = 0.5 * (math.exp(6.0) + math.exp(9.0))
    assert _far_distance(distances, sample, 0.4) == pytest.approx(4.0 * middle)
    double = weighted(np.ones((5, 2)), np.full(5, 2.0))
    assert _far_distance(distances, double, 0.3) == pytest.approx(4.0 * math.exp(9.0))


def test_rows_at_one_distance_up_to_rounding_do_not_stand_apart() -> None:
    distances, sample = np.array([1.0, 1.0, 1.0 + 1e-12, 5.0, 9.0]), weighted(np.ones((5, 2)))
    assert _far_distance(distances, sample, 0.2) == pytest.approx(4.0 * 7.0)


def test_a_far_row_counts_in_column_variances_as_if_it_were_not_as_far() -> None:
    """Rows at ±1 and one at 100 in both columns; without the last the variance is near one."""
    signs = np.resize([1.0, -1.0], 40)
    array = np.stack([signs, np.repeat(signs[:20], 2)], axis=1)
    array[-1] = 100.0
    sample = weighted(array)
    centred = array - array.mean(axis=0)
    distances = np.square(centred).sum(axis=1)
    limit = _far_distance(distances, sample, 0.1)
    assert limit < distances[-1]
    expected = (np.square(centred[:-1]).sum(axis=0) + limit * 0.5) / 40.0
    found = believable_column_variances(sample, alpha=0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_column_far_above_the_others_is_lowered_to_a_believable_height() -> None:
    """Columns of deviation 1, 2, 4 and 1000 times 1; logs of their variances have spread."""
    rng = generator(0, "columns")
    array = rng.standard_normal((500, 5)) * np.array([1.0, 2.0, 4.0, 1000.0, 0.0])
    weights = rng.random(500)
    sample = weighted(array, weights)
    variances = weights @ np.square(array - sample.centre) / weights.sum()
    # No row is shortened: distances are those of the fourth column, and spread like chi-squared.
    logs = np.log(variances[:4])
    spread = np.median(np.abs(logs - np.median(logs))) / UPPER_QUARTILE
    spread += math.sqrt(2.0 / (weights.sum() ** 2 / np.square(weights).sum()))
    reach = math.sqrt(2.0 * math.log(4.0)) + 1.0
    height = math.exp(np.median(logs) + reach * spread)
    believed = believable_column_variances(sample, alpha=0.001)
    np.testing.assert_allclose(believed[:3], variances[:3], rtol=0.02)
    assert believed[4] == 0.0
    assert variances[3] > 2.0 * height
    assert believed[3] == pytest.approx(height, rel=0.02)


def test_columns_that_never_vary_have_no_variance() -> None:
    sample = weighted(np.full((6, 3), 2.0))
    assert believable_column_variances(sample, alpha=0.1).tolist() == [0.0] * 3


@pytest.mark.parametrize("n_columns", [1, 2, 32])
def test_of_few_columns_the_two_top_directions_are_exact(
    n_columns: int, rng: np.random.Generator
) -> None:
    array, weights = rng.standard_normal((200, n_columns)), rng.random(200)
    top = top_direction(weighted(array, weights), None)
    covariance = np.atleast_2d(np.cov(array, rowvar=False, aweights=weights, bias=True))
    values, vectors = np.linalg.eigh(covariance)
    assert top.value == pytest.approx(values[-1], rel=1e-9)
    assert abs(top.vector @ vectors[:, -1]) == pytest.approx(1.0)
    if n_columns == 1:
        assert top.runner_up.tolist() == [0.0]
    else:
        assert abs(top.runner_up @ vectors[:, -2]) == pytest.approx(1.0)


@pytest.mark.parametrize("n_columns", [3, 40])
def test_equal_rows_have_no_variance_along_the_direction_where_the_search_begins(
    n_columns: int,
) -> None:
    random = generator(0, "spectrum", "start").standard_normal(n_columns)
    random /= np.linalg.norm(random)
    guess = np.eye(n_columns)[0]
    array = np.full((1000, n_columns), 1e6)
    array[::2] = np.nextafter(1e6, 2e6)  # the last digit of a number is no variance
    sample = weighted(array, np.full(1000, 0.3))
    for start, expected in ((None, random), (guess, guess + 0.5 * random)):
        top = top_direction(sample, start)
        assert top.value == 0.0
        np.testing.assert_allclose(top.vector, expected / np.linalg.norm(expected), rtol=1e-12)
        assert top.runner_up.tolist() == [0.0] * n_columns


@pytest.mark.parametrize("n_columns", [3, 40])
def test_rows_that_differ_by_little_have_a_variance(
    n_columns: int, rng: np.random.Generator
) -> None:
    array = 1.0 + 1e-9 * rng.standard_normal((300, n_columns))
    exact = np.linalg.eigvalsh(np.cov(array, rowvar=False, bias=True))[-1]
    assert top_direction(weighted(array), None).value == pytest.approx(exact, rel=0.01)


def test_a_guess_that_is_right_saves_products(rng: np.random.Generator) -> None:
    """Forty columns of variance near 1 and one of 100."""
    array = rng.standard_normal((400, 41))
    array[:, 0] *= 10.0
    counted: list[int] = []

    class Counted(WeightedRows):
        def covariance_times(self, directions: FloatArray) -> FloatArray:
            counted.append(1)
            return WeightedRows.covariance_times(self, directions)

    sample = Counted.centred(as_rows(array), np.ones(400))
    n_products = []
    for start in (None, np.eye(41)[0]):
        counted.clear()
        top = top_direction(sample, start)
        assert top.value == pytest.approx(100.0, rel=0.3)
        n_products.append(len(counted))
    assert n_products[1] < n_products[0]
