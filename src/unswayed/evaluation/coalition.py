"""A coalition that lies about what is evaluated: found along the decisions of the policy.

Learners look for lies that turn decisions, whichever they are. Here the decisions are known, and so
is where lies pay: in the cells that the policy plays, and in those that plain means rank first and
second. A member's rewards in a class k of cells are tilted by exp(δ_k·reward), one tilt for each
class; honest users have one mean for a cell. Both are fitted by EM, from several starts. With T
rewards and n plays in a cell, a user's log-ratio is Σ (δ_k·T − n·A(δ_k)), where A is the log of the
mean of exp(δ·reward).

The coalition is believed if it gains clearly more than in logs whose rewards were dealt anew within
cells, and clearly more than the opposite story: tastes are two-sided, a coalition is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.learners.interface import FloatArray, IntArray
from unswayed.tallies import Tallies, entry_users

CLASSES = 4
"""What the policy plays, the naive winner, the naive runner-up, and all others."""

MASS_MARGIN = 1.25
"""Ours: a coalition has at most this many times the stated share of the users."""

STARTS = (
    (1.0, 0.0, 0.0),
    (-1.0, 0.0, 0.0),
    (1.0, -1.0, 0.0),
    (-1.0, 1.0, 0.0),
    (1.0, 0.0, -1.0),
    (-1.0, 0.0, 1.0),
    (0.0, -1.0, 1.0),
    (0.0, 1.0, -1.0),
)
SIZES = (2.5, 0.8)
"""Ours: signs and sizes of the tilts that EM starts from, in log-odds or deviations."""

SHORT_STEPS, LONG_STEPS, FINALISTS = 5, 50, 2
"""Ours: steps of EM from every start, and from the best so many."""

LARGEST_TILT = 6.0
"""Ours: in log-odds or deviations; lies as loud as that are as loud as any."""

NULLS = 3
"""Ours: logs with dealt rewards."""

NULL_MARGIN, CLEAR_GAIN = 1.25, 7.0
"""Ours: a gain must exceed this many times the largest of the nulls, and so many nats more."""

CLEARLY_ONE_SIDED, ONE_SIDED, CLEAR_ORIENTATION = 0.5, 0.88, 2.5
"""Ours: the opposite story may gain the first share at most; or the second, and so many nats less,
if the coalition is smaller than it may be and honest elsewhere. Tastes gain nearly as much either
way, take all the room that they get, and show everywhere: .85 to 1 in most logs with tastes, .53 to
.85 with quiet lies.
"""

FULL, ELSEWHERE = 0.95, 0.3
"""Ours: of the largest mass; and of the largest tilt that members may show in other cells."""

SAMPLE_ENTRIES = 400_000
"""Ours: fits look at users with about so many entries; all are judged by the result."""

FAR = 4.0
"""Ours: rewards that are not binary count up to so many deviations from their cell's mean."""

JACKKNIFE_GROUPS, JACKKNIFE_STEPS = 20, 8
"""Ours: groups of users that are left out in turn, and steps of EM without them."""


class _Data(NamedTuple):
    """Entries of users: cells, plays and rewards; what class each cell is of."""

    users: IntArray
    cells: IntArray
    plays: FloatArray
    rewards: FloatArray
    classes: IntArray
    n_users: int
    is_binary: bool

    @property
    def n_cells(self) -> int:
        return len(self.classes)


class _Sums(NamedTuple):
    """Plays and rewards of each cell."""

    plays: FloatArray
    rewards: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Honest means, tilts of the coalition, its share, and what is gained by it.

    ``members`` has every user's probability to belong to it.
    """

    means: FloatArray
    tilts: FloatArray
    share: float
    gain: float
    members: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Weights of users, and whether a coalition was believed.

    ``replicates`` are weights of the same users fitted without a group of them each, in which the
    left-out ones have none; empty if nothing was believed. ``stories`` are the weights of two
    opposite stories, if something is there and the log does not tell which of them is true.
    """

    weights: FloatArray
    is_believed: bool
    gain: float
    null_gain: float
    opposite_gain: float
    share: float
    replicates: tuple[FloatArray, ...] = ()
    stories: tuple[FloatArray, ...] = ()


