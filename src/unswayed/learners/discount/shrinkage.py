"""Shrink the means of cells towards what contexts and actions have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.learners.interface import FloatArray

STEPS = 60
"""Steps of EM. Each is a pass over the table of cells."""

LEAST_SPREAD = 1e-3
"""Variance between cells is at least this share of the harmonic mean of their sampling variances:
cells with equal support keep their order, however much alike they look."""

LEAST_CONTEXTS = 3
"""With fewer contexts nothing is known of an action but what its own cells say."""


class Shrunken(NamedTuple):
    """Posterior means of the cells, and variances of the effects that they were shrunk by."""

    means: FloatArray
    of_contexts: float
    of_actions: float
    of_cells: float


def shrunken_means(means: FloatArray, variances: FloatArray) -> Shrunken:
    """Return posterior means under μ_sa = m + c_s + b_a + g_sa, all effects normal.

    Parameters
    ----------
    means
        Shape (n_contexts, n_actions); NaN where nothing was seen, and so is the result.
    variances
        Same shape; sampling variances of the means, infinite where nothing was seen.

    Notes
    -----
    The variances of the effects are estimated by EM with independent posteriors (mean field). What
    is the same everywhere is found in the data: if actions have nothing in common over contexts,
    cells are not shrunk towards it. Shift and scale equivariant.

    Examples
    --------
    >>> shrunken_means(np.array([[0.0, 1.0, 0.2]]), np.full((1, 3), 1e-9)).means.round(3).tolist()
    [[0.0, 1.0, 0.2]]
    """
    is_seen = np.isfinite(means) & np.isfinite(variances)
    if not is_seen.any():
        return Shrunken(np.full(means.shape, np.nan), 0.0, 0.0, 0.0)
    y = np.where(is_seen, means, 0.0)
    precision = np.where(is_seen, 1.0 / np.where(is_seen, variances, 1.0), 0.0)
    total = precision.sum()
    centre = float((precision * y).sum() / total)
    least = LEAST_SPREAD * float(is_seen.sum() / total)
    spread = float((precision * (y - centre) ** 2).sum() - is_seen.sum()) / total
    of_contexts = of_actions = of_cells = max(spread / 3.0, least)
    contexts = np.zeros((means.shape[0], 1))
    actions = np.zeros((1, means.shape[1]))
    cells = np.zeros(means.shape)
    for _ in range(STEPS):
        if means.shape[0] > 1:
            known = precision.sum(axis=1, keepdims=True) + 1.0 / of_contexts
            rest = precision * (y - centre - actions - cells)
            contexts = rest.sum(axis=1, keepdims=True) / known
            of_contexts = max(float((contexts**2 + 1.0 / known).mean()), 1e-3 * least)
        if means.shape[0] >= LEAST_CONTEXTS:
            known = precision.sum(axis=0, keepdims=True) + 1.0 / of_actions
            rest = precision * (y - centre - contexts - cells)
            actions = rest.sum(axis=0, keepdims=True) / known
            of_actions = max(float((actions**2 + 1.0 / known).mean()), 1e-3 * least)
        known = precision + 1.0 / of_cells
        cells = precision * (y - centre - contexts - actions) / known
        seen_squares = (cells**2 + 1.0 / known)[is_seen]
        of_cells = max(float(seen_squares.mean()), least)
        centre = float((precision * (y - contexts - actions - cells)).sum() / total)
    result = np.where(is_seen, centre + contexts + actions + cells, np.nan)
    return Shrunken(result, of_contexts, of_actions, of_cells)
