"""Standardised residuals, which the fits read: of one block or a sample, and of all users."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.engine import Blocked
from unswayed.learners.discount.responses.kernels import RealArray, cell_sums, whitened
from unswayed.learners.discount.responses.line_kernels import line_scores, line_sums
from unswayed.learners.discount.responses.noise import Noise, worth_of
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses

STRIP_ENTRIES = 50_000
"""Ours: samples with more entries are read in two strips of users at a time. Whatever the cores:
sums must not depend on them."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Standardised residuals of a block or a sample.

    Attributes
    ----------
    responses
        The rows.
    worth, residuals
        Shape (n_entries,); e, and x: responses less their cell's mean, in standard deviations.
    weights
        Shape (n_users,); the users' present weights.
    deviations
        Shape (n_cells,); standard deviation of one independent response.
    """

    responses: Responses
    worth: RealArray
    residuals: RealArray
    weights: FloatArray
    deviations: FloatArray

    @cached_property
    def strips(self) -> BlockedResiduals:
        """The same, cut into strips of users that fits read on two threads if there are many."""
        n_users, strips = len(self.weights), [self]
        if len(self.worth) > STRIP_ENTRIES:
            strips = [self._strip(0, n_users // 2), self._strip(n_users // 2, n_users)]
        sizes = tuple(len(strip.weights) for strip in strips)
        return _with_sums(Blocked.here(strips, sizes), self.weights, self.worth.dtype.type)

    def line_sums(self, gammas: RealArray) -> RealArray:
        """Return Σ γ·e and Σ γ·e·x per cell; shape (2, n_cells, n_lines)."""
        rows = (self.responses.indptr, self.responses.cells, self.worth, self.residuals)
        return line_sums(*rows, gammas, self.responses.n_cells)

    def line_scores(self, means: RealArray, shifts: RealArray) -> tuple[RealArray, RealArray]:
        """Return s = Σ e·δ·(x − μ) and D² = Σ e·δ² of users; shapes (n_users, n_lines)."""
        rows = (self.responses.indptr, self.responses.cells, self.worth, self.residuals)
        return line_scores(*rows, self.weights, means, shifts)

    def cell_sums(self) -> FloatArray:
        """Return Σ w, Σ w·e, Σ w·e·x and Σ w·e·x² per cell; shape (4, n_cells)."""
        rows = (self.responses.indptr, self.responses.cells, self.worth, self.residuals)
        return cell_sums(*rows, self.weights, self.responses.n_cells)

    def _strip(self, first: int, last: int) -> Residuals:
        here = slice(*self.responses.indptr[[first, last]])
        return Residuals(
            self.responses.of_range(first, last),
            self.worth[here],
            self.residuals[here],
            self.weights[first:last],
            self.deviations,
        )


@dataclass(frozen=True, slots=True, eq=False)
class BlockedResiduals:
    """Residuals in blocks of users, read by the two passes of a step of EM.

    Attributes
    ----------
    blocks
        The residuals of each block.
    weights
        Shape (n_users,); the users' present weights.
    mass, total
        Shape (n_cells,); Σ w·e and Σ w·e·x, which every step needs.
    dtype
        Precision of entries and sums.
    """

    blocks: Blocked[Residuals]
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
        masses, totals = self.blocks.add_blocks(Residuals.line_sums, rows=gammas)
        return masses, totals

    def line_scores(self, means: RealArray, shifts: RealArray) -> tuple[RealArray, RealArray]:
        """Return s = Σ e·δ·(x − μ) and D² = Σ e·δ² of users; shapes (n_users, n_lines)."""
        parts = self.blocks.map_blocks(Residuals.line_scores, means, shifts)
        if len(parts) == 1:
            return parts[0]
        scores, strengths = zip(*parts, strict=True)
        return np.concatenate(scores), np.concatenate(strengths)


def residuals_of(
    responses: Responses, weights: FloatArray, noise: Noise, dtype: type[np.floating]
) -> Residuals:
    """Return standardised residuals; single precision is enough to fit one line."""
    deviations, out = np.sqrt(noise.variances), np.empty(len(responses.cells), dtype)
    residuals = whitened(responses.cells, responses.means, noise.means, deviations, out)
    worth = worth_of(responses, noise.taste_share).astype(dtype, copy=False)
    return Residuals(responses, worth, residuals, weights, deviations)


def blocked_residuals(
    responses: BlockedResponses, noise: Noise, weights: FloatArray
) -> BlockedResiduals:
    """Return the residuals of all users, where their responses lie."""
    blocks = responses.blocks.transformed(residuals_of, noise, np.float32, rows=weights)
    return _with_sums(blocks, weights, np.float32)


def _with_sums(
    blocks: Blocked[Residuals], weights: FloatArray, dtype: type[np.floating]
) -> BlockedResiduals:
    _, mass, total, _ = blocks.add_blocks(Residuals.cell_sums)
    return BlockedResiduals(blocks, weights, mass, total, dtype)
