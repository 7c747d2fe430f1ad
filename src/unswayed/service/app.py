"""The application of one worker process."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from unswayed.processes import end_with_parent
from unswayed.service.calls import Runtime
from unswayed.service.chores import do_chores
from unswayed.service.console.routes import console_pages
from unswayed.service.database import opened
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.errors import Refusal
from unswayed.service.keys import Rates
from unswayed.service.metrics import Metrics
from unswayed.service.service import Service
from unswayed.service.settings import ServerSettings
from unswayed.service.state import Watcher
from unswayed.service.writing import Writer

#: Where worker processes find what they were started with.
ENVIRONMENT = "UNSWAYED_SERVICE"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process is started with; it holds no secret, only where the secrets are."""

    store: str
    secret_path: str
    metrics_folder: str
    needs_keys: bool = False
    warms: bool = False
    server: ServerSettings = ServerSettings()


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
            runtime.metrics.save()

    routes = [Route(one.path, one, methods=[one.method]) for one in ENDPOINTS]
    return _Application(
        routes=[*console_pages(), *routes],
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_route},
    )


def app_from_environment() -> Starlette:
    """Return the application that the environment describes; worker processes call it."""
    end_with_parent()
    app = create_app(msgspec.json.decode(os.environ[ENVIRONMENT], type=Launch))
    # What is there now stays: looking through it for garbage would make requests wait.
    gc.collect()
    gc.freeze()
    return app


def _runtime(launch: Launch) -> Runtime:
    database = opened(launch.store)
    service = Service(
        database,
        Watcher(database, Path(launch.secret_path)),
        Writer(database),
        launch.server,
    )
    return Runtime(
        service,
        Metrics(Path(launch.metrics_folder)),
        Rates(launch.server.requests_per_second),
        launch.store,
        launch.secret_path,
        launch.needs_keys,
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
