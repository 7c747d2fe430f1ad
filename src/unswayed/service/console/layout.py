"""What all pages have in common: head, navigation, and headers that keep a browser in bounds."""

from __future__ import annotations

from importlib.resources import files

from starlette.responses import Response

from unswayed.reports.page import STYLE
from unswayed.service.console.markup import Html, joined, tag

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
