"""The audit of a log whose actions the server chose: what the learner found, and who agrees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.audit.agreement import Agreement, find_agreement, items_leaned_on
from unswayed.audit.log import (
    AuditedLog,
    context_shares,
    flagged_by_mistake,
    histogram_of,
    mark_reviewed,
    named_briefly,
    share_bounds,
)
from unswayed.audit.results import (
    FLAGGED_WHERE_SERVERS_CHOSE,
    Accounts,
    Audit,
    ErrorRates,
    GroupCard,
    Interval,
    ItemShift,
    SharedItem,
    measured_on,
)
from unswayed.audit.shifts import changed_decisions, item_shifts, moved_items, weighted_cells
from unswayed.errors import InputError, option
from unswayed.learners.bounded import Reviewed
from unswayed.learners.design import design_of_log
from unswayed.learners.explaining import is_suspected, notes_on_policy, plain_actions
from unswayed.learners.learning import Learned, learn_policy
from unswayed.learners.unknown_fraction import Auto
from unswayed.policy import Policy
from unswayed.randomness import generator

ACCUSED = 0.5
"""Accounts that keep less than this weight are flagged."""

LEAST_MET = 0.2
"""Ours: minimum number of visitors of an item for comparisons."""

QUIET = "quiet coalition"
MOST_ITEMS, MOST_EXAMPLES, MOST_CONTEXTS = 10, 5, 20

LARGEST_SHARE = 0.5
"""Upper end of every interval of the share: a colluding majority cannot be detected."""


class _Lie(NamedTuple):
    """A lie: its items, number of accounts, verdict, and each account's responsibility.

    ``mean`` is that of the items over all accounts, ``usual`` what is left without members.
    """

    name: str
    items: str
    accounts: float
    is_flagged: bool
    plays: FloatArray
    means: FloatArray
    mean: float
    usual: float


def audit_server(
    log: AuditedLog, is_fake: BoolArray, is_cleared: BoolArray, *, stated: float | Auto, method: str
) -> tuple[Audit, Policy]:
    """Audit a log by what the learner takes out, and by agreement in rewards."""
    events, tallies = log.events, log.tallies
    # What an honest account did after its review can still flag it.
    is_honest = np.bincount(events.users[~is_cleared], minlength=events.n_users) == 0
    learned = learn_policy(
        tallies,
        design_of_log(tallies, "auto"),
        events.context_labels,
        events.action_labels,
        alpha=stated,
        method=method,
        reviewed=Reviewed(is_fake, is_honest) if (is_fake | is_honest).any() else None,
    )
    policy, weights = learned.policy, learned.estimates.user_weights
    if learned.estimates.model is None:
        raise InputError(
            "an audit reads which accounts the learner takes out, and this method takes out none; "
            f"use {option('--method', 'bounded')}."
        )
    agreement = find_agreement(tallies, learned.estimates, rng=generator(0, "audit"))
    is_flagged = weights < ACCUSED
    lies = _lies(log, learned, agreement)
    is_attacked = any(lie.is_flagged for lie in lies)
    groups, reasons = _in_words(log, lies, weights, agreement, is_fake)
    mark_reviewed(reasons, is_fake, events.users[is_cleared].astype(np.int64))
    plays = np.bincount(events.users, minlength=events.n_users)
    first_seen, last_seen = log.spans()
    accounts = Accounts(
        labels=events.user_labels,
        weights=weights,
        scores=agreement.evidence,
        interactions=plays.astype(np.int64),
        p_values=agreement.p_values,
        groups=groups,
        reasons=reasons,
        group_ids=log.group_ids(groups),
        first_seen=first_seen,
        last_seen=last_seen,
    )
    changed = changed_decisions(
        plain_actions(tallies),
        policy.actions,
        policy.mean_rewards,
        policy.context_probabilities,
        policy.is_learned,
        events.context_labels,
        events.action_labels,
    )
    shifts = item_shifts(tallies, weights, events.action_labels)
    claimed = weighted_cells(tallies, np.ones(events.n_users))[0].sum(axis=1)
    share = _share(learned, lies, events.n_users)
    cost = sum(change.cost * change.share for change in changed)
    nominal = float(weights[is_flagged].sum() / max(float(weights.sum()), 1.0))
    audit = Audit(
        source=log.source,
        n_events=len(events),
        n_users=events.n_users,
        n_contexts=events.n_contexts,
        n_actions=events.n_actions,
        alpha=policy.alpha,
        regime=log.regime,
        is_attacked=is_attacked,
        statement=_statement(
            lies,
            int(is_flagged.sum()),
            share,
            events.n_users,
            shifts,
            len(changed),
            cost,
            None if learned.unknown_fraction is None else learned.unknown_fraction.hidden_from,
        ),
        is_suspected=any(not lie.is_flagged for lie in lies),
        share=share,
        items=shifts,
        changed=changed,
        cost=cost,
        contexts=context_shares(
            events.context_labels,
            claimed / max(float(claimed.sum()), 1.0),
            policy.context_probabilities,
            MOST_CONTEXTS,
        ),
        accounts=accounts,
        groups=tuple(_cards(log, lies, groups, accounts)),
        cases=log.cases(accounts),
        rates=ErrorRates(
            threshold="a weight below one half",
            nominal=nominal,
            realised=FLAGGED_WHERE_SERVERS_CHOSE,
            measured_on=measured_on("attacked logs", "production"),
        ),
        histogram=histogram_of(
            "log-odds of membership in a coalition", agreement.evidence, agreement.nulls, None
        ),
        timeline=log.timeline(is_flagged),
        exploration=log.exploration(),
        limits=_limits(learned),
        withstands=_withstands(policy),
        notes=(*log.notes, *notes_on_policy(policy, policy.source)),
    )
    return audit, policy


def _share(learned: Learned, lies: list[_Lie], n_users: int) -> Interval:
    """Return the share of accounts that collude, with an interval.

    Of those found, the lower end counts the clear ones, and the upper end the suspected ones, too,
    and as many again in proportion who never met what the others lie about. Where none are clear
    there is no upper end but the stated share: a coalition that hides cannot be counted.
    """
    weights = learned.estimates.user_weights
    clear = [lie for lie in lies if lie.is_flagged]
    if not clear:
        stated = learned.unknown_fraction is None
        return Interval(0.0, 0.0, learned.policy.alpha if stated else np.inf)
    removed = float(1.0 - weights.mean())
    has_met = min(float((lie.plays > 0).mean()) for lie in clear)
    most = removed / max(has_met, LEAST_MET) * n_users + _n_suspected(lies)
    high = share_bounds(round(most), n_users)[1]
    low, _ = share_bounds(int((weights < 0.1).sum()), n_users)
    return Interval(removed, min(low, removed), max(removed, min(high, LARGEST_SHARE)))


def _n_suspected(lies: list[_Lie]) -> float:
    return sum(lie.accounts for lie in lies if not lie.is_flagged)


def _lies(log: AuditedLog, learned: Learned, agreement: Agreement) -> list[_Lie]:
    """Return what was lied about, in the order of the model's coalitions."""
    lies = []
    weights = learned.estimates.user_weights
    coded = learned.estimates.evidence["lies"]
    told = learned.policy.source["evidence"]["lies"]
    for lie, codes, odds in zip(told, coded, agreement.by_coalition, strict=True):
        cells = np.array(codes["cells"], dtype=np.int64)
        plays, means = items_leaned_on(log.tallies, cells)
        rest = plays * np.where(odds > 0.0, 0.0, weights)
        items, name = "", QUIET
        if lie["actions"]:
            items = named_briefly(lie["actions"])
            name = f"{'raises' if lie['direction'] == 'up' else 'lowers'} {items}"
        if is_suspected(lie):
            name = f"suspected: {name}"
        lies.append(
            _Lie(
                name=name,
                items=items,
                accounts=lie["accounts"],
                is_flagged=not is_suspected(lie),
                plays=plays,
                means=means,
                mean=float(plays @ means / max(float(plays.sum()), 1.0)),
                usual=float(rest @ means / max(float(rest.sum()), 1e-9)),
            )
        )
    return lies


