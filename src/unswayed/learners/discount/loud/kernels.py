"""Compiled passes over users' counts by category.

Letters: ``keys`` are cell·K + category; ``n`` counts; ``H`` the places on the grid of tilts, level
plus taste; ``G`` the levels; ``B`` the tastes.
"""

from __future__ import annotations

import numpy as np

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled


@compiled
def category_counts(
    indptr: IntArray,
    cells: CellArray,
    plays: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    worth: FloatArray,
    edges: FloatArray,
    values: FloatArray,
    common: int,
) -> tuple[IntArray, CellArray, FloatArray]:
    """Return rows of keys and counts; an entry becomes one key or two.

    ``worth`` is what a play of each entry counts; ``common`` the dominant category, or −1.
    """
    K = edges.size + 1
    keys, counts = np.empty(2 * cells.size, np.int32), np.empty(2 * cells.size)
    starts = np.zeros(indptr.size, np.int64)
    o = 0
    for i in range(indptr.size - 1):
        for q in range(indptr[i], indptr[i + 1]):
            n, m, v = plays[q], means[q], variances[q]
            few = 0.0  # how many plays are of the second value
            first, second = m, m
            if n > 1.5:
                if K == 2:
                    few = n * (m - values[0]) / (values[1] - values[0])
                    few = min(max(np.rint(few), 0.0), n)
                    first, second = values[0], values[1]
                elif common >= 0:
                    beyond = m - values[common]
                    square = v + beyond * beyond
                    if square > 0.0:
                        few = min(max(np.rint(n * beyond * beyond / square), 1.0), n)
                        second = values[common] + n * beyond / few
                    first = values[common]
                else:
                    few = n / 2
                    first, second = m - np.sqrt(v), m + np.sqrt(v)
            low, high = np.searchsorted(edges, first), np.searchsorted(edges, second)
            each = worth[q]
            base = cells[q] * K
            if low == high or few == 0.0 or few == n:
                keys[o] = base + (high if few == n else low)
                counts[o] = n * each
                o += 1
            else:
                keys[o], counts[o] = base + low, (n - few) * each
                keys[o + 1], counts[o + 1] = base + high, few * each
                o += 2
        starts[i + 1] = o
    return starts, keys[:o].copy(), counts[:o].copy()


@compiled
def sums_of_keys(
    indptr: IntArray, keys: CellArray, n: FloatArray, w: FloatArray, n_keys: int
) -> FloatArray:
    """Return Σ w·n of each key."""
    sums = np.zeros(n_keys)
    for i in range(indptr.size - 1):
        if w[i] > 0.0:
            for q in range(indptr[i], indptr[i + 1]):
                sums[np.uint32(keys[q])] += w[i] * n[q]
    return sums


@compiled
def down_weighted(first_key: IntArray, n: FloatArray, most: float) -> None:
    """Make runs of n plays count as n/(1 + (n − 1)/most), in place."""
    for r in range(first_key.size - 1):
        total = 0.0
        for q in range(first_key[r], first_key[r + 1]):
            total += n[q]
        if total > 1.0:
            for q in range(first_key[r], first_key[r + 1]):
                n[q] /= 1.0 + (total - 1.0) / most


@compiled
def run_counts(first_key: IntArray, keys: CellArray, n: FloatArray, K: int) -> FloatArray:
    """Return what each run says, by category; shape (n_runs, K)."""
    counts = np.zeros((first_key.size - 1, K))
    for r in range(first_key.size - 1):
        for q in range(first_key[r], first_key[r + 1]):
            counts[r, keys[q] % K] += n[q]
    return counts


