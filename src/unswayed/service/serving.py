"""Starting the service: store, secret and campaigns first, then worker processes.

uvicorn waits forever for the rest of a request, and reads headers of any length. Here a request
must be complete in time, its headers are bounded, and so is the number of connections. A client
that keeps the server waiting is dropped before one that is being served.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import math
import re
import resource
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from unswayed.errors import InputError, option
from unswayed.service import catalogue
from unswayed.service.calls import Endpoint, Reply
from unswayed.service.console.pages import console_pages
from unswayed.service.database import Connection, Database, opened
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.errors import Refusal
from unswayed.service.keys import all_keys, make_key
from unswayed.service.metrics import Metrics, start_logs
from unswayed.service.service import Service
from unswayed.service.settings import DEMO, Configuration, ServerSettings, Settings
from unswayed.service.supervisor import GRACE_SECONDS, Beat, Supervisor
from unswayed.service.tokens import Secrets, bound_secrets
from unswayed.storage import temporary_folder

logger = logging.getLogger("unswayed.service")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store with its campaigns and secrets, ready to be served."""

    database: Database
    secrets: Secrets
    names: tuple[str, ...]
    has_keys: bool


def prepare(
    configuration: Configuration | None, *, store: str, secret_path: Path | None
) -> Prepared:
    """Create what is missing: tables, the secret, and the campaigns of the configuration.

    Without a configuration, a new store gets the demo campaign.
    """
    database = opened(store)
    database.create()
    beside = store.removeprefix("sqlite:///") if store.startswith("sqlite:///") else "unswayed"
    default = Path(f"{beside}.secret").absolute()
    with database.connected() as connection:
        found = bound_secrets(connection, secret_path, default)
        if configuration is None:
            configuration = Configuration() if catalogue.campaigns(connection) else DEMO
        apply_campaigns(connection, configuration)
        names = tuple(campaign.name for campaign in catalogue.campaigns(connection))
        has_keys = bool(all_keys(connection))
    return Prepared(database, found, names, has_keys)


def apply_campaigns(connection: Connection, configuration: Configuration) -> None:
    """Create the campaigns of a configuration, or update their settings: all of them or none."""
    changed: dict[str, list[str]] = {}
    with connection.transaction():
        there = {campaign.name for campaign in catalogue.campaigns(connection)}
        for name, settings in configuration.campaigns.items():
            if name in there:
                changed[name] = _apply_settings(connection, name, settings)
            else:
                catalogue.create_campaign(connection, name, settings)
            policy = configuration.policies.get(name)
            # Add the policy only if nothing was learned, so that it does not replace later
            # policies.
            if policy is not None and len(catalogue.policy_versions(connection, name)) == 1:
                catalogue.add_policy(connection, name, policy, job="", activate=True)
    for name, fields in changed.items():
        if fields:
            text = "campaign %r: the configuration file changed settings: %s."
            logger.warning(text, name, ", ".join(fields))


def _apply_settings(connection: Connection, name: str, settings: Settings) -> list[str]:
    """Apply the file's settings to a campaign; return the changes. Other labels are kept."""
    there = catalogue.locked(connection, name).settings
    # Labels keep the order of the store, so that reordering them in the file changes nothing.
    kept = msgspec.structs.replace(
        settings,
        contexts=there.contexts,
        actions=there.actions,
        features={**there.features, **settings.features},
    ).with_labels(contexts=settings.contexts, actions=settings.actions)
    catalogue.change_settings(connection, name, kept)
    return [
        f"{field} {before!r} -> {after!r}"
        for field, before in msgspec.structs.asdict(there).items()
        if (after := getattr(kept, field)) != before and field not in ("contexts", "actions")
    ]


def new_key(prepared: Prepared, text: str) -> str:
    """Make the key that ``CAMPAIGN:ROLE`` names, and return it."""
    campaign, separator, role = text.rpartition(":")
    if not separator:
        raise InputError(
            f"{option('--make-key')} is {text!r}; give CAMPAIGN:ROLE, such as shop:decide or "
            "*:admin."
        )
    with prepared.database.connected() as connection, connection.transaction():
        return make_key(connection, campaign, role)


