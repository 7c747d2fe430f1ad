"""The audit of a log whose users chose for themselves: reviews and ratings."""

from __future__ import annotations

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.coordination import (
    CLEAR_GIVERS,
    SUSPECT_WEIGHT,
    Coordination,
    Group,
    find_coordination,
)
from unswayed.audit.lockstep import FLAGGED, LEAST_FAR, ratings_of
from unswayed.audit.log import (
    MOST_ITEMS,
    AuditedLog,
    flagged_by_mistake,
    histogram_of,
    mark_reviewed,
    moved_items,
    share_bounds,
    weighted_cells,
)
from unswayed.audit.results import (
    FLAGGED_WHERE_USERS_CHOSE,
    Accounts,
    Audit,
    ErrorRates,
    GroupCard,
    Interval,
    ItemShift,
    SharedItem,
)
from unswayed.events import Label
from unswayed.learners.bounded.means import cell_means, find_caps, shrunken
from unswayed.learners.bounded.rewards import Worth, read, read_rewards, weighed
from unswayed.learners.explaining import plain_actions
from unswayed.policy import best_known
from unswayed.randomness import generator

UNLIKE = 2.0
"""Ours: deviation from which a habit is given as a reason."""

MOST_HABITS = 2
"""Ours: habits that a reason names, the most unusual ones first."""

MOST_GROUPS = 30
"""Ours: maximum number of group cards."""

BOUNDED_BY = 0.1
"""Ours: an account's plays of a cell count as many as this share of its visitors reach."""


def audit_users(log: AuditedLog, is_fake: BoolArray, is_cleared: BoolArray) -> Audit:
    """Audit a log by what accounts rate, how, and together with whom."""
    events, n_users = log.events, log.events.n_users
    items, n_items = _items(log)
    judged = np.flatnonzero(~is_cleared)
    ratings = ratings_of(
        events.users[judged],
        items[judged],
        events.rewards[judged],
        None if events.times is None else events.times[judged],
        n_users=n_users,
        n_items=n_items,
    )
    found = find_coordination(ratings, is_fake)
    groups, reasons = _in_words(found)
    mark_reviewed(reasons, is_fake, events.users[is_cleared].astype(np.int64))
    unknown = np.full(n_users, np.nan)
    accounts = log.accounts(found.weights, found.scores, groups, reasons, unknown)
    is_attacked = bool((found.is_flagged & ~is_fake).any())
    means, naive = _bounded_means(log, found.weights), plain_actions(log.tallies)
    robust = best_known(means) if is_attacked else naive
    visits = weighted_cells(log.tallies, found.weights)[0].sum(axis=1)
    believed, is_learned = visits / visits.sum(), np.asarray(np.isfinite(means).any(axis=1))
    changed = log.changed_decisions(naive, robust, means, believed, is_learned)
    shifts, share = log.item_shifts(found.weights), _share(found, n_users)
    normal = special.ndtri((np.arange(n_users) + 0.5) / n_users)
    return log.audit(
        accounts,
        shifts,
        changed,
        believed,
        alpha=share.estimate,
        is_attacked=is_attacked,
        is_suspected=False,
        statement=_statement(found, share, shifts),
        share=share,
        groups=tuple(
            _card(log, found, number, group, accounts)
            for number, group in enumerate(found.groups[:MOST_GROUPS])
        ),
        rates=ErrorRates(
            threshold=f"lockstep of {FLAGGED:g} deviations or more, or a clear common target",
            nominal=float(special.ndtr(-FLAGGED)),
            realised=FLAGGED_WHERE_USERS_CHOSE,
            measured_on="real ratings with injected profiles (python benchmarks/audit.py --kinds "
            "textbook --seeds 4 5)",
        ),
        histogram=histogram_of(
            "deviations of accounts from the middle of the log", found.deviations, normal, FLAGGED
        ),
        limits=(
            "Accounts that share one item each with different accounts, or that rate only what "
            "everybody rates, and as others do, leave no trace.",
            f"Fewer than {LEAST_FAR} accounts in lockstep, and fewer than {CLEAR_GIVERS} "
            "that share a target, are never flagged: families and friends share tastes.",
            f"Flagged accounts count {SUSPECT_WEIGHT:g} each instead of being dropped: some are "
            "honest.",
        ),
        withstands={},
        notes=log.notes,
    )


def _bounded_means(log: AuditedLog, weights: FloatArray) -> FloatArray:
    """Return shrunken means with bounded influence; shape (n_contexts, n_actions)."""
    tallies = log.tallies
    reading = read_rewards(tallies, generator(0, "audit"))
    blocks = tallies.blocks.transformed(read, reading)
    blocks = blocks.transformed(weighed, Worth(0.0, np.inf))
    caps = find_caps(blocks, tallies.n_cells, alpha=BOUNDED_BY)
    shape = (tallies.n_contexts, tallies.n_actions)
    cells = cell_means(blocks, weights, caps, shape, 0.0)
    return shrunken(cells.means, cells)[0]


