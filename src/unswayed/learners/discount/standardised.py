"""What fits read: users' responses in standard deviations, in blocks or in strips of a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from unswayed.engine import Blocked, cut
from unswayed.learners.discount.kernels import CellArray, RealArray, cell_sums, whitened
from unswayed.learners.discount.line_kernels import line_scores, line_sums
from unswayed.learners.discount.noise import Noise, worth_of
from unswayed.learners.discount.responses import AllResponses, Responses
from unswayed.learners.interface import FloatArray, IntArray

STRIP_ENTRIES = 50_000
"""Ours: samples with more entries are read in two strips of users at a time. Whatever the cores:
sums must not depend on them."""


class StandardisedResponses(NamedTuple):
    """Responses of the users of a block, as fits read them.

    Attributes
    ----------
    indptr, cells
        The rows.
    worth, residuals
        Shape (n_entries,); e, and x: responses less their cell's mean, in standard deviations.
    weights
        Shape (n_users,); the users' present weights.
    n_cells
        S·A.
    """

    indptr: IntArray
    cells: CellArray
    worth: RealArray
    residuals: RealArray
    weights: FloatArray
    n_cells: int


@dataclass(frozen=True, slots=True, eq=False)
class FitRows:
    """Responses of users in blocks, seen through the two passes of a step of EM.

    Attributes
    ----------
    blocks, sizes
        The entries of each block, and how many users it has.
    weights
        Shape (n_users,); the users' present weights.
    mass, total
        Shape (n_cells,); Σ w·e and Σ w·e·x, which every step needs.
    dtype
        Precision of entries and sums.
    """

    blocks: Blocked[StandardisedResponses]
    sizes: tuple[int, ...]
    weights: FloatArray
    mass: FloatArray
    total: FloatArray
    dtype: type[np.floating]

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return len(self.weights)

    def line_sums(self, gammas: RealArray) -> tuple[RealArray, RealArray]:
        """Return Σ γ·e and Σ γ·e·x per cell; shapes (n_cells, n_lines)."""
        masses, totals = self.blocks.add_blocks(_line_sums, pieces=cut(gammas, self.sizes))
        return masses, totals

    def line_scores(self, means: RealArray, shifts: RealArray) -> tuple[RealArray, RealArray]:
        """Return s = Σ e·δ·(x − μ) and D² = Σ e·δ² of users; shapes (n_users, n_lines)."""
        parts = self.blocks.map_blocks(_line_scores, means, shifts)
        if len(parts) == 1:
            return parts[0]
        scores, strengths = zip(*parts, strict=True)
        return np.concatenate(scores), np.concatenate(strengths)


@dataclass(frozen=True, slots=True, eq=False)
class SearchData:
    """A sample of responses as searches read them.

    Attributes
    ----------
    responses, entries
        What users responded, and the same in standard deviations.
    deviations
        Shape (n_cells,); standard deviation of one independent response.
    rows
        The entries for fits.
    """

    responses: Responses
    entries: StandardisedResponses
    deviations: FloatArray
    rows: FitRows

    @property
    def worth(self) -> RealArray:
        """How many independent responses entries are worth; shape (n_entries,)."""
        return self.entries.worth

    @property
    def residuals(self) -> RealArray:
        """Responses less their cell's mean, in standard deviations; shape (n_entries,)."""
        return self.entries.residuals

    @property
    def weights(self) -> FloatArray:
        """The users' present weights; shape (n_users,)."""
        return self.entries.weights


def search_data(
    responses: Responses, noise: Noise, weights: FloatArray, dtype: type[np.floating]
) -> SearchData:
    """Gather what fits of a sample read; those of one line are content with single precision."""
    entries = standardised(responses, weights, noise, dtype)
    return SearchData(responses, entries, np.sqrt(noise.variances), _rows_of_sample(entries))


def with_residuals(data: SearchData, *, worth: RealArray, residuals: RealArray) -> SearchData:
    """Return the same users with other responses."""
    entries = data.entries._replace(worth=worth, residuals=residuals)
    return replace(data, entries=entries, rows=_rows_of_sample(entries))


def rows_of_all_users(responses: AllResponses, noise: Noise, weights: FloatArray) -> FitRows:
    """Gather what fits of all users read, where the responses lie."""
    blocks = responses.blocks.transformed(
        standardised,
        noise,
        np.float32,
        pieces=cut(weights, responses.sizes),
    )
    return _rows(blocks, responses.sizes, weights, np.float32)


def standardised(
    responses: Responses,
    weights: FloatArray,
    noise: Noise,
    dtype: type[np.floating],
) -> StandardisedResponses:
    """Return responses as fits read them, by the means and variances of the cells."""
    deviations, out = np.sqrt(noise.variances), np.empty(len(responses.cells), dtype)
    residuals = whitened(responses.cells, responses.means, noise.means, deviations, out)
    worth = worth_of(responses, noise.taste_share).astype(dtype, copy=False)
    return StandardisedResponses(
        responses.indptr, responses.cells, worth, residuals, weights, responses.n_cells
    )


def _rows_of_sample(entries: StandardisedResponses) -> FitRows:
    strips, n_users = [entries], len(entries.weights)
    if len(entries.cells) > STRIP_ENTRIES:
        strips = [_strip(entries, 0, n_users // 2), _strip(entries, n_users // 2, n_users)]
    sizes = tuple(len(strip.weights) for strip in strips)
    return _rows(Blocked.here(strips), sizes, entries.weights, entries.worth.dtype.type)


def _strip(entries: StandardisedResponses, first: int, last: int) -> StandardisedResponses:
    indptr, cells, worth, residuals, weights, n_cells = entries
    here = slice(indptr[first], indptr[last])
    return StandardisedResponses(
        indptr[first : last + 1] - indptr[first],
        cells[here],
        worth[here],
        residuals[here],
        weights[first:last],
        n_cells,
    )


def _rows(
    blocks: Blocked[StandardisedResponses],
    sizes: tuple[int, ...],
    weights: FloatArray,
    dtype: type[np.floating],
) -> FitRows:
    _, mass, total, _ = blocks.add_blocks(_cell_sums)
    return FitRows(blocks, sizes, weights, mass, total, dtype)


def _cell_sums(entries: StandardisedResponses) -> FloatArray:
    return cell_sums(*entries)


def _line_sums(entries: StandardisedResponses, gammas: RealArray) -> RealArray:
    indptr, cells, worth, residuals, _, n_cells = entries
    return line_sums(indptr, cells, worth, residuals, gammas, n_cells)


def _line_scores(
    entries: StandardisedResponses, means: RealArray, shifts: RealArray
) -> tuple[RealArray, RealArray]:
    return line_scores(*entries[:-1], means, shifts)
