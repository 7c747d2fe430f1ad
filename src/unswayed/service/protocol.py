"""HTTP as uvicorn speaks it, with the head and the body of an answer in one packet."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1.1 "
_INTERIM = b"HTTP/1.1 1"


class OneWrite:
    """A transport that keeps the head of an answer back until its body comes.

    Sending wakes whoever waits for the answer, and costs more than all of HTTP besides; a head
    alone is of no use to anybody.
    """

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write, except for the head of an answer."""
        if self._head:
            data = self._head + data
            self._head = b""
        elif data.startswith(_HEAD) and not data.startswith(_INTERIM):
            self._head = data
            return
        self._transport.write(data)

    def close(self) -> None:
        """Write what was kept back, and close."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's protocol on such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(OneWrite(transport))  # type: ignore[arg-type]
