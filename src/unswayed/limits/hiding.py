"""Exact limits on how well a coalition can hide that one action is better, and how it does so.

In the ordinary world each play of the action pays 1 with probability ``base`` (P0 over the
``interactions`` plays of one user), in the better world with probability ``base + gap`` (P1).
``interactions`` counts the plays of that one action by one user, not all plays of the user.
Functions that return distances broadcast arrays, and return a number for scalar arguments. Binomial
sums stay accurate for a billion plays: no overflow, no cancellation.

The optimal colluder draws the total number of its ones, and then returns its ones and zeros in
random order, as if drawn from an urn. Each play takes constant time, and every beginning of the
sequence is hidden at least as well as the whole.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.limits.checks import (
    MAX_INTERACTIONS,
    N_USERS,
    Floats,
    Integers,
    check_coalition,
    check_count,
    check_gap,
    check_interactions,
    check_minority,
    refuse,
)
from unswayed.names import known_keywords
from unswayed.visible import counted, percent

# Ours: outcomes with a smaller probability, relative to the likeliest, are omitted from sums
NEGLIGIBLE = 1e-300


@compiled
def _falling(n: int, k: int, odds: float) -> FloatArray:
    """Return binomial probabilities of k, k + 1, ... ones relative to that of k, until negligible.

    Each is computed from the one before it, so no factorials are needed.
    """
    weights = [1.0]
    while k < n and weights[-1] >= NEGLIGIBLE:
        weights.append(weights[-1] * ((n - k) / (k + 1) * odds))
        k += 1
    return np.array(weights)


@dataclass(frozen=True, slots=True)
class CountDistribution:
    """A distribution of the number of ones among a user's first plays.

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
        # Scaling by the last sum ensures that no value outside the support is drawn because of
        # rounding errors.
        uniforms = rng.random(size) * cumulative[-1]
        places: IntArray = np.searchsorted(cumulative, uniforms, side="right").astype(np.int64)
        return self.first + places


@dataclass(frozen=True, slots=True)
class HidingAdversary:
    """Rewards that members of a hiding coalition report for the contested action."""

    counts: CountDistribution  # distribution of ones among a member's first n plays of the action
    afterwards: float  # probability of a one in later plays
    # remaining total variation distance between the two worlds, in one user's data
    distance: float

    def start(self, n_members: int, rng: np.random.Generator) -> RewardUrns:
        """Create one urn per member, from which rewards are drawn play by play."""
        ones = self.counts.draw(check_count(n_members, "n_members", at_least=0), rng)
        return RewardUrns(ones, self.counts.interactions, afterwards=self.afterwards)


@dataclass(frozen=True, slots=True)
class HidingPair:
    """The two coalitions that make two worlds look alike, and the observed counts in both.

    ``ordinary`` is the coalition in the world in which good users have mean reward base, ``better``
    the one for base + gap. ``observed`` is the distribution of counts over all users in the
    ordinary world; in the better world it differs by ``ordinary.distance``, which is zero if the
    coalition is large enough.
    """

    ordinary: HidingAdversary
    better: HidingAdversary
    observed: CountDistribution


def binomial_counts(interactions: int, probability: float) -> CountDistribution:
    """Return the distribution of the number of ones of a good user.

    >>> binomial_counts(2, 0.5).dense()
    array([0.25, 0.5 , 0.25])
    """
    plays = int(check_interactions(interactions))
    if not 0 <= probability <= 1:
        raise InputError(f"probability is {probability}: it must lie between 0 and 1.")
    if probability in (0, 1):
        return CountDistribution(plays, plays * int(probability), np.ones(1))
    # Start at the likeliest count: about 74·sqrt(n p (1−p)) entries are not negligible.
    mode, odds = min(plays, int((plays + 1) * probability)), probability / (1.0 - probability)
    below = _falling(plays, plays - mode, 1.0 / odds)
    weights = np.concatenate([below[:0:-1], _falling(plays, mode, odds)])
    return CountDistribution(plays, mode + 1 - below.size, weights / weights.sum())


