"""Two audits side by side: what is new since a day, and what differs from a log believed clean."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from scipy import special

from unswayed.arrays import BoolArray, FloatArray
from unswayed.audit.log import taken
from unswayed.audit.results import Audit, Changes, Difference
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Label, Labels

SAME_GROUP = 0.2
"""Ours: a group is a known one if it has this share of the members of a former group."""

LEVEL = 0.01
"""Ours: chance that an item of a log like the reference is listed, over all items."""

MOST_ITEMS = 20


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
            f"{option('--time-column', python='time=…')}."
        )
    is_earlier = np.nan_to_num(times, nan=np.inf) < moment
    if not is_earlier.any():
        raise InputError(f"{option('--since')} {since}: the log has no events before that.")
    return np.asarray(is_earlier)


def changes_of(before: Audit, now: Audit, since: str) -> Changes:
    """Compare the audit of a log with that of its events before a moment."""
    accounts, former = now.accounts, before.accounts
    codes = former.labels.codes(list(accounts.labels))
    was_seen = codes != UNKNOWN
    was_flagged = was_seen & former.is_flagged[np.where(was_seen, codes, 0)]
    is_both = accounts.is_flagged & was_flagged
    # Members that each group shares with each former one.
    shared = Counter(
        (accounts.groups[code], former.groups[int(codes[code])])
        for code in np.flatnonzero(is_both).tolist()
    )
    known = {
        name
        for (name, old), n in shared.items()
        if name and old and n >= SAME_GROUP * former.groups.count(old)
    }
    new = accounts.ordered(accounts.is_flagged & ~was_flagged)
    groups = [accounts.groups[code] for code in new.tolist()]
    is_known = [group in known for group in groups]
    cleared = np.flatnonzero(was_flagged & ~accounts.is_flagged).tolist()
    return Changes(
        since=since,
        before=before.verdict,
        accounts=pa.table(
            {
                "user": taken(accounts.labels, new),
                "group": pa.array(groups, pa.string()),
                "is_known_group": pa.array(is_known, pa.bool_()),
            }
        ),
        n_first_seen=int((~was_seen[new]).sum()),
        n_joined=sum(is_known),
        cleared=tuple(accounts.labels[code] for code in cleared),
    )


def difference_of(reference: Audit, reference_events: Events, events: Events) -> Difference:
    """Compare the means of items with those of a reference; accounts are the units of chance."""
    common = [label for label in events.action_labels if label in reference_events.action_labels]
    now, then = (_means(some, common) for some in (events, reference_events))
    error = np.sqrt(now[1] + then[1])
    z = np.where(error > 0.0, (now[0] - then[0]) / np.maximum(error, 1e-300), 0.0)
    bar = -float(special.ndtri(LEVEL / (2.0 * max(len(common), 1))))
    order = np.argsort(-np.abs(z), kind="stable")
    order = order[np.abs(z)[order] > bar][:MOST_ITEMS]
    return Difference(
        source=reference.source,
        verdict=reference.verdict,
        flagged_share=float(reference.accounts.is_flagged.mean()),
        items=pa.table(
            {
                "action": [common[at] for at in order.tolist()],
                "reference": then[0][order],
                "now": now[0][order],
                "z": z[order],
            }
        ),
    )


def _means(events: Events, labels: list[Label]) -> tuple[FloatArray, FloatArray]:
    """Return means of items and their variances: deviations add up within an account."""
    n_items = events.n_actions
    plays = np.maximum(np.bincount(events.actions, minlength=n_items), 1.0)
    means = np.bincount(events.actions, events.rewards, n_items) / plays
    pairs = events.users.astype(np.int64) * n_items + events.actions
    found, place = np.unique(pairs, return_inverse=True)
    sums = np.bincount(place, events.rewards - means[events.actions])
    squares = np.bincount(found % n_items, sums**2, n_items)
    codes = events.action_labels.codes(labels)
    return means[codes], (squares / plays**2)[codes]


def part_of(events: Events, rows: BoolArray) -> Events:
    """Return some events, with only the accounts that have any."""
    users, codes = np.unique(events.users[rows], return_inverse=True)
    return replace(
        events.rows(rows),
        users=codes.astype(np.int64),
        user_labels=Labels(events.user_labels.values[users]),
    )