def _in_words(
    log: AuditedLog,
    lies: list[_Lie],
    weights: FloatArray,
    agreement: Agreement,
    is_fake: BoolArray,
) -> tuple[list[str], list[str]]:
    """Return the group and the reason of each account; empty for accounts without one."""
    n_users = log.events.n_users
    groups, reasons = [""] * n_users, [""] * n_users
    is_out, is_clear = weights < ACCUSED, agreement.is_clear
    clear = np.array([lie.is_flagged for lie in lies], dtype=np.bool_)
    for code in np.flatnonzero(is_out | (agreement.evidence > 0.0)).tolist():
        odds = agreement.by_coalition[:, code]
        # Whoever was taken out belongs to a flagged coalition, everybody else to a suspected one.
        odds = np.where(clear == is_out[code], odds, 0.0)
        best = int(odds.argmax()) if odds.any() else -1
        if best < 0 and is_fake[code]:
            continue
        if best >= 0 or is_out[code]:
            groups[code] = lies[best].name if best >= 0 else QUIET
        if is_out[code] or is_clear[code]:
            reasons[code] = _reason(None if best < 0 else lies[best], code, agreement)
    return groups, reasons


def _reason(lie: _Lie | None, code: int, agreement: Agreement) -> str:
    if lie is not None and lie.plays[code] > 0:
        return (
            f"{lie.plays[code]:,.0f} plays of {lie.items} with mean {lie.means[code]:.3g}, "
            f"others {lie.usual:.3g}"
        )
    return (
        "agrees with others against the rest (p = "
        f"{agreement.p_values[code]:.1g}, adjusted for the number of accounts)"
    )


