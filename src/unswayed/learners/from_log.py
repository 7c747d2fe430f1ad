"""From a log to a policy, on this machine or on a Dask cluster: read, tally, validate, learn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.engine import DaskWorkers
from unswayed.engine.workers import connected, explained_losses
from unswayed.errors import InputError, option
from unswayed.events import Events, Labels, OnBadRows, Provenance, read_events
from unswayed.events.known import KnownAccounts
from unswayed.events.sources import Source
from unswayed.learners.bounded import Reviewed
from unswayed.learners.change_test import Changes, changes_between
from unswayed.learners.design import design_of_log
from unswayed.learners.explaining import (
    NO_WINDOW,
    note_on_cap,
    note_on_forgetting,
    note_on_known,
    note_on_logs,
    note_on_propensities,
    note_on_tastes,
    notes_on_bad_rows,
    notes_on_policy,
    notes_on_summary,
)
from unswayed.learners.features.honest import with_partition
from unswayed.learners.features.shape import learn_shape
from unswayed.learners.learning import learn_policy
from unswayed.learners.options import LearnOptions
from unswayed.learners.reward_range import reward_bound
from unswayed.learners.tastes import check_groups, find_groups, group_decisions, personal_decisions
from unswayed.learners.unknown_fraction import FLOOR
from unswayed.policy import Policy
from unswayed.storage import locked_folder
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.cluster import refuse_query, tally_on_cluster
from unswayed.tallies.log_data import (
    LogData,
    PreparedLog,
    check_dated,
    tallied,
    windows_of,
)
from unswayed.tallies.log_summary import LogSummary, check_learnable, summarise
from unswayed.tallies.store import Index, add_log, load_index, load_tallies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Called with the name of each step as it begins.
Listener = Callable[[str], None]


def tally_log(
    source: Source | None,
    options: LearnOptions,
    *,
    client: Any | None = None,
    with_users: bool = True,
    on_step: Listener,
) -> PreparedLog:
    """Read and tally a log, and add it to the folder of tallies if there is one.

    Parameters
    ----------
    source, options, on_step
        As ``learn_log`` takes them.
    client
        A Dask client whose workers read the files. The caller holds the folder of tallies
        until it has learned: workers read the pieces meanwhile.
    with_users
        Whether a cluster returns the users' labels.
    """
    on_step("reading")
    if client is not None:
        return _read_on_cluster(client, str(source), options, with_users=with_users)
    return _stored(options) if source is None else _read(source, options, on_step)


def _read(source: Source, options: LearnOptions, on_step: Listener) -> PreparedLog:
    """Read and tally a log, and add it to the folder of tallies if there is one."""
    folder, min_propensity = options.tallies, options.min_propensity
    with nullcontext() if folder is None else locked_folder(folder):
        stored = None if folder is None else load_tallies(folder)
        old, index = (None, None) if stored is None else stored
        is_dated = _is_dated(old, options)
        keeps_events = _keeps_events(index, options) or is_dated
        reading = read_events(
            source,
            columns=options.columns,
            query=options.query,
            on_bad_rows=options.on_bad_rows,
            bins=None if index is None else dict(index.bins),
            memory=options.memory,
            is_dated=is_dated,
        )
        events, provenance, shape = reading.events, reading.provenance, None
        if options.features:
            shape = learn_shape(events, reading.attributes, options, on_step=on_step)
            events = shape.in_leaves(events)
        clipped_share = None
        if events.propensities is not None:
            clipped_share = float((events.propensities < min_propensity).mean())
        on_step("tallying")
        data: LogData = events
        if not keeps_events:
            data = tally_events(events, min_propensity=min_propensity)
        del reading, events  # no longer needed, and large
        if folder is not None:
            data, index = add_log(folder, stored, data, provenance.to_json(), provenance.bins)
            del stored, old  # large, too
    log = _tallied(data, options, provenance, clipped_share, index)
    return replace(log, shape=shape)


def _is_dated(stored: LogData | None, options: LearnOptions) -> bool:
    """Whether events need their times; refuse a half-life on a folder that has none."""
    if stored is None:
        return options.half_life is not None
    if options.half_life is not None:
        check_dated(stored, options.tallies)
    return isinstance(stored, Events) and stored.times is not None


def _stored(options: LearnOptions) -> PreparedLog:
    """Return the tallies of a folder, with the provenance of its last log."""
    if options.tallies is None:
        raise InputError(
            f"say what to learn from: a log, or {option('--tallies')} with a folder of tallies."
        )
    with locked_folder(options.tallies, is_reader=True):
        stored = load_tallies(options.tallies)
    if stored is None or not stored[1].logs:
        raise InputError(f"{options.tallies} holds no tallies yet; give a log to add to them.")
    data, index = stored
    _keeps_events(index, options)
    log = _tallied(data, options, Provenance.from_json(index.logs[-1]), None, index)
    return replace(log, is_new=False)


def _tallied(
    data: LogData,
    options: LearnOptions,
    provenance: Provenance,
    clipped_share: float | None,
    index: Index | None,
) -> PreparedLog:
    """Apply the cap and the half-life, and return the tallies."""
    half_life = None if options.half_life is None else float(options.half_life)
    windows = None
    if half_life is not None:
        data = check_dated(data, options.tallies)
        windows = windows_of(data, half_life)
    tallies, dropped = tallied(
        data, options.min_propensity, options.max_interactions_per_user, half_life
    )
    tallies = tallies.in_blocks(data.n_events - dropped.n_events_forgotten)
    return PreparedLog(
        tallies=tallies.uniform(),
        provenance=provenance,
        clipped_share=clipped_share,
        dropped=dropped,
        windows=windows,
        n_logs=None if index is None else len(index.logs),
    )


def _read_on_cluster(
    client: Any, source: str, options: LearnOptions, *, with_users: bool
) -> PreparedLog:
    """Tally a log on the workers of a cluster."""
    folder = options.tallies
    index = None if folder is None else load_index(folder)
    _keeps_events(index, options)  # refuses a cap on a folder of sums before the log is read
    return tally_on_cluster(
        DaskWorkers(client),
        source,
        columns=options.columns,
        on_bad_rows=OnBadRows.parsed(options.on_bad_rows),
        min_propensity=options.min_propensity,
        max_interactions_per_user=options.max_interactions_per_user,
        folder=None if folder is None else Path(folder).absolute(),
        index=index,
        with_users=with_users,
    )


def _keeps_events(index: Index | None, options: LearnOptions) -> bool:
    """Whether events are kept and not summed; refuse a cap on a folder that has sums only."""
    has_cap = options.max_interactions_per_user is not None
    if index is None:
        return has_cap
    if has_cap and not index.keeps_events:
        raise InputError(
            "these tallies hold sums, and a cap on interactions needs the events of a user; give "
            f"{option('--max-interactions-per-user')} from the first log on, in a new folder."
        )
    return index.keeps_events


#: The steps of learning from a log, in order.
STEPS = ("reading", "tallying", "validating", "learning")


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLog:
    """A policy learned from a log, with the summary of the log and notes on both.

    ``user_weights`` and ``interactions`` have one value for each of ``user_labels``.
    """

    policy: Policy
    summary: LogSummary
    provenance: Provenance
    notes: tuple[str, ...]
    user_labels: Labels
    user_weights: FloatArray
    interactions: IntArray

    def __repr__(self) -> str:
        return f"<LearnedLog of {self.summary.n_events:,} events: {self.policy!r}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"{self.policy._repr_html_()}<ul>{notes}</ul>"

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the policy's estimates; see ``Policy.plot``."""
        return self.policy.plot(axes)


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
        Whether to return the users' labels; otherwise ``user_labels`` is empty.

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
    for name in ("half_life", "features", "groups", "personal"):
        if getattr(options, name):
            raise InputError(f"{option('--' + name.replace('_', '-'))} is for {local}.")
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
        with_users = with_users or options.known is not None
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
    reviewed, known = None, options.known
    if isinstance(known, KnownAccounts):
        reviewed = Reviewed.of(known, log.tallies.user_labels)
    learned = learn_policy(
        log.tallies,
        replace(design_of_log(log.tallies, options.design), rewards=stated_rewards),
        alpha=stated,
        method=options.method,
        certify=options.certify,
        reviewed=reviewed,
        times=log.times,
        on_attack=lambda done, total: on_step(f"attacking decision {done + 1:,} of {total:,}"),
    )
    policy, notes = learned.policy, _notes_on_log(log, options)
    if learned.unknown_fraction is not None:
        summary = _checked(log, options, learned.unknown_fraction.chosen)
        notes += (learned.unknown_fraction.statement(),)
    notes += notes_on_summary(summary) + notes_on_policy(policy, policy.source)
    notes += (learned.rewards.note(),)
    if reviewed is not None:
        notes += (note_on_known(int(reviewed.is_fake.sum()), int(reviewed.is_honest.sum())),)
    if log.shape is not None:
        policy, note = with_partition(policy, log, options)
        notes += (note,)
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
        log.tallies.user_labels,
        learned.estimates.user_weights,
        log.tallies.plays_of_users.astype(np.int64),
    )


