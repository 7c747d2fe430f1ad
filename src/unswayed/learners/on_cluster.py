"""The way from a log to a policy on a Dask cluster: the raw log never comes to the driver."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from unswayed.errors import InputError
from unswayed.events import Columns, Labels, OnBadRows
from unswayed.events.capping import check_cap
from unswayed.learners.design import DesignName
from unswayed.learners.flip_fraction import Certify, check_certify
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
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto
from unswayed.storage import locked_folder
from unswayed.tallies import MIN_PROPENSITY, LabelledTallies
from unswayed.tallies.cluster import connected, explained_losses, tally_on_cluster
from unswayed.tallies.store import load_index


def learn_on_cluster(
    source: str,
    *,
    adversarial_fraction: float | Auto,
    method: str = DEFAULT_METHOD,
    columns: Columns | None = None,
    on_bad_rows: OnBadRows | None = None,
    max_interactions_per_user: int | None = None,
    min_propensity: float = MIN_PROPENSITY,
    design: DesignName = "auto",
    tallies: str | Path | None = None,
    allow_unplayed: bool = False,
    scheduler: str | None = None,
    client: Any | None = None,
    with_users: bool = False,
    certify: Certify = "bounds",
    on_step: Listener = lambda _: None,
) -> LearnedLog:
    """Learn a policy from files that the workers of a cluster can open.

    Parameters
    ----------
    source
        A path, folder, pattern or address that every worker can open.
    adversarial_fraction, method, columns, on_bad_rows, max_interactions_per_user
        As ``learn_log`` takes them.
    min_propensity, design, allow_unplayed, on_step
        As ``learn_log`` takes them.
    tallies
        A folder of tallies, as ``learn_log`` takes it, that this machine and all workers see under
        the same name.
    scheduler
        Address of a Dask scheduler, or None to start workers on this machine.
    client
        A Dask client to use instead.
    with_users
        Whether to bring the users' labels here; without, ``user_labels`` is empty.
    certify
        As ``RobustMCB`` takes it, but for attacks: they need all tallies in one place.

    Notes
    -----
    Guarantee: that of the method; the policy is that of ``learn_log`` on the same files, bit for
    bit, whatever workers are lost on the way.
    """
    stated = check_fraction_or_auto(adversarial_fraction, option="alpha")
    method_named(method)  # a wrong name is told before the log is read
    if check_certify(certify) == "attack":
        raise InputError(
            "attacks need all tallies in one place: use --engine local, or --certify bounds."
        )
    if max_interactions_per_user is not None:
        check_cap(max_interactions_per_user)
    with ExitStack() as held:
        held.enter_context(explained_losses(scheduler))
        if tallies is not None:  # to the end: workers read the pieces while they learn
            held.enter_context(locked_folder(tallies))
        return _learn(
            held.enter_context(connected(scheduler)) if client is None else client,
            source,
            stated=stated,
            method=method,
            columns=columns,
            on_bad_rows=on_bad_rows,
            max_interactions_per_user=max_interactions_per_user,
            min_propensity=min_propensity,
            design=design,
            tallies=tallies,
            allow_unplayed=allow_unplayed,
            with_users=with_users,
            certify=certify,
            on_step=on_step,
        )


def _learn(
    client: Any,
    source: str,
    *,
    stated: float | Auto,
    method: str,
    columns: Columns | None,
    on_bad_rows: OnBadRows | None,
    max_interactions_per_user: int | None,
    min_propensity: float,
    design: DesignName,
    tallies: str | Path | None,
    allow_unplayed: bool,
    with_users: bool,
    certify: Certify,
    on_step: Listener,
) -> LearnedLog:
    """Learn on a client's cluster, holding the folder of tallies if there is one."""
    on_step("reading")
    index = None if tallies is None else load_index(tallies)
    keep_events(index, max_interactions_per_user)  # a cap on a folder of sums is told first
    log = tally_on_cluster(
        client,
        source,
        columns=columns or Columns(),
        on_bad_rows=on_bad_rows or OnBadRows(),
        min_propensity=min_propensity,
        max_interactions_per_user=max_interactions_per_user,
        folder=None if tallies is None else Path(tallies).absolute(),
        index=index,
    )
    notes = notes_on_bad_rows(log.provenance)
    if log.clipped_share is not None:
        notes += (note_on_propensities(log.clipped_share, min_propensity),)
    if max_interactions_per_user is not None:
        notes += (note_on_cap(max_interactions_per_user, log.n_users_capped, log.n_events_dropped),)
    if log.index is not None and tallies is not None:
        notes += (note_on_logs(len(log.index.logs), tallies),)
    users = Labels.of([])
    if with_users:
        users = Labels(np.concatenate(log.labelled.map_blocks(_user_values)))
    return learn_tallied(
        log.tallies,
        log.context_labels,
        log.action_labels,
        stated=stated,
        method=method,
        min_propensity=min_propensity,
        design=design,
        allow_unplayed=allow_unplayed,
        provenance=log.provenance,
        notes=notes,
        on_step=on_step,
        user_labels=users,
        certify=certify,
    )


def _user_values(labelled: LabelledTallies) -> Any:
    return labelled.user_labels.values
