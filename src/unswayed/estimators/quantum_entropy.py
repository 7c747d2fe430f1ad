"""Quantum-entropy scores: all suspicious directions of a round at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.estimators.results import MeanEstimate
from unswayed.estimators.rows import RowMatrix
from unswayed.estimators.spectral_filter import (
    Look,
    Suspicion,
    in_deviations,
    prune,
)
from unswayed.estimators.spectrum import WeightedRows, kept_shares, weighted_quantile
from unswayed.names import known_keywords
from unswayed.randomness import generator

N_SKETCHES = 16
"""Ours: random vectors that stand for the density matrix; the theory asks for O(log n)."""

SHARPNESS_PER_LOG_DIMENSION = 2.0
"""Ours: the exponent of a round is this times log d, so that one spike of two and a half times the
noise outweighs d noise directions. The theory takes a constant and more rounds."""

LONGEST_EPOCH = 4
"""Ours: rounds whose covariances add up in the exponent before it starts afresh."""

SERIES_TOLERANCE = 1e-3
"""Ours: terms of the exponential series below this share of the first are left out."""

EIGENVALUE_MARGIN = 1.05
"""Ours: the Lanczos eigenvalue errs low by less than this."""


@known_keywords(adversarial_fraction="alpha")
def quantum_entropy_mean(
    matrix: RowMatrix,
    *,
    alpha: float,
    row_weights: ArrayLike | None = None,
    seed: int = 0,
) -> MeanEstimate:
    """Estimate a mean vector after weighing down rows that stand out in many directions at once.

    As ``spectral_filter``, but a round scores each row by its squared length under a density
    matrix ``U = exp(c Σ M)/tr``, which spreads over all directions of large variance (matrix
    multiplicative weights). The exponential is never formed: it is applied to random vectors by a
    Chebyshev series in products with the rows.

    Parameters
    ----------
    matrix, alpha, row_weights
        As ``spectral_filter`` takes them.
    seed
        Fixes the random vectors. Keep it secret from whoever chooses the rows.

    Returns
    -------
    MeanEstimate
        With the weights that are left, the spectrum of each round and why the rounds ended.

    Notes
    -----
    Guarantee (Dong, Hopkins and Li 2019, for their algorithm): if good rows have covariance ⪯ σ²I
    and n is large against d log d, an error of O(σ sqrt(alpha)) after O(log d) rounds, however many
    directions the bad rows use; the spectral filter may need one round for each.
    Deviations: σ is estimated as in ``spectral_filter``; rows lose the excess over a scaled
    chi-squared law fitted to the lower half of the scores, instead of weight in proportion to
    the score; the exponent is sharper and restarts after four rounds or a halved eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from unswayed.randomness import generator
    >>> rows = generator(0).normal(5.0, 1.0, size=(1000, 40))
    >>> rows[:100] = 9.0
    >>> result = quantum_entropy_mean(rows, alpha=0.1)
    >>> bool(np.abs(result.estimate - 5.0).max() < 0.15), result.stopped
    (True, 'spectrum')
    """
    return prune(matrix, _EntropyScore(seed), alpha=alpha, row_weights=row_weights)


@dataclass(slots=True)
class _EntropyScore:
    """Scores under the density matrix of an epoch; remembers the epoch's weights."""

    seed: int
    past_weights: FloatArray | None = None
    first_eigenvalue: float = 0.0
    n_rounds: int = field(default=0)

    def __call__(self, look: Look) -> Suspicion:
        """Score the rows of one round."""
        sample = look.sample
        is_over = self.n_rounds == LONGEST_EPOCH or look.eigenvalue < self.first_eigenvalue / 2.0
        if self.past_weights is None or is_over:
            self.past_weights = np.zeros_like(sample.weights)
            self.first_eigenvalue = look.eigenvalue
            self.n_rounds = 0
        # The sum of the epoch's covariances, up to the small drift of their centres.
        self.past_weights = self.past_weights + sample.weights / sample.total
        self.n_rounds += 1
        root = self._density_root(WeightedRows.centred(sample.rows, self.past_weights))

        projections = sample.rows.project(sample.centre, root)
        # Bad rows drag the mean, and good rows on the far side would then score highest.
        for column in projections.T:
            column -= weighted_quantile(column, sample.weights, 0.5)
        scores = np.square(projections).sum(axis=1)
        mean, dof = _fit_chi_squared(scores, sample.weights)
        mean = max(mean, look.noise.limit(np.square(root).sum(axis=1)))
        tails = (
            special.gammaincc(dof / 2.0, scores * dof / (2.0 * mean))
            if mean > 0.0
            else np.where(scores > 0.0, 0.0, 1.0)
        )
        return Suspicion(
            kept_shares(scores, sample.weights, tails), in_deviations(np.sqrt(scores), mean)
        )

    def _density_root(self, epoch: WeightedRows) -> FloatArray:
        """Return ``(n_columns, k)`` vectors R with R Rᵀ ≈ U, the density matrix of the epoch."""
        n_columns = epoch.rows.shape[1]
        sharpness = SHARPNESS_PER_LOG_DIMENSION * math.log(max(n_columns, 2))
        # The weights sum to the number of rounds, and so the mean covariance has top eigenvalue
        # at most the first of the epoch, but for what drifting centres add.
        top = EIGENVALUE_MARGIN * self.first_eigenvalue
        sketch = generator(self.seed, "quantum entropy").standard_normal(
            (n_columns, min(N_SKETCHES, n_columns))
        )
        root = exponential_times(epoch, sketch, top=top, exponent=0.5 * sharpness * self.n_rounds)
        return root / np.linalg.norm(root)