def serve(
    prepared: Prepared,
    configuration: Configuration,
    *,
    host: str,
    port: int,
    workers: int,
    on_ready: Callable[[str], None],
    on_reload: Callable[[], Configuration] | None = None,
) -> None:
    """Serve until the process is asked to stop.

    ``on_ready`` is called with the address as soon as a worker responds. ``on_reload`` is called on
    SIGHUP, and returns the configuration to apply.
    """
    is_public = not is_loopback(host)
    if is_public and not prepared.has_keys:
        raise InputError(
            f"{host} can be reached from other machines and there are no keys, so anybody could "
            f"request decisions; create a key with {option('--make-key')} '*:admin', or listen on "
            "127.0.0.1."
        )
    if workers < 1:
        raise InputError(f"{option('--workers')} is {workers}; at least 1 is needed.")
    with temporary_folder() as folder:
        metrics = Metrics(folder)

        def work(beat: Beat) -> None:
            limits = with_descriptors(configuration.server)
            begin = partial(
                Service,
                prepared.database,
                prepared.secrets,
                folder,
                limits,
                is_public=is_public,
                configured=frozenset(configuration.campaigns),
            )
            Server(create_app(begin), limits, beat).run(sockets=[listening])

        def reload() -> None:
            nonlocal configuration
            if on_reload is not None:
                found = on_reload()
                with prepared.database.connected() as connection:
                    apply_campaigns(connection, found)
                configuration = found
            start_logs(configuration.server)

        def count_restart() -> None:
            metrics.count("unswayed_worker_restarts_total")
            metrics.save()

        listening = _bound(host, port)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
        # Exempt the objects created so far from garbage collection, which would delay requests.
        gc.collect()
        gc.freeze()
        Supervisor(
            work,
            workers,
            on_ready=lambda: on_ready(address),
            on_reload=reload,
            on_restart=count_restart,
        ).run()


def create_app(begin: Callable[[], Service]) -> Starlette:
    """Return the application: the API routes, then the console's pages, of which ``/`` is one.

    ``begin`` returns the service of this process, with its threads running.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service = app.state.service = begin()
        tasks = asyncio.create_task(service.run_tasks())
        try:
            yield
        finally:
            tasks.cancel()
            with suppress(asyncio.CancelledError):
                await tasks
            await asyncio.to_thread(service.stop)

    async def no_route(_: Request, error: Any) -> Response:
        refusal = Refusal(error.status_code, "no_route", "there is nothing at this address.")
        if error.status_code == 405:
            refusal = Refusal(405, "wrong_method", "this address does not support that method.")
        return Response(refusal.body(), refusal.status, error.headers, "application/json")

    routes = [Route(one.path, one, methods=[one.method]) for one in ENDPOINTS if one.path != "/"]
    return Starlette(
        routes=[*routes, *console_pages()],
        lifespan=lifespan,
        exception_handlers={HTTPException: no_route},
    )


class Server(uvicorn.Server):
    """uvicorn with the service's limits and heartbeats."""

    def __init__(self, app: Starlette, limits: ServerSettings, beat: Beat) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # callers could claim any address
            http=type("Limited", (LimitedProtocol,), {"limits": limits}),
            ws="none",
            timeout_keep_alive=limits.keep_alive_seconds,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        super().__init__(config)
        self._beat = beat

    async def on_tick(self, counter: int) -> bool:
        """Every second, send a heartbeat and close connections that are too slow."""
        if counter % 10 == 0:
            self._beat()
            for one in list(self.server_state.connections):
                if isinstance(one, LimitedProtocol):
                    one.check_time()
        return await super().on_tick(counter)


