"""`unswayed evaluate`: how much better a policy is for honest users, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unswayed.cli.log_options import AlphaOrAuto, Log, LogOptions
from unswayed.cli.options import Figures, Json, expanded
from unswayed.evaluation.evaluating import STEPS, evaluate_log
from unswayed.evaluation.results import LOGGING
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.policy import Policy
from unswayed.reports.result_tables import print_evaluation
from unswayed.reports.tables import print_json, steps_bar
from unswayed.storage import check_writable_folder


@expanded
def evaluate(
    log: Log,
    policy: Annotated[Path, typer.Option(help="The policy to evaluate.", show_default=False)],
    baseline: Annotated[
        str, typer.Option(help="What to compare with: logging, or another policy file.")
    ] = LOGGING,
    alpha: AlphaOrAuto = "auto",
    *,
    source: LogOptions,
    figures: Figures = None,
    json: Json = False,
) -> None:
    """Estimate a policy's uplift for honest users from a log that may contain lies."""
    fraction = check_fraction_or_auto(alpha)
    bad_rows = source.checked_bad_rows()
    if figures is not None:
        check_writable_folder(figures)
    evaluated = Policy.load(policy)
    other = None if baseline == LOGGING else Policy.load(baseline)
    with steps_bar(STEPS) as on_step:
        found = evaluate_log(
            log,
            evaluated,
            baseline=other,
            baseline_name=baseline,
            alpha=fraction,
            columns=source.columns(time=source.time_column),
            query=source.query,
            on_bad_rows=bad_rows,
            min_propensity=source.min_propensity,
            memory=source.memory_bytes,
            on_step=on_step,
        )
    if figures is not None:
        from unswayed.reports.result_figures import write_evaluation_figures

        write_evaluation_figures(found, figures)
    if json:
        print_json(found.to_json())
    else:
        print_evaluation(found)
