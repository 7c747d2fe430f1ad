"""What an audit says: frozen results, the JSON that programs read, and limits that raise alarms.

An alarm that anybody can ring is a weapon. So shares count by their lower end, and shifts only once
a coalition of some size is found: what a handful of accounts does raises no alarm.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.regimes import Regime
from unswayed.errors import InputError, option
from unswayed.events import Label, Labels
from unswayed.policy.documents import json_number

MOST_LISTED = 200
"""Ours: accounts and rows that JSON and report list; ``--users`` and Parquet have all."""

Part = Literal["accounts", "cases", "items", "decisions", "groups"]
"""Parts of an audit that are tables."""

NESTED = ("items", "examples", "timeline")
"""Fields of a group that are tables themselves."""

LEAST_ACCOUNTS, LEAST_SHARE = 20, 0.005
"""Ours: fewer accounts than these, and a smaller share of all, never raise an alarm."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval."""

    estimate: float
    low: float
    high: float

    def words(self) -> str:
        """Return the ends of a share.

        >>> Interval(0.1, 0.05, 0.2).words(), Interval(0.1, 0.05, math.inf).words()
        ('5.0% to 20.0%', 'at least 5.0%')
        """
        if math.isinf(self.high):
            return f"at least {self.low:.1%}"
        return f"{self.low:.1%} to {self.high:.1%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemShift:
    """Shift of an item's mean by down-weighted accounts; positive is up."""

    action: Label
    shift: float
    direction: str
    naive: float
    robust: float
    plays: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDecision:
    """A context where plain means decide differently, and the loss per visit."""

    context: Label
    naive: Label
    robust: Label
    cost: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextShare:
    """A context's share of visits: in the log, and after down-weighting."""

    context: Label
    claimed: float
    believed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedItem:
    """An item of a group: how many members met it, and their mean reward beside that of others."""

    action: Label
    members: int
    members_mean: float
    others_mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Events over time, in equal steps: of accounts that count less than half, and of others."""

    starts: tuple[str, ...]
    flagged: tuple[int, ...]
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    """Accounts that belong together.

    ``seen`` and ``expected`` say of what, in ``measure``: overlap of a pair, or mean reward.
    ``close`` is the share of shared ratings within a short time; NaN if times are not known.
    """

    id: str
    name: str
    accounts: int
    statement: str
    measure: str
    seen: float
    expected: float
    items: tuple[SharedItem, ...]
    examples: tuple[Label, ...]
    close: float
    first_seen: str | None
    last_seen: str | None
    timeline: Timeline | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What an account did in a cell, beside those who are not flagged."""

    context: Label
    action: Label
    plays: int
    mean: float
    others_mean: float
    others: int
    last_seen: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A flagged account to look at: what it did most of, next to what others did."""

    user: Label
    group: str
    reason: str
    deeds: tuple[Deed, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accounts:
    """Every account, in the order of codes; ``order`` sorts them, the most suspicious first.

    Arrays have shape (n_users,). ``p_values`` are NaN where the regime has none, ``groups`` and
    ``reasons`` empty for those in no group, and times in seconds since 1970, or None.
    ``group_ids`` has by the name of a group an id that stays the same while the group grows.
    """

    labels: Labels
    weights: FloatArray
    scores: FloatArray
    interactions: IntArray
    p_values: FloatArray
    groups: list[str]
    reasons: list[str]
    group_ids: Mapping[str, str]
    first_seen: FloatArray | None
    last_seen: FloatArray | None

    def table(self, *, only_flagged: bool = False) -> pa.Table:
        """Return one row per account, the most suspicious first.

        With ``only_flagged`` these are cases to hand over: with ids that stay the same.
        """
        order = self.order
        if only_flagged:
            order = order[self.is_flagged[order]]
        columns = {
            "user": pa.array(self.labels.values).take(pa.array(order)),
            "weight": self.weights[order],
            "score": self.scores[order],
            "group": pa.array([self.groups[code] for code in order.tolist()], pa.string()),
            "reason": pa.array([self.reasons[code] for code in order.tolist()], pa.string()),
            "interactions": self.interactions[order],
            "p_value": pa.array(self.p_values[order], from_pandas=True),
        }
        if not only_flagged:
            return pa.table(columns)
        names = [self.labels[code] for code in order.tolist()]
        ids = [self.group_ids.get(self.groups[code], "") for code in order.tolist()]
        spans = {
            name: pa.array((times[order] * 1e3).astype("datetime64[ms]"))
            for name, times in (("first_seen", self.first_seen), ("last_seen", self.last_seen))
            if times is not None
        }
        keys = {"case": [stable_id("case", name) for name in names], "group_id": ids}
        return pa.table({**keys, **columns, **spans})

    @property
    def order(self) -> IntArray:
        """Codes by descending score."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def is_flagged(self) -> BoolArray:
        """Accounts with weight below one half."""
        return np.asarray(self.weights < 0.5)


