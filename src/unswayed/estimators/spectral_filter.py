"""Filters that estimate the mean of rows with bounded covariance.

The spectral filter scores rows along the direction of largest variance, the quantum-entropy filter
along all suspicious directions of a round at once. The module begins with their parts: weighted
quantiles and heavy tails, the top eigenpair of an operator given by its products, and the limit for
honest rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.estimators.rows import RowMatrix, Rows, SparseRows, as_rows, check_finite
from unswayed.names import known_keywords
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
    # Only the outer half is a tail: rows in the middle must not be down-weighted, even if the
    # reference distribution is too wide.
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
    """Run one Lanczos cycle, or stop early; return the best eigenpair and its residual."""
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
# Ours: relative tolerance within which distances of empty rows from the centre are equal
TIE = 1e-9

# Ours: log variances of columns are capped at sqrt(2 log d), the expected maximum of d normal
# numbers, plus this, in deviations above their median
COLUMN_MARGIN = 1.0

# Ours: sqrt(2 log(1/0.05)), by which chance may raise an honest spectrum above the limit
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
    # Allow twice the stated fraction of outliers, unless only empty rows remain.
    typical = weighted_quantile(distances, weights, max(0.5, 1.0 - 2.0 * bad))
    is_apart = distances > weighted_quantile(distances, weights, 0.25) * (1.0 + TIE)
    if float(weights[is_apart].sum()) <= 2.0 * bad * sample.total:
        return FAR_ROW * weighted_quantile(distances, weights, 1.0 - bad)
    logs = np.log(distances[is_apart])
    middle = weighted_quantile(logs, weights[is_apart], 0.5)
    spread = math.sqrt(robust_variance(logs, weights[is_apart], middle))
    # Even for normal rows the log of a distance varies, especially in few dimensions.
    usual = math.sqrt(float(special.polygamma(1, 0.5 * sample.rows.shape[1])))
    # If honest distances vary more than those of normal rows, the threshold is higher, by the
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


MAX_ITERATIONS = 50  # Ours; the attacks of the benchmark need fewer than 15
BUDGET_FACTOR = 2.0  # From the theory: a sound filter removes less good weight than bad
LARGEST_BUDGET = 0.49  # Ours: upper limit on the removed weight

# Ours: rows this far out may be removed beyond the budget, in case alpha was understated. By
# Chebyshev at most one good row in a hundred lies there.
BLATANT_DEVIATIONS = 10.0
# Ours: rows whose largest entry exceeds the typical row's by this factor are dropped first, since
# rounding errors of their squares would exceed the squares of all other rows
COARSE_FACTOR = 1e6

# Ours: squares of numbers above this, or below its inverse, may overflow or underflow
LARGEST_MAGNITUDE = 1e120
LEAST_PROGRESS = 0.1  # Ours: iterate while a round removes at least this many rows


StopReason: TypeAlias = Literal["spectrum", "tail", "budget", "iterations"]
"""Why a spectral estimator stopped.

