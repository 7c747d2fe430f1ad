"""How each account rates and chooses, in deviations from the bulk of the log.

Every habit has a null of its own: its mean over the bulk of the accounts (which may depend on how
much they rate), and a variance τ² + σ²/n of an account with n ratings. σ² is the variance between
an account's own ratings, τ² what honest accounts differ by; both are robust, so that a minority
does not hide itself. Accounts with few ratings deviate little by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.coordination.ratings import Ratings

WORDS = {
    "offset": ("rates items higher than others do", "rates items lower than others do"),
    "spread": ("deviates far from items' means", "stays suspiciously close to items' means"),
    "top": ("gives the highest rating too often", "hardly ever gives the highest rating"),
    "bottom": ("gives the lowest rating too often", "hardly ever gives the lowest rating"),
    "extreme": ("gives extreme ratings only", "avoids extreme ratings"),
    "popularity": ("rates popular items only", "rates obscure items"),
    "mixture": ("mixes popular and obscure items", "rates items of one popularity"),
    "lifetime": ("was active for long", "was active for a short time only"),
    "surge": ("rates items while many others do", "rates items while few others do"),
}
"""What a large and a small value of each habit mean."""

SHARED_TRAITS = {
    **dict.fromkeys(("offset", "spread", "top", "bottom"), (-1.0, 1.0)),
    "popularity": (-1.0, 0.0),
    "mixture": (0.0, 1.0),
    "lifetime": (-1.0, 0.0),
}
"""Habits that raters of one item are compared by, and whether small and large values count. Those
who share a taste rate items that are popular among them; extreme ratings are in ``top`` and
``bottom``; items that are new surge for everybody."""

ITEM_PRIOR = 2.0
"""Ours: prior weight of the overall mean, in ratings."""

MOST = 5.0
"""Ours: clipping bound of habits, in deviations."""

BINS = 12
"""Ours: number of activity bins for the robust line."""

WINDOW = 1.0 / 200.0
"""Ours: ratings within this share of the log's span are close in time."""


RIDGE, ROUNDS = 0.1, 2
SURE, DOUBTFUL, LEAST_ALIKE = 5.0, 0.3, 5
"""Ours: suspicion in nats from which an account counts in full, the share of it below which it does
not count, and how many have to. Chosen, as all constants here, on the part development of
``benchmarks/audit.py``."""


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Habits of accounts.

    Attributes
    ----------
    names
        Habits that vary in this log, in the order of ``WORDS``.
    values
        Shape (n_users, n_habits), in deviations from the bulk.
    without
        Shape (n_entries, n_habits); those of the account of an entry, without this entry.
    """

    names: tuple[str, ...]
    values: FloatArray
    without: FloatArray

    def words(self, deviations: FloatArray, least: float) -> list[str]:
        """Return what deviations of at least ``least`` mean, the largest first."""
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


class _Habit(NamedTuple):
    """A statistic of each account, of each account without an entry, and its variance at n = 1."""

    name: str
    values: FloatArray
    without: FloatArray
    noise: float


def profiles_of(ratings: Ratings) -> Profiles:
    """Return the habits of all accounts."""
    activity = ratings.activity.astype(np.float64)
    is_active, others = activity > 0, activity[ratings.users] - 1.0
    log_activity = np.log(np.maximum(activity, 1.0))
    names, values, without = [], [], []
    for habit in _habits(ratings, activity, others):
        if np.ptp(habit.values[is_active]) <= 1e-12:
            continue
        middle, slope = _line(habit.values[is_active], log_activity[is_active])
        deviations = habit.values - middle - slope * log_activity
        noise = habit.noise / np.maximum(activity, 1.0)
        between = _between(deviations[is_active], noise[is_active])
        rest = np.maximum(others, 1.0)
        left = habit.without - middle - slope * np.log(rest)
        left /= np.sqrt(between + habit.noise / rest)
        left[others < 1.0] = 0.0
        low, high = SHARED_TRAITS.get(habit.name, (-1.0, 1.0))
        names.append(habit.name)
        values.append(np.clip(deviations / np.sqrt(between + noise), -MOST, MOST))
        without.append(np.clip(left, low * MOST, high * MOST).astype(np.float32))
    shape = (ratings.n_users, len(ratings.items))
    return Profiles(
        tuple(names),
        np.stack(values, axis=1) if values else np.zeros((shape[0], 0)),
        np.stack(without, axis=1) if without else np.zeros((shape[1], 0), dtype=np.float32),
    )


def _habits(ratings: Ratings, activity: FloatArray, others: FloatArray) -> Iterator[_Habit]:
    users, stars = ratings.users, ratings.classes.astype(np.float64)
    popularity = np.bincount(ratings.items, minlength=ratings.n_items)[ratings.items].astype(float)

    def beyond_item(x: FloatArray) -> FloatArray:
        """Return how far ratings are from the mean of all others of their item, shrunken."""
        total = np.bincount(ratings.items, x, ratings.n_items)[ratings.items] - x
        prior = ITEM_PRIOR * float(x.mean())
        return np.asarray(x - (total + prior) / (popularity - 1.0 + ITEM_PRIOR))

    def mean(name: str, x: FloatArray) -> _Habit:
        sums = np.bincount(users, x, ratings.n_users)
        means = sums / np.maximum(activity, 1.0)
        within = np.bincount(users, (x - means[users]) ** 2, ratings.n_users)
        is_many = activity > 2
        usual = within[is_many] / (activity[is_many] - 1.0)
        noise = max(float(np.median(usual)) if is_many.any() else 0.0, float(x.var()) / 4.0)
        return _Habit(name, means, (sums[users] - x) / np.maximum(others, 1.0), noise)

    def spread(name: str, x: FloatArray) -> _Habit:
        sums = np.bincount(users, x, ratings.n_users).astype(np.float64)
        squares = np.bincount(users, x * x, ratings.n_users).astype(np.float64)
        prior = float(x.var())

        def log_deviation(total: FloatArray, square: FloatArray, n: FloatArray) -> FloatArray:
            left = np.maximum(square - total**2 / np.maximum(n, 1.0), 0.0)
            return np.asarray(0.5 * np.log((left + prior + 1e-12) / (n + 1.0)))

        values = log_deviation(sums, squares, activity)
        without = log_deviation(sums[users] - x, squares[users] - x * x, others)
        # The variance of the logarithm of a standard deviation of n normal values is 1/(2n).
        return _Habit(name, values, without, 0.5)

    is_top, is_bottom = stars == ratings.n_classes - 1, stars == 0
    residuals = beyond_item(stars)
    yield mean("offset", residuals)
    yield spread("spread", residuals)
    yield mean("top", beyond_item(is_top.astype(np.float64)))
    yield mean("bottom", beyond_item(is_bottom.astype(np.float64)))
    yield mean("extreme", (is_top | is_bottom).astype(np.float64))
    yield mean("popularity", np.log(popularity))
    yield spread("mixture", np.log(popularity))
    times, span = ratings.times, ratings.span
    if times is not None and span > 0.0:
        known = np.nan_to_num(times, nan=float(np.nanmedian(times)))
        first, last = np.full(ratings.n_users, np.inf), np.full(ratings.n_users, -np.inf)
        np.minimum.at(first, users, known)
        np.maximum.at(last, users, known)
        life = np.log(np.where(activity > 0, last - first, 0.0) + span / 1_000.0)
        yield _Habit("lifetime", life, life[users], 0.0)
        yield mean("surge", _surges(ratings.items, known, popularity, WINDOW * span))


def _surges(items: IntArray, times: FloatArray, popularity: FloatArray, near: float) -> FloatArray:
    """Return log ratios of an item's ratings close to a rating, and of as many as the log has."""

    def around(x: FloatArray) -> FloatArray:
        ordered = np.sort(x)
        counts = np.searchsorted(ordered, x + near, "right") - np.searchsorted(ordered, x - near)
        return np.asarray(counts, np.float64)

    # Items are set apart by more than the log's span.
    apart = items * (float(np.ptp(times)) + 4.0 * near)
    expected = (popularity - 1.0) * around(times) / len(times)
    return np.asarray(np.log(around(apart + (times - times.min())) / (expected + 1.0)))


