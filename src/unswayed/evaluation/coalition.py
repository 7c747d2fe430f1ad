"""A coalition that lies about what is evaluated: found along the decisions of the policy.

Learners look for lies that turn decisions, whichever they are. Here the decisions are known, and so
is where lies pay: in the cells that the policy plays, and in those that plain means rank first and
second. Two populations (``population.py``) are fitted from several starts. A coalition is believed
if it gains clearly more than in logs whose rewards were permuted within cells, and clearly more
than the opposite explanation: tastes are two-sided, a coalition is not.

What many members say a little and what few say loudly look alike: the log fixes the share times the
square of the tilt, and the value of a policy hangs on the share times the tilt. So a coalition is
fitted again with shares from a quarter of the stated one to the largest, and every fit counts
whose gain is close to that of the best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.evaluation.population import (
    CLASSES,
    LARGEST_TILT,
    Data,
    Fit,
    data_of,
    fitted,
    membership,
    started,
)
from unswayed.tallies import Tallies

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
"""Ours: steps of EM from every start; steps from the best starts, and how many of them."""

NULLS = 3
"""Ours: logs with permuted rewards."""

NULL_MARGIN, CLEAR_GAIN = 1.25, 7.0
"""Ours: a gain must exceed a multiple of the largest gain of the nulls by a number of nats."""

CLEARLY_ONE_SIDED, ONE_SIDED, CLEAR_ORIENTATION = 0.5, 0.88, 2.5
"""Ours: the opposite fit may gain the first share at most; or the second, and so many nats less,
if the coalition is smaller than it may be and honest elsewhere. Tastes gain nearly as much either
way, take all the room that they get, and show everywhere: .85 to 1 in most logs with tastes, .53 to
.85 with quiet lies.
"""

LOUD, APART, LOUDER = (2.5, 1.2), 60.0, 0.8
"""Ours: or, for lies of these tilts (of two values, and of others), so many nats less and this
share at most; tastes show no such tilts."""

FULL, ELSEWHERE = 0.95, 0.3
"""Ours: of the largest mass; and of the largest tilt that members may show in other cells."""

SAMPLE_ENTRIES = 400_000
"""Ours: fits look at users with about so many entries; all are judged by the result."""

JACKKNIFE_GROUPS, JACKKNIFE_STEPS = 20, 8
"""Ours: groups of users that are left out in turn, and steps of EM without them."""

SHARES = (0.25, 0.5, 0.75, 1.0, 1.25)
"""Ours: shares of members that are tried, in units of the stated one."""

STEPS = 15
"""Ours: steps of EM with a given share."""

CLOSE, WRONG = 3.0, 0.05
"""Ours: a fit is plausible if it gains at most this many nats less than the best (1.9 is half the
.95 quantile of χ² with one degree of freedom; the best of several directions gains more by chance),
and this share of the best gain less: no model of lies is quite true, and the gain of a wrong one
grows with the log."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Weights of users, and whether a coalition was believed.

    ``plausible_weights`` are the weights of all fits that are about as good, which intervals must
    contain; ``has_opposites`` says that two clear ones contradict each other. ``ambiguity`` is the
    mean chance that a member is none. ``replicates`` are weights of the same users fitted without a
    group of them each, in which the left-out ones have none; empty if nothing was believed.
    """

    weights: FloatArray
    is_accepted: bool
    gain: float
    null_gain: float
    opposite_gain: float
    share: float
    ambiguity: float = 0.0
    replicates: tuple[FloatArray, ...] = ()
    plausible_weights: tuple[FloatArray, ...] = ()
    has_opposites: bool = False


def find_coalition(
    tallies: Tallies,
    classes: IntArray,
    *,
    alpha: float,
    rng: np.random.Generator,
) -> Found:
    """Look for a coalition that lies about the given classes of cells.

    Parameters
    ----------
    tallies
        Users' plays, without importance weights.
    classes
        Shape (n_cells,); class of each cell, below ``CLASSES``.
    alpha
        α.
    rng
        Samples and permutations are drawn from it.
    """
    all_users = data_of(tallies, classes)
    nobody = Found(np.ones(tallies.n_users), False, 0.0, 0.0, 0.0, 0.0)
    most = MASS_MARGIN * alpha
    if most <= 0.0 or len(all_users.users) == 0:
        return nobody
    sample, chosen = _sampled(all_users, rng)
    fit = _searched(sample, most)
    null_gain = max(_searched(_dealt(sample, rng), most).gain for _ in range(NULLS))
    opposite = fitted(sample, started(sample, -fit.tilts, most), most, LONG_STEPS)
    is_reversed = bool((opposite.tilts * fit.tilts).sum() < 0.0)
    opposite_gain = max(opposite.gain, 0.0) if is_reversed else 0.0
    is_clear = fit.gain > NULL_MARGIN * max(null_gain, 0.0) + CLEAR_GAIN
    loud = LOUD[0] if sample.is_binary else LOUD[1]
    if is_clear and _is_one_sided(fit, opposite_gain, most, loud):
        fits = plausible([fit, *fits_with_other_shares(sample, fit, alpha, most)])
        weights = [_weights(all_users, each) for each in fits]
        return Found(
            averaged(fits, weights),
            True,
            fit.gain,
            null_gain,
            opposite_gain,
            fit.share,
            float((fit.members * (1.0 - fit.members)).sum() / max(fit.members.sum(), 1e-9)),
            tuple(_replicates(all_users, sample, chosen, fit, most, rng)),
            tuple(weights),
        )
    ours = [fit, *fits_with_other_shares(sample, fit, alpha, most)]
    theirs = [opposite, *fits_with_other_shares(sample, opposite, alpha, most)]
    has_opposites = is_clear and is_reversed
    if has_opposites:
        fits = [*plausible(ours), *plausible(theirs)]
    else:
        about = fits_about_the_policy(sample, alpha, most)
        fits = plausible([*ours, *theirs, *about], 0.0)
    return replace(
        nobody,
        gain=fit.gain,
        null_gain=null_gain,
        opposite_gain=opposite_gain,
        plausible_weights=tuple(_weights(all_users, each) for each in fits),
        has_opposites=has_opposites,
    )


def _weights(all_users: Data, fit: Fit) -> FloatArray:
    return np.asarray(1.0 - membership(all_users, fit)[0], np.float64)


def _is_one_sided(fit: Fit, opposite_gain: float, most: float, loud: float) -> bool:
    """Return whether a fit is clearly better than the opposite one."""
    if opposite_gain <= CLEARLY_ONE_SIDED * fit.gain:
        return True
    largest = float(np.abs(fit.tilts[:-1]).max())
    if abs(fit.tilts[-1]) > ELSEWHERE * largest:
        return False
    if largest >= loud and opposite_gain <= min(LOUDER * fit.gain, fit.gain - APART):
        return True
    is_better = opposite_gain <= min(ONE_SIDED * fit.gain, fit.gain - CLEAR_ORIENTATION)
    return bool(is_better and fit.share < FULL * most)


def _replicates(
    all_users: Data,
    sample: Data,
    chosen: IntArray,
    fit: Fit,
    most: float,
    rng: np.random.Generator,
) -> list[FloatArray]:
    group = rng.integers(JACKKNIFE_GROUPS, size=all_users.n_users)
    found = []
    for left_out in range(JACKKNIFE_GROUPS):
        is_in = (group != left_out).astype(np.float64)
        again = fitted(sample, fit, most, JACKKNIFE_STEPS, is_in[chosen])
        found.append(is_in * (1.0 - membership(all_users, again)[0]))
    return found


def _sampled(data: Data, rng: np.random.Generator) -> tuple[Data, IntArray]:
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


def _searched(data: Data, most: float) -> Fit:
    """Return the fit with the largest gain."""
    short = []
    for signs in STARTS:
        for size in SIZES:
            tilts = np.array([*signs, 0.0]) * size
            short.append(fitted(data, started(data, tilts, most), most, SHORT_STEPS))
    short.sort(key=lambda fit: -fit.gain)
    fits = [fitted(data, fit, most, LONG_STEPS) for fit in short[:FINALISTS]]
    return max(fits, key=lambda fit: fit.gain)


def _dealt(data: Data, rng: np.random.Generator) -> Data:
    """Permute rewards among entries of the same cell with the same number of plays."""
    order = np.lexsort((data.plays, data.cells))
    mixed = np.lexsort((rng.random(len(order)), data.plays, data.cells))
    rewards = np.empty_like(data.rewards)
    rewards[order] = data.rewards[mixed]
    return data._replace(rewards=rewards)


def fits_with_other_shares(data: Data, fit: Fit, alpha: float, most: float) -> list[Fit]:
    """Return a fit with every share that is tried."""
    found = []
    for share in SHARES:
        scale = np.sqrt(max(fit.share, 1e-3) / (share * alpha))
        tilts = np.clip(scale * fit.tilts, -LARGEST_TILT, LARGEST_TILT)
        start = replace(fit, tilts=tilts, share=share * alpha)
        found.append(fitted(data, start, most, STEPS, share=share * alpha))
    return found


def fits_about_the_policy(data: Data, alpha: float, most: float) -> list[Fit]:
    """Return coalitions that raise or lower what the policy plays, and nothing else at first."""
    found = []
    for tilt in (1.0, -1.0, 3.0, -3.0):
        for share in (0.5 * alpha, alpha):
            tilts = np.zeros(CLASSES)
            tilts[0] = tilt
            start = replace(started(data, tilts, most), share=share)
            found.append(fitted(data, start, most, STEPS, share=share))
    return found


def plausible(fits: list[Fit], least_gain: float = -np.inf) -> list[Fit]:
    """Return the fits that gain about as much as the best, or as a gain that is known."""
    best = max(least_gain, *(fit.gain for fit in fits))
    least = best - _slack(best)
    return [fit for fit in fits if fit.gain >= least]


def averaged(fits: list[Fit], weights: list[FloatArray]) -> FloatArray:
    """Return the mean of users' weights over fits, each as likely as its gain has it."""
    gains = np.array([fit.gain for fit in fits])
    likely = np.exp((gains - gains.max()) / (_slack(float(gains.max())) / CLOSE))
    return np.asarray(np.average(np.stack(weights), axis=0, weights=likely), np.float64)


def _slack(best_gain: float) -> float:
    return CLOSE + WRONG * max(best_gain, 0.0)
