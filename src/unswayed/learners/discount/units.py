"""Rewards in units of their own, so that learning does not depend on how they are written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.learners.discount.loud.categories import Categories
from unswayed.learners.interface import FloatArray
from unswayed.tallies import BlockedTallies, Tallies


class Unit(NamedTuple):
    """Rewards are ``origin + width·x``."""

    origin: float
    width: float

    def of(self, tallies: BlockedTallies) -> BlockedTallies:
        """Return the tallies in these units; the same object if that changes nothing."""
        if (self.origin, self.width) == (0.0, 1.0):
            return tallies
        blocks = tallies.blocks.transformed(_in_units, self.origin, self.width)
        return BlockedTallies(blocks, tallies.sizes, tallies.n_contexts, tallies.n_actions)

    def back(self, values: FloatArray) -> FloatArray:
        """Return values in the original units."""
        return self.origin + self.width * values


def unit_of(categories: Categories, rewards: FloatArray) -> Unit:
    """Return units in which two values are 0 and 1, and other rewards centred with spread one."""
    if categories.is_binary:
        low, high = categories.values.tolist()
        return Unit(low, high - low)
    origin = float(np.median(rewards))
    width = float(np.mean(np.abs(rewards - origin)))
    return Unit(origin, width if width > 0.0 else 1.0)


def _in_units(tallies: Tallies, origin: float, width: float) -> Tallies:
    counts, sums = tallies.counts, tallies.sums
    squares = tallies.squares - 2.0 * origin * sums + origin * origin * counts
    return Tallies(
        tallies.n_users,
        tallies.n_contexts,
        tallies.n_actions,
        tallies.indptr,
        tallies.cells,
        counts,
        (sums - origin * counts) / width,
        np.maximum(squares, 0.0) / (width * width),
        weighted_plays=tallies.weighted_plays,
    )
