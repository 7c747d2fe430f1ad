"""`unswayed store`: check, back up or migrate the store of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unswayed.cli.options import Json, Store
from unswayed.errors import InputError
from unswayed.reports.tables import print_json, print_line

_TASKS = ("check", "backup", "migrate")


def store(
    task: Annotated[str, typer.Argument(help="check, backup or migrate.")],
    store: Store = "sqlite:///unswayed.db",
    to: str | None = None,
    secret: Path | None = None,
    json: Json = False,
) -> None:
    """Check a service's store, back it up while it is in use, or migrate it to the current format.

    to: Address of the new store that a backup is written to.
    secret: Secret file that a check compares with the store.
    """
    from unswayed.service import upkeep
    from unswayed.service.tokens import Secrets

    if task not in _TASKS:
        raise InputError(f"there is no task {task!r}; choose one of: {', '.join(_TASKS)}.")
    if (task == "backup") != (to is not None):
        raise InputError("give --to sqlite:///FILE with backup, and with nothing else.")
    found: dict[str, Any]
    if task == "check":
        found = upkeep.check_store(store, None if secret is None else Secrets.load(secret))
        lines = [
            f"campaign {name}: "
            + ", ".join(f"{number:,} {what}" for what, number in counts.items())
            for name, counts in found["campaigns"].items()
        ]
        lines += [f"problem: {problem}" for problem in found["problems"]]
        lines += [f"format {found['format']}; {len(found['problems'])} problems"]
    elif to is not None:
        rows = upkeep.back_up(store, to)
        found = {"to": to, "rows": rows}
        lines = [f"copied {sum(rows.values()):,} rows; keep the secret, too."]
    else:
        before, after = upkeep.migrate(store)
        found = {"from": before, "to": after}
        lines = [f"the store has format {after}" + (f"; it had {before}." * (before != after))]
    if json:
        print_json(found)
    else:
        for line in lines:
            print_line(line)
    if found.get("problems"):
        raise typer.Exit(1)
