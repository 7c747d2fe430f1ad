"""Connections: one write per response, and limits that no client can exceed.

uvicorn waits for the rest of a request for ever, and reads headers of any length. Here a request
must be complete in time, its headers are bounded, and so is the number of connections. A client
that waits for its turn is dropped before one that is served.
"""

from __future__ import annotations

import asyncio
import http
import math
import resource
from typing import Any, ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from unswayed.service.errors import Refusal
from unswayed.service.settings import ServerSettings

_HEAD = b"HTTP/1.1 "
_INTERIM = b"HTTP/1.1 1"

#: Ours: how often connections are looked at.
_SWEEP_SECONDS = 1.0

#: Ours: how long a new connection may take to send its first request while a worker stops.
_ON_ITS_WAY_SECONDS = 0.25

#: Ours: bytes of framing that each byte of a body may bring; a chunk of one byte brings five.
_FRAMING = 6

#: Ours: descriptors of a worker that are no connections: the store's, logs, processes it starts.
OTHER_DESCRIPTORS = 200


class OneWrite:
    """A transport that keeps the head of a response back until its body comes.

    Sending wakes the client that waits, and costs more than all of HTTP besides; a head
    alone is of no use to anybody, unless there is no body.
    """

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write, except for the head of a response."""
        if self._head:
            data = self._head + data
            self._head = b""
        elif data.startswith(_HEAD) and not data.startswith(_INTERIM):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Write what was kept back: the response is complete, and had no body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Write what was kept back, and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol on such a transport, with limits; see ``limited``."""

    limits: ClassVar[ServerSettings]
    _sweeping: ClassVar[asyncio.TimerHandle | None] = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection, at the cost of one that waits if there are too many."""
        self._n_requests = 0
        self._is_receiving = True
        self._outside_body = 0
        self._seen: tuple[object, ...] = ()
        self._seen_at = math.inf
        super().connection_made(OneWrite(transport))  # type: ignore[arg-type]
        kind = type(self)
        if kind._sweeping is None:
            kind._sweeping = self.loop.call_later(_SWEEP_SECONDS, self._sweep)
        if len(self.connections) > self.limits.max_connections:
            self._make_room()

    def shutdown(self) -> None:
        """End the connection; a first request that is on its way is answered before."""
        end = super().shutdown
        if not self._n_requests:
            self.loop.call_later(_ON_ITS_WAY_SECONDS, end)
        else:
            end()

    def data_received(self, data: bytes) -> None:
        """Parse, and refuse a request with too much outside of its body."""
        n_before, was_receiving = self._n_requests, self._is_receiving
        super().data_received(data)
        n_begun = self._n_requests - n_before
        # Of a piece with the end of another request it is not known what belongs to the last one.
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

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._outside_body -= _FRAMING * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; from now on it is the server's turn."""
        self._is_receiving = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End a response; one to HEAD, too, which has no body to bring its head along."""
        self.transport.flush()  # type: ignore[attr-defined]  # it is a OneWrite
        super().on_response_complete()

    def _is_waited_for(self) -> bool:
        """Whether it is the client's turn: to send, or to begin another request."""
        return self._is_receiving or self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Drop the connection that has been waited for longest, or else this one."""
        others = [
            one
            for one in self.connections
            if isinstance(one, LimitedProtocol) and one is not self and one._is_waited_for()
        ]
        if others:
            # Those in the middle of a request first: idle ones belong to clients that come back.
            min(others, key=lambda one: (not one._is_receiving, one._seen_at))._drop()
        else:
            self._refuse(503, "too_many_connections", "all connections are in use; try again.")

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def _sweep(self) -> None:
        """Look at all connections, and at none again until there is one."""
        kind = type(self)
        now = self.loop.time()
        for one in list(self.connections):
            if isinstance(one, LimitedProtocol):
                one._check_time(now)
        kind._sweeping = (
            self.loop.call_later(_SWEEP_SECONDS, self._sweep) if self.connections else None
        )

    def _check_time(self, now: float) -> None:
        """Cut the connection off if what it does has not moved for too long."""
        n_unsent = self.transport.get_write_buffer_size()
        is_slow = self._is_waited_for() and self.timeout_keep_alive_task is None
        if not is_slow and not n_unsent:
            self._seen, self._seen_at = (), math.inf
            return
        seen = (self._n_requests, is_slow, n_unsent)
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        elif now - self._seen_at >= self.limits.request_seconds:
            if n_unsent or not self._n_requests:
                self._drop()
            else:
                self._refuse(408, "too_slow", "the request was not complete in time.")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Respond with an error of the one shape, and close the connection."""
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started:
            body = Refusal(status, code, message).body()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s"
                % (status, http.HTTPStatus(status).phrase.encode(), len(body), body)
            )
        self._is_receiving = False
        self.transport.close()


def limited(settings: ServerSettings) -> type[LimitedProtocol]:
    """Return the protocol of a server with these limits."""
    return type("Limited", (LimitedProtocol,), {"limits": settings})


def with_descriptors(settings: ServerSettings) -> ServerSettings:
    """Return the settings with no more connections than the system has descriptors for.

    The soft limit of this process is raised as far as needed.
    """
    wanted = settings.max_connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    room = max(most - OTHER_DESCRIPTORS, 1)
    return msgspec.structs.replace(settings, max_connections=min(settings.max_connections, room))
