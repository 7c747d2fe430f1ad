"""Cells whose mean leans away from where most users are: bounded influence where it is needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.engine import cut
from unswayed.learners.discount.aims import unless_by_chance
from unswayed.learners.discount.answers import MAD_TO_SD, AllAnswers, Answers
from unswayed.learners.discount.cell_groups import CellGroup, grouped_by_cell
from unswayed.learners.discount.cell_kernels import redescending_means
from unswayed.learners.discount.kernels import CellArray, RealArray
from unswayed.learners.discount.noise import Noise, worth_of
from unswayed.learners.discount.one_mean.search import REDESCENDER
from unswayed.learners.interface import BoolArray, FloatArray

CLEAR_LEAN = 4.5
"""Ours: deviations from the lean of the other cells (from earlier prototypes)."""

LEAST_DEVIATION = 0.25
"""Ours: smallest deviation of leans, in standard errors."""

ENOUGH_PLAYS = 1.5
"""Ours: binary answers show a shape if plays times variance exceed this on average."""

FEWEST_CELLS = 4
"""Ours: with fewer cells there is no telling what lean is common."""


class Leaning(NamedTuple):
    """Which cells lean, and the centres that decide them; shapes (n_cells,)."""

    is_leaning: BoolArray
    centres: FloatArray


def leaning_cells(answers: AllAnswers, noise: Noise, weights: FloatArray) -> Leaning:
    """Return cells whose mean is far from the redescending mean, compared with the other cells.

    Rewards may be skewed, so that mean and centre differ honestly; the common lean is allowed for,
    and added back. This bounds coalitions that lie in so few cells that no user shows it twice.
    """
    has_shape = noise.mass > 0
    if answers.is_binary:
        has_shape &= noise.mass * noise.variances > ENOUGH_PLAYS * noise.users
    if has_shape.sum() < FEWEST_CELLS:
        return Leaning(np.zeros(answers.n_cells, dtype=np.bool_), noise.means)
    centres = _centres(answers, noise, weights)
    deviations = np.sqrt(noise.variances)
    # In standard deviations, not errors: skewed rewards lean as far however many there are.
    leans = (noise.means - centres) / deviations
    common = float(np.median(leans[has_shape]))
    clear = np.abs(leans - common) * np.sqrt(noise.mass)
    usual = MAD_TO_SD * float(np.median(clear[has_shape]))
    is_far = clear > CLEAR_LEAN * max(usual, LEAST_DEVIATION)
    return Leaning(has_shape & is_far, centres + common * deviations)


def _centres(answers: AllAnswers, noise: Noise, weights: FloatArray) -> FloatArray:
    """Return the redescending mean of each cell; shape (n_cells,)."""
    pieces = [(piece, noise.taste_share) for piece in cut(weights, answers.sizes)]
    by_cell = grouped_by_cell(answers.blocks, _read, pieces, noise.users)
    return by_cell.of_each_cell(_redescended, np.sqrt(noise.variances))


def _read(
    answers: Answers, piece: tuple[FloatArray, float]
) -> tuple[CellArray, tuple[RealArray, ...]]:
    """Return entries in single precision: all of them are moved and held twice."""
    weights, taste_share = piece
    of_users = weights.astype(np.float32)[answers.users]
    columns = (worth_of(answers, taste_share), answers.means)
    return answers.cells, (*(column.astype(np.float32) for column in columns), of_users)


def _redescended(group: CellGroup, deviations: FloatArray) -> FloatArray:
    worth, means, weights = group.columns
    return redescending_means(group.starts, worth, means, weights, deviations, *REDESCENDER)


def upright_means(
    means: FloatArray, errors: FloatArray, leaning: Leaning, rng: np.random.Generator
) -> FloatArray:
    """Return the means with leaning cells upright, if the leans aim at decisions.

    Tastes lean too, wherever they are skewed, but do not know which action wins.

    Parameters
    ----------
    means, errors
        Shape (n_contexts, n_actions); means and their standard errors, NaN where nothing is known.
    leaning
        Which cells lean, and where they would stand upright.
    rng
        Deals are drawn from it.
    """
    leans = leaning.is_leaning.reshape(means.shape)
    upright = np.where(leans, leaning.centres.reshape(means.shape), means)
    return unless_by_chance(means, upright, errors, rng)
