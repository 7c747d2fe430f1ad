"""The model of honest accounts: an exponential family of rewards, with levels and tastes.

A cell's rewards have probabilities p_k over categories with normal scores s_k. A tilt t changes
these to p_k·exp(t·s_k − ψ(t)), so clicks, stars, baskets and dwell times form one exponential
family. Honest account i has the tilt c_i + Λ_j·z_i in cell j, with a level c_i from three classes
and tastes z_i ~ N(0, S), which are integrated out by Laplace's method.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse, special

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.bounded.rewards import Responses
from unswayed.tallies import entry_users

LAW_PLAYS = 10.0
"""Prior plays with which the log's distribution enters each cell's distribution."""

MOST_INFLUENCE = 3.0
"""Largest weight of an account relative to the average account, in a cell and in total."""

LEAST_CORRELATION = 0.05
"""Smallest intraclass correlation: an account has at most 20 effective plays in a cell."""

ONE_CELL_CORRELATION = 0.001
"""Intraclass correlation if too few accounts play several cells repeatedly: the fitted levels then
model what plays have in common."""

PRIOR_SIZE = 30.0
"""Weight of a prior, in cells: the variance of cell effects is shrunk towards that of action
effects; and in accounts, for the share of colluders in an activity class."""

FEWEST = 20
"""Smallest number of accounts among which coalitions are searched, and of repeated plays for an
estimate of the intraclass correlation."""

N_DIRECTIONS = 3
"""Largest number of taste factors besides the level (one and this many are tried, and the best by
penalised likelihood is used), and number of directions from which a search starts."""

THRESHOLD, MOST_CELLS = 2.0, 500
"""Covariances between cells within this many standard errors are set to zero; accounts with more
than ``MOST_CELLS`` cells are left out."""

SHORT_STEPS, LONG_STEPS = 3, 8
"""Number of EM steps for starts, fits of tastes and refitted models, and for all other fits."""

PRICE = 1.5
"""Penalty for each free parameter, in nats."""

LEVEL_STARTS, SHARE_STARTS = (0.0, 1.5, -1.5), (0.9, 0.05, 0.05)
"""Initial levels, as tilts, and shares of the three classes: usual, eager and silent accounts."""

GRID_STEP, GRID_END = 0.5, 12.0
"""ψ is tabulated for tilts up to ±12; tilts of cells and classes are limited to half of that."""

SETTLED, MOST_STEPS = 0.3, 6
"""Newton's method for tastes stops after a gain below ``SETTLED`` nats or ``MOST_STEPS`` steps."""


@dataclass(frozen=True, eq=False)
class Law:
    """Distributions of rewards, one for each cell.

    Attributes
    ----------
    log_probabilities, scores
        Shape (n_cells, n_categories).
    variances
        Shape (n_cells,); variances of the scores.
    means
        Shape (n_cells,); mean score of each cell's rewards; not zero because of shrinkage.
    """

    log_probabilities: FloatArray
    scores: FloatArray
    variances: FloatArray
    means: FloatArray

    @classmethod
    def of_counts(cls, counts: FloatArray) -> Law:
        """Estimate distributions from counts of categories; shape (n_cells, n_categories)."""
        overall = counts.sum(axis=0)
        overall = (overall + 0.5) / (overall + 0.5).sum()
        n = counts.sum(axis=1, keepdims=True)
        p = (counts + LAW_PLAYS * overall) / (n + LAW_PLAYS)
        middle = np.clip(np.cumsum(p, axis=1) - p / 2.0, 1e-4, 1.0 - 1e-4)
        scores = special.ndtri(middle)
        scores -= (p * scores).sum(axis=1, keepdims=True)
        own = (counts * scores).sum(axis=1) / np.maximum(n[:, 0], 1e-9)
        variances = np.maximum((p * scores**2).sum(axis=1), 1e-6)
        return cls(np.log(np.maximum(p, 1e-12)), scores, variances, own)

    @property
    def table(self) -> FloatArray:
        """Scores minus the mean score of each cell's rewards."""
        return self.scores - self.means[:, None]

    def at(self, tilts: FloatArray) -> FloatArray:
        """Return ψ, ψ' and ψ'' of each cell at its tilt; shape (3, n_cells)."""
        return _at(self.grid, tilts)

    @cached_property
    def grid(self) -> FloatArray:
        """Return ψ, ψ' and ψ'' of each cell over the grid of tilts; shape (n_cells, n, 3)."""
        return _grid(self.log_probabilities, self.scores)

    def solve(
        self,
        scores: FloatArray,
        plays: FloatArray,
        start: FloatArray,
        groups: IntArray | None = None,
        steps: int = 3,
    ) -> FloatArray:
        """Solve Σ scores = Σ plays·ψ' for the tilt of each cell or group of cells."""
        own = np.arange(len(start)) if groups is None else groups
        return _solve(self.grid, scores, plays, start, own, steps)


