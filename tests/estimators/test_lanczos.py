"""The top eigenpair from products alone, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.arrays import FloatArray
from unswayed.estimators.lanczos import BASIS, top_eigenpair

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


class Diagonal:
    """A diagonal operator that counts its products."""

    def __init__(self, diagonal: FloatArray) -> None:
        self.diagonal = diagonal
        self.n_products = 0

    def __call__(self, direction: FloatArray) -> FloatArray:
        """Return the product with a direction."""
        self.n_products += 1
        assert np.linalg.norm(direction) == pytest.approx(1.0)
        return self.diagonal * direction


def test_a_search_that_one_basis_does_not_end_begins_again_at_the_best_direction() -> None:
    """A gap of a thousandth takes more than thirty products, and fewer than twenty bases."""
    operator = Diagonal(np.append(np.linspace(0.0, 0.999, 499), 1.0))
    start = np.ones(500)
    top = top_eigenpair(operator, start, operator.diagonal * start, tolerance=1e-6)
    assert 30 < operator.n_products < 600
    assert top.value == pytest.approx(1.0, abs=1e-9)
    assert abs(top.vector[-1]) == pytest.approx(1.0, abs=1e-5)
    assert abs(float(top.vector @ top.runner_up)) < 1e-9
    assert np.linalg.norm(top.runner_up) == pytest.approx(1.0)


def test_after_twenty_bases_of_thirty_the_best_direction_is_returned() -> None:
    """The largest eigenvalues lie close together."""
    operator = Diagonal(1.0 - np.linspace(1.0, 0.0, 400) ** 2)
    start = np.ones(400)
    top = top_eigenpair(operator, start, operator.diagonal * start, tolerance=0.0)
    assert operator.n_products == 20 * 30
    assert top.value == pytest.approx(1.0, abs=1e-4)


def test_a_basis_is_exhausted_where_nothing_is_left_but_rounding() -> None:
    """Two directions are all there is; a tolerance of zero begins again there, twenty times."""
    operator = Diagonal(np.append(np.zeros(98), [3.0, 5.0]))
    start = np.append(np.zeros(98), [1.0, 1.0])
    top = top_eigenpair(operator, start, operator.diagonal * start, tolerance=0.0)
    assert operator.n_products <= 1 + 2 * 20
    assert top.value == pytest.approx(5.0)


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_a_basis_has_no_more_directions_than_there_are_columns(n_columns: int) -> None:
    operator = Diagonal(np.arange(1.0, n_columns + 1.0))
    start = np.ones(n_columns)
    top = top_eigenpair(operator, start, operator.diagonal * start, tolerance=1e-12)
    assert top.value == pytest.approx(n_columns)
    assert np.abs(top.vector).tolist() == pytest.approx(np.eye(n_columns)[-1], abs=1e-6)


def test_the_length_of_the_start_does_not_matter() -> None:
    diagonal = np.linspace(0.0, 1.0, 50)
    results = [
        top_eigenpair(Diagonal(diagonal), start, diagonal * start, tolerance=1e-3)
        for start in (np.ones(50), np.full(50, 8.0))
    ]
    assert results[0].value == pytest.approx(results[1].value, rel=1e-12)
    np.testing.assert_allclose(results[0].vector, results[1].vector, atol=1e-9)


def test_a_search_ends_as_soon_as_the_residual_allows() -> None:
    """From cos φ of one axis and sin φ of another the residual is (5 − 3)·cos φ·sin φ at once."""
    axes = np.array([np.cos(0.01), np.sin(0.01)])
    start = np.append(np.zeros(48), axes[::-1])
    operator = Diagonal(np.append(np.zeros(48), [3.0, 5.0]))
    residual = 2.0 * axes[0] * axes[1]
    value = 5.0 * axes[0] ** 2 + 3.0 * axes[1] ** 2
    for tolerance, n_products in ((1.001 * residual / value, 0), (0.999 * residual / value, 1)):
        operator.n_products = 0
        top = top_eigenpair(operator, start, operator.diagonal * start, tolerance=tolerance)
        assert operator.n_products == n_products
    assert top.value == pytest.approx(5.0, rel=1e-12)


def test_an_operator_of_zeros_has_the_value_zero() -> None:
    operator = Diagonal(np.full(40, -1e-30))
    top = top_eigenpair(operator, np.ones(40), np.full(40, -1e-30), tolerance=TOLERANCE)
    assert top.value == 0.0
