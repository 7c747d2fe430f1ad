"""Audits of logs whose users chose the items themselves: reviews, ratings and likes.

The score of an account is a sum of log-likelihood ratios, each with its own null distribution:
lockstep with other accounts, ratings of targets, extreme ratings, and obscure items. Accounts are
flagged only for evidence that involves several accounts (lockstep, or a clear target), never for
individual habits.

*Habits* are statistics of how an account rates and what it chooses, standardised by the bulk of the
log. The null mean of a habit may depend on activity. Its null variance for an account with n
ratings is τ² + σ²/n, where τ² is the variance between honest accounts and σ² that between the
ratings of one account. Both estimates are robust, so that a minority of colluders does not inflate
them.

*Targets* are pairs of an item and a rating whose givers (accounts that gave this rating) deviate
from other accounts in the same way. An account that is paid for one item hides it among others,
which it rates at random or at their means. Two such accounts share few ratings, and each could be
honest. But they all gave the target the same rating, and what they have in common shows in the mean
over its givers: if fifty accounts deviate by 1.5 standard deviations each, their mean deviates by
ten of its standard errors.

1. *Givers.* For each target, the mean of its givers' habits, each computed without this rating.
2. *Null distribution.* Accounts that give similarly popular items the same rating are similar for
   honest reasons. So the means are centred and scaled by the means of such ratings. The statistic T
   is the squared Mahalanobis length.
3. *Members.* The log-likelihood ratio of a giver's habits under the mean of the other givers and
   under that of all accounts. The largest ratio of an account counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.lockstep import (
    FLAGGED,
    LEAST_FAR,
    Lockstep,
    Ratings,
    connected,
    find_lockstep,
    ratings_of,
)
from unswayed.audit.log import (
    AuditedLog,
    flagged_by_mistake,
    mark_reviewed,
    moved_items,
    share_bounds,
)
from unswayed.audit.results import (
    FLAGGED_WHERE_USERS_CHOSE,
    Accounts,
    Audit,
    GroupCard,
    Interval,
)
from unswayed.learners.explaining import plain_actions
from unswayed.policy import best_known

WORDS = {
    "offset": ("rates items higher than others do", "rates items lower than others do"),
    "spread": ("deviates far from items' means", "stays suspiciously close to items' means"),
    "top": ("gives the highest rating too often", "hardly ever gives the highest rating"),
    "bottom": ("gives the lowest rating too often", "hardly ever gives the lowest rating"),
    "extreme": ("gives extreme ratings only", "avoids extreme ratings"),
    "popularity": ("prefers popular items", "prefers obscure items"),
    "mixture": ("mixes popular and obscure items", "keeps to items of one popularity"),
    "lifetime": ("was active for long", "was active for a short time only"),
}
"""Descriptions of a large and of a small value of each habit."""

SHARED_TRAITS = {
    **dict.fromkeys(("offset", "spread", "top", "bottom"), (-1.0, 1.0)),
    "popularity": (-1.0, 0.0),
    "mixture": (0.0, 1.0),
    "lifetime": (-1.0, 0.0),
}
"""Habits by which the raters of an item are compared, and whether small and large values count. A
preference for popular items does not: users with a shared taste have it. Extreme ratings are
covered by ``top`` and ``bottom``."""

ITEM_PRIOR = 2.0
"""Ours: weight of the overall mean in the mean of an item, in ratings."""

MOST = 5.0
"""Ours: habits are clipped at this many deviations."""

BINS = 12
"""Ours: number of activity bins for the robust line."""

RIDGE = 0.1
"""Ours: how far the correlations of habits are shrunk towards 0. Like all constants in this module
it was chosen on the part ``development`` of ``benchmarks/audit.py``."""

LEAST_GIVERS = 5
"""Ours: minimum number of givers that make a rating a target."""

NEIGHBOURS, LEAST_NEIGHBOURS = 101, 20
"""Ours: size and minimum size of the sample of similarly popular items that a mean is compared
with. Below the minimum, the null distribution is that of independent accounts."""

DOUBT = 3.0
"""Ours: T is evidence beyond this multiple of the largest T expected if ratings are independent."""

CLEAR, CLEAR_GIVERS = 6.0, 20
"""Ours: the same multiple for a clear target, and its minimum number of givers. No target in 35
real data sets that are believed clean, nor in 70 redrawn ones, exceeds 5
(``benchmarks/audit.py``)."""

FLOOR = 3.0
"""Ours: givers without the shared habits lose at most this many nats."""

IN_LOCKSTEP, OBSCURE = 0.5, 1.0
"""Ours: assumed means for coordinated accounts, in deviations: of the lockstep score, and of the
preference for obscure items."""

MOST_OBSCURE = 3.0
"""Ours: the preference for obscure items is clipped at this many deviations, as some honest
accounts rate nothing else."""

EXTREMES = (4.0, 1.0)
"""Ours: parameters of the beta distribution of a coordinated account's share of extreme ratings."""

