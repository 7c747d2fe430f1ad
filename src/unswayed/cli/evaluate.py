"""`unswayed evaluate`: how much better a policy is for honest users, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from unswayed.cli.log_options import Log, LogOptions
from unswayed.cli.options import Figures, Json, check_outputs
from unswayed.defaults import LOGGING
from unswayed.storage import check_writable, check_writable_folder

if TYPE_CHECKING:
    from unswayed.policy import Policy

TABLES = (".parquet", ".csv", ".tsv", ".jsonl")
"""Suffixes of files with a table of a stochastic policy; all other files are learned policies."""


def evaluate(
    log: Log,
    policy: Path,
    baseline: str = LOGGING,
    alpha: float | Literal["auto"] = "auto",
    holdout: float | None = None,
    known: Path | None = None,
    *,
    source: LogOptions,
    out: Path | None = None,
    figures: Figures = None,
    json: Json = False,
) -> None:
    """Estimate a policy's uplift for honest users from a log that may contain lies.

    A policy that was learned from this log, or may have been, is cross-fitted: learned again
    from halves of the users and evaluated on the others.

    policy: The policy to evaluate: JSON that `learn` wrote; or a table, Parquet or CSV, with the
        log's context and action columns and a column probability.
    baseline: What to compare with: logging, or another policy file.
    alpha (FLOAT|auto): Share of users that may collude, below 0.5. Intervals hold for up to that
        share; auto: a fifth, or more if a larger coalition was found.
    holdout: Learn the policy again without the last share of the events, by time, and evaluate it
        on these.
    known: CSV of reviewed accounts (user, status honest or fake), as in learn.
    out: Where to write a self-contained HTML report.
    """
    # Imported here, because it takes a second and the help does not need it.
    from unswayed.evaluation.evaluating import STEPS, evaluate_policy
    from unswayed.reports.evaluations import evaluation_page, print_evaluation
    from unswayed.reports.page import write_page
    from unswayed.reports.tables import print_json, steps_bar

    check_outputs(out, inputs=(log, policy, baseline, known))
    if figures is not None:
        check_writable_folder(figures)
    if out is not None:
        check_writable(out)
    with steps_bar(STEPS) as on_step:
        found = evaluate_policy(
            log,
            _loaded(policy),
            baseline=None if baseline == LOGGING else _loaded(Path(baseline)),
            baseline_name=baseline,
            alpha=alpha,
            holdout=holdout,
            known=known,
            on_step=on_step,
            **source.reading(),
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
