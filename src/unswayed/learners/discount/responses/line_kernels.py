"""Compiled passes of EM for many fits at once: an entry is read once for all of them.

A fit is a line from the good users' mean to the coalition's. Its numbers are a column of arrays of
shape (n_cells, n_lines) or (n_users, n_lines), so that the loop over lines is the innermost one and
runs on vectors. Letters: ``e`` how many independent responses an entry is worth; ``x`` its mean
reward, centred and in standard deviations; ``w`` weights of users. Single precision is enough to
compare fits; arrays take the precision of ``e``.
"""

from __future__ import annotations

import numpy as np

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.discount.responses.kernels import RealArray


@compiled
def line_scores(
    indptr: IntArray,
    cells: CellArray,
    e: RealArray,
    x: RealArray,
    w: FloatArray,
    means: RealArray,
    shifts: RealArray,
) -> tuple[RealArray, RealArray]:
    """Return s = Σ e·δ·(x − μ) and D² = Σ e·δ² of users with weight; shapes (n_users, n_lines)."""
    n_users, n_lines = indptr.size - 1, shifts.shape[1]
    scores = np.zeros((n_users, n_lines), dtype=e.dtype)
    strengths = np.zeros((n_users, n_lines), dtype=e.dtype)
    for i in range(n_users):
        if w[i] <= 0.0:
            continue
        if n_lines == 1:  # sums stay in registers
            s, d = 0.0, 0.0
            for k in range(indptr[i], indptr[i + 1]):
                j = np.uint32(cells[k])  # unsigned: no test for indices from the end
                pull = e[k] * shifts[j, 0]
                s += pull * (x[k] - means[j, 0])
                d += pull * shifts[j, 0]
            scores[i, 0], strengths[i, 0] = s, d
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint32(cells[k])
            worth, response = e[k], x[k]
            for c in range(n_lines):
                pull = worth * shifts[j, c]
                scores[i, c] += pull * (response - means[j, c])
                strengths[i, c] += pull * shifts[j, c]
    return scores, strengths


@compiled
def line_sums(
    indptr: IntArray,
    cells: CellArray,
    e: RealArray,
    x: RealArray,
    gammas: RealArray,
    n_cells: int,
) -> RealArray:
    """Return Σ γ·e and Σ γ·e·x per cell; shape (2, n_cells, n_lines)."""
    n_users, n_lines = gammas.shape
    sums = np.zeros((2, n_cells, n_lines), dtype=e.dtype)
    masses, totals = sums[0], sums[1]
    for i in range(n_users):
        if gammas[i].max() <= 0.0:
            continue
        if n_lines == 1:
            gamma = gammas[i, 0]
            for k in range(indptr[i], indptr[i + 1]):
                j = np.uint32(cells[k])
                masses[j, 0] += gamma * e[k]
                totals[j, 0] += gamma * e[k] * x[k]
            continue
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint32(cells[k])
            worth, response = e[k], e[k] * x[k]
            for c in range(n_lines):
                masses[j, c] += worth * gammas[i, c]
                totals[j, c] += response * gammas[i, c]
    return sums


@compiled
def shrunken_lines(
    mass: FloatArray,
    total: FloatArray,
    masses: RealArray,
    totals: RealArray,
    allowed: RealArray,
    shrinkages: FloatArray,
) -> tuple[RealArray, RealArray]:
    """Return the good users' means and the shifts of the accused, shrunken by (1 − c²/z²)₊."""
    n_cells, n_lines = masses.shape
    means, shifts = np.empty_like(masses), np.zeros_like(masses)
    for j in range(n_cells):
        for c in range(n_lines):
            accused = np.float64(masses[j, c])
            sum_of_accused = np.float64(totals[j, c])
            mean = (total[j] - sum_of_accused) / max(mass[j] - accused, 1e-9)
            means[j, c] = mean
            shift = sum_of_accused / max(accused, 1e-9) - mean
            kept = 1.0 - shrinkages[c] ** 2 / max(shift * shift * accused, 1e-12)
            if kept > 0.0:
                shifts[j, c] = shift * kept * allowed[j, c]
    return means, shifts


@compiled
def posteriors(
    scores: RealArray,
    strengths: RealArray,
    w: FloatArray,
    log_odds: FloatArray,
    before: RealArray,
) -> tuple[RealArray, FloatArray, FloatArray]:
    """Return w·γ of users, shape (n_users, n_lines), and its sum and movement for each line.

    The movement is Σ |w·γ − before|. Users with log-odds below −20 count as not accused.
    """
    n_users, n_lines = scores.shape
    real = scores.dtype.type  # single precision stays single: its exponential is cheaper
    one, half, least = real(1.0), real(0.5), real(-20.0)
    gammas = np.zeros_like(scores)
    accused, moved = np.zeros(n_lines), np.zeros(n_lines)
    for i in range(n_users):
        if w[i] <= 0.0:
            continue
        weight = real(w[i])
        for c in range(n_lines):
            odds = real(log_odds[c]) + scores[i, c] - half * strengths[i, c]
            if odds > least:
                gammas[i, c] = weight / (one + np.exp(-odds))
        for c in range(n_lines):
            accused[c] += gammas[i, c]
            moved[c] += abs(gammas[i, c] - before[i, c])
    return gammas, accused, moved


@compiled
def spread_of_the_good(scores: FloatArray, strengths: FloatArray, w: FloatArray) -> float:
    """Return E[s²/D²] − 1 over the users who are not accused, 0 if there are too few."""
    mass, squares = 0.0, 0.0
    for i in range(scores.size):
        if scores[i] < 0.0 and strengths[i] > 1e-9:
            mass += w[i]
            squares += w[i] * scores[i] ** 2 / strengths[i]
    return squares / mass - 1.0 if mass >= 20.0 else 0.0


@compiled
def gain_of_a_second_mean(ratios: FloatArray, w: FloatArray, share: float) -> float:
    """Return Σ w·log(1 − p + p·exp(ratio)) for one line."""
    gain = 0.0
    for i in range(ratios.size):
        if ratios[i] > 0.0:
            gain += w[i] * (ratios[i] + np.log(share + (1.0 - share) * np.exp(-ratios[i])))
        else:
            gain += w[i] * np.log1p(share * np.expm1(ratios[i]))
    return gain
