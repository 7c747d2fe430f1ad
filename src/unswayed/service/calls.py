"""Handling of HTTP requests: keys, limits, bodies, and error responses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unswayed.errors import InputError
from unswayed.service.database import StoreError
from unswayed.service.errors import Refusal, bad_request, store_unavailable, wrong_body
from unswayed.service.keys import EVERY_CAMPAIGN, Role, key_of
from unswayed.service.metrics import request_id
from unswayed.service.service import Service

logger = logging.getLogger("unswayed.service")

JSON = b"application/json"

# Ours: limit on the bytes of all unfinished bodies, in multiples of ``max_request_bytes``
_MOST_UNFINISHED = 64
_OWN_NAMES = (b"127.0.0.1", b"localhost", b"[::1]")  # Host names of the loopback interface

Result = TypeVar("Result")
Headers = Mapping[bytes, bytes]


class Reply(NamedTuple):
    """A complete response."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def header_list(self) -> list[tuple[bytes, bytes]]:
        """Return all headers."""
        headers = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        elif self.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        return headers


def refusal_of(error: BaseException, what: str) -> Refusal:
    """Return the response to an error; log errors that are not the caller's fault."""
    match error:
        case Refusal():
            return error
        case StoreError():
            logger.warning("%s", error)
            return store_unavailable()
        case InputError():
            return Refusal(422, "bad_input", str(error))
        case asyncio.CancelledError():
            return Refusal(503, "stopping", "the server is stopping; send the request again.")
    logger.error("%s failed", what, exc_info=error)
    return Refusal(500, "internal", "an internal error occurred; it was logged.")


async def read_body(
    service: Service, headers: Headers, receive: Receive, most: int | None = None
) -> bytes:
    """Return the body of a request; reject one that is too large or incomplete.

    ``most`` overrides the server's limit in bytes. A body with a declared length is rejected before
    it is read. Further pieces of bodies are rejected while the total size of unfinished bodies is
    too large.
    """
    largest = service.server.max_request_bytes
    most = largest if most is None else most
    stated = headers.get(b"content-length", b"0")
    if stated.isdigit() and int(stated) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise bad_request("the request ended before its body did.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            service.unfinished_bytes += len(parts[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body"):
                return b"".join(parts)
            if service.unfinished_bytes > _MOST_UNFINISHED * largest:
                raise Refusal(503, "busy", "too many large requests at once; send it again.")
    finally:
        service.unfinished_bytes -= size


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {most:,} bytes; send less at once.")


