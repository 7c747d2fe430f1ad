"""A page in one file: its style, its security policy, tables and sections; no script."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence

from unswayed.reports.svg import text_of

Value = str | float | int | None

LONG = 60
"""Length in characters from which a cell gets a minimum width."""

STYLE = """
:root{color-scheme:light dark;--back:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#57606a;
--rule:#d8dee4;--naive:#d55e00;--robust:#0072b2;--null:#555;--good:#00704f}
@media (prefers-color-scheme:dark){:root{--back:#0f1318;--card:#1a2027;--ink:#e6edf3;--soft:#9aa5b1;
--rule:#323b45;--naive:#ff9449;--robust:#58b3e8;--null:#b5bec8;--good:#3fcf9c}}
*{box-sizing:border-box}
body{margin:0;overflow-wrap:anywhere;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:24px 20px 64px}
h1{font-size:1.35rem;margin:0 0 4px}h2{font-size:1.15rem;margin:40px 0 8px}
h3{font-size:1rem;margin:18px 0 0}.card h3{margin:0}
p{margin:6px 0}.soft{color:var(--soft)}.small{font-size:.87rem}
.answer{background:var(--card);border-left:6px solid var(--good);padding:14px 18px;margin:18px 0;
font-size:1.12rem;border-radius:4px}.answer.attacked{border-color:var(--naive)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.tile,.card{background:var(--card);border-radius:6px;padding:12px 14px;overflow-wrap:anywhere}
.tile b{display:block;font-size:1.35rem}.tile span{color:var(--soft);font-size:.85rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));gap:14px}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top;
overflow-wrap:anywhere;min-width:4.2em}th{color:var(--soft);font-weight:600;white-space:nowrap}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}td.long{min-width:15em}
td.number{white-space:nowrap}.card th{white-space:normal}.card td,.card th{min-width:0}
svg{display:block;width:100%;max-width:640px;height:auto;margin:8px 0}.card svg{max-width:380px}
.naive{fill:var(--naive)}.robust{fill:var(--robust)}.axis{stroke:var(--soft);stroke-width:1}
.null{fill:none;stroke:var(--null);stroke-width:1.5;stroke-dasharray:4 3}
.area{opacity:.55}.line{fill:none;stroke-width:2.5}.line.naive{stroke:var(--naive);fill:none}
.line.robust{stroke:var(--robust);fill:none}.line.null{stroke:var(--null)}
.label{fill:var(--ink);font:12px system-ui,sans-serif}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .9em;border-radius:2px}
.key.naive{background:var(--naive)}.key.robust{background:var(--robust)}
details summary{cursor:pointer;padding:6px 0;color:var(--robust)}
:focus-visible{outline:2px solid var(--robust);outline-offset:2px}
@media (max-width:600px){main{padding:16px 12px 48px}.answer{font-size:1.02rem}}
@media print{details>*{display:block}}
"""


def page(title: str, body: Sequence[str]) -> str:
    """Return a whole page; nothing on it may be fetched or run."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{text_of(title)}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def section(title: str, *parts: str) -> str:
    """Return a section with its heading."""
    return f"<section><h2>{text_of(title)}</h2>{''.join(parts)}</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    name = f' class="{kind}"' if kind else ""
    return f"<p{name}>{text_of(text, most=4_000)}</p>"


def tiles(pairs: Sequence[tuple[str, str]]) -> str:
    """Return numbers with what they mean below."""
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{text_of(value)}</b><span>{text_of(name)}</span></div>'
            for value, name in pairs
        )
        + "</div>"
    )


def key(*pairs: tuple[str, str]) -> str:
    """Return what colours mean; each pair is a class and its meaning."""
    return (
        '<p class="small soft">'
        + "".join(f'<span class="key {kind}"></span>{text_of(name)}' for kind, name in pairs)
        + "</p>"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[Value]], *, shown: int = 10) -> str:
    """Return a table; rows beyond those shown are folded in."""
    if not rows:
        return paragraph("None.", "soft")
    is_number = [
        any(row[at] is not None for row in rows)
        and all(not isinstance(row[at], str) for row in rows)
        for at in range(len(columns))
    ]
    head = "".join(
        f"<th{_number_class(number)}>{text_of(name)}</th>"
        for name, number in zip(columns, is_number, strict=True)
    )
    lines = ["<tr>" + "".join(map(_cell, row, is_number)) + "</tr>" for row in rows]
    first = _table(head, lines[:shown])
    if len(lines) <= shown:
        return first
    rest = _table(head, lines[shown:])
    return f"{first}<details><summary>{len(lines) - shown:,} more</summary>{rest}</details>"


def _table(head: str, lines: Sequence[str]) -> str:
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _cell(value: Value, is_number: bool) -> str:
    match value:
        case None:
            text = "-"
        case float():
            text = f"{value:.4g}" if math.isfinite(value) else "-"
        case int():
            text = f"{value:,}"
        case _:
            text = value
    is_long = not is_number and len(text) > LONG
    kind = ' class="long"' if is_long else _number_class(is_number)
    return f"<td{kind}>{text_of(text, most=400)}</td>"
