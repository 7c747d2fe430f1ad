"""The coalitions that attain the limits: the rewards of each colluder, drawn play by play.

The best colluder needs only the number of ones it will ever return: it draws that number, and then
returns its ones and zeros in random order. Drawing them one at a time from an urn costs nothing
per play, and any beginning of the sequence is hidden at least as well as the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.limits.binomial import binomial_window, single_log_ratios
from unswayed.limits.checks import check_coalition, check_count, check_gap, check_interactions


@dataclass(frozen=True, slots=True)
class CountDistribution:
    """A distribution over the number of ones in a user's first plays.

    Attributes
    ----------
    interactions
        Number n of plays.
    first
        The smallest count listed.
    probabilities
        ``probabilities[j]`` is P(K = first + j); counts not listed have probability 0.
    """

    interactions: int
    first: int
    probabilities: FloatArray

    def dense(self) -> FloatArray:
        """Return the probabilities of all counts 0, ..., n."""
        everything = np.zeros(self.interactions + 1)
        everything[self.first : self.first + self.probabilities.size] = self.probabilities
        return everything

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw independent counts (size,)."""
        cumulative = np.cumsum(self.probabilities)
        # Scaling to the last sum keeps rounding from ever drawing beyond the support.
        uniforms = rng.random(size) * cumulative[-1]
        places: IntArray = np.searchsorted(cumulative, uniforms, side="right").astype(np.int64)
        return self.first + places


@dataclass(frozen=True, slots=True)
class HidingAdversary:
    """The rewards of a hiding coalition's members when the contested action is played.

    Attributes
    ----------
    counts
        Distribution of the number of ones among a member's first n plays of the action.
    afterwards
        Probability of a one once those plays are over, when nothing is hidden any more.
    distance
        What stays visible in one user: the total variation distance between the two worlds.
    """

    counts: CountDistribution
    afterwards: float
    distance: float

    def start(self, n_members: int, rng: np.random.Generator) -> RewardUrns:
        """Create one urn per member, from which rewards are drawn play by play."""
        ones = self.counts.draw(check_count(n_members, "n_members", at_least=0), rng)
        return RewardUrns(ones, self.counts.interactions, afterwards=self.afterwards)


@dataclass(frozen=True, slots=True)
class HidingPair:
    """The two coalitions that make two worlds look alike, and what is then seen in both.

    Attributes
    ----------
    ordinary
        The coalition beside good users whose mean reward is base.
    better
        The coalition beside good users whose mean reward is base + gap.
    observed
        Counts seen over all users in the ordinary world; the better world's differ from them by
        `ordinary.distance`, which is zero when the coalition is large enough.
    """

    ordinary: HidingAdversary
    better: HidingAdversary
    observed: CountDistribution


def binomial_counts(interactions: int, probability: float) -> CountDistribution:
    """Return how many ones a good user returns.

    >>> binomial_counts(2, 0.5).dense()
    array([0.25, 0.5 , 0.25])
    """
    plays = int(check_interactions(interactions))
    if not 0 <= probability <= 1:
        raise InputError(f"probability is {probability}: it must lie between 0 and 1.")
    first, probabilities = binomial_window(plays, float(probability))
    return CountDistribution(plays, int(first), probabilities)


def one_sided_adversary(
    gap: float, interactions: int, alpha: float, *, base: float = 0.5
) -> HidingAdversary:
    """Return the paper's E^(n) at its best: it makes a better action look ordinary.

    Parameters
    ----------
    gap, interactions, alpha, base
        As in `one_sided_distance`, but single numbers, with at least one play.

    Returns
    -------
    E = [P0 − (1−alpha) P1]_+/(alpha + H), with H = `one_sided_distance`. Afterwards the members
    give the rewards of the ordinary world.

    Notes
    -----
    Guarantee: TV(P0, (1−alpha) P1 + alpha E) = H, the least that any E attains, and at most H for
    every shorter prefix. Deviations: the paper cuts E at a fixed deviation and divides by a
    normaliser Z; this E is cut where it turns negative, which is optimal.

    Examples
    --------
    >>> one_sided_adversary(0.1, 1, 0.2).counts.dense().round(3)
    array([0.9, 0.1])
    """
    p0, _, ratio, first = both_worlds(gap, interactions, base)
    fraction = float(check_coalition(alpha))
    shortfall = p0 * one_minus_exp(np.log1p(-fraction) + ratio)
    total = float(shortfall.sum())
    counts = _trimmed(interactions, first, shortfall / total)
    return HidingAdversary(counts, float(base), max(0.0, total - fraction))


