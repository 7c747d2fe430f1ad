"""`unswayed evaluate`: how much better a policy is for honest users, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unswayed.cli.log_options import Log, LogOptions
from unswayed.cli.options import Figures, Json, expanded
from unswayed.defaults import ASSUMED_SHARE, LOGGING
from unswayed.storage import check_writable, check_writable_folder

if TYPE_CHECKING:
    from unswayed.policy import Policy

TABLES = (".parquet", ".csv", ".tsv", ".jsonl")
"""Endings of files that hold a stochastic policy; others are policies."""


@expanded
def evaluate(
    log: Log,
    policy: Annotated[
        Path,
        typer.Option(
            help="The policy to evaluate: JSON that `learn` wrote; or a table, Parquet or CSV, "
            "with the log's context and action columns and a column probability.",
            show_default=False,
        ),
    ],
    baseline: Annotated[
        str, typer.Option(help="What to compare with: logging, or another policy file.")
    ] = LOGGING,
    alpha: Annotated[
        str,
        typer.Option(
            metavar="FLOAT|auto",
            help="Share of users that may collude, below 0.5. Intervals hold for up to that share; "
            f"auto: {ASSUMED_SHARE:g}, or more if a larger coalition was found.",
        ),
    ] = "auto",
    holdout: Annotated[
        float | None,
        typer.Option(
            help="Learn the policy again without the last share of the events, by time, and "
            "evaluate it on these."
        ),
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(help="CSV of reviewed accounts (user, status honest or fake), as in learn."),
    ] = None,
    *,
    source: LogOptions,
    out: Annotated[
        Path | None, typer.Option(help="Where to write a self-contained HTML report.")
    ] = None,
    figures: Figures = None,
    json: Json = False,
) -> None:
    """Estimate a policy's uplift for honest users from a log that may contain lies.

    A policy that was learned from this log, or may have been, is cross-fitted: learned again
    from halves of the users and evaluated on the others.
    """
    # Here: the help needs none of it, and it takes a second to import.
    from unswayed.evaluation.evaluating import STEPS, evaluate_policy
    from unswayed.learners.unknown_fraction import check_fraction_or_auto
    from unswayed.reports.evaluations import evaluation_page, print_evaluation
    from unswayed.reports.page import write_page
    from unswayed.reports.tables import print_json, steps_bar

    fraction = check_fraction_or_auto(alpha)
    if figures is not None:
        check_writable_folder(figures)
    if out is not None:
        check_writable(out)
    evaluated = _loaded(policy)
    other = None if baseline == LOGGING else _loaded(Path(baseline))
    with steps_bar(STEPS) as on_step:
        found = evaluate_policy(
            log,
            evaluated,
            baseline=other,
            baseline_name=baseline,
            alpha=fraction,
            holdout=holdout,
            known=known,
            columns=source.columns(time=source.time_column),
            query=source.query,
            on_bad_rows=source.on_bad_rows,
            min_propensity=source.min_propensity,
            on_step=on_step,
        )
    if figures is not None:
        from unswayed.reports.figures import write_evaluation_figures

        write_evaluation_figures(found, figures)
    if out is not None:
        write_page(evaluation_page(found), out)
    if json:
        print_json(found.to_json())
    else:
        print_evaluation(found)


def _loaded(path: Path) -> Policy | str:
    """Return a policy, or the path of a table of probabilities."""
    if path.suffix.lower() in TABLES:
        return str(path)
    from unswayed.policy import Policy

    return Policy.load(path)
