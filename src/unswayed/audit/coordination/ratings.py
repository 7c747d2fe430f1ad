"""Who rated what: one entry an (account, item), sorted by account and key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray

MOST_VALUES = 10
"""Ours: up to so many different ratings each is a class of its own; more are cut into bins."""

BINS = 5
"""Ours: bins of ratings with many values, equally full."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, an account's entries side by side.

    Attributes
    ----------
    indptr
        Shape (n_users + 1,); where each account's entries begin.
    items, classes
        Shape (n_entries,); what was rated, and how: a code of the rating.
    times
        Shape (n_entries,), or None; NaN where nothing is known.
    n_items, n_classes
        How many codes there are.
    """

    indptr: IntArray
    items: IntArray
    classes: IntArray
    times: FloatArray | None
    n_items: int
    n_classes: int

    @property
    def n_users(self) -> int:
        """Number of accounts."""
        return len(self.indptr) - 1

    @cached_property
    def activity(self) -> IntArray:
        """How many items each account rated; shape (n_users,)."""
        return np.diff(self.indptr)

    @cached_property
    def users(self) -> IntArray:
        """The account of each entry; shape (n_entries,)."""
        return np.repeat(np.arange(self.n_users), self.activity)

    @cached_property
    def span(self) -> float:
        """Time between the first and the last rating; 0 if nothing is known of times."""
        known = np.empty(0) if self.times is None else self.times[np.isfinite(self.times)]
        return float(np.ptp(known)) if len(known) > 1 else 0.0

    @cached_property
    def keys(self) -> IntArray:
        """Code of each rating: one for each (item, class) that occurs; shape (n_entries,)."""
        pairs = self.items * self.n_classes + self.classes
        codes: IntArray = np.unique(pairs, return_inverse=True)[1]
        return codes

    @cached_property
    def by_key(self) -> tuple[IntArray, IntArray]:
        """Where each key's entries begin, and the entries in the order of keys."""
        order = np.argsort(self.keys, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.keys))])
        return starts.astype(np.int64), order

    @cached_property
    def said_by(self) -> IntArray:
        """How many accounts have each key; shape (n_keys,)."""
        return np.diff(self.by_key[0])


def ratings_of(
    users: npt.NDArray[np.integer],
    items: npt.NDArray[np.integer],
    rewards: FloatArray,
    times: FloatArray | None,
    *,
    n_users: int,
    n_items: int,
) -> Ratings:
    """Return the first rating of each (account, item); first in time if times are known.

    Parameters
    ----------
    users, items
        Shape (n_events,); codes.
    rewards
        Shape (n_events,); the ratings.
    times
        Shape (n_events,), or None.
    n_users, n_items
        How many codes there are.

    Examples
    --------
    >>> found = ratings_of(
    ...     np.array([1, 0, 1]), np.array([2, 0, 2]), np.array([5.0, 1.0, 4.0]), None,
    ...     n_users=2, n_items=3,
    ... )
    >>> found.items.tolist(), found.activity.tolist()
    ([0, 2], [1, 1])
    """
    pairs = users.astype(np.int64) * n_items + items
    order = (
        np.argsort(pairs, kind="stable")
        if times is None
        else np.lexsort((np.nan_to_num(times, nan=np.inf), pairs))
    )
    pairs = pairs[order]
    is_first = np.ones(len(pairs), dtype=np.bool_)
    is_first[1:] = pairs[1:] != pairs[:-1]
    chosen, pairs = order[is_first], pairs[is_first]
    rated_by, rated = np.divmod(pairs, max(n_items, 1))
    classes, n_classes = _classes(rewards[chosen])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rated_by, minlength=n_users))])
    return Ratings(
        indptr=indptr.astype(np.int64),
        items=rated,
        classes=classes,
        times=None if times is None else times[chosen],
        n_items=n_items,
        n_classes=n_classes,
    )


def _classes(rewards: FloatArray) -> tuple[IntArray, int]:
    values, codes = np.unique(rewards, return_inverse=True)
    if len(values) <= MOST_VALUES:
        return codes.astype(np.int64), max(len(values), 1)
    edges = np.unique(np.quantile(rewards, np.arange(1, BINS) / BINS))
    return np.searchsorted(edges, rewards, side="left").astype(np.int64), len(edges) + 1
