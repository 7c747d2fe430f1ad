"""Top eigenvalue of weighted rows, the limit for honest rows, and scores of outlying rows.

Weighted quantiles and the excess of a tail over a distribution; the top eigenpair of an operator
given by its products; and the spectrum of weighted rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.estimators.rows import Rows, SparseRows
from unswayed.randomness import generator

# Median absolute deviation of the standard normal distribution
NORMAL_QUARTILE = 0.6744897501960817
ALLOWED_DEVIATIONS = 2.0  # Ours: standard deviations by which a tail may exceed its expected count


def weighted_quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return a weighted quantile; between two values, their midpoint.

    >>> import numpy as np
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.5)
    2.5
    """
    order = np.argsort(values)
    order = order[weights[order] > 0.0]
    ordered, below = values[order], np.cumsum(weights[order])
    # The quantile must not depend on rounding errors of the cumulative weight
    slack = 1e-12 * below[-1]
    least = level * below[-1] - slack
    low = ordered[np.searchsorted(below, least)]
    beyond = int(np.searchsorted(ordered, low, side="right"))
    is_inside = beyond == ordered.size or below[beyond - 1] >= least + 2.0 * slack
    return float(low if is_inside else 0.5 * (low + ordered[beyond]))


def robust_variance(values: FloatArray, weights: FloatArray, centre: float) -> float:
    """Return the variance of the normal distribution with the same median distance from centre."""
    deviation = weighted_quantile(np.abs(values - centre), weights, 0.5)
    return (deviation / NORMAL_QUARTILE) ** 2


def kept_shares(scores: FloatArray, weights: FloatArray, law_tails: FloatArray) -> FloatArray:
    """Return the share of its weight that each row may keep so that the tail fits a distribution.

    Beyond each score, at most the expected weight may remain, plus an allowance for chance;
    ``law_tails`` are the probabilities of a score at least as large. The share never increases with
    the score. The allowance tends to zero in the far tail, so extreme rows can always be removed.
    All arrays have shape ``(n_rows,)``.
    """
    # Only the outer half is a tail: if the reference distribution is too wide, rows in the middle
    # must not be down-weighted.
    outer = np.flatnonzero(law_tails < 0.5)
    outward = outer[np.argsort(scores[outer], kind="stable")]
    tails = np.cumsum(weights[outward][::-1])[::-1]
    expected = weights.sum() * law_tails[outward]
    allowed = expected + ALLOWED_DEVIATIONS * np.sqrt(expected)
    shares = np.ones(outer.size)
    np.divide(allowed, tails, out=shares, where=tails > 0.0)
    np.minimum.accumulate(np.minimum(shares, 1.0), out=shares)
    # Tied rows get the same share, whatever their order.
    ordered = scores[outward]
    kept = np.ones(scores.size)
    kept[outward] = shares[np.searchsorted(ordered, ordered)]
    return kept


BASIS = 30  # Ours: size of the Krylov basis before a restart
RESTARTS = 20  # Ours: maximum number of restarts


@dataclass(frozen=True, slots=True, eq=False)
class TopEigenpair:
    """Result of the eigenvalue search; vectors have unit length and shape ``(n_columns,)``."""

    value: float
    vector: FloatArray
    # Approximate second eigenvector, or zero; used for the next starting vector
    runner_up: FloatArray


def top_eigenpair(
    operator: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    image: FloatArray,
    *,
    tolerance: float,
) -> TopEigenpair:
    """Find the largest eigenvalue of a positive semidefinite operator and its unit eigenvector.

    Lanczos iteration with full reorthogonalisation until ‖A·x − θ·x‖ ≤ tolerance·θ; ``image`` is
    the product of the starting direction, which the caller already knows. Some eigenvalue then lies
    within tolerance·θ of θ, and θ is never larger than the largest one. Unlike ARPACK, which checks
    the residual only when its basis of twenty is full, it checks after every product, as products
    dominate the cost.

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
        for _ in range(2):  # a single pass loses orthogonality to rounding errors
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


LANCZOS_TOLERANCE = 1e-2  # Ours: relative error of the top eigenvalue, about that of the thresholds
# Ours: norm of the random part of the Lanczos starting vector, relative to the previous direction.
# It is large, so that the search finds a new top direction even if the previous one has hardly
# changed.
RANDOM_PART = 0.5

# Ours: up to this many columns the covariance matrix is formed and decomposed directly
SMALL_DIMENSION = 32
FAR_ROW = 4.0  # Ours: cap on squared distances in column variances, in units of the typical one
# Ours: relative tolerance for the distances of empty rows from the centre, which are equal
TIE = 1e-9

# Ours: column variances are trusted up to sqrt(2 log d), the expected maximum of d normal numbers,
# plus this many deviations above their median, in logs
COLUMN_MARGIN = 1.0

# Ours: sqrt(2 log(1/0.05)), allowance by which honest spectra may exceed the limit
CHANCE_DEVIATIONS = 2.45
# Relative error of the median deviation of normal numbers, times sqrt(n)
MEDIAN_DEVIATION_ERROR = 1.17


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Weighted rows with their centre."""

    rows: Rows
    weights: FloatArray
    centre: FloatArray

    @classmethod
    def centred(cls, rows: Rows, weights: FloatArray) -> WeightedRows:
        """Centre the rows on their weighted mean."""
        return cls(rows, weights, rows.total(SparseRows.weighted_sum, weights) / weights.sum())

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @property
    def effective_rows(self) -> float:
        """Number of equally weighted rows whose mean would have the same variance."""
        return float(self.total**2 / np.square(self.weights).sum())

    def covariance_times(self, directions: FloatArray) -> FloatArray:
        """Return the weighted covariance times directions of shape ``(n_columns, k)``."""
        gram = self.rows.total(SparseRows.gram, self.weights, self.centre, directions)
        return gram / self.total


