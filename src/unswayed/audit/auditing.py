"""From a log to an audit: read it, infer the regime, find accounts, report what they did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.audit.by_server import audit_server
from unswayed.audit.by_users import audit_users
from unswayed.audit.log import AuditedLog
from unswayed.audit.regimes import RegimeName, regime_of_log
from unswayed.audit.results import Audit
from unswayed.errors import InputError, option
from unswayed.events import Columns, Events, OnBadRows, read_events
from unswayed.events.sources import Source
from unswayed.learners.explaining import notes_on_bad_rows
from unswayed.learners.from_log import Listener
from unswayed.learners.learning import check_actions
from unswayed.learners.methods import DEFAULT_METHOD, known_method
from unswayed.learners.unknown_fraction import FLOOR, Auto, check_fraction_or_auto
from unswayed.policy import Policy
from unswayed.tallies import MIN_PROPENSITY, tally_events
from unswayed.tallies.log_summary import summarise

STEPS = ("reading", "tallying", "looking for accounts")
"""The steps of an audit, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """An audit, the events it is of, and the policy that was learned on the way, if any."""

    audit: Audit
    events: Events
    times: FloatArray | None
    policy: Policy | None


def audit_log(
    source: Source,
    *,
    alpha: float | Auto = "auto",
    regime: RegimeName = "auto",
    method: str = DEFAULT_METHOD,
    columns: Columns | None = None,
    query: str | None = None,
    on_bad_rows: OnBadRows | str = "error",
    min_propensity: float = MIN_PROPENSITY,
    memory: int | None = None,
    on_step: Listener = lambda _: None,
) -> Audited:
    """Audit a log.

    Parameters
    ----------
    source, columns, query, on_bad_rows, memory
        As ``read_events`` takes them.
    alpha, method, min_propensity
        As ``learn_log`` takes them; read where the server chose the actions.
    regime
        Who chose the actions; "auto" reads it off the log.
    on_step
        Called with each of ``STEPS`` as it begins.
    """
    stated = check_fraction_or_auto(alpha)
    method = known_method(method)
    on_step("reading")
    reading = read_events(
        source,
        columns=columns or Columns(may_lack_context=True),
        query=query,
        on_bad_rows=on_bad_rows,
        memory=memory,
        with_times=True,
    )
    on_step("tallying")
    audit, policy = audit_events(
        reading.events,
        reading.times,
        source=reading.provenance.source,
        stated=stated,
        regime=regime,
        method=method,
        min_propensity=min_propensity,
        notes=notes_on_bad_rows(reading.provenance),
        on_step=on_step,
    )
    return Audited(audit, reading.events, reading.times, policy)


def audit_events(
    events: Events,
    times: FloatArray | None,
    *,
    source: str | Path,
    stated: float | Auto,
    regime: RegimeName = "auto",
    method: str = DEFAULT_METHOD,
    min_propensity: float = MIN_PROPENSITY,
    notes: tuple[str, ...] = (),
    on_step: Listener = lambda _: None,
) -> tuple[Audit, Policy | None]:
    """Audit events, and return the policy that was learned on the way, if any."""
    check_actions(events.n_actions)
    tallied = tally_events(events, min_propensity=min_propensity).in_blocks(len(events))
    tallies = tallied.uniform()
    summary = summarise(
        tallies,
        events.context_labels,
        events.action_labels,
        alpha=FLOOR if stated == "auto" else stated,
        min_propensity=min_propensity,
    )
    if summary.n_users < 2:
        raise InputError(
            "the log has one user; an audit compares users, so it needs many. Check the user "
            "column."
        )
    found = regime_of_log(tallies, summary, regime)
    is_equal = np.isclose(summary.lowest_reward_mean, summary.highest_reward_mean, 1e-12, 0.0)
    if is_equal and found.name == "server":
        raise InputError(
            f"rewards are {summary.lowest_reward_mean:g} everywhere, so no account can be "
            "distinguished from another where the server chose the actions. Check the reward "
            f"column, or use {option('--regime', 'users')} if users chose: what they chose is "
            "audited, too."
        )
    log = AuditedLog(
        source=str(source),
        events=events,
        times=times,
        tallies=tallies,
        summary=summary,
        regime=found,
        notes=notes,
    )
    on_step("looking for accounts")
    if found.name == "users":
        return audit_users(log), None
    return audit_server(log, stated=stated, method=method)