SHARES, LEAST_BETWEEN, MOST_BETWEEN = (0.01, 0.99), 0.001, 0.9
"""Ours: bounds on the mean of that share among honest accounts, and on its variance as a fraction
of the largest possible one."""

MEMBER = 2.0
"""Ours: a giver of a clear target is flagged from this many nats above ``FLOOR``."""

SUSPECT_WEIGHT = 0.05
"""Ours: weight of a flagged account in item means."""

LEAST_MEMBERS = 2
"""Ours: minimum size of a group."""

UNLIKE, MOST_HABITS = 2.0, 2
"""Ours: deviation from which a habit is given as a reason, and maximum number of such reasons."""

LEAST_SHIFT = 1.0
"""Ours: deviation from which the mean habit of a group is reported."""

CLOSER = 5.0
"""Ours: a group is reported as close in time if its share of ratings close in time exceeds this
multiple of the usual share."""

MOST_GROUPS = 30
"""Ours: maximum number of group cards."""


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Standardised habits that vary in this log.

    ``values`` has shape (n_users, n_habits). ``without``, of shape (n_entries, n_habits), has the
    habits of an entry's account, computed without this entry.
    """

    names: tuple[str, ...]
    values: FloatArray
    without: FloatArray

    def words(self, deviations: FloatArray, least: float) -> list[str]:
        """Return a description of deviations of at least ``least``, the largest first."""
        order = np.argsort(-np.abs(deviations), kind="stable").tolist()
        return [
            WORDS[self.names[k]][int(deviations[k] < 0)]
            for k in order
            if abs(deviations[k]) >= least
        ]

    def column(self, name: str) -> FloatArray:
        """Return one habit of all accounts; zeros where it does not vary."""
        if name not in self.names:
            return np.zeros(len(self.values))
        return np.asarray(self.values[:, self.names.index(name)], np.float64)


def _profiles_of(ratings: Ratings) -> Profiles:
    """Return the habits of all accounts."""
    activity = ratings.activity.astype(np.float64)
    is_active, others = activity > 0, activity[ratings.users] - 1.0
    log_activity = np.log(np.maximum(activity, 1.0))
    names, values, without = [], [], []
    for name, own, left, unit_noise in _habits(ratings, activity, others):
        if np.ptp(own[is_active]) <= 1e-12:
            continue
        middle, slope = _line(own[is_active], log_activity[is_active])
        deviations = own - middle - slope * log_activity
        noise = unit_noise / np.maximum(activity, 1.0)
        between = _between(deviations[is_active], noise[is_active])
        rest = np.maximum(others, 1.0)
        left = (left - middle - slope * np.log(rest)) / np.sqrt(between + unit_noise / rest)
        left[others < 1.0] = 0.0
        low, high = SHARED_TRAITS.get(name, (-1.0, 1.0))
        names.append(name)
        values.append(np.clip(deviations / np.sqrt(between + noise), -MOST, MOST))
        without.append(np.clip(left, low * MOST, high * MOST).astype(np.float32))
    shape = (ratings.n_users, len(ratings.items))
    return Profiles(
        tuple(names),
        np.stack(values, axis=1) if values else np.zeros((shape[0], 0)),
        np.stack(without, axis=1) if without else np.zeros((shape[1], 0), dtype=np.float32),
    )


Habit = tuple[str, FloatArray, FloatArray, float]


def _habits(ratings: Ratings, activity: FloatArray, others: FloatArray) -> Iterator[Habit]:
    """Yield each habit as (name, values, values without each entry, variance of one rating)."""
    users, stars = ratings.users, ratings.classes.astype(np.float64)
    popularity = np.bincount(ratings.items, minlength=ratings.n_items)[ratings.items].astype(float)

    def beyond_item(x: FloatArray) -> FloatArray:
        """Return ratings minus the shrunken mean of all other ratings of the item."""
        total = np.bincount(ratings.items, x, ratings.n_items)[ratings.items] - x
        prior = ITEM_PRIOR * float(x.mean())
        return np.asarray(x - (total + prior) / (popularity - 1.0 + ITEM_PRIOR))

    def mean(name: str, x: FloatArray) -> Habit:
        sums = np.bincount(users, x, ratings.n_users)
        means = sums / np.maximum(activity, 1.0)
        within = np.bincount(users, (x - means[users]) ** 2, ratings.n_users)
        is_many = activity > 2
        usual = within[is_many] / (activity[is_many] - 1.0)
        noise = max(float(np.median(usual)) if is_many.any() else 0.0, float(x.var()) / 4.0)
        return name, means, (sums[users] - x) / np.maximum(others, 1.0), noise

    def spread(name: str, x: FloatArray) -> Habit:
        sums = np.bincount(users, x, ratings.n_users).astype(np.float64)
        squares = np.bincount(users, x * x, ratings.n_users).astype(np.float64)
        prior = float(x.var())

        def log_deviation(total: FloatArray, square: FloatArray, n: FloatArray) -> FloatArray:
            left = np.maximum(square - total**2 / np.maximum(n, 1.0), 0.0)
            return np.asarray(0.5 * np.log((left + prior + 1e-12) / (n + 1.0)))

        values = log_deviation(sums, squares, activity)
        without = log_deviation(sums[users] - x, squares[users] - x * x, others)
        # The log of a standard deviation of n normal values has variance 1/(2n): return the factor
        # 1/2.
        return name, values, without, 0.5

    is_top, is_bottom = stars == ratings.n_classes - 1, stars == 0
    residuals = beyond_item(stars)
    yield mean("offset", residuals)
    yield spread("spread", residuals)
    yield mean("top", beyond_item(is_top.astype(np.float64)))
    yield mean("bottom", beyond_item(is_bottom.astype(np.float64)))
    yield mean("extreme", (is_top | is_bottom).astype(np.float64))
    yield mean("popularity", np.log(popularity))
    yield spread("mixture", np.log(popularity))
    known = ratings.times[np.isfinite(ratings.times)]
    if len(known) and (span := float(np.ptp(known))) > 0.0:
        times = np.nan_to_num(ratings.times, nan=float(np.median(known)))
        first, last = np.full(ratings.n_users, np.inf), np.full(ratings.n_users, -np.inf)
        np.minimum.at(first, users, times)
        np.maximum.at(last, users, times)
        life = np.log(np.where(activity > 0, last - first, 0.0) + span / 1_000.0)
        yield "lifetime", life, life[users], 0.0


def _robust_scale(values: FloatArray) -> float:
    """Return the standard deviation of a normal distribution with the same quartiles."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 1.349