def one_sided_adversary(
    gap: float, interactions: int, alpha: float, *, base: float = 0.5
) -> HidingAdversary:
    """Return the optimal E^(n) of the paper: it makes a better action look ordinary.

    It is E = [P0 − (1−alpha) P1]_+/(alpha + H), where H is the one-sided `hiding_distance`, the
    minimum over all E. After n plays, members report rewards as in the ordinary world. Parameters
    are those of `hiding_distance`, but scalars, with at least one play. Deviation: the paper
    truncates E at a fixed deviation; this E is truncated where it becomes negative, which is
    optimal.

    >>> one_sided_adversary(0.1, 1, 0.2).counts.dense().round(3)
    array([0.9, 0.1])
    """
    hidden = _hiding(gap, interactions, alpha, base, one_sided=True)
    return HidingAdversary(hidden.counts(hidden.bad[1]), float(base), hidden.distance)


def two_sided_adversaries(
    gap: float, interactions: int, alpha: float, *, base: float = 0.5
) -> HidingPair:
    """Return the pair of coalitions that makes the better and the ordinary world look alike.

    In the world P0 the members' counts follow [P1 − P0]_+/TV, in the world P1 [P0 − P1]_+/TV. If
    the coalition is larger than necessary, its remaining members follow max(P0, P1)/(1+TV), which
    is also the observed distribution in both worlds. After n plays, members behave like the good
    users of the other world. Parameters are those of `one_sided_adversary`. The paper has the
    one-sided case only.

    >>> pair = two_sided_adversaries(0.25, 1, 0.2)
    >>> pair.ordinary.counts.dense(), pair.better.counts.dense(), pair.observed.dense()
    (array([0., 1.]), array([1., 0.]), array([0.4, 0.6]))
    """
    hidden = _hiding(gap, interactions, alpha, base, one_sided=False)
    ordinary, better = (
        HidingAdversary(hidden.counts(bad), float(afterwards), hidden.distance)
        for bad, afterwards in zip(hidden.bad, (base + gap, base), strict=True)
    )
    return HidingPair(ordinary, better, observed=hidden.counts(hidden.seen[0]))


class _Hiding(NamedTuple):
    """Optimal colluders in both worlds; arrays are probabilities of counts from ``first`` on."""

    plays: int
    first: int
    # Distributions of colluders, in the ordinary and in the better world
    bad: tuple[FloatArray, FloatArray]
    seen: tuple[FloatArray, FloatArray]  # distributions over all users
    distance: float  # distance between the observed distributions

    def counts(self, probabilities: FloatArray) -> CountDistribution:
        """Return a distribution without the zeros at both ends."""
        support = np.flatnonzero(probabilities)
        low, high = int(support[0]), int(support[-1]) + 1
        return CountDistribution(self.plays, self.first + low, probabilities[low:high])


def _hiding(gap: float, interactions: int, alpha: float, base: float, one_sided: bool) -> _Hiding:
    gap, base = map(float, check_gap(gap, base))
    plays = int(check_interactions(interactions, at_least=1))
    fraction = float(check_coalition(alpha))
    p0, p1, ratio, first = _both_worlds(gap, plays, base)
    if one_sided:
        distance = _excess(gap, plays, base, fraction)
        shortfall = p0 * _one_minus_exp(np.log1p(-fraction) + ratio)
        bad = p0, shortfall / float(shortfall.sum())
    else:
        surplus, shortfall = p1 * _one_minus_exp(-ratio), p0 * _one_minus_exp(ratio)
        total = float(surplus.sum())
        distance = max(0.0, (1 - fraction) * total - fraction)
        busy = min(1.0, (1 - fraction) * total / fraction)
        idle = (1 - busy) * np.maximum(p0, p1) / (1 + total)
        bad = busy * surplus / total + idle, busy * shortfall / float(shortfall.sum()) + idle
    seen = ((1 - fraction) * p0 + fraction * bad[0], (1 - fraction) * p1 + fraction * bad[1])
    return _Hiding(plays, first, bad, seen, distance)


