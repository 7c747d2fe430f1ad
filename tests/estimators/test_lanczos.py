"""The top eigenpair from products alone, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.arrays import FloatArray
from unswayed.estimators.lanczos import BASIS, top_eigenpair, top_eigenpairs

TOLERANCE = 1e-3


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_the_residual_is_within_the_tolerance_and_the_value_not_above_the_truth(
    rng: np.random.Generator, decay: float
) -> None:
    """Also where the spectrum hardly decays, so that one basis does not suffice."""
    vectors, _ = np.linalg.qr(rng.standard_normal((200, 200)))
    matrix = (vectors * decay ** np.arange(200)) @ vectors.T
    start = rng.standard_normal(200)
    top = top_eigenpair(lambda v: matrix @ v, start, matrix @ start, tolerance=TOLERANCE)
    value, vector = top.value, top.vector
    # The rounding of the products comes on top of the tolerance.
    assert np.linalg.norm(matrix @ vector - value * vector) <= (TOLERANCE + 1e-9) * value
    assert 1.0 - 0.05 <= value <= 1.0 + 1e-9
    assert np.linalg.norm(vector) == pytest.approx(1.0)


def test_a_basis_that_spans_all_that_is_reached_ends_the_search(rng: np.random.Generator) -> None:
    axis = rng.standard_normal(50)
    axis /= np.linalg.norm(axis)
    products = []

    def operator(direction: FloatArray) -> FloatArray:
        products.append(direction)
        return 7.0 * axis * float(axis @ direction)

    start = rng.standard_normal(50)
    top = top_eigenpair(operator, start, operator(start), tolerance=TOLERANCE)
    assert top.value == pytest.approx(7.0)
    assert abs(float(axis @ top.vector)) == pytest.approx(1.0)
    assert len(products) <= 3


def test_a_good_start_saves_products(rng: np.random.Generator) -> None:
    diagonal = np.linspace(0.0, 1.0, 500)
    diagonal[-1] = 2.0
    n_products = []
    for start in (rng.standard_normal(500), np.eye(500)[-1] + 1e-3 * rng.standard_normal(500)):
        count = 0

        def operator(direction: FloatArray) -> FloatArray:
            nonlocal count
            count += 1
            return diagonal * direction

        top = top_eigenpair(operator, start, operator(start), tolerance=TOLERANCE)
        assert top.value == pytest.approx(2.0, rel=TOLERANCE)
        n_products.append(count)
    assert n_products[1] < n_products[0] < BASIS


def test_the_runner_up_is_the_next_direction_and_none_is_zero() -> None:
    diagonal = np.array([3.0, 2.0, *np.linspace(0.0, 0.5, 98)])
    start = np.ones(100)
    top = top_eigenpair(lambda v: diagonal * v, start, diagonal * start, tolerance=1e-9)
    assert abs(float(top.vector @ top.runner_up)) < 1e-9
    assert abs(float(top.runner_up[1])) > 0.99
    axis = np.eye(100)[0]
    assert not top_eigenpair(
        lambda v: diagonal * v, axis, 3.0 * axis, tolerance=0.1
    ).runner_up.any()


def test_several_top_eigenpairs_are_those_of_the_dense_matrix(rng: np.random.Generator) -> None:
    """With as many products as columns the search is complete; values come largest first."""
    factor = rng.standard_normal((40, 12))
    matrix = factor.T @ factor
    values, vectors = top_eigenpairs(lambda v: matrix @ v, rng.standard_normal(12), 3, n_steps=100)
    expected, basis = np.linalg.eigh(matrix)
    np.testing.assert_allclose(values, expected[::-1][:3], rtol=1e-9)
    assert vectors.shape == (12, 3)
    overlaps = np.abs((vectors * basis[:, ::-1][:, :3]).sum(axis=0))
    np.testing.assert_allclose(overlaps, 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1.0, rtol=1e-9)


def test_a_search_for_several_ends_with_its_products_or_with_the_directions() -> None:
    """A matrix of rank two is exhausted by two products from a start in its range."""
    asked: list[FloatArray] = []

    def product(vector: FloatArray) -> FloatArray:
        asked.append(vector)
        result: FloatArray = np.array([5.0, 2.0, 0.0, 0.0]) * vector
        return result

    values, vectors = top_eigenpairs(product, np.array([1.0, 1.0, 0.0, 0.0]), 2, n_steps=4)
    assert len(asked) == 2
    np.testing.assert_allclose(values, [5.0, 2.0])
    np.testing.assert_allclose(np.abs(vectors[:2]), np.eye(2), atol=1e-9)
    asked.clear()
    top_eigenpairs(lambda v: product(v) + v, np.ones(4), 1, n_steps=2)
    assert len(asked) == 2
