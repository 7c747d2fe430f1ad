"""Inject a coalition into a log: how far it moves a mean, and whether the audit finds it.

Injected accounts are copies of randomly chosen accounts, which differ from these only where they
lie. So the coalition hides as well as one can that knows the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from unswayed.audit.comparing import part_of
from unswayed.audit.results import Audit, InjectedShare, RedTeam
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Labels
from unswayed.events.labels import parsed_label
from unswayed.randomness import generator

KINDS = {"push": 1.0, "nuke": 1.0, "quiet": 1.0 / 3.0}
"""Kinds of lies about the target, and the share of its plays in which members lie. A push and a
quiet one report the best reward, a nuke the worst."""

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Shares of all accounts that are tried beside the one asked for."""

LARGEST_SHARE = 0.45

OUTLIERS = 0.01
"""Ours: share of distinct rewards at either end that are outliers, not the best or worst one."""

MOST_ACCOUNTS = 20_000
"""Ours: maximum number of accounts into which a coalition is injected; larger logs are sampled."""


class Injection(NamedTuple):
    """Injected lies."""

    kind: str
    share: float  # of all accounts
    target: str  # the action they are about


def parsed_injection(text: str | None, target: object) -> Injection | None:
    """Return what ``push:0.1`` and a target name, None without both; the log may lack the target.

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
    events: Events, injection: Injection, audit: Callable[[Events, float], Audit]
) -> RedTeam:
    """Inject coalitions of several shares into a log, one at a time, and audit each.

    ``audit`` gets the events with a coalition, and its share of the accounts.
    """
    target = target_code(events, injection)
    rng = generator(0, "red team")
    if events.n_users > MOST_ACCOUNTS:
        is_chosen = np.zeros(events.n_users, dtype=np.bool_)
        is_chosen[rng.choice(events.n_users, size=MOST_ACCOUNTS, replace=False)] = True
        events = part_of(events, is_chosen[events.users])
    rows: list[InjectedShare] = []
    usual = None
    for share in sorted({*SHARES, injection.share}):
        attacked = _injected(events, injection.kind, target, share, rng)
        found = audit(attacked, share)
        is_flagged = found.accounts.is_flagged
        members, others = is_flagged[events.n_users :], is_flagged[: events.n_users]
        plays = attacked.rows(attacked.actions == target)
        weights = found.accounts.weights[plays.users]
        robust = plays.rewards @ weights / max(float(weights.sum()), 1e-300)
        means = np.array([plays.rewards.mean(), robust])
        usual = means if usual is None else usual
        naive_shift, robust_shift = (means - usual).tolist()
        rows.append(
            InjectedShare(
                share=share,
                accounts=len(members),
                attacked=found.is_attacked,
                verdict=found.verdict,
                naive_shift=naive_shift,
                robust_shift=robust_shift,
                detected=float(members.mean()) if len(members) else float("nan"),
                false_positives=float(others.mean()),
            )
        )
    return RedTeam(injection.kind, injection.target, events.n_users, tuple(rows))


def _injected(
    events: Events, kind: str, target: int, share: float, rng: np.random.Generator
) -> Events:
    """Return the log with a coalition of this share of all accounts; its members come last."""
    n_users, n_members = events.n_users, round(share / (1.0 - share) * events.n_users)
    codes = np.full(n_users, UNKNOWN, dtype=np.int64)
    codes[rng.choice(n_users, size=n_members, replace=False)] = n_users + np.arange(n_members)
    copied = np.flatnonzero(codes[events.users] != UNKNOWN)
    rewards = events.rewards[copied]
    lies = (events.actions[copied] == target) & (rng.random(len(copied)) < KINDS[kind])
    # Of distinct rewards: where clicks are rare, nearly all quantiles of all rewards are 0.
    known = np.unique(events.rewards)
    n_outliers = int(OUTLIERS * (len(known) - 1))
    rewards[lies] = known[n_outliers] if kind == "nuke" else known[-1 - n_outliers]
    return replace(
        events.rows(np.concatenate([np.arange(len(events)), copied])),
        users=np.concatenate([events.users, codes[events.users[copied]]]),
        rewards=np.concatenate([events.rewards, rewards]),
        user_labels=Labels.of(range(n_users + n_members)),
    )
