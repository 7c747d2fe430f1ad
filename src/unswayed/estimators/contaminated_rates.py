"""Intervals for a rate when some of the users who showed successes and failures may be bad."""

from __future__ import annotations

import math

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.estimators.contaminated_means import Intervals
from unswayed.estimators.inputs import check_failure_probability
from unswayed.estimators.trimming import binomial_lower_quantiles

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
"""Ours: levels among which one is chosen for each group, by its size and a pilot rate."""

MOST_TRIALS = 1000
"""Ours: beyond, binomial probabilities are replaced by normal ones."""

SMALLEST_LOG = -600.0
"""Logs of probabilities above this need no care in double precision."""

SHARE_STEPS = 1000
"""Ours: shares of good points are rounded down to this fraction."""

STEPS = 40
"""Ours: bisections; an end is found to 2^-40."""


def rate_intervals(
    successes: FloatArray,
    trials: IntArray,
    groups: IntArray,
    n_groups: int,
    *,
    n_bad: IntArray,
    failure_probability: float,
    pilot: float,
    bad_shares: FloatArray | None = None,
) -> Intervals:
    """Return an interval for the success rate of the good points of each group.

    Parameters
    ----------
    successes, trials, groups
        Shape ``(n_values,)``: successes of each point, out of how many trials, and its group. For
        a single trial successes may be any number in [0, 1].
    n_bad
        Shape ``(n_groups,)``: how many points of each group may be bad.
    failure_probability
        Allowed for each group.
    pilot
        A guess of the rate; it decides widths and not whether intervals hold.
    bad_shares
        Shape ``(n_groups,)``: for groups whose points are drawn at random, the probability that one
        of them is bad, and NaN for the others. There ``n_bad`` is not read.

    Notes
    -----
    At rate p let U be the randomised probability transform of a point: uniform between P(X < x) and
    P(X ≤ x). Good points have uniform U at the true rate, so of n points, k of them bad, at least a
    lower quantile of B(n − k, 1 − u) have U > u. Where each point is bad with probability q it is
    a lower quantile of B(n, (1 − q)·(1 − u)): chance makes many bad points, or good ones with small
    U, and hardly ever both. U falls in p: the rates at which too few points have U > u are too
    high. The low end is the same for failures. Instead of drawing U its
    expectation is taken, which spreads less, so there is nothing random in it.

    Guarantee: exact, whatever bad points are, for good points with B(n_i, p), and for points of one
    trial with any values in [0, 1] whose mean is p. If rates differ among good points, both tails
    of U hold more points: then it is wider than need be, unless differences are so one-sided that
    a tail holds less.

    Two levels are used: one half, which loud points cannot move far, and one that is chosen so that
    intervals of honest points with the pilot rate are short. A high u sees that the good tail is
    there: where nobody lies, hardly anything can be hidden.

    Deviation from the paper: it has no intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> clicks, groups = rng.binomial(10, 0.3, size=1000).astype(float), np.zeros(1000, np.int64)
    >>> low, high = rate_intervals(
    ...     clicks,
    ...     np.full(1000, 10),
    ...     groups,
    ...     1,
    ...     n_bad=np.array([100]),
    ...     failure_probability=0.1,
    ...     pilot=0.3,
    ... )
    >>> bool(0.25 < low[0] < 0.3 < high[0] < 0.35)
    True
    """
    delta = check_failure_probability(failure_probability)
    trials = trials.astype(np.int64)
    keys = groups * (int(trials.max(initial=0)) + 1) + trials
    if (np.diff(keys) < 0).any():  # callers who ask twice sort once
        order = np.argsort(keys, kind="stable")
        successes, trials, groups = successes[order], trials[order], groups[order]
    starts = np.searchsorted(groups, np.arange(n_groups + 1))
    # Two ends, each from the chosen level and from the median.
    needed = _needed(np.diff(starts), n_bad, bad_shares, delta / 4.0)
    levels = np.array(LEVELS)
    rate = min(max(pilot, 1e-6), 1.0 - 1e-6)
    high = _upper_ends(successes, trials, starts, needed, levels, rate)
    low = 1.0 - _upper_ends(trials - successes, trials, starts, needed, levels, 1.0 - rate)
    return Intervals(low, high)


def _needed(
    sizes: IntArray, n_bad: IntArray, bad_shares: FloatArray | None, failure_probability: float
) -> FloatArray:
    """Return how many points have U above each level at least; shape (n_groups, n_levels)."""
    shares = np.full(sizes.shape, np.nan) if bad_shares is None else bad_shares
    is_drawn = ~np.isnan(shares)
    n_good = np.where(is_drawn, sizes, np.maximum(sizes - n_bad, 0))
    # Rounded to the safe side, so that there are few different ones.
    good = np.where(is_drawn, np.floor((1.0 - shares) * SHARE_STEPS) / SHARE_STEPS, 1.0)
    groups, places = np.unique(
        np.stack([n_good, np.maximum(good, 0.0)]), axis=1, return_inverse=True
    )
    counts = groups[0].astype(np.int64)
    above = [
        binomial_lower_quantiles(counts, groups[1] * (1.0 - level), failure_probability)
        for level in LEVELS
    ]
    needed: FloatArray = np.stack(above, axis=1)[places.ravel()].astype(np.float64)
    return needed


