"""The spectral filter for rows of bounded covariance."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from unswayed.arrays import FloatArray
from unswayed.estimators.pruning import MAX_ITERATIONS, Look, Suspicion, prune
from unswayed.estimators.results import MeanEstimate
from unswayed.estimators.rows import RowMatrix
from unswayed.estimators.tails import kept_shares


def spectral_filter(
    matrix: RowMatrix,
    *,
    adversarial_fraction: float,
    noise_scale: float | None = None,
    row_weights: ArrayLike | None = None,
    max_iterations: int = MAX_ITERATIONS,
) -> MeanEstimate:
    """Estimate a mean vector after weighing down rows that spread too far in some direction.

    Each round finds the direction of largest variance. If honest noise explains it, the weighted
    mean is returned; else each side of the projections is compared with a normal law of honest
    variance, and rows beyond a point where the tail is too heavy lose the excess.

    Parameters
    ----------
    matrix
        Shape ``(n_rows, n_columns)``, dense or scipy CSR; never densified, never copied but to
        become float64. Columns of very different variance are best rescaled before, and more
        than twice the adversarial fraction of the rows should not be empty: a minority of rows
        that stand out from a majority that agrees cannot be distinguished from an attack.
    adversarial_fraction
        Share of rows that may be anything; below 1/2.
    noise_scale
        Largest standard deviation of good rows over all directions, if known.
    row_weights
        Shape ``(n_rows,)``: starting weights; equal if not given.
    max_iterations
        Most rounds of removal.

    Returns
    -------
    MeanEstimate
        With the weights that are left, the spectrum of each round and why the rounds ended.

    Notes
    -----
    Guarantee (Diakonikolas et al. 2017, for their filter): if good rows have covariance ⪯ σ²I and
    n is large against d log d, the error is O(σ sqrt(alpha)). What it rests on holds here: the
    rounds end only when the top eigenvalue is of the order of the honest one, when the excess of
    every tail is within chance, or when 2 alpha of the weight is gone.
    Deviations: σ is estimated; tails are compared with a normal law rather than weighed by the
    squared projection, which is sharper for rows that sum many entries; rows beyond ten
    deviations may be removed past the budget, up to half of the weight in all.

    Examples
    --------
    >>> import numpy as np
    >>> from unswayed.randomness import generator
    >>> rows = generator(0).normal(5.0, 1.0, size=(1000, 40))
    >>> rows[:100] = 9.0
    >>> result = spectral_filter(rows, adversarial_fraction=0.1)
    >>> bool(np.abs(result.estimate - 5.0).max() < 0.15), result.stopped
    (True, 'spectrum')
    """
    return prune(
        matrix,
        _tail_score,
        adversarial_fraction=adversarial_fraction,
        noise_scale=noise_scale,
        row_weights=row_weights,
        max_iterations=max_iterations,
    )


def _tail_score(look: Look) -> Suspicion:
    """Compare both tails of the projections with the normal law of honest variance."""
    deviations = in_deviations(look.projections - look.centre, look.honest_variance)
    weights = look.sample.weights
    shares = np.ones_like(deviations)
    for side in (deviations, -deviations):
        np.minimum(shares, kept_shares(side, weights, ndtr(-side)), out=shares)
    return Suspicion(shares, np.abs(deviations))


def in_deviations(distances: FloatArray, variance: float) -> FloatArray:
    """Return distances in standard deviations; without any honest spread all but 0 are infinite."""
    if variance > 0.0:
        return distances / math.sqrt(variance)
    return np.where(distances == 0.0, 0.0, np.copysign(np.inf, distances))
