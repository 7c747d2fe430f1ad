"""Products with rows, and the series of a matrix exponential, compared with dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import expm

from tests.estimators.samples import normal_rows, sparse_rows
from unswayed.estimators import spectral_filter
from unswayed.estimators.rows import SparseRows, as_rows
from unswayed.estimators.spectral_filter import WeightedRows, exponential_times


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_products_equal_those_of_centred_rows(
    is_sparse: bool, width: int, rng: np.random.Generator
) -> None:
    matrix, _, _ = sparse_rows(rng, n_rows=80, n_columns=20, per_row=6)
    array = matrix.toarray()
    rows, origin = as_rows(matrix if is_sparse else array)
    assert isinstance(rows, SparseRows)
    if origin is not None:
        array = array - origin
    weights, centre = rng.random(80), rng.standard_normal(20)
    directions = rng.standard_normal((20, width))
    centred = array - centre
    np.testing.assert_allclose(rows.weighted_sum(weights), weights @ array)
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


@pytest.mark.parametrize("exponent", [0.5, 5.0, 40.0])
def test_the_series_equals_the_matrix_exponential(
    exponent: float, rng: np.random.Generator
) -> None:
    array = normal_rows(rng, n_rows=200, n_columns=30).rows
    sample = WeightedRows.centred(as_rows(array)[0], np.ones(200))
    covariance = np.cov(array, rowvar=False, bias=True)
    top = 1.05 * np.linalg.eigvalsh(covariance)[-1]
    vectors = rng.standard_normal((30, 4))
    exact = expm(exponent * (covariance / top - np.eye(30))) @ vectors
    series = exponential_times(sample, vectors, top=top, exponent=exponent)
    # Terms below a thousandth are omitted; each later term is less than half of its predecessor.
    assert np.abs(series - exact).max() < 2e-3 * np.abs(vectors).sum(axis=0).max()


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.bool_])
def test_rows_of_any_numeric_type_become_floats(kind: type) -> None:
    array: Any = np.array([[1, 0, 1], [0, 0, 1]]).astype(kind)
    matrices: list[Any] = [array, array.tolist(), sparse.csr_array(array), sparse.coo_matrix(array)]
    for matrix in matrices:
        rows, origin = as_rows(matrix)
        assert isinstance(rows, SparseRows)
        assert rows.shape == (2, 3)
        mean = rows.weighted_sum(np.ones(2)) / 2 + (0.0 if origin is None else origin)
        assert mean.tolist() == [0.5, 0.0, 1.0]
        assert rows.largest_entries().dtype == np.float64
        assert as_rows(rows) == (rows, None)


def test_a_sparse_matrix_is_copied_only_to_sum_duplicates() -> None:
    clean = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    taken, origin = as_rows(clean)
    assert isinstance(taken, SparseRows)
    assert origin is None
    assert np.shares_memory(taken.data, clean.data)
    twice = sparse.csr_array((np.array([1.0, 1.0, 3.0]), np.array([0, 0, 1]), np.array([0, 2, 3])))
    assert as_rows(twice)[0].each(SparseRows.largest_entries).tolist() == [2.0, 3.0]
    assert twice.nnz == 3


def test_dense_rows_with_a_large_offset_lose_no_precision(rng: np.random.Generator) -> None:
    array = rng.standard_normal((500, 4))
    near, far = (spectral_filter(array + offset, alpha=0.1) for offset in (0.0, 2.0**30))
    np.testing.assert_allclose(far.estimate - 2.0**30, near.estimate, atol=1e-6)
    np.testing.assert_allclose(far.weights, near.weights, atol=1e-6)