@compiled
def _upper_ends(
    successes: FloatArray,
    trials: IntArray,
    starts: IntArray,
    needed: FloatArray,
    levels: FloatArray,
    pilot: float,
) -> FloatArray:
    """Return for every group the largest rate at which enough points have U above the level."""
    n_groups = starts.size - 1
    ends = np.ones(n_groups)
    for g in range(n_groups):
        first, last = starts[g], starts[g + 1]
        n = last - first
        if n == 0:
            continue
        # The level whose end is lowest for honest points of the middle number of trials.
        middle = min(trials[(first + last) // 2], MOST_TRIALS)
        shortest, chosen = 2.0, 0
        for j in range(levels.size):
            if needed[g, j] < 1.0:
                continue
            low, high = 0.0, 1.0
            for _ in range(12):
                rate = (low + high) / 2.0
                if n * _expected_above(middle, pilot, rate, levels[j]) >= needed[g, j]:
                    low = rate
                else:
                    high = rate
            if high < shortest:
                shortest, chosen = high, j
        if shortest > 1.0:
            continue
        x, n_of = successes[first:last], trials[first:last]
        sizes, weights = _histograms(x, n_of)
        ends[g] = _end(x, n_of, sizes, weights, needed[g, chosen], levels[chosen])
        if chosen > 0 and needed[g, 0] >= 1.0:
            ends[g] = min(ends[g], _end(x, n_of, sizes, weights, needed[g, 0], levels[0]))
    return ends


@compiled
def _end(
    successes: FloatArray,
    trials: IntArray,
    sizes: IntArray,
    weights: FloatArray,
    needed: float,
    level: float,
) -> float:
    """Return the largest rate at which so many points have U above the level."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        rate = (low + high) / 2.0
        if _number_above(successes, trials, sizes, weights, rate, level) >= needed:
            low = rate
        else:
            high = rate
    return high


@compiled
def _histograms(successes: FloatArray, trials: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the different numbers of trials and how many points have each number of successes.

    ``trials`` ascend. A number between two whole ones is shared between them. Histograms stand one
    after another; points of more than ``MOST_TRIALS`` trials are left out.
    """
    n_sizes, length = 0, 0
    for i in range(trials.size):
        if trials[i] <= MOST_TRIALS and (i == 0 or trials[i] != trials[i - 1]):
            n_sizes += 1
            length += trials[i] + 1
    sizes, weights = np.empty(n_sizes, np.int64), np.zeros(length)
    start, place = 0, -1
    for i in range(trials.size):
        n = trials[i]
        if n > MOST_TRIALS:
            break
        if i == 0 or n != trials[i - 1]:
            if place >= 0:
                start += sizes[place] + 1
            place += 1
            sizes[place] = n
        whole = min(max(int(np.floor(successes[i])), 0), n)
        part = successes[i] - whole
        if part > 0.0 and whole < n:
            weights[start + whole] += 1.0 - part
            weights[start + whole + 1] += part
        else:
            weights[start + whole] += 1.0
    return sizes, weights


@compiled
def _number_above(
    successes: FloatArray,
    trials: IntArray,
    sizes: IntArray,
    weights: FloatArray,
    rate: float,
    level: float,
) -> float:
    """Return the expected number of points with U above the level."""
    total, start = 0.0, 0
    for n in sizes:
        table = _shares_above(n, rate, level)
        for x in range(n + 1):
            total += weights[start + x] * table[x]
        start += n + 1
    for i in range(trials.size - 1, -1, -1):  # the longest stand last
        if trials[i] <= MOST_TRIALS:
            break
        total += _normal_above(successes[i], trials[i], rate, level)
    return total


@compiled
def _expected_above(n: int, true_rate: float, rate: float, level: float) -> float:
    """Return the probability that U, at a rate, is above the level for a point of another rate."""
    table = _shares_above(n, rate, level)
    total = 0.0
    log_odds = np.log(true_rate) - np.log1p(-true_rate)
    log_probability = n * np.log1p(-true_rate)
    for x in range(n + 1):
        total += np.exp(log_probability) * table[x]
        if x < n:
            log_probability += np.log((n - x) / (x + 1.0)) + log_odds
    return total


@compiled
def _shares_above(n: int, rate: float, level: float) -> FloatArray:
    """Return P(U > level) given each number of successes; U is uniform between its two limits."""
    shares = np.empty(n + 1)
    if rate <= 0.0 or rate >= 1.0:
        for x in range(n + 1):
            shares[x] = 1.0 if rate <= 0.0 else 0.0
        shares[0 if rate <= 0.0 else n] = 1.0 - level
        return shares
    odds = rate / (1.0 - rate)
    log_probability = n * np.log1p(-rate)
    is_tiny = log_probability < SMALLEST_LOG
    probability = np.exp(log_probability)
    below = 0.0
    for x in range(n + 1):
        if below >= level:
            shares[x] = 1.0
        elif below + probability <= level:
            shares[x] = 0.0
        else:
            shares[x] = (below + probability - level) / probability
        below += probability
        if x < n and is_tiny:
            log_probability += np.log((n - x) / (x + 1.0) * odds)
            probability = np.exp(log_probability)
        elif x < n:
            probability *= (n - x) / (x + 1.0) * odds
    return shares


@compiled
def _normal_above(x: float, n: int, rate: float, level: float) -> float:
    """Return P(U > level) as above with half a success of smoothing."""
    deviation = np.sqrt(n * rate * (1.0 - rate))
    if deviation <= 0.0:
        return 1.0 if x > n * rate else 0.0
    below = 0.5 * (1.0 + math.erf((x - 0.5 - n * rate) / deviation / np.sqrt(2.0)))
    up_to = 0.5 * (1.0 + math.erf((x + 0.5 - n * rate) / deviation / np.sqrt(2.0)))
    if below >= level:
        return 1.0
    if up_to <= level:
        return 0.0
    return (up_to - level) / (up_to - below)
