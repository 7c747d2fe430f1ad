"""Starting the service: store, secret and campaigns first, then worker processes."""

from __future__ import annotations

import gc
import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvicorn

from unswayed.errors import InputError, option
from unswayed.service import catalogue
from unswayed.service.app import Launch, create_app
from unswayed.service.connections import limited, with_descriptors
from unswayed.service.database import Connection, Database, StoreError, opened
from unswayed.service.errors import Refusal
from unswayed.service.keys import all_keys, make_key
from unswayed.service.logs import start_logs
from unswayed.service.metrics import Metrics
from unswayed.service.secret_file import Secrets, bound_secrets
from unswayed.service.settings import DEMO, Configuration, Settings
from unswayed.service.supervisor import GRACE_SECONDS, Beat, Supervisor
from unswayed.storage import temporary_folder

logger = logging.getLogger("unswayed.service")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store with its campaigns and secrets, ready to be served."""

    database: Database
    store: str
    secrets: Secrets
    names: tuple[str, ...]
    has_keys: bool


def prepare(
    configuration: Configuration | None, *, store: str, secret_path: Path | None
) -> Prepared:
    """Make what is missing: tables, the secret, and the campaigns of the configuration.

    Without a configuration a new store gets the campaign of the demonstration.
    """
    database = opened(store)
    database.create()
    try:
        with database.connected() as connection:
            found = bound_secrets(connection, secret_path, default_secret_path(store))
            if configuration is None:
                configuration = Configuration() if catalogue.campaigns(connection) else DEMO
            apply_campaigns(connection, configuration)
            names = tuple(campaign.name for campaign in catalogue.campaigns(connection))
            has_keys = bool(all_keys(connection))
    except StoreError as error:
        raise InputError(f"the store cannot be used: {error}.") from error
    return Prepared(database, store, found, names, has_keys)


def apply_campaigns(connection: Connection, configuration: Configuration) -> None:
    """Create the campaigns of a configuration, or give them its settings."""
    try:
        for name, settings in configuration.campaigns.items():
            with connection.transaction():
                apply_settings(connection, name, settings)
    except StoreError as error:
        raise InputError(f"the store cannot be used: {error}.") from error


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
    changed = [
        f"{field} {getattr(there.settings, field)!r} -> {getattr(kept, field)!r}"
        for field in kept.__struct_fields__
        if getattr(there.settings, field) != getattr(kept, field)
        and field not in ("contexts", "actions")
    ]
    catalogue.change_settings(connection, name, kept)
    if changed:
        logger.warning("campaign %r: the configuration file wins: %s.", name, ", ".join(changed))


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
    on_reload: Callable[[], Configuration] | None = None,
) -> None:
    """Serve until the process is asked to stop.

    Parameters
    ----------
    on_ready
        Called with the address as soon as a worker responds.
    on_reload
        Returns the configuration again on SIGHUP; its campaigns and limits are applied.
    """
    is_public = not is_loopback(host)
    if is_public and not prepared.has_keys:
        raise InputError(
            f"{host} can be reached from other machines and there are no keys, so anybody could "
            f"request decisions; create a key with {option('--make-key')} '*:admin', or listen on "
            "127.0.0.1."
        )
    if workers < 1:
        raise InputError(f"{option('--workers')} is {workers}; at least one must serve.")
    limits, names = configuration.server, frozenset(configuration.campaigns)
    with temporary_folder() as folder:
        metrics = Metrics(folder)

        def work(beat: Beat) -> None:
            launch = Launch(
                store=prepared.store,
                secrets=prepared.secrets,
                metrics_folder=folder,
                is_public=is_public,
                warms=True,
                server=with_descriptors(limits),
                configured=names,
            )
            _Server(launch, beat).run(sockets=[listening])

        def reload() -> None:
            nonlocal limits, names
            if on_reload is not None:
                found = on_reload()
                with prepared.database.connected() as connection:
                    apply_campaigns(connection, found)
                limits, names = found.server, frozenset(found.campaigns)
            start_logs(limits)

        def count_restart() -> None:
            metrics.count("unswayed_worker_restarts_total")
            metrics.save()

        listening = _bound(host, port)
        address = _address(host, listening.getsockname()[1])
        start_logs(limits)
        # What is there now stays: looking through it for garbage would make requests wait.
        gc.collect()
        gc.freeze()
        supervisor = Supervisor(
            work,
            workers,
            on_ready=lambda: on_ready(address),
            on_reload=reload,
            on_restart=count_restart,
        )
        supervisor.run()


class _Server(uvicorn.Server):
    """uvicorn with the service's limits, which says that it works."""

    def __init__(self, launch: Launch, beat: Beat) -> None:
        super().__init__(server_config(launch))
        self._beat = beat

    async def on_tick(self, counter: int) -> bool:
        """Say so every second; the first time when it has begun to serve."""
        if counter % 10 == 0:
            self._beat()
        return await super().on_tick(counter)


def server_config(launch: Launch) -> uvicorn.Config:
    """Return how uvicorn serves the application."""
    return uvicorn.Config(
        create_app(launch),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whoever asks could claim any address
        http=limited(launch.server),
        ws="none",
        timeout_keep_alive=launch.server.keep_alive_seconds,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


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
