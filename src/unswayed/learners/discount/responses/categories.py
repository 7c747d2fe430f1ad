"""Rewards as categories and in units of their own.

So clicks, stars, baskets and dwell times have one likelihood, and learning does not depend on how
rewards are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.tallies import Tallies, UserTallies, entry_users

MOST_ATOMS = 10
"""Largest number of values that are each a category of their own."""

LEAST_ATOM = 0.01
"""Rarer values are no atoms: stars have five, not the few rows that were entered by hand."""

COVERED = 0.99
"""Atoms make up all categories if they cover this share of the rewards."""

DOMINANT = 0.5
"""A value with this share dominates, such as no purchase: one category, the rest are three."""

ABOVE_DOMINANT = (0.5, 0.85)
"""Quantiles that split what lies above a dominant value."""

BINS = 8
"""Quantile bins where no value dominates."""

SYMMETRIC = 0.3
"""Amounts are not skewed if the tenths at either end lie as far from the median, up to this share
of their distance. Normal rewards have 0, log-normal ones .6. Where rewards are skewed, they scatter
more around larger means: tastes pull winners up, and means lie away from redescending ones."""

LEAN = 0.25
"""Users' own rewards are skewed beyond this. Normal rewards have 0, and up to .2 if a fifth of the
users lie as they can; log-normal ones with a deviation of .5 have .3 to .65, counts and dwell times
of development and validation logs .40 to .76."""

LEAST_END = 0.02
"""Both ends of a scale have this share at least; the largest count of a log is rarer."""

RARE = 0.85
"""If one value has this share, a play carries little: one user's responses say next to nothing."""

SAME = 1e-9
"""Rewards that differ by less than this share of their range are the same value."""

LEVELS = (0.4, 0.7)
"""Quantiles over users from which the tail of honest rewards is drawn out; less than .3 of them
cannot move these beyond what honest users show."""

FAR = 4.5
"""Half-normal deviations up to which it is drawn out, on a logarithmic scale: 5.8 deviations of
the logarithm for log-normal rewards, about 100 deviations for normal ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """How rewards are sorted into categories.

    Attributes
    ----------
    edges
        Shape (n - 1,), ascending; a reward above k of them is of category k.
    scores
        Shape (n,); along which a user's level and tastes tilt the categories: 0 and 1 for what
        happens rarely, else normal scores.
    values
        Shape (n,); a typical reward of each category.
    dominant
        Whether one value dominates.
    share
        Share of the most frequent value.
    is_even
        Whether rewards scatter alike around all means: two values; a scale whose ends are in use,
        such as stars; or amounts that are not skewed.
    """

    edges: FloatArray
    scores: FloatArray
    values: FloatArray
    dominant: bool
    share: float
    is_even: bool

    @property
    def n(self) -> int:
        """Number of categories."""
        return len(self.scores)

    @property
    def is_binary(self) -> bool:
        """Whether there are just two values."""
        return self.n == 2

    @property
    def is_event(self) -> bool:
        """Whether rewards tell if something happened: two values, or one that dominates."""
        return self.is_binary or self.dominant

    @property
    def is_rare(self) -> bool:
        """Whether nearly all rewards are the same."""
        return self.is_event and self.share >= RARE


def find_categories(rewards: FloatArray, lean: float | None = None) -> Categories:
    """Return categories for rewards of single plays.

    Parameters
    ----------
    rewards
        Shape (n,); about as many of each user, so that volume does not decide. At least one.
    lean
        How far most users' own rewards lean to one side, if known: amounts are skewed only if they
        say so too. A fifth of the accounts can skew the rewards of all, but not those of most.

    Notes
    -----
    Equivariant: shifted and scaled rewards get the same categories, up to rounding.

    Examples
    --------
    >>> found = find_categories(np.array([0.0, 0.0, 0.0, 5.0]))
    >>> found.edges.tolist(), found.scores.tolist()
    ([2.5], [0.0, 1.0])
    """
    low, high = float(rewards.min()), float(rewards.max())
    width = (high - low) or 1.0
    steps, counts = np.unique(np.rint((rewards - low) / (width * SAME)), return_counts=True)
    values, shares = low + steps * (width * SAME), counts / counts.sum()
    is_atom = shares >= LEAST_ATOM
    if len(values) <= 2 or (shares[is_atom].sum() >= COVERED and 2 <= is_atom.sum() <= MOST_ATOMS):
        atoms = values if len(values) <= 2 else values[is_atom]
        edges = (atoms[1:] + atoms[:-1]) / 2
    elif shares.max() >= DOMINANT:
        common = float(values[shares.argmax()])
        edges = _around(common, rewards, width)
    else:
        edges = np.unique(np.quantile(rewards, np.arange(1, BINS) / BINS, method="median_unbiased"))
    sorted_in = np.searchsorted(edges, rewards)
    n_each = np.bincount(sorted_in, minlength=len(edges) + 1).astype(np.float64)
    typical = np.bincount(sorted_in, rewards, len(edges) + 1) / np.maximum(n_each, 1)
    dominant = bool(shares.max() >= DOMINANT)
    scores = _event_scores(n_each) if dominant or len(edges) < 2 else _normal_scores(n_each)
    ends = min(n_each[0], n_each[-1]) / n_each.sum()
    is_scale = len(edges) > 0 and len(edges) == len(values[is_atom]) - 1 and ends >= LEAST_END
    is_skewed = not _is_symmetric(rewards) and (lean is None or abs(lean) > LEAN)
    is_even = len(edges) == 1 or (not dominant and (is_scale or not is_skewed))
    return Categories(edges, scores, typical, dominant, float(shares.max()), is_even)


def _is_symmetric(rewards: FloatArray) -> bool:
    lower, middle, upper = np.quantile(rewards, (0.1, 0.5, 0.9))
    return bool(abs(upper - 2.0 * middle + lower) <= SYMMETRIC * (upper - lower))


def _around(common: float, rewards: FloatArray, width: float) -> FloatArray:
    """Return edges that set a dominant value apart, and split what lies above it."""
    margin = 10 * SAME * width
    above, below = rewards[rewards > common + margin], rewards[rewards < common - margin]
    edges = [common - margin] if len(below) else []
    if len(above):
        edges += [common + margin, *np.quantile(above, ABOVE_DOMINANT)]
    return np.unique(edges)


def _event_scores(n_each: FloatArray) -> FloatArray:
    """Return 0 for the most frequent category and 1 for all others, −1 for those below it."""
    place = np.arange(len(n_each)) - int(np.argmax(n_each))
    scores: FloatArray = np.sign(place).astype(np.float64)
    return scores


def _normal_scores(n_each: FloatArray) -> FloatArray:
    """Return normal quantiles of the middle ranks, with mean 0 and variance 1."""
    shares = (n_each + 0.5) / (n_each + 0.5).sum()
    scores = special.ndtri(np.cumsum(shares) - shares / 2)
    scores = scores - shares @ scores
    result: FloatArray = scores / np.sqrt(shares @ scores**2)
    return result


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
