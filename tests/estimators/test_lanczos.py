"""The top eigenpair from matrix products, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.arrays import FloatArray
from unswayed.estimators.spectrum import top_eigenpair

TOLERANCE = 1e-3


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_the_residual_is_within_the_tolerance_and_the_value_not_above_the_truth(
    rng: np.random.Generator, decay: float
) -> None:
    """Including slowly decaying spectra, for which one basis does not suffice."""
    vectors, _ = np.linalg.qr(rng.standard_normal((200, 200)))
    matrix = (vectors * decay ** np.arange(200)) @ vectors.T
    start = rng.standard_normal(200)
    top = top_eigenpair(lambda v: matrix @ v, start, matrix @ start, tolerance=TOLERANCE)
    value, vector = top.value, top.vector
    # The rounding of the products comes on top of the tolerance.
    assert np.linalg.norm(matrix @ vector - value * vector) <= (TOLERANCE + 1e-9) * value
    assert 1.0 - 0.05 <= value <= 1.0 + 1e-9
    assert np.linalg.norm(vector) == pytest.approx(1.0)


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


def test_an_operator_of_zeros_has_the_value_zero() -> None:
    operator = Diagonal(np.full(40, -1e-30))
    top = top_eigenpair(operator, np.ones(40), np.full(40, -1e-30), tolerance=TOLERANCE)
    assert top.value == 0.0