@compiled
def _grid(log_probabilities: FloatArray, scores: FloatArray) -> FloatArray:
    n_cells, n_categories = scores.shape
    n_tilts = 2 * round(GRID_END / GRID_STEP) + 1
    out = np.empty((n_cells, n_tilts, 3))
    for j in range(n_cells):
        for i in range(n_tilts):
            tilt, most = i * GRID_STEP - GRID_END, -np.inf
            for k in range(n_categories):
                most = max(most, log_probabilities[j, k] + tilt * scores[j, k])
            total, mean, square = 0.0, 0.0, 0.0
            for k in range(n_categories):
                p = np.exp(log_probabilities[j, k] + tilt * scores[j, k] - most)
                total += p
                mean += p * scores[j, k]
                square += p * scores[j, k] ** 2
            mean /= total
            out[j, i, 0], out[j, i, 1] = most + np.log(total), mean
            out[j, i, 2] = max(square / total - mean * mean, 1e-6)
    return out


@compiled
def _read(table: FloatArray, tilt: float) -> tuple[float, float, float]:
    """Return ψ, ψ' and ψ'' at a tilt by Hermite interpolation; ψ is linear beyond the grid."""
    last = table.shape[0] - 1
    place = (tilt + GRID_END) / GRID_STEP
    if place <= 0.0:
        return table[0, 0] + (tilt + GRID_END) * table[0, 1], table[0, 1], 1e-6
    if place >= last:
        return table[last, 0] + (tilt - GRID_END) * table[last, 1], table[last, 1], 1e-6
    k = int(place)
    t = place - k
    f0, f1 = table[k, 0], table[k + 1, 0]
    g0, g1 = table[k, 1] * GRID_STEP, table[k + 1, 1] * GRID_STEP
    c, d = 3.0 * (f1 - f0) - 2.0 * g0 - g1, 2.0 * (f0 - f1) + g0 + g1
    value = f0 + t * (g0 + t * (c + t * d))
    slope = (g0 + t * (2.0 * c + 3.0 * t * d)) / GRID_STEP
    return value, slope, (1.0 - t) * table[k, 2] + t * table[k + 1, 2]


@compiled
def _solve(
    grid: FloatArray,
    scores: FloatArray,
    plays: FloatArray,
    start: FloatArray,
    groups: IntArray,
    steps: int,
) -> FloatArray:
    tilts = start.copy()
    for _ in range(steps):
        above, below = np.zeros(len(tilts)), np.zeros(len(tilts))
        for j in range(len(scores)):
            g = groups[j]
            _, slope, curvature = _read(grid[j], tilts[g])
            above[g] += scores[j] - plays[j] * slope
            below[g] += plays[j] * curvature
        for g in range(len(tilts)):
            step = min(max(above[g] / max(below[g], 1e-9), -1.0), 1.0)
            tilts[g] = min(max(tilts[g] + step, -GRID_END / 2.0), GRID_END / 2.0)
    return tilts


@compiled
def _at(grid: FloatArray, tilts: FloatArray) -> FloatArray:
    out = np.empty((3, len(tilts)))
    for j in range(len(tilts)):
        out[0, j], out[1, j], out[2, j] = _read(grid[j], tilts[j])
    return out


