"""Audits: read a log, infer who chose the actions, find colluding accounts, and report them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from unswayed.arrays import BoolArray
from unswayed.audit.by_server import audit_server
from unswayed.audit.by_users import audit_users
from unswayed.audit.comparing import (
    changes_of,
    difference_of,
    earlier_rows,
    parsed_injection,
    parsed_moment,
    part_of,
    run_red_team,
    target_code,
)
from unswayed.audit.log import AuditedLog
from unswayed.audit.regimes import RegimeName, regime_of_log
from unswayed.audit.results import Audit
from unswayed.errors import InputError, option
from unswayed.events import Columns, Events, read_events
from unswayed.events.known import KnownAccounts, read_known
from unswayed.events.sources import Source
from unswayed.learners.explaining import notes_on_bad_rows
from unswayed.learners.features.shape import in_leaves_of, learn_shape
from unswayed.learners.from_log import Listener
from unswayed.learners.learning import check_actions
from unswayed.learners.options import LearnOptions, listed_names
from unswayed.learners.unknown_fraction import FLOOR, Auto, check_fraction_or_auto
from unswayed.tallies import MIN_PROPENSITY, tally_events
from unswayed.tallies.log_summary import summarise

STEPS = ("reading", "tallying", "looking for accounts", "comparing")
"""The steps of an audit, in order."""


def audit_log(
    source: Source,
    *,
    alpha: float | Auto = "auto",
    regime: RegimeName = "auto",
    columns: Columns | None = None,
    query: str | None = None,
    on_bad_rows: str = "error",
    min_propensity: float = MIN_PROPENSITY,
    known: str | Path | KnownAccounts | None = None,
    features: Sequence[str] | str = (),
    since: str | None = None,
    reference: Source | None = None,
    inject: str | None = None,
    target: object = None,
    on_step: Listener = lambda _: None,
    **names: Any,
) -> Audit:
    """Audit a log.

    Parameters
    ----------
    source, columns, query, on_bad_rows
        As ``read_events`` takes them.
    alpha
        The share of accounts that may collude: the upper end of the reported share if nothing is
        found where the server chose the actions. The search does not depend on it.
    min_propensity
        As ``learn_log`` takes it.
    regime
        Who chose the actions; "auto" reads it off the log.
    known
        Reviewed accounts, as ``read_known`` reads them. Fakes are flagged and lead to others.
        Honest ones are not flagged for what they did before the end of the review's day.
    features
        Attributes to learn the contexts from, as ``learn_log`` takes them.
    since
        A date, or a date and time: ``changes`` says what is new since then. The log needs times.
    reference
        A log with the same columns that is believed clean: ``difference`` says what moved.
    inject, target
        A coalition of copied accounts to inject that lies about the action ``target``, such as
        ``push:0.1`` (or nuke, quiet): ``red_team`` says from which share on it is found.
    on_step
        Called with each of ``STEPS`` as it begins.
    names
        Fields of ``Columns``, such as ``user="account_id"``, as ``learn_log`` takes them.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> rng = np.random.default_rng(0)
    >>> users, items = np.repeat(np.arange(600), 20), rng.integers(8, size=12_000)
    >>> rewards = rng.random(12_000) < np.where((users < 90) & (items == 7), 0.95, 0.1)
    >>> found = audit_log(pa.table({"user": users, "action": items, "reward": rewards * 1.0}))
    >>> found.verdict, found.table("items").to_pandas().action.tolist()
    ('attacked', [7])
    """
    stated, injection = check_fraction_or_auto(alpha), parsed_injection(inject, target)
    if regime not in get_args(RegimeName):
        raise InputError(f"{option('--regime')} is auto, server or users, not {regime!r}.")
    if since is not None:
        parsed_moment(since)
    if isinstance(known, str | Path):
        known = read_known(known)
    others = ("alpha", "regime", "known", "since", "reference", "columns")
    columns = (columns or Columns(may_lack_context=True)).renamed(names, others=others)
    if features:
        columns = replace(columns, features=listed_names(features))
    read = partial(
        read_events, columns=columns, query=query, on_bad_rows=on_bad_rows, with_times=True
    )
    on_step("reading")
    reading = read(source)
    events, shape = replace(reading.events, times=reading.times), None
    # Reject invalid requests before any work is done.
    is_earlier = None if since is None else earlier_rows(events, since)
    if injection is not None:
        target_code(events, injection)
    clean = None if reference is None else read(reference)
    if clean is not None and not set(clean.events.action_labels) & set(events.action_labels):
        raise InputError(
            f"{option('--reference')} has none of the log's actions; give a log with the same "
            "columns and the same kind of labels."
        )
    on_step("tallying")
    if reading.attributes:
        shaping = LearnOptions(
            alpha=stated, min_propensity=min_propensity, features=columns.features
        )
        shape = learn_shape(events, reading.attributes, shaping)
        events = in_leaves_of(shape.partition, events, reading.attributes)
    audit_some = partial(audit_events, stated=stated, min_propensity=min_propensity)
    audit = audit_some(
        events,
        source=reading.provenance.source,
        regime=regime,
        known=known,
        notes=notes_on_bad_rows(reading.provenance),
        on_step=on_step,
    )
    who_chose = audit.regime.name
    if since is not None and is_earlier is not None:
        on_step("comparing")
        earlier = part_of(events, is_earlier)
        before = audit_some(earlier, source="before", regime=who_chose, known=known)
        audit = replace(audit, changes=changes_of(before, audit, since))
    if clean is not None:
        on_step("comparing")
        usual, where = replace(clean.events, times=clean.times), clean.provenance.source
        if shape is not None:
            usual = in_leaves_of(shape.partition, usual, clean.attributes)
        try:
            found = audit_some(usual, source=where, regime=who_chose)
        except InputError as error:
            raise InputError(f"{option('--reference')} cannot be audited: {error}") from error
        audit = replace(audit, difference=difference_of(found, usual, events))
    if injection is not None:
        audit_injected = partial(audit_some, source="red team", regime=who_chose)
        team = run_red_team(events, injection, audit_injected, on_step)
        audit = replace(audit, red_team=team)
    return audit


def audit_events(
    events: Events,
    *,
    source: str | Path,
    stated: float | Auto,
    regime: RegimeName = "auto",
    min_propensity: float = MIN_PROPENSITY,
    known: KnownAccounts | None = None,
    notes: tuple[str, ...] = (),
    on_step: Listener = lambda _: None,
) -> Audit:
    """Audit events; options are those of ``audit_log``."""
    check_actions(events.n_actions)
    tallied = tally_events(events, min_propensity=min_propensity).in_blocks(len(events))
    tallies = tallied.uniform()
    assumed = FLOOR if stated == "auto" else stated
    summary = summarise(tallies, alpha=assumed, min_propensity=min_propensity)
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
    log = AuditedLog(str(source), events, tallies, found, notes)
    on_step("looking for accounts")
    is_fake, is_cleared = _reviewed(events, known)
    if found.name == "users":
        return audit_users(log, is_fake, is_cleared)
    return audit_server(log, is_fake, is_cleared, stated=stated)


def _reviewed(events: Events, known: KnownAccounts | None) -> tuple[BoolArray, BoolArray]:
    """Return known fakes, shape (n_users,), and events cleared by a review, shape (n_events,).

    Without times a review clears all events of an honest account.
    """
    if known is None:
        return np.zeros(events.n_users, np.bool_), np.zeros(len(events), np.bool_)
    is_fake, honest_until = known.of(events.user_labels)
    until, times = honest_until[events.users], events.times
    if times is None:
        return is_fake, np.asarray(until > -np.inf)
    return is_fake, np.asarray((np.nan_to_num(times, nan=-np.inf) < until) | np.isposinf(until))
