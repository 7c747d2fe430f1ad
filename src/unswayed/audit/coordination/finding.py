"""Coordinated accounts: evidence of every kind, who is flagged, and in which groups.

Evidence is added in nats, each with a null of its own: lockstep with others, a share in the targets
of accounts with the same habits, extreme ratings, and likeness to the most suspicious accounts.
Only what takes several accounts flags one: lockstep, or a clear target. Nobody is flagged for
habits of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.coordination.lockstep import Lockstep, connected, find_lockstep
from unswayed.audit.coordination.profiles import Profiles, profiles_of, resemblance
from unswayed.audit.coordination.ratings import Ratings
from unswayed.audit.coordination.targets import FLOOR, find_targets

LOCKSTEP_SAY = 0.5
"""Ours: weight of a lockstep deviation, in nats."""

USUAL_LOCKSTEP, USUAL_EXTREMES = 2.0, 1.0
"""Ours: thresholds below which lockstep and extreme ratings are ignored."""

MEMBER = 2.0
"""Ours: nats beyond ``FLOOR`` from which a giver of a clear target is flagged."""

SUSPECT_WEIGHT = 0.05
"""Ours: weight of a flagged account in item means."""

LEAST_MEMBERS, MOST_SHARED = 2, 20
"""Ours: minimum size of a group, and number of items that describe it."""

LEAST_SHIFT = 1.0
"""Ours: deviation of a group's mean habit from which it is reported."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Accounts that belong together: by lockstep, or by a target.

    Attributes
    ----------
    members
        Codes of the accounts.
    items, item_members
        What most members rated, and how many of them.
    seen, expected
        Mean number of ratings that a strong pair shares, and that is explained; NaN without pairs.
    close
        Share of these within the window of time; NaN if times are not known.
    habits
        How members differ from others, in words.
    """

    members: IntArray
    items: IntArray
    item_members: IntArray
    seen: float
    expected: float
    close: float
    habits: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Coordination:
    """What was found.

    Attributes
    ----------
    scores
        Shape (n_users,); evidence in nats, larger is more suspicious.
    deviations, targets, habits
        Shape (n_users,) each: deviations of lockstep, evidence of the strongest target, and that of
        habits; ``scores`` adds them up.
    is_flagged, weights
        Shape (n_users,); who is flagged, and what accounts should count.
    groups, group_of
        Of flagged accounts, the largest first; and the group of each account, −1 for none.
    window
        What counts as close in time; None if times are not known.
    profiles
        Habits of all accounts.
    """

    scores: FloatArray
    deviations: FloatArray
    targets: FloatArray
    habits: FloatArray
    is_flagged: BoolArray
    weights: FloatArray
    groups: tuple[Group, ...]
    group_of: IntArray
    window: float | None
    profiles: Profiles


def find_coordination(ratings: Ratings, is_fake: BoolArray | None = None) -> Coordination:
    """Find coordinated accounts.

    Parameters
    ----------
    ratings
        Who rated what.
    is_fake
        Shape (n_users,), or None; accounts known to be fakes. They seed the search.
    """
    lockstep = find_lockstep(ratings, is_fake)
    profiles = profiles_of(ratings)
    targets = find_targets(ratings, profiles)
    target = targets.of_accounts(ratings)
    extreme = np.maximum(profiles.column("extreme") - USUAL_EXTREMES, 0.0)
    loud = np.maximum(lockstep.scores - USUAL_LOCKSTEP, 0.0) + target + extreme
    habits = extreme + resemblance(profiles, ratings.activity, loud, is_fake)
    is_member = targets.is_clear[ratings.keys] & (targets.evidence >= FLOOR + MEMBER)
    is_flagged = lockstep.is_flagged.copy()
    is_flagged[ratings.users[is_member]] = True
    if is_fake is not None:
        is_flagged |= is_fake
    groups, group_of = _groups(ratings, is_flagged, lockstep, is_member, profiles)
    return Coordination(
        scores=LOCKSTEP_SAY * np.maximum(lockstep.scores, 0.0) + target + habits,
        deviations=lockstep.deviations,
        targets=target,
        habits=habits,
        is_flagged=is_flagged,
        weights=np.where(is_flagged, SUSPECT_WEIGHT, 1.0),
        groups=groups,
        group_of=group_of,
        window=lockstep.window,
        profiles=profiles,
    )


def _groups(
    ratings: Ratings,
    is_flagged: BoolArray,
    lockstep: Lockstep,
    is_member: BoolArray,
    profiles: Profiles,
) -> tuple[tuple[Group, ...], IntArray]:
    """Return the groups, the largest first, and the group of each account, −1 for none.

    Strong pairs belong together, and so do the members of a target.
    """
    n_users = ratings.n_users
    of_target = np.stack([ratings.users[is_member], n_users + ratings.keys[is_member]], axis=1)
    links = np.concatenate([lockstep.pairs[:, :2], of_target])
    component = connected(links, n_users + len(ratings.said_by))[:n_users]
    flagged = np.flatnonzero(is_flagged)
    names, sizes = np.unique(component[flagged], return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] >= LEAST_MEMBERS]
    rank = np.full(int(component.max(initial=0)) + 1, -1, dtype=np.int64)
    rank[names[order]] = np.arange(len(order))
    group_of = np.full(n_users, -1, dtype=np.int64)
    group_of[flagged] = rank[component[flagged]]
    # Accounts and pairs by group, each sorted once.
    in_group = flagged[group_of[flagged] >= 0]
    members = _split(in_group, group_of[in_group], len(order))
    rows = np.arange(len(lockstep.pairs))
    pairs = _split(rows, group_of[lockstep.pairs[:, 0]], len(order))
    groups = [
        _group(
            ratings,
            who,
            lockstep.pairs[some],
            lockstep.expected[some],
            tuple(profiles.words(profiles.values[who].mean(axis=0), LEAST_SHIFT)),
        )
        for who, some in zip(members, pairs, strict=True)
    ]
    return tuple(groups), group_of


def _split(values: IntArray, numbers: IntArray, n: int) -> list[IntArray]:
    """Return the values of each number from 0 to n − 1."""
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(n + 1))
    return [values[order[ends[k] : ends[k + 1]]] for k in range(n)]


def _group(
    ratings: Ratings,
    members: IntArray,
    pairs: IntArray,
    expected: FloatArray,
    habits: tuple[str, ...],
) -> Group:
    entries = np.concatenate(
        [np.arange(ratings.indptr[u], ratings.indptr[u + 1]) for u in members.tolist()]
    )
    items, counts = np.unique(ratings.items[entries], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:MOST_SHARED]
    shared = float(pairs[:, 2].sum())
    is_timed = ratings.span > 0.0 and shared > 0.0
    return Group(
        members=members,
        items=items[most],
        item_members=counts[most],
        seen=float(pairs[:, 2].mean()) if len(pairs) else float("nan"),
        expected=float(expected.mean()) if len(pairs) else float("nan"),
        close=float(pairs[:, 3].sum()) / shared if is_timed else float("nan"),
        habits=habits,
    )
