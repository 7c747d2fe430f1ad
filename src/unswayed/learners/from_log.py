"""From a log to a policy, on this machine or on a Dask cluster: read, tally, validate, learn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.engine import DaskWorkers, Workers
from unswayed.engine.workers import connected, explained_losses
from unswayed.errors import InputError, option
from unswayed.events import Labels, Provenance, Reading, read_events
from unswayed.events.known import KnownAccounts
from unswayed.events.sources import Source
from unswayed.learners.bounded import Reviewed
from unswayed.learners.change_test import changes_between
from unswayed.learners.design import design_of_log
from unswayed.learners.explaining import notes_on_log, notes_on_policy, notes_on_summary
from unswayed.learners.features.shape import (
    Shape,
    in_leaves_of,
    learn_shape,
    stored_shape,
    with_partition,
)
from unswayed.learners.learning import learn_policy
from unswayed.learners.options import LearnOptions
from unswayed.learners.unknown_fraction import FLOOR
from unswayed.policy import Policy
from unswayed.storage import locked_folder
from unswayed.tallies import Tallies
from unswayed.tallies.cluster import tally_on_cluster
from unswayed.tallies.log_data import PreparedLog, prepared
from unswayed.tallies.log_summary import LogSummary, check_learnable, summarise
from unswayed.tallies.store import Stored, add_log, load_tallies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_WINDOW = "all events are of the last half-life, so there is nothing to compare them with."
Listener = Callable[[str], None]  # called with the name of each step as it begins


def read_log(
    source: Source, options: LearnOptions, shape: Shape | None, on_step: Listener = lambda _: None
) -> tuple[Reading, Shape | None]:
    """Read a log; with features, assign its events to the given leaves or learn leaves from them.

    Rows without a leaf are dropped.
    """
    reading = read_events(
        source,
        columns=options.columns,
        query=options.query,
        on_bad_rows=options.on_bad_rows,
        is_dated=options.half_life is not None,
    )
    if options.features:
        if shape is None:
            shape = learn_shape(reading.events, reading.attributes, options, on_step=on_step)
        reading = reading.placed(partial(in_leaves_of, shape.partition, is_learned_from=True))
    return reading, shape


def _read(source: Source, options: LearnOptions, on_step: Listener) -> PreparedLog:
    """Read and tally a log, and add it to the folder of tallies if there is one."""
    half_life = None if options.half_life is None else float(options.half_life)
    folder = options.tallies
    with nullcontext() if folder is None else locked_folder(folder):
        stored = None if folder is None else load_tallies(folder)
        shape = _fixed_shape(stored, options)
        if stored is not None:
            options = replace(options, columns=stored.with_bins(options.columns))
        reading, shape = read_log(source, options, shape, on_step)
        on_step("tallying")
        log = prepared(
            reading,
            min_propensity=options.min_propensity,
            max_interactions_per_user=options.max_interactions_per_user,
            half_life=half_life,
        )
        del reading  # no longer needed, and large
        tallies, n_logs, n_events = log.tallies, None, log.provenance.n_events
        assert isinstance(tallies, Tallies)
        if folder is not None:
            partition = None if shape is None else shape.partition.to_json()
            stored = add_log(folder, stored, tallies, log.provenance.to_json(), partition)
            tallies, n_logs = stored.tallies, len(stored.logs)
            n_events = tallies.n_events
    tallies = tallies.in_blocks(n_events - log.n_events_forgotten).uniform()
    return replace(log, tallies=tallies, n_logs=n_logs, shape=shape)


def _fixed_shape(
    stored: Stored | None, options: LearnOptions, *, has_log: bool = True
) -> Shape | None:
    """Return the given shape or that of the folder, or None if it has yet to be learned."""
    if stored is not None and stored.logs:
        return stored_shape(stored.partition, options.tallies, options, has_log=has_log)
    return None if options.partition is None else Shape(options.partition, "learned before")


def _stored(options: LearnOptions) -> PreparedLog:
    """Return the tallies of a folder, with the provenance of its last log."""
    if options.tallies is None:
        raise InputError(
            f"nothing to learn from: give a log, or {option('--tallies')} with a folder of tallies."
        )
    with locked_folder(options.tallies, is_reader=True):
        stored = load_tallies(options.tallies)
    if stored is None or not stored.logs:
        raise InputError(f"{options.tallies} holds no tallies yet; give a log to add to them.")
    return PreparedLog(
        tallies=stored.tallies.in_blocks().uniform(),
        provenance=Provenance.from_json(stored.logs[-1]),
        n_logs=len(stored.logs),
        is_new=False,
        shape=_fixed_shape(stored, options, has_log=False),
    )


def _read_on_cluster(
    workers: Workers, source: str, options: LearnOptions, on_step: Listener, *, with_users: bool
) -> PreparedLog:
    """Tally a log on the workers of a cluster."""
    shape, place = _fixed_shape(None, options), None
    if options.features and shape is None:  # partitions are learned on the driver
        _, shape = read_log(source, options, None, on_step)
    if shape is not None:
        place = partial(in_leaves_of, shape.partition, is_learned_from=True)
    log = tally_on_cluster(
        workers,
        source,
        columns=options.columns,
        on_bad_rows=options.on_bad_rows,
        min_propensity=options.min_propensity,
        with_users=with_users,
        place=place,
    )
    return replace(log, shape=shape)


STEPS = ("reading", "tallying", "validating", "learning")  # steps of learning from a log, in order

#: Options that a cluster rejects, because they need all events or all tallies in one place.
LOCAL_ONLY = ("query", "tallies", "max_interactions_per_user", "half_life", "honest")


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
        Called with each of ``STEPS`` as it begins.

    Notes
    -----
    Guarantee: that of the method. Adding logs one after another gives the same policy, to the last
    bit, as reading them together.
    """
    options = (options or LearnOptions()).changed(**changes)
    on_step("reading")
    log = _stored(options) if source is None else _read(source, options, on_step)
    return _learn(log, options, on_step)


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
    scheduler, client
        Address of a Dask scheduler, or a Dask client; without either, workers start here.
    with_users
        Whether to return the users' labels; otherwise ``user_labels`` is empty.

    Notes
    -----
    Guarantee: that of the method; the policy equals that of ``learn_log`` on the same files, bit
    for bit, even if workers are lost.
    """
    options = (options or LearnOptions()).changed(**changes)
    local = option("--engine", "local", python="learn_log")
    for name in LOCAL_ONLY:
        if getattr(options, name):
            raise InputError(f"{option('--' + name.replace('_', '-'))} works only with {local}.")
    with ExitStack() as held:
        held.enter_context(explained_losses(scheduler))
        if client is None:
            client = held.enter_context(connected(scheduler))
        on_step("reading")
        with_users = with_users or options.known is not None
        log = _read_on_cluster(DaskWorkers(client), source, options, on_step, with_users=with_users)
        return _learn(log, options, on_step)


def _learn(log: PreparedLog, options: LearnOptions, on_step: Listener) -> LearnedLog:
    """Check a log, reject it if nothing reliable can be learned, and learn."""
    on_step("validating")
    stated = options.alpha
    # With "auto", check the log with the smallest estimate first, and with the estimate later.
    summary = _checked(log, options, FLOOR if stated == "auto" else stated)
    on_step("learning")
    reviewed, known = None, options.known
    if isinstance(known, KnownAccounts):
        reviewed = Reviewed.of(known, log.tallies.user_labels)
    learned = learn_policy(
        log.tallies,
        replace(design_of_log(log.tallies, options.design), rewards=options.rewards),
        alpha=stated,
        method=options.method,
        reviewed=reviewed,
        times=log.times,
    )
    policy, notes = learned.policy, notes_on_log(log, options)
    if learned.unknown_fraction is not None:
        summary = _checked(log, options, learned.unknown_fraction.chosen)
        notes += (learned.unknown_fraction.statement(),)
    notes += notes_on_summary(summary) + notes_on_policy(policy, policy.source)
    notes += (learned.rewards.note(),)
    if reviewed is not None:
        notes += (
            f"Reviewed accounts in this log: {reviewed.is_fake.sum():,} fake, which do not count, "
            f"and {reviewed.is_honest.sum():,} honest, which are never flagged.",
        )
    if log.shape is not None:
        policy, note = with_partition(policy, log, options)
        notes += (note,)
    source = dict(policy.source)
    if log.windows is not None:
        design = design_of_log(log.windows[1], options.design)
        changes = changes_between(*log.windows, alpha=policy.alpha, design=design)
        source["changes"] = changes.to_json()
        notes += (changes.statement(),)
    elif options.half_life is not None:
        notes += (NO_WINDOW,)
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
    """Summarise a log; raise if nothing reliable can be learned from it."""
    summary = summarise(log.tallies, alpha=alpha, min_propensity=options.min_propensity)
    check_learnable(summary, alpha=alpha, allow_unplayed=options.allow_unplayed)
    return summary
