"""Two classical one-dimensional estimators that split the points at random."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.estimators.inputs import check_failure_probability, check_values
from unswayed.estimators.results import UnivariateEstimate
from unswayed.estimators.spectrum import NORMAL_QUARTILE
from unswayed.estimators.trimming import DEFAULT_FAILURE_PROBABILITY, largest_cut, trim_count
from unswayed.names import known_keywords

CORRUPTION_FACTOR = 8.0
"""Lugosi and Mendelson's: the clipped share is this times the corrupted share ..."""

CONFIDENCE_FACTOR = 12.0
"""... plus this times log(4/δ)/N."""

BLOCKS_PER_LOG = 8.0
"""Ours, the usual constant of the median of means: spare blocks per log(1/δ)."""


@known_keywords(adversarial_fraction="alpha")
def lugosi_mendelson_mean(
    values: ArrayLike,
    *,
    alpha: float,
    rng: np.random.Generator,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
) -> UnivariateEstimate:
    """Estimate a mean by clipping one half of the points at quantiles of the other half.

    Parameters
    ----------
    values
        Shape ``(n_points,)``. With an odd number one point, drawn at random, is left out.
    alpha
        Share of bad points η among ``values``.
    rng
        Draws the split. Points are sorted first, so their order does not matter.
    failure_probability
        δ.

    Returns
    -------
    UnivariateEstimate
        ``outcome`` is ``"clipped"``; weights are 1 for averaged points that were not clipped.

    Raises
    ------
    InputError
        When eps = 8η + 12 log(4/δ)/N reaches 1/2, with the number of points that would do.

    Notes
    -----
    Guarantee (Lugosi and Mendelson 2021, Theorem 1): for good points with variance σ², an error of
    O(σ (sqrt(η) + sqrt(log(1/δ)/N))) with probability 1 − δ.
    Deviations: none.

    Examples
    --------
    >>> import numpy as np
    >>> from unswayed.randomness import generator
    >>> points = np.append(np.full(4000, 7.0), [1e9] * 4)
    >>> lugosi_mendelson_mean(points, alpha=0.001, rng=generator(0)).estimate
    7.0
    """
    points = check_values(values)
    alpha = check_adversarial_fraction(alpha)
    delta = check_failure_probability(failure_probability)
    half = points.size // 2
    confidence = CONFIDENCE_FACTOR * math.log(4.0 / delta)
    share = CORRUPTION_FACTOR * alpha + (confidence / half if half else math.inf)
    if share >= 0.5:
        raise InputError(_how_to_fix(points.size, alpha, confidence))

    split = rng.permutation(points.size)
    # Splitting the sorted points makes the result independent of the order they came in.
    by_rank = np.argsort(points, kind="stable")
    averaged, reference = by_rank[split[:half]], by_rank[split[half : 2 * half]]
    ordered = np.sort(points[reference])
    low = ordered[math.floor(share * half)]
    high = ordered[half - 1 - math.floor(share * half)]
    clipped = np.clip(points[averaged], low, high)
    weights = np.zeros(points.size)
    weights[averaged] = (points[averaged] >= low) & (points[averaged] <= high)
    return UnivariateEstimate(
        estimate=float(np.mean(clipped)),
        standard_error=float(np.std(clipped, ddof=1)) / math.sqrt(half),
        weights=weights,
        n_tolerated=math.floor(share * half),
        is_covered=True,
        outcome="clipped",
    )


def _how_to_fix(n_points: int, alpha: float, confidence: float) -> str:
    """Say how many points the split version would need, or that no number would do."""
    room = 0.5 - CORRUPTION_FACTOR * alpha
    opening = f"The split trimmed mean cannot use {n_points} points"
    if room <= 0.0:
        return (
            f"{opening} at alpha {alpha}: it only works below "
            f"1/{2 * CORRUPTION_FACTOR:g}, so use trimmed_mean or median_of_means."
        )
    n_needed = 2 * (math.floor(confidence / room) + 1)
    return f"{opening}: it needs at least {n_needed} here; use trimmed_mean below that."


@known_keywords(adversarial_fraction="alpha")
def median_of_means(
    values: ArrayLike,
    *,
    alpha: float,
    rng: np.random.Generator,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
) -> UnivariateEstimate:
    """Estimate a mean by the median of the means of random blocks.

    Parameters
    ----------
    values
        Shape ``(n_points,)``.
    alpha
        Share of bad points in the population; below 1/2.
    rng
        Draws the blocks. Points are sorted first, so their order does not matter.
    failure_probability
        δ, shared by the count of bad points and the block means. There are twice as many blocks as
        bad points, plus 1 + 8 log(1/δ).

    Returns
    -------
    UnivariateEstimate
        ``outcome`` is ``"median"`` when there are too few points for that many blocks, so that
        each block is one point. Weights are 1 in the one or two blocks in the middle.

    Notes
    -----
    Guarantee: with B bad points and K > 2B blocks most blocks are free of bad points, and the
    error is O(σ sqrt(K/n)) with probability 1 − δ.
    Deviations: none; the paper uses it for an adversarial fraction of 1/16 and more.

    Examples
    --------
    >>> from unswayed.randomness import generator
    >>> points = [7.0] * 99 + [1e9]
    >>> median_of_means(points, alpha=0.01, rng=generator(0)).estimate
    7.0
    """
    points = check_values(values)
    n_points = points.size
    n_bad = trim_count(
        n_points,
        alpha=alpha,
        failure_probability=failure_probability,
    )
    wanted = 2 * n_bad + 1 + math.ceil(BLOCKS_PER_LOG * math.log(1.0 / failure_probability))
    n_used = min(wanted, n_points)

    by_rank = np.argsort(points, kind="stable")
    shuffled = by_rank[rng.permutation(n_points)]
    block = np.arange(n_points) % n_used  # sizes differ by at most one
    sizes = np.bincount(block, minlength=n_used)
    means = np.bincount(block, weights=points[shuffled], minlength=n_used) / sizes
    median = float(np.median(means))
    order = np.argsort(means, kind="stable")
    middle = order[largest_cut(n_used) : n_used - largest_cut(n_used)]
    weights = np.zeros(n_points)
    weights[shuffled] = np.isin(block, middle)
    # The median of K near-Gaussian means has variance π/2 · (their variance)/K.
    spread = float(np.median(np.abs(means - median))) / NORMAL_QUARTILE
    error = math.sqrt(math.pi / 2.0 / n_used) * spread
    return UnivariateEstimate(
        estimate=median,
        standard_error=error if n_used > 1 else math.nan,
        weights=weights,
        n_tolerated=largest_cut(n_used),
        is_covered=2 * n_bad < n_used,
        outcome="median" if wanted > n_points else "blocks",
    )
