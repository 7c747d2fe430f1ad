"""Mean rewards of cells with a bounded influence of every account, and their shrinkage.

Plays of one account in one cell are correlated, so they count as fewer effective plays. No account
weighs more than three times as much as the average account, neither in a cell nor in total, so k
accounts have at most the share 3k/n of the weight of a cell with n visitors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.engine import Blocked
from unswayed.learners.bounded.honest import MOST_INFLUENCE, PRIOR_SIZE
from unswayed.learners.bounded.rewards import Responses
from unswayed.tallies import entry_users

CONTEXT_PLAYS = 100.0
"""Prior plays with which the log's variance enters each context's variance."""

LENIENCE = 2.0
"""Factor on the estimated variance of cell effects, which makes shrinkage weaker."""

EM_STEPS = 60
"""Number of EM steps for the variance components."""


class CellMeans(NamedTuple):
    """Bounded means of all cells; arrays have shape (n_contexts, n_actions).

    Attributes
    ----------
    means
        Mean rewards; NaN for cells without plays.
    variances
        Sampling variances of the means; infinite for cells without plays.
    masses
        Sums of the accounts' capped effective plays.
    deviations
        Shape (n_contexts, 1); standard deviation of the rewards of each context.
    """

    means: FloatArray
    variances: FloatArray
    masses: FloatArray
    deviations: FloatArray


def find_caps(blocks: Blocked[Responses], n_cells: int) -> FloatArray:
    """Return the cap on an account's mass in each cell: 3 times the harmonic mean over visitors."""
    visitors, inverses = blocks.add_blocks(_inverse_masses, n_cells)
    return np.asarray(MOST_INFLUENCE * visitors / np.maximum(inverses, 1e-300))


def _inverse_masses(rows: Responses, n_cells: int) -> FloatArray:
    return np.stack(
        [
            np.bincount(rows.cells, minlength=n_cells),
            np.bincount(rows.cells, 1 / rows.masses, n_cells),
        ]
    )


def weighed(rows: Responses, correlation: float, most: float = np.inf) -> Responses:
    """Return the rows with their effective plays as masses.

    An account's n plays of a cell count as n/(1 + (n − 1)·correlation) effective plays. An account
    with more than ``most`` effective plays in total is scaled down to ``most``.
    """
    masses = rows.plays / (1.0 + (rows.plays - 1.0) * correlation)
    if np.isfinite(most):
        users = entry_users(rows.indptr)
        total = np.bincount(users, masses, rows.n_users)
        masses *= (most / np.maximum(total, most))[users]
    return replace(rows, masses=masses)


def most_plays(rows: Responses) -> float:
    """Return the cap on an account's total mass: three times the mean of the capped totals."""
    total = np.sort(np.bincount(entry_users(rows.indptr), rows.masses, rows.n_users))
    total = total[total > 0.0]
    n_above = np.arange(len(total))[::-1]
    room = len(total) / MOST_INFLUENCE - n_above
    caps = np.where(room > 0.0, np.cumsum(total) / np.where(room > 0.0, room, 1.0), np.inf)
    return float(caps[(caps <= np.append(total[1:], np.inf)).argmax()])


def cell_means(
    blocks: Blocked[Responses],
    weights: FloatArray,
    caps: FloatArray,
    correlation: float,
) -> CellMeans:
    """Return bounded means; ``caps`` has shape (n_contexts, n_actions), ``weights`` (n_users,)."""
    sums = blocks.add_blocks(_moment_sums, caps.ravel(), correlation, rows=weights)
    mass, first, second, *pulls, noise = (part.reshape(caps.shape) for part in sums)
    is_met = mass > 1e-9
    safe = np.where(is_met, mass, 1.0)
    means = np.where(is_met, first / safe, np.nan)
    spread = np.maximum(second - first * first / safe, 0.0) * is_met
    usual = float(spread.sum() / max(float(mass.sum()), 1e-300))
    in_context = (spread.sum(axis=1, keepdims=True) + CONTEXT_PLAYS * usual) / (
        mass.sum(axis=1, keepdims=True) + CONTEXT_PLAYS
    )
    in_context = np.maximum(in_context, np.finfo(float).tiny ** 0.5)
    # What exceeds the noise of plays in Σ m²(x − mean)² is due to differences between accounts.
    centre = np.where(is_met, means, 0.0)
    pulled = np.maximum(pulls[2] - 2.0 * centre * pulls[1] + centre**2 * pulls[0], 0.0)
    room = np.maximum(pulls[0] - noise, 0.0)
    excess = float((pulled - in_context * noise)[is_met].sum())
    between = min(max(excess / max(float((in_context * room).sum()), 1e-300), 0.0), 1.0)
    variances = np.where(is_met, in_context * (noise + between * room) / safe**2, np.inf)
    return CellMeans(means, variances, mass, np.sqrt(in_context))


