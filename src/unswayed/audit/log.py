"""The audited log, and the parts of a report that both regimes share."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.regimes import Regime
from unswayed.audit.results import (
    Accounts,
    Audit,
    GroupCard,
    named_briefly,
    stable_id,
)
from unswayed.events import Events, Label, Labels
from unswayed.tallies import UserTallies
from unswayed.visible import percent

TIME_STEPS = 60
"""Ours: number of steps of a timeline."""

MOST_CASES, MOST_DEEDS = 50, 12
"""Ours: maximum number of cases, and of cells listed per case."""

MOST_SHIFTED = 100
"""Ours: maximum number of shifted items in a report."""

MOST_ITEMS, MOST_EXAMPLES = 10, 5
"""Ours: maximum number of items and accounts on the card of a group."""

CLEAR_SHIFT, RELATIVE = 2.0, 0.1
"""Ours: an item is listed if it was shifted by at least this many standard errors of its mean, and
by this share of the largest shift."""

CONFIDENCE = 0.95
"""Level of intervals of shares."""


@dataclass(frozen=True, slots=True, eq=False)
class AuditedLog:
    """A log, its tallies, and its regime."""

    source: str
    events: Events
    tallies: UserTallies
    regime: Regime
    notes: tuple[str, ...]

    @property
    def cells(self) -> IntArray:
        """The context and action of each event; shape (n_events,)."""
        events = self.events
        return np.asarray(events.contexts.astype(np.int64) * events.n_actions + events.actions)

    @property
    def are_cells_items(self) -> bool:
        """Whether users chose contexts as well as actions."""
        return self.regime.name == "users" and self.events.n_contexts > self.events.n_actions

    @property
    def n_items(self) -> int:
        """Number of possible choices: actions or cells."""
        return self.events.n_actions * (self.events.n_contexts if self.are_cells_items else 1)

    @property
    def items(self) -> IntArray:
        """What was chosen in each event; shape (n_events,), below ``n_items``."""
        return self.cells if self.are_cells_items else self.events.actions.astype(np.int64)

    def means(self, codes: IntArray, n: int, weights: FloatArray | BoolArray) -> FloatArray:
        """Return weighted plays and mean rewards by code, NaN without any; shape (2, n)."""
        own = weights[self.events.users].astype(np.float64)
        plays = np.bincount(codes, own, n)
        sums = np.bincount(codes, own * self.events.rewards, n)
        return np.stack([plays, np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), np.nan)])

    def cell_means(self, weights: FloatArray) -> FloatArray:
        """Return plays and mean rewards of cells, NaN without any; shape (2, S, A)."""
        shape = self.events.n_contexts, self.events.n_actions
        return self.means(self.cells, shape[0] * shape[1], weights).reshape(2, *shape)

    def accounts(
        self,
        weights: FloatArray,
        scores: FloatArray,
        groups: list[str],
        reasons: list[str],
        p_values: FloatArray,
    ) -> Accounts:
        """Return all accounts, with first and last times and stable ids of groups.

        A group's id is derived from its first member, so that new members do not change it.
        """
        events, n_users = self.events, self.events.n_users
        times = np.full(len(events), np.nan) if events.times is None else events.times
        first, last = np.full(n_users, np.nan), np.full(n_users, np.nan)
        np.fmin.at(first, events.users, times)
        np.fmax.at(last, events.users, times)
        begins = np.nan_to_num(first, nan=np.inf)
        members = [code for code, name in enumerate(groups) if name]
        ids: dict[str, str] = {}
        for code in sorted(members, key=lambda code: (begins[code], str(events.user_labels[code]))):
            ids.setdefault(groups[code], stable_id("group", events.user_labels[code]))
        return Accounts(
            labels=events.user_labels,
            weights=weights,
            scores=scores,
            interactions=np.bincount(events.users, minlength=n_users).astype(np.int64),
            p_values=p_values,
            groups=groups,
            reasons=reasons,
            group_ids=ids,
            first_seen=first,
            last_seen=last,
        )

    def audit(self, accounts: Accounts, **findings: Any) -> Audit:
        """Assemble the audit."""
        events = self.events
        return Audit(
            source=self.source,
            n_events=len(events),
            n_users=events.n_users,
            n_contexts=events.n_contexts,
            n_actions=events.n_actions,
            regime=self.regime,
            accounts=accounts,
            cases=self.cases(accounts),
            **findings,
        )

    def cases(self, accounts: Accounts) -> list[dict[str, Any]]:
        """Return the flagged accounts with the highest scores, and what each did in its cells.

        Cells are sorted by plays times the difference from the mean of other accounts.
        """
        events, chosen = self.events, accounts.ordered(accounts.is_flagged)[:MOST_CASES]
        cells, n_cells = self.cells, events.n_contexts * events.n_actions
        plays, means = self.means(cells, n_cells, ~accounts.is_flagged)
        rows = np.isin(events.users, chosen)
        times = np.full(len(events), np.nan) if events.times is None else events.times
        columns = {"user": events.users, "cell": cells, "reward": events.rewards, "time": times}
        table = pa.table({k: pa.array(x[rows], from_pandas=True) for k, x in columns.items()})
        wanted = [("reward", "count"), ("reward", "mean"), ("time", "max")]
        found = table.group_by(["user", "cell"]).aggregate(wanted).sort_by("cell")
        done: dict[int, list[dict[str, Any]]] = {}
        for user, cell, count, mean, last in zip(*found.to_pydict().values(), strict=True):
            done.setdefault(user, []).append(
                {
                    "context": events.context_labels[cell // events.n_actions],
                    "action": events.action_labels[cell % events.n_actions],
                    "plays": count,
                    "mean": mean,
                    "others_mean": float(means[cell]),
                    "others": int(plays[cell]),
                    "last_seen": None if last is None else moment(last),
                }
            )

        def pull(deed: dict[str, Any]) -> float:
            return float(deed["plays"] * abs(np.nan_to_num(deed["mean"] - deed["others_mean"])))

        return [
            {
                "user": accounts.labels[code],
                "group": accounts.groups[code],
                "reason": accounts.reasons[code],
                "deeds": sorted(done[code], key=pull, reverse=True)[:MOST_DEEDS],
            }
            for code in chosen.tolist()
        ]

    def card(self, name: str, members: BoolArray, accounts: Accounts, **words: Any) -> GroupCard:
        """Return the card of a group, with the items on which members and others differ most."""
        events, items = self.events, self.items
        theirs, their_means = self.means(items, self.n_items, members)
        other_means = self.means(items, self.n_items, ~members)[1]
        # Items that only members rated or played are compared with the log's mean.
        usual = np.where(np.isnan(other_means), events.rewards.mean(), other_means)
        pull = theirs * np.abs(np.nan_to_num(their_means - usual))
        most = np.argsort(-pull, kind="stable")[:MOST_ITEMS]
        most = most[theirs[most] > 0.0]
        rows = members[events.users] & np.isin(items, most)
        pairs = np.unique(np.stack([items, events.users])[:, rows], axis=1)
        n_met = np.bincount(pairs[0], minlength=self.n_items)
        shared = {
            "action": [self.item_label(item) for item in most.tolist()],
            "members": n_met[most],
            "members_mean": their_means[most],
            "others_mean": other_means[most],
        }
        examples = accounts.ordered(members)[:MOST_EXAMPLES]
        return GroupCard(
            id=accounts.group_ids[name],
            name=name,
            accounts=int(members.sum()),
            items=pa.table(shared),
            examples=tuple(accounts.labels[code] for code in examples.tolist()),
            timeline=self.timeline(members),
            **words,
        )

    def item_label(self, item: int) -> Label:
        """Return the label of an item, with its context if items are cells."""
        context, action = divmod(item, self.events.n_actions)
        label = self.events.action_labels[action]
        return f"{self.events.context_labels[context]}: {label}" if self.are_cells_items else label

    def timeline(self, members: BoolArray) -> dict[str, list[Any]] | None:
        """Return the activity of members and others over time; None without times."""
        times = np.full(1, np.nan) if self.events.times is None else self.events.times
        known = times[np.isfinite(times)]
        if not len(known) or not np.ptp(known) > 0.0:
            return None
        edges = np.linspace(known.min(), known.max(), TIME_STEPS + 1)
        theirs = members[self.events.users]
        counts = {"members": times[theirs], "others": times[~theirs]}
        return {
            "starts": list(map(moment, edges[:-1].tolist())),
            **{
                name: np.histogram(some[np.isfinite(some)], edges)[0].tolist()
                for name, some in counts.items()
            },
        }

    def item_shifts(self, weights: FloatArray) -> pa.Table:
        """Return the items with significantly shifted means, the largest shift first.

        An item's mean is the average of its means by context, weighted by plays. The robust mean
        has the same context weights, and weights the accounts, too.
        """
        (plays, means), (_, robust) = map(self.cell_means, (np.ones_like(weights), weights))
        total = np.maximum(plays.sum(axis=0), 1.0)
        robust = np.where(np.isnan(robust), means, robust)
        naive_mean, robust_mean = (
            (plays * np.nan_to_num(found)).sum(axis=0) / total for found in (means, robust)
        )
        squares = np.bincount(self.events.actions, self.events.rewards**2, len(total))
        variances = np.maximum(squares / total - naive_mean**2, 0.0)
        shifts = naive_mean - robust_mean
        is_clear = np.abs(shifts) > CLEAR_SHIFT * np.sqrt(variances / total)
        is_clear &= np.abs(shifts) >= RELATIVE * np.abs(shifts[is_clear]).max(initial=0.0)
        is_clear &= bool((weights < 1.0).any())
        order = np.argsort(-np.abs(shifts), kind="stable")
        order = order[is_clear[order]][:MOST_SHIFTED]
        return pa.table(
            {
                "action": taken(self.events.action_labels, order),
                "shift": shifts[order],
                "direction": pa.array(np.where(shifts[order] > 0, "up", "down"), pa.string()),
                "naive": naive_mean[order],
                "robust": robust_mean[order],
                "plays": plays.sum(axis=0)[order].astype(np.int64),
            }
        )

    def changed_decisions(
        self, naive: IntArray, robust: IntArray, means: FloatArray, shares: FloatArray
    ) -> pa.Table:
        """Return contexts in which plain means choose another action, the most costly first.

        ``means`` are robust means, shape (n_contexts, n_actions), and ``shares`` the contexts'
        shares of the visits. The cost of a visit is the difference between the robust means of the
        two actions; 0 if one is unknown.
        """
        rows, labels = np.arange(len(means)), self.events.action_labels
        costs = np.maximum(np.nan_to_num(means[rows, robust] - means[rows, naive]), 0.0)
        changed = np.flatnonzero((naive != robust) & np.isfinite(means).any(axis=1))
        order = changed[np.argsort(-(costs * shares)[changed], kind="stable")]
        return pa.table(
            {
                "context": taken(self.events.context_labels, order),
                "naive": taken(labels, naive[order]),
                "robust": taken(labels, robust[order]),
                "cost": costs[order],
                "share": shares[order],
            }
        )


def taken(labels: Labels, codes: IntArray) -> pa.Array:
    """Return the labels of codes."""
    return pa.array(labels.values).take(pa.array(codes))


def moved_items(items: pa.Table) -> str:
    """Describe which items were raised and which were lowered; empty if there are none."""
    words = []
    for verb, direction in (("raise", "up"), ("lower", "down")):
        names = items.filter(pc.field("direction") == direction)["action"].to_pylist()
        words += [f"{verb} {named_briefly(names)}"] if names else []
    return " and ".join(words)


def moment(seconds: float) -> str:
    """Format a time as ISO 8601, or as a plain number if it is not a plausible time.

    >>> moment(86_400.0 * 365), moment(12.0)
    ('1971-01-01T00:00:00', '12')
    """
    if not 86_400.0 * 365 <= seconds < 86_400.0 * 365 * 200:
        return f"{seconds:.10g}"
    return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None).isoformat()


def share_bounds(count: int, n_users: int) -> tuple[float, float]:
    """Return the lower and upper 95% confidence limits of a share (Clopper and Pearson).

    >>> low, high = share_bounds(100, 1000)
    >>> round(low, 3), round(high, 3)
    (0.085, 0.117)
    """
    found = stats.binomtest(min(max(count, 0), n_users), n_users)
    interval = found.proportion_ci(2.0 * CONFIDENCE - 1.0, "exact")
    return float(interval.low), float(interval.high)


def flagged_by_mistake(rate: float, n_users: int, n_flagged: int) -> str:
    """Return a sentence on how many of the flagged accounts are expected to be honest.

    >>> flagged_by_mistake(0.002, 1000, 50).partition(",")[2]
    ' which would be about 2 here.'
    """
    expected = min(rate * (n_users - n_flagged), float(n_flagged))
    return (
        f"In test logs {percent(rate)} of the honest accounts were flagged by mistake, which would "
        f"be {about(expected)} here."
    )


def about(expected: float) -> str:
    """Format an expected number."""
    return f"about {expected:,.0f}" if expected >= 0.5 else "fewer than one"


def mark_reviewed(reasons: list[str], is_fake: BoolArray, cleared: IntArray) -> None:
    """Prefix the reasons of reviewed accounts with the result of the review."""
    for code in np.flatnonzero(is_fake).tolist():
        reasons[code] = "; ".join(filter(None, ["a review says fake", reasons[code]]))
    for code in np.unique(cleared).tolist():
        reasons[code] = "; ".join(filter(None, ["a review says honest", reasons[code]]))
