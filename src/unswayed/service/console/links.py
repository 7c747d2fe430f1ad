"""Links between pages."""

from __future__ import annotations

from urllib.parse import quote

from unswayed.service.console.markup import Html, tag


def campaign_link(name: str, path: str = "", text: object = None) -> Html:
    """Return a link to a page of a campaign."""
    return tag("a", name if text is None else text, href=f"/console/c/{name}{path}")


def user_link(name: str, user: str) -> Html:
    """Return a link to a user's page."""
    return campaign_link(name, f"/users?user={quote(user, safe='')}", user)
