"""`unswayed serve`: decisions and rewards over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unswayed.cli.options import Json
from unswayed.errors import InputError
from unswayed.reports.tables import print_json, print_line


def serve(
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with campaigns and limits [a campaign named demo]."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Policy that `unswayed learn` wrote, instead of --config: a campaign with the "
            "file's name begins with it."
        ),
    ] = None,
    store: Annotated[
        str,
        typer.Option(
            help="sqlite:///FILE, or postgresql://USER@HOST/DATABASE.", envvar="UNSWAYED_STORE"
        ),
    ] = "sqlite:///unswayed.db",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8321,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    secret: Annotated[
        Path | None,
        typer.Option(
            help="File of the secret, made if missing [UNSWAYED_SECRET, or next to SQLite's file]."
        ),
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="CSV of reviewed accounts (user, status honest or fake), as `unswayed learn "
            "--known` takes it; used by every learning and audit."
        ),
    ] = None,
    make_key: Annotated[
        str | None,
        typer.Option(
            metavar="CAMPAIGN:ROLE",
            help="Create a key, print it and exit. Roles: decide, reward, admin; *: all campaigns.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Serve decisions over HTTP, record their rewards, and learn in the background.

    SIGHUP reads the configuration again and replaces the workers one by one.
    """
    from unswayed.service import metrics, serving, settings

    if config is not None and policy is not None:
        raise InputError(
            f'give --config or --policy; a campaign of {config} takes policy = "{policy}".'
        )

    def configured() -> settings.Configuration:
        if policy is not None:
            found = settings.policy_configuration(policy)
        else:
            found = settings.load_configuration(config) if config else settings.Configuration()
        return found if known is None else settings.with_known(found, known)

    configuration = configured()
    metrics.start_logs(configuration.server)
    # A key for a store that is there needs no campaign to be made.
    is_demo = config is None and policy is None and make_key is None
    prepared = serving.prepare(None if is_demo else configuration, store=store, secret_path=secret)
    if make_key is not None:
        key = serving.new_key(prepared, make_key)
        print_json({"key": key}) if json else print_line(key)
        return

    def on_ready(address: str) -> None:
        if json:
            print_json({"address": address, "campaigns": list(prepared.names)})
            return
        print_line(f"unswayed is ready at {address}; stop it with Ctrl-C.")

    serving.serve(
        prepared,
        configuration,
        host=host,
        port=port,
        workers=workers,
        on_ready=on_ready,
        on_reload=None if config is None else configured,
    )