class Call(NamedTuple):
    """One request, checked: its campaign, path and query parameters, and decoded body."""

    service: Service
    campaign: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    async def read(self, look: Callable[..., Result], *arguments: Any) -> Result:
        """Read from the store, outside the event loop."""

        def run() -> Result:
            with self.service.database.connected() as connection:
                return look(connection, *arguments)

        return await run_in_threadpool(run)

    async def change(self, make: Callable[..., Result], *arguments: Any) -> Result:
        """Change the store in one transaction; this process sees the change at once."""

        def run() -> Result:
            with self.service.database.connected() as connection, connection.transaction():
                result = make(connection, *arguments)
            self.service.watcher.refresh()
            return result

        return await run_in_threadpool(run)


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, eq=False)
class Endpoint:
    """A route: its permissions, its handler, and its documentation."""

    method: str
    path: str
    handler: Handler
    summary: str
    # roles that may call it besides admins; None if no key is needed
    roles: tuple[Role, ...] | None = ()
    body: type | None = None
    row: type | None = None  # type of a batch's rows, which may fail one by one
    query: Mapping[str, str] = field(default_factory=dict)  # descriptions by name
    returns: Any = dict[str, Any]
    status: int = 200
    is_slow: bool = False  # needs a process of its own, which HEAD does not start

    @cached_property
    def _decoder(self) -> Any:
        return msgspec.json.Decoder(self.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request whose body has not been read."""
        path, query = scope.get("path_params") or {}, scope["query_string"]
        service, client = scope["app"].state.service, scope.get("client")
        is_head = self.is_slow and scope["method"] == "HEAD"
        one = replace(self, handler=_only_head) if is_head else self
        address = client[0] if client else ""
        reply = await one.reply(service, address, scope["headers"], path, receive, query)
        if isinstance(reply, Response):
            await reply(scope, receive, send)
            return
        headers = reply.header_list()
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def reply(
        self,
        service: Service,
        address: str,
        header_list: Iterable[tuple[bytes, bytes]],
        path: Mapping[str, str],
        body: bytes | Receive,
        query: bytes = b"",
    ) -> Reply | Response:
        """Return the response, also for errors; one of Starlette's if it is streamed."""
        headers = dict(header_list)
        started = time.perf_counter()
        result: Reply | Response
        try:
            made = await self._result(service, address, headers, path, body, query)
            is_whole = isinstance(made, Reply | Response)
            result = made if is_whole else Reply(msgspec.json.encode(made), self.status)
        except (Exception, asyncio.CancelledError) as error:
            refusal = refusal_of(error, f"{self.method} {self.path}")
            service.metrics.count("unswayed_refusals_total", code=refusal.code)
            result = Reply(refusal.body(), refusal.status)
        status = result.status_code if isinstance(result, Response) else result.status
        seconds = time.perf_counter() - started
        service.metrics.add_response(self.path, status, seconds)
        if service.server.log_requests:
            campaign = path.get("campaign", "")
            fields = {
                "request_id": request_id(headers.get(b"x-request-id")),
                "method": self.method,
                "route": self.path,  # the address may name a user
                # Unknown names are arbitrary text from the caller.
                "campaign": campaign if campaign in service.watcher.state.campaigns else "",
                "status": status,
                "milliseconds": round(1000.0 * seconds, 3),
            }
            logger.info("request", extra={"fields": fields})
        return result

    async def _result(
        self,
        service: Service,
        address: str,
        headers: Headers,
        path: Mapping[str, str],
        body: bytes | Receive,
        query_string: bytes,
    ) -> Any:
        campaign = path.get("campaign", EVERY_CAMPAIGN)
        if self.roles is not None:
            self._check_caller(service, headers, address, campaign)
        elif "campaign" in path:  # health checks are not limited
            service.rates.take(address)
        decoded = None
        if self.body is not None:
            if not isinstance(body, bytes):
                body = await read_body(service, headers, body)
            decoded = self._decoded(body, service.server.max_batch)
        query = {}
        if query_string:
            query = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
            unknown = sorted(query.keys() - self.query.keys())
            if unknown:
                raise bad_request(f"there is no query parameter {unknown[0][:80]!r}.")
        return await self.handler(Call(service, campaign, path, query, decoded))

    def _check_caller(
        self, service: Service, headers: Headers, address: str, campaign: str
    ) -> None:
        """Reject callers without a matching key, and those above the rate limit."""
        if not service.needs_keys:
            check_origin(headers)
            service.rates.take(address)
            return
        scheme, _, presented = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not presented:
            raise Refusal(401, "no_key", "send your key as 'Authorization: Bearer KEY'.")
        key = key_of(presented.decode("latin-1"), service.watcher.state.keys)
        service.rates.take(key.id)
        if not key.may(self.roles or (), campaign):
            needed = " or ".join((*(self.roles or ()), "admin"))
            raise Refusal(403, "forbidden", f"this needs a key of role {needed} for this campaign.")

    def _decoded(self, raw: bytes, most: int) -> Any:
        try:
            try:
                return self._decoder.decode(raw)
            except msgspec.ValidationError as error:
                rows = None if self.row is None else self._decoded_rows(raw, most)
                if rows is None:
                    raise Refusal(422, "bad_body", wrong_body(error, self.body)) from None
                return rows
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {error}.", "not_json") from None

    def _decoded_rows(self, raw: bytes, most: int) -> Any:
        """Return a batch with a ``Refusal`` for each malformed row; None if it is not a batch.

        If a batch is too long, only enough rows to detect that are read.
        """
        (name,) = self.body.__struct_fields__  # type: ignore[union-attr]  # a struct's
        try:
            given = msgspec.json.decode(raw, type=dict[str, list[msgspec.Raw]])
        except msgspec.ValidationError:
            return None
        if list(given) != [name]:
            return None
        rows: list[Any] = []
        for row in given[name][: most + 1]:
            try:
                rows.append(msgspec.json.decode(row, type=self.row))
            except msgspec.ValidationError as error:
                rows.append(Refusal(422, "bad_body", wrong_body(error, self.row)))
        return self.body(rows)  # type: ignore[misc]


async def _only_head(call: Call) -> Reply:
    call.service.watcher.state.campaign(call.campaign)
    return Reply(b"", content_type=b"application/octet-stream")


def check_origin(headers: Headers) -> None:
    """Reject cross-site requests of browsers on this machine.

    Without keys every program on this machine has access, so web pages could use it by a browser.
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
