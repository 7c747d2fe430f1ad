"""The pages of the console; each calls the functions behind the service's own routes.

They are open with an admin's key, or from this machine while there is no key.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from unswayed.policy.partition import EVERYBODY
from unswayed.service import endpoints
from unswayed.service.calls import Call, check_origin, read_body, refusal_of
from unswayed.service.catalogue import now_ms
from unswayed.service.console.pages import (
    ASSETS,
    HEADERS,
    MOST_ROWS,
    asset,
    content,
    fragment,
    page,
)
from unswayed.service.errors import Refusal, not_found
from unswayed.service.keys import EVERY_CAMPAIGN, Key, key_of
from unswayed.service.service import Service
from unswayed.service.status import counted

COOKIE = "unswayed_console"

#: Ours: lifetime of a session.
SESSION_SECONDS = 12 * 3600

#: Ours: bytes of a login form; a key has 64 characters.
_LONGEST_FORM = 4_096

_DECISION = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Viewer:
    """An authorized viewer; ``key`` is None on loopback while no key exists."""

    key: Key | None

    def may_see(self, campaign: str) -> bool:
        """Whether the viewer may see a campaign."""
        return self.key is None or self.key.may((), campaign)


Show = Callable[[Call, Viewer], Awaitable[Response]]
Handler = Callable[[Request], Awaitable[Response]]


def _viewer_of(request: Request) -> Viewer | None:
    """Return the viewer of a request; None if they have to sign in first."""
    service: Service = request.app.state.service
    if not service.needs_keys:
        check_origin(dict(request.scope["headers"]))
        return Viewer(None)
    key_id, _, rest = request.cookies.get(COOKIE, "").partition(".")
    expires, _, given = rest.partition(".")
    key = service.watcher.state.keys.get(key_id)
    if key is None or not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
        return None
    expected = _session_tag(service, key, expires)
    if not hmac.compare_digest(given.encode(), expected.encode()) or int(expires) < time.time():
        return None
    if key.role != "admin":
        return None
    service.rates.take(key.id)
    return Viewer(key)


def _session_tag(service: Service, key: Key, expires: str) -> str:
    # The name in front keeps these tags apart from all else that the secret is used for.
    said = f"unswayed console session {key.id} {expires} {key.hash}"
    secret = service.watcher.secrets.assignment
    return hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()


def _check_same_origin(request: Request) -> None:
    """Reject forms sent from other sites; browsers always send the origin."""
    origin = request.headers.get("origin", "").partition("://")[2]
    if not origin or origin != request.headers.get("host"):
        raise Refusal(403, "cross_site", "this form was not sent from a page of this service.")


def _shown(show: Show, *, is_post: bool = False) -> Handler:
    """Return a handler that checks access and shows every error as a page."""

    async def handle(request: Request) -> Response:
        try:
            if is_post:
                _check_same_origin(request)
            viewer = _viewer_of(request)
            if viewer is None:
                if "hx-request" in request.headers:
                    return fragment("session_ended", status=401)
                return _to("/console/login")
            call = _call(request)
            if "campaign" in call.path and not viewer.may_see(call.campaign):
                return _sorry(Refusal(403, "forbidden", "your key does not open this campaign."))
            return await show(call, viewer)
        except Exception as error:
            return _sorry(refusal_of(error, request.url.path))

    return handle


def _call(request: Request) -> Call:
    found: Mapping[str, str] = request.path_params
    campaign, query = found.get("campaign", EVERY_CAMPAIGN), dict(request.query_params)
    return Call(request.app.state.service, campaign, found, query, None)


def _sorry(refusal: Refusal) -> Response:
    return page("That did not work", content("sorry", refusal.message), status=refusal.status)


def _to(address: str) -> Response:
    # 303: the browser fetches it with GET, and reloading does not send a form again.
    return RedirectResponse(address, status_code=303, headers=HEADERS)


def _page(
    call: Call, viewer: Viewer, title: str, name: str, *values: object, area: str = ""
) -> Response:
    return page(
        title,
        content(name, *values),
        campaign=call.path.get("campaign"),
        area=area,
        is_signed_in=viewer.key is not None,
    )


async def home(request: Request) -> Response:
    """Return the overview for browsers; other clients get JSON."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(await endpoints.index(_call(request)))
    return await _shown(overview)(request)


