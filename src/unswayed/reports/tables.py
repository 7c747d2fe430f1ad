"""Tables for people, JSON for programs: the one place that prints results."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

Cell = str | int | float | None


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, note: str | None = None
) -> None:
    """Print a table to standard output; columns that hold only numbers are set to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for position, column in enumerate(columns):
        is_number = all(not isinstance(row[position], str) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_shown, row))
    console = _console()
    console.print(table)
    if note:
        console.print(note)


def print_json(value: object) -> None:
    """Print a value as JSON to standard output, NaN and infinities refused."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """Print a sentence to standard output, wrapped to the terminal."""
    _console().print(text)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yield a progress bar on standard error; it is silent when that is not a terminal."""
    console = Console(file=sys.stderr)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield progress


def _console() -> Console:
    # Labels are shown as they are: "[red]" and ":tea:" are names and not markup.
    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def _shown(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case float():
            return "no bound" if math.isinf(cell) else f"{cell:.4g}"
        case _:
            return str(cell)
