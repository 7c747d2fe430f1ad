"""Robust means of arrays: points in one dimension, rows in many; nothing of users or bandits."""

from unswayed.estimators.contaminated_means import Intervals, mean_intervals, median_intervals
from unswayed.estimators.contaminated_rates import rate_intervals
from unswayed.estimators.quantum_entropy import quantum_entropy_mean
from unswayed.estimators.results import (
    GroupedEstimates,
    MeanEstimate,
    SpectrumStep,
    UnivariateEstimate,
)
from unswayed.estimators.spectral_filter import spectral_filter
from unswayed.estimators.splitting import lugosi_mendelson_mean, median_of_means
from unswayed.estimators.trimming import trim_count, trimmed_mean, trimmed_means

__all__ = [
    "GroupedEstimates",
    "Intervals",
    "MeanEstimate",
    "SpectrumStep",
    "UnivariateEstimate",
    "lugosi_mendelson_mean",
    "mean_intervals",
    "median_intervals",
    "median_of_means",
    "quantum_entropy_mean",
    "rate_intervals",
    "spectral_filter",
    "trim_count",
    "trimmed_mean",
    "trimmed_means",
]
