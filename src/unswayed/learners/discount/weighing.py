"""Decisions under users' weights, and what is at stake if an accusation is believed."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.dealing import chance_of_aim
from unswayed.learners.discount.everybody import AnyAnswers
from unswayed.learners.discount.kernels import cell_sums
from unswayed.learners.interface import FloatArray, IntArray


def pooled_means(answers: AnyAnswers, weights: FloatArray) -> FloatArray:
    """Return the weighted mean reward of each cell; NaN where nobody counts.

    Returns
    -------
    Shape (n_contexts, n_actions).
    """
    _, mass, total, _ = answers.added(_plain_sums, weights)
    means = np.where(mass > 0, total / np.maximum(mass, 1e-300), np.nan)
    return means.reshape(answers.n_contexts, answers.n_actions)


def _plain_sums(answers: Answers, weights: FloatArray) -> FloatArray:
    return cell_sums(
        answers.indptr, answers.cells, answers.plays, answers.means, weights, answers.n_cells
    )


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


def aims_by_chance(
    answers: Answers, weights: FloatArray, accused: FloatArray, rng: np.random.Generator
) -> float:
    """Return the p-value that the accused pull decisions as far as they do by chance."""
    _, mass, _, _ = _plain_sums(answers, weights)
    _, theirs, _, _ = _plain_sums(answers, weights * accused)
    rest = np.maximum(mass - theirs, 1e-9)
    # The pull is the share of the accused in a cell times how far they are from the others.
    errors = np.sqrt(np.maximum(theirs, 1e-9) / (rest * np.maximum(mass, 1e-9)))
    return chance_of_aim(
        pooled_means(answers, weights),
        pooled_means(answers, weights * (1.0 - accused)),
        errors.reshape(answers.n_contexts, answers.n_actions),
        rng,
    )
