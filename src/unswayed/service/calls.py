"""From an HTTP request to a function and back: keys, limits, bodies, and the shape of errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope, Send

from unswayed.errors import InputError
from unswayed.service.database import Connection, StoreError
from unswayed.service.errors import Refusal, bad_request, store_unavailable, wrong_body
from unswayed.service.keys import EVERY_CAMPAIGN, Rates, Role, key_of
from unswayed.service.logs import request_id
from unswayed.service.metrics import Metrics, process_numbers
from unswayed.service.service import Service

logger = logging.getLogger("unswayed.service")

JSON = b"application/json"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reply:
    """A response other than JSON with status 200."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Streamed:
    """A streamed response: ``produce`` gets a function that sends a piece."""

    produce: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
    content_type: bytes
    filename: str


class BrokenStreamError(Exception):
    """A streamed response cannot be finished; the connection is closed before its end."""


#: Ours: largest bodies that may be in the making at once; smaller ones, of one piece, always may.
_MOST_UNFINISHED = 64


class Bodies:
    """Reads the bodies of requests, each up to a size, and all that are unfinished together, too.

    Parameters
    ----------
    most
        Bytes of a body; a larger one is refused, if possible before it is read.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._n_unfinished = 0

    async def read(
        self, headers: Mapping[bytes, bytes], receive: Receive, most: int | None = None
    ) -> bytes:
        """Return the body, or refuse it; ``most`` is a limit of this request's own."""
        most = self._most if most is None else most
        stated = headers.get(b"content-length", b"0")
        if stated.isdigit() and int(stated) > most:
            raise _too_large(most)
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body = await self._rest(body, receive, most)
        elif message["type"] == "http.disconnect":
            raise _broken_off()
        if len(body) > most:
            raise _too_large(most)
        return body

    async def _rest(self, first: bytes, receive: Receive, most: int) -> bytes:
        """Return a body that comes in several pieces."""
        parts, size, is_more = [first], len(first), True
        self._n_unfinished += size
        try:
            while is_more:
                if size > most:
                    raise _too_large(most)
                if self._n_unfinished > _MOST_UNFINISHED * self._most:
                    raise Refusal(503, "busy", "too many large requests at once; send it again.")
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _broken_off()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._n_unfinished += len(parts[-1])
                is_more = message.get("more_body", False)
        finally:
            self._n_unfinished -= size
        return b"".join(parts)


def _broken_off() -> Refusal:
    return bad_request("the request ended before its body did.")