def top_direction(sample: WeightedRows, start: FloatArray | None) -> TopEigenpair:
    """Return the largest eigenvalue of the weighted covariance and its eigenvector.

    ``start`` is a guess of the eigenvector.
    """
    n_columns = sample.rows.shape[1]
    # A fixed random part: a guess alone may be orthogonal to the eigenvector.
    initial = generator(0, "spectrum", "start").standard_normal(n_columns)
    initial /= np.linalg.norm(initial)
    if start is not None:
        initial = start + RANDOM_PART * initial
    rounding = (np.finfo(np.float64).eps * float(np.linalg.norm(sample.centre))) ** 2
    image = sample.covariance_times(initial[:, None])[:, 0]
    if float(np.linalg.norm(image)) <= rounding:
        unit = initial / np.linalg.norm(initial)
        return TopEigenpair(0.0, unit, np.zeros(n_columns))  # all rows are equal
    if n_columns <= SMALL_DIMENSION:
        values, vectors = np.linalg.eigh(sample.covariance_times(np.eye(n_columns)))
        runner_up = vectors[:, -2] if n_columns > 1 else np.zeros(1)
        return TopEigenpair(float(values[-1]), vectors[:, -1], runner_up)
    return top_eigenpair(
        lambda direction: sample.covariance_times(direction[:, None])[:, 0],
        initial,
        image,
        tolerance=LANCZOS_TOLERANCE,
    )


def believable_column_variances(sample: WeightedRows, *, alpha: float) -> FloatArray:
    """Return column variances that a minority of rows cannot inflate arbitrarily.

    Rows far from the centre are down-weighted, so bad rows cannot inflate most columns; variances
    far above the others are capped, so bad rows cannot inflate a few columns.
    """
    distances = sample.rows.each(SparseRows.squared_distances, sample.centre)
    limit = _far_distance(distances, sample, alpha)
    shrinkage = np.ones_like(distances)
    np.divide(limit, distances, out=shrinkage, where=distances > limit)
    weights = sample.weights * shrinkage
    variances = sample.rows.total(SparseRows.column_squares, weights, sample.centre) / sample.total
    logs = np.log(variances[variances > 0.0])
    if logs.size == 0:
        return variances
    middle = float(np.median(logs))
    spread = math.sqrt(robust_variance(logs, np.ones(logs.size), middle))
    # Estimates of equal variances differ by chance: the log of a variance of n rows has error
    # sqrt(2/n).
    spread += math.sqrt(2.0 / sample.effective_rows)
    reach = math.sqrt(2.0 * math.log(logs.size)) + COLUMN_MARGIN
    return np.minimum(variances, math.exp(middle + reach * spread))


def _far_distance(distances: FloatArray, sample: WeightedRows, alpha: float) -> float:
    """Return the squared distance beyond which a row is an outlier."""
    weights, bad = sample.weights, alpha
    # Twice the stated fraction is tolerated, unless that leaves only empty rows for the estimate.
    typical = weighted_quantile(distances, weights, max(0.5, 1.0 - 2.0 * bad))
    is_apart = distances > weighted_quantile(distances, weights, 0.25) * (1.0 + TIE)
    if float(weights[is_apart].sum()) <= 2.0 * bad * sample.total:
        return FAR_ROW * weighted_quantile(distances, weights, 1.0 - bad)
    logs = np.log(distances[is_apart])
    middle = weighted_quantile(logs, weights[is_apart], 0.5)
    spread = math.sqrt(robust_variance(logs, weights[is_apart], middle))
    # The log of a chi-squared variable varies too, and much in few dimensions.
    usual = math.sqrt(float(special.polygamma(1, 0.5 * sample.rows.shape[1])))
    # If the norms of honest rows vary more than those of normal rows, the threshold is higher: the
    # expected maximum of n normal numbers.
    reach = math.sqrt(2.0 * math.log(max(sample.effective_rows, 2.0)))
    return FAR_ROW * typical * math.exp(reach * max(0.0, spread - usual))


@dataclass(frozen=True, slots=True)
class HonestNoise:
    """Largest variance that honest rows can have in a direction."""

    column_variances: FloatArray  # shape (n_columns,), see ``believable_column_variances``
    n_rows: float  # effective number of rows

    def limit(self, direction_masses: FloatArray) -> float:
        """Return the largest variance of independent columns in a direction fitted to the data.

        ``(sqrt(variance) + sqrt(trace/n))²``, which for d equal variances is the Marchenko–Pastur
        edge ``σ²(1 + sqrt(d/n))²``. Masses, shape ``(n_columns,)`` with sum 1, are the squared
        entries of a unit direction, or the diagonal of a density matrix over directions.
        """
        variance = float(direction_masses @ self.column_variances)
        trace = float(self.column_variances.sum())
        return (math.sqrt(variance) + math.sqrt(trace / self.n_rows)) ** 2

    def variance_and_threshold(
        self, direction_masses: FloatArray, robust_spread: float
    ) -> tuple[float, float]:
        """Return the honest variance along directions, and an upper limit for its sample value.

        It is the larger of two estimates. The robust variance of the projections adapts to any
        covariance of the good rows, but is zero if most projections are zero. The limit for
        independent columns is valid for sparse rows with any tails, but ignores correlations.
        """
        limit = self.limit(direction_masses)
        # The relative error of an estimated standard deviation is about 1/sqrt(n).
        chance, root = CHANCE_DEVIATIONS, math.sqrt(self.n_rows)
        from_limit = limit * (1.0 + chance / root) ** 2
        from_spread = robust_spread * (1.0 + chance * MEDIAN_DEVIATION_ERROR / root) ** 2
        return max(limit, robust_spread), max(from_limit, from_spread)
