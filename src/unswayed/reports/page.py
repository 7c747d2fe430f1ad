"""A page in one file: its style, its security policy, contents, tables and sections.

Nothing is fetched. One script sorts, filters and downloads tables; without it they are all there.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from unswayed.reports.svg import text_of
from unswayed.storage import whole_file
from unswayed.visible import is_number, number

Value = str | float | int | None

SHORT = 24
"""Length in characters up to which a cell never wraps; longer ones get a minimum width."""

STYLE = """
:root{color-scheme:light dark;--back:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#57606a;
--rule:#d8dee4;--naive:#d55e00;--robust:#0072b2;--null:#555;--good:#00704f;--doubt:#b58900}
@media (prefers-color-scheme:dark){:root{--back:#0f1318;--card:#1a2027;--ink:#e6edf3;--soft:#9aa5b1;
--rule:#323b45;--naive:#ff9449;--robust:#58b3e8;--null:#b5bec8;--good:#3fcf9c;--doubt:#e3b341}}
*{box-sizing:border-box}
body{margin:0;overflow-wrap:break-word;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:24px 20px 64px}
h1{font-size:1.35rem;margin:0 0 4px}h2{font-size:1.15rem;margin:40px 0 8px}
h3{font-size:1rem;margin:18px 0 0}.card h3{margin:0}
p{margin:6px 0}.soft{color:var(--soft)}.small{font-size:.87rem}
.answer{background:var(--card);border-left:6px solid var(--good);padding:14px 18px;margin:18px 0;
font-size:1.12rem;border-radius:4px}.answer.attacked{border-color:var(--naive)}
.answer.suspected{border-color:var(--doubt)}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:18px 0 0;font-size:.9rem}
nav a,.case a{color:var(--robust)}section{scroll-margin-top:8px}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));
gap:8px 28px;align-items:start}.beside>*{min-width:0}
.tools{display:flex;gap:12px;align-items:center;margin:6px 0;font-size:.85rem}
.tools input{font:inherit;padding:2px 6px;max-width:12em;color:inherit;background:var(--card);
border:1px solid var(--rule);border-radius:4px}.tools a{color:var(--robust);cursor:pointer}
.unfold{margin:8px 6px 8px 0}.folded:not(:has(.unfold:checked)) tr.more{display:none}
.map td,.map th+th{text-align:center;white-space:nowrap}.map .naive{color:var(--naive)}
.map .robust{color:var(--robust)}th[aria-sort]{text-decoration:underline}
.cases{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,240px),1fr));gap:0 24px}
.case{border-top:1px solid var(--rule);min-width:0}.case[open]{grid-column:1/-1}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.tile,.card{background:var(--card);border-radius:6px;padding:12px 14px;overflow-wrap:anywhere}
.tile b{display:block;font-size:1.35rem}.tile span{color:var(--soft);font-size:.85rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));gap:14px}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top;
overflow-wrap:break-word}th{color:var(--soft);font-weight:600}td.short{white-space:nowrap}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}td.long{min-width:15em}
td.number{white-space:nowrap}
svg{display:block;width:100%;max-width:640px;height:auto;margin:8px 0}.card svg{max-width:380px}
.naive{fill:var(--naive)}.robust{fill:var(--robust)}.axis{stroke:var(--soft);stroke-width:1}
.area{opacity:.55}
.label{fill:var(--ink);font:12px system-ui,sans-serif}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .9em;border-radius:2px}
.logged{fill:var(--null)}.key.logged{background:var(--null)}
.key.naive{background:var(--naive)}.key.robust{background:var(--robust)}
details summary{cursor:pointer;padding:6px 0;color:var(--robust)}
:focus-visible{outline:2px solid var(--robust);outline-offset:2px}
@media (max-width:600px){main{padding:16px 12px 48px}.answer{font-size:1.02rem}}
@media print{details>*,tr.more{display:revert!important}.tools,.unfold{display:none}}
"""

SCRIPT = r"""
for (const table of document.querySelectorAll("table[data-name]")) {
  const body = table.tBodies[0], rows = [...body.rows], shown = Number(table.dataset.shown)
  const text = (row, at) => row.cells[at].textContent
  const number = (row, at) => parseFloat(text(row, at).replace(/[,%]/g, ""))
  const tools = document.createElement("div"), find = document.createElement("input")
  const save = document.createElement("a")
  const lay = () => {
    const word = find.value.toLowerCase()
    let place = 0
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(word)
      row.classList.toggle("more", !word && !row.hidden && place++ >= shown)
      body.append(row)
    }
  }
  ;[...table.tHead.rows[0].cells].forEach((head, at) => {
    head.tabIndex = 0
    head.onclick = () => {
      const up = head.getAttribute("aria-sort") === "descending" ? 1 : -1
      const numeric = head.classList.contains("number")
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort")
      head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending")
      rows.sort((a, b) => up * (numeric ? (number(a, at) || 0) - (number(b, at) || 0)
        : text(a, at).localeCompare(text(b, at))))
      lay()
    }
    head.onkeydown = (event) => { if (event.key === "Enter") head.click() }
  })
  find.placeholder = "filter"
  find.setAttribute("aria-label", "filter " + table.dataset.name)
  find.oninput = lay
  save.textContent = "download CSV"
  save.tabIndex = 0
  save.onclick = () => {
    const quoted = (cell) => {
      const safe = cell.textContent.replace(/^([=+@\t\r])/, "'$1")
      return '"' + safe.replace(/"/g, '""') + '"'
    }
    const lines = [...table.rows].map((row) => [...row.cells].map(quoted).join(","))
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "text/csv"}))
    link.download = table.dataset.name + ".csv"
    link.click()
    URL.revokeObjectURL(link.href)
  }
  save.onkeydown = (event) => { if (event.key === "Enter") save.click() }
  tools.className = "tools"
  if (rows.length > 5) tools.append(find)
  tools.append(save)
  table.parentElement.before(tools)
}
"""
"""Sorts a table by a column, filters its rows, and downloads it. Cells that a spreadsheet would run
as a formula are quoted."""


def page(title: str, body: Sequence[str]) -> str:
    """Return a whole page; nothing may be fetched, and nothing run but ``SCRIPT``."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (STYLE, SCRIPT)
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )
    first = next((at for at, part in enumerate(body) if part.startswith("<section")), len(body))
    body = [*body[:first], _contents(body[first:]), *body[first:]]
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
            f"</main><script>{SCRIPT}</script></body></html>\n",
        ]
    )


