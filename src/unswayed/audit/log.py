"""What is audited, and what both regimes read off it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.regimes import Regime
from unswayed.audit.results import (
    Accounts,
    Case,
    ContextShare,
    Deed,
    Histogram,
    Timeline,
    stable_id,
)
from unswayed.events import Events, Labels
from unswayed.tallies import UserTallies
from unswayed.tallies.log_summary import LogSummary
from unswayed.visible import shortened

TIME_STEPS = 60
"""Ours: steps of a timeline."""

BARS = 40
"""Ours: bars of a histogram."""

MOST_LETTERS = 60
"""Ours: maximum length of a name in a sentence."""

MOST_CASES, MOST_DEEDS = 50, 12
"""Ours: accounts with a page of their own, and cells on it."""

CONFIDENCE = 0.95
"""Level of intervals of shares."""


@dataclass(frozen=True, slots=True, eq=False)
class AuditedLog:
    """A log, its tallies, and what it looks like."""

    source: str
    events: Events
    times: FloatArray | None
    tallies: UserTallies
    summary: LogSummary
    regime: Regime
    notes: tuple[str, ...]

    def exploration(self) -> dict[str, Any]:
        """Return how well actions were explored."""
        plays = self.tallies.cell_sums("plays")
        met = plays[plays.sum(axis=1) > 0]
        return {
            "uniform_p_value": self.summary.uniform_p_value,
            "looks_uniform": self.summary.looks_uniform,
            "has_propensities": self.summary.is_weighted,
            "cells": int(plays.size),
            "cells_never_played": int((met == 0).sum()),
            "median_plays_per_cell": float(np.median(met)) if met.size else 0.0,
            "rare_contexts": self.summary.n_rare_contexts,
            "rare_share": self.summary.rare_share,
            "median_interactions": self.summary.median_interactions,
            "most_interactions": self.summary.most_interactions,
        }

    def spans(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return when each account was first and last seen; None without times."""
        if self.times is None:
            return None, None
        known = np.isfinite(self.times)
        first = np.full(self.events.n_users, np.inf)
        last = -first
        np.minimum.at(first, self.events.users[known], self.times[known])
        np.maximum.at(last, self.events.users[known], self.times[known])
        is_seen = np.isfinite(first)
        return np.where(is_seen, first, np.nan), np.where(is_seen, last, np.nan)

    def group_ids(self, groups: list[str]) -> dict[str, str]:
        """Return an id for each group: that of its first member, so that it outlives new ones."""
        first, _ = self.spans()
        codes = [code for code, name in enumerate(groups) if name]
        codes.sort(key=lambda code: str(self.events.user_labels[code]))
        if first is not None:
            codes.sort(key=lambda code: float(np.nan_to_num(first[code], nan=np.inf)))
        found: dict[str, str] = {}
        for code in codes:
            found.setdefault(groups[code], stable_id("group", self.events.user_labels[code]))
        return found

    def cases(self, accounts: Accounts) -> tuple[Case, ...]:
        """Return the most suspicious of the flagged accounts, and what each of them did."""
        events, is_flagged = self.events, accounts.is_flagged
        order = accounts.order[is_flagged[accounts.order]][:MOST_CASES]
        if not len(order):
            return ()
        cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
        others = ~is_flagged[events.users]
        n_cells = events.n_contexts * events.n_actions
        plays = np.bincount(cells[others], minlength=n_cells)
        means = np.bincount(cells[others], events.rewards[others], n_cells) / np.maximum(plays, 1)
        wanted = np.full(events.n_users, -1)
        wanted[order] = np.arange(len(order))
        rows = np.flatnonzero(wanted[events.users] >= 0)
        rows = rows[np.lexsort((cells[rows], wanted[events.users[rows]]))]
        ends = np.searchsorted(wanted[events.users[rows]], np.arange(len(order) + 1))
        return tuple(
            Case(
                user=accounts.labels[code],
                group=accounts.groups[code],
                reason=accounts.reasons[code],
                deeds=self._deeds(rows[ends[place] : ends[place + 1]], cells, plays, means),
            )
            for place, code in enumerate(order.tolist())
        )

    def _deeds(
        self, rows: IntArray, cells: IntArray, plays: IntArray, means: FloatArray
    ) -> tuple[Deed, ...]:
        """Return what was done in the cells that differ most from others, weighed by plays."""
        events = self.events
        found = []
        met, starts = np.unique(cells[rows], return_index=True)
        for cell, some in zip(met.tolist(), np.split(rows, starts[1:]), strict=True):
            context, action = divmod(cell, events.n_actions)
            last = None if self.times is None else float(np.nanmax(self.times[some], initial=-1.0))
            mean = float(events.rewards[some].mean())
            found.append(
                Deed(
                    context=events.context_labels[context],
                    action=events.action_labels[action],
                    plays=len(some),
                    mean=mean,
                    others_mean=float(means[cell]) if plays[cell] else float("nan"),
                    others=int(plays[cell]),
                    last_seen=None if last is None or last < 0.0 else moment(last),
                )
            )
        found.sort(key=lambda deed: -deed.plays * abs(np.nan_to_num(deed.mean - deed.others_mean)))
        return tuple(found[:MOST_DEEDS])

    def timeline(self, is_flagged: BoolArray) -> Timeline | None:
        """Return when flagged accounts and others were active; None without times."""
        times = self.times
        if times is None:
            return None
        is_known = np.isfinite(times)
        if not is_known.any():
            return None
        low, high = float(times[is_known].min()), float(times[is_known].max())
        if not high > low:
            return None
        edges = np.linspace(low, high, TIME_STEPS + 1)
        flagged = is_flagged[self.events.users]
        return Timeline(
            starts=tuple(moment(edge) for edge in edges[:-1].tolist()),
            flagged=_counts(times[is_known & flagged], edges),
            others=_counts(times[is_known & ~flagged], edges),
        )

    def seen_between(self, members: BoolArray) -> tuple[str | None, str | None]:
        """Return when some accounts were first and last seen; None without times."""
        if self.times is None:
            return None, None
        theirs = self.times[members[self.events.users]]
        theirs = theirs[np.isfinite(theirs)]
        if not len(theirs):
            return None, None
        return moment(float(theirs.min())), moment(float(theirs.max()))


