"""Whether the users that are not accused share one mean, or have tastes of their own."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.learners.discount.one_mean.mixture import Accusation
from unswayed.learners.discount.responses.noise import (
    measure_noise,
    permuted_within_cells,
    top_directions,
)
from unswayed.learners.discount.responses.residuals import residuals_of
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses
from unswayed.learners.discount.settings import SAMPLE_ENTRIES

TASTE_SHARE = 0.13
"""Ours: kept users with a larger between-user share have tastes (from earlier prototypes)."""

TASTE_SPECTRUM = 1.12
"""Ours: so have those whose residuals' top eigenvalue exceeds that of exchanged residuals by this
factor (from earlier prototypes)."""

TASTE_SPREAD = 0.1
"""Ours: so have those whose side of an accused line is wider than noise by this share. Users who
share one mean leave 0 there, with a standard error of sqrt(2/n) for n of them."""

EXPLAINED = 0.3
"""Ours: an eigenvector with more than this squared cosine to accused directions is no taste."""


def has_tastes(
    responses: BlockedResponses,
    weights: FloatArray,
    accusations: list[Accusation],
    rng: np.random.Generator,
) -> bool:
    """Return whether users differ beyond what was accused, or good ones along it.

    ``weights`` are what the loud lies left; a loud coalition is no taste.
    """
    if any(accusation.spread_of_the_good > TASTE_SPREAD for accusation in accusations):
        return True
    sample = responses.sampled(rng, SAMPLE_ENTRIES)
    for accusation in accusations:
        weights = weights * (1.0 - accusation.probabilities)
    shifts = [accusation.shifts.astype(np.float64) for accusation in accusations]
    (own,) = rng.spawn(1)
    is_kept = (weights[sample.users] > 0.5).astype(float)
    return _differ(sample.responses, is_kept, shifts, own)


def _differ(
    sample: Responses, is_kept: FloatArray, accused: list[FloatArray], rng: np.random.Generator
) -> bool:
    """Return whether users who are kept differ in other directions than the accused ones."""
    noise = measure_noise(sample, is_kept)
    if noise.taste_share > TASTE_SHARE:
        return True
    data = residuals_of(sample, is_kept, noise, np.float32)
    whitened = np.sqrt(data.worth) * data.residuals
    values, vectors = top_directions(sample, whitened, is_kept, 3 + len(accused), rng)
    if accused:
        met = np.stack(accused, axis=1) * (noise.users > 0)[:, None]
        basis = np.linalg.qr(met)[0]
        values = values[((basis.T @ vectors) ** 2).sum(axis=0) < EXPLAINED]
    (exchanged,) = permuted_within_cells(sample, is_kept, rng, whitened)
    chance, _ = top_directions(sample, exchanged, is_kept, 1, rng)
    return len(values) > 0 and bool(values[0] > TASTE_SPECTRUM * chance[0])
