"""Audits of logs in which the server chose the actions, based on the learner's coalitions.

The actions that an account was shown carry no information; its rewards do. The score is the
log-likelihood ratio of the rewards under the models of a coalition and of honest users. Its null
distribution is obtained by permuting rewards among accounts that are not flagged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy import special, stats

from unswayed.arrays import BoolArray, FloatArray
from unswayed.audit.log import (
    AuditedLog,
    about,
    flagged_by_mistake,
    mark_reviewed,
    moved_items,
    share_bounds,
)
from unswayed.audit.results import (
    FLAGGED_WHERE_SERVERS_CHOSE,
    Accounts,
    Audit,
    GroupCard,
    Interval,
    named_briefly,
)
from unswayed.learners.bounded import Reviewed
from unswayed.learners.bounded.method import CLEAR, Model
from unswayed.learners.bounded.rewards import SAMPLE_ENTRIES, sampled_users
from unswayed.learners.design import design_of_log
from unswayed.learners.estimates import Estimates
from unswayed.learners.explaining import is_suspected, notes_on_policy, plain_actions
from unswayed.learners.learning import Learned, learn_policy
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.learners.unknown_fraction import Auto
from unswayed.randomness import generator
from unswayed.tallies import Tallies, UserTallies, entry_users
from unswayed.visible import counted, number

ACCUSED = 0.5
"""Accounts that keep less than this weight are flagged."""

LEAST_MET = 0.2
"""Ours: the share of accounts that played a target is taken to be at least this."""

LEAST_NULLS = 20_000
"""Ours: minimum number of accounts with permuted rewards for the computation of p-values."""

FALSE_DISCOVERIES = 0.01
"""Ours: false discovery rate at which accounts that are not flagged get a reason."""

QUIET = "quiet coalition"

EACH = 1.0
"""Ours: nats per member from which a coalition is flagged although no decision depends on it. None
of 49 clean logs has such a coalition (``worlds.production``, ``worlds.wild``, part
``validation``)."""

NAMED = 0.5
"""Ours: nats per member from which the members of a coalition that lies about several actions are
flagged one by one. In large logs, groups with a shared taste have .11 to .35, coalitions .52 and
more (``worlds.production``, part ``development``)."""

NEARLY_NONE = 0.005
"""Ours: share of the accounts that statements call very few."""

LARGEST_SHARE = 0.5
"""Upper bound on the colluders' share: a majority of them looks like honest users."""


class Agreement(NamedTuple):
    """Evidence against every account."""

    evidence: FloatArray  # shape (n_users,), largest log-odds of membership, at least 0
    by_coalition: FloatArray  # shape (n_coalitions, n_users), log-odds in the order of the lies
    # Shape (n_users,): shares of accounts with permuted rewards and at least as much evidence,
    # adjusted for multiple tests (Benjamini and Hochberg).
    p_values: FloatArray


