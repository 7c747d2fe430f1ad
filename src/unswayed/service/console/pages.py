"""Pages of the console: the results of the service's own routes, as HTML.

Access requires an admin's key, or is limited to this machine while there is no key. Templates are
in ``assets/pages.html``; all values are escaped, unless they are ``Markup``.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from unswayed.learners.explaining import is_suspected
from unswayed.learners.features.shape import NO_LEAF
from unswayed.learners.from_log import STEPS
from unswayed.policy.partition import EVERYBODY
from unswayed.reports.page import STYLE
from unswayed.reports.svg import Strip, bars, interval_strip, text_of
from unswayed.service import endpoints
from unswayed.service.calls import Call, check_origin, read_body, refusal_of
from unswayed.service.catalogue import now_ms
from unswayed.service.errors import Refusal
from unswayed.service.jobs import counted
from unswayed.service.keys import EVERY_CAMPAIGN, Key, key_of
from unswayed.service.service import Service

COOKIE = "unswayed_console"

SESSION_SECONDS = 12 * 3600  # Ours: lifetime of a session
_LONGEST_FORM = 4_096  # Ours: bytes of a login form; a key has 64 characters
_MOST_LETTERS = 2_000  # Ours: maximum length of a shown text; labels have at most 256 bytes
_LONG = 24  # Ours: length from which a cell gets a minimum width

#: Ours: maximum number of rows in tables and of bars in charts; the routes return everything.
MOST_ROWS = 60
_MOST_BARS = 12
_MOST_CONTEXTS, _MOST_ACTIONS = 40, 12

#: No resource of other hosts, no inline scripts or styles, no frames.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # "no-referrer" would hide from the service which site sent a form.
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


def _text(value: object) -> Markup:
    """Escape a text; markup is returned unchanged, and None as an empty text."""
    if value is None or isinstance(value, Markup):
        return Markup() if value is None else value
    return Markup(text_of(value, most=_MOST_LETTERS))


def number(value: float | None, digits: int = 3, kind: str | None = None) -> Markup:
    """Format a number for reading, with all its digits in the markup.

    >>> number(0.12345), number(1234567), number(None)
    (Markup('<data value="0.12345">0.123</data>'), Markup('<data value="1234567">1,234,567</data>'), Markup('-'))
    """  # noqa: E501  # the output is one line
    if value is None or not math.isfinite(value):
        return Markup("-")
    if kind is None:
        kind = ",.0f" if isinstance(value, int) or value.is_integer() else f".{digits}f"
    return Markup(f'<data value="{value!r}">{value:{kind}}</data>')


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
    """Return (context, decisions, explored decisions, planned share), the busiest first.

    Leaves of earlier partitions are left out.
    """
    rows = []
    for context, modes in contexts.items():
        if context not in plan["contexts"] and context != NO_LEAF:
            continue
        decided = sum(one["decisions"] for one in modes.values())
        explored = modes.get("explore", {"decisions": 0})["decisions"]
        rule = plan["contexts"].get(context, plan["unknown"])
        # The control group does not explore.
        rows.append(
            (context, decided, explored, rule["explorer_share"] * (1.0 - plan["control_share"]))
        )
    return sorted(rows, key=lambda row: -row[1])[:MOST_ROWS]


def _mapped(policy: Mapping[str, Any]) -> Iterator[tuple[str, float, list[dict[str, Any]]]]:
    """Yield (context, share of visits, cells) of a policy's map, the most visited first."""
    rows, shares = policy["mean_rewards"], policy["context_probabilities"]
    plain = policy["source"].get("plain_means", {})
    changed = policy["source"].get("changed", {})
    # The range of all means, with a margin; intervals may be much wider.
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


