"""Targets: ratings of an item whose givers deviate from everybody else in the same way.

Whoever is paid for one item hides it among others: random ones, rated at random or at their means.
No two of such accounts share much, and each alone looks like an odd honest one. But all of them
gave the target the same rating, and the habits that they share show in the mean over its givers:
fifty accounts that deviate by one and a half deviations each deviate by ten together.

1. *Givers.* For each rating (item, class) the mean of its givers' habits, each without this rating.
2. *Null.* Givers of one class, of items as popular, are alike for honest reasons, so the usual mean
   is subtracted, and the spread of the means of the log's other ratings is the unit. The statistic
   T is the squared length of what is left, in the habits' covariance.
3. *Members.* Of a giver the log-likelihood ratio of the mean habits of all other givers, against
   those of everybody; the strongest rating of an account counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.coordination.profiles import SHARED_TRAITS, Profiles, robust_scale
from unswayed.audit.coordination.ratings import Ratings

LEAST_GIVERS = 5
"""Ours: ratings of fewer accounts are not looked at."""

NEIGHBOURS, LEAST_NEIGHBOURS = 101, 20
"""Ours: ratings of items as popular that a mean is compared with; with fewer of a class the null is
that of independent accounts."""

DOUBT = 3.0
"""Ours: T counts as evidence from so many times what the largest of independent ratings reaches."""

CLEAR, LEAST_MEMBERS = 6.0, 20
"""Ours: a target is clear from so many times that on, with so many givers. Of 35 real sets of
ratings believed clean, and of 70 redrawn ones, none reaches 5 (``benchmarks/audit.py``)."""

FLOOR = 3.0
"""Ours: maximum discount, in nats, for accounts without the shared habits."""

RIDGE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What was found.

    Attributes
    ----------
    strength
        Shape (n_keys,); T in units of what the largest of independent ratings reaches.
    is_clear
        Shape (n_keys,).
    evidence
        Shape (n_entries,); log-likelihood ratios in nats, zero where a rating is no target.
    """

    strength: FloatArray
    is_clear: BoolArray
    evidence: FloatArray

    def of_accounts(self, ratings: Ratings) -> FloatArray:
        """Return the strongest evidence of each account; shape (n_users,)."""
        found = np.zeros(ratings.n_users)
        np.maximum.at(found, ratings.users, self.evidence)
        return found


def find_targets(ratings: Ratings, profiles: Profiles) -> Targets:
    """Compare the givers of every rating with those of others."""
    chosen = [k for k, name in enumerate(profiles.names) if name in SHARED_TRAITS]
    habits = np.clip(profiles.without[:, chosen], -4.0, 4.0)
    keys, n_keys, n_habits = ratings.keys, len(ratings.said_by), len(chosen)
    givers = ratings.said_by.astype(np.float64)
    is_seen = givers >= LEAST_GIVERS
    if not n_habits or not is_seen.any():
        return Targets(np.zeros(n_keys), np.zeros(n_keys, np.bool_), np.zeros(len(keys)))
    spread = (1.0 - RIDGE) * np.atleast_2d(np.corrcoef(habits.T)) + RIDGE * np.eye(n_habits)
    inverse = np.linalg.inv(spread)
    sums = np.stack([np.bincount(keys, column, n_keys) for column in habits.T], axis=1)
    usual, deviations = _against_others(ratings, sums / givers[:, None], is_seen)
    bar = n_habits + 2.0 * np.log(max(int(is_seen.sum()), 2))
    strength = np.einsum("ij,jk,ik->i", deviations, inverse, deviations) / bar
    # James and Stein: what chance explains of a shift is taken off.
    kept = np.maximum(0.0, 1.0 - DOUBT / np.maximum(strength, 1e-9))
    at = np.flatnonzero(kept[keys] > 0.0)
    key, own = keys[at], habits[at].astype(np.float64)
    shift = (sums[key] - own) / np.maximum(givers[key] - 1.0, 1.0)[:, None] - usual[key]
    shift *= kept[key][:, None]
    ratios = np.einsum("ij,jk,ik->i", shift, inverse, own - usual[key] - shift / 2.0)
    evidence = np.zeros(len(keys))
    evidence[at] = np.maximum(ratios, -FLOOR) + FLOOR * kept[key]
    return Targets(strength, (strength >= CLEAR) & (givers >= LEAST_MEMBERS), evidence)


def _against_others(
    ratings: Ratings, means: FloatArray, is_seen: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the usual means of ratings of a class and popularity, and deviations from them."""
    n_keys = len(ratings.said_by)
    item, given = np.empty(n_keys, np.int64), np.empty(n_keys, np.int64)
    item[ratings.keys], given[ratings.keys] = ratings.items, ratings.classes
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
                # Never below what independent accounts would make it.
                unit = np.maximum(_running(pull, ratings.said_by[at], robust_scale), 1.0)
            deviations[at, k] = pull / unit
    return usual, deviations


def _running(
    values: FloatArray, by: IntArray, statistic: Callable[[FloatArray], float]
) -> FloatArray:
    """Return a statistic of the values of neighbours, in the order of ``by``."""
    n = len(values)
    order = np.argsort(by, kind="stable")
    window = min(max(NEIGHBOURS, n // 200), n)
    step = max(window // 4, 1)
    found = np.empty(n)
    for start in range(0, n, step):
        first = int(np.clip(start + step // 2 - window // 2, 0, n - window))
        found[order[start : start + step]] = statistic(values[order[first : first + window]])
    return found
