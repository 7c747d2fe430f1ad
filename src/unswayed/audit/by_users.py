"""The audit of a log whose users chose for themselves: reviews, ratings and likes."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import BoolArray
from unswayed.audit.coordination import (
    CLEAR_GIVERS,
    SUSPECT_WEIGHT,
    Coordination,
    find_coordination,
)
from unswayed.audit.lockstep import FLAGGED, LEAST_FAR, Ratings, ratings_of
from unswayed.audit.log import (
    MOST_ITEMS,
    AuditedLog,
    cell_means,
    flagged_by_mistake,
    mark_reviewed,
    moved_items,
    share_bounds,
)
from unswayed.audit.results import (
    FLAGGED_WHERE_USERS_CHOSE,
    Accounts,
    Audit,
    ErrorRates,
    GroupCard,
    Interval,
)
from unswayed.learners.explaining import plain_actions
from unswayed.policy import best_known

UNLIKE, MOST_HABITS = 2.0, 2
"""Ours: deviation from which a habit is given as a reason, and how many, the most unusual first."""

LEAST_SHIFT = 1.0
"""Ours: deviation of a group's mean habit from which it is reported."""

MOST_GROUPS = 30
"""Ours: maximum number of group cards."""


def audit_users(log: AuditedLog, is_fake: BoolArray, is_cleared: BoolArray) -> Audit:
    """Audit a log by what accounts rate, how, and together with whom."""
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
    reasons = _reasons(found)
    mark_reviewed(reasons, is_fake, events.users[is_cleared].astype(np.int64))
    unknown = np.full(n_users, np.nan)
    accounts = log.accounts(found.weights, found.scores, groups, reasons, unknown)
    plays, means = cell_means(log.tallies, found.weights)
    visits = plays.sum(axis=1)
    rows, naive, robust = np.arange(len(means)), plain_actions(log.tallies), best_known(means)
    # What only rounding moved is a tie.
    robust = np.where(means[rows, naive] >= means[rows, robust] - 1e-9, naive, robust)
    changed = log.changed_decisions(naive, robust, means, visits / visits.sum())
    is_attacked = bool((found.is_flagged & ~is_fake).any())
    flagged = int(found.is_flagged.sum())
    # As many honest accounts as are flagged in test markets are taken off; how many more hide
    # cannot be known, so there is no upper end.
    mistaken = round(FLAGGED_WHERE_USERS_CHOSE * n_users)
    share = Interval(flagged / n_users, share_bounds(flagged - mistaken, n_users)[0], np.inf)
    shifts = log.item_shifts(found.weights)
    return log.audit(
        accounts,
        shifts,
        changed if is_attacked else (),
        alpha=share.estimate,
        is_attacked=is_attacked,
        is_suspected=False,
        statement=_statement(found, share, moved_items(shifts)),
        share=share,
        groups=tuple(
            _card(log, found, number, ratings, accounts)
            for number in range(min(len(found.groups), MOST_GROUPS))
        ),
        rates=ErrorRates(
            threshold=f"lockstep of {FLAGGED:g} deviations or more, or a clear common target",
            realised=FLAGGED_WHERE_USERS_CHOSE,
            measured_on="real ratings with injected profiles (python benchmarks/audit.py --kinds "
            "textbook --seeds 4 5)",
        ),
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


def _reasons(found: Coordination) -> list[str]:
    """Return the reason of each account; empty for those who are not flagged."""
    reasons = [""] * len(found.scores)
    in_lockstep = found.lockstep.is_flagged
    for code in np.flatnonzero(found.is_flagged).tolist():
        parts = ["rates the same items alike as others"] * bool(in_lockstep[code])
        parts += ["shares a rating with accounts of the same habits"] * bool(found.targets[code])
        parts += found.profiles.words(found.profiles.values[code], UNLIKE)[:MOST_HABITS]
        reasons[code] = "; ".join(parts) or "rates what suspicious accounts rate"
    return reasons


def _card(
    log: AuditedLog, found: Coordination, number: int, ratings: Ratings, accounts: Accounts
) -> GroupCard:
    members, window = found.groups[number], found.lockstep.window
    is_member = np.zeros(log.events.n_users, dtype=np.bool_)
    is_member[members] = True
    of_group = is_member[found.lockstep.pairs[:, 0]]
    pairs = found.lockstep.pairs[of_group]
    seen = expected = float("nan")
    words = f"{len(members):,} accounts share a target and their habits."
    if len(pairs):
        seen, expected = float(pairs[:, 2].mean()), float(found.lockstep.expected[of_group].mean())
        words = (
            f"{len(members):,} accounts rated the same items alike: {seen:.1f} shared by a pair, "
            f"where {expected:.2f} are expected by chance."
        )
        if window is not None:
            close = float(pairs[:, 3].sum() / pairs[:, 2].sum())
            words += f" {close:.0%} of them were rated within {_span(window)} of each other."
    habits = found.profiles.words(found.profiles.values[members].mean(axis=0), LEAST_SHIFT)
    if habits:
        words += f" Compared with others, a member {' and '.join(habits[:MOST_HABITS])}."
    rated, counts = np.unique(ratings.items[is_member[ratings.users]], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:MOST_ITEMS]
    return log.card(
        f"group {number + 1}",
        is_member,
        accounts,
        rated[most].tolist(),
        statement=words,
        measure="items that a pair rated alike",
        seen=seen,
        expected=expected,
    )


def _span(seconds: float) -> str:
    """Format a duration; plain numbers if the unit is unknown."""
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
        f"{flagged_by_mistake(FLAGGED_WHERE_USERS_CHOSE, n_users - flagged)}"
    )