def _items(log: AuditedLog) -> tuple[IntArray, int]:
    """Return what users chose: actions, or cells where contexts are the longer list."""
    events = log.events
    actions = events.actions.astype(np.int64)
    if events.n_contexts > events.n_actions:
        return events.contexts.astype(np.int64) * events.n_actions + actions, (
            events.n_contexts * events.n_actions
        )
    return actions, events.n_actions


def _share(found: Coordination, n_users: int) -> Interval:
    """Return the share of coordinated accounts, which is at least its lower end.

    How many more hide cannot be known, so there is no upper end. As many honest accounts as are
    flagged in test markets are taken off.
    """
    flagged = int(found.is_flagged.sum())
    mistaken = round(FLAGGED_WHERE_USERS_CHOSE * n_users)
    return Interval(flagged / n_users, share_bounds(flagged - mistaken, n_users)[0], np.inf)


def _in_words(found: Coordination) -> tuple[list[str], list[str]]:
    """Return the group and the reason of each account; empty for those who are not flagged."""
    groups, reasons = [""] * len(found.scores), [""] * len(found.scores)
    names = [
        ""
        if np.isnan(group.seen)
        else f"in lockstep with others: {group.seen:.1f} items that a "
        f"pair rated alike, {group.expected:.2f} expected"
        for group in found.groups
    ]
    for code in np.flatnonzero(found.is_flagged).tolist():
        number = int(found.group_of[code])
        parts = found.profiles.words(found.profiles.values[code], UNLIKE)[:MOST_HABITS]
        if found.targets[code] > 0.0:
            parts.insert(0, "shares a rating with accounts of the same habits")
        if number >= 0:
            groups[code] = f"group {number + 1}"
            parts.insert(0, names[number])
        reasons[code] = "; ".join(filter(None, parts)) or "rates what suspicious accounts rate"
    return groups, reasons


def _card(
    log: AuditedLog, found: Coordination, number: int, group: Group, accounts: Accounts
) -> GroupCard:
    members = np.zeros(log.events.n_users, dtype=np.bool_)
    members[group.members] = True
    how = (
        " share a target and their habits"
        if np.isnan(group.seen)
        else f" rated the same items alike: {group.seen:.1f} shared by a pair, where "
        f"{group.expected:.2f} are expected by chance"
    )
    close = (
        f" {group.close:.0%} of them were rated within {_span(found.window)} of each other."
        if found.window is not None and np.isfinite(group.close)
        else ""
    )
    habits = " and ".join(group.habits[:MOST_HABITS])
    habits = f" Compared with others, a member {habits}." if habits else ""
    return log.card(
        f"group {number + 1}",
        members,
        accounts,
        statement=f"{len(group.members):,} accounts{how}.{close}{habits}",
        measure="items that a pair rated alike",
        seen=group.seen,
        expected=group.expected,
        items=tuple(
            _shared_item(log, members, int(item), int(n))
            for item, n in zip(group.items[:MOST_ITEMS], group.item_members, strict=False)
        ),
        close=group.close,
    )


def _shared_item(log: AuditedLog, members: BoolArray, item: int, n_members: int) -> SharedItem:
    events = log.events
    rows = np.flatnonzero(_items(log)[0] == item)
    theirs, rewards = members[events.users[rows]], events.rewards[rows]
    name: Label = events.action_labels[item % events.n_actions]
    if events.n_contexts > events.n_actions:
        name = f"{events.context_labels[item // events.n_actions]}: {name}"
    return SharedItem(
        action=name,
        members=n_members,
        members_mean=float(rewards[theirs].mean()) if theirs.any() else float("nan"),
        others_mean=float(rewards[~theirs].mean()) if (~theirs).any() else float("nan"),
    )


def _span(seconds: float) -> str:
    """Format a duration; plain numbers if the unit is unknown."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.3g}"


def _statement(found: Coordination, share: Interval, items: tuple[ItemShift, ...]) -> str:
    flagged = int(found.is_flagged.sum())
    if not flagged:
        return (
            "No coordinated accounts were found: no group of accounts rates the same items alike "
            "beyond what this log's own tastes, popularity and generosity explain, and no rating "
            "is given by accounts that deviate in the same way."
        )
    moved = moved_items(items)
    what = f" They {moved}." if moved else ""
    groups = f" in {len(found.groups):,} groups" if len(found.groups) > 1 else ""
    n_users = len(found.is_flagged)
    return (
        f"Coordinated accounts were found: {flagged:,} stand out{groups}, at least "
        f"{share.low:.1%} of all; how many more hide cannot be known.{what} "
        f"{flagged_by_mistake(FLAGGED_WHERE_USERS_CHOSE, n_users - flagged)}"
    )
