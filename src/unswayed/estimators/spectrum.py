"""The largest variance of weighted rows over all directions, and what honest noise makes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.estimators.lanczos import TopEigenpair, top_eigenpair
from unswayed.estimators.rows import Rows
from unswayed.estimators.tails import robust_variance, weighted_quantile
from unswayed.randomness import generator

LANCZOS_TOLERANCE = 1e-2
"""Ours: relative error of the top eigenvalue; thresholds are not sharper than that."""

RANDOM_PART = 0.5
"""Ours: length of the part of the Lanczos start that is not what the last look found. It is large,
so that another direction is not missed for one that has hardly changed."""

SMALL_DIMENSION = 32
"""Ours: up to here the covariance is formed and solved directly."""

FAR_ROW = 4.0
"""Ours: in column variances a row counts with at most this many typical squared distances."""

TIE = 1e-9
"""Ours: empty rows all lie equally far from the centre, up to this share."""

COLUMN_MARGIN = 1.0
"""Ours: column variances are believed up to sqrt(2 log d), where the largest of d normal numbers
lies, plus this many deviations above their median, in logs."""

CHANCE_DEVIATIONS = 2.45
"""Ours: sqrt(2 log(1/0.05)), the deviations by which honest spectra may exceed their limit."""

MEDIAN_DEVIATION_ERROR = 1.17
"""Standard deviation of sqrt(n) times the median absolute deviation of a normal law, relative."""


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Rows with weights, and what is needed of them in every product."""

    rows: Rows
    weights: FloatArray
    centre: FloatArray

    @classmethod
    def centred(cls, rows: Rows, weights: FloatArray) -> WeightedRows:
        """Centre the rows on their weighted mean."""
        return cls(rows, weights, rows.mean(weights))

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @property
    def effective_rows(self) -> float:
        """Number of equally weighted rows that would average out noise as well."""
        return float(self.total**2 / np.square(self.weights).sum())

    def covariance_times(self, directions: FloatArray) -> FloatArray:
        """Return the weighted covariance times directions of shape ``(n_columns, k)``."""
        return self.rows.gram(self.weights, self.centre, directions) / self.total


def top_direction(sample: WeightedRows, start: FloatArray | None) -> TopEigenpair:
    """Return the largest eigenvalue of the weighted covariance and its eigenvector.

    Parameters
    ----------
    sample
        The rows.
    start
        Shape ``(n_columns,)``: where the eigenvector may lie, or nothing.
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
    """Return column variances that a minority of rows cannot inflate at will.

    Rows far from the centre count less, so bad rows cannot inflate most columns; columns far above
    the others are lowered to a believable height, so bad rows cannot inflate a few.

    Returns
    -------
    array
        Shape ``(n_columns,)``.
    """
    distances = sample.rows.squared_distances(sample.centre)
    limit = _far_distance(distances, sample, alpha)
    shrinkage = np.ones_like(distances)
    np.divide(limit, distances, out=shrinkage, where=distances > limit)
    variances = sample.rows.column_squares(sample.weights * shrinkage, sample.centre) / sample.total
    logs = np.log(variances[variances > 0.0])
    if logs.size == 0:
        return variances
    middle = float(np.median(logs))
    spread = math.sqrt(robust_variance(logs, np.ones(logs.size), middle))
    # Equal columns differ by chance too: the log of a variance from n rows errs by sqrt(2/n).
    spread += math.sqrt(2.0 / sample.effective_rows)
    reach = math.sqrt(2.0 * math.log(logs.size)) + COLUMN_MARGIN
    return np.minimum(variances, math.exp(middle + reach * spread))


def _far_distance(distances: FloatArray, sample: WeightedRows, alpha: float) -> float:
    """Return the squared distance beyond which a row is far out, given how unequal rows are."""
    weights, bad = sample.weights, alpha
    # Twice the stated fraction is withstood, unless that leaves only empty rows to judge by.
    typical = weighted_quantile(distances, weights, max(0.5, 1.0 - 2.0 * bad))
    is_apart = distances > weighted_quantile(distances, weights, 0.25) * (1.0 + TIE)
    if float(weights[is_apart].sum()) <= 2.0 * bad * sample.total:
        return FAR_ROW * weighted_quantile(distances, weights, 1.0 - bad)
    logs = np.log(distances[is_apart])
    middle = weighted_quantile(logs, weights[is_apart], 0.5)
    spread = math.sqrt(robust_variance(logs, weights[is_apart], middle))
    # The log of a chi-squared variable spreads too, in few dimensions by much.
    usual = math.sqrt(float(special.polygamma(1, 0.5 * sample.rows.shape[1])))
    # Where honest rows differ more in length than normal rows do, far means further: to where the
    # largest of n normal numbers lies.
    reach = math.sqrt(2.0 * math.log(max(sample.effective_rows, 2.0)))
    return FAR_ROW * typical * math.exp(reach * max(0.0, spread - usual))


def edge(variance: float, trace: float, n_rows: float) -> float:
    """Return the top sample eigenvalue that independent noise reaches by chance.

    ``(sqrt(variance) + sqrt(trace/n))²``, which for d equal variances is the Marchenko–Pastur edge
    ``σ²(1 + sqrt(d/n))²``.
    """
    return (math.sqrt(variance) + math.sqrt(trace / n_rows)) ** 2


def with_chance(variance: float, n_rows: float, relative_error: float = 1.0) -> float:
    """Inflate a variance by its sampling error, ``t/sqrt(n)`` on the root."""
    return variance * (1.0 + CHANCE_DEVIATIONS * relative_error / math.sqrt(n_rows)) ** 2


@dataclass(frozen=True, slots=True)
class HonestNoise:
    """How far honest rows may spread.

    Attributes
    ----------
    column_variances
        Shape ``(n_columns,)``, believable; see ``believable_column_variances``.
    n_rows
        Effective number of rows.
    noise_scale
        The standard deviation σ that the caller vouches for in every direction, or nothing.
    """

    column_variances: FloatArray
    n_rows: float
    noise_scale: float | None

    def limit(self, direction_masses: FloatArray) -> float:
        """Return the variance that independent columns reach in directions fitted to the data.

        Parameters
        ----------
        direction_masses
            Shape ``(n_columns,)``, summing to 1: squared entries of a unit direction, or the
            diagonal of a density matrix over directions.
        """
        trace = float(self.column_variances.sum())
        if self.noise_scale is None:
            variance = float(direction_masses @ self.column_variances)
        else:
            variance = self.noise_scale**2
            trace = min(trace, self.column_variances.size * variance)
        return edge(variance, trace, self.n_rows)

    def variance_and_threshold(
        self, direction_masses: FloatArray, robust_spread: float
    ) -> tuple[float, float]:
        """Return the honest variance along directions, and what it may reach by chance.

        Without a given scale it is the larger of two guesses. The robust spread of the projections
        follows whatever covariance the good rows have, but sees nothing when most projections are
        zero. The limit for independent columns is right for sparse rows of any tail, but knows no
        correlation.
        """
        limit = self.limit(direction_masses)
        threshold = with_chance(limit, self.n_rows)
        if self.noise_scale is not None:
            return limit, threshold
        from_spread = with_chance(robust_spread, self.n_rows, MEDIAN_DEVIATION_ERROR)
        return max(limit, robust_spread), max(threshold, from_spread)
