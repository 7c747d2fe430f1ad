"""What an audit says: frozen results, the JSON that programs read, and limits that raise alarms.

An alarm that anybody can ring is a weapon. So shares count by their lower end, and shifts only once
a coalition of some size is found: what a handful of accounts does raises no alarm.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

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

    def to_json(self) -> dict[str, float | None]:
        """Return it as plain JSON values; ends without a bound are None."""
        return {
            "estimate": json_number(self.estimate),
            "low": json_number(self.low),
            "high": json_number(self.high),
        }


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

    Attributes
    ----------
    labels
        Names.
    weights, scores, interactions
        Shape (n_users,).
    p_values
        Shape (n_users,); NaN where the regime has none.
    groups, reasons
        One text each; empty for those in no group.
    group_ids
        By the name of a group, an id that stays the same while the group grows.
    first_seen, last_seen
        Shape (n_users,); times in seconds since 1970, or None.
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
        return {
            "verdict": self.verdict,
            "attacked": self.is_attacked,
            "statement": self.statement,
            "share": self.share.to_json(),
            "items": [_plain(asdict(item)) for item in self.items],
            "changed": [_plain(asdict(change)) for change in self.changed],
            "cost": json_number(self.cost),
            "regime": asdict(self.regime),
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
            "groups": [_plain(asdict(group)) for group in self.groups],
            "cases": [_plain(asdict(case)) for case in self.cases],
            "error_rates": _plain(asdict(self.rates)),
            "null": _plain(asdict(self.histogram)),
            "contexts": [_plain(asdict(context)) for context in self.contexts],
            "timeline": None if self.timeline is None else asdict(self.timeline),
            "exploration": self.exploration,
            "limits": list(self.limits),
            "withstands": self.withstands,
            "notes": list(self.notes),
        }

    def table(self, part: Part = "accounts") -> pa.Table:
        """Return a part as a table; ``.to_pandas()`` and ``polars.from_arrow`` make data frames.

        ``accounts`` are all of them, ``cases`` the flagged ones with ids that stay the same.
        """
        if part in ("accounts", "cases"):
            return self.accounts.table(only_flagged=part == "cases")
        kinds: dict[str, type] = {
            "items": ItemShift,
            "decisions": ChangedDecision,
            "groups": GroupCard,
        }
        rows = {"items": self.items, "decisions": self.changed, "groups": self.groups}[part]
        names = [field.name for field in fields(kinds[part]) if field.name not in NESTED]
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


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return json_number(value) if isinstance(value, float) else value


COMMAND = "python benchmarks/audit.py --part validation --every 2 --kinds"

FLAGGED_WHERE_SERVERS_CHOSE = 0.0028
"""Share of honest accounts that count less than half in attacked production logs."""

FLAGGED_WHERE_USERS_CHOSE = 0.004
"""Share of honest accounts that are flagged in real ratings with injected profiles; in attacked
markets it is .0002, and in real ratings believed clean nobody is flagged."""


def measured_on(what: str, kind: str) -> str:
    """Return what a rate was measured on, and with which command."""
    return f"{what} with known liars ({COMMAND} {kind})"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Whether a limit was exceeded, why, and the fewest accounts that could cause it."""

    is_raised: bool
    reasons: tuple[str, ...]
    accounts_needed: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "raised": self.is_raised,
            "reasons": list(self.reasons),
            "accounts_needed": self.accounts_needed,
        }


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
    """Return whether an audit passes a limit.

    Parameters
    ----------
    audit
        What was found.
    share
        Largest share of colluders, by the lower end of its interval; None for no limit.
    shift
        Largest shift of an item's mean, up or down; None for no limit.
    """
    least = max(LEAST_ACCOUNTS, math.ceil(LEAST_SHARE * audit.n_users))
    needed = least if share is None else max(least, math.floor(share * audit.n_users) + 1)
    if shift is not None:
        needed = least
    reasons = []
    found = audit.share.low * audit.n_users
    if audit.is_attacked and found >= least:
        if share is not None and audit.share.low > share:
            reasons.append(
                f"at least {audit.share.low:.2%} of the accounts collude, and {share:.2%} are "
                "allowed"
            )
        if shift is not None:
            moved = [item for item in audit.items if abs(item.shift) > shift]
            if moved:
                reasons.append(
                    f"{len(moved):,} item{'s are' if len(moved) > 1 else ' is'} moved by more than "
                    f"{shift:g}, {moved[0].action!r} by {moved[0].shift:+.4g}"
                )
    return Alarm(bool(reasons), tuple(reasons), needed)
