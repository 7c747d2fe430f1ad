"""From an accusation to users' weights, and what is at stake if they are used."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.kernels import cell_sums, decreasing_fit
from unswayed.learners.discount.mixture import Accusation
from unswayed.learners.interface import FloatArray, IntArray


def mirror_weights(accusation: Accusation, weights: FloatArray) -> FloatArray:
    """Return weights that make the accused side no heavier than its mirror image.

    Among users equally far from the good mean along the accused line, if a share p lies on the
    other side, users on the accused side get weight p/(1 − p): what is left is symmetric. p is the
    decreasing fit over the distance. No law of tastes is assumed but that it is two-sided.

    Returns
    -------
    Shape (n_users,), in [0, 1].
    """
    along = accusation.scores / (1.0 + accusation.taste * accusation.strengths)
    known = np.flatnonzero(weights > 0)
    ranked = known[np.argsort(np.abs(along[known]), kind="stable")]
    is_light = (along[ranked] < 0).astype(float)
    p = decreasing_fit(is_light, weights[ranked])
    result = np.ones(len(weights))
    is_heavy = along[ranked] > 0
    share = p[is_heavy]
    result[ranked[is_heavy]] = np.minimum(1.0, share / np.maximum(1.0 - share, 1e-9))
    return result


def pooled_means(answers: Answers, weights: FloatArray) -> FloatArray:
    """Return the weighted mean reward of each cell; NaN where nobody counts.

    Returns
    -------
    Shape (n_contexts, n_actions).
    """
    _, mass, total, _ = cell_sums(
        answers.indptr, answers.cells, answers.masses, answers.means, weights, answers.n_cells
    )
    means = np.where(mass > 0, total / np.maximum(mass, 1e-300), np.nan)
    return means.reshape(answers.n_contexts, answers.n_actions)


def best_actions(means: FloatArray) -> IntArray:
    """Return the best known action of each context."""
    best: IntArray = np.where(np.isnan(means), -np.inf, means).argmax(axis=1)
    return best


def stake(answers: Answers, standing: IntArray, after: FloatArray) -> float:
    """Return what decisions gain over the standing ones, by the means after the accusation."""
    means = pooled_means(answers, after)
    rows = np.arange(answers.n_contexts)
    gains = np.nan_to_num(means[rows, best_actions(means)] - means[rows, standing])
    return float(answers.context_probabilities @ gains)
