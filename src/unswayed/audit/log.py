"""What is audited, and what both regimes report of it: accounts, groups, items, decisions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.regimes import Regime
from unswayed.audit.results import (
    Accounts,
    Audit,
    Case,
    ChangedDecision,
    Deed,
    GroupCard,
    ItemShift,
    SharedItem,
    Timeline,
    named_briefly,
    stable_id,
)
from unswayed.events import Events, Label
from unswayed.tallies import Tallies, UserTallies, entry_users
from unswayed.visible import percent

TIME_STEPS = 60
"""Ours: steps of a timeline."""

MOST_CASES, MOST_DEEDS = 50, 12
"""Ours: accounts with a page of their own, and cells on it."""

MOST_SHIFTED = 100
"""Ours: items that are listed."""

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
    regime: Regime
    notes: tuple[str, ...]

    @property
    def n_items(self) -> int:
        """Number of what can be chosen: actions, or cells where users choose among contexts."""
        events = self.events
        is_cell = self.regime.name == "users" and events.n_contexts > events.n_actions
        return events.n_actions * (events.n_contexts if is_cell else 1)

    @property
    def items(self) -> IntArray:
        """What was chosen in each event; shape (n_events,), below ``n_items``."""
        events, actions = self.events, self.events.actions.astype(np.int64)
        if self.n_items == events.n_actions:
            return actions
        return np.asarray(events.contexts.astype(np.int64) * events.n_actions + actions)

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
        begins = np.zeros(events.n_users) if first is None else np.nan_to_num(first, nan=np.inf)
        members = [code for code, name in enumerate(groups) if name]
        ids: dict[str, str] = {}
        for code in sorted(members, key=lambda code: (begins[code], str(events.user_labels[code]))):
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
        **findings: Any,
    ) -> Audit:
        """Return the audit, with what both regimes report in the same way."""
        events = self.events
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
            accounts=accounts,
            cases=self.cases(accounts),
            **findings,
        )

    def cases(self, accounts: Accounts) -> tuple[Case, ...]:
        """Return the most suspicious of the flagged accounts, and what each of them did.

        Of its cells, those are listed that differ most from others, weighed by plays.
        """
        events, chosen = self.events, accounts.ordered(accounts.is_flagged)[:MOST_CASES]
        cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
        n_cells = events.n_contexts * events.n_actions
        others = ~accounts.is_flagged[events.users]
        plays = np.bincount(cells[others], minlength=n_cells)
        means = np.bincount(cells[others], events.rewards[others], n_cells) / np.maximum(plays, 1)
        rows = np.isin(events.users, chosen)
        times = np.full(len(events), np.nan) if events.times is None else events.times
        table = pa.table(
            {
                "user": events.users[rows],
                "cell": cells[rows],
                "reward": events.rewards[rows],
                "time": pa.array(times[rows], from_pandas=True),
            }
        )
        done: dict[int, list[Deed]] = {}
        columns = [("reward", "count"), ("reward", "mean"), ("time", "max")]
        found = table.group_by(["user", "cell"]).aggregate(columns).sort_by("cell")
        for user, cell, count, mean, last in zip(*found.to_pydict().values(), strict=True):
            context, action = divmod(cell, events.n_actions)
            done.setdefault(user, []).append(
                Deed(
                    context=events.context_labels[context],
                    action=events.action_labels[action],
                    plays=count,
                    mean=mean,
                    others_mean=float(means[cell]) if plays[cell] else float("nan"),
                    others=int(plays[cell]),
                    last_seen=None if last is None else moment(last),
                )
            )

        def pull(deed: Deed) -> float:
            return deed.plays * abs(float(np.nan_to_num(deed.mean - deed.others_mean)))

        return tuple(
            Case(
                user=accounts.labels[code],
                group=accounts.groups[code],
                reason=accounts.reasons[code],
                deeds=tuple(sorted(done[code], key=pull, reverse=True)[:MOST_DEEDS]),
            )
            for code in chosen.tolist()
        )

    def card(
        self,
        name: str,
        members: BoolArray,
        accounts: Accounts,
        items: Sequence[int],
        **words: Any,
    ) -> GroupCard:
        """Return the card of a group, with the means of some items for members and others."""
        events, codes = self.events, self.items
        is_member = members[events.users]
        shared = []
        for item in items:
            rows = codes == item
            theirs, others = events.rewards[rows & is_member], events.rewards[rows & ~is_member]
            label: Label = events.action_labels[item % events.n_actions]
            if self.n_items > events.n_actions:
                label = f"{events.context_labels[item // events.n_actions]}: {label}"
            shared.append(
                SharedItem(
                    action=label,
                    members=len(np.unique(events.users[rows & is_member])),
                    members_mean=float(theirs.mean()) if len(theirs) else float("nan"),
                    others_mean=float(others.mean()) if len(others) else float("nan"),
                )
            )
        examples = accounts.ordered(members)[:MOST_EXAMPLES]
        return GroupCard(
            id=accounts.group_ids[name],
            name=name,
            accounts=int(members.sum()),
            items=tuple(shared),
            examples=tuple(accounts.labels[code] for code in examples.tolist()),
            timeline=self.timeline(members),
            **words,
        )

    def timeline(self, members: BoolArray) -> Timeline | None:
        """Return when members and others were active; None without times."""
        times = self.events.times
        if times is None or not (is_known := np.isfinite(times)).any():
            return None
        low, high = float(times[is_known].min()), float(times[is_known].max())
        if not high > low:
            return None
        edges = np.linspace(low, high, TIME_STEPS + 1)
        theirs = members[self.events.users]
        return Timeline(
            starts=tuple(moment(edge) for edge in edges[:-1].tolist()),
            members=tuple(np.histogram(times[is_known & theirs], edges)[0].tolist()),
            others=tuple(np.histogram(times[is_known & ~theirs], edges)[0].tolist()),
        )

    def item_shifts(self, weights: FloatArray) -> tuple[ItemShift, ...]:
        """Return the items that were moved clearly, the farthest first.

        An item's mean is over its contexts, as often as each was met with the item; the robust one
        weighs accounts and keeps these shares. Without accounts that count less nothing is moved.
        """
        if weights.min(initial=1.0) >= 1.0:
            return ()
        plays, means = cell_means(self.tallies, np.ones_like(weights))
        squares = weighted_cells(self.tallies, np.ones_like(weights))[2].sum(axis=0)
        robust = cell_means(self.tallies, weights)[1]
        total = plays.sum(axis=0)
        per_play = plays / np.maximum(total, 1.0)
        naive_mean = (per_play * np.nan_to_num(means)).sum(axis=0)
        robust_mean = (per_play * np.nan_to_num(np.where(np.isnan(robust), means, robust))).sum(0)
        variances = np.maximum(squares / np.maximum(total, 1.0) - naive_mean**2, 0.0)
        shifts = naive_mean - robust_mean
        is_clear = np.abs(shifts) > CLEAR_SHIFT * np.sqrt(variances / np.maximum(total, 1.0))
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
        self, naive: IntArray, robust: IntArray, means: FloatArray, shares: FloatArray
    ) -> tuple[ChangedDecision, ...]:
        """Return where plain means choose something else, the dearest first.

        ``means`` are robust, shape (n_contexts, n_actions), and ``shares`` those of the visits. A
        visit loses the difference of the means of both actions; nothing is known of it where the
        plain choice has none.
        """
        rows = np.arange(len(means))
        costs = np.maximum(np.nan_to_num(means[rows, robust] - means[rows, naive]), 0.0)
        changes = [
            ChangedDecision(
                context=self.events.context_labels[s],
                naive=self.events.action_labels[int(naive[s])],
                robust=self.events.action_labels[int(robust[s])],
                cost=float(costs[s]),
                share=float(shares[s]),
            )
            for s in np.flatnonzero((naive != robust) & np.isfinite(means).any(axis=1)).tolist()
        ]
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


def cell_means(tallies: UserTallies, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return plays and mean rewards of cells, NaN without any; shape (S, A) each."""
    plays, sums, _ = weighted_cells(tallies, weights)
    return plays, np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), np.nan)


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


def flagged_by_mistake(rate: float, n_honest: int) -> str:
    """Return how many honest accounts to expect among the flagged ones, as a sentence.

    >>> flagged_by_mistake(0.002, 1000).partition(": ")[2]
    'in test logs 0.2% of honest accounts were flagged.'
    """
    expected = rate * n_honest
    count = f"About {expected:,.0f}" if expected >= 0.5 else "Fewer than one"
    return (
        f"{count} of the flagged accounts may be honest: in test logs {percent(rate)} of honest "
        "accounts were flagged."
    )


def mark_reviewed(reasons: list[str], is_fake: BoolArray, cleared: IntArray) -> None:
    """Prefix the reasons of reviewed accounts with the result of the review."""
    for code in np.flatnonzero(is_fake).tolist():
        reasons[code] = "; ".join(filter(None, ["a review says fake", reasons[code]]))
    for code in np.unique(cleared).tolist():
        reasons[code] = "; ".join(filter(None, ["a review says honest", reasons[code]]))