``"spectrum"``: no direction has more variance than honest noise explains. ``"tail"``: some
direction does, but no row is an outlier along it. ``"budget"``: as much weight was removed as the
adversarial fraction allows. ``"iterations"``: the round limit was reached.
"""


@dataclass(frozen=True, slots=True)
class SpectrumStep:
    """Largest variance of the kept rows in one round, and the limit for honest rows."""

    top_eigenvalue: float
    threshold: float
    removed: float


@dataclass(frozen=True, slots=True, eq=False)
class MeanEstimate:
    """The estimate of a mean vector."""

    estimate: FloatArray  # shape (n_columns,), the weighted mean of the rows
    weights: FloatArray  # shape (n_rows,), remaining weights in [0, 1]
    iterations: int  # rounds in which weight was removed
    spectrum: tuple[SpectrumStep, ...]  # one for each computation of the spectrum
    stopped: StopReason
    removed: float  # removed share of the starting weight


class Suspicion(NamedTuple):
    """Share of weight that each row may keep, and its distance in honest standard deviations."""

    shares: FloatArray
    deviations: FloatArray


class Look:
    """Top direction of the kept rows, compared with honest noise."""

    def __init__(self, sample: WeightedRows, start: FloatArray | None, *, alpha: float) -> None:
        self.sample = sample
        variances = believable_column_variances(sample, alpha=alpha)
        self.noise = HonestNoise(variances, sample.effective_rows)
        top = top_direction(sample, start)
        self.eigenvalue = top.value
        # Starting vector for the next search of the top direction.
        self.next_start = top.vector + top.runner_up
        direction = top.vector[:, None]
        self.projections = sample.rows.each(SparseRows.project, sample.centre, direction)[:, 0]
        self.centre = weighted_quantile(self.projections, sample.weights, 0.5)
        spread = robust_variance(self.projections, sample.weights, self.centre)
        self.honest_variance, self.threshold = self.noise.variance_and_threshold(
            np.square(top.vector), spread
        )


# A rule that scores which rows cause the excess variance along a direction
Score = Callable[[Look], Suspicion]


def prune(
    matrix: RowMatrix, score: Score, *, alpha: float, row_weights: ArrayLike | None
) -> MeanEstimate:
    """Down-weight suspicious rows until noise explains the spectrum or the budget is used."""
    alpha = check_adversarial_fraction(alpha)
    rows, origin = as_rows(matrix)
    weights = _checked_weights(row_weights, rows.shape[0])
    spectrum: tuple[SpectrumStep, ...] = ()
    stopped: StopReason = "budget"
    # Idle BLAS threads would spin on a core that the kernels could use.
    with threadpool_limits(limits=1, user_api="blas"):
        start_total = float(weights.sum())
        if alpha == 0.0:  # no budget
            sample = WeightedRows.centred(rows, weights)
        else:
            is_sane = _is_sane(rows)
            kept = rows if is_sane.all() else rows.keep(is_sane)
            sample, spectrum, stopped = _rounds(
                kept, weights[is_sane], score, alpha=alpha, start_total=start_total
            )
            weights = np.zeros(rows.shape[0])
            weights[is_sane] = sample.weights
    return MeanEstimate(
        estimate=sample.centre if origin is None else sample.centre + origin,
        weights=weights,
        iterations=max(len(spectrum) - 1, 0),  # each iteration but the first follows a removal
        spectrum=spectrum,
        stopped=stopped,
        removed=max(0.0, 1.0 - sample.total / start_total),
    )


def _checked_weights(row_weights: ArrayLike | None, n_rows: int) -> FloatArray:
    """Return the starting weights, scaled to a maximum of 1; all ones if none are given."""
    if row_weights is None:
        return np.ones(n_rows)
    weights = np.array(row_weights, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise InputError(f"row_weights has shape {weights.shape}: it must be ({n_rows},).")
    check_finite(weights, name="row_weights")
    if weights.min() < 0.0 or weights.max() == 0.0:
        raise InputError("row_weights must be non-negative, and at least one must be positive.")
    return np.asarray(weights / weights.max())


def _is_sane(rows: Rows) -> BoolArray:
    """Mark the rows whose norm is not absurdly large compared with the typical non-empty row."""
    sizes = rows.each(SparseRows.largest_entries)
    if not sizes.any():
        return np.ones(sizes.size, dtype=np.bool_)
    typical = float(np.median(sizes[sizes > 0.0]))
    if not 1.0 / LARGEST_MAGNITUDE < typical < LARGEST_MAGNITUDE:
        raise InputError(
            f"Typical entries are about {typical:.0e}: rescale the rows towards 1 first."
        )
    return np.less_equal(sizes, COARSE_FACTOR * typical)


def _rounds(
    rows: Rows, weights: FloatArray, score: Score, *, alpha: float, start_total: float
) -> tuple[WeightedRows, tuple[SpectrumStep, ...], StopReason]:
    """Run the rounds; return the weighted rows, the spectrum and the reason for stopping."""
    budget = min(BUDGET_FACTOR * alpha, LARGEST_BUDGET)
    spectrum: list[SpectrumStep] = []
    start: FloatArray | None = None
    stopped: StopReason = "iterations"
    sample = WeightedRows.centred(rows, weights)
    for iteration in range(MAX_ITERATIONS + 1):
        look = Look(sample, start, alpha=alpha)
        removed = 1.0 - sample.total / start_total
        spectrum.append(SpectrumStep(look.eigenvalue, look.threshold, max(removed, 0.0)))
        if look.eigenvalue <= look.threshold:
            stopped = "spectrum"
            break
        if iteration == MAX_ITERATIONS:
            break
        suspicion = score(look)
        wanted = sample.weights * (1.0 - suspicion.shares)
        if wanted.sum() < LEAST_PROGRESS:
            stopped = "tail"
            break
        lost = _within_budget(
            wanted,
            suspicion.deviations,
            room=(budget - removed) * start_total,
            largest_room=(LARGEST_BUDGET - removed) * start_total,
        )
        if lost.sum() < LEAST_PROGRESS:
            stopped = "budget"
            break
        start = look.next_start
        # Because of rounding errors, a row may lose slightly more than its weight.
        sample = WeightedRows.centred(rows, np.maximum(sample.weights - lost, 0.0))
    return sample, tuple(spectrum), stopped


def _within_budget(
    wanted: FloatArray, deviations: FloatArray, *, room: float, largest_room: float
) -> FloatArray:
    """Return the weight to remove from each row, most extreme rows first, within the budget.

    Blatant outliers may use the larger budget; other rows use what is left of the ordinary one.
    """
    chosen = np.flatnonzero(wanted > 0.0)
    inward = chosen[np.argsort(-deviations[chosen], kind="stable")]
    is_blatant = deviations[inward] > BLATANT_DEVIATIONS
    lost = wanted[inward]
    blatant = _first(np.where(is_blatant, lost, 0.0), largest_room)
    others = _first(np.where(is_blatant, 0.0, lost), room - float(blatant.sum()))
    result = np.zeros_like(wanted)
    result[inward] = blatant + others
    return result


def _first(amounts: FloatArray, room: float) -> FloatArray:
    """Return the amounts, cut off where their running sum exceeds ``room``."""
    return np.diff(np.minimum(np.cumsum(amounts), max(room, 0.0)), prepend=0.0)


@known_keywords(adversarial_fraction="alpha")
def spectral_filter(
    matrix: RowMatrix, *, alpha: float, row_weights: ArrayLike | None = None
) -> MeanEstimate:
    """Estimate a mean vector after down-weighting rows that are outliers in some direction.

    Each round finds the direction of largest variance. If honest noise explains it, the weighted
    mean is returned. Otherwise each tail of the projections is compared with that of a normal
    distribution of honest variance; where it is too heavy, its rows lose the excess weight.

    The matrix, shape ``(n_rows, n_columns)``, is a SciPy CSR matrix or dense; sparse rows are never
    made dense, dense ones are copied. A share ``alpha`` < 1/2 of the rows may be arbitrary. Rescale
    columns of very different variance first. At least a share 2 ``alpha`` of the rows should be
    non-empty: otherwise the non-empty rows cannot be distinguished from an attack. Rows start with
    equal weights unless ``row_weights`` are given.

    Guarantee (Diakonikolas et al. 2017, for their filter): if good rows have covariance ⪯ σ²I and
    n is large against d log d, the error is O(σ sqrt(alpha)). Its conditions hold here: the rounds
    end only when the top eigenvalue is of the order of the honest one, when chance explains every
    tail, or when a share 2 alpha of the weight has been removed.
    Deviations: σ is estimated. Tails are compared with a normal distribution instead of weighted by
    the squared projection, which is sharper for rows that sum many entries. Rows beyond ten
    standard deviations may be removed beyond the budget, up to half of the weight in total.

    >>> rows = generator(0).normal(5.0, 1.0, size=(1000, 40))
    >>> rows[:100] = 9.0
    >>> result = spectral_filter(rows, alpha=0.1)
    >>> bool(np.abs(result.estimate - 5.0).max() < 0.15), result.stopped
    (True, 'spectrum')
    """
    return prune(matrix, _tail_score, alpha=alpha, row_weights=row_weights)


def _tail_score(look: Look) -> Suspicion:
    """Compare both tails of the projections with a normal distribution of honest variance."""
    deviations = in_deviations(look.projections - look.centre, look.honest_variance)
    weights = look.sample.weights
    shares = np.ones_like(deviations)
    for side in (deviations, -deviations):
        np.minimum(shares, kept_shares(side, weights, ndtr(-side)), out=shares)
    return Suspicion(shares, np.abs(deviations))


def in_deviations(distances: FloatArray, variance: float) -> FloatArray:
    """Return distances in standard deviations; if the variance is zero, all but 0 are infinite."""
    if variance > 0.0:
        return distances / math.sqrt(variance)
    return np.where(distances == 0.0, 0.0, np.copysign(np.inf, distances))


N_SKETCHES = 16  # Ours: random vectors that sketch the density matrix; the theory needs O(log n)
# Ours: the exponent of a round is this times log d, so that one direction with 2.5 times the noise
# variance outweighs d noise directions. The theory uses a constant and more rounds.
SHARPNESS_PER_LOG_DIMENSION = 2.0

LONGEST_EPOCH = 4  # Ours: rounds whose covariances are summed in the exponent before it restarts
# Ours: relative size below which terms of the exponential series are omitted
SERIES_TOLERANCE = 1e-3
EIGENVALUE_MARGIN = 1.05  # Ours: the Lanczos eigenvalue is too low by at most this factor


@known_keywords(adversarial_fraction="alpha")
def quantum_entropy_mean(
    matrix: RowMatrix, *, alpha: float, row_weights: ArrayLike | None = None, seed: int = 0
) -> MeanEstimate:
    """Estimate a mean vector after down-weighting outliers in many directions at once.

    Like ``spectral_filter``, but a round scores each row by its squared norm under a density matrix
    ``U = exp(c Σ M)/tr``, which covers all directions of large variance (matrix multiplicative
    weights). The exponential is never formed: a Chebyshev series of products with the rows applies
    it to random vectors. The seed fixes these vectors: keep it secret from anybody who controls
    rows.

    Guarantee (Dong, Hopkins and Li 2019, for their algorithm): if good rows have covariance ⪯ σ²I
    and n is large against d log d, an error of O(σ sqrt(alpha)) after O(log d) rounds, however many
    directions the bad rows use; the spectral filter may need one round for each direction.
    Deviations: σ is estimated as in ``spectral_filter``; rows lose the excess over a scaled
    chi-squared distribution fitted to the lower half of the scores, instead of weight in proportion
    to the score; the exponent is larger, and restarts after four rounds or when the top eigenvalue
    has halved.

    >>> rows = generator(0).normal(5.0, 1.0, size=(1000, 40))
    >>> rows[:100] = 9.0
    >>> result = quantum_entropy_mean(rows, alpha=0.1)
    >>> bool(np.abs(result.estimate - 5.0).max() < 0.15), result.stopped
    (True, 'spectrum')
    """
    return prune(matrix, _EntropyScore(seed), alpha=alpha, row_weights=row_weights)


@dataclass(slots=True)
class _EntropyScore:
    """Scores rows under a density matrix that is updated within an epoch of several rounds."""

    seed: int
    past_weights: FloatArray | None = None
    first_eigenvalue: float = 0.0
    n_rounds: int = 0

    def __call__(self, look: Look) -> Suspicion:
        """Score the rows of one round."""
        sample = look.sample
        is_over = self.n_rounds == LONGEST_EPOCH or look.eigenvalue < self.first_eigenvalue / 2.0
        if self.past_weights is None or is_over:
            self.past_weights = np.zeros_like(sample.weights)
            self.first_eigenvalue = look.eigenvalue
            self.n_rounds = 0
        # Add the round's covariance to the epoch's; small differences of their centres are ignored.
        self.past_weights = self.past_weights + sample.weights / sample.total
        self.n_rounds += 1
        root = self._density_root(WeightedRows.centred(sample.rows, self.past_weights))

        projections = sample.rows.each(SparseRows.project, sample.centre, root)
        # Centre at the median: bad rows shift the mean, so that good rows on the far side score
        # high.
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
        # The weights of the rounds are averaged, so the top eigenvalue is at most that at the start
        # of the epoch, apart from small differences of the centres.
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

    Its eigenvalues lie in [0, top]. Computed by a Chebyshev series on that interval:
    ``exp(b(t + 1)) = e^b (I_0(b) + 2 Σ_k I_k(b) T_k(t))`` with t in [−1, 1] and 2b the exponent.
    """
    half = 0.5 * exponent
    # ive(k, b) = I_k(b) e^−b omits the factor e^exponent, which normalisation would cancel anyway.
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
    """Fit a scaled chi-squared distribution to the lower half; return its mean and its dof."""
    median = weighted_quantile(scores, weights, 0.5)
    if median <= 0.0:
        return 0.0, 1.0
    ratio = weighted_quantile(scores, weights, 0.25) / median
    low, high = math.log(0.5), math.log(1e4)
    for _ in range(40):  # the ratio of the quantiles grows with the degrees of freedom
        middle = 0.5 * (low + high)
        shape = 0.5 * math.exp(middle)
        if special.gammaincinv(shape, 0.25) < ratio * special.gammaincinv(shape, 0.5):
            low = middle
        else:
            high = middle
    dof = math.exp(0.5 * (low + high))
    return median * (0.5 * dof) / float(special.gammaincinv(0.5 * dof, 0.5)), dof
