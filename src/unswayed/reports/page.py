"""Self-contained HTML pages: style, security policy, contents, sections and tables.

Pages load nothing from the network. Their only script sorts, filters and downloads tables; without
it, tables are shown in full.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from unswayed.reports.svg import text_of
from unswayed.storage import whole_file
from unswayed.visible import Cell, is_number
from unswayed.visible import shown as shown_cell

SHORT = 24
"""Length in characters up to which a cell never wraps; longer ones get a minimum width."""

STYLE, SCRIPT = (
    (Path(__file__).parent / "assets" / name).read_text("utf-8") for name in ("page.css", "page.js")
)


def page(
    title: str,
    source: str,
    sizes: str,
    answer: str,
    kind: str,
    numbers: Sequence[tuple[str, str]],
    sections: Sequence[str],
) -> str:
    """Return a page whose security policy only allows ``SCRIPT`` and no network.

    It starts with the title, the answer in a box with the class ``kind``, and ``numbers`` with
    their meanings.
    """
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (STYLE, SCRIPT)
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )
    headings = re.findall(r'<section id="([^"]*)"><h2>([^<:]*)', "".join(sections))
    links = "".join(f'<a href="#{place}">{heading}</a>' for place, heading in headings)
    tiles = "".join(
        f'<div class="tile"><b>{text_of(value)}</b><span>{text_of(name)}</span></div>'
        for value, name in numbers
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{text_of(f'{title}, {source}')}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            f"<h1>{text_of(title)}</h1>",
            paragraph(f"{source}. {sizes}", "soft"),
            f'<div class="answer {kind}">{text_of(answer, most=4_000)}</div>',
            f'<div class="tiles">{tiles}</div>',
            f'<nav aria-label="Contents">{links}</nav>',
            *sections,
            f"</main><script>{SCRIPT}</script></body></html>\n",
        ]
    )


def write_page(text: str, path: Path) -> None:
    """Write a page."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def section(title: str, *parts: str) -> str:
    """Return a section; the table of contents shows its heading up to a colon."""
    place = re.sub(r"[^a-z0-9]+", "-", title.partition(":")[0].lower()).strip("-")
    return f'<section id="{place}"><h2>{text_of(title)}</h2>{"".join(parts)}</section>'


def beside(*parts: str) -> str:
    """Place parts side by side if there is room."""
    return f'<div class="beside">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    name = f' class="{kind}"' if kind else ""
    return f"<p{name}>{text_of(text, most=4_000)}</p>"


def key(*pairs: tuple[str, str]) -> str:
    """Return a legend; each pair has a colour class and its meaning."""
    return (
        '<p class="small soft">'
        + "".join(f'<span class="key {kind}"></span>{text_of(name)}' for kind, name in pairs)
        + "</p>"
    )


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    shown: int = 10,
    name: str | None = None,
) -> str:
    """Return a table; rows beyond the first ones are collapsed.

    A table with a name can be sorted, filtered and downloaded.
    """
    if not rows:
        return paragraph("None.", "soft")
    are_numbers = [
        any(row[at] is not None for row in rows) and all(map(is_number, (row[at] for row in rows)))
        for at in range(len(columns))
    ]
    number, more = ' class="number"', ' class="more"'
    head = "".join(
        f"<th{number if is_numeric else ''}>{text_of(column)}</th>"
        for column, is_numeric in zip(columns, are_numbers, strict=True)
    )
    lines = [
        f"<tr{more if at >= shown else ''}>{''.join(map(_cell, row, are_numbers))}</tr>"
        for at, row in enumerate(rows)
    ]
    fold = ""
    if len(rows) > shown:
        box = '<input type="checkbox" class="unfold">'
        fold = f'<label class="small soft">{box}all {len(rows):,} rows</label>'
    mark = "" if name is None else f' data-name="{text_of(name)}" data-shown="{shown}"'
    return (
        f'<div class="folded">{fold}<div class="wide"><table{mark}><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div></div>"
    )


def _cell(value: Cell, is_numeric: bool) -> str:
    text = shown_cell(value)
    kind = "number" if is_numeric else "short" if len(text) <= SHORT else "long"
    return f'<td class="{kind}">{text_of(text, most=400)}</td>'
