"""The ASGI application of a worker process, and its periodic tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unswayed.service.catalogue import ACTIVE, now_ms
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.console.routes import console_pages
from unswayed.service.database import StoreError
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.errors import Refusal
from unswayed.service.jobs import add_job, claim, last_job_ms, today
from unswayed.service.records import delete_old
from unswayed.service.service import Service

logger = logging.getLogger("unswayed.service")

#: Ours: seconds between updates of shared metrics and checks of the learning job.
_CHORE_SECONDS = 1.0

#: Ours: seconds between deletions of old decisions.
_DELETE_SECONDS = 60.0


async def do_chores(service: Service) -> None:
    """Run the periodic tasks until cancelled."""
    deleting = time.monotonic()
    reported: dict[str, str] = {}
    while True:
        await asyncio.sleep(_CHORE_SECONDS)
        service.refresh_metrics()
        try:
            await asyncio.to_thread(service.metrics.save)
            await asyncio.to_thread(_learn_when_due, service)
            await asyncio.to_thread(_report_when_due, service, reported)
            if time.monotonic() > deleting:
                is_done = await asyncio.to_thread(_delete_when_old, service)
                deleting = time.monotonic() + (_DELETE_SECONDS if is_done else 0.0)
        except (StoreError, Refusal):
            continue  # the store is away, or a campaign was deleted meanwhile
        except Exception:  # a task that ends would never be done again
            logger.exception("a periodic task failed")


def _learn_when_due(service: Service) -> None:
    """Start learning for campaigns whose ``learn_every`` has passed."""
    for serving in list(service.watcher.state.campaigns.values()):
        every = serving.settings.learn_every
        if not every or serving.state != ACTIVE:
            continue
        job = None
        with service.database.connected() as connection:
            if now_ms() >= last_job_ms(connection, serving) + 1000.0 * every:
                with connection.transaction():
                    # Another worker may have been faster since.
                    if now_ms() >= last_job_ms(connection, serving) + 1000.0 * every:
                        job, is_new = add_job(connection, serving.name)
        if job is not None and is_new:
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


def create_app(begin: Callable[[], Service]) -> Starlette:
    """Return the application: the API routes, then the console's pages, of which ``/`` is one.

    ``begin`` returns the service of this process, with its threads running.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service = app.state.service = begin()
        chores = asyncio.create_task(do_chores(service))
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