@dataclass(slots=True)
class Runtime:
    """What all requests of a process share."""

    service: Service
    metrics: Metrics
    rates: Rates
    store_url: str
    is_public: bool
    bodies: Bodies
    configured: frozenset[str] = frozenset()
    reported: dict[str, str] = field(default_factory=dict)

    @property
    def needs_keys(self) -> bool:
        """Whether callers need a key: beyond loopback, or once a key was ever created."""
        return self.is_public or self.service.watcher.state.had_keys

    def refresh_metrics(self) -> None:
        """Look up what is not counted as it happens."""
        writer, found = self.service.writer, self.metrics
        found.gauges["unswayed_workers"] = 1.0
        found.gauges["unswayed_store_healthy"] = float(writer.is_healthy)
        found.gauges["unswayed_decisions_waiting"] = float(writer.n_waiting)
        found.gauges["unswayed_writes_waiting"] = float(writer.n_requests)
        found.counts["unswayed_store_commits_total"] = float(writer.n_commits)
        found.counts["unswayed_store_commit_seconds_total"] = writer.commit_seconds
        found.counts["process_cpu_seconds_total"], held = process_numbers()
        found.gauges.update(held)
        found.counts["unswayed_decisions_dropped_total"] = float(writer.n_dropped)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, checked: its campaign, path and query parameters, and decoded body."""

    runtime: Runtime
    campaign: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    @property
    def service(self) -> Service:
        """What serves."""
        return self.runtime.service

    async def read(self, look: Callable[[Connection], Result]) -> Result:
        """Read from the store, outside the event loop."""

        def run() -> Result:
            with self.service.database.connected() as connection:
                return look(connection)

        return await run_in_threadpool(run)

    async def change(self, make: Callable[[Connection], Result], *, refresh: bool = True) -> Result:
        """Change the store in one transaction; this process sees the change at once."""

        def run() -> Result:
            with self.service.database.connected() as connection, connection.transaction():
                result = make(connection)
            if refresh:
                self.service.watcher.refresh()
            return result

        return await run_in_threadpool(run)


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A route: what it needs, what it calls, and what its documentation says.

    Parameters
    ----------
    roles
        Keys of these roles open it, and those of admins; None: no key is needed.
    body
        Type of the body, None if it has none.
    plain_body
        A narrower type that is quicker to work on, tried first.
    row
        Type of the rows of a batch, each of which may be wrong by itself.
    query
        Names and descriptions of query parameters.
    returns
        Type of the response's body, for the documentation.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    roles: tuple[Role, ...] | None = ()
    body: type | None = None
    plain_body: type | None = None
    row: type | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    returns: Any = dict[str, Any]
    status: int = 200
    decoder: Any = None
    plain_decoder: Any = None

    def __post_init__(self) -> None:
        if self.body is not None:
            object.__setattr__(self, "decoder", msgspec.json.Decoder(self.body))
        if self.plain_body is not None:
            object.__setattr__(self, "plain_decoder", msgspec.json.Decoder(self.plain_body))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; errors, too, get one response in the documented shape."""
        runtime: Runtime = scope["app"].state.runtime
        started = time.perf_counter()
        status = 500
        try:
            result = await self._result(runtime, scope, receive)
            if isinstance(result, Streamed):
                status = 200
                await _stream(result, send)
            else:
                reply = (
                    result
                    if isinstance(result, Reply)
                    else Reply(msgspec.json.encode(result), self.status)
                )
                status = reply.status
                await respond(send, reply)
        except Refusal as refusal:
            status = refusal.status
            runtime.metrics.count("unswayed_refusals_total", code=refusal.code)
            await respond(send, Reply(refusal.body(), status))
        except BrokenStreamError:
            raise
        except Exception:
            logger.exception("%s %s failed", self.method, self.path)
            failure = Refusal(500, "internal", "an internal error occurred; it was logged.")
            await respond(send, Reply(failure.body(), 500))
        finally:
            seconds = time.perf_counter() - started
            runtime.metrics.add_response(self.path, status, seconds)
            if runtime.service.server.log_requests:
                self._log(scope, status, seconds)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        fields = {
            "request_id": request_id(dict(scope["headers"]).get(b"x-request-id")),
            "method": self.method,
            "route": self.path,  # and not the address, in which a user may be named
            "campaign": scope.get("path_params", {}).get("campaign", ""),
            "status": status,
            "milliseconds": round(1000.0 * seconds, 3),
        }
        logger.info("request", extra={"fields": fields})

    async def _result(self, runtime: Runtime, scope: Scope, receive: Receive) -> Any:
        path = scope.get("path_params") or {}
        campaign = path.get("campaign", EVERY_CAMPAIGN)
        headers = dict(scope["headers"])
        if self.roles is not None:
            check_caller(runtime, headers, scope, self.roles, campaign)
        body = None
        if self.decoder is not None:
            raw = await runtime.bodies.read(headers, receive)
            body = self._decoded(raw)
        query = self._query(scope["query_string"])
        try:
            return await self.handler(Call(runtime, campaign, path, query, body))
        except InputError as error:
            raise Refusal(422, "bad_input", str(error)) from None
        except StoreError as error:
            logger.warning("the store failed: %s", error)
            raise store_unavailable() from None

    def _decoded(self, raw: bytes) -> Any:
        if self.plain_decoder is not None:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return self.plain_decoder.decode(raw)
        try:
            return self.decoder.decode(raw)
        except msgspec.ValidationError as error:
            rows = None if self.row is None else self._decoded_rows(raw)
            if rows is None:
                raise Refusal(422, "bad_body", wrong_body(error, self.body)) from None
            return rows
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {error}.", "not_json") from None

    def _decoded_rows(self, raw: bytes) -> Any:
        """Return a batch with a refusal in the place of each wrong row; None if it is no batch."""
        assert self.body is not None
        (name,) = self.body.__struct_fields__  # type: ignore[attr-defined]  # a struct's
        try:
            given = msgspec.json.decode(raw, type=dict[str, list[msgspec.Raw]])
        except msgspec.ValidationError:
            return None
        if list(given) != [name]:
            return None
        rows: list[Any] = []
        for row in given[name]:
            try:
                rows.append(msgspec.json.decode(row, type=self.row))
            except msgspec.ValidationError as error:
                rows.append(Refusal(422, "bad_body", wrong_body(error, self.row)))
        return self.body(rows)

    def _query(self, text: bytes) -> dict[str, str]:
        if not text:
            return {}
        given = parse_qs(text.decode("latin-1"), keep_blank_values=True)
        unknown = sorted(set(given) - set(self.query))
        if unknown:
            raise bad_request(f"there is no query parameter {unknown[0][:80]!r}.")
        return {name: values[-1] for name, values in given.items()}


