"""`unswayed reproduce`: the paper's figures and theorems, with a verdict on every claim."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from unswayed.experiments.registry import IDS, find_experiment
from unswayed.experiments.reproducing import Outcome, redraw, run_and_report
from unswayed.experiments.running import Workers
from unswayed.reports.tables import print_json, print_line, print_table, progress_bar

INTERRUPTED = 130
"""What shells expect of a command that Ctrl-C ended."""


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help=f"Experiments [all]: {', '.join(IDS)}.", show_default=False),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="Repetitions of every cell [50, or 8 with --quick].")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes to spread over [all cores]; changes no number.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results, one folder an experiment.")
    ] = Path("results"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points and repetitions: minutes, wide intervals.")
    ] = False,
    redraw_only: Annotated[
        bool, typer.Option("--redraw", help="Only draw and judge the results that are there.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Run the paper's experiments and say which of its claims hold.

    Stop it whenever you like: the same command goes on where it was.
    """
    experiments = [find_experiment(name) for name in dict.fromkeys(ids or IDS)]
    if redraw_only:
        outcomes = [redraw(experiment, out / experiment.id) for experiment in experiments]
        _print(outcomes, out, as_json=json)
        return
    try:
        with progress_bar() as progress, Workers(processes or os.cpu_count() or 1) as workers:
            outcomes = [
                run_and_report(
                    experiment,
                    out / experiment.id,
                    workers,
                    quick=quick,
                    repetitions=repetitions,
                    watcher=_Bar(progress, experiment.id),
                )
                for experiment in experiments
            ]
    except KeyboardInterrupt:
        print_line("Stopped. What was finished is kept: the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    _print(outcomes, out, as_json=json)


class _Bar:
    """A line of the progress bar, whose length becomes known stage by stage."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)
        self._total = 0

    def expect(self, n: int) -> None:
        self._total += n
        self._progress.update(self._task, total=self._total)

    def advance(self, n: int) -> None:
        self._progress.advance(self._task, n)


def _print(outcomes: list[Outcome], out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])
        return
    for outcome in outcomes:
        print_table(
            f"{outcome.title} ({outcome.repetitions} repetitions)",
            ["verdict", "claim", "estimate", "from", "to"],
            [
                [claim.verdict.value, claim.statement, claim.estimate, claim.low, claim.high]
                for claim in outcome.claims
            ],
        )
    print_line(f"Figures, results and claims are in {out}/<experiment>/.")