def is_loopback(host: str) -> bool:
    """Whether a host name or address can be reached from this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}; choose another {option('--port')}."
        ) from error
    listening.set_inheritable(True)
    return listening


_ON_ITS_WAY_SECONDS = 0.25  # Ours: time for new connections to send requests at shutdown
_FRAMING = 6  # Ours: bytes of framing per byte of a body; a chunk of one byte adds five
_SHORT_BODY = 16_384  # Ours: longest body, in bytes, that takes the fast path
# Ours: file descriptors of a worker besides its connections: for the store, logs and processes
OTHER_DESCRIPTORS = 200


#: The busiest routes, which take the fast path.
_BUSY = re.compile(rb"/v1/([a-z0-9_-]+)/((?:decide|reward)(?:/batch)?)")
_ENDPOINTS = {one.path.removeprefix("/v1/{campaign}/").encode(): one for one in ENDPOINTS}


class _Whole:
    """A request on the fast path: handled without a task once it is complete.

    It has the attributes of uvicorn's request cycle, so that pipelined requests wait for it.
    """

    response_started = False
    disconnected = False
    message_event = asyncio.Event()

    def __init__(self, protocol: LimitedProtocol, campaign: str, endpoint: Endpoint) -> None:
        self._protocol = protocol
        self._campaign = campaign
        self._endpoint = endpoint
        self._handling: Coroutine[Any, Any, Reply | Response]
        self.keep_alive = True
        self.response_complete = False
        self.more_body = True
        self.body = b""

    def begin(self) -> None:
        """Handle the complete request."""
        protocol = self._protocol
        self._handling = self._endpoint.reply(
            protocol.app.state.service,
            protocol.client[0] if protocol.client else "",
            protocol.headers,
            {"campaign": self._campaign},
            self.body,
        )
        self._go_on()

    def _go_on(self, _: object = None) -> None:
        """Run until the response is ready, or until the next wait for the store."""
        try:
            self._handling.send(None).add_done_callback(self._go_on)
        except StopIteration as done:
            self.response_complete = True
            self._protocol.answer(done.value, keep_alive=self.keep_alive)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the limits of ``[server]``.

    Decisions and rewards with a small declared size take a fast path: uvicorn's task and event for
    each request cost more than deciding.
    """

    limits: ClassVar[ServerSettings]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; if there are too many, close one that waits for its client."""
        self._n_requests = 0
        self._is_receiving = True
        self._outside_body = 0
        self._seen: tuple[object, ...] = ()
        self._seen_at = math.inf
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._make_room()

    def shutdown(self) -> None:
        """End the connection, but give a new one time to send its first request."""
        end = super().shutdown
        if not self._n_requests:
            self.loop.call_later(_ON_ITS_WAY_SECONDS, end)
        else:
            end()

    def data_received(self, data: bytes) -> None:
        """Parse data, and reject a request whose headers, trailers and framing are too long."""
        n_before, was_receiving = self._n_requests, self._is_receiving
        super().data_received(data)
        n_begun = self._n_requests - n_before
        # If the data contain the end of another request, it is unknown which bytes are of the last
        # one.
        if self._is_receiving and n_begun <= (not was_receiving or not n_before):
            self._outside_body += len(data)
            if self._outside_body > self.limits.max_header_bytes:
                self._refuse(431, "headers_too_large", "the headers are too long; send fewer.")

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._n_requests += 1
        self._is_receiving = True
        self._outside_body = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Choose the path of the request."""
        busy = _BUSY.fullmatch(self.url)
        if (
            busy is not None
            and self.parser.get_method() == b"POST"
            and not self.expect_100_continue
            and not self.flow.write_paused
            and (self.cycle is None or self.cycle.response_complete)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and (stated := dict(self.headers).get(b"content-length", b"")).isdigit()
            and int(stated) <= min(_SHORT_BODY, self.limits.max_request_bytes)
        ):
            cycle: Any = _Whole(self, busy[1].decode(), _ENDPOINTS[busy[2]])
            self.cycle = cycle  # uvicorn treats it as its own
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a piece of the body, which does not count as header."""
        self._outside_body -= _FRAMING * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, and handle it if it takes the fast path."""
        self._is_receiving = False
        super().on_message_complete()
        cycle: Any = self.cycle
        if isinstance(cycle, _Whole):
            cycle.begin()

    def answer(self, reply: Reply, *, keep_alive: bool) -> None:
        """Send a response without uvicorn's request cycle."""
        if self.transport.is_closing():
            return
        headers = [*self.server_state.default_headers, *reply.header_list()]
        if not keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"".join([b"%s: %s\r\n" % header for header in headers])
        self.transport.write(b"%s%s\r\n%s" % (STATUS_LINE[reply.status], lines, reply.body))
        if not keep_alive:
            self.transport.close()
        if self.pipeline:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1

    def _is_waited_for(self) -> bool:
        """Whether the server waits for the client to finish a request or to begin another."""
        return self._is_receiving or self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Close the connection that the server has waited for longest, or else this one."""
        others = [
            one
            for one in self.connections
            if isinstance(one, LimitedProtocol) and one is not self and one._is_waited_for()
        ]
        if others:
            # Unfinished requests first, because idle connections are likely to be used again.
            min(others, key=lambda one: (not one._is_receiving, one._seen_at))._drop()
        else:
            self._refuse(503, "too_many_connections", "all connections are in use; try again.")

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def check_time(self) -> None:
        """Close the connection if it is idle too long, or its request or response too slow."""
        now = self.loop.time()
        is_waited_for, n_unsent = self._is_waited_for(), self.transport.get_write_buffer_size()
        seen = (self._n_requests, is_waited_for, n_unsent)
        if seen != self._seen or not (is_waited_for or n_unsent):
            self._seen, self._seen_at = seen, now
            return
        waited = now - self._seen_at
        if not self._is_receiving and not n_unsent:
            if waited >= self.limits.keep_alive_seconds:
                self.transport.close()
        elif waited >= self.limits.request_seconds:
            if n_unsent or not self._n_requests:
                self._drop()
            else:
                self._refuse(408, "too_slow", "the request was not complete in time.")

    def send_400_response(self, msg: str) -> None:
        """Refuse data that are not HTTP."""
        self._refuse(400, "not_http", msg[:1].lower() + msg[1:])

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Respond with an error in the common format, and close the connection."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            body = Refusal(status, code, message).body()
            self.answer(Reply(body, status), keep_alive=False)
        self._is_receiving = False
        self.transport.close()


def with_descriptors(settings: ServerSettings) -> ServerSettings:
    """Return the settings, with connections limited to the available file descriptors.

    The soft limit of this process is raised first, as far as needed and allowed.
    """
    wanted = settings.max_connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    room = max(most - OTHER_DESCRIPTORS, 1)
    return msgspec.structs.replace(settings, max_connections=min(settings.max_connections, room))
