"""`unswayed reproduce`: the paper's figures and theorems, with a verdict on every claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from unswayed.cli.interrupts import INTERRUPTED, say_when_stopped
from unswayed.cli.options import Json, Processes, process_count
from unswayed.experiments.reproducing import EXPERIMENTS, Outcome, find_experiment, run_and_report
from unswayed.experiments.reproducing import redraw as redrawn
from unswayed.processes import Workers
from unswayed.reports.tables import print_json, print_line, print_table, progress_bar

_STOPPED = "Stopped. Finished runs are kept: the same command resumes from there."


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help=f"Experiments [all: {', '.join(EXPERIMENTS)}].", show_default=False),
    ] = None,
    repetitions: int | None = None,
    processes: Processes = None,
    out: Path = Path("results"),
    quick: bool = False,
    redraw: bool = False,
    json: Json = False,
) -> None:
    """Run the paper's experiments and report which of its claims hold.

    Interrupt it at any time: the same command resumes where it stopped.

    repetitions: Repetitions of each cell [50, or 6 with --quick].
    out: Folder for the results; each experiment gets a subfolder.
    quick: Fewer points and repetitions: takes minutes, with wide intervals.
    redraw: Only redraw figures and verdicts from existing results.
    """
    named = [find_experiment(name) for name in dict.fromkeys(ids or EXPERIMENTS)]
    if redraw:
        drawn = [redrawn(experiment, out / experiment.id) for experiment in named]
        _print(drawn, out, as_json=json)
        return
    say_when_stopped(_STOPPED)
    try:
        with progress_bar() as progress, Workers(process_count(processes)) as workers:
            outcomes = [
                run_and_report(
                    experiment,
                    out / experiment.id,
                    workers,
                    quick=quick,
                    repetitions=repetitions,
                    on_progress=_bar(progress, experiment.id),
                )
                for experiment in named
            ]
    except KeyboardInterrupt:  # raised only if another program calls this function
        print_line(_STOPPED)
        raise typer.Exit(INTERRUPTED) from None
    _print(outcomes, out, as_json=json)


def _bar(progress: Progress, name: str) -> Callable[[int, int], None]:
    """Return a function that advances a progress bar, and adds each stage's work to its total."""
    task = progress.add_task(name, total=None)

    def advance(finished: int, expected: int) -> None:
        total = progress.tasks[task].total or 0
        progress.update(task, advance=finished, total=total + expected)

    return advance


def _print(outcomes: Sequence[Outcome], out: Path, *, as_json: bool) -> None:
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
    print_line(f"Results are in {out}/<experiment>/.")
