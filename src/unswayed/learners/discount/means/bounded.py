"""Mean rewards of cells with bounded influence of every account, shrunk towards each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses

LARGEST = 3
"""Plays and pulls of an account are capped at the third largest of the cell: one account cannot
raise that, nor can two. More are a coalition, and searched for as such."""

LEAST_PLAYS = 10.0
"""So many plays of an account in a cell always count; its pull is bounded all the same."""

STEPS = 3
"""Steps from the mean with bounded plays to the mean with bounded pulls."""

CONTEXT_PLAYS = 100.0
"""The variance of rewards in a context is shrunk towards the log's with this many pseudo-plays."""

UNBOUNDED = 1e300
"""No bound: in the first pass pulls are from zero, and nothing is known yet of their size."""


class Values(NamedTuple):
    """Estimates of all cells.

    Attributes
    ----------
    means
        Shape (n_contexts, n_actions); means with bounded influence.
    variances
        Same shape; their sampling variances, infinite without plays.
    shrunken
        Same shape; posterior means, by which decisions are taken.
    bounded
        Share of all plays that are cut off because one account had too many of them.
    """

    means: FloatArray
    variances: FloatArray
    shrunken: FloatArray
    bounded: float


def cell_values(responses: BlockedResponses, weights: FloatArray) -> Values:
    """Estimate mean rewards with bounded influence, then shrink them.

    Notes
    -----
    In a cell, an account's plays count up to ten or the third largest number, and its pull, plays
    times the distance of its mean from the cell's, up to the third largest pull; but a pull of one
    play as far out as the third farthest user of the whole log is always allowed, so that the few
    clicks of a rare cell are not cut. More events of an account beyond that change nothing.
    """
    third = _third(responses.blocks.map_blocks(_masses, rows=weights))
    most = np.maximum(third, LEAST_PLAYS)
    centre, most_pull = np.zeros(responses.n_cells), np.full(responses.n_cells, UNBOUNDED)
    one_play = UNBOUNDED
    for step in range(STEPS + 1):
        if step > 0:
            found = responses.blocks.map_blocks(_pulls, most, centre, rows=weights)
            one_play = float(_third([farthest[None, :] for _, farthest in found])[0])
            most_pull = np.maximum(_third([pulls for pulls, _ in found]), one_play)
        mass, plays, pull, *squares = responses.blocks.add_blocks(
            _sums, most, centre, most_pull, one_play, rows=weights
        )
        centre = centre + np.where(mass > 1e-9, pull / np.maximum(mass, 1e-300), 0.0)
    shape = (responses.n_contexts, responses.n_actions)
    variances = _variances(mass.reshape(shape), *(part.reshape(shape) for part in squares))
    means = np.where(mass > 1e-9, centre, np.nan).reshape(shape)
    bounded = 1.0 - float(mass.sum()) / max(float(plays.sum()), 1e-300)
    return Values(means, variances, shrunken_means(means, variances).means, bounded)


def _variances(
    mass: FloatArray, pulls: FloatArray, spread: FloatArray, masses: FloatArray
) -> FloatArray:
    """Return sampling variances of cell means; infinite without plays.

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


def _masses(responses: Responses, weights: FloatArray) -> FloatArray:
    return largest_masses(
        responses.indptr, responses.cells, responses.plays, weights, responses.n_cells, LARGEST
    )


def _pulls(
    responses: Responses, weights: FloatArray, most: FloatArray, centre: FloatArray
) -> tuple[FloatArray, FloatArray]:
    return largest_pulls(
        responses.indptr,
        responses.cells,
        responses.plays,
        responses.rewards,
        weights,
        most,
        centre,
        LARGEST,
    )


def _sums(
    responses: Responses,
    weights: FloatArray,
    most: FloatArray,
    centre: FloatArray,
    most_pull: FloatArray,
    one_play: float,
) -> FloatArray:
    return bounded_sums(
        responses.indptr,
        responses.cells,
        responses.plays,
        responses.rewards,
        responses.within,
        weights,
        most,
        centre,
        most_pull,
        one_play,
    )


SHRINKAGE_STEPS = 60
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
    for _ in range(SHRINKAGE_STEPS):
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


@compiled
def largest_masses(
    indptr: IntArray, cells: CellArray, n: FloatArray, w: FloatArray, n_cells: int, count: int
) -> FloatArray:
    """Return the largest w·n of each cell, ascending, 0 where there are fewer."""
    largest = np.zeros((n_cells, count))
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            _insert(largest[cells[k]], w[i] * n[k])
    return largest


@compiled
def largest_pulls(
    indptr: IntArray,
    cells: CellArray,
    n: FloatArray,
    r: FloatArray,
    w: FloatArray,
    most: FloatArray,
    centre: FloatArray,
    count: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the largest pulls of each cell, and the largest |r − centre| over users; ascending."""
    largest, farthest = np.zeros((most.size, count)), np.zeros(count)
    for i in range(indptr.size - 1):
        far = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = cells[k]
            distance = min(w[i], 1.0) * abs(r[k] - centre[j])
            far = max(far, distance)
            _insert(largest[j], min(w[i] * n[k], most[j]) * abs(r[k] - centre[j]))
        _insert(farthest, far)
    return largest, farthest


@compiled
def _insert(ascending: FloatArray, value: float) -> None:
    """Put a value into its place if it is larger than the smallest, which goes."""
    if value <= ascending[0]:
        return
    place = 0
    while place + 1 < ascending.size and ascending[place + 1] < value:
        ascending[place] = ascending[place + 1]
        place += 1
    ascending[place] = value


@compiled
def bounded_sums(
    indptr: IntArray,
    cells: CellArray,
    n: FloatArray,
    r: FloatArray,
    within: FloatArray,
    w: FloatArray,
    most: FloatArray,
    centre: FloatArray,
    most_pull: FloatArray,
    one_play: float,
) -> FloatArray:
    """Return sums per cell of mass, w·n, pull, pull², squares of rewards, mass²; (6, n_cells).

    Pulls are cut at ``most_pull``. Squares are around the centre, with distances cut at
    ``one_play``; ``within`` are those around the entry's own mean, NaN where unknown.
    """
    sums = np.zeros((most.size, 6))
    for i in range(indptr.size - 1):
        if w[i] <= 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint32(cells[k])
            mass = min(w[i] * n[k], most[j])
            distance = r[k] - centre[j]
            pull = min(max(mass * distance, -most_pull[j]), most_pull[j])
            far = min(abs(distance), one_play)
            own = 0.0 if np.isnan(within[k]) else within[k] / n[k]
            sums[j, 0] += mass
            sums[j, 1] += w[i] * n[k]
            sums[j, 2] += pull
            sums[j, 3] += pull * pull
            sums[j, 4] += mass * (far * far + min(own, one_play * one_play))
            sums[j, 5] += mass * mass
    return np.ascontiguousarray(sums.T)
