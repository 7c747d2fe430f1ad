"""Mean rewards of cells in which the influence of every account is bounded, and their shrinkage.

An account's n plays of a cell are worth fewer, since they are correlated. No account counts more
than three times as much as the average account, in a cell and in all: k accounts carry at most the
share 3k/n of a cell with n visitors.
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
"""The variance of rewards in a context is shrunk towards the log's by this many plays."""

LENIENCE = 2.0

EM_STEPS = 60
"""Steps of EM for the variance components."""


class CellMeans(NamedTuple):
    """Bounded means of all cells; arrays have shape (n_contexts, n_actions).

    Attributes
    ----------
    means
        NaN without plays.
    variances
        Sampling variances of the means; infinite without plays.
    masses
        Effective plays that count.
    deviations
        Shape (n_contexts, 1); standard deviation of the rewards of each context.
    """

    means: FloatArray
    variances: FloatArray
    masses: FloatArray
    deviations: FloatArray


def find_caps(blocks: Blocked[Responses], n_cells: int) -> FloatArray:
    """Return the cap on an account's mass in each cell: three times the harmonic mean."""
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
    """Return the rows with effective plays.

    An account's n plays of a cell are worth n/(1 + (n − 1)·correlation), as evidence. For the means
    an account that has more than ``most`` of them in all is scaled down to that.
    """
    masses = rows.plays / (1.0 + (rows.plays - 1.0) * correlation)
    if np.isfinite(most):
        users = entry_users(rows.indptr)
        total = np.bincount(users, masses, rows.n_users)
        masses *= (most / np.maximum(total, most))[users]
    return replace(rows, masses=masses)


def most_plays(rows: Responses) -> float:
    """Return the cap on an account's plays in all: three times their mean once it is applied."""
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
    """Return bounded means, with users' weights of shape (n_users,) and caps of all cells."""
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
    # Squared pulls Σ m²(x − mean)² beyond the noise of plays are differences between accounts.
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
            # The mean of n plays has variance v·(1 + (n − 1)·rho)/n, v that of one.
            out[6, j] += m * m * inflation / plays[p]
    return out


class Shrinkage(NamedTuple):
    """Variances of action and cell effects, in units of each context's deviation."""

    actions: float
    cells: float


def shrunken(
    means: FloatArray, cells: CellMeans, parts: Shrinkage | None = None
) -> tuple[FloatArray, Shrinkage]:
    """Return posterior means of context + action + cell effects, and the variances of these.

    In units of each context's deviation, so that contexts with large rewards do not dictate to
    others. Contexts have their own levels, which are not shrunken: decisions are taken within
    contexts. The variances of the other effects are estimated by EM unless given; the result is
    linear in the means once they are.
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
