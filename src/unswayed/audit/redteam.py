"""A coalition of your own in your own log: how far it moves what is learned, and who is found.

Accounts that are added are copies of real ones, chosen at random: they meet what real accounts
meet, as often, and give the rewards that these gave, except where they lie. So the coalition hides
as well as one can that knows the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.auditing import audit_events
from unswayed.audit.comparing import part_of
from unswayed.audit.log import MOST_LETTERS
from unswayed.audit.regimes import RegimeName
from unswayed.audit.results import Audit
from unswayed.audit.shifts import weighted_cells
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Label, Labels
from unswayed.events.labels import parsed_label
from unswayed.learners.explaining import plain_actions
from unswayed.learners.unknown_fraction import Auto
from unswayed.policy import Policy
from unswayed.policy.documents import json_number
from unswayed.randomness import generator
from unswayed.tallies import tally_events
from unswayed.visible import shortened

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
        seen = [row.share for row in self.rows if row.accounts and row.verdict == "attacked"]
        found = (
            f"is called an attack from {min(seen):.0%} of the accounts on"
            if seen
            else "is never called an attack"
        )
        worst = max(self.rows, key=lambda row: abs(row.robust_shift))
        return (
            f"A {self.kind} coalition for {shortened(self.target, MOST_LETTERS)!r} {found}. At its "
            f"worst, with {worst.share:.0%}, it moves the robust mean by {worst.robust_shift:+.3g} "
            f"and the plain mean by {worst.naive_shift:+.3g}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "statement": self.statement(),
            "kind": self.kind,
            "target": self.target,
            "accounts": self.n_accounts,
            "sizes": [
                {
                    name: json_number(value) if isinstance(value, float) else value
                    for name, value in asdict(row).items()
                }
                for row in self.rows
            ],
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
    times: FloatArray | None,
    injection: Injection,
    *,
    stated: float | Auto,
    regime: RegimeName,
    on_size: Callable[[float], None] = lambda _: None,
) -> RedTeam:
    """Inject coalitions of several sizes into a log, one at a time, and audit each.

    Parameters
    ----------
    events, times
        The log.
    injection
        What is injected; its share is tried beside ``SIZES``.
    stated, regime
        As ``audit_log`` takes them.
    on_size
        Called with each size as it begins.
    """
    injection = checked_target(injection, events.action_labels)
    rng = generator(0, "red team")
    events, times = _some_accounts(events, times, rng)
    target = UNKNOWN if injection.target is None else events.action_labels.code(injection.target)
    naive = plain_actions(tally_events(events).uniform())
    lies = _lies_of(injection.kind, target, events, naive)
    before: _Measured | None = None
    rows = []
    for share in sorted({*SIZES, injection.share}):
        on_size(share)
        attacked, moments, is_bad = injected(events, times, lies, share, rng)
        audit, policy = audit_events(
            attacked, moments, source="red team", stated=stated, regime=regime
        )
        now = _measured(attacked, audit, policy, lies)
        before = before or now
        rows.append(_row(share, is_bad, audit, now, before))
    name = "the two best actions" if injection.target is None else str(injection.target)
    return RedTeam(injection.kind, name, events.n_users, tuple(rows))


class _Lies(NamedTuple):
    """Members' reports per cell (1 best, −1 worst, 0 truth), and how often they lie."""

    signs: IntArray
    share: float
    wanted: IntArray
    is_avoided: bool
    target: int


def _lies_of(kind: Kind, target: int, events: Events, naive: IntArray) -> _Lies:
    shape = (events.n_contexts, events.n_actions)
    signs = np.zeros(shape, dtype=np.int64)
    if kind != "swap":
        signs[:, target] = -1 if kind == "nuke" else 1
        wanted = np.full(events.n_contexts, target, dtype=np.int64)
        share = QUIET_SHARE if kind == "quiet" else 1.0
        return _Lies(signs, share, wanted, kind == "nuke", target)
    cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
    plays = np.bincount(cells, minlength=signs.size).reshape(shape)
    sums = np.bincount(cells, events.rewards, signs.size).reshape(shape)
    means = np.where(plays > 0, sums / np.maximum(plays, 1), -np.inf)
    rows = np.arange(events.n_contexts)
    means[rows, naive] = -np.inf
    second = means.argmax(axis=1)
    signs[rows, naive] = -1
    signs[rows, second] = 1
    return _Lies(signs, 1.0, second, False, UNKNOWN)


