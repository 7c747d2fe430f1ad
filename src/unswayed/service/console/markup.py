"""Markup that is safe by construction, and what all pages share: head, navigation, headers.

Whatever is not made here is text, and is escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from unswayed.reports.page import STYLE
from unswayed.reports.svg import text_of

#: Ours: letters of a text that are shown; labels have at most 256 bytes.
_MOST_LETTERS = 2_000

#: Ours: letters from which a cell is given room.
_LONG = 24

#: Ours: rows of tables and bars of pictures that are shown; the routes have all.
MOST_ROWS = 60
MOST_BARS = 12

_EMPTY = frozenset({"input", "link", "meta"})

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


class Html(str):
    """Markup; any other text is data."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; children that are not ``Html`` are escaped, and None is left out.

    ``_`` in names of attributes stands for ``-``, a last one is dropped; True has no value.

    >>> tag("a", "<b>", href='/?q="', class_="x", hidden=None)
    '<a href="/?q=&quot;" class="x">&lt;b&gt;</a>'
    """
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Html:
    """Return children one after the other, escaped unless they are ``Html``."""
    return Html("".join(_one(child) for child in children if child is not None))


def _one(child: object) -> str:
    return child if isinstance(child, Html) else text_of(child, most=_MOST_LETTERS)


def number(value: float | None, digits: int = 3) -> Html:
    """Return a number as people read it, with all its digits in the markup.

    >>> number(0.12345), number(1234567), number(None)
    ('<data value="0.12345">0.123</data>', '<data value="1234567">1,234,567</data>', '-')
    """
    if value is None or not math.isfinite(value):
        return Html("-")
    is_whole = isinstance(value, int) or value.is_integer()
    shown = f"{value:,.0f}" if is_whole else f"{value:.{digits}f}"
    return tag("data", shown, value=repr(value))


def percent(value: float | None) -> Html:
    """Return a share in percent, with all its digits in the markup."""
    if value is None or not math.isfinite(value):
        return Html("-")
    return tag("data", f"{value:.1%}", value=repr(value))


def moment(ms: int) -> Html:
    """Return a time of UTC, to the second; the year is in the markup."""
    time = datetime.fromtimestamp(ms / 1000.0, UTC)
    return tag("time", f"{time:%m-%d %H:%M:%S}", datetime=time.isoformat(), title=f"{time:%c} UTC")


def section(title: object, *parts: object, **attributes: object) -> Html:
    """Return a section with its heading."""
    return tag("section", tag("h2", title), *parts, **attributes)


def soft(*parts: object) -> Html:
    """Return a remark."""
    return tag("p", *parts, class_="soft small")


def tiles(pairs: Iterable[tuple[object, str]]) -> Html:
    """Return numbers with what they mean below."""
    return tag(
        "div",
        *(tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in pairs),
        class_="tiles",
    )


def table(name: str, columns: Iterable[object], rows: Iterable[Iterable[Any]]) -> Html:
    """Return a table that scrolls by itself where it is wider than the screen."""
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in columns)))
    lines = [tag("tr", *(cell if _is_cell(cell) else _cell(cell) for cell in row)) for row in rows]
    return tag(
        "div",
        tag("table", head, tag("tbody", *lines)),
        class_="wide",
        role="region",
        aria_label=name,
        tabindex="0",
    )


def _cell(value: object) -> Html:
    """Return a cell; longer texts are given room, so that they do not stand letter by letter."""
    is_long = not isinstance(value, Html) and len(str(value)) > _LONG
    return tag("td", value, class_="long" if is_long else None)


def _is_cell(value: object) -> bool:
    return isinstance(value, Html) and value.startswith(("<td", "<th"))


def colours(*pairs: tuple[str, str]) -> Html:
    """Return what colours mean; each pair is a class and its meaning."""
    return tag(
        "p",
        *(part for kind, text in pairs for part in (tag("span", class_=f"key {kind}"), text)),
        class_="small soft",
    )


def campaign_link(name: str, path: str = "", text: object = None) -> Html:
    """Return a link to a page of a campaign."""
    return tag("a", name if text is None else text, href=f"/console/c/{name}{path}")


def user_link(name: str, user: str) -> Html:
    """Return a link to a user's page."""
    return campaign_link(name, f"/users?user={quote(user, safe='')}", user)


def policy_name(version: int) -> str:
    """Return what a version of the policy is called."""
    return "nothing learned (0)" if version == 0 else f"policy {version}"


def _read(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


#: What pages load, by name; the reports' own style comes first.
ASSETS = {
    "style.css": STYLE + _read("uplot.min.css") + _read("console.css"),
    "htmx.min.js": _read("htmx.min.js"),
    "uplot.min.js": _read("uplot.min.js"),
    "console.js": _read("console.js"),
    "icon.svg": _read("icon.svg"),
}

_AREAS = (
    ("", "Overview"),
    ("/policies", "Policies"),
    ("/jobs", "Learning"),
    ("/audit", "Audit"),
    ("/users", "Users"),
)


def asset(name: str) -> Response:
    """Return a file that pages load."""
    return Response(
        ASSETS[name],
        media_type=_TYPES[name.rpartition(".")[2]],
        headers={**HEADERS, "cache-control": "no-cache"},
    )


def page(
    title: str,
    *parts: object,
    campaign: str | None = None,
    area: str = "",
    is_signed_in: bool = False,
    status: int = 200,
) -> Response:
    """Return a whole page; ``campaign`` and ``area`` say where in the navigation it is."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="htmx-config", content='{"includeIndicatorCSS":false,"history":false}'),
        tag("title", f"{title} · unswayed"),
        tag("link", rel="icon", href="/console/assets/icon.svg"),
        tag("link", rel="stylesheet", href="/console/assets/style.css"),
        *(
            tag("script", src=f"/console/assets/{name}", defer=True)
            for name in ("htmx.min.js", "uplot.min.js", "console.js")
        ),
    )
    body = tag(
        "body",
        tag("a", "Skip to content", href="#content", class_="skip"),
        _bar(campaign, area, is_signed_in),
        tag("main", tag("h1", title), *parts, id="content"),
    )
    document = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    return Response(document, status_code=status, media_type="text/html", headers=HEADERS)


def fragment(*parts: object, status: int = 200) -> Response:
    """Return a part of a page that takes the place of an older one."""
    return Response(joined(parts), status_code=status, media_type="text/html", headers=HEADERS)


def _bar(campaign: str | None, area: str, is_signed_in: bool) -> Html:
    links: list[object] = [tag("a", "unswayed", href="/", class_="brand")]
    if campaign is not None:
        links += [
            tag(
                "a",
                f"{campaign}" if not path else name,
                href=f"/console/c/{campaign}{path}",
                aria_current="page" if path == area else None,
            )
            for path, name in _AREAS
        ]
    if is_signed_in:
        links.append(
            tag(
                "form",
                tag("button", "Sign out", class_="plain"),
                method="post",
                action="/console/logout",
            )
        )
    return tag("header", tag("nav", *links, aria_label="Pages"))