async def overview(call: Call, viewer: Viewer) -> Response:
    """Return the page of all campaigns."""
    rows = await _live_rows(call, viewer)
    return _page(call, viewer, "Campaigns", "overview", rows, now_ms())


async def live(call: Call, viewer: Viewer) -> Response:
    """Return the totals of this moment."""
    return fragment("totals", await _live_rows(call, viewer), now_ms())


async def _live_rows(call: Call, viewer: Viewer) -> list[dict[str, Any]]:
    campaigns = (await endpoints.list_campaigns(call))["campaigns"]
    seen = [one for one in campaigns if viewer.may_see(one.name)]
    counts = [(await call.read(counted, one.name))[1] for one in seen]
    return [
        {**msgspec.to_builtins(one), "mode": one.settings.mode, **total}
        for one, total in zip(seen, counts, strict=True)
    ]


async def campaign(call: Call, viewer: Viewer) -> Response:
    """Return the page of a campaign."""
    found, served = await endpoints.status(call), await endpoints.show_policy(call)
    recent = await endpoints.list_decisions(call)
    return _page(call, viewer, call.campaign, "campaign", found, served, recent)


async def recent(call: Call, _: Viewer) -> Response:
    """Return the latest decisions."""
    return fragment("latest", call.campaign, await endpoints.list_decisions(call))


async def policies(call: Call, viewer: Viewer) -> Response:
    """Return the versions of the policy."""
    versions = (await endpoints.list_policies(call))["versions"]
    served = await endpoints.show_policy(call)
    shown = (call.campaign, versions, served["policy"])
    return _page(call, viewer, "Policies", "policies", *shown, area="/policies")


async def confirm(call: Call, viewer: Viewer) -> Response:
    """Ask for confirmation to serve a version."""
    served, wanted = await endpoints.show_policy(call), await endpoints.show_version(call)
    held = (await endpoints.show_campaign(call)).settings.held_action

    hashes = {(one["policy"] or {}).get("partition", {}).get("hash") for one in (served, wanted)}
    contexts = [*served["plan"]["contexts"]]
    if len(hashes) == 2:  # the leaves differ
        contexts += (wanted["policy"] or {"policy": [EVERYBODY]})["policy"]

    def plays(version: Mapping[str, Any], context: str) -> str:
        policy = version["policy"]
        if len(hashes) == 2 and context not in (policy or {"policy": [EVERYBODY]})["policy"]:
            return "-"
        if policy is None:
            return str(held)
        return str(policy["policy"].get(context, policy["default_action"]))

    both = [
        (context, plays(served, context), plays(wanted, context))
        for context in dict.fromkeys(contexts)
    ]
    changes = [row for row in both if row[1] != row[2]][:MOST_ROWS]
    version = wanted["version"]
    shown = (call.campaign, version, served["version"], changes)
    title = f"Serve policy {version}?"
    return _page(call, viewer, title, "confirmation", *shown, area="/policies")


async def activate(call: Call, _: Viewer) -> Response:
    """Serve a version."""
    await endpoints.activate_version(call)
    return _to(f"/console/c/{call.campaign}/policies")


async def jobs(call: Call, viewer: Viewer) -> Response:
    """Return the learning jobs."""
    found = (await endpoints.list_jobs(call))["jobs"]
    return _page(call, viewer, "Learning", "jobs", call.campaign, found, area="/jobs")


async def jobs_now(call: Call, _: Viewer) -> Response:
    """Return the progress of the learning jobs."""
    return fragment("job_rows", (await endpoints.list_jobs(call))["jobs"])


async def learn(call: Call, _: Viewer) -> Response:
    """Start to learn."""
    await endpoints.learn(call)
    return _to(f"/console/c/{call.campaign}/jobs")


