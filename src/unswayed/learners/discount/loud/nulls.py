"""The same log without a coalition: who met what stays, answers are drawn from the honest model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.learners.discount.loud.honest import Fit
from unswayed.learners.discount.loud.kernels import drawn_anew, n_draws
from unswayed.learners.discount.loud.testimony import ClassArray, Counts


def without_coalition(
    counts: Counts, classes: ClassArray, honest: Fit, rng: np.random.Generator
) -> Counts:
    """Return counts of honest users who met the same cells.

    Laws are drawn from their posterior, for fitted ones lie too near to what was seen; levels from
    the posterior of each user, tastes from the model.
    """
    model = honest.model
    pseudo = model.laws * (model.plays[:, None] + model.strength)
    laws = rng.standard_gamma(np.maximum(pseudo, 1e-3))
    laws = np.maximum(laws / laws.sum(axis=1, keepdims=True), 1e-9)
    upto = np.cumsum(model.tilted_laws(laws / laws.sum(axis=1, keepdims=True)), axis=1)
    reached = np.cumsum(honest.levels, axis=1)[:, :-1]
    levels = (rng.random(counts.n_users)[:, None] > reached).sum(axis=1)
    n_classes = int(classes.max()) + 1
    tastes = rng.choice(len(model.tastes), p=model.tastes, size=(counts.n_users, n_classes))
    indptr, keys, values = drawn_anew(
        counts.indptr,
        counts.keys,
        counts.counts,
        counts.n_categories,
        classes,
        np.ascontiguousarray(upto.transpose(0, 2, 1)),
        levels,
        model.grid.offsets[tastes],
        rng.random(n_draws(counts.indptr, counts.keys, counts.counts, counts.n_categories)),
    )
    return replace(counts, indptr=indptr, keys=keys, counts=values)
