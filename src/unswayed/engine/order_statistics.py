"""Exact order statistics of numbers distributed over blocks, by counting passes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.engine.blocked import Blocked

#: Ours: pivots per rank and pass. Each pass narrows the range of doubles by a factor of 64, so
#: eleven passes suffice.
_PIVOTS = 63

_SIGN = 1 << 63


def order_statistics(blocks: Blocked[FloatArray], ranks: Sequence[int]) -> list[float]:
    """Return the numbers that have given ranks, from 0, among the numbers of all blocks.

    Parameters
    ----------
    blocks
        Finite numbers, ascending within each block.
    ranks
        Below the number of numbers.

    Notes
    -----
    Guarantee: exact, wherever the numbers lie; a pass sends ``63·len(ranks)`` pivots to each block
    and gets as many counts back. Doubles are ordered as their bits are, so a search between the
    smallest and the largest ends after 64 bits, six of them a pass.

    Examples
    --------
    >>> order_statistics(Blocked.here([np.array([1.0, 5.0]), np.array([-2.0])]), [0, 1, 2])
    [-2.0, 1.0, 5.0]
    """
    limit = np.finfo(np.float64).max
    lows, highs = [_key(-limit)] * len(ranks), [_key(limit)] * len(ranks)
    while any(low < high for low, high in zip(lows, highs, strict=True)):
        pivots = [_between(low, high) for low, high in zip(lows, highs, strict=True)]
        keys = sorted(set(itertools.chain(*pivots)))
        counts = blocks.add_blocks(_counts, np.array([_number(key) for key in keys]))
        n_up_to = dict(zip(keys, counts.tolist(), strict=True))
        for place, rank in enumerate(ranks):
            for pivot in pivots[place]:
                if n_up_to[pivot] > rank:
                    highs[place] = pivot
                    break
                lows[place] = pivot + 1
    return [_number(high) for high in highs]


def _between(low: int, high: int) -> list[int]:
    """Return pivots from ``low`` to below ``high``, ascending."""
    step = max((high - low) // (_PIVOTS + 1), 1)
    return list(range(low, high, step))[: _PIVOTS + 1]


def _counts(numbers: FloatArray, pivots: FloatArray) -> IntArray:
    return np.searchsorted(numbers, pivots, side="right")


def _key(number: float) -> int:
    """Map a double to an integer with the same order."""
    bits = int(np.float64(number).view(np.uint64))
    return ~bits & (2 * _SIGN - 1) if bits & _SIGN else bits | _SIGN


def _number(key: int) -> float:
    bits = key & ~_SIGN if key & _SIGN else ~key & (2 * _SIGN - 1)
    return float(np.uint64(bits).view(np.float64))