def find_coalition(
    tallies: Tallies,
    classes: IntArray,
    *,
    adversarial_fraction: float,
    rng: np.random.Generator,
) -> Found:
    """Look for a coalition that lies about the given classes of cells.

    Parameters
    ----------
    tallies
        Users' plays, without importance weights.
    classes
        Shape (n_cells,); class of each cell, below ``CLASSES``.
    adversarial_fraction
        α.
    rng
        Samples and dealt rewards are drawn from it.
    """
    everybody = _data_of(tallies, classes)
    nobody = Found(np.ones(tallies.n_users), False, 0.0, 0.0, 0.0, 0.0)
    most = MASS_MARGIN * adversarial_fraction
    if most <= 0.0 or len(everybody.users) == 0:
        return nobody
    sample, chosen = _sampled(everybody, rng)
    fit = _searched(sample, most)
    null_gain = max(_searched(_dealt(sample, rng), most).gain for _ in range(NULLS))
    opposite = _fitted(sample, _started(sample, -fit.tilts, most), most, LONG_STEPS)
    is_reversed = bool((opposite.tilts * fit.tilts).sum() < 0.0)
    opposite_gain = max(opposite.gain, 0.0) if is_reversed else 0.0
    is_clear = fit.gain > NULL_MARGIN * max(null_gain, 0.0) + CLEAR_GAIN
    if not is_clear or not _is_one_sided(fit, opposite_gain, most):
        both = (fit, opposite) if is_clear and is_reversed else ()
        return replace(
            nobody,
            gain=fit.gain,
            null_gain=null_gain,
            opposite_gain=opposite_gain,
            stories=tuple(1.0 - _membership(everybody, story)[0] for story in both),
        )
    weights = 1.0 - _membership(everybody, fit)[0]
    return Found(
        weights,
        True,
        fit.gain,
        null_gain,
        opposite_gain,
        fit.share,
        tuple(_replicates(everybody, sample, chosen, fit, most, rng)),
    )


def _is_one_sided(fit: Fit, opposite_gain: float, most: float) -> bool:
    """Return whether a story is clearly better than the opposite one."""
    if opposite_gain <= CLEARLY_ONE_SIDED * fit.gain:
        return True
    is_better = opposite_gain <= min(ONE_SIDED * fit.gain, fit.gain - CLEAR_ORIENTATION)
    is_honest_elsewhere = abs(fit.tilts[-1]) <= ELSEWHERE * np.abs(fit.tilts[:-1]).max()
    return bool(is_better and is_honest_elsewhere and fit.share < FULL * most)


def _replicates(
    everybody: _Data,
    sample: _Data,
    chosen: IntArray,
    fit: Fit,
    most: float,
    rng: np.random.Generator,
) -> list[FloatArray]:
    group = rng.integers(JACKKNIFE_GROUPS, size=everybody.n_users)
    found = []
    for left_out in range(JACKKNIFE_GROUPS):
        is_in = (group != left_out).astype(np.float64)
        again = _fitted(sample, fit, most, JACKKNIFE_STEPS, is_in[chosen])
        found.append(is_in * (1.0 - _membership(everybody, again)[0]))
    return found


def _data_of(tallies: Tallies, classes: IntArray) -> _Data:
    """Return entries in units: 0 and 1 for two values, else deviations from the cells' means."""
    users, cells = entry_users(tallies.indptr), tallies.cells.astype(np.int64)
    plays, sums = tallies.plays, tallies.sums
    spread = tallies.squares - sums**2 / np.maximum(plays, 1.0)
    low, high = float((sums / plays).min()), float((sums / plays).max())
    width = high - low
    ones = (sums - plays * low) / (width or 1.0)
    squares = (tallies.squares - 2 * low * sums + plays * low**2) / (width or 1.0) ** 2
    is_binary = bool(np.abs(squares - ones).max(initial=0.0) < 1e-6 * max(plays.max(), 1.0))
    if is_binary:
        return _Data(users, cells, plays, ones, classes, tallies.n_users, True)
    mass = np.maximum(np.bincount(cells, plays, tallies.n_cells), 1e-9)
    means = np.bincount(cells, sums, tallies.n_cells) / mass
    far = sums / plays - means[cells]
    total = float((spread + plays * far**2).sum())
    deviation = np.sqrt(total / max(float(plays.sum()), 1.0)) or 1.0
    scores = plays * np.clip(far / deviation, -FAR, FAR)
    return _Data(users, cells, plays, scores, classes, tallies.n_users, False)


def _sampled(data: _Data, rng: np.random.Generator) -> tuple[_Data, IntArray]:
    """Return the entries of random users, and who they are; all if they are few."""
    n_entries = len(data.users)
    if n_entries <= SAMPLE_ENTRIES:
        return data, np.arange(data.n_users)
    size = max(2, int(data.n_users * SAMPLE_ENTRIES / n_entries))
    chosen = np.sort(rng.choice(data.n_users, size=size, replace=False))
    place = np.full(data.n_users, -1, dtype=np.int64)
    place[chosen] = np.arange(size)
    kept = place[data.users] >= 0
    sample = data._replace(
        users=place[data.users[kept]],
        cells=data.cells[kept],
        plays=data.plays[kept],
        rewards=data.rewards[kept],
        n_users=size,
    )
    return sample, chosen


