"""`unswayed evaluate`: how much better a policy is for honest users, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    TimeColumn,
    UserColumn,
    columns_named,
)
from unswayed.cli.options import Figures, Json
from unswayed.evaluation.evaluating import STEPS, evaluate_log
from unswayed.evaluation.results import LOGGING
from unswayed.events import OnBadRows
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.memory import parsed_bytes
from unswayed.policy import Policy
from unswayed.reports.evaluations import print_evaluation
from unswayed.reports.tables import print_json, progress_bar
from unswayed.storage import check_writable, check_writable_folder
from unswayed.tallies import MIN_PROPENSITY


def evaluate(
    log: Log,
    policy: Annotated[Path, typer.Option(help="The policy to evaluate.", show_default=False)],
    baseline: Annotated[
        str, typer.Option(help="What to compare with: logging, or another policy file.")
    ] = LOGGING,
    alpha: AlphaOrAuto = "auto",
    user_column: UserColumn = "user",
    context_column: ContextColumn = "context",
    action_column: ActionColumn = "action",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = None,
    time_column: TimeColumn = None,
    context_bins: ContextBins = None,
    query: Query = None,
    on_bad_rows: BadRows = "error",
    min_propensity: MinPropensity = MIN_PROPENSITY,
    memory: Memory = None,
    figures: Figures = None,
    json: Json = False,
) -> None:
    """Estimate how much better a policy is for honest users, whoever lies in the log."""
    fraction = check_fraction_or_auto(alpha)
    bad_rows = OnBadRows.parsed(on_bad_rows)
    if bad_rows.quarantine is not None:
        check_writable(bad_rows.quarantine)
    if figures is not None:
        check_writable_folder(figures)
    evaluated = Policy.load(policy)
    other = None if baseline == LOGGING else Policy.load(baseline)
    columns = columns_named(
        user=user_column,
        context=context_column,
        action=action_column,
        reward=reward_column,
        propensity=propensity_column,
        time=time_column,
        bins=context_bins,
    )
    with progress_bar() as bar:
        task = bar.add_task("starting", total=len(STEPS))

        def on_step(step: str) -> None:
            bar.update(task, description=step, completed=STEPS.index(step))

        found = evaluate_log(
            log,
            evaluated,
            baseline=other,
            baseline_name=baseline,
            adversarial_fraction=fraction,
            columns=columns,
            query=query,
            on_bad_rows=bad_rows,
            min_propensity=min_propensity,
            memory=None if memory is None else parsed_bytes(memory),
            on_step=on_step,
        )
    if figures is not None:
        from unswayed.reports.evaluation_figures import write_evaluation_figures

        write_evaluation_figures(found, figures)
    if json:
        print_json(found.to_json())
    else:
        print_evaluation(found)
