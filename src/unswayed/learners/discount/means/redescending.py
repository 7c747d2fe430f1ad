"""A redescending M-estimator for cells whose mean leans away from where most users are."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.discount.responses.cells import CellEntries, map_cells
from unswayed.learners.discount.responses.kernels import RealArray
from unswayed.learners.discount.responses.noise import Noise, worth_of
from unswayed.learners.discount.responses.responses import MAD_TO_SD, BlockedResponses, Responses
from unswayed.learners.discount.trial.aims import unless_by_chance

REDESCENDER = (1.5, 3.0)
"""Ours: responses count fully up to 1.5 deviations from the centre and not at all beyond 3."""

CLEAR_LEAN = 4.5
"""Ours: deviations from the lean of the other cells (from earlier prototypes)."""

LEAST_DEVIATION = 0.25
"""Ours: smallest deviation of leans, in standard errors."""

ENOUGH_PLAYS = 1.5
"""Ours: binary responses show a shape if plays times variance exceed this on average."""

FEWEST_CELLS = 4
"""Ours: with fewer cells there is no telling what lean is common."""


class Leaning(NamedTuple):
    """Which cells lean, and the centres that decide them; shapes (n_cells,)."""

    is_leaning: BoolArray
    centres: FloatArray


def leaning_cells(responses: BlockedResponses, noise: Noise, weights: FloatArray) -> Leaning:
    """Return cells whose mean is far from the redescending mean, compared with the other cells.

    Rewards may be skewed, so that mean and centre differ honestly; the common lean is allowed for,
    and added back. This bounds coalitions that lie in so few cells that no user shows it twice.
    """
    has_shape = noise.mass > 0
    if responses.is_binary:
        has_shape &= noise.mass * noise.variances > ENOUGH_PLAYS * noise.users
    if has_shape.sum() < FEWEST_CELLS:
        return Leaning(np.zeros(responses.n_cells, dtype=np.bool_), noise.means)
    centres = _centres(responses, noise, weights)
    deviations = np.sqrt(noise.variances)
    # In standard deviations, not errors: skewed rewards lean as far however many there are.
    leans = (noise.means - centres) / deviations
    common = float(np.median(leans[has_shape]))
    clear = np.abs(leans - common) * np.sqrt(noise.mass)
    usual = MAD_TO_SD * float(np.median(clear[has_shape]))
    is_far = clear > CLEAR_LEAN * max(usual, LEAST_DEVIATION)
    return Leaning(has_shape & is_far, centres + common * deviations)


def _centres(responses: BlockedResponses, noise: Noise, weights: FloatArray) -> FloatArray:
    """Return the redescending mean of each cell; shape (n_cells,)."""
    read = partial(_read, taste_share=noise.taste_share)
    deviations = np.sqrt(noise.variances)
    return map_cells(
        responses.blocks, read, _redescended, noise.users, rows=weights, values=deviations
    )


def _read(
    responses: Responses, weights: FloatArray, taste_share: float
) -> tuple[CellArray, tuple[RealArray, ...]]:
    """Return entries in single precision: all of them are moved and held twice."""
    of_users = weights.astype(np.float32)[responses.users]
    columns = (worth_of(responses, taste_share), responses.means)
    return responses.cells, (*(column.astype(np.float32) for column in columns), of_users)


def _redescended(group: CellEntries, deviations: FloatArray) -> FloatArray:
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
        Permutations are drawn from it.
    """
    leans = leaning.is_leaning.reshape(means.shape)
    upright = np.where(leans, leaning.centres.reshape(means.shape), means)
    return unless_by_chance(means, upright, errors, rng)


@compiled
def redescending_means(
    starts: IntArray,
    e: RealArray,
    y: RealArray,
    w: RealArray,
    deviations: FloatArray,
    flat: float,
    end: float,
) -> FloatArray:
    """Return per cell the mean of users' means that counts none beyond ``end`` deviations.

    Weight one up to ``flat`` deviations, a cosine down to zero at ``end``; started at the median,
    ended once it moves by less than a hundredth of its standard error. Entries go cell by
    cell; ``w`` are the weights of their users.
    """
    n_cells = starts.size - 1
    centres = np.zeros(n_cells)
    values, precision, mass = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    for j in range(n_cells):
        n, everything = 0, 0.0
        for q in range(starts[j], starts[j + 1]):
            if w[q] > 0.05:
                values[n], mass[n] = y[q], e[q] * w[q]
                precision[n] = np.sqrt(e[q]) / deviations[j]
                everything += mass[n]
                n += 1
        if n == 0:
            continue
        settled = 0.01 * deviations[j] / np.sqrt(everything)
        centre = float(np.median(values[:n]))
        for _ in range(12):
            total, weighted = 0.0, 0.0
            for k in range(n):
                z = abs(values[k] - centre) * precision[k]
                if z < end:
                    share = 1.0
                    if z > flat:
                        share = 0.5 * (1.0 + np.cos(np.pi * (z - flat) / (end - flat)))
                    total += share * mass[k]
                    weighted += share * mass[k] * values[k]
            if total == 0.0:
                break
            moved = abs(weighted / total - centre)
            centre = weighted / total
            if moved < settled:
                break
        centres[j] = centre
    return centres