def _cards(
    log: AuditedLog, lies: list[_Lie], groups: list[str], accounts: Accounts
) -> list[GroupCard]:
    """Return a card for each group, the largest first."""
    names = np.array(groups, dtype=object)
    cards = []
    for name in dict.fromkeys([*(lie.name for lie in lies), QUIET]):
        members = np.asarray(names == name, dtype=np.bool_)
        if not members.any():
            continue
        codes = np.flatnonzero(members)
        order = codes[np.argsort(-accounts.scores[codes], kind="stable")]
        first, last = log.seen_between(members)
        items = _shared_items(log, members)
        lie = next((lie for lie in lies if lie.name == name), None)
        mean = float("nan") if lie is None else _mean_of(lie, members)
        cards.append(
            GroupCard(
                id=accounts.group_ids[name],
                name=name,
                accounts=len(codes),
                statement=_card_statement(len(codes), lie, mean),
                measure="mean reward of the items",
                seen=mean,
                expected=float("nan") if lie is None else lie.usual,
                items=items,
                examples=tuple(accounts.labels[code] for code in order[:MOST_EXAMPLES].tolist()),
                close=float("nan"),
                first_seen=first,
                last_seen=last,
                timeline=log.timeline(members),
            )
        )
    return sorted(cards, key=lambda card: -card.accounts)


def _mean_of(lie: _Lie, members: BoolArray) -> float:
    plays = lie.plays[members]
    return float((plays * lie.means[members]).sum() / max(float(plays.sum()), 1.0))


def _card_statement(n_accounts: int, lie: _Lie | None, mean: float) -> str:
    suffix = "" if lie is None or lie.is_flagged else " This may be chance: they still count."
    if lie is None or not lie.items:
        return (
            f"{n_accounts:,} accounts rate like each other and unlike the rest, over many items "
            f"at once.{suffix}"
        )
    return (
        f"{n_accounts:,} accounts reward {lie.items} with {mean:.3g} on average, others with "
        f"{lie.usual:.3g}.{suffix}"
    )


