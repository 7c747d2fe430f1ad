"""From a log to an audit: read it, infer the regime, find accounts, report what they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from unswayed.arrays import BoolArray
from unswayed.audit.by_server import audit_server
from unswayed.audit.by_users import audit_users
from unswayed.audit.comparing import (
    Changes,
    Difference,
    changes_of,
    difference_of,
    earlier_rows,
    part_of,
)
from unswayed.audit.log import AuditedLog
from unswayed.audit.regimes import RegimeName, regime_of_log
from unswayed.audit.results import Audit, Part
from unswayed.errors import InputError, option
from unswayed.events import Columns, Events, OnBadRows, Reading, read_events
from unswayed.events.known import KnownAccounts, read_known
from unswayed.events.sources import Source
from unswayed.learners.explaining import notes_on_bad_rows
from unswayed.learners.features.shape import in_leaves_of, learn_shape
from unswayed.learners.from_log import Listener
from unswayed.learners.learning import check_actions
from unswayed.learners.methods import DEFAULT_METHOD, known_method
from unswayed.learners.options import LearnOptions, listed_names
from unswayed.learners.unknown_fraction import FLOOR, Auto, check_fraction_or_auto
from unswayed.policy import Policy
from unswayed.tallies import MIN_PROPENSITY, tally_events
from unswayed.tallies.log_summary import summarise

STEPS = ("reading", "tallying", "looking for accounts", "comparing")
"""The steps of an audit, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """An audit, the events it is of, and the policy that was learned on the way, if any.

    ``changes`` and ``difference`` are what is new since a moment, and what differs from a
    reference; None unless asked for.
    """

    audit: Audit
    events: Events
    policy: Policy | None
    changes: Changes | None = None
    difference: Difference | None = None

    @property
    def verdict(self) -> str:
        """Attacked, suspected, or nothing found."""
        return self.audit.verdict

    @property
    def statement(self) -> str:
        """The answer in a few sentences."""
        return self.audit.statement

    def table(self, part: Part = "accounts") -> pa.Table:
        """Return a part as a table; ``.to_pandas()`` and ``polars.from_arrow`` make data frames."""
        return self.audit.table(part)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the most suspicious accounts only."""
        return {
            **self.audit.to_json(),
            "changes": None if self.changes is None else self.changes.to_json(),
            "reference": None if self.difference is None else self.difference.to_json(),
        }


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
    known: str | Path | KnownAccounts | None = None,
    features: Sequence[str] | str = (),
    since: str | None = None,
    reference: Source | None = None,
    on_step: Listener = lambda _: None,
    **names: Any,
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
    known
        Reviewed accounts, as ``read_known`` reads them. Fakes are flagged and lead to others.
        Honest ones are not flagged for what they did before the end of the review's day.
    features
        Attributes to learn the contexts from, as ``learn_log`` takes them.
    since
        A date, or a date and time: ``changes`` says what is new since then. The log needs times.
    reference
        A log with the same columns that is believed clean: ``difference`` says what moved.
    on_step
        Called with each of ``STEPS`` as it begins.
    names
        Fields of ``Columns``, such as ``user="account_id"``, as ``learn_log`` takes them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users, items = np.repeat(np.arange(600), 20), rng.integers(8, size=12_000)
    >>> rewards = rng.random(12_000) < np.where((users < 90) & (items == 7), 0.95, 0.1)
    >>> found = audit_log(pa.table({"user": users, "action": items, "reward": rewards * 1.0}))
    >>> found.verdict, found.table("items").to_pandas().action.tolist()
    ('attacked', [7])
    """
    if isinstance(known, str | Path):
        known = read_known(known)
    stated = check_fraction_or_auto(alpha)
    method = known_method(method)
    others = ("alpha", "regime", "known", "since", "reference", "columns")
    columns = (columns or Columns(may_lack_context=True)).renamed(names, others=others)
    if features:
        columns = replace(columns, features=listed_names(features))

    def read(what: Source) -> Reading:
        return read_events(
            what,
            columns=columns,
            query=query,
            on_bad_rows=on_bad_rows,
            memory=memory,
            with_times=True,
        )

    on_step("reading")
    reading = read(source)
    events, shape = replace(reading.events, times=reading.times), None
    # What cannot be answered is said before any work is done.
    is_earlier = None if since is None else earlier_rows(events, since)
    clean = None if reference is None else read(reference)
    options = _Options(stated=stated, method=method, min_propensity=min_propensity, regime=regime)
    on_step("tallying")
    if reading.attributes:
        shaping = LearnOptions(
            alpha=stated, method=method, min_propensity=min_propensity, features=columns.features
        )
        shape = learn_shape(events, reading.attributes, shaping)
        events = shape.in_leaves(events)
    audit, policy = audit_events(
        events,
        source=reading.provenance.source,
        known=known,
        notes=notes_on_bad_rows(reading.provenance),
        on_step=on_step,
        **options,
    )
    changes, difference = None, None
    options["regime"] = audit.regime.name
    if since is not None and is_earlier is not None:
        on_step("comparing")
        earlier = part_of(events, is_earlier)
        before, _ = audit_events(earlier, source="before", known=known, **options)
        changes = changes_of(before, audit, since)
    if clean is not None:
        on_step("comparing")
        usual, where = replace(clean.events, times=clean.times), clean.provenance.source
        if shape is not None:
            usual = in_leaves_of(shape.partition, usual, clean.attributes)
        found, _ = audit_events(usual, source=where, **options)
        difference = difference_of(found, usual, events)
    return Audited(audit, events, policy, changes, difference)


def audit_events(
    events: Events,
    *,
    source: str | Path,
    stated: float | Auto,
    regime: RegimeName = "auto",
    method: str = DEFAULT_METHOD,
    min_propensity: float = MIN_PROPENSITY,
    known: KnownAccounts | None = None,
    notes: tuple[str, ...] = (),
    on_step: Listener = lambda _: None,
) -> tuple[Audit, Policy | None]:
    """Audit events, and return the policy that was learned on the way, if any."""
    check_actions(events.n_actions)
    tallied = tally_events(events, min_propensity=min_propensity).in_blocks(len(events))
    tallies = tallied.uniform()
    summary = summarise(
        tallies,
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
        tallies=tallies,
        summary=summary,
        regime=found,
        notes=notes,
    )
    on_step("looking for accounts")
    is_fake, is_cleared = _reviewed(events, known)
    if found.name == "users":
        return audit_users(log, is_fake, is_cleared), None
    return audit_server(log, is_fake, is_cleared, stated=stated, method=method)


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


class _Options(TypedDict):
    """Options that all audits of a command share."""

    stated: float | Auto
    method: str
    min_propensity: float
    regime: RegimeName