def _checked(log: PreparedLog, options: LearnOptions, alpha: float) -> LogSummary:
    """Summarise a log; raise if nothing sound can be learned from it."""
    summary = summarise(
        log.tallies,
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
        own = personal_decisions(tallies, policy, tallies.user_labels, alpha=alpha)
        return replace(policy, personal=own.decisions), note_on_tastes(own, tallies.n_users)
    groups = find_groups(tallies, policy, alpha=alpha, n_groups=check_groups(options.groups))
    decisions = group_decisions(groups, tallies, policy, tallies.user_labels, design=options.design)
    return replace(policy, groups=decisions), groups.statement()


def _notes_on_log(log: PreparedLog, options: LearnOptions) -> tuple[str, ...]:
    """Return notes on what was read, and on how the events of a log count."""
    notes = list(notes_on_bad_rows(log.provenance)) if log.is_new else []
    if log.clipped_share is not None:
        notes.append(
            note_on_propensities(log.clipped_share, options.min_propensity, options.method)
        )
    if (cap := options.max_interactions_per_user) is not None:
        notes.append(note_on_cap(cap, log.dropped.n_users_capped, log.dropped.n_events_dropped))
    if log.n_logs is not None and options.tallies is not None:
        notes.append(note_on_logs(log.n_logs, options.tallies))
    if options.half_life is not None:
        notes.append(note_on_forgetting(float(options.half_life), log.dropped.n_events_forgotten))
    return tuple(notes)


def _changes(log: PreparedLog, options: LearnOptions, alpha: float) -> Changes | None:
    """Test for changes between the windows; None without windows."""
    if log.windows is None:
        return None
    before, after = log.windows
    return changes_between(
        before,
        after,
        alpha=alpha,
        design=design_of_log(after, options.design),
    )
