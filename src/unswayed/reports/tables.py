"""Tables for people, JSON for programs: the one place that prints results."""

from __future__ import annotations

import json
import math
import re
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
from rich.text import Text

from unswayed.visible import LABEL_LENGTH, SENTENCE_LENGTH, visible

Cell = str | int | float | None

#: Control and format characters that JSON leaves as they are, and halves of surrogate pairs.
_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, note: str | None = None
) -> None:
    """Print a table to standard output; columns that hold only numbers are set to the right."""
    table = Table(title=_text(title), title_justify="left", title_style="bold", header_style="bold")
    for position, column in enumerate(columns):
        is_number = all(not isinstance(row[position], str) for row in rows)
        table.add_column(_text(column), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(_shown(cell)) for cell in row))
    console = _console()
    console.print(table)
    if note:
        console.print(_text(note, most=SENTENCE_LENGTH, keep="\n"))


def print_json(value: object) -> None:
    """Print a value as JSON to standard output, NaN and infinities refused."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    # Controls beyond those that JSON escapes by itself stand in strings, where \u009b means them.
    sys.stdout.write(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_line(text: str) -> None:
    """Print a sentence to standard output, wrapped to the terminal."""
    _console().print(_text(text, most=SENTENCE_LENGTH, keep="\n"))


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


def _text(text: str, *, most: int = LABEL_LENGTH, keep: str = "") -> Text:
    """Return a text as it is shown: not as markup, and without characters that act."""
    return Text(visible(text, most=most, keep=keep))


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