def write_page(text: str, path: Path) -> None:
    """Write a page."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def section(title: str, *parts: str) -> str:
    """Return a section with its heading, which the contents list up to a colon."""
    place = re.sub(r"[^a-z0-9]+", "-", title.partition(":")[0].lower()).strip("-")
    return f'<section id="{place}"><h2>{text_of(title)}</h2>{"".join(parts)}</section>'


def _contents(sections: Sequence[str]) -> str:
    found = re.findall(r'<section id="([^"]*)"><h2>([^<:]*)', "".join(sections))
    links = "".join(f'<a href="#{place}">{title}</a>' for place, title in found)
    return f'<nav aria-label="Contents">{links}</nav>'


def beside(*parts: str) -> str:
    """Return parts next to each other where there is room."""
    return f'<div class="beside">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


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


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Value]],
    *,
    shown: int = 10,
    name: str | None = None,
) -> str:
    """Return a table; rows beyond those shown are folded in.

    A table with a name can be sorted, filtered and downloaded.
    """
    if not rows:
        return paragraph("None.", "soft")
    are_numbers = [
        any(row[at] is not None for row in rows) and all(map(is_number, (row[at] for row in rows)))
        for at in range(len(columns))
    ]
    head = "".join(
        f"<th{_number_class(number)}>{text_of(name)}</th>"
        for name, number in zip(columns, are_numbers, strict=True)
    )
    more = ' class="more"'
    lines = [
        f"<tr{more if at >= shown else ''}>" + "".join(map(_cell, row, are_numbers)) + "</tr>"
        for at, row in enumerate(rows)
    ]
    fold = (
        f'<label class="small soft"><input type="checkbox" class="unfold">all {len(rows):,} rows'
        "</label>"
        if len(lines) > shown
        else ""
    )
    mark = "" if name is None else f' data-name="{text_of(name)}" data-shown="{shown}"'
    return (
        f'<div class="folded">{fold}<div class="wide"><table{mark}><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div></div>"
    )


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _cell(value: Value, is_numeric: bool) -> str:
    match value:
        case None:
            text = "-"
        case float():
            text = number(value, 4)
        case int():
            text = f"{value:,}"
        case _:
            text = value
    length = "" if is_numeric else "short" if len(text) <= SHORT else "long"
    kind = f' class="{length}"' if length else _number_class(is_numeric)
    return f"<td{kind}>{text_of(text, most=400)}</td>"