_environment = Environment(
    autoescape=True, undefined=StrictUndefined, finalize=_text, trim_blocks=True, lstrip_blocks=True
)
_environment.filters.update(
    number=number,
    percent=lambda value: number(value, kind=".1%"),
    moment=_moment,
    td=_td,
    span=_span,
    explored=_explored,
    mapped=_mapped,
    summary=_summary,
    shifts=lambda items: Markup(
        bars(
            [(str(item["action"]), item["shift"]) for item in items[:_MOST_BARS]],
            title="shift of each action's mean",
        )
    ),
    suspected=is_suspected,
    sentence=lambda text: text[:1].upper() + text[1:],
    quoted=lambda text: quote(text, safe=""),
    exact=lambda text: Markup(html.escape(text)),
)
_environment.globals.update(
    most_rows=MOST_ROWS,
    most_contexts=_MOST_CONTEXTS,
    most_actions=_MOST_ACTIONS,
    #: Steps of a learning job, in order.
    steps=("exporting", *STEPS, "publishing"),
)
_templates = _environment.from_string(_read("pages.html")).module


def content(name: str, *values: object) -> Markup:
    """Render a macro of the templates."""
    made: Markup = getattr(_templates, name)(*values)
    return made


def _html(markup: str, status: int = 200) -> Response:
    return Response(markup, status, HEADERS, "text/html")


def _sorry(refusal: Refusal) -> Response:
    return _page("That did not work", "sorry", refusal.message, status=refusal.status)


def _to(address: str) -> Response:
    # Status 303 makes the browser use GET, so that reloading does not submit the form again.
    return RedirectResponse(address, status_code=303, headers=HEADERS)


#: The viewer if there are no keys, who may see every campaign.
_NOBODY = Key("", EVERY_CAMPAIGN, "admin", "", 0)

Show = Callable[[Call, Key], Awaitable[Response]]
Handler = Callable[[Request], Awaitable[Response]]
Source = Callable[[Call], Awaitable[Any]]


def _viewer_of(request: Request) -> Key | None:
    """Return the key of the admin who is signed in; None if they have to sign in first."""
    service: Service = request.app.state.service
    if not service.needs_keys:
        check_origin(dict(request.scope["headers"]))
        return _NOBODY
    key_id, _, rest = request.cookies.get(COOKIE, "").partition(".")
    expires, _, given = rest.partition(".")
    key = service.watcher.state.keys.get(key_id)
    if key is None or not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
        return None
    is_tagged = hmac.compare_digest(given.encode(), _session_tag(service, key, expires).encode())
    if not is_tagged or int(expires) < time.time() or key.role != "admin":
        return None
    service.rates.take(key.id)
    return key


def _session_tag(service: Service, key: Key, expires: str) -> str:
    # The prefix separates these tags from other uses of the secret.
    said = f"unswayed console session {key.id} {expires} {key.hash}"
    secret = service.watcher.secrets.assignment
    return hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()


def _check_same_origin(request: Request) -> None:
    """Reject forms sent from other sites; browsers always send the origin."""
    origin = request.headers.get("origin", "").partition("://")[2]
    if not origin or origin != request.headers.get("host"):
        raise Refusal(403, "cross_site", "this form was not sent from a page of this service.")


def _call(request: Request) -> Call:
    found: Mapping[str, str] = request.path_params
    campaign, query = found.get("campaign", EVERY_CAMPAIGN), dict(request.query_params)
    return Call(request.app.state.service, campaign, found, query, None)


def _shown(show: Show, *, is_post: bool = False) -> Handler:
    """Return a handler that checks access and shows every error as a page."""

    async def handle(request: Request) -> Response:
        try:
            if is_post:
                _check_same_origin(request)
            viewer = _viewer_of(request)
            if viewer is None:
                if "hx-request" in request.headers:
                    return _html(content("session_ended"), status=401)
                return _to("/console/login")
            call = _call(request)
            if "campaign" in call.path and not viewer.may((), call.campaign):
                return _sorry(Refusal(403, "forbidden", "your key does not open this campaign."))
            return await show(call, viewer)
        except Exception as error:
            return _sorry(refusal_of(error, request.url.path))

    return handle


