"""`unswayed audit`: whether a log was attacked, by which accounts, on what, at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unswayed.cli.log_options import AlphaOrAuto, Log, LogOptions
from unswayed.cli.options import Json, expanded
from unswayed.storage import check_writable

#: The exit code when a limit is passed.
ALARM = 3


@expanded
def audit(
    log: Log,
    alpha: AlphaOrAuto = "auto",
    regime: Annotated[
        str,
        typer.Option(help="Who chose the actions: server, users, or auto to infer it."),
    ] = "auto",
    users: Annotated[
        Path | None,
        typer.Option(help="Write all accounts to this table, the most suspicious first."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the report to this HTML file; it needs no network.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Attributes to learn the contexts from, as in learn.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Report what is new since this day or moment: accounts newly flagged, and which "
            "of them joined a group that was there before. Needs times.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="A log believed clean, with the same columns: report which items' means moved.",
            metavar="LOG",
        ),
    ] = None,
    inject: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:SHARE",
            help="Red team: inject a coalition (push, nuke or quiet) of this share of the "
            "accounts, such as push:0.1, and report from which share on it is found.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Action that the injected coalition lies about.")
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="CSV of reviewed accounts (user, status honest or fake, date): fakes lead to "
            "others, and honest accounts are not flagged for what they did before the review."
        ),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(
            help="Write the flagged accounts to this file, as CSV, Parquet or JSON, with ids that "
            "stay the same from day to day."
        ),
    ] = None,
    fail_share: Annotated[
        float | None,
        typer.Option(
            help="Exit with code 3 if the share of colluding accounts is certainly larger."
        ),
    ] = None,
    fail_shift: Annotated[
        float | None,
        typer.Option(
            help="Exit with code 3 if a coalition shifts an item's mean by more than this."
        ),
    ] = None,
    *,
    source: LogOptions,
    json: Json = False,
) -> None:
    """Report whether a log was attacked, by which accounts, on which items, and at what cost."""
    # Here: the help needs none of it, and it takes a second to import.
    from unswayed.audit.auditing import STEPS, audit_log
    from unswayed.audit.comparing import parsed_moment
    from unswayed.audit.regimes import parsed_regime
    from unswayed.audit.results import alarm_of, check_limits, plain
    from unswayed.events.known import read_known
    from unswayed.learners.unknown_fraction import check_fraction_or_auto
    from unswayed.reports.audits import audit_page, check_cases, print_audit, write_cases
    from unswayed.reports.page import write_page
    from unswayed.reports.policies import check_table, write_table
    from unswayed.reports.tables import print_json, print_line, steps_bar

    fraction = check_fraction_or_auto(alpha)
    who_chose = parsed_regime(regime)
    check_limits(fail_share, fail_shift)
    if out is not None:
        check_writable(out)
    if users is not None:
        check_table(users)
    if cases is not None:
        check_cases(cases)
    reviewed = None if known is None else read_known(known)
    if since is not None:
        parsed_moment(since)
    with steps_bar(STEPS) as on_step:
        found = audit_log(
            log,
            alpha=fraction,
            regime=who_chose,
            columns=source.columns(time=source.time_column, may_lack_context=True),
            query=source.query,
            on_bad_rows=source.on_bad_rows,
            min_propensity=source.min_propensity,
            known=reviewed,
            features=features or (),
            since=since,
            reference=reference,
            inject=inject,
            target=target,
            on_step=on_step,
        )
    alarm = alarm_of(found, share=fail_share, shift=fail_shift)
    if users is not None:
        write_table(found.table("accounts"), users)
    if cases is not None:
        write_cases(found.table("cases"), cases)
    if out is not None:
        write_page(audit_page(found), out)
    if json:
        print_json({**found.to_json(), "alarm": plain(alarm._asdict())})
    else:
        print_audit(found)
        if out is not None:
            print_line(f"The report is in {out}.")
        for reason in alarm.reasons:
            print_line(f"Alarm: {reason}. It takes at least {alarm.accounts_needed:,} accounts.")
    if alarm.raised:
        raise typer.Exit(ALARM)
