"""From a log to a policy, on this machine or on a Dask cluster: read, tally, validate, learn."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.engine.workers import connected, explained_losses
from unswayed.errors import InputError, option
from unswayed.events import Labels, Provenance
from unswayed.events.sources import Source
from unswayed.learners.change_test import Changes, changes_between
from unswayed.learners.design import design_of_log
from unswayed.learners.explaining import (
    NO_WINDOW,
    note_on_cap,
    note_on_forgetting,
    note_on_logs,
    note_on_propensities,
    note_on_tastes,
    notes_on_bad_rows,
    notes_on_policy,
    notes_on_summary,
)
from unswayed.learners.groups import check_groups, find_groups, group_decisions
from unswayed.learners.learning import learn_policy
from unswayed.learners.log_reading import Listener, tally_log
from unswayed.learners.options import LearnOptions
from unswayed.learners.personal import personal_decisions
from unswayed.learners.reward_range import reward_bound
from unswayed.learners.unknown_fraction import FLOOR
from unswayed.policy import Policy
from unswayed.storage import locked_folder
from unswayed.tallies import Tallies
from unswayed.tallies.cluster import refuse_query
from unswayed.tallies.log_data import PreparedLog
from unswayed.tallies.log_summary import LogSummary, check_learnable, summarise

#: The steps of learning from a log, in order.
STEPS = ("reading", "tallying", "validating", "learning")


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLog:
    """What was learned from a log, what was read, and what the reader should know.

    ``user_weights`` and ``interactions`` have one value for each of ``user_labels``.
    """

    policy: Policy
    summary: LogSummary
    provenance: Provenance
    notes: tuple[str, ...]
    user_labels: Labels
    user_weights: FloatArray
    interactions: IntArray


def learn_log(
    source: Source | None,
    options: LearnOptions | None = None,
    *,
    on_step: Listener = lambda _: None,
    **changes: Any,
) -> LearnedLog:
    """Learn a policy from a log.

    Parameters
    ----------
    source
        As ``read_events`` takes it. Without a source the policy is learned from ``tallies`` as
        they are.
    options, changes
        How to learn. Fields of ``LearnOptions`` and of ``Columns`` may be given as keywords:
        ``learn_log(log, alpha=0.2, user="account_id", context=["country", "device"])``.
    on_step
        Called with each of ``STEPS`` as it begins, and with what is being attacked.

    Notes
    -----
    Guarantee: that of the method. Adding logs one after another gives the same policy, to the last
    bit, as reading them together. A cap needs all events of a user, and a half-life their times, so
    a folder that begins with one keeps events instead of their sums; both may then change from log
    to log.
    """
    options = (options or LearnOptions()).changed(**changes)
    return _learn(tally_log(source, options, on_step=on_step), options, on_step)


def learn_on_cluster(
    source: str,
    options: LearnOptions | None = None,
    *,
    scheduler: str | None = None,
    client: Any | None = None,
    with_users: bool = False,
    on_step: Listener = lambda _: None,
    **changes: Any,
) -> LearnedLog:
    """Learn a policy from files that the workers of a cluster can open.

    Parameters
    ----------
    source
        A path, folder, pattern or address that every worker can open.
    options, changes, on_step
        As ``learn_log`` takes them.
    scheduler
        Address of a Dask scheduler, or None to start workers on this machine.
    client
        A Dask client to use instead.
    with_users
        Whether to bring the users' labels here; without, ``user_labels`` is empty.

    Notes
    -----
    Guarantee: that of the method; the policy is that of ``learn_log`` on the same files, bit for
    bit, whatever workers are lost on the way.
    """
    options = (options or LearnOptions()).changed(**changes)
    if options.query is not None:
        refuse_query()
    local = option("--engine", "local", python="learn_log")
    if options.memory is not None:
        raise InputError(
            f"{option('--memory')} is for {local}; a Dask worker has a limit of its own."
        )
    if options.half_life is not None:
        raise InputError(f"{option('--half-life')} is for {local}.")
    if options.groups is not None:
        raise InputError(f"{option('--groups')} is for {local}.")
    if options.personal:
        raise InputError(f"{option('--personal')} is for {local}.")
    if options.certify == "attack":
        raise InputError(
            f"attacks need all tallies in one place: use {local}, or "
            f"{option('--certify', 'bounds')}."
        )
    with ExitStack() as held:
        held.enter_context(explained_losses(scheduler))
        if options.tallies is not None:  # to the end: workers read the pieces while they learn
            held.enter_context(locked_folder(options.tallies))
        if client is None:
            client = held.enter_context(connected(scheduler))
        log = tally_log(source, options, client=client, with_users=with_users, on_step=on_step)
        return _learn(log, options, on_step)


def _learn(log: PreparedLog, options: LearnOptions, on_step: Listener) -> LearnedLog:
    """Check a log, reject it if nothing sound can be learned, and learn."""
    on_step("validating")
    stated = options.alpha
    # An unknown share is at least the floor; what it turns out to be is held to the same checks.
    summary = _checked(log, options, FLOOR if stated == "auto" else stated)
    on_step("learning")
    stated_rewards = reward_bound(options.reward_range, options.reward_deviation)
    learned = learn_policy(
        log.tallies,
        replace(design_of_log(log.tallies, options.design), rewards=stated_rewards),
        log.context_labels,
        log.action_labels,
        alpha=stated,
        method=options.method,
        certify=options.certify,
        on_attack=lambda done, total: on_step(f"attacking decision {done + 1:,} of {total:,}"),
    )
    policy, notes = learned.policy, _notes_on_log(log, options)
    if learned.unknown_fraction is not None:
        summary = _checked(log, options, learned.unknown_fraction.chosen)
        notes += (learned.unknown_fraction.statement(),)
    notes += notes_on_summary(summary) + notes_on_policy(policy, policy.source)
    notes += (learned.rewards.note(),)
    if options.groups is not None or options.personal:
        policy, note = _with_own_decisions(policy, log, options)
        notes += (note,)
    source = dict(policy.source)
    if options.half_life is not None:
        changes = _changes(log, options, policy.alpha)
        notes += (NO_WINDOW if changes is None else changes.statement(),)
        if changes is not None:
            source["changes"] = changes.to_json()
    source |= {
        "read": log.provenance.to_json(),
        "findings": summary.to_json(),
        "notes": list(notes),
    }
    return LearnedLog(
        replace(policy, source=source),
        summary,
        log.provenance,
        notes,
        log.user_labels,
        learned.estimates.user_weights,
        log.tallies.plays_of_users.astype(np.int64),
    )


def _checked(log: PreparedLog, options: LearnOptions, alpha: float) -> LogSummary:
    """Return what a log looks like, unless nothing sound can be learned from it."""
    summary = summarise(
        log.tallies,
        log.context_labels,
        log.action_labels,
        alpha=alpha,
        min_propensity=options.min_propensity,
    )
    check_learnable(summary, alpha=alpha, allow_unplayed=options.allow_unplayed)
    return summary


def _with_own_decisions(
    policy: Policy, log: PreparedLog, options: LearnOptions
) -> tuple[Policy, str]:
    """Return the policy with decisions of groups or of single users, and a note on them."""
    tallies, alpha = log.tallies, policy.alpha
    assert isinstance(tallies, Tallies)  # a cluster refuses both options
    if options.groups is None:
        own = personal_decisions(tallies, policy, log.user_labels, alpha=alpha)
        return replace(policy, personal=own.decisions), note_on_tastes(own, tallies.n_users)
    groups = find_groups(tallies, policy, alpha=alpha, n_groups=check_groups(options.groups))
    decisions = group_decisions(groups, tallies, policy, log.user_labels, design=options.design)
    return replace(policy, groups=decisions), groups.statement()


def _notes_on_log(log: PreparedLog, options: LearnOptions) -> tuple[str, ...]:
    """Return notes on what was read, and on how the events of a log count."""
    notes = list(notes_on_bad_rows(log.provenance)) if log.is_new else []
    if log.clipped_share is not None:
        notes.append(note_on_propensities(log.clipped_share, options.min_propensity))
    if (cap := options.max_interactions_per_user) is not None:
        notes.append(note_on_cap(cap, log.dropped.n_users_capped, log.dropped.n_events_dropped))
    if log.n_logs is not None and options.tallies is not None:
        notes.append(note_on_logs(log.n_logs, options.tallies))
    if options.half_life is not None:
        notes.append(note_on_forgetting(float(options.half_life), log.dropped.n_events_forgotten))
    return tuple(notes)


def _changes(log: PreparedLog, options: LearnOptions, alpha: float) -> Changes | None:
    """Return what a test for change finds, or None if there is nothing to compare with."""
    if log.windows is None:
        return None
    before, after = log.windows
    return changes_between(
        before,
        after,
        alpha=alpha,
        design=design_of_log(after.tallies, options.design),
    )