@compiled
def honest_pass(
    start: int,
    stop: int,
    first_run: IntArray,
    first_key: IntArray,
    keys: CellArray,
    n: FloatArray,
    log_laws: FloatArray,
    levels: FloatArray,
    tastes: FloatArray,
    offsets: IntArray,
    w: FloatArray,
    posterior: FloatArray,
    of_users: FloatArray,
    of_runs: FloatArray,
    others: FloatArray,
) -> FloatArray:
    """Sum out the level and tastes of the users from ``start`` to ``stop``.

    With weights, as a step of EM needs it: posteriors, and the expected number of runs with each
    taste, which is returned. Without, as a search needs it: posteriors and likelihoods.

    Parameters
    ----------
    log_laws
        Shape (n_keys, H); logarithms of the laws of cells at each tilt.
    levels, tastes
        Shapes (G,) and (B,); probabilities.
    offsets
        Shape (B,); tilt ``g + offsets[b]`` belongs to level g and taste b.
    w
        Weights of users, or empty.
    posterior
        Shape (n_users, G); posteriors of users' levels, filled in.
    of_users, of_runs, others
        Shapes (n_users,), (n_runs,) and (n_runs, G); log-likelihoods of users, those of runs given
        the user's other runs, and likelihoods of these other runs at each level over that at the
        levels of all users. Filled in, or empty.
    """
    G, B, H = levels.size, tastes.size, log_laws.shape[1]
    with_taste = np.zeros(B)
    longest = 0
    for i in range(start, stop):
        longest = max(longest, first_run[i + 1] - first_run[i])
    run_level, run_tilt, tops = np.empty((longest, G)), np.empty((longest, H)), np.empty(longest)
    tilt, level = np.empty(H), np.empty(G)
    for i in range(start, stop):
        scale = 0.0
        for g in range(G):
            level[g] = levels[g]
        for r in range(first_run[i], first_run[i + 1]):
            x = r - first_run[i]
            for h in range(H):
                tilt[h] = 0.0
            for q in range(first_key[r], first_key[r + 1]):
                k, c = np.uint32(keys[q]), n[q]
                for h in range(H):
                    tilt[h] += c * log_laws[k, h]
            top = tilt[0]
            for h in range(1, H):
                top = tilt[h] if tilt[h] > top else top
            for h in range(H):
                run_tilt[x, h] = np.exp(tilt[h] - top)
            tops[x] = top
            largest = 0.0
            for g in range(G):
                s = 1e-200
                for b in range(B):
                    s += tastes[b] * run_tilt[x, g + offsets[b]]
                run_level[x, g] = s
                level[g] *= s
                largest = level[g] if level[g] > largest else largest
            scale += top
            if largest < 1e-60:  # before products underflow
                for g in range(G):
                    level[g] /= largest
                scale += np.log(largest)
        total = 0.0
        for g in range(G):
            total += level[g]
        for g in range(G):
            posterior[i, g] = level[g] / total
        if w.size == 0:
            of_users[i] = scale + np.log(total)
        for r in range(first_run[i], first_run[i + 1]):
            x = r - first_run[i]
            if w.size == 0:
                s = 0.0
                for g in range(G):
                    others[r, g] = posterior[i, g] / run_level[x, g]
                    s += others[r, g]
                for g in range(G):
                    others[r, g] /= s * levels[g]
                of_runs[r] = tops[x] - np.log(s)
            else:
                for g in range(G):
                    s = w[i] * posterior[i, g] / run_level[x, g]
                    for b in range(B):
                        with_taste[b] += s * tastes[b] * run_tilt[x, g + offsets[b]]
    return with_taste


@compiled
def n_draws(indptr: IntArray, keys: CellArray, n: FloatArray, K: int) -> int:
    """Return how many draws ``drawn_anew`` takes."""
    total = 0
    for i in range(indptr.size - 1):
        q = indptr[i]
        while q < indptr[i + 1]:
            cell, plays = keys[q] // K, 0.0
            while q < indptr[i + 1] and keys[q] // K == cell:
                plays += n[q]
                q += 1
            total += max(1, int(np.rint(plays)))
    return total


@compiled
def drawn_anew(
    indptr: IntArray,
    keys: CellArray,
    n: FloatArray,
    K: int,
    classes: CellArray,
    upto: FloatArray,
    levels: IntArray,
    tastes: IntArray,
    draws: FloatArray,
) -> tuple[IntArray, CellArray, FloatArray]:
    """Return rows with the same plays and responses of honest users.

    ``upto`` are cumulative laws, shape (n_cells, H, K); ``levels`` places of users on the grid,
    ``tastes`` offsets from there, shape (n_users, n_classes).
    """
    starts = np.zeros(indptr.size, np.int64)
    new_keys, new_n = np.empty(draws.size, np.int32), np.empty(draws.size)
    met = np.empty(K, np.int64)
    o, z = 0, 0
    for i in range(indptr.size - 1):
        q = indptr[i]
        while q < indptr[i + 1]:
            cell, plays = keys[q] // K, 0.0
            while q < indptr[i + 1] and keys[q] // K == cell:
                plays += n[q]
                q += 1
            tilt = levels[i] + tastes[i, classes[cell]]
            units = max(1, int(np.rint(plays)))
            met[:] = 0
            for _ in range(units):
                k = 0
                while k < K - 1 and draws[z] > upto[cell, tilt, k]:
                    k += 1
                met[k] += 1
                z += 1
            for k in range(K):
                if met[k] > 0:
                    new_keys[o], new_n[o] = cell * K + k, plays * met[k] / units
                    o += 1
        starts[i + 1] = o
    return starts, new_keys[:o].copy(), new_n[:o].copy()
