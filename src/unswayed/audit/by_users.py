"""The audit of a log whose users chose for themselves: reviews and ratings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.coordination import Coordination, Group, find_coordination, ratings_of
from unswayed.audit.coordination.finding import SUSPECT_WEIGHT
from unswayed.audit.coordination.lockstep import FLAGGED, LEAST_FAR
from unswayed.audit.coordination.targets import LEAST_MEMBERS
from unswayed.audit.log import (
    AuditedLog,
    context_shares,
    flagged_by_mistake,
    histogram_of,
    mark_reviewed,
    share_bounds,
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
    measured_on,
)
from unswayed.audit.shifts import changed_decisions, item_shifts, moved_items, weighted_cells
from unswayed.events import Label
from unswayed.learners.bounded.means import cell_means, find_caps, shrunken
from unswayed.learners.bounded.rewards import Worth, read_rewards, scored, weighed
from unswayed.learners.explaining import plain_actions
from unswayed.policy import best_known
from unswayed.randomness import generator

UNLIKE = 2.0
"""Ours: deviation from which a habit is given as a reason."""

MOST_GROUPS, MOST_ITEMS, MOST_EXAMPLES = 30, 10, 5
"""Ours: maximum numbers of group cards, of items per card, and of accounts per card."""

MOST_CONTEXTS = 20

BOUNDED_BY = 0.1
"""Ours: an account's plays of a cell count as many as this share of its visitors reach."""


def audit_users(log: AuditedLog, is_fake: BoolArray, is_cleared: BoolArray) -> Audit:
    """Audit a log by what accounts rate, how, and together with whom."""
    events = log.events
    items, n_items = _items(log)
    judged = np.flatnonzero(~is_cleared)
    ratings = ratings_of(
        events.users[judged],
        items[judged],
        events.rewards[judged],
        None if log.times is None else log.times[judged],
        n_users=events.n_users,
        n_items=n_items,
    )
    found = find_coordination(ratings, is_fake)
    plays = np.bincount(events.users, minlength=events.n_users)
    groups, reasons = _in_words(log, found)
    mark_reviewed(reasons, is_fake, events.users[is_cleared].astype(np.int64))
    first_seen, last_seen = log.spans()
    accounts = Accounts(
        labels=events.user_labels,
        weights=found.weights,
        scores=found.scores,
        interactions=plays.astype(np.int64),
        p_values=np.full(events.n_users, np.nan),
        groups=groups,
        reasons=reasons,
        group_ids=log.group_ids(groups),
        first_seen=first_seen,
        last_seen=last_seen,
    )
    is_attacked = bool((found.is_flagged & ~is_fake).any())
    means = _bounded_means(log, found.weights)
    naive = plain_actions(log.tallies)
    robust = best_known(means) if is_attacked else naive
    claimed = weighted_cells(log.tallies, np.ones(events.n_users))[0].sum(axis=1)
    believed = weighted_cells(log.tallies, found.weights)[0].sum(axis=1)
    claimed, believed = claimed / claimed.sum(), believed / believed.sum()
    changed = changed_decisions(
        naive,
        robust,
        means,
        believed,
        np.asarray(np.isfinite(means).any(axis=1)),
        events.context_labels,
        events.action_labels,
    )
    shifts = item_shifts(log.tallies, found.weights, events.action_labels)
    share = _share(found, events.n_users)
    cost = sum(change.cost * change.share for change in changed)
    normal = special.ndtri((np.arange(events.n_users) + 0.5) / events.n_users)
    return Audit(
        source=log.source,
        n_events=len(events),
        n_users=events.n_users,
        n_contexts=events.n_contexts,
        n_actions=events.n_actions,
        alpha=share.estimate,
        regime=log.regime,
        is_attacked=is_attacked,
        is_suspected=False,
        statement=_statement(found, share, shifts),
        share=share,
        items=shifts,
        changed=changed,
        cost=cost,
        contexts=context_shares(events.context_labels, claimed, believed, MOST_CONTEXTS),
        accounts=accounts,
        groups=tuple(
            _card(log, found, k, g, accounts.group_ids)
            for k, g in enumerate(found.groups[:MOST_GROUPS])
        ),
        cases=log.cases(accounts),
        rates=ErrorRates(
            threshold=f"{FLAGGED:g} deviations from the middle of the log",
            nominal=float(special.ndtr(-FLAGGED)),
            realised=FLAGGED_WHERE_USERS_CHOSE,
            measured_on=measured_on("ratings", "textbook"),
        ),
        histogram=histogram_of(
            "deviations of accounts from the middle of the log", found.deviations, normal, FLAGGED
        ),
        timeline=log.timeline(found.is_flagged),
        exploration=log.exploration(),
        limits=_limits(),
        withstands={},
        notes=log.notes,
    )