def robust_scale(values: FloatArray) -> float:
    """Return the standard deviation of a normal law with the same quartiles.

    >>> round(robust_scale(np.arange(101.0)), 2)
    37.06
    """
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 1.349


def _line(values: FloatArray, at: FloatArray) -> tuple[float, float]:
    """Return a robust line (Theil and Sen) through the medians of bins: middle and slope."""
    bins = [part for part in np.array_split(np.argsort(at, kind="stable"), BINS) if len(part)]
    x = np.array([np.median(at[part]) for part in bins])
    y = np.array([np.median(values[part]) for part in bins])
    first, second = np.triu_indices(len(bins), 1)
    apart = x[second] - x[first]
    is_apart = apart > 1e-9
    slopes = (y[second] - y[first])[is_apart] / apart[is_apart]
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    return float(np.median(values - slope * at)), slope


def _between(deviations: FloatArray, noise: FloatArray) -> float:
    """Return τ² with which deviations have a robust scale of one; by bisection."""
    low, high = 0.0, max(4.0 * robust_scale(deviations) ** 2, 1e-12)
    for _ in range(40):
        middle = (low + high) / 2.0
        if robust_scale(deviations / np.sqrt(middle + noise)) > 1.0:
            low = middle
        else:
            high = middle
    return high + 1e-12


def resemblance(
    profiles: Profiles, activity: IntArray, suspicion: FloatArray, is_known: BoolArray | None = None
) -> FloatArray:
    """Return log-likelihood ratios of being like the most suspicious accounts, at least zero.

    Habits that the suspicious share get weight, and others none: a linear discriminant, whose two
    classes are found by suspicion from other evidence, in two rounds.

    Parameters
    ----------
    profiles, activity
        Habits and number of ratings of the accounts.
    suspicion
        Shape (n_users,); evidence of other kinds in nats.
    is_known
        Shape (n_users,), or None; accounts that are confirmed to be fakes.
    """
    busy = np.log1p(activity.astype(np.float64))
    busy = (busy - np.median(busy)) / max(robust_scale(busy), 0.3)
    habits = np.clip(np.column_stack([profiles.values, busy]), -4.0, 4.0)
    habits -= np.median(habits, axis=0)
    covariance = np.atleast_2d(np.cov(habits.T))
    ridge = RIDGE * np.trace(covariance) / len(covariance)
    inverse = np.linalg.inv((1.0 - RIDGE) * covariance + (ridge + 1e-9) * np.eye(len(covariance)))
    found = np.zeros(len(suspicion))
    for _ in range(ROUNDS):
        weights = np.clip((suspicion + found) / SURE, 0.0, 1.0)
        weights[weights < DOUBTFUL] = 0.0
        if is_known is not None:
            weights[is_known] = 1.0
        n = float(weights.sum())
        if n < LEAST_ALIKE:
            return found
        shift = weights @ habits / n
        distance = float(shift @ inverse @ shift)
        # The shift of n accounts drawn at random has this expected distance.
        shift *= max(0.0, 1.0 - len(shift) / max(n * distance, 1e-9))
        ratios = (habits - shift / 2.0) @ (inverse @ shift)
        found = np.clip(ratios, 0.0, MOST)
    return found
