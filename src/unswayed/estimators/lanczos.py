"""Top eigenpairs of a symmetric operator that is known by its products alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray

BASIS = 30
"""Ours: size of the Krylov basis before a restart."""

RESTARTS = 20
"""Ours: maximum number of restarts."""


@dataclass(frozen=True, slots=True, eq=False)
class TopEigenpair:
    """What the search found.

    Attributes
    ----------
    value
        The largest eigenvalue.
    vector
        Shape ``(n_columns,)``: its unit eigenvector.
    runner_up
        Shape ``(n_columns,)``: the next unit eigenvector, as far as the search has seen it; zero if
        it was over at once. A good start for a similar operator that lacks the first one.
    """

    value: float
    vector: FloatArray
    runner_up: FloatArray


def top_eigenpair(
    operator: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    image: FloatArray,
    *,
    tolerance: float,
) -> TopEigenpair:
    """Find the largest eigenvalue of a positive semidefinite operator and its unit eigenvector.

    Parameters
    ----------
    operator
        Maps a direction of shape ``(n_columns,)`` to its product.
    start
        Shape ``(n_columns,)``: where to begin; not zero, of any length.
    image
        The operator's product with ``start``, which the caller knows already.
    tolerance
        The search ends when ‖A·x − θ·x‖ ≤ tolerance·θ. Then some eigenvalue lies within
        tolerance·θ of θ, and θ itself is never too large.

    Notes
    -----
    Lanczos with full reorthogonalisation. Unlike ARPACK, which looks at the residual only when its
    basis of twenty is full, it looks after every product: products are what costs here.

    Examples
    --------
    >>> diagonal = np.arange(1.0, 101.0)
    >>> start = np.ones(100)
    >>> top = top_eigenpair(lambda v: diagonal * v, start, diagonal * start, tolerance=1e-3)
    >>> round(top.value, 1), int(np.argmax(np.abs(top.vector)))
    (100.0, 99)
    """
    length = float(np.linalg.norm(start))
    direction, product = start / length, image / length
    for _ in range(RESTARTS):
        top, residual = _searched(operator, direction, product, tolerance)
        if residual <= tolerance * top.value:
            break
        direction = top.vector
        product = operator(direction)
    return top


def _searched(
    operator: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    product: FloatArray,
    tolerance: float,
) -> tuple[TopEigenpair, float]:
    """Fill one basis, or stop early; return the best eigenpair and its residual."""
    n_vectors = min(BASIS, start.size)
    basis = np.empty((n_vectors, start.size))
    projected = np.zeros((n_vectors, n_vectors))
    basis[0] = start
    for last in range(n_vectors):
        known = basis[: last + 1]
        projected[last, last] = known[last] @ product
        rest = product
        for _ in range(2):  # once loses orthogonality to rounding
            rest = rest - (known @ rest) @ known
        leftover = float(np.linalg.norm(rest))
        values, vectors = np.linalg.eigh(projected[: last + 1, : last + 1])
        value = max(float(values[-1]), 0.0)
        residual = leftover * abs(float(vectors[-1, -1]))
        is_exhausted = leftover <= math.sqrt(np.finfo(np.float64).eps) * value
        if residual <= tolerance * value or is_exhausted or last + 1 == n_vectors:
            break
        basis[last + 1] = rest / leftover
        projected[last, last + 1] = projected[last + 1, last] = leftover
        product = operator(basis[last + 1])
    direction = vectors[:, -1] @ known
    runner_up = vectors[:, -2] @ known if last else np.zeros(start.size)
    return TopEigenpair(value, direction / np.linalg.norm(direction), runner_up), residual
