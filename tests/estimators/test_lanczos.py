"""The top eigenpair from matrix products, compared with dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.arrays import FloatArray
from unswayed.estimators.spectral_filter import top_eigenpair

TOLERANCE = 1e-3


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_the_residual_is_within_tolerance_and_the_eigenvalue_not_too_large(
    rng: np.random.Generator, decay: float
) -> None:
    """Slowly decaying spectra are included, for which a single basis is not sufficient."""
    vectors, _ = np.linalg.qr(rng.standard_normal((200, 200)))
    matrix = (vectors * decay ** np.arange(200)) @ vectors.T
    start = rng.standard_normal(200)
    top = top_eigenpair(lambda v: matrix @ v, start, matrix @ start, tolerance=TOLERANCE)
    value, vector = top.value, top.vector
    # Products add rounding errors to the tolerance.
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


def test_the_top_eigenvalue_of_zero_is_zero() -> None:
    operator = Diagonal(np.full(40, -1e-30))
    top = top_eigenpair(operator, np.ones(40), np.full(40, -1e-30), tolerance=TOLERANCE)
    assert top.value == 0.0
