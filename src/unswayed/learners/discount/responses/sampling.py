"""Some users' plays side by side, without importance weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.engine import cut_codes
from unswayed.learners.discount.settings import SAMPLE_ENTRIES
from unswayed.tallies import Tallies, UserTallies, entry_users, joined

FROM_EACH = 10
"""Entries of a user that tell what rewards look like: active accounts have no larger say."""

VOTING, FEWEST_VOTES = 6, 100
"""Entries that a user needs to tell to which side rewards lean, and users that it takes."""

FEWEST_IN_CELL = 8
"""Entries that a cell needs for a median of its own: in a smaller one a user is most of it."""

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


def lean_of_users(tallies: Tallies) -> float:
    """Return how skewed most users' rewards are, from −1 to 1; 0 if few users can tell.

    Every user has one vote, on what is left of rewards after subtracting their cell's median: how
    far apart cells are says nothing about skewness. With enough entries of several plays the vote
    is the rank correlation of their means and variances, which is zero for symmetric rewards and
    does not fade with the number of plays. Otherwise, with enough entries of one play, it is
    (high + low − 2·median)/(high − low) of their outer twentieths. The median over users is
    returned, which a minority moves by little. Users whose rewards never vary do not vote.
    """
    users, means = entry_users(tallies.indptr), tallies.sums / tallies.counts
    residuals = means - _centres(tallies.cells, means, tallies.n_cells)
    variances = tallies.squares / tallies.counts - means * means
    is_one = tallies.plays < 1.5
    varies = ~is_one & (variances > SAME * means * means)
    by_tails = _tail_votes(users[is_one], residuals[is_one], tallies.n_users)
    by_scatter = _rank_votes(users[varies], residuals[varies], variances[varies], tallies.n_users)
    votes = np.where(np.isnan(by_scatter), by_tails, by_scatter)
    votes = votes[np.isfinite(votes)]
    return float(np.median(votes)) if len(votes) >= FEWEST_VOTES else 0.0


def _centres(cells: npt.NDArray[np.int32], means: FloatArray, n_cells: int) -> FloatArray:
    """Return the median of each entry's cell, or that of all entries where a cell has few."""
    medians = np.full(n_cells, np.median(means) if len(means) else 0.0)
    ordered, first, sizes = _in_order(cells, means, n_cells)
    has_many = sizes >= FEWEST_IN_CELL
    medians[has_many] = _middle(ordered, first[has_many], sizes[has_many])
    centres: FloatArray = medians[cells]
    return centres


def _tail_votes(users: IntArray, residuals: FloatArray, n_users: int) -> FloatArray:
    """Return how much further above their median than below it a user's rewards reach."""
    ordered, first, sizes = _in_order(users, residuals, n_users)
    votes = sizes >= VOTING
    first, sizes = first[votes], sizes[votes]
    low = ordered[first + sizes // 20]
    high = ordered[first + sizes - 1 - sizes // 20]
    found = np.full(n_users, np.nan)
    with np.errstate(invalid="ignore"):
        found[votes] = (high + low - 2.0 * _middle(ordered, first, sizes)) / (high - low)
    return found


def _rank_votes(
    users: IntArray, residuals: FloatArray, variances: FloatArray, n_users: int
) -> FloatArray:
    """Return the rank correlation of each user's means and variances."""
    ranks = [_ranks(users, values, n_users) for values in (residuals, variances)]
    covariances, *squares = (
        np.bincount(users, one * other, n_users)
        for one, other in (ranks, ranks[:1] * 2, ranks[1:] * 2)
    )
    with np.errstate(invalid="ignore"):
        found = covariances / np.sqrt(squares[0] * squares[1])
    votes = np.bincount(users, minlength=n_users) >= VOTING
    return np.where(votes, found, np.nan)


def _ranks(groups: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    """Return the rank of each value in its group, from the middle; equal values share theirs."""
    order = np.lexsort((values, groups))
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (np.diff(groups[order]) != 0) | (np.diff(values[order]) != 0)
    run, places = np.cumsum(is_new) - 1, np.arange(len(order))
    shared = np.bincount(run, places) / np.bincount(run)
    ranks = np.empty(len(order))
    ranks[order] = shared[run]
    means = np.bincount(groups, ranks, n_groups) / np.maximum(
        np.bincount(groups, None, n_groups), 1
    )
    centred: FloatArray = ranks - means[groups]
    return centred


def _in_order(
    groups: npt.NDArray[np.integer], values: FloatArray, n_groups: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return values ascending within groups, where each group begins, and its size."""
    sizes = np.bincount(groups, minlength=n_groups)
    return values[np.lexsort((values, groups))], np.cumsum(sizes) - sizes, sizes


def _middle(ordered: FloatArray, first: IntArray, sizes: IntArray) -> FloatArray:
    """Return medians of ordered groups, none of them empty."""
    middle: FloatArray = 0.5 * (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2])
    return middle


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