def intraclass_correlation(rows: Responses, law: Law, trimmed: float) -> float:
    """Return the correlation between an account's plays of a cell, beyond the account's level.

    This is a one-way analysis of variance of standardised scores, between and within the cells of
    an account. Accounts are ranked by the differences between their cells, and a share ``trimmed``
    is left out at either end: bots that always give their item the same reward would otherwise
    lower the effective plays of all accounts.
    """
    users, n = entry_users(rows.indptr), rows.plays
    scores, squares = rows.scores(law.table / np.sqrt(law.variances)[:, None])

    def by_user(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(users, values, rows.n_users), np.float64)

    within = by_user(squares - scores**2 / n)
    repeats, plays, n_cells = by_user(n - 1.0), by_user(n), by_user(np.ones(len(n)))
    total = np.maximum(plays, 1e-9)
    between = by_user(scores**2 / n) - by_user(scores) ** 2 / total
    room = plays - by_user(n * n) / total
    voters = np.flatnonzero((repeats > 0.5) & (n_cells > 1.5))
    ratio = between[voters] / np.maximum(n_cells[voters] - 1.0, 1.0)
    voters = voters[np.argsort(ratio, kind="stable")]
    n_out = int(trimmed * len(voters))
    voters = voters[n_out : len(voters) - n_out]
    if repeats[voters].sum() < FEWEST:
        return ONE_CELL_CORRELATION
    # An account counts for at most a few times one with the median number of plays.
    votes = np.minimum(1.0, MOST_INFLUENCE * np.median(plays[voters]) / plays[voters])
    noise = float(votes @ within[voters] / (votes @ repeats[voters]))
    excess = between[voters] - (n_cells[voters] - 1.0) * noise
    own = max(float(votes @ excess / max(float(votes @ room[voters]), 1e-9)), 0.0)
    # Scores have variance 1 before trimming, but if rewards are rare, the rest may not vary at all.
    return max(own / max(own + noise, 1.0), LEAST_CORRELATION)


class Accounts(NamedTuple):
    """Effective plays and scores of accounts, from which likelihoods are computed.

    Attributes
    ----------
    indptr, cells
        Cells of each account, in compressed sparse row format.
    plays, scores
        Effective plays of each entry, and the sum of their scores.
    activity
        Shape (n_users,); log2 of the number of plays, rounded down.
    """

    indptr: IntArray
    cells: CellArray
    plays: FloatArray
    scores: FloatArray
    activity: IntArray

    @classmethod
    def of(cls, rows: Responses, law: Law) -> Accounts:
        """Return the accounts of weighed rows, with their scores under ``law``."""
        plays = np.bincount(entry_users(rows.indptr), rows.plays, rows.n_users)
        activity = np.log2(np.maximum(plays, 1.0)).astype(np.int64)
        scores = rows.scores(law.table)[0] * rows.masses / rows.plays
        return cls(rows.indptr, rows.cells, rows.masses, scores, activity)

    @property
    def n_users(self) -> int:
        """Number of accounts."""
        return len(self.indptr) - 1

    def sums(self, weights: FloatArray, n_cells: int) -> tuple[FloatArray, FloatArray]:
        """Return the weighted sums of plays and scores of each cell."""
        return _weighted_sums(self, weights, n_cells)


@compiled
def _weighted_sums(
    accounts: Accounts, weights: FloatArray, n_cells: int
) -> tuple[FloatArray, FloatArray]:
    n, total = np.zeros(n_cells), np.zeros(n_cells)
    for i in range(len(accounts.indptr) - 1):
        w = weights[i]
        if w < 1e-9:
            continue
        for p in range(accounts.indptr[i], accounts.indptr[i + 1]):
            n[accounts.cells[p]] += w * accounts.plays[p]
            total[accounts.cells[p]] += w * accounts.scores[p]
    return n, total


@dataclass(frozen=True, slots=True, eq=False)
class Honest:
    """A fitted model of honest accounts.

    Attributes
    ----------
    loadings
        Shape (n_cells, n_factors); the first factor represents a level.
    covariance
        Shape (n_factors, n_factors); covariance of the factors.
    levels, shares
        Shape (3,); tilt and share of each class of levels.
    classes
        Shape (3, n_users); posterior probabilities of the classes.
    log_likelihoods
        Shape (n_users,).
    price
        Penalty for the loadings, in nats.
    groups
        Shape (n_cells,); cells of a group share their loadings.
    """

    loadings: FloatArray
    covariance: FloatArray
    levels: FloatArray
    shares: FloatArray
    classes: FloatArray
    log_likelihoods: FloatArray
    price: float
    groups: IntArray

    def worth(self, weights: FloatArray) -> float:
        """Return the weighted log-likelihood minus the penalty for the loadings."""
        return float(weights @ self.log_likelihoods) - self.price


