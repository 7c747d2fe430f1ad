"""A coalition of your own in your own log: how far it moves what is learned, and who is found.

Accounts that are added are copies of real ones, chosen at random: they meet what real accounts
meet, as often, and give the rewards that these gave, except where they lie. So the coalition hides
as well as one can that knows the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.auditing import audit_events
from unswayed.audit.comparing import part_of
from unswayed.audit.log import MOST_LETTERS, weighted_cells
from unswayed.audit.regimes import RegimeName
from unswayed.audit.results import Audit, plain
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Label, Labels
from unswayed.events.labels import parsed_label
from unswayed.learners.explaining import plain_actions
from unswayed.learners.unknown_fraction import Auto
from unswayed.policy import Policy
from unswayed.randomness import generator
from unswayed.tallies import tally_events
from unswayed.visible import number, shortened

Kind = Literal["push", "nuke", "swap", "quiet"]
KINDS: dict[Kind, str] = {
    "push": "the best reward for the target, always",
    "nuke": "the worst reward for the target, always",
    "swap": "the worst reward for the best action of each context, the best for the second",
    "quiet": "the best reward for the target in a third of the plays",
}

SIZES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Shares of all accounts that are tried beside the one asked for."""

QUIET_SHARE = 1.0 / 3.0
"""Ours: probability that a quiet member lies."""

BEST, WORST = 0.99, 0.01
"""Ours: quantiles of rewards that stand for the best and the worst; beyond lie outliers."""

MOST_ACCOUNTS = 20_000
"""Ours: maximum number of accounts in a red-team run; larger logs are sampled."""

LARGEST_SHARE = 0.45


class Injection(NamedTuple):
    """What is injected: a kind of lies, a share of all accounts, and the item it is about."""

    kind: Kind
    share: float
    target: Label | None


@dataclass(frozen=True, slots=True)
class RedTeamRow:
    """A coalition of one size.

    Shifts are of the target's mean against the log as it is; hits the share of visits decided in
    the coalition's interest; ``detected`` and ``false_positives`` the shares of members and of
    others that count less than half; ``verdict`` is what the audit says.
    """

    share: float
    accounts: int
    verdict: str
    naive_shift: float
    robust_shift: float
    naive_hits: float
    robust_hits: float
    detected: float
    false_positives: float
    auc: float


@dataclass(frozen=True, slots=True)
class RedTeam:
    """All sizes of one kind of coalition."""

    kind: Kind
    target: str
    n_accounts: int
    rows: tuple[RedTeamRow, ...]

    def statement(self) -> str:
        """Return in a sentence from which size on the coalition is found, and what it moves."""
        first, *others = self.rows
        worst = max(self.rows, key=lambda row: abs(row.robust_shift))
        seen = [row.share for row in others if row.verdict == "attacked"]
        if first.verdict == "attacked":
            shares = [row.detected for row in others]
            found = (
                f"has {min(shares):.0%} to {max(shares):.0%} of its members flagged; this log is "
                "called attacked without it, too"
            )
        elif seen:
            found = f"is called an attack from {min(seen):.0%} of the accounts on"
        else:
            found = "is never called an attack"
        return (
            f"A {self.kind} coalition for {shortened(self.target, MOST_LETTERS)!r} {found}. At its "
            f"worst, with {worst.share:.0%} of the accounts, it moves the robust mean by "
            f"{number(worst.robust_shift, sign='+')} and the plain mean by "
            f"{number(worst.naive_shift, sign='+')}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "statement": self.statement(),
            "kind": self.kind,
            "target": self.target,
            "accounts": self.n_accounts,
            "sizes": plain(self.rows),
        }


