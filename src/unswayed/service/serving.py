"""Starting the service: store, secrets and campaigns first, then worker processes."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from unswayed.errors import InputError, option
from unswayed.service import catalogue
from unswayed.service.app import ENVIRONMENT, Launch
from unswayed.service.database import Connection, Database, StoreError, opened
from unswayed.service.errors import Refusal
from unswayed.service.keys import all_keys, make_key
from unswayed.service.secret_file import load_or_make
from unswayed.service.settings import Configuration, Settings
from unswayed.storage import temporary_folder

#: Ours: how long a server may take until it responds.
_START_SECONDS = 60.0

#: Ours: open requests get this long when the service is stopped.
_GRACE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store with its campaigns and secrets, ready to be served."""

    database: Database
    store: str
    secret_path: Path
    names: tuple[str, ...]
    has_keys: bool


def prepare(configuration: Configuration, *, store: str, secret_path: Path | None) -> Prepared:
    """Make what is missing: tables, secrets, and the campaigns of the configuration."""
    database = opened(store)
    database.create()
    path = default_secret_path(store) if secret_path is None else secret_path
    load_or_make(path)
    try:
        with database.connected() as connection:
            for name, settings in configuration.campaigns.items():
                with connection.transaction():
                    apply_settings(connection, name, settings)
            names = tuple(campaign.name for campaign in catalogue.campaigns(connection))
            has_keys = bool(all_keys(connection))
    except StoreError as error:
        raise InputError(f"the store cannot be used: {error}.") from error
    return Prepared(database, store, path, names, has_keys)


def apply_settings(connection: Connection, name: str, settings: Settings) -> None:
    """Create a campaign, or give it the settings of the file; labels added meanwhile stay."""
    there = {campaign.name: campaign for campaign in catalogue.campaigns(connection)}.get(name)
    if there is None:
        catalogue.create_campaign(connection, name, settings)
        return
    kept = settings.with_labels(
        contexts=list(there.settings.contexts), actions=list(there.settings.actions)
    )
    # In the order that the store has: nothing changes when only the order does.
    kept = msgspec.structs.replace(
        kept,
        contexts=tuple(dict.fromkeys((*there.settings.contexts, *kept.contexts))),
        actions=tuple(dict.fromkeys((*there.settings.actions, *kept.actions))),
    )
    catalogue.change_settings(connection, name, kept)


def default_secret_path(store: str) -> Path:
    """Return where the secrets of a store are: beside a SQLite file, else in this folder."""
    if store.startswith("sqlite:///"):
        return Path(store.removeprefix("sqlite:///") + ".secret").absolute()
    return Path("unswayed.secret").absolute()


def new_key(prepared: Prepared, text: str) -> str:
    """Make the key that ``CAMPAIGN:ROLE`` names, and return it."""
    campaign, separator, role = text.rpartition(":")
    if not separator:
        raise InputError(
            f"{option('--make-key')} is {text!r}; give CAMPAIGN:ROLE, such as shop:decide or "
            "*:admin."
        )
    try:
        with prepared.database.connected() as connection, connection.transaction():
            return make_key(connection, campaign, role)
    except Refusal as refusal:
        raise InputError(refusal.message) from None


def serve(
    prepared: Prepared,
    configuration: Configuration,
    *,
    host: str,
    port: int,
    workers: int,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until the process is asked to stop.

    Parameters
    ----------
    on_ready
        Called with the address as soon as a worker responds.
    """
    needs_keys = not is_loopback(host)
    if needs_keys and not prepared.has_keys:
        raise InputError(
            f"{host} can be reached from other machines and there are no keys, so anybody could "
            f"request decisions; create a key with {option('--make-key')} '*:admin', or listen on "
            "127.0.0.1."
        )
    if workers < 1:
        raise InputError(f"{option('--workers')} is {workers}; at least one must serve.")
    with temporary_folder() as folder:
        launch = Launch(
            store=prepared.store,
            secret_path=str(prepared.secret_path),
            metrics_folder=str(folder),
            needs_keys=needs_keys,
            warms=True,
            server=configuration.server,
        )
        os.environ[ENVIRONMENT] = msgspec.json.encode(launch).decode()
        config = uvicorn.Config(
            "unswayed.service.app:app_from_environment",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # whoever asks could claim any address
            http=OneWriteProtocol,
            ws="none",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        listening = _bound(host, port)
        address = _address(host, listening.getsockname()[1])
        threading.Thread(target=_tell_when_ready, args=(address, on_ready), daemon=True).start()
        signal.set_wakeup_fd(-1)  # Ctrl-C is the server's: it completes open requests first
        if workers == 1:
            uvicorn.Server(config).run(sockets=[listening])
        else:
            Multiprocess(config, [listening]).run()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host's name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


def _address(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def _tell_when_ready(address: str, on_ready: Callable[[str], None]) -> None:
    asked = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{asked}/healthz", timeout=2):
                on_ready(address)
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)


_HEAD = b"HTTP/1.1 "
_INTERIM = b"HTTP/1.1 1"


class OneWrite:
    """A transport that keeps the head of a response back until its body comes.

    Sending wakes the client that waits, and costs more than all of HTTP besides; a head
    alone is of no use to anybody.
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
