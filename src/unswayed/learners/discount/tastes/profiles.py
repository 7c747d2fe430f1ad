"""Whether users have tastes, and a few numbers per user: tastes, and what the user says beyond."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.one_mean.mixture import Accusation
from unswayed.learners.discount.responses.noise import (
    measure_noise,
    permuted_within_cells,
    top_directions,
)
from unswayed.learners.discount.responses.residuals import Residuals, residuals_of
from unswayed.learners.discount.responses.responses import MAD_TO_SD, BlockedResponses, Responses
from unswayed.learners.discount.settings import RIVALS, SAMPLE_ENTRIES
from unswayed.learners.discount.tastes.kernels import taste_profiles, taste_sums
from unswayed.tallies.grouping import in_user_parts

RANK, CELLS_PER_DIRECTION = 6, 4
"""Ours: directions of taste, and how many cells there must be for each."""

STEPS = 12
"""Ours: steps of EM from the top directions of the responses."""

PSEUDO_RESPONSES = 10.0
"""Ours: loadings shrink as if so many responses more had shown none, variances as if so many had
shown the common one."""

LEAST_LEFT = 0.15
"""Ours: the smallest variance that tastes leave, as a multiple of the common one."""

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


class Tastes(NamedTuple):
    """A low-rank model of responses, in standard deviations of their cells.

    Attributes
    ----------
    loadings
        Shape (n_cells, rank); a response differs from the mean by loadings·f, f a user's tastes.
    left
        Shape (n_cells,); variance of one independent response beyond that.
    """

    loadings: FloatArray
    left: FloatArray


def fit_tastes(data: Residuals, rng: np.random.Generator) -> Tastes:
    """Fit common directions of taste to what users responded, colluders included.

    Notes
    -----
    A coalition may become a direction of its own. That does no harm to those who look along it: if
    a share p shifts by δ, the covariance is Σ + p(1 − p)·δδᵀ, and its inverse still maps δ to a
    multiple of Σ⁻¹δ, the direction that tells colluders from good users best.
    """
    responses, worth, x, weights = data.responses, data.worth, data.residuals, data.weights
    rows = (responses.indptr, responses.cells, worth, x)
    users = np.bincount(responses.cells, weights[responses.users], responses.n_cells)
    energy = np.bincount(
        responses.cells, weights[responses.users] * worth * x * x, responses.n_cells
    )
    count = max(1, min(RANK, responses.n_cells // CELLS_PER_DIRECTION))
    values, vectors = top_directions(responses, np.sqrt(worth) * x, weights, count, rng)
    rank = vectors.shape[1]
    per_cell = max(float(users.mean()), 1.0)
    loadings = vectors * np.sqrt(np.maximum(values, 0.0) / per_cell) / 2.0
    left = np.full(responses.n_cells, 0.7)
    ridge = PSEUDO_RESPONSES * np.eye(rank)
    for _ in range(STEPS):
        parts = in_user_parts(taste_sums, responses.n_users, *rows, weights, loadings, left)
        squares, products = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
        loadings = np.linalg.solve(squares + ridge, products[:, :, None])[:, :, 0].astype(
            np.float64
        )
        explained = 2.0 * (loadings * products).sum(axis=1) - np.einsum(
            "ja,jab,jb->j", loadings, squares, loadings
        )
        rest = np.maximum(energy - explained, 0.0)
        common = float(rest.sum() / max(users.sum(), 1.0))
        left = (rest + PSEUDO_RESPONSES * common) / (users + PSEUDO_RESPONSES)
        left = np.maximum(left, max(LEAST_LEFT * common, 1e-9))
    return Tastes(loadings, left)


FARTHEST = 4.0
"""Ours: profiles are believed up to this many median deviations (made normal) from the median."""


@dataclass(frozen=True, slots=True, eq=False)
class Profiler:
    """How profiles are read off responses; made once a round, used for its nulls too.

    Attributes
    ----------
    tastes
        The common directions of taste.
    rank_of_cell
        Shape (n_cells,); 0 for the winner of a context, 1 for the runner-up, and so on.
    centre, spread
        Shape (n_features,); median and median deviation of the users who count.
    """

    tastes: Tastes
    rank_of_cell: IntArray
    n_rivals: int
    centre: FloatArray
    spread: FloatArray

    def of(self, data: Residuals) -> FloatArray:
        """Return the users' profiles, shape (n_users, n_features)."""
        scaled = (self._raw(data) - self.centre) / self.spread
        clipped: FloatArray = np.clip(scaled, -FARTHEST, FARTHEST)
        return clipped

    @property
    def n_tastes(self) -> int:
        """How many of the numbers are tastes; winners and rivals follow."""
        return int(self.tastes.loadings.shape[1])

    def _raw(self, data: Residuals) -> FloatArray:
        return taste_profiles(
            data.responses.indptr,
            data.responses.cells,
            data.worth,
            data.residuals,
            self.tastes.loadings,
            self.tastes.left,
            self.rank_of_cell,
            self.n_rivals,
        )


def profiler_for(data: Residuals, cell_means: FloatArray, rng: np.random.Generator) -> Profiler:
    """Fit tastes to the data, and learn how profiles lie."""
    responses = data.responses
    shape = (responses.n_contexts, responses.n_actions)
    ranked = np.argsort(-cell_means.reshape(shape), axis=1, kind="stable")
    ranks = np.empty(shape, dtype=np.int64)
    np.put_along_axis(ranks, ranked, np.arange(shape[1])[None, :], axis=1)
    tastes = fit_tastes(data, rng)
    n_rivals = min(RIVALS, shape[1])
    n_features = tastes.loadings.shape[1] + n_rivals
    first = Profiler(tastes, ranks.ravel(), n_rivals, np.zeros(n_features), np.ones(n_features))
    raw = first._raw(data)[data.weights > 0.5]
    centre = np.median(raw, axis=0)
    spread = np.maximum(MAD_TO_SD * np.median(np.abs(raw - centre), axis=0), 1e-6)
    return Profiler(tastes, ranks.ravel(), n_rivals, centre, spread)


def without_coalition(data: Residuals, tastes: Tastes, rng: np.random.Generator) -> Residuals:
    """Draw responses from a normal copula.

    Every user gets normal tastes and normal noise beyond them. Within a cell the observed responses
    are then dealt out in the order of these numbers. So every cell keeps its responses, skew
    and all, cells go together as tastes make them, and there is no second population.
    """
    responses, worth = data.responses, data.worth
    cells = responses.cells
    own = rng.standard_normal((responses.n_users, tastes.loadings.shape[1]))
    common = np.einsum("ka,ka->k", tastes.loadings[cells], own[responses.users])
    noise = np.sqrt(tastes.left[cells] / worth)
    spread = np.sqrt((tastes.loadings**2).sum(axis=1)[cells] + noise**2)
    latent = (common + noise * rng.standard_normal(len(cells))) / spread
    dealt = np.empty_like(data.residuals)
    dealt[np.lexsort((latent, cells))] = data.residuals[np.lexsort((data.residuals, cells))]
    return replace(data, residuals=dealt)