def parsed_injection(text: str, target: str | None) -> Injection:
    """Return what ``push:0.1`` and a target name; the target is looked up later.

    >>> parsed_injection("push:0.1", "tea")
    Injection(kind='push', share=0.1, target='tea')
    """
    name, _, size = text.partition(":")
    kind = next((known for known in KINDS if known == name), None)
    if kind is None:
        raise InputError(
            f"{option('--inject')} is KIND:SHARE with a kind of {', '.join(KINDS)}, not {text!r}; "
            "for instance push:0.1."
        )
    try:
        share = float(size)
    except ValueError:
        share = -1.0
    if not 0.0 < share <= LARGEST_SHARE:
        raise InputError(
            f"{option('--inject')} {text!r} needs a share of all accounts above 0 and at most "
            f"{LARGEST_SHARE:g}, such as {name}:0.1."
        )
    if kind == "swap" and target is not None:
        raise InputError(
            f"{option('--inject')} swap lies about the two best actions; "
            f"leave {option('--target')} out."
        )
    if kind != "swap" and target is None:
        raise InputError(
            f"{option('--inject')} {name} needs {option('--target')}, the action to lie about."
        )
    return Injection(kind, share, target)


def checked_target(injection: Injection, actions: Labels) -> Injection:
    """Return the injection with its target as a label of the log, or say that there is none."""
    if injection.target is None:
        return injection
    label = parsed_label(str(injection.target), actions.type_name)
    if actions.code(label) == UNKNOWN:
        some = ", ".join(repr(action) for action in list(actions)[:5])
        raise InputError(
            f"{option('--target')} {str(injection.target)!r} is no action of the log; it has: "
            f"{some}{', …' if len(actions) > 5 else ''}."
        )
    return injection._replace(target=label)


def run_red_team(
    events: Events,
    injection: Injection,
    *,
    stated: float | Auto,
    regime: RegimeName,
    on_size: Callable[[float], None] = lambda _: None,
) -> RedTeam:
    """Inject coalitions of several sizes into a log, one at a time, and audit each.

    The injection's share is tried beside ``SIZES``; ``on_size`` is called with each as it begins.
    ``stated`` and ``regime`` are as ``audit_log`` takes them.
    """
    injection = checked_target(injection, events.action_labels)
    rng = generator(0, "red team")
    if events.n_users > MOST_ACCOUNTS:
        is_chosen = np.zeros(events.n_users, dtype=np.bool_)
        is_chosen[rng.choice(events.n_users, size=MOST_ACCOUNTS, replace=False)] = True
        events = part_of(events, is_chosen[events.users])
    target = UNKNOWN if injection.target is None else events.action_labels.code(injection.target)
    lies = _lies_of(injection.kind, target, events)
    before: _Measured | None = None
    rows = []
    for share in sorted({*SIZES, injection.share}):
        on_size(share)
        attacked = _injected(events, lies, share, rng)
        audit, policy = audit_events(attacked, source="red team", stated=stated, regime=regime)
        now = _measured(attacked, audit, policy, lies)
        before = before or now
        is_bad = np.arange(attacked.n_users) >= events.n_users
        is_flagged = audit.accounts.is_flagged
        rows.append(
            RedTeamRow(
                share=share,
                accounts=int(is_bad.sum()),
                verdict=audit.verdict,
                naive_shift=now.naive_mean - before.naive_mean,
                robust_shift=now.robust_mean - before.robust_mean,
                naive_hits=_hits(now.naive, before.naive, now.visits, lies),
                robust_hits=_hits(now.robust, before.robust, now.visits, lies),
                detected=float(is_flagged[is_bad].mean()) if is_bad.any() else float("nan"),
                false_positives=float(is_flagged[~is_bad].mean()),
                auc=area_under_curve(audit.accounts.scores, is_bad),
            )
        )
    name = "the two best actions" if injection.target is None else str(injection.target)
    return RedTeam(injection.kind, name, events.n_users, tuple(rows))


class _Lies(NamedTuple):
    """Members' reports per cell (1 best, −1 worst, 0 truth), and how often they lie.

    ``wanted`` are the actions that decisions shall be moved to, or away from if ``is_avoided``.
    """

    signs: IntArray
    share: float
    wanted: IntArray
    is_avoided: bool


