"""Flagged accounts that belong together, and what they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.lockstep.ratings import Ratings

LEAST_MEMBERS = 2
MOST_SHARED = 20
"""Ours: items that a group is described by."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Accounts connected by strong pairs.

    Attributes
    ----------
    members
        Codes of the accounts.
    items, item_members, item_classes
        What most members rated, how many of them, and how most of these rated it.
    seen, expected
        Mean number of ratings that a strong pair shares, and that popularity explains.
    close
        Share of these within the window of time; NaN if times are not known.
    """

    members: IntArray
    items: IntArray
    item_members: IntArray
    item_classes: IntArray
    seen: float
    expected: float
    close: float


def groups_among(
    ratings: Ratings, is_flagged: BoolArray, pairs: IntArray, expected: FloatArray
) -> tuple[tuple[Group, ...], IntArray]:
    """Return the groups, the largest first, and the group of each account, −1 for none.

    ``pairs`` has a row for each strong pair: accounts, shared ratings, and those close in time.
    """
    n_users = ratings.n_users
    links = sparse.coo_array(
        (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n_users, n_users)
    )
    _, component = sparse.csgraph.connected_components(links, directed=False)
    flagged = np.flatnonzero(is_flagged)
    names, sizes = np.unique(component[flagged], return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] >= LEAST_MEMBERS]
    rank = np.full(int(component.max(initial=0)) + 1, -1, dtype=np.int64)
    rank[names[order]] = np.arange(len(order))
    group_of = np.full(n_users, -1, dtype=np.int64)
    group_of[flagged] = rank[component[flagged]]
    by_group = flagged[np.argsort(group_of[flagged], kind="stable")]
    by_group = by_group[group_of[by_group] >= 0]
    members = np.split(by_group, np.cumsum(sizes[order])[:-1]) if len(order) else []
    of_pair = group_of[pairs[:, 0]] if len(pairs) else np.empty(0, dtype=np.int64)
    groups = tuple(
        _group(ratings, who, pairs[of_pair == number], expected[of_pair == number])
        for number, who in enumerate(members)
    )
    return groups, group_of


def _group(ratings: Ratings, members: IntArray, pairs: IntArray, expected: FloatArray) -> Group:
    entries = np.concatenate(
        [np.arange(ratings.indptr[u], ratings.indptr[u + 1]) for u in members.tolist()]
    )
    items, counts = np.unique(ratings.items[entries], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:MOST_SHARED]
    classes = [
        int(np.bincount(ratings.classes[entries][ratings.items[entries] == item]).argmax())
        for item in items[most].tolist()
    ]
    shared = float(pairs[:, 2].sum())
    has_times = ratings.times is not None
    return Group(
        members=members,
        items=items[most],
        item_members=counts[most],
        item_classes=np.array(classes, dtype=np.int64),
        seen=float(pairs[:, 2].mean()) if len(pairs) else 0.0,
        expected=float(expected.mean()) if len(pairs) else 0.0,
        close=float(pairs[:, 3].sum()) / max(shared, 1.0) if has_times else float("nan"),
    )
