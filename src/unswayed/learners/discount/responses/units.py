"""Rewards in units of their own, so that learning does not depend on how they are written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses.categories import Categories
from unswayed.tallies import Tallies, UserTallies, entry_users

LEVELS = (0.4, 0.7)
"""Quantiles over users from which the tail of honest rewards is drawn out; less than .3 of them
cannot move these beyond what honest users show."""

FAR = 4.5
"""Half-normal deviations up to which it is drawn out, on a logarithmic scale: 5.8 deviations of
the logarithm for log-normal rewards, about 100 deviations for normal ones."""


class Unit(NamedTuple):
    """Rewards are ``origin + width·x``; those beyond ±``reach`` are believed up to there.

    ``cut`` is the share of single rewards in the sample that lie beyond.
    """

    origin: float
    width: float
    reach: float
    cut: float

    def of(self, tallies: UserTallies) -> UserTallies:
        """Return the tallies in these units; the same object if that changes nothing."""
        if (self.origin, self.width) == (0.0, 1.0):
            return tallies
        return tallies.transformed(_in_units, self.origin, self.width)

    def back(self, values: FloatArray) -> FloatArray:
        """Return values in the original units."""
        return self.origin + self.width * values


def unit_of(categories: Categories, rewards: FloatArray, sample: Tallies) -> Unit:
    """Return units in which two values are 0 and 1, and other rewards of spread one.

    Parameters
    ----------
    categories, rewards
        Of single plays.
    sample
        Users' plays.
    """
    if categories.is_binary:
        low, high = categories.values.tolist()
        return Unit(low, high - low, 1.0, 0.0)
    origin = float(np.median(rewards))
    if categories.dominant:
        origin = float(categories.values[int(np.argmin(np.abs(categories.scores)))])
    far = _farthest_of_users(sample, origin)
    width = float(far.mean()) if len(far) else 1.0
    if len(far):
        width = min(width, float(np.quantile(far, LEVELS[1])))
    reach = _drawn_out(far) if len(far) else width
    cut = float((np.abs(rewards - origin) > reach).mean())
    return Unit(origin, width or 1.0, reach / (width or 1.0), cut)


def _farthest_of_users(sample: Tallies, origin: float) -> FloatArray:
    """Return how far from the origin each user's farthest entry lies, of users who leave it."""
    far = np.zeros(sample.n_users)
    np.maximum.at(far, entry_users(sample.indptr), np.abs(sample.sums / sample.counts - origin))
    return far[far > 0.0]


def _drawn_out(far: FloatArray) -> float:
    """Return where a log-normal tail through two quantiles reaches at ``FAR`` deviations."""
    low, high = np.log(np.quantile(far, LEVELS))
    z_low, z_high = special.ndtri((1.0 + np.array(LEVELS)) / 2.0)
    steep = max(high - low, 0.1)  # as if nobody differed by less than a tenth
    return float(np.exp(high + steep * (FAR - z_high) / (z_high - z_low)))


def _in_units(tallies: Tallies, origin: float, width: float) -> Tallies:
    counts, sums = tallies.counts, tallies.sums
    squares = tallies.squares - 2.0 * origin * sums + origin * origin * counts
    return tallies.with_sums(
        counts, (sums - origin * counts) / width, np.maximum(squares, 0.0) / (width * width)
    )