def _both_worlds(
    gap: float, plays: int, base: float
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Return P0, P1 and log P1/P0 on one range of counts, and the first of these counts."""
    worlds = binomial_counts(plays, base), binomial_counts(plays, base + gap)
    first = min(world.first for world in worlds)
    end = max(world.first + world.probabilities.size for world in worlds)
    both = np.zeros((2, end - first))
    for row, world in zip(both, worlds, strict=True):
        start = world.first - first
        row[start : start + world.probabilities.size] = world.probabilities
    ones = np.arange(first, end)
    # Log ratios of a single one and zero are infinite if base is 0 or base + gap is 1. A factor of
    # zero must contribute nothing, even if the log ratio is infinite.
    with np.errstate(divide="ignore", invalid="ignore"):
        per_one = np.log1p(np.float64(gap) / base)
        per_zero = np.log1p(np.maximum(-gap / (1 - base), -1.0))
        ratio = np.where(ones > 0, ones * per_one, 0.0)
        ratio += np.where(ones < plays, (plays - ones) * per_zero, 0.0)
    return both[0], both[1], np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf), first


def _one_minus_exp(exponent: FloatArray) -> FloatArray:
    """Return [1 − e^x]_+ without cancellation."""
    return -np.expm1(np.minimum(exponent, 0.0))


def _excess(gap: float, plays: float, base: float, fraction: float) -> float:
    """Return Σ_k [(1−fraction)·P1(k) − P0(k)]_+.

    Each term is (1−fraction)·P1(k)·(1 − e^−x) with x = log((1−fraction)·P1(k)/P0(k)); both factors
    have full relative precision.
    """
    _, better, ratio, _ = _both_worlds(gap, int(plays), base)
    surplus = better * _one_minus_exp(-(math.log1p(-fraction) + ratio))
    return (1.0 - fraction) * float(surplus.sum())


_excesses = np.vectorize(_excess, otypes=[np.float64])


class RewardUrns:
    """One urn per member: each play takes a ball without putting it back.

    An urn contains ``interactions`` balls, of which ``ones``, shape (n_members,), are ones; they
    are drawn in uniformly random order. An empty urn yields independent ones with probability
    ``afterwards``.

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
        self.remaining: IntArray = np.full(self._ones.shape, interactions, dtype=np.int64)
        self._afterwards = float(afterwards)

    def draw(self, members: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Draw one reward for each entry of `members`, in their order; members may repeat."""
        drawn = np.asarray(members, dtype=np.int64).ravel()
        if np.any((drawn < 0) | (drawn >= self._ones.size)):
            raise InputError(f"members must be numbered from 0 to {self._ones.size - 1}.")
        uniforms = rng.random(drawn.size)
        return _draw(drawn, uniforms, self._ones, self.remaining, self._afterwards)


@compiled
def _draw(
    members: IntArray, uniforms: FloatArray, ones: IntArray, remaining: IntArray, afterwards: float
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


def total_variation(gap: ArrayLike, interactions: ArrayLike, *, base: ArrayLike = 0.5) -> Floats:
    """Return the total variation distance between the two worlds, for the data of one user.

    It is Σ_k [P1(k) − P0(k)]_+ over the number k of ones, exact up to rounding, for a positive gap
    and base + gap at most 1. The paper bounds it by Pinsker's inequality.

    >>> round(float(total_variation(0.1, 5)), 10)
    0.18256
    """
    gaps, bases = check_gap(gap, base)
    found: Floats = _excesses(gaps, check_interactions(interactions), bases, 0.0)[()]
    return found


def hiding_distance(
    gap: ArrayLike,
    interactions: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
    is_one_sided: bool = False,
) -> Floats:
    """Return the smallest distance between the two worlds that a coalition can attain.

    Zero means perfectly hidden. By default there are colluders in both worlds; the distance is then
    max(0, (1−alpha)·TV − alpha), which `two_sided_adversaries` attain. With ``is_one_sided``, the
    ordinary world is known to be free of colluders, as in the paper; the distance is then H = Σ_k
    [(1−alpha) P1(k) − P0(k)]_+, which `one_sided_adversary` attains. For an ordinary action that is
    made to look better, pass ``base = 1 − base − gap``.

    Guarantee: the exact optimum if users are adversarial independently of each other. Deviations:
    the paper's Lemma 4.2 has a bound instead, H ≤ L^−4 for n ≤ 0.01 alpha²/(gap² log L).

    >>> round(float(hiding_distance(0.1, 3, 0.1, is_one_sided=True)), 10)
    0.0832
    >>> float(hiding_distance(0.1, 9, 0.2)), float(hiding_distance(0.1, 10, 0.2)) > 0
    (0.0, True)
    """
    gaps, bases = check_gap(gap, base)
    plays, fractions = check_interactions(interactions), check_coalition(alpha)
    if is_one_sided:
        clean: Floats = _excesses(gaps, plays, bases, fractions)[()]
        return clean
    distance: Floats = _excesses(gaps, plays, bases, 0.0)[()]
    return np.maximum(0.0, (1 - fractions) * distance - fractions)


def smallest_coalition(
    gap: ArrayLike, interactions: ArrayLike, *, base: ArrayLike = 0.5, is_one_sided: bool = False
) -> Floats:
    """Return the smallest share of colluders that makes the two worlds look alike.

    With at least this share, no method can learn which world it is in, whatever the number of
    users. It is TV/(1+TV). One-sided, it is 1 − (base/(base+gap))^n, with which even n ones in a
    row are no likelier than in the ordinary world. Parameters are those of `hiding_distance`.

    >>> round(float(smallest_coalition(0.1, 10)), 10)
    0.2039168137
    >>> round(float(smallest_coalition(0.1, 1, is_one_sided=True)), 10)
    0.1666666667
    """
    if not is_one_sided:
        return coalition_for(total_variation(gap, interactions, base=base))
    gaps, bases = check_gap(gap, base)
    plays = check_interactions(interactions)
    with np.errstate(divide="ignore"):
        per_one = np.log1p(gaps / bases)
    # Without plays everything is hidden, even if a single play would distinguish the worlds.
    shape = np.broadcast(plays, per_one).shape
    exponent = np.multiply(plays, per_one, where=plays > 0, out=np.zeros(shape))
    return np.asarray(-np.expm1(-exponent))[()]


def coalition_for(distance: Floats) -> Floats:
    """Return the share of colluders, in both worlds, that hides a total variation distance."""
    return distance / (1 + distance)


def success_bound(n_users: ArrayLike, distance: ArrayLike, hellinger: ArrayLike = 1.0) -> Floats:
    """Return the largest success probability of any test between two equally likely worlds.

    ``distance`` is the `hiding_distance` of the optimal coalition, and ``hellinger`` the
    corresponding squared Hellinger distance, `hiding_hellinger`.

    It is Le Cam's bound ½ + ½·min(1, n_users·distance, sqrt(1 − BC^(2·n_users))), where BC = 1 −
    hellinger is the Bhattacharyya coefficient. The second term is the better bound for few users,
    the third for many.

    >>> round(float(success_bound(10, 0.082068, 1 - 0.994048)), 3)
    0.668
    """
    users = np.asarray(n_users, dtype=np.float64)
    distances = np.asarray(distance, dtype=np.float64)
    squared = np.asarray(hellinger, dtype=np.float64)
    refuse("n_users", users, ~(users >= 1), "at least 1 is needed to observe anything.")
    for name, found in (("distance", distances), ("hellinger", squared)):
        refuse(name, found, ~((found >= 0) & (found <= 1)), "it must lie between 0 and 1.")
    with np.errstate(divide="ignore"):  # log(0) if the worlds share no outcome
        joint = np.sqrt(-np.expm1(2.0 * users * np.log1p(-squared)))
    return 0.5 + 0.5 * np.minimum(np.minimum(1.0, users * distances), joint)


def hiding_hellinger(
    gap: ArrayLike,
    interactions: ArrayLike,
    alpha: ArrayLike,
    *,
    base: ArrayLike = 0.5,
    is_one_sided: bool = False,
) -> Floats:
    """Return the squared Hellinger distance between the worlds under the optimal coalition.

    It is 1 − BC, where BC = Σ_k sqrt(Q0(k)·Q1(k)) is the Bhattacharyya coefficient of the observed
    counts in the two worlds. Parameters are those of `hiding_distance`.

    >>> float(hiding_hellinger(0.1, 9, 0.2))
    0.0
    >>> round(1 - float(hiding_hellinger(0.1, 5, 0.2, is_one_sided=True)), 6)
    0.994048
    """

    def left(gap: float, plays: int, fraction: float, base: float) -> float:
        hidden = _hiding(gap, plays, fraction, base, is_one_sided)
        if hidden.distance == 0.0:
            return 0.0
        # 1 − BC without cancellation
        first, second = np.sqrt(hidden.seen)
        return float(0.5 * ((first - second) ** 2).sum())

    found: Floats = np.vectorize(left, otypes=[np.float64])(gap, interactions, alpha, base)[()]
    return found


# Ours: tolerance for rounding errors, so that a coalition of exactly the required size is large
# enough
ROUNDING = 1e-12


def largest_interactions(
    gap: ArrayLike, alpha: ArrayLike, *, base: ArrayLike = 0.5, is_one_sided: bool = False
) -> Integers:
    """Return the largest number of plays per user for which a coalition hides the gap perfectly.

    Parameters are those of `hiding_distance`; alpha is below one half unless one world is clean,
    since half of the users can hide any gap indefinitely.

    Exact: the largest n with TV(n) ≤ alpha/(1−alpha), which grows like (alpha/gap)², or one-sided
    log(1/(1−alpha))/log(1 + gap/base).

    >>> [int(n) for n in np.atleast_1d(largest_interactions([0.05, 0.1, 0.2], 0.2))]
    [40, 9, 2]
    >>> int(largest_interactions(0.05, 0.2, is_one_sided=True))
    2
    """
    gaps, bases = check_gap(gap, base)
    fractions = check_coalition(alpha) if is_one_sided else check_minority(alpha)

    def largest(gap: float, base: float, fraction: float) -> int:
        if is_one_sided:
            per_one = math.log1p(gap / base) if base > 0 else math.inf
            return _capped(math.floor(-math.log1p(-fraction) / per_one * (1 + ROUNDING)), gap)
        allowed = fraction / (1 - fraction) * (1 + ROUNDING)
        # Doubling, then bisection.
        visible = 1
        while _excess(gap, visible, base, 0.0) <= allowed:
            visible = _capped(2 * visible, gap)
        excess = partial(_excess, gap, base=base, fraction=0.0)
        return bisect_right(range(visible), allowed, lo=visible // 2, key=excess) - 1

    plays: Integers = np.vectorize(largest, otypes=[np.int64])(gaps, bases, fractions)[()]
    return plays


def _capped(plays: int, gap: float) -> int:
    if plays > MAX_INTERACTIONS:
        raise InputError(
            f"gap {gap} is so small that this coalition can hide it for more than "
            f"{MAX_INTERACTIONS // 2:,} plays per user: it cannot be learned in practice."
        )
    return plays


# Ours: the table lists 1, 2, 5, 10, 20, 50, ... plays, and the numbers in the answer.
TABLE_STEPS = (1, 2, 5)
TABLE_REACH = 10  # Ours: the table ends at this multiple of the requested number of plays


@dataclass(frozen=True, slots=True)
class LimitsRow:
    """The limits after a number of plays of the better action by each user."""

    interactions: int
    smallest_coalition: float  # smallest coalition that makes both worlds look alike
    # Smallest coalition that makes the better world look like a clean ordinary one
    smallest_one_sided: float
    distance: float  # distance under the optimal coalition of this size, for one user
    is_hidden: bool
    success_bound: float | None  # maximum success probability of any method; None without n_users


@dataclass(frozen=True, slots=True)
class Hideability:
    """What a coalition can hide: the question, and the answer in numbers and words.

    If the ordinary world is known to be clean, the distance is ``one_sided_distance``, and the
    coalition can hide the gap for ``hidden_until_one_sided`` plays.
    """

    gap: float
    interactions: int
    adversarial_fraction: float
    base: float
    n_users: int | None
    asked: LimitsRow  # limits for the requested number of plays
    one_sided_distance: float
    hidden_until: int  # plays per user up to which both worlds can be made to look alike
    visible_from: int
    hidden_until_one_sided: int
    rows: tuple[LimitsRow, ...]  # limits for increasing numbers of plays
    words: tuple[str, ...]


@known_keywords(adversarial_fraction="alpha")
def can_hide(
    gap: float, interactions: int, alpha: float, *, base: float = 0.5, n_users: int | None = None
) -> Hideability:
    """Return whether a coalition can hide a gap, for how many plays, and the smallest one that can.

    The better action pays 1 with probability base + gap, and each user plays it ``interactions``
    times. With ``n_users``, the result includes a bound on the success probability of any method.
    The limits are exact for colluders in both worlds; see `hiding_distance`.

    >>> result = can_hide(0.1, 10, 0.2)
    >>> result.asked.is_hidden, result.hidden_until
    (False, 9)
    >>> print(result.words[0])
    No: with 10 plays per user a coalition of 20% cannot fully hide a gap of 0.1.
    """
    check_gap(gap, base)
    plays = int(check_interactions(interactions, at_least=1))
    fraction = float(check_minority(alpha))
    users = None if n_users is None else check_count(n_users, N_USERS)
    hidden_until = int(largest_interactions(gap, fraction, base=base))

    def row(n: int) -> LimitsRow:
        is_hidden, bound = n <= hidden_until, None
        # With a coalition of exactly the required size, the distance is a rounding error.
        distance = 0.0 if is_hidden else float(hiding_distance(gap, n, fraction, base=base))
        if users is not None:
            squared = 0.0 if is_hidden else float(hiding_hellinger(gap, n, fraction, base=base))
            bound = float(success_bound(users, distance, squared))
        one_sided = smallest_coalition(gap, n, base=base, is_one_sided=True)
        smallest = smallest_coalition(gap, n, base=base)
        return LimitsRow(n, float(smallest), float(one_sided), distance, is_hidden, bound)

    asked = row(plays)
    reach = min(MAX_INTERACTIONS, TABLE_REACH * max(plays, hidden_until))
    usual = {step * 10**digits for step in TABLE_STEPS for digits in range(len(str(reach)))}
    listed = {plays, max(hidden_until, 1), hidden_until + 1, *(n for n in usual if n <= reach)}
    clean = float(hiding_distance(gap, plays, fraction, base=base, is_one_sided=True))
    until_clean = int(largest_interactions(gap, fraction, base=base, is_one_sided=True))
    return Hideability(
        gap=float(gap),
        interactions=plays,
        adversarial_fraction=fraction,
        base=float(base),
        n_users=users,
        asked=asked,
        one_sided_distance=clean if clean > ROUNDING else 0.0,
        hidden_until=hidden_until,
        visible_from=hidden_until + 1,
        hidden_until_one_sided=until_clean,
        rows=tuple(asked if n == plays else row(n) for n in sorted(listed)),
        words=_words(gap, fraction, asked, hidden_until, users),
    )


def _words(
    gap: float, fraction: float, asked: LimitsRow, hidden_until: int, n_users: int | None
) -> tuple[str, ...]:
    plays, share = counted(asked.interactions, "play"), percent(fraction)
    if asked.is_hidden:
        verdict = (
            f"Yes: with {plays} per user a coalition of {share} can hide a gap of {gap:g} "
            "completely. Whatever the method and the number of users, it does no better than "
            "tossing a coin."
        )
    else:
        verdict = (
            f"No: with {plays} per user a coalition of {share} cannot fully hide a gap of {gap:g}."
        )
    smallest = (
        f"The smallest coalition that could hide it after {plays} per user is "
        f"{percent(asked.smallest_coalition)} of the users."
    )
    until = (
        f"A coalition of {share} can hide this gap for up to {counted(hidden_until, 'play')} per "
        f"user; from {counted(hidden_until + 1, 'play')} on it cannot."
        if hidden_until
        else f"A coalition of {share} cannot hide this gap even for one play per user."
    )
    words: tuple[str, ...] = (verdict, smallest, until)
    if n_users is not None and asked.success_bound is not None and not asked.is_hidden:
        words += (
            f"With {n_users:,} users the best method distinguishes the better action from an "
            f"ordinary one with a probability of at most {asked.success_bound:.3g}."
            if asked.success_bound < 1
            else f"{n_users:,} users are enough for this bound to rule nothing out.",
        )
    return words