def fit_plain(accounts: Accounts, law: Law, weights: FloatArray) -> Honest:
    """Fit a model in which honest accounts differ in their levels only."""
    n_cells = len(law.means)
    start = Honest(
        np.ones((n_cells, 1)),
        np.full((1, 1), 0.05),
        np.array(LEVEL_STARTS),
        np.array(SHARE_STARTS),
        np.zeros((3, accounts.n_users)),
        np.zeros(accounts.n_users),
        0.0,
        np.zeros(n_cells, np.int64),
    )
    return _levelled(start, accounts, law, weights, LONG_STEPS)


def fit_tastes(
    accounts: Accounts,
    law: Law,
    weights: FloatArray,
    plain: Honest,
    directions: FloatArray,
    n_actions: int,
) -> Honest:
    """Fit levels and tastes by action or by cell; return ``plain`` if it has the better fit."""
    n_cells, fits = len(law.means), [plain]
    for n_factors, n_groups in itertools.product((1, N_DIRECTIONS), (n_actions, n_cells)):
        groups = np.arange(n_cells) % n_groups
        plays = np.bincount(groups, accounts.sums(weights, n_cells)[0])
        loadings = factor_analysis(accounts, law, weights, directions[:, :n_factors], groups)
        start = replace(
            plain,
            loadings=loadings,
            covariance=np.eye(loadings.shape[1]),
            levels=np.array(LEVEL_STARTS),
            shares=np.array(SHARE_STARTS),
            price=PRICE * n_factors * float((plays > 1.0).sum()),
            groups=groups,
        )
        fits.append(_levelled(start, accounts, law, weights, SHORT_STEPS))
    return max(fits, key=lambda fit: fit.worth(weights))


def refit(accounts: Accounts, law: Law, weights: FloatArray, plain: Honest, best: Honest) -> Honest:
    """Refit honest accounts with other weights, without tastes or with tastes as in ``best``."""
    fit = _levelled(plain, accounts, law, weights, SHORT_STEPS)
    if best is plain:
        return fit
    tastes_before = best.loadings[:, 1:]
    loadings = factor_analysis(accounts, law, weights, tastes_before, best.groups, SHORT_STEPS)
    tastes = _levelled(replace(best, loadings=loadings), accounts, law, weights, SHORT_STEPS)
    return max(fit, tastes, key=lambda fit: fit.worth(weights))


def _levelled(
    start: Honest, accounts: Accounts, law: Law, weights: FloatArray, n_steps: int
) -> Honest:
    """Fit the classes of levels and the covariance of the factors by EM."""
    # Tilts of cells are penalised, as in models with a coalition: otherwise they would fit noise.
    plays, scores = accounts.sums(weights, len(law.means))
    tilts = law.solve(scores, plays + 2.0, np.zeros(len(law.means)))
    fit = start
    for step in range(n_steps):
        found = likelihoods(accounts, law, weights, fit, tilts)
        fit = replace(fit, log_likelihoods=found.honest, classes=found.classes)
        if step == n_steps - 1:
            break
        parts = weights * fit.classes
        fit = replace(
            fit,
            shares=class_shares(parts),
            levels=class_levels(accounts, law, parts, tilts, fit.levels),
            covariance=found.covariance(parts[0], fit.covariance),
        )
    return fit


def class_shares(parts: FloatArray) -> FloatArray:
    """Return the shares of classes, given memberships of shape (n_classes, n_users)."""
    total = parts.sum(axis=1) + 1.0
    return np.asarray(total / total.sum())


