"""Compiled passes over pairs of accounts that share ratings.

Letters: ``k`` is how many keys a pair shares, ``c`` how many of these close in time, ``q`` the
probability of that; λ is the expected number of shared keys.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled

MOST_EVIDENCE = 600.0
"""Cap on evidence, in nats, to avoid underflow."""


@compiled
def poisson_tail(k: int, expected: float) -> float:
    """Return −log P(X ≥ k) for X Poisson; 0 where k is no more than expected."""
    if k <= expected or expected <= 0.0:
        return 0.0 if expected > 0.0 else MOST_EVIDENCE
    term, total, j = 1.0, 1.0, k
    while term > 1e-12 * total:
        j += 1
        term *= expected / j
        total += term
    log_p = -expected + k * math.log(expected) - math.lgamma(k + 1.0) + math.log(total)
    return min(max(-log_p, 0.0), MOST_EVIDENCE)


@compiled
def binomial_tail(c: int, k: int, q: float) -> float:
    """Return −log P(X ≥ c) for X binomial with k trials."""
    if c <= q * k:
        return 0.0
    total = 0.0
    for j in range(c, k + 1):
        log_p = math.lgamma(k + 1.0) - math.lgamma(j + 1.0) - math.lgamma(k - j + 1.0)
        total += math.exp(log_p + j * math.log(q) + (k - j) * math.log1p(-q))
    return min(-math.log(max(total, 1e-260)), MOST_EVIDENCE)


class Rated(NamedTuple):
    """Ratings by account and by key, and how many a pair is expected to share.

    Attributes
    ----------
    indptr, keys, times, users
        Entries by account: where each account's begin, their keys, times and users. ``times``
        is empty if nothing is known of times.
    starts, order
        Entries by key: where each key's begin, and which they are.
    is_kept
        Shape (n_keys,); keys that pairs are looked at for.
    stars, overlap
        Shape (n_users, n_classes) and (n_classes,): how often each account gave each class, and
        the chance that two ratings of a class are of one item. Accounts u and v are expected to
        share Σ_c overlap_c·d_uc·d_vc keys, so that generous accounts are expected to agree.
    window, q
        What is close in time, and the probability of it.
    """

    indptr: IntArray
    keys: IntArray
    times: FloatArray
    users: IntArray
    starts: IntArray
    order: IntArray
    is_kept: BoolArray
    stars: FloatArray
    overlap: FloatArray
    window: float
    q: float


@compiled
def _count_shared(
    rated: Rated, u: int, shared: IntArray, close: IntArray, partners: IntArray
) -> int:
    """Count shared ratings with every other account; return the number of partners."""
    n_partners = 0
    has_times = rated.times.size > 0
    for entry in range(rated.indptr[u], rated.indptr[u + 1]):
        key = rated.keys[entry]
        if not rated.is_kept[key]:
            continue
        for place in range(rated.starts[key], rated.starts[key + 1]):
            other = rated.order[place]
            v = rated.users[other]
            if v == u:
                continue
            if shared[v] == 0:
                partners[n_partners] = v
                n_partners += 1
            shared[v] += 1
            if has_times and abs(rated.times[other] - rated.times[entry]) <= rated.window:
                close[v] += 1
    return n_partners


@compiled
def _expected(rated: Rated, u: int, v: int) -> float:
    total = 0.0
    for c in range(rated.overlap.size):
        total += rated.overlap[c] * rated.stars[u, c] * rated.stars[v, c]
    return total


@compiled
def _evidence(rated: Rated, k: int, c: int, expected: float) -> float:
    evidence = poisson_tail(k, expected)
    if rated.times.size > 0:
        evidence += binomial_tail(c, k, rated.q)
    return evidence


@compiled
def pair_evidence(rated: Rated, thresholds: FloatArray) -> FloatArray:
    """Return Σ over partners of evidence beyond each threshold; shape (n_users, n_thresholds)."""
    n_users = rated.indptr.size - 1
    found = np.zeros((n_users, thresholds.size))
    shared, close = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
    partners = np.empty(n_users, np.int64)
    for u in range(n_users):
        for i in range(_count_shared(rated, u, shared, close, partners)):
            v = partners[i]
            evidence = _evidence(rated, shared[v], close[v], _expected(rated, u, v))
            for f in range(thresholds.size):
                if evidence > thresholds[f]:
                    found[u, f] += evidence - thresholds[f]
            shared[v] = 0
            close[v] = 0
    return found


@compiled
def strong_pairs(
    rated: Rated, threshold: float, is_chosen: BoolArray, most: int
) -> tuple[IntArray, FloatArray]:
    """Return pairs u < v of chosen accounts with evidence beyond a threshold, at most so many.

    Columns are u, v, shared keys and those close in time; and their expected number.
    """
    n_users = rated.indptr.size - 1
    pairs, expectations = np.empty((most, 4), np.int64), np.empty(most)
    n = 0
    shared, close = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
    partners = np.empty(n_users, np.int64)
    for u in range(n_users):
        if not is_chosen[u]:
            continue
        for i in range(_count_shared(rated, u, shared, close, partners)):
            v = partners[i]
            expected = _expected(rated, u, v)
            is_new = u < v and is_chosen[v] and n < most
            if is_new and _evidence(rated, shared[v], close[v], expected) > threshold:
                pairs[n, 0], pairs[n, 1], pairs[n, 2], pairs[n, 3] = u, v, shared[v], close[v]
                expectations[n] = expected
                n += 1
            shared[v] = 0
            close[v] = 0
    return pairs[:n], expectations[:n]
