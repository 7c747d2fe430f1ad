"""For how many plays a coalition can keep a gap hidden."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unswayed.errors import InputError
from unswayed.limits.binomial import excess, single_log_ratios
from unswayed.limits.checks import (
    MAX_INTERACTIONS,
    Integers,
    check_coalition,
    check_gap,
    check_minority,
)

ROUNDING = 1e-12
"""Ours: a coalition that is exactly large enough counts as large enough despite rounding."""


def largest_one_sided_interactions(
    gap: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
    tolerance: ArrayLike = 0.0,
) -> Integers:
    """Return the most plays per user for which the one-sided distance is at most a tolerance.

    Parameters
    ----------
    gap, alpha, base
        As in `one_sided_distance`; arrays broadcast.
    tolerance
        Distance per user that still counts as hidden. 0 asks for perfect hiding; the paper's
        Lemma 4.2 uses n_users^−4.

    Notes
    -----
    Guarantee: exact; the distance never falls as plays are added, because the shorter sequence is
    a part of the longer. Deviations: none.

    Examples
    --------
    >>> int(largest_one_sided_interactions(0.05, 0.2))
    2
    """
    gaps, bases = check_gap(gap, base)
    fractions = check_coalition(alpha)
    tolerances = np.asarray(tolerance, dtype=np.float64)
    if np.any(~(tolerances >= 0)):
        raise InputError("tolerance must be at least 0: it is a total variation distance.")
    if np.any(tolerances >= 1 - fractions):
        raise InputError(
            "tolerance is so large that any number of plays stays within it: the distance never "
            "passes 1 - alpha. Give a tolerance below that."
        )

    def largest(gap: float, base: float, fraction: float, tolerance: float) -> int:
        per_one, per_zero = (float(ratio) for ratio in _ratios(base, gap))
        if tolerance == 0.0:
            return _capped(math.floor(-math.log1p(-fraction) / per_one * (1 + ROUNDING)), gap)
        allowed = tolerance * (1 + ROUNDING)
        return _largest(
            lambda n: excess(n, base + gap, per_one, per_zero, fraction) <= allowed, gap
        )

    return _over(largest, gaps, bases, fractions, tolerances)


def largest_two_sided_interactions(
    gap: ArrayLike, alpha: ArrayLike, *, base: ArrayLike = 0.5
) -> Integers:
    """Return the most plays per user for which a coalition makes the two worlds look alike.

    Parameters
    ----------
    gap, base
        As in `total_variation`; arrays broadcast.
    alpha
        Share of colluders, above 0 and below one half: half of the users hide any gap for ever.

    Notes
    -----
    Guarantee: exact; the largest n with TV(n) ≤ alpha/(1−alpha). It grows like (alpha/gap)².

    Examples
    --------
    >>> [int(n) for n in np.atleast_1d(largest_two_sided_interactions([0.05, 0.1, 0.2], 0.2))]
    [40, 9, 2]
    """
    gaps, bases = check_gap(gap, base)
    fractions = check_minority(alpha)

    def largest(gap: float, base: float, fraction: float) -> int:
        per_one, per_zero = (float(ratio) for ratio in _ratios(base, gap))
        allowed = fraction / (1 - fraction) * (1 + ROUNDING)
        return _largest(lambda n: excess(n, base + gap, per_one, per_zero, 0.0) <= allowed, gap)

    return _over(largest, gaps, bases, fractions)


def _largest(is_hidden: Callable[[int], bool], gap: float) -> int:
    """Return the last n that is hidden, by doubling and halving; what is hidden never returns."""
    hidden, visible = 0, 1
    while is_hidden(visible):
        hidden, visible = visible, 2 * visible
        _capped(visible, gap)
    while visible - hidden > 1:
        middle = (hidden + visible) // 2
        if is_hidden(middle):
            hidden = middle
        else:
            visible = middle
    return hidden


def _capped(plays: int, gap: float) -> int:
    if plays > MAX_INTERACTIONS:
        raise InputError(
            f"gap {gap} is so small that this coalition can hide it for more than "
            f"{MAX_INTERACTIONS // 2:,} plays per user: it cannot be learned in practice."
        )
    return plays


def _ratios(base: float, gap: float) -> tuple[np.ndarray, np.ndarray]:
    return single_log_ratios(np.asarray(base), np.asarray(gap))


def _over(largest: Callable[..., int], *values: np.ndarray) -> Integers:
    arrays = np.broadcast_arrays(*values)
    found = [
        largest(*(float(value) for value in entry))
        for entry in zip(*map(np.ravel, arrays), strict=True)
    ]
    return np.asarray(found, dtype=np.int64).reshape(arrays[0].shape)[()]
