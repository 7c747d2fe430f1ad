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

from unswayed.service.calls import Bodies, Runtime
from unswayed.service.catalogue import ACTIVE, NOTHING_LEARNED, now_ms
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.console.routes import console_pages
from unswayed.service.daily import claim, today
from unswayed.service.database import Connection, Database, StoreError, opened
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.errors import Refusal
from unswayed.service.jobs import (
    add_job,
    jobs_of,
    start_learner,
    start_report,
    start_warming,
)
from unswayed.service.keys import Rates
from unswayed.service.metrics import Metrics
from unswayed.service.secret_file import Secrets
from unswayed.service.service import Service
from unswayed.service.settings import ServerSettings
from unswayed.service.state import Watcher
from unswayed.service.writing import LONGEST_CHUNK_MS, Writer

#: Ours: seconds between updates of shared metrics and checks of the learning job.
_CHORE_SECONDS = 1.0

#: Ours: how often old decisions are looked for.
_DELETE_SECONDS = 60.0

#: Ours: a server that is up for so long is there to stay, and somebody may want to learn.
_WARM_SECONDS = 10.0


async def do_chores(runtime: Runtime, *, warms: bool) -> None:
    """Do all of it until the task is cancelled; ``warms`` compiles what learning needs."""
    started = deleting = time.monotonic()
    while True:
        await asyncio.sleep(_CHORE_SECONDS)
        runtime.refresh_metrics()
        await asyncio.to_thread(runtime.metrics.save)
        with suppress(StoreError, Refusal):
            await asyncio.to_thread(learn_when_due, runtime)
            await asyncio.to_thread(report_when_due, runtime)
        if time.monotonic() > deleting:
            with suppress(StoreError, Refusal):
                is_done = await asyncio.to_thread(delete_when_old, runtime)
                deleting = time.monotonic() + (_DELETE_SECONDS if is_done else 0.0)
        if warms and time.monotonic() > started + _WARM_SECONDS:
            warms = False
            await asyncio.to_thread(warm_if_first, runtime)


def learn_when_due(runtime: Runtime) -> None:
    """Start the learnings that campaigns ask for."""
    for serving in list(runtime.service.watcher.state.campaigns.values()):
        every = serving.settings.learn_every
        if not every or serving.state != ACTIVE:
            continue
        with runtime.service.database.connected() as connection:
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
            start_learner(runtime.store_url, serving.name, job.id)


def report_when_due(runtime: Runtime) -> None:
    """Start the daily reports that campaigns ask for; each process asks for a day once."""
    day = today()
    for serving in list(runtime.service.watcher.state.campaigns.values()):
        if not serving.settings.daily_report or runtime.reported.get(serving.name) == day:
            continue
        with runtime.service.database.connected() as connection:
            campaign = campaign_of(connection, serving.name)
            with connection.transaction():
                is_mine = claim(connection, campaign)
        runtime.reported[serving.name] = day
        if is_mine:
            start_report(runtime.store_url, serving.name)


def delete_when_old(runtime: Runtime) -> bool:
    """Delete decisions that campaigns keep no longer; whether none is left."""
    done = [
        delete_old(
            runtime.service.database, serving.name, serving.settings.forgotten_before(now_ms())
        )
        for serving in list(runtime.service.watcher.state.campaigns.values())
        if serving.settings.retention
    ]
    return all(done)


def warm_if_first(runtime: Runtime) -> None:
    """Compile what the methods of campaigns need, unless something was learned here before."""
    campaigns = list(runtime.service.watcher.state.campaigns.values())
    if any(serving.policy_version != NOTHING_LEARNED for serving in campaigns):
        return
    for method in {serving.settings.method for serving in campaigns}:
        with suppress(FileExistsError):  # one of the workers does it
            (runtime.metrics.folder / f"{method}.warm").touch(exist_ok=False)
            start_warming(method)


#: Ours: what one transaction deletes, so that rewards never wait long for it.
_SLICE_MS = 10_000

#: Ours: how long the deleting may take at once.
_SECONDS = 0.2


def delete_old(database: Database, campaign: str, before_ms: int) -> bool:
    """Delete decisions made before a time, and all that came of them; whether none is left."""
    end = time.monotonic() + _SECONDS
    with database.connected() as connection:
        while (oldest := _oldest_ms(connection, campaign)) is not None and oldest < before_ms:
            if time.monotonic() > end:
                return False
            with connection.transaction():
                _delete_slice(connection, campaign, min(oldest + _SLICE_MS, before_ms))
    return True


def _oldest_ms(connection: Connection, campaign: str) -> int | None:
    """Return the time of the oldest decision that can be deleted."""
    found = []
    for column, table in (("first_ms", "decisions"), ("time_ms", "asked")):
        rows = connection.execute(
            f"SELECT {column} FROM {table} WHERE campaign = ? ORDER BY {column} LIMIT 1",
            (campaign,),
        )
        # A row of decisions goes when the last that may be in it does.
        more = LONGEST_CHUNK_MS if table == "decisions" else 0
        found += [int(row[0]) + more for row in rows]
    for table in ("rewards", "activations"):
        rows = connection.execute(
            f"SELECT decision FROM {table} WHERE campaign = ? ORDER BY decision LIMIT 1",
            (campaign,),
        )
        found += [int.from_bytes(bytes(row[0])[:6], "big") for row in rows]
    return min(found, default=None)


def _delete_slice(connection: Connection, campaign: str, until_ms: int) -> None:
    connection.execute(
        "DELETE FROM decisions WHERE campaign = ? AND first_ms < ?",
        (campaign, until_ms - LONGEST_CHUNK_MS),
    )
    connection.execute("DELETE FROM asked WHERE campaign = ? AND time_ms < ?", (campaign, until_ms))
    for table in ("rewards", "activations"):
        connection.execute(
            f"DELETE FROM {table} WHERE campaign = ? AND decision < ?",
            (campaign, until_ms.to_bytes(6, "big")),
        )


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
        runtime = _runtime(launch)
        app.state.runtime = runtime
        chores = asyncio.create_task(do_chores(runtime, warms=launch.warms))
        try:
            yield
        finally:
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            await asyncio.to_thread(runtime.service.stop)
            runtime.refresh_metrics()
            runtime.metrics.save()

    routes = [Route(one.path, one, methods=[one.method]) for one in ENDPOINTS]
    return _Application(
        routes=[*console_pages(), *routes],
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_route},
    )


def _runtime(launch: Launch) -> Runtime:
    database = opened(launch.store)
    service = Service(
        database,
        Watcher(database, launch.secrets),
        Writer(database),
        launch.server,
    )
    return Runtime(
        service,
        Metrics(launch.metrics_folder),
        Rates(launch.server.requests_per_second),
        launch.store,
        launch.is_public,
        Bodies(launch.server.max_request_bytes),
        launch.configured,
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