async def users(call: Call, viewer: Viewer) -> Response:
    """Return the page of a user, go to a decision, or ask for either."""
    asked = call.query.get("user", "")
    if _DECISION.fullmatch(asked.strip()):
        return _to(f"/console/c/{call.campaign}/decisions/{asked.strip()}")
    if not asked:
        latest = await endpoints.list_decisions(call._replace(query={}))
        shown = (call.campaign, latest)
        return _page(call, viewer, "Users and decisions", "users", *shown, area="/users")
    found = await endpoints.list_decisions(call)
    return _page(call, viewer, f"User {asked}", "user", call.campaign, found, area="/users")


async def decision(call: Call, viewer: Viewer) -> Response:
    """Return the page of a decision."""
    found = await endpoints.explain_decision(call)
    return _page(call, viewer, "Why", "decision", call.campaign, found, area="/users")


async def audit(call: Call, viewer: Viewer) -> Response:
    """Return the evidence behind the policy that is served."""
    policy = (await endpoints.show_policy(call))["policy"]
    return _page(call, viewer, "Audit", "evidence", call.campaign, policy, area="/audit")


async def audit_now(call: Call, _: Viewer) -> Response:
    """Audit what was recorded so far; those who ask meanwhile get the same audit."""
    running = call.service.audits
    task = running.get(call.campaign)
    if task is None:
        task = running[call.campaign] = asyncio.create_task(endpoints.audit(call))
        task.add_done_callback(lambda _: running.pop(call.campaign, None))
    try:
        found, refused = await asyncio.shield(task), ""
    except Refusal as refusal:
        found, refused = None, refusal.message
    return fragment("audited", call.campaign, found, refused, now_ms())


async def login(request: Request) -> Response:
    """Show the login form, or check the key and start a session; the key is not stored."""
    if request.method != "POST":
        return page("Sign in", content("login", ""))
    service: Service = request.app.state.service
    try:
        _check_same_origin(request)
        headers = dict(request.scope["headers"])
        body = await read_body(service, headers, request.receive, _LONGEST_FORM)
        presented = parse_qs(body.decode("latin-1")).get("key", [""])[-1].strip()
        key = key_of(presented, service.watcher.state.keys)
    except Refusal as refusal:
        return page("Sign in", content("login", refusal.message), status=refusal.status)
    if key.role != "admin":
        return page("Sign in", content("login", "the console needs an admin's key."), status=403)
    expires = str(int(time.time()) + SESSION_SECONDS)
    response = _to("/")
    response.set_cookie(
        COOKIE,
        f"{key.id}.{expires}.{_session_tag(service, key, expires)}",
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        # Behind a proxy only the browser knows whether the way to it is encrypted.
        secure=request.headers.get("origin", "").startswith("https://"),
    )
    return response


async def logout(request: Request) -> Response:
    """End the session."""
    try:
        _check_same_origin(request)
    except Refusal as refusal:
        return _sorry(refusal)
    response = _to("/console/login")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


async def assets(request: Request) -> Response:
    """Return a file that pages load; these are public."""
    name = request.path_params["name"]
    return asset(name) if name in ASSETS else _sorry(not_found("there is no such file."))


_ONE = "/console/c/{campaign}"
_SHOWN: dict[str, Show] = {
    "/console/live": live,
    _ONE: campaign,
    f"{_ONE}/recent": recent,
    f"{_ONE}/policies": policies,
    f"{_ONE}/policies/{{version}}/activate": confirm,
    f"{_ONE}/jobs": jobs,
    f"{_ONE}/jobs/now": jobs_now,
    f"{_ONE}/users": users,
    f"{_ONE}/decisions/{{decision}}": decision,
    f"{_ONE}/audit": audit,
    f"{_ONE}/audit/now": audit_now,
}
_POSTED: dict[str, Show] = {
    f"{_ONE}/policies/{{version}}/activate": activate,
    f"{_ONE}/learn": learn,
}


def console_pages() -> list[BaseRoute]:
    """Return the routes of all pages."""
    return [
        Route("/", home, methods=["GET"]),
        Route("/console/login", login, methods=["GET", "POST"]),
        Route("/console/logout", logout, methods=["POST"]),
        Route("/console/assets/{name}", assets, methods=["GET"]),
        *(
            Route(path, _shown(one, is_post=True), methods=["POST"])
            for path, one in _POSTED.items()
        ),
        *(Route(path, _shown(one), methods=["GET"]) for path, one in _SHOWN.items()),
    ]
