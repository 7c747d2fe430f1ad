"""A few numbers per user: tastes, and what the user says beyond them about winners and rivals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.discount.answers import MAD_TO_SD
from unswayed.learners.discount.fit_rows import Data, Entries
from unswayed.learners.discount.settings import RIVALS
from unswayed.learners.discount.tastes.factors import Tastes, fit_tastes
from unswayed.learners.discount.tastes.kernels import taste_profiles
from unswayed.learners.interface import FloatArray, IntArray

FARTHEST = 4.0
"""Ours: profiles are believed up to this many median deviations (made normal) from the median."""


@dataclass(frozen=True, slots=True, eq=False)
class Profiler:
    """How profiles are read off answers; made once a round, used for its nulls too.

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

    def of(self, entries: Entries) -> FloatArray:
        """Return the users' profiles, shape (n_users, n_features)."""
        scaled = (self._raw(entries) - self.centre) / self.spread
        clipped: FloatArray = np.clip(scaled, -FARTHEST, FARTHEST)
        return clipped

    @property
    def n_tastes(self) -> int:
        """How many of the numbers are tastes; winners and rivals follow."""
        return int(self.tastes.loadings.shape[1])

    def _raw(self, entries: Entries) -> FloatArray:
        return taste_profiles(
            entries.indptr,
            entries.cells,
            entries.worth,
            entries.residuals,
            self.tastes.loadings,
            self.tastes.left,
            self.rank_of_cell,
            self.n_rivals,
        )


def profiler_for(data: Data, cell_means: FloatArray, rng: np.random.Generator) -> Profiler:
    """Fit tastes to the data, and learn how profiles lie."""
    answers = data.answers
    shape = (answers.n_contexts, answers.n_actions)
    ranked = np.argsort(-cell_means.reshape(shape), axis=1, kind="stable")
    ranks = np.empty(shape, dtype=np.int64)
    np.put_along_axis(ranks, ranked, np.arange(shape[1])[None, :], axis=1)
    tastes = fit_tastes(data, rng)
    n_rivals = min(RIVALS, shape[1])
    n_features = tastes.loadings.shape[1] + n_rivals
    first = Profiler(tastes, ranks.ravel(), n_rivals, np.zeros(n_features), np.ones(n_features))
    raw = first._raw(data.entries)[data.weights > 0.5]
    centre = np.median(raw, axis=0)
    spread = np.maximum(MAD_TO_SD * np.median(np.abs(raw - centre), axis=0), 1e-6)
    return Profiler(tastes, ranks.ravel(), n_rivals, centre, spread)
