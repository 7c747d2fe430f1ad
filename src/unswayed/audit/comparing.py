"""Comparisons of audits: with earlier events, with a log believed clean, and with injected attacks.

Injected accounts are copies of random accounts of the log, except for their lies. So they are as
hard to detect as colluders who know the log.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import special

from unswayed.arrays import BoolArray, FloatArray
from unswayed.audit.log import taken
from unswayed.audit.results import Audit, Changes, Difference, RedTeam
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Label, Labels
from unswayed.events.labels import parsed_label
from unswayed.learners.from_log import Listener
from unswayed.randomness import generator

SAME_GROUP = 0.2
"""Ours: a group is known if it contains this share of the members of an earlier group."""

LEVEL = 0.01
"""Ours: family-wise level of the comparison of items with the reference."""

MOST_ITEMS = 20

KINDS = {"push": 1.0, "nuke": 1.0, "quiet": 1.0 / 3.0}
"""Kinds of attacks, and the share of a member's plays of the target with a false reward: the lowest
reward for a nuke, the highest for the others."""

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Ours: shares of all accounts that are tried in addition to the requested one."""

LARGEST_SHARE = 0.45

OUTLIERS = 0.01
"""Ours: this share of the distinct rewards at either end are outliers, never false rewards."""

MOST_ACCOUNTS = 20_000
"""Ours: maximum number of accounts into which a coalition is injected; larger logs are sampled."""


def parsed_moment(text: str) -> float:
    """Parse a date, or a date and time, into seconds since 1970.

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
    """Return a mask of the events before a moment; raise if the log has no times."""
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
    # Number of members that each group shares with each earlier group.
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
    """Compare the means of items with those of a reference, by z-tests clustered by account."""
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
    """Return means of items and their variances, clustered by account."""
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
    """Return a subset of the events, without the accounts that have none in it."""
    users, codes = np.unique(events.users[rows], return_inverse=True)
    return replace(
        events.rows(rows),
        users=codes.astype(np.int64),
        user_labels=Labels(events.user_labels.values[users]),
    )


class Injection(NamedTuple):
    """An attack to inject."""

    kind: str
    share: float  # share of all accounts
    target: str  # the action that members lie about


def parsed_injection(text: str | None, target: object) -> Injection | None:
    """Parse an attack such as ``push:0.1``; whether the log has the target is not checked.

    >>> parsed_injection("push:0.1", "tea")
    Injection(kind='push', share=0.1, target='tea')
    """
    inject = option("--inject")
    if text is None and target is not None:
        raise InputError(f"{option('--target')} requires {inject}, such as push:0.1.")
    if text is None:
        return None
    kind, _, size = text.partition(":")
    try:
        share = float(size)
    except ValueError:
        share = -1.0
    if kind not in KINDS or not 0.0 < share <= LARGEST_SHARE:
        raise InputError(
            f"{inject} is {text!r}: write KIND:SHARE, such as push:0.1, with a kind of "
            f"{', '.join(KINDS)} and a share of all accounts above 0 and at most {LARGEST_SHARE:g}."
        )
    if target is None:
        raise InputError(f"{inject} needs {option('--target')}, the action to lie about.")
    return Injection(kind, share, str(target))


def target_code(events: Events, injection: Injection) -> int:
    """Return the code of the action to lie about."""
    actions = events.action_labels
    code = actions.code(parsed_label(injection.target, actions.type_name))
    if code == UNKNOWN:
        some = ", ".join(repr(action) for action in list(actions)[:5])
        raise InputError(
            f"{option('--target')} {injection.target!r} is no action of the log; it has: "
            f"{some}{', …' if len(actions) > 5 else ''}."
        )
    return int(code)


def run_red_team(
    events: Events, injection: Injection, audit: Callable[[Events], Audit], on_step: Listener
) -> RedTeam:
    """Inject coalitions of several shares into a log, one at a time, and audit each."""
    target = target_code(events, injection)
    rng = generator(0, "red team")
    if events.n_users > MOST_ACCOUNTS:
        is_chosen = np.zeros(events.n_users, dtype=np.bool_)
        is_chosen[rng.choice(events.n_users, size=MOST_ACCOUNTS, replace=False)] = True
        events = part_of(events, is_chosen[events.users])
    rows: list[dict[str, Any]] = []
    usual = None
    for share in sorted({*SHARES, injection.share}):
        attacked = _injected(events, injection.kind, target, share, rng)
        on_step(f"injecting {share:.0%}")
        found = audit(attacked)
        is_flagged = found.accounts.is_flagged
        members, others = is_flagged[events.n_users :], is_flagged[: events.n_users]
        plays = attacked.rows(attacked.actions == target)
        weights = found.accounts.weights[plays.users]
        robust = plays.rewards @ weights / max(float(weights.sum()), 1e-300)
        means = np.array([plays.rewards.mean(), robust])
        usual = means if usual is None else usual
        naive_shift, robust_shift = (means - usual).tolist()
        rows.append(
            {
                "share": share,
                "accounts": len(members),
                "attacked": found.is_attacked,
                "verdict": found.verdict,
                "naive_shift": naive_shift,
                "robust_shift": robust_shift,
                "detected": float(members.mean()) if len(members) else float("nan"),
                "false_positives": float(others.mean()),
            }
        )
    return RedTeam(injection.kind, injection.target, events.n_users, rows)


def _injected(
    events: Events, kind: str, target: int, share: float, rng: np.random.Generator
) -> Events:
    """Append an injected coalition of this share of all accounts to a log."""
    n_users, n_members = events.n_users, round(share / (1.0 - share) * events.n_users)
    codes = np.full(n_users, UNKNOWN, dtype=np.int64)
    codes[rng.choice(n_users, size=n_members, replace=False)] = n_users + np.arange(n_members)
    copied = np.flatnonzero(codes[events.users] != UNKNOWN)
    rewards = events.rewards[copied]
    lies = (events.actions[copied] == target) & (rng.random(len(copied)) < KINDS[kind])
    # Quantiles of the distinct rewards, because nearly all rewards are 0 if clicks are rare.
    known = np.unique(events.rewards)
    n_outliers = int(OUTLIERS * (len(known) - 1))
    rewards[lies] = known[n_outliers] if kind == "nuke" else known[-1 - n_outliers]
    return replace(
        events.rows(np.concatenate([np.arange(len(events)), copied])),
        users=np.concatenate([events.users, codes[events.users[copied]]]),
        rewards=np.concatenate([events.rewards, rewards]),
        user_labels=Labels.of(range(n_users + n_members)),
    )
