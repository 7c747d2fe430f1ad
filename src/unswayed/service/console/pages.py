"""Render the templates of ``assets/pages.html``, and format the values they show.

Whatever a template is given is text and is escaped, unless it is ``Markup``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from unswayed.learners.explaining import is_suspected
from unswayed.learners.features.shape import NO_LEAF
from unswayed.learners.from_log import STEPS
from unswayed.reports.page import STYLE
from unswayed.reports.svg import Strip, bars, interval_strip, text_of

#: Ours: characters of a text that are shown; labels have at most 256 bytes.
_MOST_LETTERS = 2_000

#: Ours: characters from which a cell gets a minimum width.
_LONG = 24

#: Ours: rows of tables and bars of pictures that are shown; the routes have all.
MOST_ROWS = 60
_MOST_BARS = 12
_MOST_CONTEXTS, _MOST_ACTIONS = 40, 12

#: Nothing is fetched from elsewhere, no script or style is inside of a page, nobody frames it.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # "no-referrer" would also hide from us where a form comes from.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def _read(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


#: Static files of the pages, by name; the style of reports comes first.
ASSETS = {
    "style.css": STYLE + _read("uplot.min.css") + _read("console.css"),
    "htmx.min.js": _read("htmx.min.js"),
    "uplot.min.js": _read("uplot.min.js"),
    "console.js": _read("console.js"),
    "icon.svg": _read("icon.svg"),
}


def asset(name: str) -> Response:
    """Return a file that pages load."""
    headers = {**HEADERS, "cache-control": "no-cache"}
    return Response(ASSETS[name], media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


def _text(value: object) -> Markup:
    """Escape a text; pass markup through, and None as an empty text."""
    if value is None or isinstance(value, Markup):
        return Markup() if value is None else value
    return Markup(text_of(value, most=_MOST_LETTERS))


def number(value: float | None, digits: int = 3) -> Markup:
    """Format a number for reading, with all its digits in the markup.

    >>> number(0.12345), number(1234567), number(None)
    (Markup('<data value="0.12345">0.123</data>'), Markup('<data value="1234567">1,234,567</data>'), Markup('-'))
    """  # noqa: E501  # the output is one line
    if value is None or not math.isfinite(value):
        return Markup("-")
    is_whole = isinstance(value, int) or value.is_integer()
    shown = f"{value:,.0f}" if is_whole else f"{value:.{digits}f}"
    return Markup(f'<data value="{value!r}">{shown}</data>')


def _percent(value: float | None) -> Markup:
    if value is None or not math.isfinite(value):
        return Markup("-")
    return Markup(f'<data value="{value!r}">{value:.1%}</data>')


def _moment(ms: int) -> Markup:
    """Format a time in UTC, with the full date in the markup."""
    time = datetime.fromtimestamp(ms / 1000.0, UTC)
    title = f"{time:%c} UTC"
    return Markup(
        f'<time datetime="{time.isoformat()}" title="{title}">{time:%m-%d %H:%M:%S}</time>'
    )


def _td(value: object) -> Markup:
    """Return a table cell, with a minimum width for longer texts."""
    is_long = not isinstance(value, Markup) and len(str(value)) > _LONG
    kind = ' class="long"' if is_long else ""
    return Markup(f"<td{kind}>{_text(value)}</td>")


def _span(seconds: float) -> str:
    for size, name in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{seconds:,.0f} seconds"


def _explored(
    contexts: Mapping[str, Mapping[str, Any]], plan: Mapping[str, Any]
) -> list[tuple[str, int, int, float]]:
    """Return decisions, explored ones and the planned share of contexts, the busiest first.

    Leaves of former partitions are left out.
    """
    rows = []
    for context, modes in contexts.items():
        if context not in plan["contexts"] and context != NO_LEAF:
            continue
        decided = sum(one["decisions"] for one in modes.values())
        explored = modes.get("explore", {"decisions": 0})["decisions"]
        rule = plan["contexts"].get(context, plan["unknown"])
        # Those who are held back do not explore.
        rows.append(
            (context, decided, explored, rule["explorer_share"] * (1.0 - plan["control_share"]))
        )
    return sorted(rows, key=lambda row: -row[1])[:MOST_ROWS]


def _mapped(policy: Mapping[str, Any]) -> Iterator[tuple[str, float, list[dict[str, Any]]]]:
    """Yield the cells of the map of a policy, the most visited contexts first."""
    rows, shares = policy["mean_rewards"], policy["context_probabilities"]
    plain = policy["source"].get("plain_means", {})
    changed = policy["source"].get("changed", {})
    # What all means lie in, with some room: intervals may be much wider.
    means = [cell["mean"] for row in rows.values() for cell in row.values()]
    means += [mean for row in plain.values() for mean in row.values()]
    known = [mean for mean in means if mean is not None] or [0.0]
    room = 0.25 * ((max(known) - min(known)) or 1.0)
    span = (min(known) - room, max(known) + room)
    for context in sorted(rows, key=lambda name: -(shares[name] or 0.0))[:_MOST_CONTEXTS]:
        cells = []
        for action in map(str, policy["actions"][:_MOST_ACTIONS]):
            cell, naive = rows[context][action], plain.get(context, {}).get(action)
            mean, low, high = cell["mean"], cell["low"], cell["high"]
            is_outside = naive is not None and (
                (low is not None and naive < low) or (high is not None and naive > high)
            )
            is_chosen = action == str(policy["policy"][context])
            is_naive_choice = action == str(changed.get(context))
            kinds = ["chosen"] * is_chosen + ["differs"] * (is_outside or is_naive_choice)
            strip = ""
            if mean is not None:
                strip = interval_strip(
                    Strip(mean, low, high, naive), span, title="mean and interval"
                )
            cells.append(
                {
                    **cell,
                    "naive": naive,
                    "is_chosen": is_chosen,
                    "is_naive_choice": is_naive_choice,
                    "kinds": " ".join(kinds),
                    "strip": Markup(strip),
                }
            )
        yield context, shares[context], cells


def _summary(lies: Sequence[Mapping[str, Any]], changed: Mapping[str, Any]) -> str:
    suspected = sum(lie["accounts"] for lie in lies if is_suspected(lie))
    doubt = f" About {suspected:,.0f} accounts are suspected and still count." if suspected else ""
    if all(map(is_suspected, lies)):
        return f"No coalition was found in the decisions that the policy was learned from.{doubt}"
    accounts = sum(lie["accounts"] for lie in lies if not is_suspected(lie))
    effect = (
        f"naive means would decide differently in {len(changed):,} contexts."
        if changed
        else "naive means would still decide the same."
    )
    return f"About {accounts:,.0f} accounts stand out and no longer count; {effect}{doubt}"


def _shifts(items: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [(str(item["action"]), item["shift"]) for item in items[:_MOST_BARS]]
    return Markup(bars(rows, title="shift of each action's mean"))


_environment = Environment(
    autoescape=True, undefined=StrictUndefined, finalize=_text, trim_blocks=True, lstrip_blocks=True
)
_environment.filters.update(
    number=number,
    percent=_percent,
    moment=_moment,
    td=_td,
    span=_span,
    explored=_explored,
    mapped=_mapped,
    summary=_summary,
    shifts=_shifts,
    suspected=is_suspected,
    sentence=lambda text: text[:1].upper() + text[1:],
    quoted=lambda text: quote(text, safe=""),
    exact=lambda text: Markup(html.escape(text)),
)
_environment.globals.update(
    most_rows=MOST_ROWS,
    most_contexts=_MOST_CONTEXTS,
    most_actions=_MOST_ACTIONS,
    #: A learning's steps, in order.
    steps=("exporting", *STEPS, "publishing"),
)
_templates = _environment.from_string(_read("pages.html")).module


def content(name: str, *values: object) -> Markup:
    """Render a macro of the templates."""
    made: Markup = getattr(_templates, name)(*values)
    return made


def fragment(name: str, *values: object, status: int = 200) -> Response:
    """Return a part of a page, for htmx to swap in."""
    return _response(content(name, *values), status)


def page(
    title: str,
    inside: Markup,
    *,
    campaign: str | None = None,
    area: str = "",
    is_signed_in: bool = False,
    status: int = 200,
) -> Response:
    """Return a whole page; ``campaign`` and ``area`` say where in the navigation it is."""
    return _response(content("page", title, inside, campaign, area, is_signed_in).lstrip(), status)


def _response(markup: str, status: int) -> Response:
    return Response(markup, status_code=status, media_type="text/html", headers=HEADERS)
