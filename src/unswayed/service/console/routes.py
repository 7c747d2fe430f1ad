"""The pages of the console; each calls the functions behind the service's own routes."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from unswayed.errors import InputError
from unswayed.service import endpoints
from unswayed.service.calls import Call
from unswayed.service.catalogue import now_ms
from unswayed.service.console import views
from unswayed.service.console.access import (
    Viewer,
    check_same_origin,
    sign_in,
    sign_out,
    viewer_of,
)
from unswayed.service.console.decisions import (
    decision_page,
    finder,
    latest_decisions,
    user_page,
)
from unswayed.service.console.evidence import LiveAudits, evidence, latest_audit, live_audit
from unswayed.service.console.markup import ASSETS, HEADERS, MOST_ROWS, asset, fragment, page, tag
from unswayed.service.console.means import policy_map
from unswayed.service.database import StoreError
from unswayed.service.errors import Refusal, not_found, store_unavailable
from unswayed.service.keys import EVERY_CAMPAIGN
from unswayed.service.status import counted

logger = logging.getLogger("unswayed.service")

#: Ours: a key has 64 characters.
_LONGEST_FORM = 4_096

_DECISION = re.compile("[0-9a-f]{32}")

Show = Callable[[Call, Viewer], Awaitable[Response]]
Handler = Callable[[Request], Awaitable[Response]]


def _shown(show: Show, *, is_post: bool = False) -> Handler:
    """Return a handler that checks access and shows every error as a page."""

    async def handle(request: Request) -> Response:
        try:
            if is_post:
                check_same_origin(request)
            return await _let_in(request, show)
        except Refusal as refusal:
            return _sorry(refusal)
        except InputError as error:
            return _sorry(Refusal(422, "bad_input", str(error)))
        except StoreError as error:
            logger.warning("the store failed: %s", error)
            return _sorry(store_unavailable())
        except Exception:
            logger.exception("%s failed", request.url.path)
            return _sorry(Refusal(500, "internal", "an internal error occurred; it was logged."))

    return handle


async def _let_in(request: Request, show: Show) -> Response:
    viewer = viewer_of(request)
    if viewer is None:
        if "hx-request" in request.headers:
            return fragment(tag("p", "Your session has ended: sign in again."), status=401)
        return _to("/console/login")
    call = _call(request)
    if "campaign" in call.path and not viewer.may_see(call.campaign):
        raise Refusal(403, "forbidden", "your key does not open this campaign.")
    return await show(call, viewer)


def _call(request: Request) -> Call:
    found: Mapping[str, str] = request.path_params
    return Call(
        request.app.state.runtime,
        found.get("campaign", EVERY_CAMPAIGN),
        found,
        dict(request.query_params),
        None,
    )


def _sorry(refusal: Refusal) -> Response:
    return page(
        "That did not work",
        tag("p", refusal.message, role="alert"),
        tag("p", tag("a", "All campaigns", href="/")),
        status=refusal.status,
    )


def _to(address: str) -> Response:
    # 303: the browser fetches it with GET, and reloading does not send a form again.
    return RedirectResponse(address, status_code=303, headers=HEADERS)


def _page(call: Call, viewer: Viewer, title: str, parts: list[Any], area: str = "") -> Response:
    return page(
        title,
        *parts,
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
    parts = views.overview(rows, views.live_totals(rows, now_ms()))
    return _page(call, viewer, "Campaigns", parts)


async def live(call: Call, viewer: Viewer) -> Response:
    """Return the totals of this moment."""
    return fragment(views.live_totals(await _live_rows(call, viewer), now_ms()))


async def _live_rows(call: Call, viewer: Viewer) -> list[dict[str, Any]]:
    campaigns = (await endpoints.list_campaigns(call))["campaigns"]
    seen = [one for one in campaigns if viewer.may_see(one["name"])]

    def totals() -> list[dict[str, int]]:
        with call.service.database.connected() as connection:
            return [counted(connection, one["name"])[1] for one in seen]

    counts = await run_in_threadpool(totals)
    return [
        {**one, "mode": one["settings"].mode, **total}
        for one, total in zip(seen, counts, strict=True)
    ]


async def campaign(call: Call, viewer: Viewer) -> Response:
    """Return the page of a campaign."""
    parts = views.campaign(
        await endpoints.status(call),
        await endpoints.show_policy(call),
        await endpoints.list_decisions(call),
    )
    return _page(call, viewer, call.campaign, parts)


async def recent(call: Call, _: Viewer) -> Response:
    """Return the latest decisions."""
    return fragment(latest_decisions(call.campaign, await endpoints.list_decisions(call)))


async def policies(call: Call, viewer: Viewer) -> Response:
    """Return the versions of the policy."""
    versions = (await endpoints.list_policies(call))["versions"]
    served = await endpoints.show_policy(call)
    parts = views.policies(call.campaign, versions, policy_map(served["policy"]))
    return _page(call, viewer, "Policies", parts, "/policies")


async def confirm(call: Call, viewer: Viewer) -> Response:
    """Ask for confirmation to serve a version."""
    served, wanted = await endpoints.show_policy(call), await endpoints.show_version(call)
    held = (await endpoints.show_campaign(call))["settings"].held_action
    contexts = served["plan"]["contexts"]

    def plays(version: Mapping[str, Any], context: str) -> str:
        policy = version["policy"]
        if policy is None:
            return str(held)
        return str(policy["policy"].get(context, policy["default_action"]))

    changes = [
        (context, plays(served, context), plays(wanted, context))
        for context in contexts
        if plays(served, context) != plays(wanted, context)
    ]
    version, active = wanted["version"], served["version"]
    parts = views.confirmation(call.campaign, version, active, changes[:MOST_ROWS])
    title = f"Serve policy {version}?"
    return _page(call, viewer, title, parts, "/policies")


async def activate(call: Call, _: Viewer) -> Response:
    """Serve a version."""
    await endpoints.activate_version(call)
    return _to(f"/console/c/{call.campaign}/policies")


async def jobs(call: Call, viewer: Viewer) -> Response:
    """Return the learning jobs."""
    found = (await endpoints.list_jobs(call))["jobs"]
    return _page(call, viewer, "Learning", views.jobs(call.campaign, found), "/jobs")


async def jobs_now(call: Call, _: Viewer) -> Response:
    """Return the progress of the learning jobs."""
    return fragment(views.job_rows((await endpoints.list_jobs(call))["jobs"]))


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
        latest = await endpoints.list_decisions(replace(call, query={}))
        parts = [finder(call.campaign, ""), latest_decisions(call.campaign, latest)]
        return _page(call, viewer, "Users and decisions", parts, "/users")
    found = await endpoints.list_decisions(call)
    title = f"User {asked}"
    return _page(call, viewer, title, user_page(call.campaign, found), "/users")


async def decision(call: Call, viewer: Viewer) -> Response:
    """Return the page of a decision."""
    found = await endpoints.explain_decision(call)
    return _page(call, viewer, "Why", decision_page(call.campaign, found), "/users")


async def audit(call: Call, viewer: Viewer) -> Response:
    """Return the evidence behind the policy that is served."""
    parts = evidence(await endpoints.show_policy(call))
    return _page(call, viewer, "Audit", [*parts, live_audit(call.campaign)], "/audit")


def _audit_pages(audits: LiveAudits) -> tuple[Show, Show]:
    """Return the pages that show the latest audit if it is new, and that run one now."""

    async def audit_live(call: Call, _: Viewer) -> Response:
        latest = audits.look(call)
        if call.query.get("seen", "") == str(latest.number):
            return Response(status_code=204, headers=HEADERS)
        return fragment(latest_audit(call.campaign, latest))

    async def audit_now(call: Call, _: Viewer) -> Response:
        return fragment(latest_audit(call.campaign, await audits.now(call)))

    return audit_live, audit_now


async def login(request: Request) -> Response:
    """Ask for a key; or take it, and begin a session."""
    if request.method == "GET":
        return page("Sign in", *views.login(""))
    try:
        check_same_origin(request)
        headers = dict(request.scope["headers"])
        bodies = request.app.state.runtime.bodies
        form = parse_qs(
            (await bodies.read(headers, request.receive, _LONGEST_FORM)).decode("latin-1")
        )
        response = _to("/")
        sign_in(request, form.get("key", [""])[-1].strip(), response)
    except Refusal as refusal:
        return page("Sign in", *views.login(refusal.message), status=refusal.status)
    return response


async def logout(request: Request) -> Response:
    """End the session."""
    try:
        check_same_origin(request)
    except Refusal as refusal:
        return _sorry(refusal)
    response = _to("/console/login")
    sign_out(response)
    return response


async def assets(request: Request) -> Response:
    """Return a file that pages load; these are public."""
    name = request.path_params["name"]
    return asset(name) if name in ASSETS else _sorry(not_found("there is no such file."))


def console_pages() -> list[BaseRoute]:
    """Return the routes of all pages."""
    one = "/console/c/{campaign}"
    audit_live, audit_now = _audit_pages(LiveAudits())
    shown: tuple[tuple[str, Show], ...] = (
        ("/console/live", live),
        (one, campaign),
        (f"{one}/recent", recent),
        (f"{one}/policies", policies),
        (f"{one}/policies/{{version}}/activate", confirm),
        (f"{one}/jobs", jobs),
        (f"{one}/jobs/now", jobs_now),
        (f"{one}/users", users),
        (f"{one}/decisions/{{decision}}", decision),
        (f"{one}/audit", audit),
        (f"{one}/audit/live", audit_live),
        (f"{one}/audit/now", audit_now),
    )
    posted: tuple[tuple[str, Show], ...] = (
        (f"{one}/policies/{{version}}/activate", activate),
        (f"{one}/learn", learn),
    )
    return [
        Route("/", home, methods=["GET"]),
        Route("/console/login", login, methods=["GET", "POST"]),
        Route("/console/logout", logout, methods=["POST"]),
        Route("/console/assets/{name}", assets, methods=["GET"]),
        *(Route(path, _shown(show, is_post=True), methods=["POST"]) for path, show in posted),
        *(Route(path, _shown(show), methods=["GET"]) for path, show in shown),
    ]