def find_agreement(
    tallies: UserTallies, estimates: Estimates, *, rng: np.random.Generator
) -> Agreement:
    """Score every account by the coalition model in the learner's ``estimates``."""
    model: Model = estimates.model
    by_coalition = np.concatenate(tallies.blocks.map_blocks(_evidence, model), axis=1)
    evidence = by_coalition.max(axis=0, initial=0.0)
    if not model.coalitions:
        return Agreement(evidence, by_coalition, np.ones(len(evidence)))
    sample, chosen = sampled_users(tallies, rng, SAMPLE_ENTRIES)
    is_donor = estimates.user_weights[chosen] >= ACCUSED
    n_deals = -(-LEAST_NULLS // max(sample.n_users, 1))
    nulls = np.sort(
        np.concatenate([model.evidence(_dealt(sample, is_donor, rng)) for _ in range(n_deals)])
    )
    above = len(nulls) - np.searchsorted(nulls, evidence, side="left")
    chances = (above.astype(np.float64) + 1.0) / (len(nulls) + 1.0)
    return Agreement(evidence, by_coalition, stats.false_discovery_control(chances))


def _evidence(tallies: Tallies, model: Model) -> FloatArray:
    found = [replace(model, coalitions=[one]).evidence(tallies) for one in model.coalitions]
    return np.array(found).reshape(len(found), tallies.n_users)


def _dealt(sample: Tallies, is_donor: BoolArray, rng: np.random.Generator) -> Tallies:
    """Replace each entry by that of a random donor with as many plays of the same cell, if any."""
    plays = np.rint(sample.plays).astype(np.int64)
    most = int(plays.max(initial=0)) + 1
    kinds = np.unique(sample.cells * most + plays, return_inverse=True)[1]
    gives = np.flatnonzero(is_donor[entry_users(sample.indptr)])
    gives = gives[np.argsort(kinds[gives], kind="stable")]
    starts = np.searchsorted(kinds[gives], np.arange(int(kinds.max(initial=-1)) + 2))
    sizes = np.diff(starts)[kinds]
    drawn = starts[kinds] + (rng.random(len(kinds)) * sizes).astype(np.int64)
    own = np.arange(len(kinds))
    source = np.where(sizes > 0, gives[np.minimum(drawn, max(len(gives) - 1, 0))], own)
    return sample.with_sums(sample.counts[source], sample.sums[source], sample.squares[source])


class _Lie(NamedTuple):
    """What a coalition lies about, and whether it and its members are flagged.

    The learner only suspects a coalition that no decision depends on; an audit flags it if the
    evidence is clear. A coalition can be flagged although the evidence against each of its members
    is weak; then no account is flagged.
    """

    name: str
    items: str
    accounts: float
    is_flagged: bool
    is_named: bool  # whether members are flagged one by one
    plays: FloatArray  # shape (n_users,), plays of these items
    means: FloatArray  # shape (n_users,), mean rewards for them
    mean: float  # mean over all accounts
    usual: float  # mean without members


def audit_server(
    log: AuditedLog, is_fake: BoolArray, is_cleared: BoolArray, *, stated: float | Auto
) -> Audit:
    """Audit a log in which the server chose the actions.

    The share ``stated`` is the upper end of the interval if nothing is found; the search does not
    depend on it.
    """
    events, tallies = log.events, log.tallies
    # An account reviewed as honest can still be flagged for its later events.
    is_honest = np.bincount(events.users[~is_cleared], minlength=events.n_users) == 0
    reviewed = Reviewed(is_fake, is_honest)
    learned = learn_policy(
        tallies,
        design_of_log(tallies, "auto"),
        alpha="auto",
        method=DEFAULT_METHOD,
        reviewed=reviewed if (is_fake | is_honest).any() else None,
    )
    policy, weights = learned.policy, learned.estimates.user_weights
    agreement = find_agreement(tallies, learned.estimates, rng=generator(0, "audit"))
    lies = _lies(log, learned, agreement, reviewed)
    told = policy.source["evidence"]["lies"]
    is_named = is_fake.copy()
    for lie, said, odds in zip(lies, told, agreement.by_coalition, strict=True):
        is_member = (odds > 0.0) & ~is_honest
        if lie.is_flagged and is_suspected(said):
            weights = np.where(is_member, np.minimum(weights, special.expit(-odds)), weights)
        if lie.is_named:
            is_named |= is_member
    kept = weights
    if any(lie.is_flagged and not lie.is_named for lie in lies):
        kept = np.where(is_named, weights, np.maximum(weights, ACCUSED))
    groups, reasons = _in_words(lies, kept, agreement, is_fake)
    mark_reviewed(reasons, is_fake, events.users[is_cleared].astype(np.int64))
    accounts = log.accounts(kept, agreement.evidence, groups, reasons, agreement.p_values)
    means = np.where(policy.is_learned[:, None], policy.mean_rewards, np.nan)
    changed = log.changed_decisions(
        plain_actions(tallies), policy.actions, means, policy.context_probabilities
    )
    shifts, share = log.item_shifts(weights), _share(lies, weights, stated)
    return log.audit(
        accounts,
        items=shifts,
        changed=changed,
        alpha=policy.alpha if stated == "auto" else stated,
        is_attacked=any(lie.is_flagged for lie in lies),
        is_suspected=any(not lie.is_flagged for lie in lies),
        statement=_statement(learned, lies, share, kept, moved_items(shifts), changed),
        share=share,
        groups=tuple(_cards(log, lies, accounts)),
        rates={
            "threshold": "a weight below one half",
            "realised": FLAGGED_WHERE_SERVERS_CHOSE,
            "measured_on": "attacked logs with known colluders (python benchmarks/audit.py --part "
            "validation --every 1 --kinds production)",
        },
        limits=(
            "Lies in few contexts, or that change only close decisions, may be missed.",
            *filter(None, [_hidden(learned)]),
            "Not detected one by one: accounts that lie about items that they met once or twice.",
            "Overlap between accounts is no evidence here, because the server chose the actions.",
        ),
        notes=(*log.notes, *notes_on_policy(policy, policy.source)),
    )


def _share(lies: list[_Lie], weights: FloatArray, stated: float | Auto) -> Interval:
    """Return an estimate of the share of colluding accounts, with an interval.

    The lower end counts accounts with a weight below .1. The upper end includes suspected accounts
    and an estimate of the members who never played the target. If no coalition was found, the upper
    end is the assumed share, if any, because hidden accounts cannot be counted.
    """
    n_users, clear = len(weights), [lie for lie in lies if lie.is_flagged]
    if not clear:
        return Interval(0.0, 0.0, np.inf if stated == "auto" else stated)
    removed = float(1.0 - weights.mean())
    has_met = min(float((lie.plays > 0).mean()) for lie in clear)
    estimated = sum(lie.accounts for lie in clear)
    most = max(removed / max(has_met, LEAST_MET) * n_users, estimated)
    most += sum(lie.accounts for lie in lies if not lie.is_flagged)
    high = share_bounds(round(most), n_users)[1]
    low, _ = share_bounds(int((weights < 0.1).sum()), n_users)
    return Interval(removed, min(low, removed), max(removed, min(high, LARGEST_SHARE)))


def _lies(
    log: AuditedLog, learned: Learned, agreement: Agreement, reviewed: Reviewed
) -> list[_Lie]:
    """Return the lies of the coalitions, in the order of the model."""
    lies = []
    weights = learned.estimates.user_weights
    coded = learned.estimates.evidence["lies"]
    told = learned.policy.source["evidence"]["lies"]
    for lie, codes, odds in zip(told, coded, agreement.by_coalition, strict=True):
        rows = np.isin(log.cells, codes["cells"])
        users, rewards = log.events.users[rows], log.events.rewards[rows]
        plays = np.bincount(users, minlength=len(weights)).astype(np.float64)
        means = np.bincount(users, rewards, len(weights)) / np.maximum(plays, 1.0)
        rest = plays * np.where(odds > 0.0, 0.0, weights)
        items, name = "", QUIET
        if lie["actions"]:
            items = named_briefly(lie["actions"])
            name = f"{'raises' if lie['direction'] == 'up' else 'lowers'} {items}"
        mean = float(plays @ means / max(float(plays.sum()), 1.0))
        usual = float(rest @ means / max(float(rest.sum()), 1e-9))
        n, nats = lie["accounts"], lie["nats"]
        is_flagged = not is_suspected(lie) or nats >= max(CLEAR, EACH * n)
        verdict = reviewed.verdict(special.expit(odds))
        stands_out = len(lie["actions"]) == 1 or nats >= NAMED * n or verdict == "fake"
        is_named = is_flagged and stands_out
        name = name if is_flagged else f"suspected: {name}"
        lies.append(_Lie(name, items, n, is_flagged, is_named, plays, means, mean, usual))
    return lies


def _in_words(
    lies: list[_Lie], weights: FloatArray, agreement: Agreement, is_fake: BoolArray
) -> tuple[list[str], list[str]]:
    """Return each account's group and the reason for it, as texts that may be empty."""
    groups, reasons = [""] * len(weights), [""] * len(weights)
    is_out, is_clear = weights < ACCUSED, agreement.p_values <= FALSE_DISCOVERIES
    clear = np.array([lie.is_named for lie in lies], dtype=np.bool_)
    for code in np.flatnonzero(is_out | (agreement.evidence > 0.0)).tolist():
        odds = agreement.by_coalition[:, code]
        # Flagged accounts can belong only to coalitions whose members are flagged, other accounts
        # only to the others.
        odds = np.where(clear == is_out[code], odds, 0.0)
        best = int(odds.argmax()) if odds.any() else -1
        if best < 0 and is_fake[code]:
            continue
        if best >= 0 or is_out[code]:
            groups[code] = lies[best].name if best >= 0 else QUIET
        if is_out[code] or is_clear[code]:
            reasons[code] = (
                "agrees with others against the rest (p = "
                f"{agreement.p_values[code]:.1g}, adjusted for the number of accounts)"
            )
            if best >= 0 and (plays := lies[best].plays[code]) > 0:
                reasons[code] = (
                    f"{plays:,.0f} plays of {lies[best].items} with mean "
                    f"{lies[best].means[code]:.3g}, others {lies[best].usual:.3g}"
                )
    return groups, reasons


def _cards(log: AuditedLog, lies: list[_Lie], accounts: Accounts) -> list[GroupCard]:
    """Return a card for each group, the largest first."""
    names = np.array(accounts.groups, dtype=object)
    by_name = {QUIET: None} | {lie.name: lie for lie in reversed(lies)}
    cards = []
    for name in dict.fromkeys([*(lie.name for lie in lies), QUIET]):
        members, lie = np.asarray(names == name, dtype=np.bool_), by_name[name]
        if not members.any():
            continue
        mean = usual = float("nan")
        what = "rate like each other and unlike the rest, over many items at once."
        if lie is not None:
            plays, usual = lie.plays[members], lie.usual
            mean = float((plays * lie.means[members]).sum() / max(float(plays.sum()), 1.0))
            if lie.items:
                what = f"reward {lie.items} with {mean:.3g} on average, others with {usual:.3g}."
            if not lie.is_flagged:
                what += " They are only suspected and still count."
            elif not lie.is_named:
                what += " They are learned without, but no single account stands out."
        cards.append(
            log.card(
                name,
                members,
                accounts,
                statement=f"{counted(int(members.sum()), 'account')} {what}",
                measure="mean reward of the items",
                seen=mean,
                expected=usual,
            )
        )
    return sorted(cards, key=lambda card: -card.accounts)


def _statement(
    learned: Learned,
    lies: list[_Lie],
    share: Interval,
    weights: FloatArray,
    moved: str,
    changed: pa.Table,
) -> str:
    doubt = ""
    for lie in lies:
        if not lie.is_flagged:
            what = " that agree with each other against the rest"
            if lie.items:
                means = f"{lie.usual:.3g} instead of {lie.mean:.3g}"
                what = f", without which the mean of {lie.items} is {means}"
            doubt += (
                f" Suspected: about {counted(lie.accounts, 'account')}{what}; they still count."
            )
    if not any(lie.is_flagged for lie in lies):
        certain = " for certain" if doubt else ""
        return f"No coalition was found{certain}.{doubt} {_hidden(learned)}".rstrip()
    what = moved or "rate alike, against the rest"
    loss = " Plain means would choose the same actions."
    if len(changed):
        cost = number(float(np.dot(changed["cost"], changed["share"])))
        decisions = counted(len(changed), "decision")
        loss = f" Plain means would change {decisions} and cost honest users {cost} per visit."
    is_out = weights < ACCUSED
    n_users, n_flagged = len(weights), int(is_out.sum())
    who, mistakes = "no single account stands out", ""
    if n_flagged:
        who = f"{counted(n_flagged, 'account')} stand out"
        mistakes = (
            f" By their weights {about(float(weights[is_out].sum()))} of the flagged ones are "
            f"honest. {flagged_by_mistake(FLAGGED_WHERE_SERVERS_CHOSE, n_users, n_flagged)}"
        )
    return (
        f"A coalition was found: {who}, and up to {share.high * n_users:,.0f} of {n_users:,} may "
        f"belong to it; they {what}.{loss}{doubt}{mistakes}"
    )


def _hidden(learned: Learned) -> str:
    """Return a sentence on the share of accounts that no method can detect; empty if unknown."""
    unknown = learned.unknown_fraction
    share = None if unknown is None else unknown.hidden_from
    if share is None or share >= LARGEST_SHARE:
        return ""
    if share < NEARLY_NONE:
        return (
            "In most contexts the two best actions are so close that very few colluding accounts "
            "could swap them without being detected."
        )
    return (
        f"No method can exclude that {share:.1%} of the accounts or more collude and swap the two "
        "best actions."
    )