def _page(
    title: str,
    name: str,
    *values: object,
    call: Call | None = None,
    viewer: Key = _NOBODY,
    area: str = "",
    status: int = 200,
) -> Response:
    """Return a page that renders a macro; ``area`` is the active entry of the navigation."""
    campaign = None if call is None else call.path.get("campaign")
    inside = content(name, *values)
    is_signed_in = viewer is not _NOBODY
    return _html(content("page", title, inside, campaign, area, is_signed_in).lstrip(), status)


def _page_of(name: str, title: str, area: str, *sources: Source) -> Show:
    """Return a page with the results of some routes; its default title is the campaign."""

    async def show(call: Call, viewer: Key) -> Response:
        values = [call.campaign, *[await source(call) for source in sources]]
        return _page(title or call.campaign, name, *values, call=call, viewer=viewer, area=area)

    return show


def _part_of(name: str, source: Source) -> Show:
    """Return a part of a page with the result of a route, which htmx swaps in."""

    async def show(call: Call, _: Key) -> Response:
        return _html(content(name, call.campaign, await source(call)))

    return show


def _done(work: Source, area: str) -> Show:
    """Return a handler that runs a route, and redirects to a page of the campaign."""

    async def show(call: Call, _: Key) -> Response:
        await work(call)
        return _to(f"/console/c/{call.campaign}{area}")

    return show


