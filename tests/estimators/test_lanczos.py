"""The top eigenpair from products alone, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.estimators.lanczos import BASIS, top_eigenpair
from unswayed.estimators.results import FloatArray

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