def class_levels(
    accounts: Accounts, law: Law, parts: FloatArray, tilts: FloatArray, levels: FloatArray
) -> FloatArray:
    """Update levels by one Newton step, except that of the first class, which is zero."""
    n_cells = len(tilts)
    out = levels.copy()
    for k in range(1, len(levels)):
        plays, scores = accounts.sums(parts[k], n_cells)
        _, slope, curvature = law.at(tilts + levels[k])
        step = float((scores - plays * slope).sum() / max(float((plays * curvature).sum()), 1e-9))
        out[k] = np.clip(levels[k] + np.clip(step, -1.0, 1.0), -GRID_END / 2.0, GRID_END / 2.0)
    # Levels keep their order and a minimum distance: two equal classes would be redundant.
    out[1], out[2] = max(out[1], 0.3), min(out[2], -0.3)
    return out


class Likelihoods(NamedTuple):
    """Log-likelihoods of accounts if they are ``honest``, and if they are ``colluding``.

    ``classes`` has the posterior probabilities of the classes of honest accounts, shape (n_classes,
    n_users). ``tastes`` has the posterior means of the factors in the first class, and ``scatter``
    the average of their posterior covariances.
    """

    honest: FloatArray
    classes: FloatArray
    colluding: FloatArray
    tastes: FloatArray
    scatter: FloatArray

    def covariance(self, weights: FloatArray, before: FloatArray) -> FloatArray:
        """Return the updated covariance of the factors among weighted accounts.

        ``before`` is the covariance with which posteriors were computed. In units of ``before``,
        MacKay's update is R^-½ E R^-½, where E is the second moment of the posterior means and R
        the share of the variance that the data explain. It has the same fixed points as EM, which
        needs dozens of steps if accounts have few plays.
        """
        q = weights / max(float(weights.sum()), 1e-9)
        # Clip, because tastes diverge if no finite tilt explains an account's rewards.
        tastes = np.clip(self.tastes, -GRID_END, GRID_END)
        values, vectors = np.linalg.eigh(before)
        root = vectors * np.sqrt(values)
        inverse = vectors / np.sqrt(values)
        explained = np.eye(len(before)) - inverse.T @ self.scatter @ inverse
        values, vectors = np.linalg.eigh(explained)
        root = root @ (vectors / np.sqrt(np.maximum(values, 1e-3))) @ vectors.T
        found: FloatArray = root @ inverse.T @ (tastes.T * q) @ tastes @ inverse @ root.T
        return found + 1e-3 * np.eye(len(before))


def likelihoods(
    accounts: Accounts,
    law: Law,
    weights: FloatArray,
    honest: Honest,
    tilts: FloatArray,
    colluding: FloatArray | None = None,
) -> Likelihoods:
    """Return the log-likelihoods of accounts if they are honest and if they collude.

    ``tilts`` of honest accounts and ``colluding``, the tilts of colluders, have shape (n_cells,).
    """
    n = len(honest.levels)
    hypotheses = [tilts + level for level in honest.levels]
    if colluding is not None:
        hypotheses.append(colluding)
    found, tastes, scatter = _likelihoods(
        accounts,
        weights,
        honest.loadings,
        np.asarray(np.linalg.inv(honest.covariance), np.float64),
        np.ascontiguousarray(np.stack([[d, *law.at(d)] for d in hypotheses]).transpose(2, 0, 1)),
        law.grid,
    )
    found -= 0.5 * np.linalg.slogdet(honest.covariance)[1]
    joint = found[:n] + np.log(honest.shares)[:, None]
    total = special.logsumexp(joint, axis=0)
    return Likelihoods(total, np.exp(joint - total), found[n:].sum(axis=0), tastes, scatter)


@compiled
def _invert(m: FloatArray, inverse: FloatArray, lower: FloatArray, solved: FloatArray) -> float:
    """Fill the inverse of a positive definite matrix and return its log-determinant."""
    n = m.shape[0]
    if n == 1:
        inverse[0, 0] = 1.0 / m[0, 0]
        return float(np.log(m[0, 0]))
    log_det = 0.0
    for k in range(n):
        t = m[k, k]
        for q in range(k):
            t -= lower[k, q] * lower[k, q]
        t = np.sqrt(max(t, 1e-12))
        lower[k, k] = t
        log_det += 2.0 * np.log(t)
        for r in range(k + 1, n):
            z = m[r, k]
            for q in range(k):
                z -= lower[r, q] * lower[k, q]
            lower[r, k] = z / t
    for k in range(n):
        solved[k, k] = 1.0 / lower[k, k]
        for r in range(k + 1, n):
            z = 0.0
            for q in range(k, r):
                z -= lower[r, q] * solved[q, k]
            solved[r, k] = z / lower[r, r]
    for k in range(n):
        for q in range(k + 1):
            z = 0.0
            for r in range(k, n):
                z += solved[r, k] * solved[r, q]
            inverse[k, q] = z
            inverse[q, k] = z
    return log_det


