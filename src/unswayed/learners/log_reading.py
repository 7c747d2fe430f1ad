"""From a log to its tallies: read here, read where the workers of a cluster are, or stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from unswayed.engine import DaskWorkers
from unswayed.errors import InputError, option
from unswayed.events import Events, OnBadRows, Provenance, read_events
from unswayed.events.sources import Source
from unswayed.learners.options import LearnOptions
from unswayed.storage import locked_folder
from unswayed.tallies import tally_events
from unswayed.tallies.cluster import tally_on_cluster
from unswayed.tallies.log_data import (
    LogData,
    PreparedLog,
    check_dated,
    n_events_of,
    tallied,
    windows_of,
)
from unswayed.tallies.store import Index, first_log, load_index, load_tallies, save_tallies

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
    """Return a log as it is learned from, added to the folder of tallies if there is one.

    Parameters
    ----------
    source, options, on_step
        As ``learn_log`` takes them.
    client
        A Dask client, to read files where its workers are. The caller holds the folder of tallies
        until it has learned: workers read the pieces meanwhile.
    with_users
        Whether to bring the users' labels here from a cluster.
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
        index = None if stored is None else stored.index
        is_dated = _is_dated(None if stored is None else stored.data, options)
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
        events, provenance = reading.events, reading.provenance
        clipped_share = None
        if events.propensities is not None:
            clipped_share = float((events.propensities < min_propensity).mean())
        on_step("tallying")
        data: LogData = events
        if not keeps_events:
            data = tally_events(events, min_propensity=min_propensity)
        del reading, events  # no longer needed, and large
        if folder is not None:
            new = (data, provenance.to_json(), provenance.bins)
            stored = first_log(*new) if stored is None else stored.with_log(*new)
            save_tallies(folder, stored)
            data, index = stored.data, stored.index
            del stored, new  # large, too
    return _tallied(data, options, provenance, clipped_share, index)


def _is_dated(stored: LogData | None, options: LearnOptions) -> bool:
    """Whether events need their times; refuse a half-life on a folder that has none."""
    if stored is None:
        return options.half_life is not None
    if options.half_life is not None:
        check_dated(stored, options.tallies)
    return isinstance(stored, Events) and stored.times is not None


def _stored(options: LearnOptions) -> PreparedLog:
    """Return the tallies of a folder, and what the last log was that was added to it."""
    if options.tallies is None:
        raise InputError(
            f"say what to learn from: a log, or {option('--tallies')} with a folder of tallies."
        )
    with locked_folder(options.tallies, is_reader=True):
        stored = load_tallies(options.tallies)
    if stored is None or not stored.index.logs:
        raise InputError(f"{options.tallies} holds no tallies yet; give a log to add to them.")
    _keeps_events(stored.index, options)
    provenance = Provenance.from_json(stored.index.logs[-1])
    log = _tallied(stored.data, options, provenance, None, stored.index)
    return replace(log, is_new=False)


def _tallied(
    data: LogData,
    options: LearnOptions,
    provenance: Provenance,
    clipped_share: float | None,
    index: Index | None,
) -> PreparedLog:
    """Return the data of a log as it is learned from."""
    half_life = None if options.half_life is None else float(options.half_life)
    windows = None
    if half_life is not None:
        data = check_dated(data, options.tallies)
        windows = windows_of(data, half_life)
    log, dropped = tallied(
        data, options.min_propensity, options.max_interactions_per_user, half_life
    )
    log = log.in_blocks(n_events_of(data) - dropped.n_events_forgotten)
    return PreparedLog(
        tallies=log.uniform(),
        user_labels=log.user_labels,
        context_labels=log.context_labels,
        action_labels=log.action_labels,
        provenance=provenance,
        clipped_share=clipped_share,
        dropped=dropped,
        windows=windows,
        n_logs=None if index is None else len(index.logs),
    )


def _read_on_cluster(
    client: Any, source: str, options: LearnOptions, *, with_users: bool
) -> PreparedLog:
    """Tally a log where the workers are."""
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
