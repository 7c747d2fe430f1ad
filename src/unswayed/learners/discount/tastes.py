"""Whether the users that are kept share one mean, or have tastes of their own."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.answers import Answers, sampled_users
from unswayed.learners.discount.noise import (
    measure_noise,
    permuted_within_cells,
    top_directions,
)
from unswayed.learners.interface import FloatArray

TASTE_SHARE = 0.13
"""Ours: kept users with a larger between-user share have tastes (from earlier prototypes)."""

TASTE_SPECTRUM = 1.06
"""Ours: so have those whose residuals' top eigenvalue exceeds that of exchanged residuals by this
factor (from earlier prototypes)."""

EXPLAINED = 0.3
"""Ours: an eigenvector with more than this squared cosine to accused directions is no taste."""


def has_tastes(
    answers: Answers,
    weights: FloatArray,
    accused: list[FloatArray],
    rng: np.random.Generator,
) -> bool:
    """Return whether kept users still differ from one another, beyond the accused directions."""
    sample, chosen = sampled_users(answers, rng)
    is_kept = (weights[chosen] > 0.5).astype(float)
    noise = measure_noise(sample, is_kept)
    if noise.taste_share > TASTE_SHARE:
        return True
    whitened = np.sqrt(noise.worth / noise.variances[sample.cells]) * noise.residuals
    values, vectors = top_directions(sample, whitened, is_kept, 3 + len(accused), rng)
    if accused:
        scaled = np.stack(accused, axis=1) / np.sqrt(noise.variances)[:, None]
        basis = np.linalg.qr(scaled)[0]
        values = values[((basis.T @ vectors) ** 2).sum(axis=0) < EXPLAINED]
    (exchanged,) = permuted_within_cells(sample, is_kept, rng, whitened)
    chance, _ = top_directions(sample, exchanged, is_kept, 1, rng)
    return len(values) > 0 and bool(values[0] > TASTE_SPECTRUM * chance[0])
