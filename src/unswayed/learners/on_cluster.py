"""The way from a log to a policy on a Dask cluster: the raw log never comes to the driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.events import Columns, Labels, OnBadRows
from unswayed.events.capping import check_cap
from unswayed.learners.design import DesignName, design_of_log
from unswayed.learners.flip_fraction import flip_bounds
from unswayed.learners.from_log import (
    LearnedLog,
    Listener,
    keep_events,
    note_on_cap,
    note_on_logs,
    note_on_propensities,
    notes_on_bad_rows,
    notes_on_findings,
)
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.learners.paper import learn_paper
from unswayed.tallies import MIN_PROPENSITY, LabelledTallies, Tallies, row_sums
from unswayed.tallies.cluster import connected, tally_on_cluster
from unswayed.tallies.findings import check_learnable, examine
from unswayed.tallies.store import load_index

#: Methods whose passes run where the blocks are.
METHODS_IN_BLOCKS = {"paper": learn_paper}

#: Learns where no method was asked for and the default one does not run in blocks.
FALLBACK_METHOD = "paper"


def learn_on_cluster(
    source: str,
    *,
    adversarial_fraction: float,
    method: str | None = None,
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
    on_step: Listener = lambda _: None,
) -> LearnedLog:
    """Learn a policy from files that the workers of a cluster can open.

    Parameters
    ----------
    source
        A path, folder, pattern or address that every worker can open.
    adversarial_fraction, columns, on_bad_rows, max_interactions_per_user
        As ``learn_log`` takes them.
    method
        One of ``METHODS_IN_BLOCKS``. None is the default method if that is one of them; otherwise
        ``FALLBACK_METHOD``, and a note says so.
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

    Notes
    -----
    Guarantee: that of the method; the policy is that of ``learn_log`` on the same files, bit for
    bit, whatever workers are lost on the way.
    """
    alpha = check_adversarial_fraction(adversarial_fraction, option="alpha")
    if method is not None and method not in METHODS_IN_BLOCKS:
        raise InputError(
            f"method {method!r} needs all tallies on one machine; use --engine local, or one of: "
            f"{', '.join(METHODS_IN_BLOCKS)}."
        )
    if client is None:
        with connected(scheduler) as own:
            return learn_on_cluster(
                source,
                adversarial_fraction=alpha,
                method=method,
                columns=columns,
                on_bad_rows=on_bad_rows,
                max_interactions_per_user=max_interactions_per_user,
                min_propensity=min_propensity,
                design=design,
                tallies=tallies,
                allow_unplayed=allow_unplayed,
                client=own,
                with_users=with_users,
                on_step=on_step,
            )
    method, notes = (method, ()) if method is not None else _default_method()
    on_step("reading")
    if max_interactions_per_user is not None:
        check_cap(max_interactions_per_user)
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
    notes += notes_on_bad_rows(log.provenance)
    if log.clipped_share is not None:
        notes += (note_on_propensities(log.clipped_share, min_propensity),)
    if max_interactions_per_user is not None:
        notes += (note_on_cap(max_interactions_per_user, log.n_users_capped, log.n_events_dropped),)
    if log.index is not None and tallies is not None:
        notes += (note_on_logs(len(log.index.logs), tallies),)
    on_step("validating")
    labels = (log.context_labels, log.action_labels)
    findings = examine(
        log.tallies, *labels, adversarial_fraction=alpha, min_propensity=min_propensity
    )
    check_learnable(findings, alpha=alpha, allow_unplayed=allow_unplayed)
    notes += notes_on_findings(findings)
    on_step("learning")
    chosen = design_of_log(log.tallies, design)
    estimates = METHODS_IN_BLOCKS[method](log.tallies, chosen, adversarial_fraction=alpha)
    policy = estimates.policy(
        log.tallies,
        *labels,
        adversarial_fraction=alpha,
        method=method,
        source={
            "events": findings.n_events,
            "users": findings.n_users,
            "evidence": estimates.evidence,
            "read": log.provenance.to_json(),
            "findings": findings.to_json(),
            "notes": list(notes),
        },
    )
    flips = flip_bounds(
        method, log.tallies, chosen, estimates, adversarial_fraction=alpha, certify="bounds"
    )
    if flips is not None:
        policy = replace(policy, flip_fraction=flips.lower, flip_fraction_upper=flips.upper)
    users = Labels.of([])
    if with_users:
        users = Labels(np.concatenate(log.labelled.map_blocks(_user_values)))
    plays = np.concatenate(log.tallies.blocks.map_blocks(_plays)).astype(np.int64)
    return LearnedLog(policy, findings, log.provenance, notes, users, estimates.user_weights, plays)


def _default_method() -> tuple[str, tuple[str, ...]]:
    """Return the method for whoever asked for none, with a note if it is not the default one."""
    if DEFAULT_METHOD in METHODS_IN_BLOCKS:
        return DEFAULT_METHOD, ()
    return FALLBACK_METHOD, (
        f"learned with method {FALLBACK_METHOD}: {DEFAULT_METHOD}, the default, needs all tallies "
        "on one machine (--engine local).",
    )


def _user_values(labelled: LabelledTallies) -> Any:
    return labelled.user_labels.values


def _plays(tallies: Tallies) -> Any:
    return row_sums(tallies.indptr, tallies.plays)
