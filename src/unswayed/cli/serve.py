"""`unswayed serve`: decisions and rewards over HTTP."""

from __future__ import annotations

from pathlib import Path

from unswayed.cli.options import Json, Store
from unswayed.errors import InputError
from unswayed.reports.tables import print_json, print_line


def serve(
    config: Path | None = None,
    policy: Path | None = None,
    store: Store = "sqlite:///unswayed.db",
    host: str = "127.0.0.1",
    port: int = 8321,
    workers: int = 1,
    secret: Path | None = None,
    known: Path | None = None,
    make_key: str | None = None,
    json: Json = False,
) -> None:
    """Serve decisions over HTTP, record their rewards, and learn in the background.

    SIGHUP reads the configuration again and replaces the workers one by one.

    config: TOML file with campaigns and limits [a campaign named demo].
    policy: Policy that `unswayed learn` wrote, served by a campaign named after the file; instead
        of --config.
    host: Address to listen on.
    port: Port; 0 chooses a free one.
    workers: Worker processes.
    secret: Secret file, created if missing [UNSWAYED_SECRET, or next to SQLite's file].
    known: CSV of reviewed accounts (user, status honest or fake), as `unswayed learn --known` takes
        it; used by every learning and audit.
    make_key (CAMPAIGN:ROLE): Create a key, print it and exit. Roles: decide, reward, admin; *: all
        campaigns.
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
    # Making a key needs no campaign, so the demo campaign is not created for it.
    is_demo = config is None and policy is None and make_key is None
    prepared = serving.prepare(None if is_demo else configuration, store=store, secret_path=secret)
    if make_key is not None:
        key = serving.new_key(prepared, make_key)
        if json:
            print_json({"key": key})
        else:
            print_line(key)
        return

    def on_ready(address: str) -> None:
        if json:
            print_json({"address": address, "campaigns": list(prepared.names)})
        else:
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
