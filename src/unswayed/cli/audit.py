"""`unswayed audit`: whether a log was attacked, by which accounts, on what, at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from unswayed.cli.log_options import Log, LogOptions
from unswayed.cli.options import Json, check_outputs
from unswayed.storage import check_writable

#: Exit code when a limit is exceeded.
ALARM = 3


def audit(
    log: Log,
    alpha: float | Literal["auto"] = "auto",
    regime: Literal["auto", "server", "users"] = "auto",
    users: Path | None = None,
    out: Path | None = None,
    features: str | None = None,
    since: str | None = None,
    reference: str | None = None,
    inject: str | None = None,
    target: str | None = None,
    known: Path | None = None,
    cases: Path | None = None,
    fail_share: float | None = None,
    fail_shift: float | None = None,
    *,
    source: LogOptions,
    json: Json = False,
) -> None:
    """Report whether a log was attacked, by which accounts, on which items, and at what cost.

    alpha (FLOAT|auto): Share of users that may collude, below 0.5: the upper end of the reported
        share if nothing is found. The search does not depend on it.
    regime: Who chose the actions: server, users, or auto to infer it.
    users: Write all accounts to this table, the most suspicious first.
    out: Write the report to this HTML file; it needs no network.
    features (COLUMNS): Attributes to learn the contexts from, as in learn.
    since (DATE): Report what is new since this day or moment: accounts newly flagged, and which of
        them joined a group that was there before. Needs times.
    reference (LOG): A log believed clean, with the same columns: report which items' means moved.
    inject (KIND:SHARE): Red team: inject a coalition (push, nuke or quiet) of this share of the
        accounts, such as push:0.1, and report from which share on it is found.
    target: Action that the injected coalition lies about.
    known: CSV of reviewed accounts (user, status honest or fake, date): fakes lead to others, and
        honest accounts are not flagged for what they did before the review.
    cases: Write the flagged accounts to this file, as CSV, Parquet or JSON, with ids that stay the
        same from day to day.
    fail_share: Exit with code 3 if the share of colluding accounts is certainly larger.
    fail_shift: Exit with code 3 if a coalition shifts an item's mean by more than this.
    """
    # Imported here, because it takes a second and the help does not need it.
    from unswayed.audit.auditing import STEPS, audit_log
    from unswayed.audit.results import alarm_of, check_limits
    from unswayed.reports.audits import audit_page, print_audit
    from unswayed.reports.page import write_page
    from unswayed.reports.policies import check_table, write_table
    from unswayed.reports.tables import print_json, print_line, steps_bar

    check_limits(fail_share, fail_shift)
    check_outputs(out, users, cases, inputs=(log, reference, known))
    if out is not None:
        check_writable(out)
    for table in filter(None, (users, cases)):
        check_table(table)
    with steps_bar(STEPS) as on_step:
        found = audit_log(
            log,
            alpha=alpha,
            regime=regime,
            known=known,
            features=features or (),
            since=since,
            reference=reference,
            inject=inject,
            target=target,
            on_step=on_step,
            **source.reading(may_lack_context=True),
        )
    alarm = alarm_of(found, share=fail_share, shift=fail_shift)
    if users is not None:
        write_table(found.table("accounts"), users)
    if cases is not None:
        write_table(found.table("cases"), cases)
    if out is not None:
        write_page(audit_page(found), out)
    if json:
        print_json({**found.to_json(), "alarm": alarm._asdict()})
    else:
        print_audit(found)
        if out is not None:
            print_line(f"The report is in {out}.")
        for reason in alarm.reasons:
            print_line(f"Alarm: {reason}. It takes at least {alarm.accounts_needed:,} accounts.")
    if alarm.raised:
        raise typer.Exit(ALARM)
