"""`unswayed demo-service`: the café as a service, under attack, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unswayed.cli.options import MISSING, Json, Seed
from unswayed.errors import InputError
from unswayed.reports.tables import print_json, print_line, print_table, progress_bar
from unswayed.storage import check_writable_folder


def demo_service(
    out: Annotated[Path, typer.Option(help="Folder for the picture and its data.")] = Path("demo"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run a simulated café over HTTP while a fifth of its customers lie, and plot the outcome."""
    try:
        from unswayed.demo.service import DAYS, draw_served, play_served
    except ImportError as error:
        raise InputError(MISSING) from error
    check_writable_folder(out)
    with progress_bar() as bar:
        task = bar.add_task("days", total=DAYS)
        outcome = play_served(seed=seed, on_day=lambda day: bar.update(task, completed=day))
    files = draw_served(outcome, out)
    if json:
        print_json({**outcome.to_json(), "files": [str(file) for file in files]})
        return
    print_table(
        "What is recommended in the end",
        ["when", "honest customers like best", "a naive service says", "unswayed serves"],
        [
            [context, best, outcome.naive_policy[context], outcome.served[context]]
            for context, best in outcome.best.items()
        ],
    )
    print_line(
        f"On the last day honest customers bought {outcome.robust[-1]:.0%} of what they could with "
        f"unswayed, which still explores, and {outcome.naive[-1]:.0%} with the naive service."
        f"\n\nPicture: {files[1]}"
    )