def check_caller(
    runtime: Runtime,
    headers: Mapping[bytes, bytes],
    scope: Scope,
    roles: tuple[Role, ...],
    campaign: str,
) -> None:
    """Reject callers without a matching key, and those above the rate limit."""
    keys = runtime.service.watcher.state.keys
    if not runtime.needs_keys:
        check_origin(headers)
        client = scope.get("client")
        runtime.rates.take(client[0] if client else "")
        return
    key = key_of(_presented(headers), keys)
    runtime.rates.take(key.id)
    if not key.may(roles, campaign):
        needed = " or ".join((*roles, "admin"))
        raise Refusal(403, "forbidden", f"this needs a key of role {needed} for this campaign.")


def check_origin(headers: Mapping[bytes, bytes]) -> None:
    """Reject requests that other web sites make a browser on this machine send.

    Without keys all programs on this machine are trusted, including its browsers.
    """
    host = headers.get(b"host", b"")
    name = host.rpartition(b":")[0] if host.rpartition(b":")[2].isdigit() else host
    origin = headers.get(b"origin")
    if name not in _OWN_NAMES or (origin is not None and origin.partition(b"://")[2] != host):
        raise Refusal(
            403,
            "cross_site",
            "without keys only programs on this machine have access; create a key.",
        )


#: How this machine calls itself.
_OWN_NAMES = (b"127.0.0.1", b"localhost", b"[::1]")


def _presented(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not key:
        raise Refusal(401, "no_key", "send your key as 'Authorization: Bearer KEY'.")
    return key.decode("latin-1")


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {most:,} bytes; send less at once.")


async def respond(send: Send, reply: Reply) -> None:
    """Send a response."""
    start: Message = {
        "type": "http.response.start",
        "status": reply.status,
        "headers": [
            (b"content-type", reply.content_type),
            (b"content-length", str(len(reply.body)).encode()),
            *reply.headers,
        ],
    }
    if reply.status == 401:
        start["headers"].append((b"www-authenticate", b"Bearer"))
    elif reply.status in (429, 503):
        start["headers"].append((b"retry-after", b"1"))
    await send(start)
    await send({"type": "http.response.body", "body": reply.body})


async def _stream(streamed: Streamed, send: Send) -> None:
    is_begun = False

    async def piece(data: bytes) -> None:
        nonlocal is_begun
        if not is_begun:
            is_begun = True
            name = streamed.filename.encode("latin-1")
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", streamed.content_type),
                        (b"content-disposition", b'attachment; filename="' + name + b'"'),
                    ],
                }
            )
        await send({"type": "http.response.body", "body": data, "more_body": True})

    try:
        await streamed.produce(piece)
    except Exception as error:
        if is_begun:
            raise BrokenStreamError from error
        raise
    await send({"type": "http.response.body", "body": b""})