def injected(
    events: Events,
    times: FloatArray | None,
    lies: _Lies,
    share: float,
    rng: np.random.Generator,
) -> tuple[Events, FloatArray | None, BoolArray]:
    """Return the log with a coalition of this share of all accounts, and who belongs to it."""
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
    names = [f"(injected) {number}" for number in range(n_members)]
    labels: list[Label] = [*map(str, events.user_labels), *names]
    propensities = events.propensities
    attacked = Events(
        np.concatenate([events.users.astype(np.int64), n_users + members]),
        np.concatenate([events.contexts, events.contexts[sources]]),
        np.concatenate([events.actions, events.actions[sources]]),
        np.concatenate([events.rewards, rewards]),
        Labels.of(labels),
        events.context_labels,
        events.action_labels,
        None if propensities is None else np.concatenate([propensities, propensities[sources]]),
    )
    moments = None if times is None else np.concatenate([times, times[sources]])
    is_bad = np.arange(n_users + n_members) >= n_users
    return attacked, moments, is_bad


def _some_accounts(
    events: Events, times: FloatArray | None, rng: np.random.Generator
) -> tuple[Events, FloatArray | None]:
    """Return the events of at most so many accounts, chosen at random."""
    if events.n_users <= MOST_ACCOUNTS:
        return events, times
    is_chosen = np.zeros(events.n_users, dtype=np.bool_)
    is_chosen[rng.choice(events.n_users, size=MOST_ACCOUNTS, replace=False)] = True
    return part_of(events, times, is_chosen[events.users])


class _Measured(NamedTuple):
    naive_mean: float
    robust_mean: float
    naive: IntArray
    robust: IntArray
    visits: FloatArray
    lies: _Lies


def _measured(events: Events, audit: Audit, policy: Policy | None, lies: _Lies) -> _Measured:
    """Return means of what is lied about, and the decisions of plain and robust means."""
    tallies = tally_events(events).uniform()
    plays, sums, _ = weighted_cells(tallies, np.ones(events.n_users))
    kept, kept_sums, _ = weighted_cells(tallies, audit.accounts.weights)
    naive = plain_actions(tallies)
    robust = naive.copy()
    if policy is not None:
        robust = policy.actions
    else:
        codes = events.context_labels.codes([change.context for change in audit.changed])
        actions = events.action_labels.codes([change.robust for change in audit.changed])
        robust[codes] = actions
    raised = lies.signs > 0 if (lies.signs > 0).any() else lies.signs < 0
    visits = plays.sum(axis=1)
    return _Measured(
        float(sums[raised].sum() / max(float(plays[raised].sum()), 1e-9)),
        float(kept_sums[raised].sum() / max(float(kept[raised].sum()), 1e-9)),
        naive,
        robust,
        visits / max(float(visits.sum()), 1e-9),
        lies,
    )


def _hits(actions: IntArray, first: IntArray, now: _Measured) -> float:
    """Return the share of visits decided in the coalition's interest."""
    if now.lies.is_avoided:
        was_wanted = first == now.lies.wanted
        gone = was_wanted & (actions != now.lies.wanted)
        there = float(now.visits @ was_wanted)
        return float(now.visits @ gone) / there if there > 0.0 else 0.0
    return float(now.visits @ (actions == now.lies.wanted))


def _row(
    share: float, is_bad: BoolArray, audit: Audit, now: _Measured, before: _Measured
) -> RedTeamRow:
    is_flagged, scores = audit.accounts.is_flagged, audit.accounts.scores
    return RedTeamRow(
        share=share,
        accounts=int(is_bad.sum()),
        verdict=audit.verdict,
        naive_shift=now.naive_mean - before.naive_mean,
        robust_shift=now.robust_mean - before.robust_mean,
        naive_hits=_hits(now.naive, before.naive, now),
        robust_hits=_hits(now.robust, before.robust, now),
        detected=float(is_flagged[is_bad].mean()) if is_bad.any() else float("nan"),
        false_positives=float(is_flagged[~is_bad].mean()),
        auc=area_under_curve(scores, is_bad),
    )


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