@compiled
def _likelihoods(
    accounts: Accounts,
    weights: FloatArray,
    loadings: FloatArray,
    precision: FloatArray,
    at: FloatArray,
    grid: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-likelihoods, with tastes integrated out by Laplace's method.

    ``at`` holds the tilt, ψ, ψ' and ψ'' of each cell under each hypothesis.
    """
    indptr, cells, plays, scores, _ = accounts
    n_users, n_factors, n_hypotheses = len(indptr) - 1, loadings.shape[1], at.shape[1]
    found, tastes = np.zeros((n_hypotheses, n_users)), np.zeros((n_users, n_factors))
    m, inverse = np.zeros((n_factors, n_factors)), np.zeros((n_factors, n_factors))
    lower, solved = np.zeros((n_factors, n_factors)), np.zeros((n_factors, n_factors))
    scatter, b = np.zeros((n_factors, n_factors)), np.zeros(n_factors)
    z, step = np.zeros(n_factors), np.zeros(n_factors)
    total = 0.0
    for i in range(n_users):
        w = weights[i]
        if w < 1e-3:
            continue
        for h in range(n_hypotheses):
            z[:] = 0.0
            step[:] = 0.0
            before, log_det, gain = -np.inf, 0.0, 0.0
            for turn in range(MOST_STEPS):
                value = 0.0
                for k in range(n_factors):
                    b[k] = 0.0
                    for q in range(k + 1):
                        m[k, q] = precision[k, q]
                        value -= (0.5 if q == k else 1.0) * z[k] * z[q] * precision[k, q]
                    for q in range(n_factors):
                        b[k] -= precision[k, q] * z[q]
                for p in range(indptr[i], indptr[i + 1]):
                    j, n = cells[p], plays[p]
                    tilt, psi = at[j, h, 0], at[j, h, 1]
                    slope, curvature = at[j, h, 2], at[j, h, 3]
                    if turn > 0:
                        for k in range(n_factors):
                            tilt += loadings[j, k] * z[k]
                        psi, slope, curvature = _read(grid[j], tilt)
                    value += scores[p] * tilt - n * psi
                    y, c = scores[p] - n * slope, n * curvature
                    for k in range(n_factors):
                        b[k] += loadings[j, k] * y
                        for q in range(k + 1):
                            m[k, q] += c * loadings[j, k] * loadings[j, q]
                if value < before:  # the step was too long
                    for k in range(n_factors):
                        step[k] *= 0.25
                        z[k] -= 3.0 * step[k]
                    gain = 0.0
                    continue
                before = value
                for k in range(n_factors):
                    for q in range(k):
                        m[q, k] = m[k, q]
                log_det = _invert(m, inverse, lower, solved)
                gain = 0.0
                for k in range(n_factors):
                    t = 0.0
                    for q in range(n_factors):
                        t += inverse[k, q] * b[q]
                    step[k] = t
                    gain += 0.5 * b[k] * t
                for k in range(n_factors):
                    z[k] += step[k]
                if gain < SETTLED:
                    break
            found[h, i] = before + (gain if gain < SETTLED else 0.0) - 0.5 * log_det
            if h == 0:
                total += w
                for k in range(n_factors):
                    tastes[i, k] = z[k]
                    for q in range(n_factors):
                        scatter[k, q] += w * inverse[k, q]
    return found, tastes, scatter / max(total, 1e-9)


def leading_directions(
    accounts: Accounts, law: Law, weights: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return principal directions, shape (n_cells, n_directions), and accounts' projections.

    They are eigenvectors of the covariance between cells, with covariances within ``THRESHOLD``
    standard errors set to zero, so that lies about a few of many cells stand out.
    """
    n_cells = len(law.means)
    scale = np.sqrt((accounts.sums(weights, n_cells)[0] + 20.0) * law.variances)
    users = entry_users(accounts.indptr)
    values = accounts.scores * np.sqrt(weights)[users] / scale[accounts.cells]
    rows = sparse.csr_array(
        (values, accounts.cells, accounts.indptr), shape=(accounts.n_users, n_cells)
    )
    some = rows[np.diff(rows.indptr) <= MOST_CELLS]
    covariance, noise = some.T @ some, (some * some).T @ (some * some)
    covariance = covariance - sparse.diags_array(covariance.diagonal())
    clear = covariance * (covariance * covariance > THRESHOLD**2 * noise)
    basis = rng.standard_normal((n_cells, min(N_DIRECTIONS + 3, n_cells)))
    shift = float(abs(clear).sum(axis=0).max()) / 4.0
    for _ in range(30):
        basis = np.linalg.qr(np.asarray(clear @ basis) + shift * basis)[0]
    _, vectors = np.linalg.eigh(basis.T @ np.asarray(clear @ basis))
    directions = basis @ vectors[:, ::-1][:, :N_DIRECTIONS]
    return directions, np.asarray(rows @ directions)


def factor_analysis(
    accounts: Accounts,
    law: Law,
    weights: FloatArray,
    tastes: FloatArray,
    groups: IntArray,
    n_steps: int = LONG_STEPS,
) -> FloatArray:
    """Return loadings of a level and of tastes, fitted by EM for factor analysis of the scores."""
    loadings = np.ascontiguousarray(np.hstack([np.full((len(tastes), 1), 0.3), tastes]))
    n_factors, n_groups = loadings.shape[1], int(groups.max()) + 1
    for _ in range(n_steps):
        left, right = _factor_step(accounts, weights, law.variances, loadings)
        left = left.reshape(-1, n_groups, n_factors, n_factors).sum(axis=0)
        right = right.reshape(-1, n_groups, n_factors, 1).sum(axis=0)
        solved = np.linalg.solve(left + 3.0 * np.eye(n_factors), right)[:, :, 0]
        loadings = np.ascontiguousarray(solved[groups])
    return loadings


@compiled
def _factor_step(
    accounts: Accounts,
    weights: FloatArray,
    variances: FloatArray,
    loadings: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the normal equations for the loadings."""
    indptr, cells, plays, scores, _ = accounts
    n_users, n_cells, n_factors = len(indptr) - 1, loadings.shape[0], loadings.shape[1]
    left = np.zeros((n_cells, n_factors, n_factors))
    right, taste = np.zeros((n_cells, n_factors)), np.zeros(n_factors)
    m, inverse = np.zeros((n_factors, n_factors)), np.zeros((n_factors, n_factors))
    lower, solved = np.zeros((n_factors, n_factors)), np.zeros((n_factors, n_factors))
    b = np.zeros(n_factors)
    for i in range(n_users):
        w = weights[i]
        if w < 1e-3:
            continue
        b[:] = 0.0
        for k in range(n_factors):
            for q in range(n_factors):
                m[k, q] = 1.0 if k == q else 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = cells[p]
            z = plays[p] * variances[j]
            for k in range(n_factors):
                b[k] += loadings[j, k] * scores[p]
                for q in range(k + 1):
                    m[k, q] += z * loadings[j, k] * loadings[j, q]
        for k in range(n_factors):
            for q in range(k):
                m[q, k] = m[k, q]
        _invert(m, inverse, lower, solved)
        for k in range(n_factors):
            t = 0.0
            for q in range(n_factors):
                t += inverse[k, q] * b[q]
            taste[k] = t
        for k in range(n_factors):
            for q in range(n_factors):
                inverse[k, q] += taste[k] * taste[q]
        for p in range(indptr[i], indptr[i + 1]):
            j = cells[p]
            z = w * plays[p] * variances[j]
            for k in range(n_factors):
                right[j, k] += w * scores[p] * taste[k]
                for q in range(n_factors):
                    left[j, k, q] += z * inverse[k, q]
    return left, right