def moment(seconds: float) -> str:
    """Return a time as ISO 8601; numbers that are no plausible times as they are.

    >>> moment(86_400.0 * 365), moment(12.0)
    ('1971-01-01T00:00:00', '12')
    """
    if not 86_400.0 * 365 <= seconds < 86_400.0 * 365 * 200:
        return f"{seconds:.10g}"
    return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None).isoformat()


def share_bounds(count: int, n_users: int) -> tuple[float, float]:
    """Return the ends of the interval of a share (Clopper and Pearson), one-sided at 95%.

    >>> low, high = share_bounds(100, 1000)
    >>> round(low, 3), round(high, 3)
    (0.085, 0.117)
    """
    count = min(max(count, 0), n_users)
    low = float(special.betaincinv(count, n_users - count + 1, 1.0 - CONFIDENCE)) if count else 0.0
    if count >= n_users:
        return low, 1.0
    return low, float(special.betaincinv(count + 1, n_users - count, CONFIDENCE))


def histogram_of(
    name: str, values: FloatArray, expected: FloatArray, threshold: float | None
) -> Histogram:
    """Return shares of values and of a null in common bars; the last ones take all beyond."""
    joined = np.concatenate([values, expected])
    low, high = np.quantile(joined, (0.001, 0.999))
    if threshold is not None:
        high = max(float(high), threshold * 1.2)
    if not high > low:
        high = low + 1.0
    edges = np.linspace(float(low), float(high), BARS + 1)
    return Histogram(
        name=name,
        edges=tuple(round(edge, 6) for edge in edges.tolist()),
        seen=_shares(values, edges),
        expected=_shares(expected, edges),
        threshold=threshold,
    )


def context_shares(
    labels: Labels, claimed: FloatArray, believed: FloatArray, most: int
) -> tuple[ContextShare, ...]:
    """Return the contexts whose shares differ most, and the most frequent ones."""
    order = np.argsort(-np.maximum(np.abs(claimed - believed) * 10.0, claimed), kind="stable")
    return tuple(
        ContextShare(context=labels[s], claimed=float(claimed[s]), believed=float(believed[s]))
        for s in order[:most].tolist()
    )


def flagged_by_mistake(rate: float, n_honest: int) -> str:
    """Return how many honest accounts to expect among the flagged ones, as a sentence.

    >>> flagged_by_mistake(0.002, 1000)
    'Expect about 2 of the 1,000 other accounts to be flagged by mistake, as in test logs.'
    """
    expected = rate * n_honest
    count = f"about {expected:,.0f}" if expected >= 0.95 else "less than one"
    return (
        f"Expect {count} of the {n_honest:,} other accounts to be flagged by mistake, as in test "
        "logs."
    )


def mark_reviewed(reasons: list[str], is_fake: BoolArray, cleared: IntArray) -> None:
    """Put what reviews said of accounts in front of their reasons."""
    for code in np.flatnonzero(is_fake).tolist():
        reasons[code] = "; ".join(filter(None, ["a review says fake", reasons[code]]))
    for code in np.unique(cleared).tolist():
        reasons[code] = "; ".join(filter(None, ["a review says honest", reasons[code]]))


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


def _counts(values: FloatArray, edges: FloatArray) -> tuple[int, ...]:
    return tuple(np.histogram(values, edges)[0].tolist())


def _shares(values: FloatArray, edges: FloatArray) -> tuple[float, ...]:
    inside = np.clip(values, edges[0], edges[-1])
    counts = np.histogram(inside, edges)[0] / max(len(values), 1)
    return tuple(round(share, 8) for share in counts.tolist())
