"""Robust estimates of means from plain arrays of points or rows."""

from unswayed.estimators.intervals import Intervals, bounded_mean_intervals, mean_intervals
from unswayed.estimators.spectral_filter import (
    MeanEstimate,
    quantum_entropy_mean,
    spectral_filter,
)
from unswayed.estimators.trimming import (
    GroupedEstimates,
    UnivariateEstimate,
    lugosi_mendelson_mean,
    median_of_means,
    trim_count,
    trimmed_mean,
    trimmed_means,
)

__all__ = [
    "GroupedEstimates",
    "Intervals",
    "MeanEstimate",
    "UnivariateEstimate",
    "bounded_mean_intervals",
    "lugosi_mendelson_mean",
    "mean_intervals",
    "median_of_means",
    "quantum_entropy_mean",
    "spectral_filter",
    "trim_count",
    "trimmed_mean",
    "trimmed_means",
]
