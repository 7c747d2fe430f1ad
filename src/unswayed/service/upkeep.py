"""Maintenance of a store: check, backup, migration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from unswayed.errors import InputError, option
from unswayed.policy import EpochPlan, Policy
from unswayed.service import catalogue
from unswayed.service.database import COLUMNS, Connection, format_of, opened
from unswayed.service.tokens import Secrets, decode_record, decode_records
from unswayed.storage import whole_file

#: Ours: rows in one statement.
_ROWS = 100

#: Problems of one kind that are listed.
_LISTED = 5


@dataclass(slots=True)
class Findings:
    """What a check found; ``problems`` are sentences."""

    store_format: str = ""
    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the findings as plain values."""
        return {
            "format": self.store_format,
            "campaigns": self.numbers,
            "problems": self.problems,
            "is_good": not self.problems,
        }


def check_store(url: str, secret: Secrets | None) -> Findings:
    """Read everything that a store holds, and return what is wrong with it.

    A ``secret`` is compared with the one that the store is bound to.
    """
    found = Findings()
    with opened(url).connected() as connection:
        connection.begin_reading()
        found.store_format = format_of(connection)
        found.problems += connection.damage()
        _check_secret(connection, secret, found)
        for campaign in catalogue.campaigns(connection):
            _check_campaign(connection, campaign, found)
    return found


def _check_secret(connection: Connection, secret: Secrets | None, found: Findings) -> None:
    rows = connection.execute("SELECT value FROM meta WHERE name = 'secret'")
    if secret is not None and rows and rows[0][0] != secret.fingerprint:
        found.problems.append(
            f"the store belongs to the secret with fingerprint {rows[0][0]}, and this one has "
            f"{secret.fingerprint}."
        )


def _check_campaign(connection: Connection, campaign: catalogue.Campaign, found: Findings) -> None:
    name = campaign.name
    found.problems += islice(_unreadable(connection, name), _LISTED)
    version = campaign.plan_version
    if not connection.execute(
        "SELECT 1 FROM plans WHERE campaign = ? AND version = ?", (name, version)
    ):
        found.problems.append(f"campaign {name!r} has no plan {version}, which is served.")
    n_decisions = 0
    wrong = 0
    for first_ms, last_ms, n, records in connection.stream(
        "SELECT first_ms, last_ms, n, records FROM decisions WHERE campaign = ?", (name,)
    ):
        try:
            decoded = decode_records(records)
        except msgspec.DecodeError:
            decoded = []
        is_good = len(decoded) == n and all(
            one.campaign == name and first_ms <= one.time_ms <= last_ms for one in decoded
        )
        wrong += not is_good
        n_decisions += len(decoded)
    if wrong:
        found.problems.append(
            f"campaign {name!r} has {wrong:,} rows of decisions that are damaged."
        )
    numbers = {"decisions": n_decisions}
    for table in ("rewards", "activations"):
        numbers[table] = wrong = 0
        for decision, record in connection.stream(
            f"SELECT decision, record FROM {table} WHERE campaign = ?", (name,)
        ):
            numbers[table] += 1
            is_good = False
            with suppress(msgspec.DecodeError):
                is_good = decode_record(bytes(record)).id == bytes(decision)
            wrong += not is_good
        if wrong:
            found.problems.append(f"campaign {name!r} has {wrong:,} damaged {table}.")
    found.numbers[name] = numbers


def _unreadable(connection: Connection, name: str) -> Iterator[str]:
    """Yield sentences about plans and policies that cannot be read."""
    for version, text in connection.stream(
        "SELECT version, plan FROM plans WHERE campaign = ?", (name,)
    ):
        try:
            EpochPlan.from_json(json.loads(text), campaign=name)
        except (InputError, ValueError) as error:
            yield f"plan {version} of campaign {name!r} cannot be read: {error}"
    for version, text in connection.stream(
        "SELECT version, policy FROM policies WHERE campaign = ?", (name,)
    ):
        try:
            Policy.from_json(json.loads(text))
        except (InputError, ValueError) as error:
            yield f"policy {version} of campaign {name!r} cannot be read: {error}"


def back_up(url: str, to: str) -> dict[str, int]:
    """Copy a store of one moment to a new one, while it is served; return the rows of each table.

    The copy is a store like any other: it is served with the same secret, or copied back.
    """
    if to.startswith("sqlite:///"):
        path = Path(to.removeprefix("sqlite:///"))
        if path.exists():
            raise InputError(f"{path} is there already; give {option('--to')} another file.")
        with whole_file(path) as draft:
            draft.chmod(0o600)
            return _copied(url, f"sqlite:///{draft.absolute()}")
    return _copied(url, to)


def _copied(url: str, to: str) -> dict[str, int]:
    target = opened(to)
    target.create()
    with opened(url).connected() as source, target.connected() as copy:
        source.begin_reading()
        format_of(source)
        with copy.transaction():
            if catalogue.campaigns(copy):
                raise InputError(
                    f"the store that {option('--to')} names has campaigns; name a new one."
                )
            copy.execute("DELETE FROM meta")
            return {table: _copy_table(source, copy, table) for table in COLUMNS}


def _copy_table(source: Connection, copy: Connection, table: str) -> int:
    columns = ", ".join(COLUMNS[table])
    row_sql = f"({', '.join('?' * len(COLUMNS[table]))})"
    rows = source.stream(f"SELECT {columns} FROM {table}")
    n = 0
    while part := list(islice(rows, _ROWS)):
        copy.execute(
            f"INSERT INTO {table} ({columns}) VALUES {', '.join([row_sql] * len(part))}",
            [value for row in part for value in row],
        )
        n += len(part)
    return n


def migrate(url: str) -> tuple[str, str]:
    """Bring a store to the format of this version; return the formats before and after."""
    database = opened(url)
    with database.connected() as connection:
        before = format_of(connection, is_older_good=True)
    database.create(migrates=True)
    with database.connected() as connection:
        return before, format_of(connection)
