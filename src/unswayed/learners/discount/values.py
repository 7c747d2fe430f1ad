"""Mean rewards of cells in which no single account has much of a say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.engine import cut
from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.everybody import Everybody
from unswayed.learners.discount.shrinkage import shrunken_means
from unswayed.learners.discount.value_kernels import (
    bounded_sums,
    largest_masses,
    largest_pulls,
)
from unswayed.learners.interface import FloatArray

LARGEST = 3
"""An account counts as the third largest at most: one account cannot raise what the third does, nor
can two. More than two are a coalition, and looked for as such."""

LEAST_PLAYS = 10.0
"""So many plays of an account in a cell always count; its pull is bounded all the same."""

STEPS = 3
"""Steps from the mean with bounded plays to the mean with bounded pulls."""

CONTEXT_PLAYS = 100.0
"""The variance of rewards in a context is averaged with the log's as if from so many plays."""

UNBOUNDED = 1e300
"""No bound: in the first pass pulls are from zero, and nothing is known yet of their size."""


class Values(NamedTuple):
    """What the cells are worth.

    Attributes
    ----------
    means
        Shape (n_contexts, n_actions); means in which every account's say is bounded.
    variances
        Same shape; their sampling variances, infinite where nobody counts.
    shrunken
        Same shape; posterior means, by which decisions are taken.
    bounded
        Share of all plays that do not count because one account had too many of them.
    """

    means: FloatArray
    variances: FloatArray
    shrunken: FloatArray
    bounded: float


def cell_values(answers: Everybody, weights: FloatArray) -> Values:
    """Estimate mean rewards with bounded influence, then shrink them.

    Notes
    -----
    In a cell, an account's plays count up to ten or the third largest number, and its pull, plays
    times the distance of its mean from the cell's, up to the third largest pull; but a pull of one
    play as far out as the third farthest user of the whole log is always allowed, so that the few
    clicks of a rare cell are not cut. Who doubles their events beyond that changes nothing.
    """
    pieces = cut(weights, answers.sizes)
    third = _third(answers.blocks.map_blocks(_masses, pieces=pieces))
    most = np.maximum(third, LEAST_PLAYS)
    centre, most_pull = np.zeros(answers.n_cells), np.full(answers.n_cells, UNBOUNDED)
    one_play = UNBOUNDED
    for step in range(STEPS + 1):
        if step > 0:
            found = answers.blocks.map_blocks(_pulls, most, centre, pieces=pieces)
            one_play = float(_third([farthest[None, :] for _, farthest in found])[0])
            most_pull = np.maximum(_third([pulls for pulls, _ in found]), one_play)
        mass, plays, pull, *squares = answers.blocks.add_blocks(
            _sums, most, centre, most_pull, one_play, pieces=pieces
        )
        centre = centre + np.where(mass > 1e-9, pull / np.maximum(mass, 1e-300), 0.0)
    shape = (answers.n_contexts, answers.n_actions)
    variances = _variances(mass.reshape(shape), *(part.reshape(shape) for part in squares))
    means = np.where(mass > 1e-9, centre, np.nan).reshape(shape)
    bounded = 1.0 - float(mass.sum()) / max(float(plays.sum()), 1e-300)
    return Values(means, variances, shrunken_means(means, variances).means, bounded)


def _variances(
    mass: FloatArray, pulls: FloatArray, spread: FloatArray, masses: FloatArray
) -> FloatArray:
    """Return sampling variances of cell means; infinite where nobody counts.

    A reward has a variance by context, of which a part b lies between users: the mean of masses m
    has variance (v·Σm + b·Σ(m² − m))/(Σm)², and b is what the squared pulls of all users show.

    Parameters
    ----------
    mass, pulls, spread, masses
        Shape (n_contexts, n_actions); Σm, Σ of squared pulls, squares of rewards, and Σm².
    """
    whole = float(spread.sum() / max(mass.sum(), 1e-300))
    of_context = (spread.sum(axis=1, keepdims=True) + CONTEXT_PLAYS * whole) / (
        mass.sum(axis=1, keepdims=True) + CONTEXT_PLAYS
    )
    again = np.maximum(masses - mass, 0.0)
    # As a share of the variance, so that it is the same in all contexts.
    excess = float((pulls - mass * of_context).sum())
    between = min(max(excess / max(float((again * of_context).sum()), 1e-300), 0.0), 1.0)
    is_seen = mass > 1e-9
    one = np.maximum(of_context * (mass + between * again), np.finfo(float).tiny ** 0.5)
    result: FloatArray = np.where(is_seen, one / np.where(is_seen, mass, 1.0) ** 2, np.inf)
    return result


def _third(largest: list[FloatArray]) -> FloatArray:
    """Return the third largest of what the blocks found, for each row."""
    third: FloatArray = np.sort(np.concatenate(largest, axis=1), axis=1)[:, -LARGEST]
    return third


def _masses(answers: Answers, weights: FloatArray) -> FloatArray:
    return largest_masses(
        answers.indptr, answers.cells, answers.plays, weights, answers.n_cells, LARGEST
    )


def _pulls(
    answers: Answers, weights: FloatArray, most: FloatArray, centre: FloatArray
) -> tuple[FloatArray, FloatArray]:
    return largest_pulls(
        answers.indptr,
        answers.cells,
        answers.plays,
        answers.rewards,
        weights,
        most,
        centre,
        LARGEST,
    )


def _sums(
    answers: Answers,
    weights: FloatArray,
    most: FloatArray,
    centre: FloatArray,
    most_pull: FloatArray,
    one_play: float,
) -> FloatArray:
    return bounded_sums(
        answers.indptr,
        answers.cells,
        answers.plays,
        answers.rewards,
        answers.within,
        weights,
        most,
        centre,
        most_pull,
        one_play,
    )
