"""`unswayed audit`: whether a log was attacked, by which accounts, on what, at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unswayed.audit.auditing import STEPS, audit_log
from unswayed.audit.regimes import parsed_regime
from unswayed.cli.log_options import (
    ActionColumn,
    AlphaOrAuto,
    BadRows,
    ContextBins,
    ContextColumn,
    Log,
    Memory,
    MinPropensity,
    PropensityColumn,
    Query,
    RewardColumn,
    TableFormat,
    TimeColumn,
    UserColumn,
    columns_named,
)
from unswayed.events import OnBadRows
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.memory import parsed_bytes
from unswayed.reports.audits import accounts_table, print_audit
from unswayed.reports.policies import check_table, write_table
from unswayed.reports.tables import print_json, progress_bar
from unswayed.storage import check_writable
from unswayed.tallies import MIN_PROPENSITY

CONTEXT = "context"


def audit(
    log: Log,
    alpha: AlphaOrAuto = "auto",
    regime: Annotated[
        str,
        typer.Option(help="Who chose the actions: server, users, or auto to read it off the log."),
    ] = "auto",
    users: Annotated[
        Path | None,
        typer.Option(help="Write every account to this table, the most suspicious first."),
    ] = None,
    table_format: TableFormat = None,
    user_column: UserColumn = "user",
    context_column: ContextColumn = CONTEXT,
    action_column: ActionColumn = "action",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = None,
    time_column: TimeColumn = None,
    context_bins: ContextBins = None,
    query: Query = None,
    on_bad_rows: BadRows = "error",
    min_propensity: MinPropensity = MIN_PROPENSITY,
    memory: Memory = None,
    json: Annotated[bool, typer.Option("--json", help="Print the audit as JSON.")] = False,
) -> None:
    """Say whether a log was attacked, by which accounts, on what, and at what cost."""
    fraction = check_fraction_or_auto(alpha, option="alpha")
    who_chose = parsed_regime(regime)
    bad_rows = OnBadRows.parsed(on_bad_rows)
    if bad_rows.quarantine is not None:
        check_writable(bad_rows.quarantine)
    if users is not None:
        check_table(users, table_format)
    columns = columns_named(
        user=user_column,
        context=context_column,
        action=action_column,
        reward=reward_column,
        propensity=propensity_column,
        time=time_column,
        bins=context_bins,
        may_lack_context=context_column == CONTEXT,
    )
    with progress_bar() as bar:
        task = bar.add_task("starting", total=len(STEPS))

        def on_step(step: str) -> None:
            bar.update(task, description=step, completed=STEPS.index(step))

        found = audit_log(
            log,
            adversarial_fraction=fraction,
            regime=who_chose,
            method=DEFAULT_METHOD,
            columns=columns,
            query=query,
            on_bad_rows=bad_rows,
            min_propensity=min_propensity,
            memory=None if memory is None else parsed_bytes(memory),
            on_step=on_step,
        )
    if users is not None:
        write_table(accounts_table(found.audit.accounts), users, table_format)
    if json:
        print_json(found.audit.to_json())
    else:
        print_audit(found.audit)