def exponential_times(
    sample: WeightedRows, vectors: FloatArray, *, top: float, exponent: float
) -> FloatArray:
    """Return ``exp(exponent · M/top − exponent)`` times vectors, M the weighted covariance.

    By a Chebyshev series on [0, top]; on that interval
    ``exp(b(t + 1)) = e^b (I_0(b) + 2 Σ_k I_k(b) T_k(t))`` with t in [−1, 1] and 2b the exponent.

    Parameters
    ----------
    sample
        The rows, with eigenvalues of their covariance in [0, top].
    vectors
        Shape ``(n_columns, k)``.
    top, exponent
        As in the formula.
    """
    half = 0.5 * exponent
    # ive(k, b) = I_k(b) e^−b keeps the factor e^exponent out, which a norm would cancel anyway.
    previous = vectors
    current = sample.covariance_times(vectors) * (2.0 / top) - vectors
    leading = float(special.ive(0, half))
    result = leading * previous + 2.0 * float(special.ive(1, half)) * current
    order = 2
    while (coefficient := 2.0 * float(special.ive(order, half))) > SERIES_TOLERANCE * leading:
        following = 2.0 * (sample.covariance_times(current) * (2.0 / top) - current) - previous
        previous, current = current, following
        result += coefficient * current
        order += 1
    return result


def _fit_chi_squared(scores: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Fit a scaled chi-squared law to the lower half; return its mean and degrees of freedom."""
    median = weighted_quantile(scores, weights, 0.5)
    if median <= 0.0:
        return 0.0, 1.0
    ratio = weighted_quantile(scores, weights, 0.25) / median
    low, high = math.log(0.5), math.log(1e4)
    for _ in range(40):  # the ratio of the quartiles grows with the degrees of freedom
        middle = 0.5 * (low + high)
        shape = 0.5 * math.exp(middle)
        if special.gammaincinv(shape, 0.25) < ratio * special.gammaincinv(shape, 0.5):
            low = middle
        else:
            high = middle
    dof = math.exp(0.5 * (low + high))
    return median * (0.5 * dof) / float(special.gammaincinv(0.5 * dof, 0.5)), dof