def _shared_items(log: AuditedLog, members: BoolArray) -> tuple[SharedItem, ...]:
    """Return the items on which members and others differ most."""
    theirs, their_sums, _ = weighted_cells(log.tallies, members.astype(np.float64))
    others, other_sums, _ = weighted_cells(log.tallies, (~members).astype(np.float64))
    seen = (theirs > 0) & (others > 0)
    difference = np.where(
        seen, their_sums / np.maximum(theirs, 1.0) - other_sums / np.maximum(others, 1.0), 0.0
    )
    pull = (difference * theirs).sum(axis=0)
    n_theirs, n_others = theirs.sum(axis=0), others.sum(axis=0)
    order = np.argsort(-np.abs(pull), kind="stable")[:MOST_ITEMS]
    labels = log.events.action_labels
    return tuple(
        SharedItem(
            action=labels[a],
            members=int(members.sum()),
            members_mean=float(their_sums[:, a].sum() / max(n_theirs[a], 1.0)),
            others_mean=float(other_sums[:, a].sum() / max(n_others[a], 1.0)),
        )
        for a in order.tolist()
        if n_theirs[a] > 0
    )


def _withstands(policy: Policy) -> dict[str, float]:
    """Return for each context the certified share of accounts that its decision withstands."""
    flips = policy.flip_fraction
    if flips is None:
        return {}
    order = np.argsort(-policy.context_probabilities, kind="stable")[:MOST_CONTEXTS]
    return {
        str(policy.context_labels[s]): float(flips[s])
        for s in order.tolist()
        if np.isfinite(flips[s])
    }


def _statement(
    lies: list[_Lie],
    n_flagged: int,
    share: Interval,
    n_users: int,
    items: tuple[ItemShift, ...],
    n_changed: int,
    cost: float,
    hidden_from: float | None,
) -> str:
    doubt = "".join(
        f" Suspected: about {lie.accounts:,.0f} accounts "
        + (
            f"that reward {lie.items} with {lie.mean:.3g} on average over all, and "
            f"{lie.usual:.3g} without them"
            if lie.items
            else "that agree with each other against the rest"
        )
        + "; they still count."
        for lie in lies
        if not lie.is_flagged
    )
    if not any(lie.is_flagged for lie in lies):
        unseen = (
            f" One of {hidden_from:.1%} of the accounts or more could be hidden from every method."
            if hidden_from is not None and hidden_from < LARGEST_SHARE
            else ""
        )
        return f"No coalition was found{' for certain' * bool(doubt)}.{doubt}{unseen}"
    what = moved_items(items) or "rate alike, against the rest"
    decisions = f"{n_changed:,} decision{'s' * (n_changed > 1)}"
    loss = (
        f" The naive policy would change {decisions} and cost good users {cost:.4g} a visit."
        if n_changed
        else " No decision of the naive policy is changed by it."
    )
    return (
        f"{n_flagged:,} accounts stand out, and up to {share.high * n_users:,.0f} of "
        f"{n_users:,} may belong to them; they {what}.{loss}{doubt} "
        f"{flagged_by_mistake(FLAGGED_WHERE_SERVERS_CHOSE, n_users - n_flagged)}"
    )


def _limits(learned: Learned) -> tuple[str, ...]:
    unknown = learned.unknown_fraction
    about_share = []
    if unknown is not None:
        about_share.append(
            "Lies in few contexts, and lies that turn only close decisions, may not be seen."
        )
        if unknown.hidden_from is not None and unknown.hidden_from < LARGEST_SHARE:
            about_share.append(
                f"No method can exclude that {unknown.hidden_from:.1%} of the accounts or more "
                "collude and exchange the best action and the next one; a coalition of one half "
                "looks like honest users."
            )
    return (
        *about_share,
        "Not detected one by one: accounts that lie about items that they met once or twice.",
        "Overlap between accounts is no evidence here, because the server chose the actions.",
    )