def _moment_sums(
    rows: Responses, weights: FloatArray, caps: FloatArray, correlation: float
) -> FloatArray:
    return _sums(
        rows.indptr,
        rows.cells,
        rows.plays,
        rows.masses,
        rows.means,
        rows.squares,
        weights,
        caps,
        correlation,
    )


@compiled
def _sums(
    indptr: IntArray,
    cells: CellArray,
    plays: FloatArray,
    masses: FloatArray,
    means: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    caps: FloatArray,
    correlation: float,
) -> FloatArray:
    out = np.zeros((7, len(caps)))
    for i in range(len(indptr) - 1):
        w = weights[i]
        if w <= 0.0:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            j, x, inflation = cells[p], means[p], 1.0 + (plays[p] - 1.0) * correlation
            m = w * min(masses[p], caps[j])
            out[0, j] += m
            out[1, j] += m * x
            out[2, j] += m * squares[p]
            out[3, j] += m * m
            out[4, j] += m * m * x
            out[5, j] += m * m * x * x
            # With v the variance of one play, the mean of n has variance v·(1 + (n − 1)·rho)/n.
            out[6, j] += m * m * inflation / plays[p]
    return out


class Shrinkage(NamedTuple):
    """Variances of action and cell effects, in units of each context's deviation."""

    actions: float
    cells: float


def shrunken(
    means: FloatArray, cells: CellMeans, parts: Shrinkage | None = None
) -> tuple[FloatArray, Shrinkage]:
    """Return posterior means of context + action + cell effects, and the effects' variances.

    Means are divided by the standard deviation of their context, so that contexts with large
    rewards do not dominate. Context effects are not shrunk, since decisions are made within
    contexts. The variances of action and cell effects are estimated by EM unless ``parts`` is
    given; if it is, the result is linear in the means.
    """
    scale = cells.deviations
    if parts is None:
        _, parts = _shrunken(means / scale, cells.variances / scale**2, None)
        parts = Shrinkage(parts.actions, LENIENCE * parts.cells)
    found, parts = _shrunken(means / scale, cells.variances / scale**2, parts)
    return found * scale, parts


def _shrunken(
    means: FloatArray, variances: FloatArray, parts: Shrinkage | None
) -> tuple[FloatArray, Shrinkage]:
    is_seen = np.isfinite(means) & np.isfinite(variances)
    y = np.where(is_seen, means, 0.0)
    precision = np.where(is_seen, 1.0 / np.where(is_seen, variances, 1.0), 0.0)
    total, n_seen = float(precision.sum()), int(is_seen.sum())
    if n_seen == 0:
        return np.full(means.shape, np.nan), parts or Shrinkage(1.0, 1.0)
    n_contexts, n_actions = means.shape
    in_context = np.maximum(precision.sum(axis=1, keepdims=True), 1e-300)
    context = (precision * y).sum(axis=1, keepdims=True) / in_context
    least = 1e-3 * n_seen / total
    spread = (float((precision * (y - context) ** 2).sum()) - n_seen) / total
    of_action, of_cell = parts or (max(spread / 2.0, least),) * 2
    action, cell = np.zeros((1, n_actions)), np.zeros(means.shape)
    for _ in range(EM_STEPS):
        if n_contexts > 2:
            k = precision.sum(axis=0, keepdims=True) + 1.0 / of_action
            action = (precision * (y - context - cell)).sum(axis=0, keepdims=True) / k
            if parts is None:
                of_action = max(float((action**2 + 1.0 / k).mean()), 1e-3 * least)
        k = precision + 1.0 / of_cell
        cell = precision * (y - context - action) / k
        if parts is None:
            like = PRIOR_SIZE * max(of_cell, of_action if n_contexts > 2 else 0.0)
            total_cell = float((cell**2 + 1.0 / k)[is_seen].sum()) + like
            of_cell = max(total_cell / (n_seen + PRIOR_SIZE), least)
        context = (precision * (y - action - cell)).sum(axis=1, keepdims=True) / in_context
    found = np.where(is_seen, context + action + cell, np.nan)
    return found, Shrinkage(of_action, of_cell)
