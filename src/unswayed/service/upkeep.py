"""Maintenance of a store: check, backup, migration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from unswayed.errors import InputError, option
from unswayed.policy import EpochPlan, Policy
from unswayed.service import catalogue
from unswayed.service.database import COLUMNS, SCHEMA_VERSION, Connection, Row, format_of, opened
from unswayed.service.tokens import Record, Secrets, decode_record, decode_records
from unswayed.storage import whole_file

_ROWS = 100  # Ours: rows in one statement
_LISTED = 5  # Maximum number of listed problems of one kind


def check_store(url: str, secret: Secrets | None) -> dict[str, Any]:
    """Read everything in a store, and return its problems as sentences.

    A ``secret`` is compared with the one that the store is bound to.
    """
    numbers: dict[str, dict[str, int]] = {}
    with opened(url).connected() as connection, connection.reading():
        found = {"format": format_of(connection), "campaigns": numbers}
        problems = connection.damage()
        bound = connection.meta("secret")
        if secret is not None and bound not in (None, secret.fingerprint):
            problems.append(
                f"the store belongs to the secret with fingerprint {bound}, but this one has "
                f"{secret.fingerprint}."
            )
        for campaign in catalogue.campaigns(connection):
            numbers[campaign.name] = _check_campaign(connection, campaign, problems)
    return {**found, "problems": problems, "is_good": not problems}


def _check_campaign(
    connection: Connection, campaign: catalogue.Campaign, problems: list[str]
) -> dict[str, int]:
    """Add a campaign's problems to ``problems``, and return its number of records."""
    name = campaign.name

    def rows_of(table: str, columns: str) -> Iterator[Row]:
        return connection.stream(f"SELECT {columns} FROM {table} WHERE campaign = ?", name)

    def unreadable(kind: str, table: str, read: Callable[[Any], object]) -> Iterator[str]:
        for version, text in rows_of(table, f"version, {kind}"):
            try:
                read(json.loads(text))
            except (InputError, ValueError) as error:
                yield f"{kind} {version} of campaign {name!r} cannot be read: {error}"

    plans = unreadable("plan", "plans", partial(EpochPlan.from_json, campaign=name))
    policies = unreadable("policy", "policies", Policy.from_json)
    problems += islice(chain(plans, policies), _LISTED)
    version = campaign.plan_version
    if not any(served == version for (served,) in rows_of("plans", "version")):
        problems.append(f"campaign {name!r} has no plan {version}, which is served.")
    numbers = {"decisions": 0}
    wrong = 0
    for first_ms, last_ms, n, records in rows_of("decisions", "first_ms, last_ms, n, records"):
        decoded: list[Record] = []
        with suppress(msgspec.DecodeError):
            decoded = decode_records(records)
        wrong += len(decoded) != n or not all(
            one.campaign == name and first_ms <= one.time_ms <= last_ms for one in decoded
        )
        numbers["decisions"] += len(decoded)
    if wrong:
        problems.append(f"campaign {name!r} has {wrong:,} rows of decisions that are damaged.")
    for table in ("rewards", "activations"):
        numbers[table] = n_good = 0
        for decision, record in rows_of(table, "decision, record"):
            numbers[table] += 1
            with suppress(msgspec.DecodeError):
                n_good += decode_record(record).id == decision
        if wrong := numbers[table] - n_good:
            problems.append(f"campaign {name!r} has {wrong:,} damaged {table}.")
    return numbers


def back_up(url: str, to: str) -> dict[str, int]:
    """Copy a snapshot of a store, which may be in use, to a new one.

    Return the number of rows of each table. The copy can be served with the same secret.
    """
    if not to.startswith("sqlite:///"):
        return _copied(url, to)
    path = Path(to.removeprefix("sqlite:///"))
    if path.exists():
        raise InputError(f"{path} exists already; give {option('--to')} another file.")
    with whole_file(path) as draft:
        draft.chmod(0o600)
        return _copied(url, f"sqlite:///{draft.absolute()}")


def _copied(url: str, to: str) -> dict[str, int]:
    target = opened(to)
    target.create()
    with opened(url).connected() as source, target.connected() as copy, source.reading():
        format_of(source)
        numbers = dict.fromkeys(COLUMNS, 0)
        with copy.transaction():
            if catalogue.campaigns(copy):
                raise InputError(
                    f"the store that {option('--to')} names has campaigns; name a new one."
                )
            copy.execute("DELETE FROM meta")
            for table, columns in COLUMNS.items():
                rows = source.stream(f"SELECT {', '.join(columns)} FROM {table}")
                while part := list(islice(rows, _ROWS)):
                    copy.insert(table, part)
                    numbers[table] += len(part)
        return numbers


def migrate(url: str) -> tuple[str, str]:
    """Bring a store to the format of this version; return the formats before and after."""
    database = opened(url)
    with database.connected() as connection:
        before = format_of(connection, is_older_good=True)
    database.create(migrates=True)
    return before, SCHEMA_VERSION
