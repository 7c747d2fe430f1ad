"""Campaigns, plans, policies and keys in the store; every change is one transaction."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from unswayed.errors import InputError
from unswayed.policy import EpochPlan, Policy
from unswayed.service.database import OF_CAMPAIGNS, Connection
from unswayed.service.errors import Refusal
from unswayed.service.planning import Progress, make_plan, next_plan_of
from unswayed.service.settings import Settings, check_name

ACTIVE, ARCHIVED = "active", "archived"

NOTHING_LEARNED = 0  # Policy version of a campaign that has learned nothing


_RENAMED = {"plan_version": "plan", "policy_version": "policy"}


class Campaign(msgspec.Struct, frozen=True, rename=_RENAMED):
    """A campaign as stored, and as JSON."""

    name: str
    state: str
    created_ms: int
    plan_version: int
    policy_version: int
    settings: Settings


def now_ms() -> int:
    """Return the time in milliseconds since 1970, never negative."""
    return max(time.time_ns() // 1_000_000, 0)


def bump(connection: Connection) -> None:
    """Increase the change counter, so that every process reloads its state."""
    connection.execute(
        "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE name = 'change'"
    )


def campaigns(connection: Connection, **equal: str) -> list[Campaign]:
    """Return the campaigns, ordered by name; with column values given, only those that match."""
    columns = "name, state, created_ms, plan, policy, settings"
    return [
        Campaign(*(*row[:-1], msgspec.json.decode(row[-1], type=Settings)))
        for row in connection.select("campaigns", columns, "ORDER BY name", **equal)
    ]


def campaign(connection: Connection, name: str) -> Campaign:
    """Return a campaign; reject an unknown name."""
    found = campaigns(connection, name=name)
    if not found:
        raise unknown_campaign(name)
    return found[0]


def locked(connection: Connection, name: str) -> Campaign:
    """Return a campaign, locked against changes by other processes until the transaction ends.

    On PostgreSQL it may differ from what was read before it was locked.
    """
    connection.execute("UPDATE campaigns SET plan = plan WHERE name = ?", name)
    return campaign(connection, name)


def unknown_campaign(name: str) -> Refusal:
    """Return the response to a request for an unknown campaign."""
    return Refusal(404, "unknown_campaign", f"there is no campaign {name[:80]!r}; create it first.")


def create_campaign(connection: Connection, name: str, settings: Settings) -> Campaign:
    """Create a campaign with its first plan; repeating the same request is not an error."""
    check_name(name)
    text = msgspec.json.encode(settings).decode()
    row = (name, text, ACTIVE, now_ms(), 0, NOTHING_LEARNED)
    (is_new,) = connection.insert_new("campaigns", [row])
    if not is_new:
        there = campaign(connection, name)
        if there.settings != settings:
            raise Refusal(
                409, "campaign_exists", f"campaign {name!r} exists already with other settings."
            )
        return there
    return publish(connection, name, reason="created")


def publish(
    connection: Connection,
    name: str,
    *,
    reason: str,
    settings: Settings | None = None,
    policy_version: int | None = None,
    progress: Progress | None = None,
) -> Campaign:
    """Make the next plan of a campaign and serve it; omitted arguments keep their values."""
    # Update first: this locks out other publishers until the transaction ends.
    connection.execute("UPDATE campaigns SET plan = plan + 1 WHERE name = ?", name)
    old = campaign(connection, name)
    settings = old.settings if settings is None else settings
    chosen = old.policy_version if policy_version is None else policy_version
    policy = policy_of(connection, name, chosen)
    if old.plan_version == 1:
        plan = make_plan(name, settings)
    else:
        before, played = plan_of(connection, name, old.plan_version - 1)
        is_moved = _shape(policy) != _shape(policy_of(connection, name, played))
        if is_moved and progress is None:
            # Continue with the actions that were explored when this policy was last served.
            ((last,),) = connection.select("plans", "MAX(version)", campaign=name, policy=chosen)
            if last is not None:
                before = replace(plan_of(connection, name, last)[0], epoch=before.epoch)
        plan = next_plan_of(before, settings, policy, progress, is_moved=is_moved)
    row = (name, old.plan_version, now_ms(), reason, chosen, json.dumps(plan.to_json()))
    connection.insert("plans", [row])
    text = msgspec.json.encode(settings).decode()
    sql = "UPDATE campaigns SET settings = ?, policy = ? WHERE name = ?"
    connection.execute(sql, text, chosen, name)
    bump(connection)
    return campaign(connection, name)


def _shape(policy: Policy | None) -> str:
    """Return the hash of a policy's partition; empty if contexts are labels."""
    return "" if policy is None or policy.partition is None else policy.partition.hash


