"""Some users' plays side by side, without importance weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.engine import cut_codes
from unswayed.learners.discount.settings import SAMPLE_ENTRIES
from unswayed.tallies import Tallies, UserTallies, entry_users, joined

FROM_EACH = 10
"""Entries of a user that tell what rewards look like: active accounts have no larger say."""

VOTING, FEWEST_VOTES = 6, 100
"""Entries that a user needs to tell to which side rewards lean, and users that it takes."""

SAME = 1e-12
"""Variances below this share of a squared mean are rounding."""

ON_SCALE = 1e-4
"""How far from a scale the mean of one play may lie, in steps."""


def sampled(tallies: UserTallies, rng: np.random.Generator) -> tuple[Tallies, IntArray | slice]:
    """Return the plays of random users, and their codes; a slice if the sample has all users."""
    n_entries = int(tallies.cell_users().sum())
    is_everybody = n_entries <= SAMPLE_ENTRIES
    chosen = np.arange(tallies.n_users)
    if not is_everybody:
        size = max(1, int(tallies.n_users * SAMPLE_ENTRIES / n_entries))
        chosen = np.sort(rng.choice(tallies.n_users, size=size, replace=False))
    parts = tallies.blocks.map_blocks(_plays_of, pieces=cut_codes(chosen, tallies.blocks.sizes))
    return joined(parts), slice(None) if is_everybody else chosen


def single_rewards(tallies: Tallies) -> FloatArray:
    """Return rewards as single plays bring them, of each user about as many.

    Tallies have sums only. Where all entries fit two values, these are returned in the right
    numbers. Else an entry of one play, or of equal ones, stands for itself twice, and any other for
    two rewards: where nothing lies below the commonest one, such as no purchase, for that and for a
    larger one, by the share of plays that brought something; else for two with its mean and
    variance, on the scale that single rewards show if its sum lies on it. Nobody is left out:
    honest rewards vary, and those of a bot do not.
    """
    kept = _some_of_each(tallies)
    plays, means = tallies.plays[kept], (tallies.sums / tallies.counts)[kept]
    variances = (tallies.squares / tallies.counts)[kept] - means * means
    is_one = (plays < 1.5) | (variances <= SAME * means * means)
    if is_one.all():
        return np.asarray(means)
    variances = np.where(is_one, 0.0, variances)
    two = _two_values(means, variances)
    if two is not None:
        low, high = _nearest(means[is_one], two)
        n_high = int(np.rint(((means - low) / (high - low)).sum()))
        return np.repeat([low, high], [len(means) - n_high, n_high])
    exact, vary = means[is_one], ~is_one
    plays, means, variances = plays[vary], means[vary], variances[vary]
    common = _end(exact, means)
    if common is not None:
        drawn = _beyond(common, plays, means, variances)
    else:
        drawn = np.concatenate([means - np.sqrt(variances), means + np.sqrt(variances)])
    scale = _scale(exact, plays, means)
    if scale is not None:
        low, high, step = scale
        drawn = np.clip(low + step * np.rint((drawn - low) / step), low, high)
    return np.concatenate([exact, exact, drawn])


def _end(exact: FloatArray, means: FloatArray) -> float | None:
    """Return the commonest single reward if it is at one end of all rewards; else None."""
    values, counts = np.unique(exact, return_counts=True)
    if len(values) == 0 or counts.max() < 0.5 * len(exact):
        return None
    common = float(values[counts.argmax()])
    is_end = (means >= common).mean() > 0.999 or (means <= common).mean() > 0.999
    return common if is_end else None


def _beyond(
    common: float, plays: FloatArray, means: FloatArray, variances: FloatArray
) -> FloatArray:
    """Return two rewards for each entry: the common one, and larger ones by their share of plays.

    If f of n plays brought the same and all others the common reward, mean and variance give f.
    """
    far = means - common
    few = np.clip(np.rint(plays * far**2 / np.maximum(variances + far**2, 1e-300)), 1.0, plays)
    larger = common + plays * far / few
    order = np.argsort(larger, kind="stable")
    reached = np.floor(np.cumsum(2.0 * (few / plays)[order]) + 1e-9).astype(np.int64)
    drawn = np.repeat(larger[order], np.diff(reached, prepend=0))
    return np.concatenate([drawn, np.full(2 * len(means) - len(drawn), common)])


def lean_of_users(tallies: Tallies) -> float | None:
    """Return how far most users' rewards lean to one side; None if few users can tell.

    Of each user with enough entries, (largest + smallest − 2·median)/(largest − smallest); then the
    median over users, which a minority moves by little. Users whose rewards never vary do not vote.
    """
    kept = _some_of_each(tallies)
    users, means = entry_users(tallies.indptr)[kept], (tallies.sums / tallies.counts)[kept]
    _, first, count = np.unique(users, return_index=True, return_counts=True)
    first, count = first[count >= VOTING], count[count >= VOTING]
    smallest, largest = means[first], means[first + count - 1]
    middle = 0.5 * (means[first + (count - 1) // 2] + means[first + count // 2])
    width = largest - smallest
    votes = width > SAME * np.abs(largest)
    if votes.sum() < FEWEST_VOTES:
        return 0.0
    return float(
        np.median(((largest + smallest - 2.0 * middle) / np.maximum(width, 1e-300))[votes])
    )


def _some_of_each(tallies: Tallies) -> IntArray:
    """Return at most ``FROM_EACH`` entries of each user, from the smallest mean to the largest.

    They are evenly spaced in that order, so that names of contexts and actions do not matter.
    """
    means = tallies.sums / tallies.counts
    order = np.lexsort(
        (tallies.plays, tallies.squares / tallies.counts, means, entry_users(tallies.indptr))
    )
    count = np.diff(tallies.indptr)
    place = np.arange(len(order)) - np.repeat(tallies.indptr[:-1], count)
    out_of = np.repeat(np.maximum(count, FROM_EACH), count)
    kept: IntArray = order[(place + 1) * FROM_EACH // out_of > place * FROM_EACH // out_of]
    return kept


def _two_values(means: FloatArray, variances: FloatArray) -> tuple[float, float] | None:
    """Return the two values that explain all entries; None if there are no such.

    With rewards of two values l and h, (mean − l)·(h − mean) is the variance, so the mean square is
    a line in the mean.
    """
    centre, width = float(means.mean()), float(np.ptp(means)) + float(np.sqrt(variances.max()))
    x = (means - centre) / width
    y = variances / width**2 + x * x
    least, largest = int(x.argmin()), int(x.argmax())
    if x[largest] - x[least] < 1e-9:
        return None
    slope = (y[largest] - y[least]) / (x[largest] - x[least])
    level = y[least] - slope * x[least]
    spread = slope * slope / 4.0 + level
    rounding = 1e-12 * (centre / width) ** 2
    if spread <= 0.0 or np.abs(y - slope * x - level).max() > 1e-7 + rounding:
        return None
    low, high = slope / 2.0 - np.sqrt(spread), slope / 2.0 + np.sqrt(spread)
    return centre + width * low, centre + width * high


def _nearest(seen: FloatArray, wanted: tuple[float, float]) -> tuple[float, float]:
    """Return the values as they were seen, where they were, and free of rounding."""
    margin = 1e-6 * (wanted[1] - wanted[0])
    close = [seen[np.abs(seen - value) < margin] for value in wanted]
    low, high = (float(s[0]) if len(s) else v for s, v in zip(close, wanted, strict=True))
    return low, high


def _scale(
    exact: FloatArray, plays: FloatArray, means: FloatArray
) -> tuple[float, float, float] | None:
    """Return ends and step of a scale, such as stars, on which nearly all sums lie."""
    if len(exact) == 0:
        return None
    low, high = float(exact.min()), float(exact.max())
    steps = np.diff(np.unique(np.rint((exact - low) / max(high - low, 1e-300) * 1e6)))
    if len(steps) == 0:
        return None
    step = float(steps.min()) * 1e-6 * (high - low)
    sums = plays * (means - low) / step
    fits = (np.abs(sums - np.rint(sums)) < ON_SCALE * plays) & (means >= low) & (means <= high)
    return (low, high, step) if fits.mean() >= 0.99 else None


def _plays_of(tallies: Tallies, chosen: IntArray) -> Tallies:
    some = tallies.of_users(chosen)
    per_weight = some.plays / some.counts
    unweighted = some.with_sums(some.plays, some.sums * per_weight, some.squares * per_weight)
    return replace(unweighted, weighted_plays=np.empty(0))