def _lies_of(kind: Kind, target: int, events: Events) -> _Lies:
    shape = (events.n_contexts, events.n_actions)
    signs = np.zeros(shape, dtype=np.int64)
    if kind != "swap":
        signs[:, target] = -1 if kind == "nuke" else 1
        wanted = np.full(events.n_contexts, target, dtype=np.int64)
        return _Lies(signs, QUIET_SHARE if kind == "quiet" else 1.0, wanted, kind == "nuke")
    naive = plain_actions(tally_events(events).uniform())
    cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
    plays = np.bincount(cells, minlength=signs.size).reshape(shape)
    sums = np.bincount(cells, events.rewards, signs.size).reshape(shape)
    means = np.where(plays > 0, sums / np.maximum(plays, 1), -np.inf)
    rows = np.arange(events.n_contexts)
    means[rows, naive] = -np.inf
    second = means.argmax(axis=1)
    signs[rows, naive] = -1
    signs[rows, second] = 1
    return _Lies(signs, 1.0, second, False)


def _injected(events: Events, lies: _Lies, share: float, rng: np.random.Generator) -> Events:
    """Return the log with a coalition of this share of all accounts; its members come last."""
    n_users = events.n_users
    n_members = round(share / (1.0 - share) * n_users)
    copied = rng.choice(n_users, size=n_members, replace=n_members > n_users)
    order = np.argsort(events.users, kind="stable")
    starts = np.searchsorted(events.users[order], np.arange(n_users + 1))
    rows = [order[starts[user] : starts[user + 1]] for user in copied.tolist()]
    sources = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
    members = np.repeat(np.arange(n_members), [len(some) for some in rows])
    rewards = events.rewards[sources].copy()
    best, worst = np.quantile(events.rewards, (BEST, WORST))
    signs = lies.signs[events.contexts[sources], events.actions[sources]]
    signs = signs * (rng.random(len(sources)) < lies.share)
    rewards[signs > 0], rewards[signs < 0] = best, worst
    labels: list[Label] = [*map(str, events.user_labels)]
    labels += [f"(injected) {number}" for number in range(n_members)]
    attacked = events.rows(np.concatenate([np.arange(len(events)), sources]))
    return replace(
        attacked,
        users=np.concatenate([events.users.astype(np.int64), n_users + members]),
        rewards=np.concatenate([events.rewards, rewards]),
        user_labels=Labels.of(labels),
    )


class _Measured(NamedTuple):
    naive_mean: float
    robust_mean: float
    naive: IntArray
    robust: IntArray
    visits: FloatArray


def _measured(events: Events, audit: Audit, policy: Policy | None, lies: _Lies) -> _Measured:
    """Return means of what is lied about, and the decisions of plain and robust means."""
    tallies = tally_events(events).uniform()
    naive = plain_actions(tallies)
    robust = naive.copy() if policy is None else policy.actions
    if policy is None:
        codes = events.context_labels.codes([change.context for change in audit.changed])
        robust[codes] = events.action_labels.codes([change.robust for change in audit.changed])
    raised = lies.signs > 0 if (lies.signs > 0).any() else lies.signs < 0
    means = []
    for weights in (np.ones(events.n_users), audit.accounts.weights):
        plays, sums, _ = weighted_cells(tallies, weights)
        means.append(float(sums[raised].sum() / max(float(plays[raised].sum()), 1e-9)))
    visits = tallies.cell_sums("plays").sum(axis=1)
    return _Measured(means[0], means[1], naive, robust, visits / max(float(visits.sum()), 1e-9))


def _hits(actions: IntArray, first: IntArray, visits: FloatArray, lies: _Lies) -> float:
    """Return the share of visits decided in the coalition's interest."""
    if lies.is_avoided:
        was_wanted = first == lies.wanted
        gone = was_wanted & (actions != lies.wanted)
        there = float(visits @ was_wanted)
        return float(visits @ gone) / there if there > 0.0 else 0.0
    return float(visits @ (actions == lies.wanted))


def area_under_curve(scores: FloatArray, is_bad: BoolArray) -> float:
    """Return the chance that a member scores above another account; NaN without members.

    >>> area_under_curve(np.array([0.1, 0.9, 0.5]), np.array([False, True, False]))
    1.0
    """
    n_bad, n_good = int(is_bad.sum()), int((~is_bad).sum())
    if not n_bad or not n_good:
        return float("nan")
    ranks = stats.rankdata(scores)
    return float((ranks[is_bad].sum() - n_bad * (n_bad + 1) / 2.0) / (n_bad * n_good))