def stable_id(kind: str, label: Label) -> str:
    """Return an id that depends on a label alone.

    >>> stable_id("case", "ann")
    'case-49915e0d7d4b'
    """
    return f"{kind}-{hashlib.sha256(str(label).encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Histogram of scores: share of accounts per bin, observed and under the null."""

    name: str
    edges: tuple[float, ...]
    seen: tuple[float, ...]
    expected: tuple[float, ...]
    threshold: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """Share of honest accounts that are flagged: by the null, and on planted data."""

    threshold: str
    nominal: float
    realised: float
    measured_on: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """The result of an audit."""

    source: str
    n_events: int
    n_users: int
    n_contexts: int
    n_actions: int
    alpha: float
    regime: Regime
    is_attacked: bool
    is_suspected: bool
    statement: str
    share: Interval
    items: tuple[ItemShift, ...]
    changed: tuple[ChangedDecision, ...]
    cost: float
    contexts: tuple[ContextShare, ...]
    accounts: Accounts
    groups: tuple[GroupCard, ...]
    cases: tuple[Case, ...]
    rates: ErrorRates
    histogram: Histogram
    timeline: Timeline | None
    exploration: dict[str, Any]
    limits: tuple[str, ...]
    withstands: dict[str, float]
    notes: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> Literal["attacked", "suspected", "nothing found"]:
        """Short verdict."""
        if self.is_attacked:
            return "attacked"
        return "suspected" if self.is_suspected else "nothing found"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the most suspicious accounts only."""
        found: dict[str, Any] = plain(
            {
                "verdict": self.verdict,
                "attacked": self.is_attacked,
                "statement": self.statement,
                "share": self.share,
                "items": self.items,
                "changed": self.changed,
                "cost": self.cost,
                "regime": self.regime,
                "alpha": self.alpha,
                "log": {
                    "source": self.source,
                    "events": self.n_events,
                    "users": self.n_users,
                    "contexts": self.n_contexts,
                    "actions": self.n_actions,
                },
                "accounts": self.listed_accounts(),
                "flagged": int(self.accounts.is_flagged.sum()),
                "groups": self.groups,
                "cases": self.cases,
                "error_rates": self.rates,
                "null": self.histogram,
                "contexts": self.contexts,
                "timeline": self.timeline,
                "exploration": self.exploration,
                "limits": self.limits,
                "withstands": self.withstands,
                "notes": self.notes,
            }
        )
        return found

    def table(self, part: Part = "accounts") -> pa.Table:
        """Return a part as a table; ``.to_pandas()`` and ``polars.from_arrow`` make data frames.

        ``accounts`` are all of them, ``cases`` the flagged ones with ids that stay the same.
        """
        if part in ("accounts", "cases"):
            return self.accounts.table(only_flagged=part == "cases")
        rows, kind = {
            "items": (self.items, ItemShift),
            "decisions": (self.changed, ChangedDecision),
            "groups": (self.groups, GroupCard),
        }[part]
        names = [one.name for one in fields(kind) if one.name not in NESTED]
        return pa.table({name: pa.array([getattr(row, name) for row in rows]) for name in names})

    def listed_accounts(self) -> list[dict[str, Any]]:
        """Return the most suspicious accounts, one row each."""
        accounts = self.accounts
        return [
            {
                "user": accounts.labels[code],
                "weight": round(float(accounts.weights[code]), 6),
                "score": round(float(accounts.scores[code]), 6),
                "p_value": json_number(float(accounts.p_values[code])),
                "group": accounts.groups[code],
                "reason": accounts.reasons[code],
                "interactions": int(accounts.interactions[code]),
            }
            for code in accounts.order[:MOST_LISTED].tolist()
        ]


def plain(value: Any) -> Any:
    """Return results as plain JSON values: NaN and infinity as None, dataclasses as objects."""
    if isinstance(value, float):
        return json_number(value)
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


FLAGGED_WHERE_SERVERS_CHOSE = 0.0079
"""Share of honest accounts that count less than half in attacked production logs; .0040 without the
worst of 29 logs."""

FLAGGED_WHERE_USERS_CHOSE = 0.004
"""Share of honest accounts that are flagged in real ratings with injected profiles; in attacked
markets it is .0002, and in real ratings believed clean nobody is flagged."""


class Alarm(NamedTuple):
    """Whether a limit was exceeded, why, and the fewest accounts that could cause it."""

    raised: bool
    reasons: tuple[str, ...]
    accounts_needed: int


def check_limits(share: float | None, shift: float | None) -> None:
    """Validate the limits."""
    if share is not None and not 0.0 <= share < 1.0:
        raise InputError(
            f"{option('--fail-share')} is {share}: it is a share of the accounts, from 0 to 1."
        )
    if shift is not None and not 0.0 <= shift < math.inf:
        raise InputError(
            f"{option('--fail-shift')} is {shift}: it is a shift of a mean reward, at least 0."
        )


def alarm_of(audit: Audit, *, share: float | None, shift: float | None) -> Alarm:
    """Return whether the lower end of the share, or an item's shift, exceeds a limit."""
    least = max(LEAST_ACCOUNTS, math.ceil(LEAST_SHARE * audit.n_users))
    needed = least
    if share is not None and shift is None:
        needed = max(least, math.floor(share * audit.n_users) + 1)
    reasons = []
    if audit.is_attacked and audit.share.low * audit.n_users >= least:
        if share is not None and audit.share.low > share:
            reasons.append(
                f"at least {audit.share.low:.2%} of the accounts collude, and {share:.2%} are "
                "allowed"
            )
        moved = [] if shift is None else [one for one in audit.items if abs(one.shift) > shift]
        if moved:
            reasons.append(
                f"{len(moved):,} item{'s are' if len(moved) > 1 else ' is'} moved by more than "
                f"{shift:g}, {moved[0].action!r} by {moved[0].shift:+.4g}"
            )
    return Alarm(bool(reasons), tuple(reasons), needed)
