"""The ASGI application of a worker process, and its periodic tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unswayed.service.catalogue import ACTIVE, NOTHING_LEARNED, now_ms
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.console.routes import console_pages
from unswayed.service.database import StoreError
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.errors import Refusal
from unswayed.service.jobs import add_job, claim, jobs_of, start, today
from unswayed.service.records import delete_old
from unswayed.service.service import Service

#: Ours: seconds between updates of shared metrics and checks of the learning job.
_CHORE_SECONDS = 1.0

#: Ours: seconds between deletions of old decisions.
_DELETE_SECONDS = 60.0

#: Ours: seconds after the start when the learner is precompiled.
_WARM_SECONDS = 10.0


async def do_chores(service: Service, *, warms: bool) -> None:
    """Run the periodic tasks until cancelled; ``warms`` precompiles the learner once."""
    started = deleting = time.monotonic()
    reported: dict[str, str] = {}
    while True:
        await asyncio.sleep(_CHORE_SECONDS)
        service.refresh_metrics()
        await asyncio.to_thread(service.metrics.save)
        with suppress(StoreError, Refusal):
            await asyncio.to_thread(_learn_when_due, service)
            await asyncio.to_thread(_report_when_due, service, reported)
        if time.monotonic() > deleting:
            with suppress(StoreError, Refusal):
                is_done = await asyncio.to_thread(_delete_when_old, service)
                deleting = time.monotonic() + (_DELETE_SECONDS if is_done else 0.0)
        if warms and time.monotonic() > started + _WARM_SECONDS:
            warms = False
            await asyncio.to_thread(warm_if_first, service)


def _learn_when_due(service: Service) -> None:
    """Start learning for campaigns whose ``learn_every`` has passed."""
    for serving in list(service.watcher.state.campaigns.values()):
        every = serving.settings.learn_every
        if not every or serving.state != ACTIVE:
            continue
        with service.database.connected() as connection:
            jobs = jobs_of(connection, serving.name, most=1)
            last = jobs[0].created_ms if jobs else serving.created_ms
            if now_ms() < last + 1000.0 * every:
                continue
            with connection.transaction():
                # Another worker may have been faster since.
                jobs = jobs_of(connection, serving.name, most=1)
                if jobs and now_ms() < jobs[0].created_ms + 1000.0 * every:
                    continue
                job, is_new = add_job(connection, serving.name)
        if is_new:
            service.start("learn", serving.name, job=job.id)


def _report_when_due(service: Service, reported: dict[str, str]) -> None:
    """Start today's report for campaigns with ``daily_report``; at most once a day and process."""
    day = today()
    for serving in list(service.watcher.state.campaigns.values()):
        if not serving.settings.daily_report or reported.get(serving.name) == day:
            continue
        with service.database.connected() as connection:
            campaign = campaign_of(connection, serving.name)
            with connection.transaction():
                is_mine = claim(connection, campaign)
        reported[serving.name] = day
        if is_mine:
            service.start("daily", serving.name)


def _delete_when_old(service: Service) -> bool:
    """Delete decisions older than ``retention``; return whether none is left."""
    done = [
        delete_old(service.database, serving.name, serving.settings.forgotten_before(now_ms()))
        for serving in list(service.watcher.state.campaigns.values())
        if serving.settings.retention
    ]
    return all(done)


def warm_if_first(service: Service) -> None:
    """Precompile the campaigns' learners, unless something was learned here before."""
    campaigns = list(service.watcher.state.campaigns.values())
    if any(serving.policy_version != NOTHING_LEARNED for serving in campaigns):
        return
    for method in {serving.settings.method for serving in campaigns}:
        with suppress(FileExistsError):  # one of the workers does it
            (service.metrics.folder / f"{method}.warm").touch(exist_ok=False)
            start("warm", method=method)


def create_app(begin: Callable[[], Service], *, warms: bool = False) -> Starlette:
    """Return the application: the API routes, then the console's pages, of which ``/`` is one.

    ``begin`` returns the service of this process, with its threads running; ``warms`` compiles
    what learning needs after a while.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service = app.state.service = begin()
        chores = asyncio.create_task(do_chores(service, warms=warms))
        try:
            yield
        finally:
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            await asyncio.to_thread(service.stop)
            service.refresh_metrics()
            service.metrics.save()

    routes = [Route(one.path, one, methods=[one.method]) for one in ENDPOINTS if one.path != "/"]
    return Starlette(
        routes=[*routes, *console_pages()],
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_route},
    )


async def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = (
        Refusal(405, "wrong_method", "this address does not support that method.")
        if error.status_code == 405
        else Refusal(error.status_code, "no_route", "there is nothing at this address.")
    )
    return Response(
        refusal.body(),
        status_code=refusal.status,
        media_type="application/json",
        headers=error.headers,
    )
