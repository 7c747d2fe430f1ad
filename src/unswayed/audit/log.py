"""What is audited, and what both regimes report of it: accounts, groups, items, decisions."""

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
    Audit,
    Case,
    ChangedDecision,
    ContextShare,
    Deed,
    GroupCard,
    Histogram,
    ItemShift,
    SharedItem,
    Timeline,
    stable_id,
)
from unswayed.events import Events
from unswayed.tallies import Tallies, UserTallies, entry_users
from unswayed.tallies.log_summary import LogSummary
from unswayed.visible import percent, shortened

TIME_STEPS, BARS = 60, 40
"""Ours: steps of a timeline, and bars of a histogram."""

MOST_LETTERS = 60
"""Ours: maximum length of a name in a sentence."""

MOST_CASES, MOST_DEEDS = 50, 12
"""Ours: accounts with a page of their own, and cells on it."""

MOST_SHIFTED, MOST_CONTEXTS = 100, 20
"""Ours: items and contexts that are listed."""

MOST_ITEMS, MOST_EXAMPLES = 10, 5
"""Ours: items and accounts on the card of a group."""

CLEAR_SHIFT, RELATIVE = 2.0, 0.1
"""Ours: an item is listed if it was moved by so many standard errors of its mean, and by this share
of the largest shift."""

CONFIDENCE = 0.95
"""Level of intervals of shares."""


@dataclass(frozen=True, slots=True, eq=False)
class AuditedLog:
    """A log, its tallies, and what it looks like."""

    source: str
    events: Events
    tallies: UserTallies
    summary: LogSummary
    regime: Regime
    notes: tuple[str, ...]

    def accounts(
        self,
        weights: FloatArray,
        scores: FloatArray,
        groups: list[str],
        reasons: list[str],
        p_values: FloatArray,
    ) -> Accounts:
        """Return every account, with when it was seen and the ids of the groups.

        The id of a group is that of its first member, so that it outlives new ones.
        """
        events, times = self.events, self.events.times
        first = last = None
        if times is not None:
            known = np.isfinite(times)
            first = np.full(events.n_users, np.inf)
            last = -first
            np.minimum.at(first, events.users[known], times[known])
            np.maximum.at(last, events.users[known], times[known])
            first[np.isinf(first)] = last[np.isinf(last)] = np.nan
        codes = [code for code, name in enumerate(groups) if name]
        codes.sort(key=lambda code: str(events.user_labels[code]))
        if first is not None:
            begins = np.nan_to_num(first, nan=np.inf)
            codes.sort(key=lambda code: float(begins[code]))
        ids: dict[str, str] = {}
        for code in codes:
            ids.setdefault(groups[code], stable_id("group", events.user_labels[code]))
        return Accounts(
            labels=events.user_labels,
            weights=weights,
            scores=scores,
            interactions=np.bincount(events.users, minlength=events.n_users).astype(np.int64),
            p_values=p_values,
            groups=groups,
            reasons=reasons,
            group_ids=ids,
            first_seen=first,
            last_seen=last,
        )

    def audit(
        self,
        accounts: Accounts,
        shifts: tuple[ItemShift, ...],
        changed: tuple[ChangedDecision, ...],
        believed: FloatArray,
        **findings: Any,
    ) -> Audit:
        """Return the audit; ``believed`` are the shares of contexts after down-weighting."""
        events = self.events
        visits = weighted_cells(self.tallies, np.ones(events.n_users))[0].sum(axis=1)
        claimed = visits / max(float(visits.sum()), 1.0)
        order = np.argsort(-np.maximum(np.abs(claimed - believed) * 10.0, claimed), kind="stable")
        return Audit(
            source=self.source,
            n_events=len(events),
            n_users=events.n_users,
            n_contexts=events.n_contexts,
            n_actions=events.n_actions,
            regime=self.regime,
            items=shifts,
            changed=changed,
            cost=float(sum(change.cost * change.share for change in changed)),
            contexts=tuple(
                ContextShare(
                    context=events.context_labels[s],
                    claimed=float(claimed[s]),
                    believed=float(believed[s]),
                )
                for s in order[:MOST_CONTEXTS].tolist()
            ),
            accounts=accounts,
            cases=self.cases(accounts),
            timeline=self.timeline(accounts.is_flagged),
            exploration=self.exploration(),
            **findings,
        )

    def card(
        self,
        name: str,
        members: BoolArray,
        accounts: Accounts,
        *,
        statement: str,
        measure: str,
        seen: float,
        expected: float,
        items: tuple[SharedItem, ...],
        close: float = float("nan"),
    ) -> GroupCard:
        """Return the card of a group, with its most suspicious members and when it was active."""
        codes = np.flatnonzero(members)
        order = codes[np.argsort(-accounts.scores[codes], kind="stable")]
        first_seen = last_seen = None
        if self.events.times is not None:
            times = self.events.times[members[self.events.users]]
            times = times[np.isfinite(times)]
            if len(times):
                first_seen, last_seen = moment(float(times.min())), moment(float(times.max()))
        return GroupCard(
            id=accounts.group_ids[name],
            name=name,
            accounts=len(codes),
            statement=statement,
            measure=measure,
            seen=seen,
            expected=expected,
            items=items,
            examples=tuple(accounts.labels[code] for code in order[:MOST_EXAMPLES].tolist()),
            close=close,
            first_seen=first_seen,
            last_seen=last_seen,
            timeline=self.timeline(members),
        )

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
            last = (
                None
                if self.events.times is None
                else float(np.nanmax(self.events.times[some], initial=-1.0))
            )
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
        times = self.events.times
        if times is None or not (is_known := np.isfinite(times)).any():
            return None
        low, high = float(times[is_known].min()), float(times[is_known].max())
        if not high > low:
            return None
        edges = np.linspace(low, high, TIME_STEPS + 1)
        flagged = is_flagged[self.events.users]
        return Timeline(
            starts=tuple(moment(edge) for edge in edges[:-1].tolist()),
            flagged=tuple(np.histogram(times[is_known & flagged], edges)[0].tolist()),
            others=tuple(np.histogram(times[is_known & ~flagged], edges)[0].tolist()),
        )

    def item_shifts(self, weights: FloatArray) -> tuple[ItemShift, ...]:
        """Return the items that were moved clearly, the farthest first.

        An item's mean is over its contexts, as often as each was met with the item; the robust one
        weighs accounts and keeps these shares. Without accounts that count less nothing is moved.
        """
        if weights.min(initial=1.0) >= 1.0:
            return ()
        plays, sums, squares = weighted_cells(self.tallies, np.ones_like(weights))
        kept, kept_sums, _ = weighted_cells(self.tallies, weights)
        means = sums / np.maximum(plays, 1e-300)
        robust = np.where(kept > 1e-9, kept_sums / np.maximum(kept, 1e-300), means)
        total = plays.sum(axis=0)
        naive_mean = (plays * means).sum(axis=0) / np.maximum(total, 1.0)
        robust_mean = (plays * robust).sum(axis=0) / np.maximum(total, 1.0)
        variances = squares.sum(axis=0) / np.maximum(total, 1.0) - naive_mean**2
        errors = np.sqrt(np.maximum(variances, 0.0) / np.maximum(total, 1.0))
        shifts = naive_mean - robust_mean
        is_clear = (np.abs(shifts) > CLEAR_SHIFT * errors) & (total > 0)
        is_clear &= np.abs(shifts) >= RELATIVE * np.abs(shifts[is_clear]).max(initial=0.0)
        order = np.argsort(-np.abs(shifts), kind="stable")
        return tuple(
            ItemShift(
                action=self.events.action_labels[a],
                shift=float(shifts[a]),
                direction="up" if shifts[a] > 0 else "down",
                naive=float(naive_mean[a]),
                robust=float(robust_mean[a]),
                plays=int(total[a]),
            )
            for a in order[is_clear[order]][:MOST_SHIFTED].tolist()
        )

    def changed_decisions(
        self,
        naive: IntArray,
        robust: IntArray,
        means: FloatArray,
        probabilities: FloatArray,
        is_learned: BoolArray,
    ) -> tuple[ChangedDecision, ...]:
        """Return where plain means choose something else, the dearest first.

        A visit loses the difference of the robust means of both actions; nothing is known of it
        where the plain choice has none.
        """
        changes = []
        for s in np.flatnonzero((naive != robust) & is_learned).tolist():
            cost = float(means[s, robust[s]] - means[s, naive[s]])
            changes.append(
                ChangedDecision(
                    context=self.events.context_labels[s],
                    naive=self.events.action_labels[int(naive[s])],
                    robust=self.events.action_labels[int(robust[s])],
                    cost=max(cost, 0.0) if np.isfinite(cost) else 0.0,
                    share=float(probabilities[s]),
                )
            )
        return tuple(sorted(changes, key=lambda change: -change.cost * change.share))