def plan_of(connection: Connection, name: str, version: int) -> tuple[EpochPlan, int]:
    """Return a plan and the version of the policy it plays."""
    rows = connection.select("plans", "plan, policy", campaign=name, version=version)
    if not rows:
        raise Refusal(404, "unknown_plan", f"campaign {name!r} has no plan {version}.")
    return EpochPlan.from_json(json.loads(rows[0][0]), campaign=name), int(rows[0][1])


def policy_of(connection: Connection, name: str, version: int) -> Policy | None:
    """Return a policy; None for version 0, before anything was learned."""
    if version == NOTHING_LEARNED:
        return None
    rows = connection.select("policies", "policy", campaign=name, version=version)
    if not rows:
        raise Refusal(404, "unknown_policy", f"campaign {name!r} has no policy {version}.")
    return Policy.from_json(json.loads(rows[0][0]))


def policy_versions(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Return the policy versions, oldest first."""
    there = campaign(connection, name)
    names = ("version", "created_ms", "job")
    rows = connection.select("policies", ", ".join(names), "ORDER BY version", campaign=name)
    return [
        {**dict(zip(names, row, strict=True)), "is_active": row[0] == there.policy_version}
        for row in [(NOTHING_LEARNED, there.created_ms, ""), *rows]
    ]


def add_policy(
    connection: Connection,
    name: str,
    policy: Policy,
    *,
    job: str,
    activate: bool,
    progress: Progress | None = None,
) -> int:
    """Store a learned policy, and serve it if ``activate``; return its version."""
    there = locked(connection, name)
    ((last,),) = connection.select("policies", "COALESCE(MAX(version), 0)", campaign=name)
    version = int(last) + 1
    row = (name, version, now_ms(), job, json.dumps(policy.to_json()))
    connection.insert("policies", [row])
    if activate and there.state == ACTIVE:
        reason = f"policy {version} was learned"
        publish(connection, name, reason=reason, policy_version=version, progress=progress)
    return version


def activate_policy(connection: Connection, name: str, version: int) -> Campaign:
    """Serve a stored policy version; a no-op if it is served already."""
    there = campaign(connection, name)
    if version == there.policy_version:
        return there
    policy_of(connection, name, version)  # raises if the version is unknown
    reason = f"policy {version} was activated"
    return publish(connection, name, reason=reason, policy_version=version)


def change_settings(connection: Connection, name: str, settings: Settings) -> Campaign:
    """Change the settings of a campaign; labels can only be added."""
    there = campaign(connection, name)
    for kind in ("contexts", "actions"):
        gone = set(getattr(there.settings, kind)) - set(getattr(settings, kind))
        if gone:
            raise InputError(
                f"{kind} cannot be removed while their decisions are open: {min(gone)!r}."
            )
    for feature, old in there.settings.features.items():
        new = settings.features.get(feature)
        if new is None or (new.type, new.bins) != (old.type, old.bins):
            raise InputError(
                f"feature {feature!r} cannot be removed, nor can its type or bins change: "
                "decisions were recorded with them."
            )
    if settings == there.settings:
        return there
    return publish(connection, name, reason="settings were changed", settings=settings)


def set_state(connection: Connection, name: str, state: str) -> Campaign:
    """Archive or restore a campaign."""
    connection.execute("UPDATE campaigns SET state = ? WHERE name = ?", state, name)
    bump(connection)
    return campaign(connection, name)


archive = partial(set_state, state=ARCHIVED)
restore = partial(set_state, state=ACTIVE)


def delete_campaign(connection: Connection, name: str) -> None:
    """Delete a campaign and all its records."""
    campaign(connection, name)
    for table in OF_CAMPAIGNS:
        connection.execute(f"DELETE FROM {table} WHERE campaign = ?", name)
    connection.execute("DELETE FROM campaigns WHERE name = ?", name)
    bump(connection)