async def _home(request: Request) -> Response:
    """Return the overview for browsers; other clients get JSON."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(await endpoints.index(_call(request)))
    return await _shown(_overview)(request)


async def _overview(call: Call, viewer: Key) -> Response:
    rows = await _live_rows(call, viewer)
    return _page("Campaigns", "overview", rows, now_ms(), call=call, viewer=viewer)


async def _live(call: Call, viewer: Key) -> Response:
    return _html(content("totals", await _live_rows(call, viewer), now_ms()))


async def _live_rows(call: Call, viewer: Key) -> list[dict[str, Any]]:
    """Return the campaigns that the viewer may see, with current totals."""
    campaigns = (await endpoints.list_campaigns(call))["campaigns"]
    return [
        {
            **msgspec.to_builtins(one),
            "mode": one.settings.mode,
            **(await call.read(counted, one.name))[1],
        }
        for one in campaigns
        if viewer.may((), one.name)
    ]


async def _confirm(call: Call, viewer: Key) -> Response:
    """Ask for confirmation to serve a version."""
    served, wanted = await endpoints.show_policy(call), await endpoints.show_version(call)
    held = (await endpoints.show_campaign(call)).settings.held_action
    nothing_learned = {"policy": {EVERYBODY: held}, "default_action": held}
    old, new = (one["policy"] or nothing_learned for one in (served, wanted))
    hashes = {one.get("partition", {}).get("hash") for one in (old, new)}
    contexts = [*served["plan"]["contexts"], *(new["policy"] if len(hashes) == 2 else ())]

    def plays(policy: Mapping[str, Any], context: str) -> str:
        # A policy with another partition does not have this context.
        otherwise = "-" if len(hashes) == 2 else policy["default_action"]
        return str(policy["policy"].get(context, otherwise))

    both = [
        (context, plays(old, context), plays(new, context)) for context in dict.fromkeys(contexts)
    ]
    changes = [row for row in both if row[1] != row[2]][:MOST_ROWS]
    version = wanted["version"]
    shown = (call.campaign, version, served["version"], changes)
    title = f"Serve policy {version}?"
    return _page(title, "confirmation", *shown, call=call, viewer=viewer, area="/policies")


async def _users(call: Call, viewer: Key) -> Response:
    """Return the page of a user, a redirect to a decision, or a form that asks for one."""
    asked = call.query.get("user", "")
    if re.fullmatch("[0-9a-f]{32}", asked.strip()):
        return _to(f"/console/c/{call.campaign}/decisions/{asked.strip()}")
    found = await endpoints.list_decisions(call if asked else call._replace(query={}))
    title, name = (f"User {asked}", "user") if asked else ("Users and decisions", "users")
    return _page(title, name, call.campaign, found, call=call, viewer=viewer, area="/users")


async def _audit_now(call: Call, _: Key) -> Response:
    """Audit everything recorded so far; simultaneous requests share one audit."""
    running = call.service.audits
    task = running.get(call.campaign)
    if task is None:
        task = running[call.campaign] = asyncio.create_task(endpoints.audit(call))
        task.add_done_callback(lambda _: running.pop(call.campaign, None))
    try:
        found, refused = await asyncio.shield(task), ""
    except Refusal as refusal:
        found, refused = None, refusal.message
    return _html(content("audited", call.campaign, found, refused, now_ms()))


async def _login(request: Request) -> Response:
    """Show the login form, or check the key and start a session; the key is not stored."""
    if request.method != "POST":
        return _page("Sign in", "login", "")
    service: Service = request.app.state.service
    try:
        _check_same_origin(request)
        headers = dict(request.scope["headers"])
        body = await read_body(service, headers, request.receive, _LONGEST_FORM)
        presented = parse_qs(body.decode("latin-1")).get("key", [""])[-1].strip()
        key = key_of(presented, service.watcher.state.keys)
    except Refusal as refusal:
        return _page("Sign in", "login", refusal.message, status=refusal.status)
    if key.role != "admin":
        return _page("Sign in", "login", "the console needs an admin's key.", status=403)
    expires = str(int(time.time()) + SESSION_SECONDS)
    response = _to("/")
    response.set_cookie(
        COOKIE,
        f"{key.id}.{expires}.{_session_tag(service, key, expires)}",
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        # Behind a proxy only the browser knows whether its connection is encrypted.
        secure=request.headers.get("origin", "").startswith("https://"),
    )
    return response


async def _logout(_: Call, __: Key) -> Response:
    """End the session."""
    response = _to("/console/login")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


async def _asset(request: Request) -> Response:
    """Return a static file, which needs no key."""
    name = request.path_params["name"]
    if name not in ASSETS:
        return _sorry(Refusal(404, "not_found", "there is no such file."))
    headers = {**HEADERS, "cache-control": "no-cache"}
    return Response(ASSETS[name], 200, headers, _TYPES[name.rpartition(".")[2]])


_ONE = "/console/c/{campaign}"
_ACTIVATE = f"{_ONE}/policies/{{version}}/activate"
_SHOWN: dict[str, Show] = {
    "/console/live": _live,
    _ONE: _page_of(
        "campaign", "", "", endpoints.status, endpoints.show_policy, endpoints.list_decisions
    ),
    f"{_ONE}/recent": _part_of("latest", endpoints.list_decisions),
    f"{_ONE}/policies": _page_of(
        "policies", "Policies", "/policies", endpoints.list_policies, endpoints.show_policy
    ),
    _ACTIVATE: _confirm,
    f"{_ONE}/jobs": _page_of("jobs", "Learning", "/jobs", endpoints.list_jobs),
    f"{_ONE}/jobs/now": _part_of("job_rows", endpoints.list_jobs),
    f"{_ONE}/users": _users,
    f"{_ONE}/decisions/{{decision}}": _page_of(
        "decision", "Why", "/users", endpoints.explain_decision
    ),
    f"{_ONE}/audit": _page_of("evidence", "Audit", "/audit", endpoints.show_policy),
    f"{_ONE}/audit/now": _audit_now,
}
_POSTED: dict[str, Show] = {
    "/console/logout": _logout,
    _ACTIVATE: _done(endpoints.activate_version, "/policies"),
    f"{_ONE}/learn": _done(endpoints.learn, "/jobs"),
}


def console_pages() -> list[BaseRoute]:
    """Return the routes of all pages."""
    handlers: list[tuple[str, str, Handler]] = [
        ("/", "GET", _home),
        ("/console/login", "GET POST", _login),
        ("/console/assets/{name}", "GET", _asset),
        *((path, "POST", _shown(show, is_post=True)) for path, show in _POSTED.items()),
        *((path, "GET", _shown(show)) for path, show in _SHOWN.items()),
    ]
    return [Route(path, handler, methods=methods.split()) for path, methods, handler in handlers]
