"""Users with the same tastes and the same answers per cell, but without a coalition."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.fit_rows import Data, with_answers
from unswayed.learners.discount.tastes.factors import Tastes


def without_coalition(data: Data, tastes: Tastes, rng: np.random.Generator) -> Data:
    """Draw answers from a normal copula.

    Every user gets normal tastes and normal noise beyond them. Within a cell the answers that were
    given are then dealt out in the order of these numbers. So every cell keeps its answers, skew
    and all, cells go together as tastes make them, and there is no second population.
    """
    answers, worth = data.answers, data.worth
    cells = answers.cells
    own = rng.standard_normal((answers.n_users, tastes.loadings.shape[1]))
    common = np.einsum("ka,ka->k", tastes.loadings[cells], own[answers.users])
    noise = np.sqrt(tastes.left[cells] / worth)
    spread = np.sqrt((tastes.loadings**2).sum(axis=1)[cells] + noise**2)
    latent = (common + noise * rng.standard_normal(len(cells))) / spread
    dealt = np.empty_like(data.residuals)
    dealt[np.lexsort((latent, cells))] = data.residuals[np.lexsort((data.residuals, cells))]
    return with_answers(data, worth=worth, residuals=dealt)
