"""Two audits side by side: what is new since a day, and what differs from a log believed clean."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray
from unswayed.audit.log import named_briefly
from unswayed.audit.results import MOST_LISTED, Audit, plain
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Label, Labels

SAME_GROUP = 0.2
"""Ours: a group is a known one if it has this share of the members of a former group."""

LEVEL = 0.01
"""Ours: chance that an item of a log like the reference is listed, over all items."""

MOST_ITEMS = 20


@dataclass(frozen=True, slots=True)
class NewFlag:
    """An account that is flagged now and was not before, and its group; known if it was there."""

    user: Label
    group: str
    is_known_group: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What an audit finds that the audit of the events before a moment did not.

    ``before`` is the verdict on what was before. ``accounts`` are new flags, the most suspicious
    first, of which ``n_joined`` joined a known group and ``n_first_seen`` had no events before.
    ``cleared`` are accounts that were flagged before and are not any more.
    """

    since: str
    before: str
    accounts: tuple[NewFlag, ...]
    n_joined: int
    n_first_seen: int
    cleared: tuple[Label, ...]

    def statement(self) -> str:
        """Return it in a sentence or two."""
        if not self.accounts:
            return f"Since {self.since} no account is newly flagged (before: {self.before})."
        return (
            f"Since {self.since} {len(self.accounts):,} accounts are newly flagged (before: "
            f"{self.before}): {self.n_joined:,} joined a known group, {self.n_first_seen:,} had no "
            "events before."
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the most suspicious accounts only."""
        return {
            "statement": self.statement(),
            **plain(self),
            "accounts": plain(self.accounts[:MOST_LISTED]),
            "newly_flagged": len(self.accounts),
            "cleared": list(self.cleared[:MOST_LISTED]),
        }


@dataclass(frozen=True, slots=True)
class MovedItem:
    """An item whose mean differs from the reference; ``z`` is the difference in standard errors."""

    action: Label
    reference: float
    now: float
    z: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How a log differs from a reference that is believed clean."""

    source: str
    verdict: str
    flagged_share: float
    items: tuple[MovedItem, ...]

    def statement(self) -> str:
        """Return it in a sentence or two."""
        moved = [
            f"{named_briefly([item.action])} from {item.reference:.3g} to {item.now:.3g}"
            for item in self.items[:3]
        ]
        more = f" and {len(self.items) - 3:,} more" if len(self.items) > 3 else ""
        means = f"means moved: {', '.join(moved)}{more}" if moved else "no item's mean moved"
        return (
            f"Against the reference ({self.verdict}, {self.flagged_share:.2%} of its accounts "
            f"flagged) {means}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"statement": self.statement(), **plain(self)}


def parsed_moment(text: str) -> float:
    """Return a date, or a date and time, in seconds since 1970.

    >>> parsed_moment("1970-01-02")
    86400.0
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{option('--since')} is {text!r}: write a date like 2026-11-18, or with a time like "
            "2026-11-18T06:00."
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp()


def earlier_rows(events: Events, since: str) -> BoolArray:
    """Return which events were before a moment, or say why that cannot be told."""
    moment, times = parsed_moment(since), events.times
    if times is None or not np.isfinite(times).any():
        raise InputError(
            f"{option('--since')} needs times: name their column with "
            f"{option('--time-column', python='Columns(time=…)')}."
        )
    is_earlier = np.nan_to_num(times, nan=np.inf) < moment
    if not is_earlier.any():
        raise InputError(f"{option('--since')} {since}: the log has no events before that.")
    return np.asarray(is_earlier)


def changes_of(before: Audit, now: Audit, since: str) -> Changes:
    """Compare the audit of a log with that of its events before a moment."""
    accounts = now.accounts
    codes = before.accounts.labels.codes(list(accounts.labels))
    was_seen = codes != UNKNOWN
    was_flagged = was_seen & before.accounts.is_flagged[np.where(was_seen, codes, 0)]
    is_flagged = accounts.is_flagged
    former = np.array(before.accounts.groups, dtype=object)[np.where(was_seen, codes, 0)]
    names = np.array(accounts.groups, dtype=object)
    sizes = dict(zip(*np.unique(before.accounts.groups, return_counts=True), strict=True))
    known = set()
    for name in set(names[is_flagged & was_flagged].tolist()) - {""}:
        shared = former[is_flagged & was_flagged & (names == name)]
        groups, counts = np.unique(shared[shared != ""].astype(str), return_counts=True)
        if any(n >= SAME_GROUP * sizes[g] for g, n in zip(groups, counts, strict=True)):
            known.add(name)
    new = accounts.order[(is_flagged & ~was_flagged)[accounts.order]].tolist()
    flags = tuple(NewFlag(accounts.labels[c], names[c], names[c] in known) for c in new)
    cleared = np.flatnonzero(was_flagged & ~is_flagged).tolist()
    return Changes(
        since=since,
        before=before.verdict,
        accounts=flags,
        n_joined=sum(flag.is_known_group for flag in flags),
        n_first_seen=int((~was_seen[new]).sum()),
        cleared=tuple(accounts.labels[code] for code in cleared),
    )


def difference_of(reference: Audit, reference_events: Events, events: Events) -> Difference:
    """Compare the means of items with those of a reference; accounts are the units of chance."""
    common = [label for label in events.action_labels if label in reference_events.action_labels]
    now, then = (_means(some, common) for some in (events, reference_events))
    apart = now[0] - then[0]
    error = np.sqrt(now[1] + then[1])
    z = np.where(error > 0.0, apart / np.maximum(error, 1e-300), 0.0)
    bar = -float(special.ndtri(LEVEL / (2.0 * max(len(common), 1))))
    order = [at for at in np.argsort(-np.abs(z), kind="stable").tolist() if abs(z[at]) > bar]
    return Difference(
        source=reference.source,
        verdict=reference.verdict,
        flagged_share=float(reference.accounts.is_flagged.mean()),
        items=tuple(
            MovedItem(common[at], float(then[0][at]), float(now[0][at]), float(z[at]))
            for at in order[:MOST_ITEMS]
        ),
    )


def _means(events: Events, labels: list[Label]) -> tuple[FloatArray, FloatArray]:
    """Return means of items and their variances: deviations add up within an account."""
    n_items = events.n_actions
    plays = np.bincount(events.actions, minlength=n_items).astype(np.float64)
    means = np.bincount(events.actions, events.rewards, n_items) / np.maximum(plays, 1.0)
    pairs = events.users.astype(np.int64) * n_items + events.actions
    found, place = np.unique(pairs, return_inverse=True)
    sums = np.bincount(place, events.rewards - means[events.actions])
    squares = np.bincount(found % n_items, sums**2, n_items)
    codes = events.action_labels.codes(labels)
    return means[codes], (squares / np.maximum(plays, 1.0) ** 2)[codes]


def part_of(events: Events, rows: BoolArray) -> Events:
    """Return some events, with only the accounts that have any."""
    users, codes = np.unique(events.users[rows], return_inverse=True)
    return replace(
        events.rows(rows),
        users=codes.astype(np.int64),
        user_labels=Labels(events.user_labels.values[users]),
    )
