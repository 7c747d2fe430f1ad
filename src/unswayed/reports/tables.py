"""Output of results on a terminal, as tables or as JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from unswayed.visible import (
    LABEL_LENGTH,
    SENTENCE_LENGTH,
    Cell,
    is_number,
    percent,
    shown,
    visible,
)

SHOWN = 10
"""Maximum number of rows that a terminal shows."""


class Table(NamedTuple):
    """Columns and rows, for a terminal (``print_some``) and for a page (``page.table``)."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def only(self, *columns: str) -> Table:
        """Return some of the columns."""
        places = [self.columns.index(column) for column in columns]
        return Table(columns, [[row[place] for place in places] for row in self.rows])


#: Control and format characters that JSON does not escape, and lone surrogates.
_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, note: str | None = None
) -> None:
    """Print a table to standard output; columns that hold only numbers are right-aligned.

    Numbers and words are never broken. A table that is too wide is printed without its frame; if it
    is still too wide, each row is printed as a list of its cells.
    """
    console = _console()
    texts = [[visible(shown(cell), most=LABEL_LENGTH) for cell in row] for row in rows]
    are_numbers = [all(is_number(row[place]) for row in rows) for place in range(len(columns))]
    by_column = [[column, *cells] for column, *cells in zip(columns, *texts, strict=True)]
    least = [
        _least_width(cells, is_numeric=is_numeric)
        for cells, is_numeric in zip(by_column, are_numbers, strict=True)
    ]
    frame, gaps = 3 * len(columns) + 1, 2 * (len(columns) - 1)
    has_frame = sum(least) + frame <= console.width
    room = console.width - (frame if has_frame else gaps) - sum(least)
    if room < 0:
        _print_rows(console, title, columns, texts)
    else:
        table = RichTable(
            title=_text(title),
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=HEAVY_HEAD if has_frame else None,
            padding=(0, 1) if has_frame else (0, 2, 0, 0),
            pad_edge=has_frame,
        )
        widths = _widths(least, [max(map(cell_len, cells)) for cells in by_column], room)
        for column, is_numeric, width in zip(columns, are_numbers, widths, strict=True):
            table.add_column(
                _text(column),
                justify="right" if is_numeric else "left",
                width=width,
                overflow="fold",
            )
        for row in texts:
            table.add_row(*map(Text, row))
        console.print(table)
    if note:
        console.print(_text(note, most=SENTENCE_LENGTH, keep="\n"))


def print_some(title: str, table: Table, *, n_rows: int | None = None, more: str = "") -> None:
    """Print the first rows of a table, if it has any, and how many more there are."""
    if table.rows:
        hidden = (len(table.rows) if n_rows is None else n_rows) - SHOWN
        note = f"And {hidden:,} more. {more}".rstrip() if hidden > 0 else None
        print_table(title, table.columns, table.rows[:SHOWN], note=note)


def _print_rows(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print each row as a list of column names and cells."""
    console.print(_text(title), style="bold")
    width = max(cell_len(column) for column in columns)
    for row in rows:
        lines = RichTable.grid(padding=(0, 2))
        lines.add_column(min_width=width, no_wrap=True)
        lines.add_column(overflow="fold")
        for column, cell in zip(columns, row, strict=True):
            lines.add_row(_text(column), Text(cell))
        console.print(lines)
        console.print()


def _widths(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Return column widths: the least ones, plus equal shares of the remaining room.

    >>> _widths([4, 5, 6], [4, 7, 20], 6)
    [4, 7, 10]
    """
    widths = list(least)
    for _ in range(max(natural, default=0)):
        for place, wanted in enumerate(natural):
            if wanted > widths[place] and room > 0:
                widths[place] += 1
                room -= 1
    return widths


def _least_width(texts: Sequence[str], *, is_numeric: bool) -> int:
    """Return the smallest width at which no word or number of a column is broken."""
    name, *cells = texts
    words = [*name.split(), *(cells if is_numeric else " ".join(cells).split())]
    return max(map(cell_len, words), default=1)


def rate(value: float | None) -> str | None:
    """Return a rate as a percentage with three digits, or None if it is unknown."""
    return None if value is None else percent(value)


def print_json(value: object) -> None:
    """Print a value as JSON to standard output; NaN and infinity are errors."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    # Control characters that JSON does not escape occur in strings, where \u009b is valid.
    sys.stdout.write(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_line(text: str, *, wrap: bool = True) -> None:
    """Print a sentence to standard output, wrapped to the width of the terminal by default."""
    _console().print(_text(text, most=SENTENCE_LENGTH, keep="\n"), soft_wrap=not wrap)


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


@contextmanager
def steps_bar(steps: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Show a progress bar over named steps, and yield a function to call as each begins."""
    with progress_bar() as bar:
        task = bar.add_task("starting", total=len(steps))

        def on_step(step: str) -> None:
            done = steps.index(step) if step in steps else len(steps)
            bar.update(task, description=step, completed=done)

        yield on_step


def _text(text: str, *, most: int = LABEL_LENGTH, keep: str = "") -> Text:
    """Return a text without markup and control characters."""
    return Text(visible(text, most=most, keep=keep))


def _console() -> Console:
    # Labels are shown literally: "[red]" and ":tea:" are names and not markup.
    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