def two_sided_adversaries(
    gap: float, interactions: int, alpha: float, *, base: float = 0.5
) -> HidingPair:
    """Return the pair of coalitions that makes the better and the ordinary world look alike.

    Parameters
    ----------
    gap, interactions, alpha, base
        As in `two_sided_distance`, but single numbers, with at least one play.

    Returns
    -------
    Beside P0 the members follow [P1 − P0]_+/TV, beside P1 [P0 − P1]_+/TV. A coalition larger
    than needed lets the rest of its mass follow max(P0, P1)/(1+TV), which is also what an observer
    then sees in both worlds. Afterwards members behave like the other world's good users.

    Notes
    -----
    Guarantee: the two mixtures differ by max(0, (1−alpha)·TV − alpha), the least possible.
    Deviations: the paper hides one world only.

    Examples
    --------
    >>> pair = two_sided_adversaries(0.25, 1, 0.2)
    >>> pair.ordinary.counts.dense(), pair.better.counts.dense(), pair.observed.dense()
    (array([0., 1.]), array([1., 0.]), array([0.4, 0.6]))
    """
    p0, p1, ratio, first = both_worlds(gap, interactions, base)
    fraction = float(check_coalition(alpha))
    surplus, shortfall = p1 * one_minus_exp(-ratio), p0 * one_minus_exp(ratio)
    distance = float(surplus.sum())
    busy = min(1.0, (1 - fraction) * distance / fraction)
    idle = (1 - busy) * np.maximum(p0, p1) / (1 + distance)
    beside_p0 = busy * surplus / distance + idle
    beside_p1 = busy * shortfall / float(shortfall.sum()) + idle
    left = max(0.0, (1 - fraction) * distance - fraction)
    return HidingPair(
        ordinary=HidingAdversary(_trimmed(interactions, first, beside_p0), float(base + gap), left),
        better=HidingAdversary(_trimmed(interactions, first, beside_p1), float(base), left),
        observed=_trimmed(interactions, first, (1 - fraction) * p0 + fraction * beside_p0),
    )


def both_worlds(
    gap: ArrayLike, interactions: int, base: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Return P0, P1 and log P1/P0 on one range of counts, and the first of these counts."""
    gaps, bases = check_gap(gap, base)
    n = int(check_interactions(interactions, at_least=1))
    ordinary = binomial_counts(n, float(bases))
    better = binomial_counts(n, float(bases + gaps))
    first = min(ordinary.first, better.first)
    end = max(world.first + world.probabilities.size for world in (ordinary, better))
    both = np.zeros((2, end - first))
    for row, world in zip(both, (ordinary, better), strict=True):
        start = world.first - first
        row[start : start + world.probabilities.size] = world.probabilities
    per_one, per_zero = single_log_ratios(bases, gaps)
    ones = np.arange(first, end)
    # A count of zero contributes nothing, even where a single one would settle the matter.
    with np.errstate(invalid="ignore"):
        ratio = np.where(ones > 0, ones * per_one, 0.0) + np.where(
            ones < n, (n - ones) * per_zero, 0.0
        )
    return both[0], both[1], np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf), first


def one_minus_exp(exponent: FloatArray) -> FloatArray:
    """Return [1 − e^x]_+ without cancellation."""
    return -np.expm1(np.minimum(exponent, 0.0))


def _trimmed(interactions: int, first: int, probabilities: FloatArray) -> CountDistribution:
    """Drop the zeros at both ends."""
    support = np.flatnonzero(probabilities)
    low, high = int(support[0]), int(support[-1]) + 1
    return CountDistribution(int(interactions), first + low, probabilities[low:high])


class RewardUrns:
    """One urn per member: each play takes a ball without putting it back.

    An urn that started with n balls, k of them ones, yields a uniformly random order of its k ones
    and n − k zeros, whatever the moments at which it is drawn from. An empty urn yields
    independent ones with probability `afterwards`.

    Parameters
    ----------
    ones
        Ones in each urn, shape (n_members,).
    interactions
        Balls n in each urn.
    afterwards
        Probability of a one from an empty urn.

    Examples
    --------
    >>> urns = RewardUrns(np.array([3, 0]), 3, afterwards=1.0)
    >>> urns.draw(np.array([0, 1, 0, 0, 0]), np.random.Generator(np.random.PCG64(0)))
    array([1., 0., 1., 1., 1.])
    >>> urns.remaining
    array([0, 2])
    """

    def __init__(self, ones: ArrayLike, interactions: int, *, afterwards: float) -> None:
        self._ones = np.array(ones, dtype=np.int64)
        if self._ones.ndim != 1 or np.any((self._ones < 0) | (self._ones > interactions)):
            raise InputError("ones must list, for each member, a count between 0 and interactions.")
        if not 0 <= afterwards <= 1:
            raise InputError(f"afterwards is {afterwards}: it must be a probability.")
        self._remaining = np.full(self._ones.shape, interactions, dtype=np.int64)
        self._afterwards = float(afterwards)

    @property
    def remaining(self) -> IntArray:
        """Balls left in each urn, shape (n_members,)."""
        return self._remaining.copy()

    def draw(self, members: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Draw one reward for each entry of `members`, in their order; members may repeat."""
        drawn = np.asarray(members, dtype=np.int64).ravel()
        if np.any((drawn < 0) | (drawn >= self._ones.size)):
            raise InputError(f"members must be numbered from 0 to {self._ones.size - 1}.")
        uniforms = rng.random(drawn.size)
        return _draw(drawn, uniforms, self._ones, self._remaining, self._afterwards)


@compiled
def _draw(
    members: IntArray,
    uniforms: FloatArray,
    ones: IntArray,
    remaining: IntArray,
    afterwards: float,
) -> FloatArray:
    rewards = np.zeros(members.size)
    for i in range(members.size):
        member = members[i]
        left = remaining[member]
        if left == 0:
            if uniforms[i] < afterwards:
                rewards[i] = 1.0
            continue
        if uniforms[i] * left < ones[member]:
            rewards[i] = 1.0
            ones[member] -= 1
        remaining[member] = left - 1
    return rewards
