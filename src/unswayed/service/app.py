"""The application of one worker process, and its chores: metrics, learning, old decisions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from unswayed.service.catalogue import ACTIVE, NOTHING_LEARNED, now_ms
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.console.routes import console_pages
from unswayed.service.database import StoreError, opened
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.errors import Refusal
from unswayed.service.jobs import add_job, claim, jobs_of, start, today
from unswayed.service.metrics import Metrics
from unswayed.service.records import delete_old
from unswayed.service.service import Service, Watcher
from unswayed.service.settings import ServerSettings
from unswayed.service.tokens import Secrets
from unswayed.service.writing import Writer

#: Ours: seconds between updates of shared metrics and checks of the learning job.
_CHORE_SECONDS = 1.0

#: Ours: how often old decisions are looked for.
_DELETE_SECONDS = 60.0

#: Ours: a server that is up for so long is there to stay, and somebody may want to learn.
_WARM_SECONDS = 10.0


async def do_chores(service: Service, *, warms: bool) -> None:
    """Do all of it until the task is cancelled; ``warms`` compiles what learning needs."""
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
    """Start the learnings that campaigns ask for."""
    for serving in list(service.watcher.state.campaigns.values()):
        every = serving.settings.learn_every
        if not every or serving.state != ACTIVE:
            continue
        with service.database.connected() as connection:
            jobs = jobs_of(connection, serving.name)
            last = jobs[0].created_ms if jobs else serving.created_ms
            if now_ms() < last + 1000.0 * every:
                continue
            with connection.transaction():
                # Another worker may have been faster since.
                jobs = jobs_of(connection, serving.name)
                if jobs and now_ms() < jobs[0].created_ms + 1000.0 * every:
                    continue
                job, is_new = add_job(connection, serving.name)
        if is_new:
            known = service.server.known
            start("learn", store=service.store_url, campaign=serving.name, job=job.id, known=known)


def _report_when_due(service: Service, reported: dict[str, str]) -> None:
    """Start the daily reports that campaigns ask for; each process asks for a day once."""
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
            known = service.server.known
            start("daily", store=service.store_url, campaign=serving.name, known=known)


def _delete_when_old(service: Service) -> bool:
    """Delete decisions that campaigns keep no longer; whether none is left."""
    done = [
        delete_old(service.database, serving.name, serving.settings.forgotten_before(now_ms()))
        for serving in list(service.watcher.state.campaigns.values())
        if serving.settings.retention
    ]
    return all(done)


def warm_if_first(service: Service) -> None:
    """Compile what the methods of campaigns need, unless something was learned here before."""
    campaigns = list(service.watcher.state.campaigns.values())
    if any(serving.policy_version != NOTHING_LEARNED for serving in campaigns):
        return
    for method in {serving.settings.method for serving in campaigns}:
        with suppress(FileExistsError):  # one of the workers does it
            (service.metrics.folder / f"{method}.warm").touch(exist_ok=False)
            start("warm", method=method)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a worker process is started with.

    ``is_public``: other machines can reach it; ``configured``: campaigns of the configuration file.
    """

    store: str
    secrets: Secrets
    metrics_folder: Path
    server: ServerSettings
    configured: frozenset[str] = frozenset()
    is_public: bool = False
    warms: bool = False

    def service(self) -> Service:
        """Return the service of this process, with its threads running."""
        database = opened(self.store)
        return Service(
            database,
            Watcher(database, self.secrets),
            Writer(database),
            self.server,
            Metrics(self.metrics_folder),
            self.store,
            self.is_public,
            self.configured,
        )


#: The busiest routes, by method and address; what follows the campaign, if there is one.
_BUSY = {
    (one.method, one.path.removeprefix("/v1/{campaign}/")): one
    for one in ENDPOINTS
    if one.path.endswith(("/decide", "/reward", "/batch", "/healthz"))
}


class _Application(Starlette):
    """Starlette with a shortcut to the busiest routes: a dictionary lookup.

    These endpoints handle all errors themselves, so they need no middleware.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            path, names = scope["path"], {}
            parts = path.split("/", 3)
            if len(parts) == 4 and parts[1] == "v1":
                path, names = parts[3], {"campaign": parts[2]}
            endpoint = _BUSY.get((scope["method"], path))
            if endpoint is not None:
                scope["app"], scope["path_params"] = self, names
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def create_app(launch: Launch) -> Starlette:
    """Return the application: the console's pages first, then the API routes."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service = app.state.service = launch.service()
        chores = asyncio.create_task(do_chores(service, warms=launch.warms))
        try:
            yield
        finally:
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            await asyncio.to_thread(service.stop)
            service.refresh_metrics()
            service.metrics.save()

    routes = [Route(one.path, one, methods=[one.method]) for one in ENDPOINTS]
    return _Application(
        routes=[*console_pages(), *routes],
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
