"""The way from a log to a policy on a Dask cluster: the raw log never comes to the driver."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from unswayed.engine import DaskWorkers
from unswayed.engine.cluster import connected, explained_losses
from unswayed.errors import InputError, option
from unswayed.events import Labels, OnBadRows
from unswayed.learners.from_log import (
    LearnedLog,
    Listener,
    keep_events,
    learn_tallied,
    note_on_cap,
    note_on_logs,
    note_on_propensities,
    notes_on_bad_rows,
)
from unswayed.learners.options import LearnOptions, OptionKeywords
from unswayed.storage import locked_folder
from unswayed.tallies import LabelledTallies
from unswayed.tallies.cluster import refuse_query, tally_on_cluster
from unswayed.tallies.store import load_index


def learn_on_cluster(
    source: str,
    options: LearnOptions | None = None,
    *,
    scheduler: str | None = None,
    client: Any | None = None,
    with_users: bool = False,
    on_step: Listener = lambda _: None,
    **changes: Unpack[OptionKeywords],
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
        return _learn(client, source, options, with_users=with_users, on_step=on_step)


def _learn(
    client: Any, source: str, options: LearnOptions, *, with_users: bool, on_step: Listener
) -> LearnedLog:
    """Learn on a client's cluster, holding the folder of tallies if there is one."""
    on_step("reading")
    cap, folder = options.max_interactions_per_user, options.tallies
    index = None if folder is None else load_index(folder)
    keep_events(index, cap)  # refuses a cap on a folder of sums before the log is read
    log = tally_on_cluster(
        DaskWorkers(client),
        source,
        columns=options.columns,
        on_bad_rows=OnBadRows.parsed(options.on_bad_rows),
        min_propensity=options.min_propensity,
        max_interactions_per_user=cap,
        folder=None if folder is None else Path(folder).absolute(),
        index=index,
    )
    notes = notes_on_bad_rows(log.provenance)
    if log.clipped_share is not None:
        notes += (note_on_propensities(log.clipped_share, options.min_propensity),)
    if cap is not None:
        notes += (note_on_cap(cap, log.n_users_capped, log.n_events_dropped),)
    if log.index is not None and folder is not None:
        notes += (note_on_logs(len(log.index.logs), folder),)
    users = Labels.of([])
    if with_users:
        users = Labels(np.concatenate(log.labelled.map_blocks(_user_values)))
    return learn_tallied(
        log.tallies,
        log.context_labels,
        log.action_labels,
        options,
        provenance=log.provenance,
        notes=notes,
        on_step=on_step,
        user_labels=users,
    )


def _user_values(labelled: LabelledTallies) -> Any:
    return labelled.user_labels.values