def _bounded_means(log: AuditedLog, weights: FloatArray) -> FloatArray:
    """Return shrunken means with bounded influence; shape (n_contexts, n_actions)."""
    tallies = log.tallies
    reading = read_rewards(tallies, generator(0, "audit"))
    unscored = np.zeros((tallies.n_cells, reading.n_categories))
    blocks = tallies.blocks.transformed(scored, reading, unscored)
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


def _item_name(log: AuditedLog, item: int) -> Label:
    events = log.events
    if events.n_contexts > events.n_actions:
        context, action = divmod(item, events.n_actions)
        return f"{events.context_labels[context]}: {events.action_labels[action]}"
    return events.action_labels[item]


def _share(found: Coordination, n_users: int) -> Interval:
    """Return the share of coordinated accounts, which is at least its lower end.

    How many more hide cannot be known, so there is no upper end. As many honest accounts as are
    flagged in test markets are taken off.
    """
    flagged = int(found.is_flagged.sum())
    mistaken = round(FLAGGED_WHERE_USERS_CHOSE * n_users)
    return Interval(flagged / n_users, share_bounds(flagged - mistaken, n_users)[0], np.inf)


def _in_words(log: AuditedLog, found: Coordination) -> tuple[list[str], list[str]]:
    """Return the group and the reason of each account; empty for those who are not flagged."""
    n_users = log.events.n_users
    groups, reasons = [""] * n_users, [""] * n_users
    names = [
        ""
        if np.isnan(group.seen)
        else f"in lockstep with others: {group.seen:.1f} items that a "
        f"pair rated alike, {group.expected:.2f} expected"
        for group in found.groups
    ]
    for code in np.flatnonzero(found.is_flagged).tolist():
        number = int(found.group_of[code])
        parts = found.profiles.words(found.profiles.values[code], UNLIKE)
        if found.targets[code] > 0.0:
            parts.insert(0, "shares a rating with accounts of the same habits")
        if number >= 0:
            groups[code] = f"group {number + 1}"
            parts.insert(0, names[number])
        reasons[code] = "; ".join(filter(None, parts)) or "rates what suspicious accounts rate"
    return groups, reasons


def _card(
    log: AuditedLog, found: Coordination, number: int, group: Group, ids: Mapping[str, str]
) -> GroupCard:
    events = log.events
    members = np.zeros(events.n_users, dtype=np.bool_)
    members[group.members] = True
    first, last = log.seen_between(members)
    order = group.members[np.argsort(-found.scores[group.members], kind="stable")]
    how = (
        ""
        if np.isnan(group.seen)
        else f" rated the same items alike: {group.seen:.1f} shared by a pair, where "
        f"{group.expected:.2f} are expected of accounts with their numbers of each rating"
    )
    close = (
        f" {group.close:.0%} of them were rated within {_span(found.window)} of each other."
        if found.window is not None and np.isfinite(group.close)
        else ""
    )
    habits = f" Compared with others, a member {', '.join(group.habits)}." if group.habits else ""
    return GroupCard(
        id=ids[f"group {number + 1}"],
        name=f"group {number + 1}",
        accounts=len(group.members),
        statement=(
            f"{len(group.members):,} accounts{how or ' share a target and their habits'}.{close}"
            f"{habits}"
        ),
        measure="items that a pair rated alike",
        seen=group.seen,
        expected=group.expected,
        items=tuple(
            _shared_item(log, members, int(item), int(n))
            for item, n in zip(group.items[:MOST_ITEMS], group.item_members, strict=False)
        ),
        examples=tuple(events.user_labels[code] for code in order[:MOST_EXAMPLES].tolist()),
        close=group.close,
        first_seen=first,
        last_seen=last,
        timeline=log.timeline(members),
    )


def _shared_item(log: AuditedLog, members: BoolArray, item: int, n_members: int) -> SharedItem:
    items, _ = _items(log)
    rows = np.flatnonzero(items == item)
    theirs = members[log.events.users[rows]]
    rewards = log.events.rewards[rows]
    return SharedItem(
        action=_item_name(log, item),
        members=n_members,
        members_mean=float(rewards[theirs].mean()) if theirs.any() else float("nan"),
        others_mean=float(rewards[~theirs].mean()) if (~theirs).any() else float("nan"),
    )


def _span(seconds: float | None) -> str:
    """Format a duration; plain numbers if the unit is unknown."""
    if seconds is None:
        return ""
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


def _limits() -> tuple[str, ...]:
    return (
        "Accounts that share one item each with different accounts, or that rate only what "
        "everybody rates, and as others do, leave no trace.",
        f"Fewer than {LEAST_FAR} accounts in lockstep, and fewer than {LEAST_MEMBERS} that share a "
        "target, are never flagged: families and friends share tastes.",
        f"Flagged accounts count {SUSPECT_WEIGHT:g} each instead of being dropped: some are "
        "honest.",
    )
