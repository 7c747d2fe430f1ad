"""The whole way from a log to a policy: read, validate, tally, learn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from unswayed.errors import InputError, option
from unswayed.events import Labels, Provenance, read_events
from unswayed.events.sources import Source
from unswayed.learners.design import design_of_log
from unswayed.learners.in_words import notes_on_policy
from unswayed.learners.learning import learn_policy
from unswayed.learners.options import LearnOptions, OptionKeywords
from unswayed.learners.personal import Personal, personal_decisions
from unswayed.learners.unknown_fraction import FLOOR
from unswayed.policy import Policy
from unswayed.storage import locked_folder
from unswayed.tallies import (
    BlockedTallies,
    LabelledTallies,
    Tallies,
    as_blocks,
    row_sums,
    tally_events,
)
from unswayed.tallies.collected import Collected, n_events_of, tallied
from unswayed.tallies.findings import Findings, check_learnable, examine
from unswayed.tallies.store import Index, StoredTallies, first_log, load_tallies, save_tallies

#: Called with the name of each step as it begins.
Listener = Callable[[str], None]

#: The steps of learning from a log, in order.
STEPS = ("reading", "tallying", "validating", "learning")

#: Ours: from this ratio of interactions on, a cap is suggested. The paper takes it to be O(1).
LARGE_RATIO = 20.0


#: What to learn from, the folder it is in if any, what was read, and notes on that.
_Gathered = tuple[Collected, StoredTallies | None, Provenance, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLog:
    """What was learned from a log, what was read, and what the reader should know.

    ``user_weights`` and ``interactions`` have one value for each of ``user_labels``.
    """

    policy: Policy
    findings: Findings
    provenance: Provenance
    notes: tuple[str, ...]
    user_labels: Labels
    user_weights: npt.NDArray[np.float64]
    interactions: npt.NDArray[np.int64]


def learn_log(
    source: Source | None,
    options: LearnOptions | None = None,
    *,
    on_step: Listener = lambda _: None,
    **changes: Unpack[OptionKeywords],
) -> LearnedLog:
    """Learn a policy from a log.

    Parameters
    ----------
    source
        As ``read_events`` takes it. Without a source the policy is learned from ``tallies`` as
        they are.
    options, changes
        How to learn; ``learn_log(log, method="paper")`` is short for
        ``learn_log(log, LearnOptions(method="paper"))``.
    on_step
        Called with each of ``STEPS`` as it begins, and with what is being attacked.

    Notes
    -----
    Guarantee: that of the method. Adding logs one after another gives the same policy, to the last
    bit, as reading them together. A cap needs all events of a user, so a folder that begins with
    one keeps events instead of their sums; the cap may then change from log to log.
    """
    options = (options or LearnOptions()).changed(**changes)
    cap, folder = options.max_interactions_per_user, options.tallies
    on_step("reading")
    if source is None:
        collected, stored, provenance, notes = _stored(folder, cap)
    else:
        collected, stored, provenance, notes = _read(source, options, on_step)
    summed = tallied(collected, options.min_propensity, cap)
    if cap is not None:
        notes += (note_on_cap(cap, summed.n_users_capped, summed.n_events_dropped),)
    if stored is not None and folder is not None:
        notes += (note_on_logs(len(stored.index.logs), folder),)
    labelled = summed.labelled.in_blocks(n_events_of(collected))
    del collected, summed, stored
    learned = learn_tallied(
        labelled.uniform(),
        labelled.context_labels,
        labelled.action_labels,
        options,
        provenance=provenance,
        notes=notes,
        on_step=on_step,
        user_labels=labelled.user_labels,
    )
    return _with_tastes(learned, labelled) if options.personal else learned


def _with_tastes(learned: LearnedLog, labelled: LabelledTallies) -> LearnedLog:
    """Add the decisions of users whose taste differs, and a note on how many there are."""
    found = personal_decisions(
        labelled.tallies,
        learned.policy,
        labelled.user_labels,
        adversarial_fraction=learned.policy.adversarial_fraction,
    )
    notes = (*learned.notes, note_on_tastes(found, labelled.tallies.n_users))
    policy = replace(
        learned.policy,
        personal=found.decisions,
        source={**learned.policy.source, "notes": list(notes)},
    )
    return replace(learned, policy=policy, notes=notes)


def note_on_tastes(found: Personal, n_users: int) -> str:
    """Return a note on the users who differ."""
    return (
        f"{found.n_different:,} of {n_users:,} users differ from the common taste by more than "
        f"chance; {len(found.decisions.user_labels):,} of them get {len(found.decisions.users):,} "
        "decisions of their own."
    )


def learn_tallied(
    tallies: Tallies | BlockedTallies,
    context_labels: Labels,
    action_labels: Labels,
    options: LearnOptions,
    *,
    provenance: Provenance,
    notes: tuple[str, ...],
    on_step: Listener,
    user_labels: Labels,
) -> LearnedLog:
    """Check tallies, reject them if nothing sound can be learned, and learn.

    The second half of ``learn_log``, for tallies that lie anywhere.
    """
    on_step("validating")

    def examined(alpha: float) -> Findings:
        findings = examine(
            tallies,
            context_labels,
            action_labels,
            adversarial_fraction=alpha,
            min_propensity=options.min_propensity,
        )
        check_learnable(findings, alpha=alpha, allow_unplayed=options.allow_unplayed)
        return findings

    stated = options.adversarial_fraction
    # An unknown share is at least the floor; what it turns out to be is held to the same checks.
    findings = examined(FLOOR if stated == "auto" else stated)
    on_step("learning")
    learned = learn_policy(
        tallies,
        design_of_log(tallies, options.design),
        context_labels,
        action_labels,
        adversarial_fraction=stated,
        method=options.method,
        certify=options.certify,
        on_attack=lambda done, total: on_step(f"attacking decision {done + 1:,} of {total:,}"),
    )
    if learned.unknown_fraction is not None:
        findings = examined(learned.unknown_fraction.chosen)
        notes += (learned.unknown_fraction.statement(),)
    notes += notes_on_findings(findings) + notes_on_policy(learned.policy, learned.policy.source)
    policy = replace(
        learned.policy,
        source={
            **learned.policy.source,
            "read": provenance.to_json(),
            "findings": findings.to_json(),
            "notes": list(notes),
        },
    )
    plays = np.concatenate(as_blocks(tallies).blocks.map_blocks(_plays)).astype(np.int64)
    weights = learned.estimates.user_weights
    return LearnedLog(policy, findings, provenance, notes, user_labels, weights, plays)


def _read(source: Source, options: LearnOptions, on_step: Listener) -> _Gathered:
    """Read and tally a log, and add it to the folder of tallies if there is one."""
    folder, min_propensity = options.tallies, options.min_propensity
    with nullcontext() if folder is None else locked_folder(folder):
        stored = None if folder is None else load_tallies(folder)
        index = None if stored is None else stored.index
        keeps_events = keep_events(index, options.max_interactions_per_user)
        reading = read_events(
            source,
            columns=options.columns,
            query=options.query,
            on_bad_rows=options.on_bad_rows,
            bins=None if index is None else dict(index.bins),
            memory=options.memory,
        )
        events, provenance = reading.events, reading.provenance
        notes = notes_on_bad_rows(provenance)
        if events.propensities is not None:
            share = float((events.propensities < min_propensity).mean())
            notes += (note_on_propensities(share, min_propensity),)
        on_step("tallying")
        collected: Collected = events
        if not keeps_events:
            collected = tally_events(events, min_propensity=min_propensity)
        del reading, events  # no longer needed, and large
        if folder is not None:
            stored = _added(stored, collected, provenance)
            save_tallies(folder, stored)
            collected = stored.collected
    return collected, stored, provenance, notes


def _stored(tallies: str | Path | None, max_interactions_per_user: int | None) -> _Gathered:
    """Return the tallies of a folder, and what the last log was that was added to it."""
    if tallies is None:
        raise InputError(
            f"say what to learn from: a log, or {option('--tallies')} with a folder of tallies."
        )
    with locked_folder(tallies, is_reader=True):
        stored = load_tallies(tallies)
    if stored is None or not stored.index.logs:
        raise InputError(f"{tallies} holds no tallies yet; give a log to add to them.")
    keep_events(stored.index, max_interactions_per_user)
    return stored.collected, stored, Provenance.from_json(stored.index.logs[-1]), ()


def _plays(tallies: Tallies) -> Any:
    return row_sums(tallies.indptr, tallies.plays)


def keep_events(index: Index | None, max_interactions_per_user: int | None) -> bool:
    """Whether events are kept and not summed; refuse a cap on a folder that has sums only."""
    if index is None:
        return max_interactions_per_user is not None
    if max_interactions_per_user is not None and not index.keeps_events:
        raise InputError(
            "these tallies hold sums, and a cap on interactions needs the events of a user; give "
            f"{option('--max-interactions-per-user')} from the first log on, in a new folder."
        )
    return index.keeps_events


def _added(
    stored: StoredTallies | None, collected: Collected, provenance: Provenance
) -> StoredTallies:
    source = provenance.to_json()
    if stored is None:
        return first_log(collected, source, provenance.bins)
    return stored.with_log(collected, source, provenance.bins)


def notes_on_bad_rows(provenance: Provenance) -> tuple[str, ...]:
    """Return a note on the rows that were left out, if any were."""
    bad = provenance.bad_rows
    if not bad:
        return ()
    reasons = "; ".join(f"{count:,}: {reason}" for reason, count in bad.items())
    return (f"{sum(bad.values()):,} rows were left out ({reasons}).",)


def note_on_propensities(clipped_share: float, min_propensity: float) -> str:
    """Return a note on how events are weighed."""
    return (
        f"events weigh 1/propensity; {clipped_share:.2%} of the propensities are below "
        f"{min_propensity:g} and count as that."
    )


def note_on_cap(max_interactions: int, n_users_capped: int, n_events_dropped: int) -> str:
    """Return a note on what a cap left out."""
    return (
        f"{n_users_capped:,} users had more than {max_interactions:,} interactions; a "
        f"sample of as many was kept of each, and {n_events_dropped:,} events left out."
    )


def note_on_logs(n_logs: int, folder: str | Path) -> str:
    """Return a note on the logs that were added up."""
    return f"learned from {n_logs} logs in {folder}."


def notes_on_findings(findings: Findings) -> tuple[str, ...]:
    """Return what an operator should know before trusting what is learned."""
    notes = []
    if findings.interaction_ratio > LARGE_RATIO:
        notes.append(
            f"the most active user has {findings.interaction_ratio:,.0f} times the interactions of "
            "the least active; guarantees weaken with that ratio, and a cap on interactions per "
            "user bounds it."
        )
    if not findings.looks_uniform:
        advice = (
            "the propensities do not fit the log; check them"
            if findings.is_weighted
            else "give a propensity column if the log was not explored uniformly"
        )
        notes.append(
            f"actions do not look uniformly explored (p = {findings.uniform_p_value:.1g}); "
            f"{advice}."
        )
    if findings.never_played:
        context, action = findings.never_played[0]
        notes.append(
            f"some actions were never played in some contexts, for instance {action!r} in "
            f"{context!r}; nothing is known of them there."
        )
    if findings.unsupported:
        notes.append(
            "where actions have no support the others are compared rightly, but their means come "
            "out too large, by the factor of all actions over those that could be played."
        )
    if findings.n_rare_contexts:
        examples = ", ".join(map(repr, findings.rarest_contexts))
        notes.append(
            f"{findings.n_rare_contexts:,} contexts ({findings.rare_share:.1%} of the events) are "
            f"too rare for a sound decision, for instance {examples}."
        )
    return tuple(notes)
