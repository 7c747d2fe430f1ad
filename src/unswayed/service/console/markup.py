"""Markup that is safe by construction: whatever is not made here is text, and is escaped; links."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from unswayed.reports.svg import text_of

#: Ours: letters of a text that are shown; labels have at most 256 bytes.
_MOST_LETTERS = 2_000

#: Ours: letters from which a cell is given room.
_LONG = 24

#: Ours: rows of tables and bars of pictures that are shown; the routes have all.
MOST_ROWS = 60
MOST_BARS = 12

_EMPTY = frozenset({"input", "link", "meta"})


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