def weighted_cells(
    tallies: UserTallies, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return plays, sums and sums of squares of cells, accounts weighed; shape (S, A) each."""
    total = tallies.blocks.add_blocks(_sums, rows=weights)
    plays, sums, squares = total.reshape(3, tallies.n_contexts, tallies.n_actions)
    return plays, sums, squares


def _sums(tallies: Tallies, weights: FloatArray) -> FloatArray:
    own = weights[entry_users(tallies.indptr)]
    per_play = tallies.plays / tallies.counts
    columns = (tallies.plays, tallies.sums * per_play, tallies.squares * per_play)
    return np.stack([np.bincount(tallies.cells, own * c, tallies.n_cells) for c in columns])


def moved_items(items: Sequence[ItemShift]) -> str:
    """Return which items were raised and which lowered, in words; nothing without any."""
    raised = [item.action for item in items if item.shift > 0]
    lowered = [item.action for item in items if item.shift < 0]
    pairs = (("raise", raised), ("lower", lowered))
    return " and ".join(f"{verb} {named_briefly(names)}" for verb, names in pairs if names)


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


def flagged_by_mistake(rate: float, n_honest: int) -> str:
    """Return how many honest accounts to expect among the flagged ones, as a sentence.

    >>> flagged_by_mistake(0.002, 1000)
    'About 2 of the flagged accounts may be honest: in test logs 0.2% of honest accounts are.'
    """
    expected = rate * n_honest
    count = f"About {expected:,.0f}" if expected >= 0.5 else "Fewer than one"
    return (
        f"{count} of the flagged accounts may be honest: in test logs {percent(rate)} of honest "
        "accounts are."
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


def _shares(values: FloatArray, edges: FloatArray) -> tuple[float, ...]:
    inside = np.clip(values, edges[0], edges[-1])
    counts = np.histogram(inside, edges)[0] / max(len(values), 1)
    return tuple(round(share, 8) for share in counts.tolist())
