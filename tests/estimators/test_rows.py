"""Products with rows, and the series that applies a matrix exponential, against plain algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import expm

from tests.estimators.samples import normal_rows, sparse_rows
from unswayed.estimators.quantum_entropy import exponential_times
from unswayed.estimators.rows import DenseRows, SparseRows, as_rows
from unswayed.estimators.spectrum import WeightedRows, top_direction
from unswayed.estimators.tails import kept_shares, robust_variance, weighted_quantile


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_products_equal_those_of_centred_rows(
    is_sparse: bool, width: int, rng: np.random.Generator
) -> None:
    matrix, _, _ = sparse_rows(rng, n_rows=80, n_columns=20, per_row=6)
    array = matrix.toarray()
    rows = as_rows(matrix if is_sparse else array)
    weights, centre = rng.random(80), rng.standard_normal(20)
    directions = rng.standard_normal((20, width))
    centred = array - centre
    np.testing.assert_allclose(rows.mean(weights), np.average(array, axis=0, weights=weights))
    np.testing.assert_allclose(rows.project(centre, directions), centred @ directions)
    np.testing.assert_allclose(
        rows.gram(weights, centre, directions),
        centred.T @ (weights[:, None] * (centred @ directions)),
    )
    np.testing.assert_allclose(rows.squared_distances(centre), np.square(centred).sum(axis=1))
    np.testing.assert_allclose(rows.column_squares(weights, centre), weights @ np.square(centred))
    np.testing.assert_allclose(rows.largest_entries(), np.abs(array).max(axis=1))
    is_kept = weights > 0.5
    np.testing.assert_allclose(
        rows.keep(is_kept).project(centre, directions), centred[is_kept] @ directions
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_top_direction_is_that_of_the_covariance(
    is_sparse: bool, rng: np.random.Generator
) -> None:
    array = normal_rows(rng, attack="hidden shift").rows
    rows = as_rows(sparse.csr_array(array) if is_sparse else array)
    weights = rng.random(len(array))
    sample = WeightedRows.centred(rows, weights)
    top = top_direction(sample, None)
    exact = np.linalg.eigvalsh(np.cov(array, rowvar=False, aweights=weights, bias=True))[-1]
    assert top.value == pytest.approx(exact, rel=0.01)
    assert top_direction(sample, top.vector).value == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("exponent", [0.5, 5.0, 40.0])
def test_the_series_equals_the_matrix_exponential(
    exponent: float, rng: np.random.Generator
) -> None:
    array = normal_rows(rng, n_rows=200, n_columns=30).rows
    sample = WeightedRows.centred(as_rows(array), np.ones(200))
    covariance = np.cov(array, rowvar=False, bias=True)
    top = 1.05 * np.linalg.eigvalsh(covariance)[-1]
    vectors = rng.standard_normal((30, 4))
    exact = expm(exponent * (covariance / top - np.eye(30))) @ vectors
    series = exponential_times(sample, vectors, top=top, exponent=exponent)
    # Terms below a thousandth are left out, and they shrink by more than half from there on.
    assert np.abs(series - exact).max() < 2e-3 * np.abs(vectors).sum(axis=0).max()


@given(
    values=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30),
    repeats=st.lists(st.integers(1, 4), min_size=30, max_size=30),
)
def test_weighted_medians_are_medians_of_repeated_values(
    values: list[float], repeats: list[int]
) -> None:
    counts = repeats[: len(values)]
    median = weighted_quantile(np.array(values), np.array(counts, dtype=float), 0.5)
    assert median == pytest.approx(float(np.median(np.repeat(values, counts))))


def test_robust_variance_is_right_for_normal_values(rng: np.random.Generator) -> None:
    values = 3.0 * rng.standard_normal(10_000)
    # The median deviation errs by 1.17/sqrt(n); the variance by twice that; five of them.
    assert robust_variance(values, np.ones(10_000), 0.0) == pytest.approx(9.0, rel=0.12)


@given(scores=st.lists(st.floats(0.0, 1e3), min_size=1, max_size=40))
def test_shares_fall_outward_and_treat_ties_alike(scores: list[float]) -> None:
    points = np.array(scores)
    shares = kept_shares(points, np.ones(points.size), np.exp(-points))
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    order = np.argsort(points)
    assert (np.diff(shares[order]) <= 1e-15).all()
    for value in points:
        assert np.unique(shares[points == value]).size == 1


def test_a_tail_that_follows_the_law_is_kept_and_a_far_row_is_not() -> None:
    scores = -np.log((np.arange(1000) + 0.5) / 1000)
    np.testing.assert_array_equal(kept_shares(scores, np.ones(1000), np.exp(-scores)), 1.0)
    scores[0] = 100.0
    shares = kept_shares(scores, np.ones(1000), np.exp(-scores))
    assert shares[0] < 1e-15
    np.testing.assert_array_equal(shares[1:], 1.0)


def test_rows_that_are_kept_have_all_columns_still() -> None:
    """Also those in which no row has anything."""
    matrix = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]))
    kept = as_rows(matrix).keep(np.array([True, False, True]))
    assert kept.shape == (2, 3)
    np.testing.assert_array_equal(kept.mean(np.ones(2)), [2.5, 1.0, 0.0])


def test_dense_rows_are_centred_a_block_at_a_time(rng: np.random.Generator) -> None:
    """2^18 entries are 131 rows of 2,000 columns; a row that is longer stands alone."""
    array, weights, centre = rng.standard_normal((300, 2000)), rng.random(300), rng.random(2000)
    rows = DenseRows(array)
    assert list(rows._blocks()) == [slice(0, 131), slice(131, 262), slice(262, 393)]
    assert list(DenseRows(np.zeros((2, 300_000)))._blocks()) == [slice(0, 1), slice(1, 2)]
    centred = array - centre
    np.testing.assert_allclose(rows.mean(weights), np.average(array, axis=0, weights=weights))
    np.testing.assert_allclose(rows.squared_distances(centre), np.square(centred).sum(axis=1))
    np.testing.assert_allclose(rows.column_squares(weights, centre), weights @ np.square(centred))


def test_a_mean_keeps_its_digits_whatever_a_row_without_weight_holds() -> None:
    array = 1e9 + np.arange(8.0)[:, None] / 8.0
    array[0] = 1e25
    weights = np.array([0.0, 0.5, 0.5, 1.0, 0.5, 0.5, 0.25, 0.25])
    assert as_rows(array).mean(weights)[0] == 1e9 + np.average(np.arange(8.0) / 8, weights=weights)


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.bool_])
def test_rows_of_any_numbers_become_floats(kind: type) -> None:
    array: Any = np.array([[1, 0, 1], [0, 0, 1]]).astype(kind)
    matrices: list[Any] = [array, array.tolist(), sparse.csr_array(array), sparse.coo_matrix(array)]
    for matrix in matrices:
        rows = as_rows(matrix)
        assert rows.shape == (2, 3)
        assert rows.mean(np.ones(2)).tolist() == [0.5, 0.0, 1.0]
        assert rows.largest_entries().dtype == np.float64
        assert as_rows(rows) is rows


def test_a_sparse_matrix_is_copied_only_to_sum_duplicates() -> None:
    clean = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    taken = as_rows(clean)
    assert isinstance(taken, SparseRows)
    assert np.shares_memory(taken.data, clean.data)
    twice = sparse.csr_array((np.array([1.0, 1.0, 3.0]), np.array([0, 0, 1]), np.array([0, 2, 3])))
    assert as_rows(twice).largest_entries().tolist() == [2.0, 3.0]
    assert twice.nnz == 3
    dense = np.array([[1.0, 2.0]])
    taken_dense = as_rows(dense)
    assert isinstance(taken_dense, DenseRows)
    assert taken_dense.array is dense


def test_the_largest_entry_may_be_negative() -> None:
    array = np.array([[1.0, -3.0], [2.0, 0.0], [-1.0, -2.0]])
    for matrix in (array, sparse.csr_array(array)):
        assert as_rows(matrix).largest_entries().tolist() == [3.0, 2.0, 2.0]


def test_strided_directions_give_what_contiguous_ones_give(rng: np.random.Generator) -> None:
    """To the last bit: strides are lost on the way to another process."""
    matrix, _, _ = sparse_rows(rng, n_rows=80, n_columns=200, per_row=6)
    rows, weights, centre = as_rows(matrix), rng.random(80), rng.standard_normal(200)
    wide = rng.standard_normal((200, 6))
    for strided in (wide[:, ::2], wide[:, 1:2], wide[:, :3]):
        contiguous = np.array(strided, order="C")
        np.testing.assert_array_equal(
            rows.project(centre, strided), rows.project(centre, contiguous)
        )
        np.testing.assert_array_equal(
            rows.gram(weights, centre, strided), rows.gram(weights, centre, contiguous)
        )