def _searched(data: _Data, most: float) -> Fit:
    """Return the fit with the largest gain."""
    short = []
    for signs in STARTS:
        for size in SIZES:
            tilts = np.array([*signs, 0.0]) * size
            short.append(_fitted(data, _started(data, tilts, most), most, SHORT_STEPS))
    short.sort(key=lambda fit: -fit.gain)
    fits = [_fitted(data, fit, most, LONG_STEPS) for fit in short[:FINALISTS]]
    return max(fits, key=lambda fit: fit.gain)


def _started(data: _Data, tilts: FloatArray, most: float) -> Fit:
    everybody = _sums(data, np.ones(data.n_users))
    means = _means(data, everybody)
    return Fit(means, tilts, most / 2.0, 0.0, np.zeros(data.n_users))


def _fitted(
    data: _Data, start: Fit, most: float, n_steps: int, user_weights: FloatArray | None = None
) -> Fit:
    """Return the fit after some steps of EM."""
    own = np.ones(data.n_users) if user_weights is None else user_weights
    everybody = _sums(data, own)
    fit = start
    for _ in range(n_steps):
        members, gains = _membership(data, fit)
        kept = _sums(data, own * (1.0 - members))
        theirs = _Sums(everybody.plays - kept.plays, everybody.rewards - kept.rewards)
        share = min(max(float(own @ members / own.sum()), 1e-6), most)
        # What is gained over one population, whose means are those of everybody.
        gain = (
            float(own @ gains)
            + _log_likelihood(data, everybody, fit.means)
            - _log_likelihood(data, everybody, _means(data, everybody))
        )
        tilts = _tilts(data, fit.means, theirs)
        fit = Fit(_means(data, kept), tilts, share, gain, members)
    return fit


def _sums(data: _Data, weights: FloatArray) -> _Sums:
    own = weights[data.users]
    return _Sums(
        np.asarray(np.bincount(data.cells, own * data.plays, data.n_cells), np.float64),
        np.asarray(np.bincount(data.cells, own * data.rewards, data.n_cells), np.float64),
    )


def _membership(data: _Data, fit: Fit) -> tuple[FloatArray, FloatArray]:
    """Return probabilities of members, and log-likelihoods over those of honest users."""
    of_cell = fit.tilts[data.classes]
    per_play = _log_mean(of_cell, fit.means, is_binary=data.is_binary)
    terms = of_cell[data.cells] * data.rewards - per_play[data.cells] * data.plays
    ratios = np.minimum(np.bincount(data.users, terms, data.n_users), 300.0)
    odds = fit.share * np.exp(ratios)
    total = 1.0 - fit.share + odds
    return odds / total, np.log(total)


def _log_mean(tilts: FloatArray, means: FloatArray, *, is_binary: bool) -> FloatArray:
    """Return log of the mean of exp(tilt·reward) in each cell."""
    result: FloatArray = (
        np.log1p(means * np.expm1(tilts)) if is_binary else tilts * means + tilts**2 / 2.0
    )
    return result


def _tilts(data: _Data, means: FloatArray, theirs: _Sums) -> FloatArray:
    """Return the tilts at which members' rewards are as expected, class by class."""
    total = np.bincount(data.classes, theirs.rewards, CLASSES)
    low, high = np.full(CLASSES, -LARGEST_TILT), np.full(CLASSES, LARGEST_TILT)
    odds = special.logit(means) if data.is_binary else means
    for _ in range(25):
        middle = (low + high) / 2.0
        expected = odds + middle[data.classes]
        if data.is_binary:
            expected = special.expit(expected)
        is_below = np.bincount(data.classes, theirs.plays * expected, CLASSES) < total
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray((low + high) / 2.0, np.float64)


def _means(data: _Data, kept: _Sums) -> FloatArray:
    """Return mean rewards; one play more at one half for binary ones."""
    if data.is_binary:
        return np.clip((kept.rewards + 0.5) / (kept.plays + 1.0), 1e-4, 1.0 - 1e-4)
    return np.asarray(kept.rewards / np.maximum(kept.plays, 1.0), np.float64)


def _log_likelihood(data: _Data, sums: _Sums, means: FloatArray) -> float:
    """Return the log-likelihood of one population, up to what does not depend on the means."""
    if data.is_binary:
        terms = special.xlogy(sums.rewards, means)
        terms += special.xlog1py(sums.plays - sums.rewards, -means)
    else:
        terms = sums.rewards * means - sums.plays * means**2 / 2.0
    return float(terms.sum())


def _dealt(data: _Data, rng: np.random.Generator) -> _Data:
    """Return the same plays with rewards dealt anew among entries of a cell with as many plays."""
    order = np.lexsort((data.plays, data.cells))
    mixed = np.lexsort((rng.random(len(order)), data.plays, data.cells))
    rewards = np.empty_like(data.rewards)
    rewards[order] = data.rewards[mixed]
    return data._replace(rewards=rewards)