def _line(values: FloatArray, at: FloatArray) -> tuple[float, float]:
    """Return intercept and slope of a robust line (Theil and Sen) through the medians of bins."""
    bins = [part for part in np.array_split(np.argsort(at, kind="stable"), BINS) if len(part)]
    x, y = (np.array([np.median(column[part]) for part in bins]) for column in (at, values))
    slope = float(stats.theilslopes(y, x).slope) if np.ptp(x) > 1e-9 else 0.0
    return float(np.median(values - slope * at)), slope


def _between(deviations: FloatArray, noise: FloatArray) -> float:
    """Return the variance τ² for which standardised deviations have a robust scale of one."""
    low, high = 0.0, max(4.0 * _robust_scale(deviations) ** 2, 1e-12)
    for _ in range(40):
        middle = (low + high) / 2.0
        if _robust_scale(deviations / np.sqrt(middle + noise)) > 1.0:
            low = middle
        else:
            high = middle
    return high + 1e-12


def _find_targets(ratings: Ratings, profiles: Profiles) -> tuple[BoolArray, FloatArray]:
    """Find targets, and the evidence against the accounts that gave these ratings.

    Returns a mask of the (item, rating) pairs that are clear targets, shape (n_keys,), and the
    log-likelihood ratio of each entry, zero where the rating is no target, shape (n_entries,).
    """
    chosen = [k for k, name in enumerate(profiles.names) if name in SHARED_TRAITS]
    habits = np.clip(profiles.without[:, chosen], -4.0, 4.0)
    keys, n_keys, n_habits = ratings.keys, len(ratings.said_by), len(chosen)
    givers = ratings.said_by.astype(np.float64)
    is_seen = givers >= LEAST_GIVERS
    if not n_habits or not is_seen.any():
        return np.zeros(n_keys, np.bool_), np.zeros(len(keys))
    spread = (1.0 - RIDGE) * np.atleast_2d(np.corrcoef(habits.T)) + RIDGE * np.eye(n_habits)
    inverse = np.linalg.inv(spread)
    sums = np.stack([np.bincount(keys, column, n_keys) for column in habits.T], axis=1)
    usual, deviations = _against_others(ratings, sums / givers[:, None], is_seen)
    bar = n_habits + 2.0 * np.log(max(int(is_seen.sum()), 2))
    strength = np.einsum("ij,jk,ik->i", deviations, inverse, deviations) / bar
    # Positive-part James-Stein shrinkage.
    kept = np.maximum(0.0, 1.0 - DOUBT / np.maximum(strength, 1e-9))
    at = np.flatnonzero(kept[keys] > 0.0)
    key, own = keys[at], habits[at].astype(np.float64)
    shift = (sums[key] - own) / np.maximum(givers[key] - 1.0, 1.0)[:, None] - usual[key]
    shift *= kept[key][:, None]
    ratios = np.einsum("ij,jk,ik->i", shift, inverse, own - usual[key] - shift / 2.0)
    evidence = np.zeros(len(keys))
    evidence[at] = np.maximum(ratios, -FLOOR) + FLOOR * kept[key]
    return (strength >= CLEAR) & (givers >= CLEAR_GIVERS), evidence


