"""Results of an audit, their JSON, and limits that raise alarms.

A few accounts must not be able to raise an alarm. So limits are compared with the lower end of the
share, and shifts only count if a coalition of a minimum size was found.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.regimes import Regime
from unswayed.errors import InputError, option
from unswayed.events import Label, Labels
from unswayed.policy.documents import json_number
from unswayed.visible import shortened

MOST_LISTED = 200
"""Ours: maximum number of accounts in JSON and reports."""

Part = Literal["accounts", "cases", "items", "decisions", "groups"]
"""Parts of an audit that are tables."""

NESTED = ("items", "examples", "timeline")
"""Fields of a group that are nested, and therefore not columns of the table of groups."""

MOST_LETTERS = 60
"""Ours: maximum length of a name in a sentence."""

LEAST_ACCOUNTS, LEAST_SHARE = 20, 0.005
"""Ours: minimum number and minimum share of accounts that raise an alarm."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    """A group of accounts.

    ``items`` are those on which members and others differ most: ``action``, ``members`` who met it,
    ``members_mean``, ``others_mean``. ``timeline`` has the starts of equal time steps, and the
    numbers of events of ``members`` and ``others`` in each; None without times.
    """

    id: str
    name: str
    accounts: int
    statement: str
    measure: str  # what ``seen`` and ``expected`` are: an overlap, or mean rewards
    seen: float
    expected: float
    items: pa.Table
    examples: tuple[Label, ...]
    timeline: dict[str, list[Any]] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accounts:
    """Results for all accounts, by code; arrays have shape (n_users,)."""

    labels: Labels
    weights: FloatArray
    scores: FloatArray
    interactions: IntArray
    p_values: FloatArray  # NaN where the regime has none
    groups: list[str]  # "" for accounts in no group
    reasons: list[str]
    group_ids: Mapping[str, str]  # stable ids of groups by name
    first_seen: FloatArray  # seconds since 1970, NaN where unknown
    last_seen: FloatArray

    def table(self, codes: IntArray) -> pa.Table:
        """Return one row for each of some accounts."""
        return pa.table(
            {
                "user": pa.array(self.labels.values).take(pa.array(codes)),
                "weight": self.weights[codes].round(6),
                "score": self.scores[codes].round(6),
                "group": pa.array([self.groups[code] for code in codes.tolist()], pa.string()),
                "reason": pa.array([self.reasons[code] for code in codes.tolist()], pa.string()),
                "interactions": self.interactions[codes],
                "p_value": pa.array(self.p_values[codes], from_pandas=True),
            }
        )

    def cases(self) -> pa.Table:
        """Return the flagged accounts, with stable ids and first and last times."""
        order = self.ordered(self.is_flagged)
        codes, table = order.tolist(), self.table(order)
        ids = [self.group_ids.get(self.groups[code], "") for code in codes]
        names = [stable_id("case", self.labels[code]) for code in codes]
        table = table.add_column(0, "group_id", pa.array(ids, pa.string()))
        table = table.add_column(0, "case", pa.array(names, pa.string()))
        for name, times in (("first_seen", self.first_seen), ("last_seen", self.last_seen)):
            if not np.isnan(times).all():
                moments = pa.array((times[order] * 1e3).astype("datetime64[ms]"))
                table = table.append_column(name, moments)
        return table

    def ordered(self, members: BoolArray | bool = True) -> IntArray:
        """Return the codes of all accounts, or of some, the most suspicious first."""
        order = np.argsort(-self.scores, kind="stable")
        return np.asarray(order[np.broadcast_to(members, len(order))[order]])

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


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What an audit found that an audit of earlier events had not.

    ``accounts`` are newly flagged, the most suspicious first: ``user``, ``group``, and whether this
    ``is_known_group``. ``cleared`` are accounts that were flagged before and no longer are.
    """

    since: str
    before: str  # verdict of an audit of the earlier events
    accounts: pa.Table
    n_first_seen: int  # newly flagged accounts without events before
    n_joined: int  # newly flagged accounts that joined a known group
    cleared: tuple[Label, ...]

    @property
    def statement(self) -> str:
        """The changes in a sentence or two."""
        if not len(self.accounts):
            return f"Since {self.since} no account is newly flagged (before: {self.before})."
        return (
            f"Since {self.since} {len(self.accounts):,} accounts are newly flagged (before: "
            f"{self.before}): {self.n_joined:,} joined a known group, {self.n_first_seen:,} had no "
            "events before."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the changes as plain JSON values, with the most suspicious accounts only."""
        return {
            **plain(self),
            "accounts": plain(self.accounts[:MOST_LISTED]),
            "newly_flagged": len(self.accounts),
            "cleared": list(self.cleared[:MOST_LISTED]),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How a log differs from a reference that is believed clean.

    ``items`` are those with a different mean: ``action``, its mean in the ``reference`` and
    ``now``, and the difference ``z`` in standard errors.
    """

    source: str
    verdict: str
    flagged_share: float
    items: pa.Table

    @property
    def statement(self) -> str:
        """The differences in a sentence or two."""
        moved = [
            f"{named_briefly([item['action']])} from {item['reference']:.3g} to {item['now']:.3g}"
            for item in self.items[:3].to_pylist()
        ]
        more = f" and {len(self.items) - 3:,} more" if len(self.items) > 3 else ""
        means = f"means moved: {', '.join(moved)}{more}" if moved else "no item's mean moved"
        return (
            f"Against the reference ({self.verdict}, {self.flagged_share:.2%} of its accounts "
            f"flagged) {means}."
        )


@dataclass(frozen=True, slots=True)
class RedTeam:
    """Audits of a log with injected coalitions of one kind.

    ``sizes`` are rows by ``share``, the first without a coalition: ``accounts`` that were injected,
    ``attacked``, ``verdict``, ``naive_shift`` and ``robust_shift`` of the target's mean against the
    log as it is, shares of members that are ``detected`` and of others, ``false_positives``.
    """

    kind: str
    target: str
    accounts: int
    sizes: list[dict[str, Any]]

    @property
    def found_from(self) -> float | None:
        """Smallest share from which all tried coalitions are found; None if there is none."""
        n_last = len(list(takewhile(lambda row: row["attacked"], reversed(self.sizes))))
        is_some = 0 < n_last < len(self.sizes)
        return self.sizes[-n_last]["share"] if is_some else None

    @property
    def statement(self) -> str:
        """From which share on the audit finds the attack, in a sentence or two."""
        first, *others = self.sizes
        found = [f"{100.0 * row['share']:g}%" for row in others if row["attacked"]]
        suspected = [
            f"{100.0 * row['share']:g}%" for row in others if row["verdict"] == "suspected"
        ]
        if first["attacked"]:
            flagged = [row["detected"] for row in others if row["accounts"]]
            return (
                "The audit calls this log attacked even without injected accounts. It flags "
                f"{min(flagged):.0%} to {max(flagged):.0%} of the injected accounts and "
                f"{first['false_positives']:.0%} of the others."
            )
        more = f" It is suspected at {', '.join(suspected)}." if suspected else ""
        if self.found_from is not None:
            start = f"{100.0 * self.found_from:g}%"
            return f"The audit finds this attack from {start} of the accounts on.{more}"
        if found:
            words = f"at {', '.join(found)}, but not at larger shares"
        else:
            words = f"at no share up to {100.0 * others[-1]['share']:g}%"
        return f"The audit finds this attack {words}.{more}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """The result of an audit.

    Attributes
    ----------
    items
        Items whose means down-weighted accounts shift: ``action``, ``shift``, ``direction``, the
        ``naive`` and the ``robust`` mean, ``plays``.
    changed
        Contexts where plain means decide differently: the ``naive`` and the ``robust`` action, the
        ``cost`` of a visit, the ``share`` of visits.
    cases
        The most suspicious accounts and what they did beside others who are not flagged.
    rates
        False positives: the ``threshold``, the ``realised`` share of honest accounts that are
        flagged, and what it was ``measured_on``.
    changes, difference, red_team
        What is new since a moment, what differs from a reference, and what is found of injected
        coalitions; None unless asked for.
    """

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
    items: pa.Table
    changed: pa.Table
    accounts: Accounts
    groups: tuple[GroupCard, ...]
    cases: list[dict[str, Any]]
    rates: dict[str, Any]
    limits: tuple[str, ...]
    notes: tuple[str, ...] = ()
    changes: Changes | None = None
    difference: Difference | None = None
    red_team: RedTeam | None = None

    def __repr__(self) -> str:
        return f"<Audit: {self.verdict}, {self.n_events:,} events>"

    @property
    def verdict(self) -> Literal["attacked", "suspected", "nothing found"]:
        """The result in one or two words."""
        if self.is_attacked:
            return "attacked"
        return "suspected" if self.is_suspected else "nothing found"

    @property
    def cost(self) -> float:
        """Reward per visit that is lost by deciding on plain means."""
        return float(np.dot(self.changed["cost"], self.changed["share"]))

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain JSON values, with the most suspicious accounts only."""
        sizes = {name: getattr(self, f"n_{name}") for name in SIZES}
        return {
            **{name: plain(getattr(self, name)) for name in AS_THEY_ARE},
            "attacked": self.is_attacked,
            "log": {"source": self.source, **sizes},
            "accounts": plain(self.listed_accounts()),
            "flagged": int(self.accounts.is_flagged.sum()),
            "error_rates": self.rates,
            "changes": self.changes and self.changes.to_json(),
            "reference": plain(self.difference),
            "red_team": plain(self.red_team),
        }

    def table(self, part: Part = "accounts") -> pa.Table:
        """Return a part as a table; ``.to_pandas()`` and ``polars.from_arrow`` make data frames.

        ``accounts`` has all accounts, ``cases`` the flagged ones with stable ids.
        """
        if part == "accounts":
            return self.accounts.table(self.accounts.ordered())
        if part == "cases":
            return self.accounts.cases()
        if part in ("items", "decisions"):
            return self.items if part == "items" else self.changed
        names = [one.name for one in fields(GroupCard) if one.name not in NESTED]
        return pa.table({name: [getattr(card, name) for card in self.groups] for name in names})

    def listed_accounts(self) -> pa.Table:
        """Return the most suspicious accounts, one row each."""
        return self.accounts.table(self.accounts.ordered()[:MOST_LISTED])


SIZES = ("events", "users", "contexts", "actions")
AS_THEY_ARE = (
    *("verdict", "statement", "share", "items", "changed", "cost", "regime", "alpha"),
    *("groups", "cases", "limits", "notes"),
)
"""Attributes that keep their names in JSON."""


def plain(value: Any) -> Any:
    """Return results as plain JSON values: NaN and infinity as None, tables as lists of rows.

    A dataclass becomes an object that includes its statements.
    """
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, pa.Table):
        return plain(value.to_pylist())
    if is_dataclass(value):
        says = [name for name in ("statement", "found_from") if hasattr(value, name)]
        names = [*says, *(one.name for one in fields(value))]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def named_briefly(names: Sequence[object], most: int = 3) -> str:
    """Return some names in quotes, and how many more there are.

    >>> named_briefly(["tea", "milk"]), named_briefly([1, 2, 3, 4])
    ("'tea' and 'milk'", '1, 2, 3 and 1 more')
    """
    shown = [
        repr(shortened(name, MOST_LETTERS) if isinstance(name, str) else name)
        for name in names[:most]
    ]
    more = len(names) - len(shown)
    if more > 0:
        return f"{', '.join(shown)} and {more:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


FLAGGED_WHERE_SERVERS_CHOSE = 0.0079
"""Share of the honest accounts that are flagged in attacked production logs."""

FLAGGED_WHERE_USERS_CHOSE = 0.004
"""Share of the honest accounts that are flagged in real ratings with injected profiles."""


class Alarm(NamedTuple):
    """Whether and why an alarm is raised, and the minimum number of accounts that can raise it."""

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
    """Compare the lower end of the share and the shifts of items with their limits."""
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
        limit = math.inf if shift is None else shift
        moved = [one for one in audit.items.to_pylist() if abs(one["shift"]) > limit]
        if moved:
            reasons.append(
                f"{len(moved):,} item{'s are' if len(moved) > 1 else ' is'} moved by more than "
                f"{limit:g}, {moved[0]['action']!r} by {moved[0]['shift']:+.4g}"
            )
    return Alarm(bool(reasons), tuple(reasons), needed)
