"""Input checks of the estimators."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unswayed.arrays import FloatArray
from unswayed.errors import InputError


def check_values(values: ArrayLike) -> FloatArray:
    """Return the points of a one-dimensional estimator as floats, or say what is wrong."""
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 1:
        raise InputError(f"values has {points.ndim} dimensions: give a one-dimensional array.")
    if points.size == 0:
        raise InputError("values is empty: a mean needs at least one point.")
    check_finite(points, name="values")
    return points


def check_finite(array: FloatArray, *, name: str) -> None:
    """Reject NaN and infinite numbers."""
    is_finite = np.isfinite(array)
    if not is_finite.all():
        n_bad = array.size - int(np.count_nonzero(is_finite))
        raise InputError(
            f"{name} holds {n_bad} numbers that are NaN or infinite: drop them or set them first."
        )


def check_failure_probability(value: float) -> float:
    """Return the failure probability as a float, or say why it cannot be one."""
    if not 0.0 < value < 1.0:  # also refuses NaN
        raise InputError(f"failure_probability is {value}: it must lie between 0 and 1.")
    return float(value)


def check_row_weights(row_weights: ArrayLike | None, n_rows: int) -> FloatArray:
    """Return starting weights with largest weight 1; all ones when none are given."""
    if row_weights is None:
        return np.ones(n_rows)
    weights = np.array(row_weights, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise InputError(f"row_weights has shape {weights.shape}: it must be ({n_rows},).")
    check_finite(weights, name="row_weights")
    if weights.min() < 0.0 or weights.max() == 0.0:
        raise InputError("row_weights must be non-negative, and at least one must be positive.")
    scaled: FloatArray = weights / weights.max()
    return scaled