def _against_others(
    ratings: Ratings, means: FloatArray, is_seen: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean habits expected from class and popularity, and standardised deviations."""
    first = ratings.order[ratings.starts[:-1]]
    item, given = ratings.items[first], ratings.classes[first]
    popularity = np.bincount(ratings.items, minlength=ratings.n_items)[item]
    root = np.sqrt(ratings.said_by.astype(np.float64))
    usual, deviations = np.zeros_like(means), np.zeros_like(means)
    for one in range(ratings.n_classes):
        at = np.flatnonzero(is_seen & (given == one))
        for k in range(means.shape[1]):
            if len(at) >= LEAST_NEIGHBOURS:
                usual[at, k] = _running(means[at, k], popularity[at], np.median)
            pull = (means[at, k] - usual[at, k]) * root[at]
            unit = np.ones(len(at))
            if len(at) >= LEAST_NEIGHBOURS:
                # The scale is at least that of independent accounts.
                unit = np.maximum(_running(pull, ratings.said_by[at], _robust_scale), 1.0)
            deviations[at, k] = pull / unit
    return usual, deviations


def _running(
    values: FloatArray, by: IntArray, statistic: Callable[[FloatArray], float]
) -> FloatArray:
    """Return a running statistic of the values, sorted by ``by``."""
    n = len(values)
    order = np.argsort(by, kind="stable")
    window = min(max(NEIGHBOURS, n // 200), n)
    step = max(window // 4, 1)
    found = np.empty(n)
    for start in range(0, n, step):
        first = int(np.clip(start + step // 2 - window // 2, 0, n - window))
        found[order[start : start + step]] = statistic(values[order[first : first + window]])
    return found


def _ratio_of_shift(deviations: FloatArray, shift: float) -> FloatArray:
    """Return log-likelihood ratios of N(shift, 1) against N(0, 1)."""
    return shift * (deviations - shift / 2.0)


def _ratio_of_extremes(ratings: Ratings) -> FloatArray:
    """Return log-likelihood ratios for the numbers of highest and lowest ratings; shape (n_users,).

    The numbers are beta-binomial. For honest accounts the mean share is the median over accounts,
    and the variance a robust estimate. A share below the mean is never evidence.
    """
    is_extreme = (ratings.classes == 0) | (ratings.classes == ratings.n_classes - 1)
    extremes = np.bincount(ratings.users, is_extreme, ratings.n_users).astype(np.float64)
    n = ratings.activity.astype(np.float64)
    is_active, shares = n > 0, extremes / np.maximum(n, 1.0)
    if not np.ptp(shares[is_active]) > 0.0:
        return np.zeros(ratings.n_users)
    mean = float(np.clip(np.median(shares[is_active]), *SHARES))
    largest = mean * (1.0 - mean)
    between = _between(shares[is_active] - mean, largest / n[is_active])
    size = largest / np.clip(between, LEAST_BETWEEN * largest, MOST_BETWEEN * largest) - 1.0
    ratios = _log_beta_binomial(extremes, n, *EXTREMES)
    ratios -= _log_beta_binomial(extremes, n, mean * size, (1.0 - mean) * size)
    return np.where(shares > mean, ratios, np.minimum(ratios, 0.0))


def _log_beta_binomial(k: FloatArray, n: FloatArray, a: float, b: float) -> FloatArray:
    """Return the log-probability of k out of n, without the binomial coefficient."""
    return np.asarray(special.betaln(k + a, n - k + b) - special.betaln(a, b), np.float64)


def _if_shown(ratios: FloatArray) -> FloatArray:
    """Return log-likelihood ratios if half of the coordinated accounts rate like honest ones."""
    return np.asarray(np.logaddexp(0.0, ratios) - np.log(2.0))


@dataclass(frozen=True, slots=True, eq=False)
class Coordination:
    """Result of a search for coordinated accounts; arrays have shape (n_users,).

    ``scores`` are log-likelihood ratios in nats, ``targets`` the part that comes from targets, and
    ``weights`` the weights in robust means. ``groups`` has the members of each group, the largest
    first; ``group_of`` is −1 for accounts in no group.
    """

    scores: FloatArray
    targets: FloatArray
    is_flagged: BoolArray
    weights: FloatArray
    groups: tuple[IntArray, ...]
    group_of: IntArray
    lockstep: Lockstep
    profiles: Profiles


def find_coordination(ratings: Ratings, is_fake: BoolArray | None = None) -> Coordination:
    """Find coordinated accounts; known fakes seed the search."""
    lockstep = find_lockstep(ratings, is_fake)
    profiles = _profiles_of(ratings)
    is_clear, evidence = _find_targets(ratings, profiles)
    target = np.zeros(ratings.n_users)
    np.maximum.at(target, ratings.users, evidence)
    obscurity = np.minimum(-profiles.column("popularity"), MOST_OBSCURE)
    is_member = is_clear[ratings.keys] & (evidence >= FLOOR + MEMBER)
    is_flagged = lockstep.is_flagged.copy()
    is_flagged[ratings.users[is_member]] = True
    if is_fake is not None:
        is_flagged |= is_fake
    # Groups are connected by strong pairs and by shared targets.
    n_users = ratings.n_users
    of_target = np.stack([ratings.users[is_member], n_users + ratings.keys[is_member]], axis=1)
    links = np.concatenate([lockstep.pairs[:, :2], of_target])
    component = connected(links, n_users + len(ratings.said_by))[:n_users]
    component[~is_flagged] = -1
    names, sizes = np.unique(component[is_flagged], return_counts=True)
    names = names[np.argsort(-sizes, kind="stable")][: int((sizes >= LEAST_MEMBERS).sum())]
    groups = tuple(np.flatnonzero(component == name) for name in names.tolist())
    group_of = np.full(n_users, -1, dtype=np.int64)
    for number, members in enumerate(groups):
        group_of[members] = number
    return Coordination(
        scores=target
        + _if_shown(_ratio_of_shift(lockstep.scores, IN_LOCKSTEP))
        + _if_shown(_ratio_of_shift(obscurity, OBSCURE))
        + _if_shown(_ratio_of_extremes(ratings)),
        targets=target,
        is_flagged=is_flagged,
        weights=np.where(is_flagged, SUSPECT_WEIGHT, 1.0),
        groups=groups,
        group_of=group_of,
        lockstep=lockstep,
        profiles=profiles,
    )


def audit_users(log: AuditedLog, is_fake: BoolArray, is_cleared: BoolArray) -> Audit:
    """Audit a log in which users chose the items."""
    events, n_users = log.events, log.events.n_users
    judged = np.flatnonzero(~is_cleared)
    ratings = ratings_of(
        events.users[judged],
        log.items[judged],
        events.rewards[judged],
        None if events.times is None else events.times[judged],
        n_users=n_users,
        n_items=log.n_items,
    )
    found = find_coordination(ratings, is_fake)
    groups = [f"group {number + 1}" if number >= 0 else "" for number in found.group_of.tolist()]
    are_rated = ratings.n_classes > 1
    reasons = _reasons(found, are_rated=are_rated)
    mark_reviewed(reasons, is_fake, events.users[is_cleared].astype(np.int64))
    unknown = np.full(n_users, np.nan)
    accounts = log.accounts(found.weights, found.scores, groups, reasons, unknown)
    plays, means = log.cell_means(found.weights)
    visits = plays.sum(axis=1)
    rows, naive, robust = np.arange(len(means)), plain_actions(log.tallies), best_known(means)
    # Differences within rounding error are ties.
    robust = np.where(means[rows, naive] >= means[rows, robust] - 1e-9, naive, robust)
    changed = log.changed_decisions(naive, robust, means, visits / visits.sum())
    is_attacked = bool((found.is_flagged & ~is_fake).any())
    flagged = int(found.is_flagged.sum())
    # Subtract the expected number of false positives. There is no upper end, because colluders who
    # were not found cannot be counted.
    mistaken = round(FLAGGED_WHERE_USERS_CHOSE * n_users)
    share = Interval(flagged / n_users, share_bounds(flagged - mistaken, n_users)[0], np.inf)
    shifts = log.item_shifts(found.weights)
    return log.audit(
        accounts,
        items=shifts,
        changed=changed if is_attacked else changed[:0],
        alpha=share.estimate,
        is_attacked=is_attacked,
        is_suspected=False,
        statement=_statement(found, share, moved_items(shifts)),
        share=share,
        groups=tuple(
            _card(log, found, number, accounts, are_rated=are_rated)
            for number in range(min(len(found.groups), MOST_GROUPS))
        ),
        rates={
            "threshold": f"lockstep of {FLAGGED:g} deviations or more, or a clear common target",
            "realised": FLAGGED_WHERE_USERS_CHOSE,
            "measured_on": "real ratings with injected profiles (python benchmarks/audit.py "
            "--kinds textbook --seeds 4 5)",
        },
        limits=(
            "Accounts that share one item each with different accounts, or that rate only what "
            "everybody rates, and as others do, leave no trace.",
            f"Fewer than {LEAST_FAR} accounts in lockstep, and fewer than {CLEAR_GIVERS} "
            "that share a target, are never flagged: families and friends share tastes.",
            f"Flagged accounts count {SUSPECT_WEIGHT:g} each instead of being dropped: some are "
            "honest.",
        ),
        notes=log.notes,
    )


def _reasons(found: Coordination, *, are_rated: bool) -> list[str]:
    """Return why each account was flagged; empty for the others."""
    alike = "rates the same items alike as others" if are_rated else "chooses what others choose"
    reasons = [""] * len(found.scores)
    in_lockstep = found.lockstep.is_flagged
    for code in np.flatnonzero(found.is_flagged).tolist():
        parts = [alike] * bool(in_lockstep[code])
        parts += ["shares a rating with accounts of the same habits"] * bool(found.targets[code])
        parts += found.profiles.words(found.profiles.values[code], UNLIKE)[:MOST_HABITS]
        reasons[code] = "; ".join(parts) or "rates what suspicious accounts rate"
    return reasons


def _card(
    log: AuditedLog, found: Coordination, number: int, accounts: Accounts, *, are_rated: bool
) -> GroupCard:
    members = found.groups[number]
    is_member = np.zeros(log.events.n_users, dtype=np.bool_)
    is_member[members] = True
    of_group = is_member[found.lockstep.pairs[:, 0]]
    pairs = found.lockstep.pairs[of_group]
    seen = expected = float("nan")
    words = f"{len(members):,} accounts share a target and their habits."
    if len(pairs):
        seen, expected = float(pairs[:, 2].mean()), float(found.lockstep.expected[of_group].mean())
        alike = "rated the same items alike" if are_rated else "chose the same items"
        words = (
            f"{len(members):,} accounts {alike}: {seen:.1f} shared by a pair, where {expected:.2f} "
            "are expected by chance."
        )
        close, usual = pairs[:, 3].sum() / pairs[:, 2].sum(), found.lockstep.close_by_chance
        if close > CLOSER * usual:
            words += (
                f" {close:.0%} of them were within {_span(found.lockstep.window)} of each other, "
                f"where {usual:.0%} are usual."
            )
    habits = found.profiles.words(found.profiles.values[members].mean(axis=0), LEAST_SHIFT)
    if habits:
        words += f" Compared with others, a member {' and '.join(habits[:MOST_HABITS])}."
    return log.card(
        f"group {number + 1}",
        is_member,
        accounts,
        statement=words,
        measure=f"items that a pair {'rated alike' if are_rated else 'shares'}",
        seen=seen,
        expected=expected,
    )


def _span(seconds: float) -> str:
    """Format a duration; short ones as a plain number, since their unit is unknown."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.3g}"


def _statement(found: Coordination, share: Interval, moved: str) -> str:
    flagged, n_users = int(found.is_flagged.sum()), len(found.is_flagged)
    if not flagged:
        return (
            "No coordinated accounts were found: no group of accounts rates the same items alike "
            "beyond what this log's own tastes, popularity and generosity explain, and no rating "
            "is given by accounts that deviate in the same way."
        )
    groups = f" in {len(found.groups):,} groups" if len(found.groups) > 1 else ""
    return (
        f"Coordinated accounts were found: {flagged:,} stand out{groups}, at least "
        f"{share.low:.1%} of all; how many more hide cannot be known."
        f"{f' They {moved}.' if moved else ''} "
        f"{flagged_by_mistake(FLAGGED_WHERE_USERS_CHOSE, n_users, flagged)}"
    )
